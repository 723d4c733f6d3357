// Each key of ops claims one key of the profile: the first that is there of keys_in_profile(). A
// profile's key that exactly one key of ops claims is matched.
#include "validation/explain/matched_comms.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "traces/profile/profile_metrics.h"

namespace tandem {
namespace {

// Sizes farther apart than this factor are of different things: a loss is not a gradient.
constexpr double kMostBetweenAlike = 16;

using Ops = std::vector<std::uint32_t>;
using Kernels = std::vector<const ProfileKernel*>;

// Returns the factor between two sizes. A size that is not known is the same as any: a profile need
// not tell it, and ops have none with costs.source = "uniform".
double factor_between(double op_bytes, std::optional<double> kernel_bytes) {
  if (op_bytes <= 0 || kernel_bytes.value_or(0) <= 0) return 1;
  return std::max(op_bytes, *kernel_bytes) / std::min(op_bytes, *kernel_bytes);
}

// Matches the ops and kernels of one key.
class OneKey {
 public:
  OneKey(const Body& body, const ProfileRank& profile, MatchedComms* matched)
      : body_(body), profile_(profile), matched_(*matched) {}

  void match(Ops ops, Kernels kernels) {
    const auto are_alike = [&](std::uint32_t op, const ProfileKernel* kernel) {
      return factor_between(bytes_of_op(op), bytes_of(profile_, *kernel)) <= kMostBetweenAlike;
    };
    if (std::ranges::equal(ops, kernels, are_alike)) return add(ops, kernels);
    match_sizes(/*most_between=*/1, &ops, &kernels);
    match_sizes(kMostBetweenAlike, &ops, &kernels);
  }

 private:
  double bytes_of_op(std::uint32_t op) const { return static_cast<double>(body_.ops[op].bytes); }

  void add(const Ops& ops, const Kernels& kernels) {
    for (std::size_t i = 0; i < ops.size(); ++i) matched_.pairs.emplace_back(ops[i], kernels[i]);
  }

  // Gives each kernel the nearest size of an op that is at most `most_between` times its own.
  // Matches sizes with as many kernels as ops, and leaves the rest in both arguments.
  void match_sizes(double most_between, Ops* ops, Kernels* kernels) {
    std::map<double, Ops> ops_of;  // by bytes
    std::map<double, Kernels> kernels_of;
    for (const std::uint32_t op : *ops) ops_of[bytes_of_op(op)].push_back(op);
    Kernels left;
    for (const ProfileKernel* kernel : *kernels) {
      const std::optional<double> bytes = bytes_of(profile_, *kernel);
      const auto distance = [&](const auto& size) {
        const bool is_unknown_beside_known = size.first == 0 && ops_of.size() > 1;
        return is_unknown_beside_known ? std::numeric_limits<double>::infinity()
                                       : factor_between(size.first, bytes);
      };
      const auto nearest = std::ranges::min_element(ops_of, {}, distance);
      const bool has_size = bytes && nearest != ops_of.end() && distance(*nearest) <= most_between;
      (has_size ? kernels_of[nearest->first] : left).push_back(kernel);
    }
    ops->clear();
    for (const auto& [bytes, of_size] : ops_of) {
      const Kernels& alike = kernels_of[bytes];
      if (of_size.size() == alike.size()) {
        add(of_size, alike);
      } else {
        ops->insert(ops->end(), of_size.begin(), of_size.end());
        left.insert(left.end(), alike.begin(), alike.end());
      }
    }
    std::ranges::stable_sort(left, {}, [](const auto* kernel) { return kernel->start_ns; });
    *kernels = std::move(left);
  }

  const Body& body_;
  const ProfileRank& profile_;
  MatchedComms& matched_;
};

// Counts the communications by label, all as unmatched.
template <class ByComm>
std::map<std::string, CommCount> counts_of(const ByComm& comms) {
  std::map<std::string, CommCount> counts;
  for (const auto& [key, of_key] : comms) {
    CommCount& count = counts[key.first.text()];
    count.all += std::ssize(of_key);
    count.unmatched += std::ssize(of_key);
  }
  return counts;
}

}  // namespace

void CommCounts::add(const CommCounts& other) {
  for (const auto side : {&CommCounts::ops, &CommCounts::kernels}) {
    for (const auto& [label, count] : other.*side) {
      CommCount& sum = (this->*side)[label];
      sum.all += count.all;
      sum.unmatched += count.unmatched;
    }
  }
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
  MatchedComms matched{.pairs = {}, .counts = {counts_of(ops), counts_of(kernels)}};
  std::map<CommKey, std::vector<CommKey>> claims;  // by the profile's key: those of ops
  for (const auto& [key, of_key] : ops) {
    const std::vector<CommKey> keys = keys_in_profile(key);
    const auto surest =
        std::ranges::find_if(keys, [&](const CommKey& each) { return kernels.contains(each); });
    if (surest != keys.end()) claims[*surest].push_back(key);
  }
  for (const auto& [key, claiming] : claims) {
    if (claiming.size() != 1) continue;
    const CommKey& op_key = claiming.front();
    const std::size_t before = matched.pairs.size();
    OneKey(body, profile, &matched).match(ops.at(op_key), kernels.at(key));
    const auto found = static_cast<std::int64_t>(matched.pairs.size() - before);
    matched.counts.kernels[key.first.text()].unmatched -= found;
    matched.counts.ops[op_key.first.text()].unmatched -= found;
  }
  return matched;
}

}  // namespace tandem
