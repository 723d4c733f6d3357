// In: kernels and ops by key. Each key of ops claims the surest of the profile's keys that it may
// have; a profile's key that exactly one key of ops claims is matched.
#include "validation/explain/matched_comms.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <span>

#include "traces/profile/profile_metrics.h"

namespace tandem {
namespace {

// Sizes farther apart than this factor are of different things: a sum of gradients, and of a loss.
constexpr double kAlike = 16;

using Ops = std::vector<std::uint32_t>;
using Kernels = std::vector<const ProfileKernel*>;

// Returns the factor between both sizes; 1 where the profile does not tell its size, or the
// scenario (costs.source = "uniform") has none.
double factor_between(double op_bytes, std::optional<double> kernel_bytes) {
  const double least = std::min(op_bytes, kernel_bytes.value_or(0));
  return least > 0 ? std::max(op_bytes, *kernel_bytes) / least : 1;
}

// Matches the ops and kernels of one key.
class OneKey {
 public:
  OneKey(const Body& body, const ProfileRank& profile, MatchedComms* matched)
      : body_(body), profile_(profile), matched_(*matched) {}

  void match(Ops ops, Kernels kernels) {
    if (are_in_order(ops, kernels)) {
      add(ops, kernels);
      return;
    }
    match_sizes(1, &ops, &kernels);
    match_sizes(kAlike, &ops, &kernels);
  }

 private:
  double bytes_of_op(std::uint32_t op) const { return static_cast<double>(body_.ops[op].bytes); }

  bool are_in_order(const Ops& ops, const Kernels& kernels) const {
    return std::ranges::equal(ops, kernels, [&](std::uint32_t op, const ProfileKernel* kernel) {
      return factor_between(bytes_of_op(op), bytes_of(profile_, *kernel)) <= kAlike;
    });
  }

  void add(const Ops& ops, const Kernels& kernels) {
    for (std::size_t i = 0; i < ops.size(); ++i) matched_.pairs.emplace_back(ops[i], kernels[i]);
  }

  // Sorts kernels to the nearest size of ops, which is at most `factor` away. Leaves what then has
  // no match.
  void match_sizes(double factor, Ops* ops, Kernels* kernels) {
    std::map<double, std::pair<Ops, Kernels>> sizes;
    for (const std::uint32_t op : *ops) sizes[bytes_of_op(op)].first.push_back(op);
    Kernels left;
    for (const ProfileKernel* kernel : *kernels) {
      const std::optional<double> bytes = bytes_of(profile_, *kernel);
      const auto to = [&](const auto& size) {
        const bool is_empty_among_others = size.first == 0 && sizes.size() > 1;
        return is_empty_among_others ? 2 * kAlike : factor_between(size.first, bytes);
      };
      const auto nearest = std::ranges::min_element(sizes, {}, to);
      const bool has_size = bytes && nearest != sizes.end() && to(*nearest) <= factor;
      (has_size ? nearest->second.second : left).push_back(kernel);
    }
    ops->clear();
    for (const auto& [bytes, both] : sizes) {
      const auto& [of_size, alike] = both;
      if (of_size.size() == alike.size()) {
        add(of_size, alike);
        continue;
      }
      ops->insert(ops->end(), of_size.begin(), of_size.end());
      left.insert(left.end(), alike.begin(), alike.end());
    }
    std::ranges::stable_sort(left, {}, [](const auto* kernel) { return kernel->start_ns; });
    *kernels = std::move(left);
  }

  const Body& body_;
  const ProfileRank& profile_;
  MatchedComms& matched_;
};

void add_counts(const std::map<std::string, CommCount>& more,
                std::map<std::string, CommCount>* counts) {
  for (const auto& [label, count] : more) {
    (*counts)[label].all += count.all;
    (*counts)[label].unmatched += count.unmatched;
  }
}

}  // namespace

void CommCounts::add(const CommCounts& other) {
  add_counts(other.ops, &ops);
  add_counts(other.kernels, &kernels);
}

std::string CommCounts::note() const {
  std::vector<std::string> parts;
  const auto add = [&](const std::string& whose, const std::map<std::string, CommCount>& counts) {
    for (const auto& [label, count] : counts) {
      if (count.unmatched > 0)
        parts.push_back(
            fmt::format("{} of the {}'s {} {}", count.unmatched, whose, count.all, label));
    }
  };
  add("scenario", ops);
  add("profile", kernels);
  if (parts.empty()) return "";
  return fmt::format(
      "Communication that is not matched, over all measured ranks and steps, so that it tells "
      "nothing: {}.",
      fmt::join(parts, ", "));
}

MatchedComms matched_comms(const Body& body, const OpsByComm& ops, const ProfileRank& profile,
                           const KernelsByComm& kernels) {
  MatchedComms matched;
  std::map<CommKey, std::vector<CommKey>> claims;  // by the profile's key: those of ops
  for (const auto& [key, numbers] : ops) {
    CommCount& count = matched.counts.ops[key.first.text()];
    count.all += std::ssize(numbers);
    count.unmatched += std::ssize(numbers);
    for (const CommKey& known : keys_in_profile(key)) {
      if (!kernels.contains(known)) continue;
      claims[known].push_back(key);
      break;
    }
  }
  for (const auto& [key, of_key] : kernels) {
    CommCount& count = matched.counts.kernels[key.first.text()];
    count.all += std::ssize(of_key);
    count.unmatched += std::ssize(of_key);
    const auto claimed = claims.find(key);
    if (claimed == claims.end() || claimed->second.size() != 1) continue;
    const CommKey& claiming = claimed->second.front();
    const std::size_t before = matched.pairs.size();
    OneKey(body, profile, &matched).match(ops.at(claiming), of_key);
    const auto found = static_cast<std::int64_t>(matched.pairs.size() - before);
    count.unmatched -= found;
    matched.counts.ops[claiming.first.text()].unmatched -= found;
  }
  return matched;
}

}  // namespace tandem
