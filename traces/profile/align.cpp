// Shifts of clocks along known ranks: every pair of ranks with common collectives has a median
// difference of ends, and shifts spread along these pairs from rank to rank. In: ranks with clocks
// of their own. Out: the same ranks on the clock of the first of each connected set.
#include "traces/profile/align.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "base/quantile.h"
#include "traces/profile/finish_rank.h"
#include "traces/profile/kernel_names.h"

namespace tandem {
namespace {

// Identifies a collective on all ranks: group, its ranks, what it does, and its number there. The
// two ends of a transfer are the same one, whatever each rank calls it.
using CollectiveKey = std::tuple<std::string, std::string, std::string, std::int64_t>;

struct Participation {
  std::size_t rank = 0;  // place in the profile
  std::size_t kernel = 0;
};

struct Matched {
  std::vector<Participation> seen;  // one for each rank, by rank
  int group_size = 0;
  bool ends_together = false;
};

using MatchedCollectives = std::map<CollectiveKey, Matched>;

// The participants, as far as a kernel's arguments say. Size 0: they do not say enough.
struct Participants {
  std::string group, ranks, what;
  int size = 0;
};

Participants participants_of(const ProfileRank& rank, const ProfileKernel& kernel) {
  const CollectiveArgs& args = rank.collectives[kernel.collective];
  Participants who{rank.names.text(args.group), rank.names.text(args.ranks),
                   collective_of(rank.names.text(args.collective), rank.name_of(kernel)),
                   args.group_size};
  if (who.what == "send/recv" && args.from >= 0 && args.to >= 0 && args.from != args.to) {
    who.ranks = fmt::format("{}>{}", args.from, args.to);
    who.size = 2;
  }
  // torch shortens long lists; the file's list of groups has them whole.
  if (who.ranks.find("...") != std::string::npos) {
    const auto whole = std::ranges::find(rank.groups, who.group, &ProcessGroup::name);
    if (whole != rank.groups.end() && static_cast<int>(whole->ranks.size()) == who.size)
      who.ranks = fmt::format("{}", fmt::join(whole->ranks, ","));
  }
  if (who.ranks.empty() || who.ranks.find("...") != std::string::npos) who.size = 0;
  return who;
}

void add_collectives(const ProfileRank& rank, std::size_t place, MatchedCollectives* all) {
  using Group = std::tuple<std::string, std::string, std::string>;
  std::map<Group, std::int64_t> counts, counted;
  const auto each = [&](const auto& use) {
    for (std::size_t i = 0; i < rank.kernels.size(); ++i) {
      if (rank.kernels[i].collective < 0) continue;
      const Participants who = participants_of(rank, rank.kernels[i]);
      if (who.size >= 2) use(i, who);
    }
  };
  each([&](std::size_t, const Participants& who) { ++counts[{who.group, who.ranks, who.what}]; });
  each([&](std::size_t i, const Participants& who) {
    const Group group{who.group, who.ranks, who.what};
    const std::int64_t sequence = rank.collectives[rank.kernels[i].collective].sequence;
    // Without sequence numbers they match by order, if all ranks have equally many.
    CollectiveKey key{who.group, who.ranks, who.what, sequence};
    if (sequence < 0)
      key = {who.group, who.ranks, fmt::format("{} of {}", who.what, counts[group]),
             counted[group]++};
    Matched& matched = (*all)[key];
    matched.group_size = who.size;
    matched.ends_together = who.what == "all-reduce" || who.what == "all-gather" ||
                            who.what == "reduce-scatter" || who.what == "all-to-all" ||
                            who.what == "barrier";
    if (matched.seen.empty() || matched.seen.back().rank != place)
      matched.seen.push_back({place, i});
  });
}

// The differences of each pair of ranks: for each collective that both have, its end on the first
// rank less that on the second.
using Differences = std::map<std::pair<std::size_t, std::size_t>, std::vector<Nanoseconds>>;

Differences differences_of(const Profile& profile, const MatchedCollectives& matched) {
  Differences differences;
  for (const auto& [key, collective] : matched) {
    if (!collective.ends_together || collective.seen.size() < 2) continue;
    const Participation& first = collective.seen.front();
    const auto end_of = [&](const Participation& seen) {
      return profile.ranks[seen.rank].kernels[seen.kernel].end_ns;
    };
    for (std::size_t i = 1; i < collective.seen.size(); ++i) {
      const Participation& other = collective.seen[i];
      differences[{first.rank, other.rank}].push_back(end_of(first) - end_of(other));
    }
  }
  return differences;
}

// Finds each rank's shift and applies it. The first rank has none. A rank that has collectives with
// a known one gets that one's shift plus the median of their differences. If ranks are left that
// are connected with no known one, the first of them begins a new set.
void align_clocks(const MatchedCollectives& matched, Profile* profile) {
  const Differences differences = differences_of(*profile, matched);
  std::vector<bool> known(profile->ranks.size());
  std::vector<Nanoseconds> shifts(profile->ranks.size());
  for (std::size_t begin = 0; begin < known.size(); ++begin) {
    if (known[begin]) continue;
    known[begin] = true;
    for (bool found = true; found;) {
      found = false;
      for (const auto& [pair, values] : differences) {
        const auto [a, b] = pair;
        if (known[a] == known[b]) continue;
        const Nanoseconds difference = lower_median(values);
        shifts[known[a] ? b : a] = known[a] ? shifts[a] + difference : shifts[b] - difference;
        known[a] = known[b] = found = true;
      }
    }
  }
  for (std::size_t i = 0; i < shifts.size(); ++i) {
    profile->ranks[i].clock_shift_ns = shifts[i];
    shift(shifts[i], &profile->ranks[i]);
  }
}

}  // namespace

void align(Profile* profile) {
  MatchedCollectives matched;
  for (std::size_t i = 0; i < profile->ranks.size(); ++i)
    add_collectives(profile->ranks[i], i, &matched);
  align_clocks(matched, profile);
  for (const auto& [key, collective] : matched) {
    if (static_cast<int>(collective.seen.size()) != collective.group_size) continue;
    Nanoseconds last = 0;
    bool first = true;
    for (const Participation& seen : collective.seen) {
      const Nanoseconds start = profile->ranks[seen.rank].kernels[seen.kernel].start_ns;
      last = first ? start : std::max(last, start);
      first = false;
    }
    for (const Participation& seen : collective.seen) {
      ProfileKernel& kernel = profile->ranks[seen.rank].kernels[seen.kernel];
      kernel.transfer_start_ns = std::min(last, kernel.end_ns);
    }
  }
}

}  // namespace tandem
