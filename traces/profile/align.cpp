// Finds by how much clocks differ, for pairs of ranks, and spreads shifts along these pairs from
// rank to rank.
#include "traces/profile/align.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "base/quantile.h"
#include "traces/profile/finish_rank.h"
#include "traces/profile/kernel_names.h"
#include "traces/profile/profile_metrics.h"

namespace tandem {
namespace {

// Identifies a collective on all ranks: group, the group's ranks, name, and number in the group.
// Both ends of a transfer have one key, whatever each rank calls it.
using CollectiveKey = std::tuple<std::string, std::string, std::string, std::int64_t>;

// A collective's kernel on one rank.
struct Participation {
  std::size_t rank = 0;  // place in the profile
  std::size_t kernel = 0;
};

struct Matched {
  std::vector<Participation> participations;  // one for each rank, by rank
  int group_size = 0;
  bool ends_together = false;
  bool is_transfer = false;  // from one rank to another
};

using Nanospan = std::pair<Nanoseconds, Nanoseconds>;
using MatchedCollectives = std::map<CollectiveKey, Matched>;

// A collective and its participants, as a kernel's arguments say.
struct Participants {
  std::string group, ranks, collective;
  int size = 0;  // 0: the arguments do not say who takes part
};

// Says whether the kernel is a transfer in a pipeline of more than two ranks, and the profile does
// not tell between which: one of a batch (batch_isend_irecv), for example.
bool lacks_ends(const ProfileRank& rank, const ProfileKernel& kernel) {
  if (kernel.collective < 0) return false;
  const CollectiveArgs& args = rank.collectives[kernel.collective];
  if (args.group_size <= 2 || (args.from >= 0 && args.to >= 0)) return false;
  if (collective_of(rank.names.text(args.collective), rank.name_of(kernel)) != "send/recv")
    return false;
  return label_of(rank, kernel) == CommLabel{GroupKind::Pipeline, "send/recv"};
}

Participants participants_of(const ProfileRank& rank, const ProfileKernel& kernel) {
  const CollectiveArgs& args = rank.collectives[kernel.collective];
  Participants who{rank.names.text(args.group), rank.names.text(args.ranks),
                   collective_of(rank.names.text(args.collective), rank.name_of(kernel)),
                   args.group_size};
  const bool has_ends = args.from >= 0 && args.to >= 0 && args.from != args.to;
  if (who.collective == "send/recv" && has_ends) {
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
  if (lacks_ends(rank, kernel)) who.size = 0;
  return who;
}

// Says whether the collective ends on all of its ranks at about the same time.
bool ends_together(std::string_view collective) {
  constexpr std::string_view kTogether[] = {"all-reduce", "all-gather", "reduce-scatter",
                                            "all-to-all", "barrier"};
  return std::ranges::find(kTogether, collective) != std::end(kTogether);
}

// Adds the rank's collectives and transfers. `place`: the rank's, in the profile.
void add_collectives(const ProfileRank& rank, std::size_t place, MatchedCollectives* all) {
  using Group = std::tuple<std::string, std::string, std::string>;   // with ranks and collective
  std::map<Group, std::vector<std::pair<std::size_t, int>>> groups;  // kernels, their group sizes
  for (std::size_t i = 0; i < rank.kernels.size(); ++i) {
    if (rank.kernels[i].collective < 0) continue;
    const Participants who = participants_of(rank, rank.kernels[i]);
    if (who.size >= 2) groups[{who.group, who.ranks, who.collective}].emplace_back(i, who.size);
  }
  for (const auto& [of_group, kernels] : groups) {
    const auto& [group, ranks, collective] = of_group;
    std::int64_t unnumbered = 0;
    for (const auto& [kernel, size] : kernels) {
      CollectiveKey key{group, ranks, collective,
                        rank.collectives[rank.kernels[kernel].collective].sequence};
      // Without sequence numbers kernels match by order. The key holds the group's total, so that
      // ranks with unequal totals do not match.
      if (std::get<3>(key) < 0)
        key = {group, ranks, fmt::format("{} of {}", collective, kernels.size()), unnumbered++};
      Matched& matched = (*all)[key];
      matched.group_size = size;
      matched.ends_together = ends_together(collective);
      matched.is_transfer = collective == "send/recv" && ranks.find('>') != std::string::npos;
      // A sequence number that a rank uses twice counts once.
      if (matched.participations.empty() || matched.participations.back().rank != place)
        matched.participations.push_back({place, kernel});
    }
  }
}

// By pair of ranks (a, b): a's clock minus b's clock at one moment.
using Differences = std::map<std::pair<std::size_t, std::size_t>, Nanoseconds>;

Nanoseconds end_of(const Profile& profile, const Participation& part) {
  return profile.ranks[part.rank].kernels[part.kernel].end_ns;
}

Differences differences_of(const Profile& profile, const MatchedCollectives& matched) {
  std::map<std::pair<std::size_t, std::size_t>, std::vector<Nanoseconds>> all;
  for (const auto& [key, collective] : matched) {
    if (!collective.ends_together || collective.participations.size() < 2) continue;
    const Participation& first = collective.participations.front();
    for (std::size_t i = 1; i < collective.participations.size(); ++i) {
      const Participation& other = collective.participations[i];
      all[{first.rank, other.rank}].push_back(end_of(profile, first) - end_of(profile, other));
    }
  }
  Differences differences;
  for (auto& [pair, values] : all) differences[pair] = lower_median(std::move(values));
  return differences;
}

// Returns the value that a tenth of the rows are tighter than, of three or more at least one: a row
// that is wrong. `sorted`: the tightest first.
Nanoseconds tight_value(const std::vector<Nanoseconds>& sorted) {
  const std::size_t tighter = sorted.size() / 10;
  return sorted[sorted.size() < 3 ? 0 : std::max<std::size_t>(tighter, 1)];
}

// Returns differences from transfers, which end on the receiver a little behind the sender: if the
// first rank's send ends at 10 by its clock, and the second's receive at 7 by its own, the first
// clock is ahead by 3 and a little more. In the same way its receives say 3 and a little less. The
// middle of both is taken, or the only one. Receives that end late tell little of clocks, and a
// single send that does nothing: tight_value() says which row counts in each direction.
Differences differences_by_transfers(const Profile& profile, const MatchedCollectives& matched) {
  struct BothWays {
    std::vector<Nanoseconds> sent, received;
  };
  std::map<std::pair<std::size_t, std::size_t>, BothWays> all;
  for (const auto& [key, transfer] : matched) {
    if (!transfer.is_transfer || transfer.participations.size() != 2) continue;
    const Participation &first = transfer.participations.front(),
                        &second = transfer.participations.back();
    BothWays& pair = all[{first.rank, second.rank}];
    const ProfileRank& rank = profile.ranks[first.rank];
    const auto& args = rank.collectives[rank.kernels[first.kernel].collective];
    const bool sends = rank.names.text(args.collective).ends_with("send");
    (sends ? pair.sent : pair.received).push_back(end_of(profile, first) - end_of(profile, second));
  }
  Differences differences;
  for (auto& [pair, ways] : all) {
    std::ranges::sort(ways.sent, std::greater());
    std::ranges::sort(ways.received);
    if (ways.sent.empty()) ways.sent = ways.received;
    if (ways.received.empty()) ways.received = ways.sent;
    const Nanoseconds least = tight_value(ways.sent);
    differences[pair] = least + (tight_value(ways.received) - least) / 2;
  }
  return differences;
}

// Says whether two ranks are on one clock: both are in one file, or Tandem wrote both.
bool on_one_clock(const ProfileRank& a, const ProfileRank& b) {
  return a.path == b.path || (a.profiler == "Tandem" && b.profiler == "Tandem");
}

// Spreads shifts from rank to rank. The first rank's shift is 0.
class Clocks {
 public:
  Clocks(const MatchedCollectives& matched, Profile* profile)
      : profile_(*profile),
        together_(differences_of(*profile, matched)),
        transfers_(differences_by_transfers(*profile, matched)),
        known_(profile->ranks.size()),
        shifts_(profile->ranks.size()) {}

  // If ranks are left that nothing connects with a known one, the first of them begins a new set.
  // A rank is connected by a clock that it shares, else by collectives, else by transfers.
  void find_shifts() {
    int set = 0;
    for (std::size_t begin = 0; begin < known_.size(); ++begin) {
      if (known_[begin]) continue;
      known_[begin] = true;
      profile_.ranks[begin].clock_set = set++;
      while (spread_on_clocks() || spread_along(together_) || spread_along(transfers_)) {
      }
    }
    for (std::size_t i = 0; i < shifts_.size(); ++i) move(shifts_[i], &profile_.ranks[i]);
  }

  static void move(Nanoseconds ns, ProfileRank* rank) {
    rank->clock_shift_ns += ns;
    shift(ns, rank);
  }

 private:
  void spread(std::size_t from, std::size_t to, Nanoseconds difference) {
    known_[to] = true;
    shifts_[to] = shifts_[from] + difference;
    profile_.ranks[to].clock_set = profile_.ranks[from].clock_set;
  }
  // These spread the shift of a known rank to one unknown rank that is connected with it, by a pair
  // in `differences` or by a clock that they share. They return false if there is none.
  bool spread_along(const Differences& differences) {
    for (const auto& [pair, difference] : differences) {
      const auto [a, b] = pair;
      if (known_[a] == known_[b]) continue;
      known_[a] ? spread(a, b, difference) : spread(b, a, -difference);
      return true;
    }
    return false;
  }
  bool spread_on_clocks() {
    for (std::size_t to = 0; to < known_.size(); ++to) {
      if (known_[to]) continue;
      for (std::size_t from = 0; from < known_.size(); ++from) {
        if (!known_[from] || !on_one_clock(profile_.ranks[from], profile_.ranks[to])) continue;
        spread(from, to, 0);
        return true;
      }
    }
    return false;
  }

  Profile& profile_;
  Differences together_, transfers_;
  std::vector<bool> known_;
  std::vector<Nanoseconds> shifts_;
};

// Moves each set of ranks whose times do not overlap the first set's, so that both begin at one
// moment: pictures then show both. An Error if more than an hour is between the two: the files are
// of two runs.
Status bring_sets_together(Profile* profile) {
  constexpr Nanoseconds kHour = 3'600'000'000'000;
  std::map<int, Nanospan> spans;
  for (const ProfileRank& rank : profile->ranks) {
    const ProfileKernel& front = rank.kernels.front();
    auto& [first, last] =
        spans.try_emplace(rank.clock_set, front.start_ns, front.end_ns).first->second;
    first = std::min(first, front.start_ns);
    for (const ProfileKernel& kernel : rank.kernels) last = std::max(last, kernel.end_ns);
  }
  const auto [begin, end] = spans[0];
  for (ProfileRank& rank : profile->ranks) {
    const auto [first, last] = spans[rank.clock_set];
    const Nanoseconds apart = std::max(first - end, begin - last);
    if (apart > kHour)
      return Error::at(rank.path,
                       fmt::format("found times {:.1f} hours from {}'s and nothing in common that "
                                   "aligns their clocks, expected profiles of one run",
                                   to_seconds(apart) / 3600, profile->ranks.front().path));
    if (apart > 0) Clocks::move(begin - first, &rank);
  }
  return Done{};
}

// Lets the transfer begin on all ranks when the last of them starts, if all of the collective's
// ranks are in the profile and on one clock.
void set_transfer_starts(const Matched& collective, Profile* profile) {
  if (static_cast<int>(collective.participations.size()) != collective.group_size) return;
  const int set = profile->ranks[collective.participations.front().rank].clock_set;
  Nanoseconds last = std::numeric_limits<Nanoseconds>::min();
  for (const Participation& part : collective.participations) {
    const ProfileRank& rank = profile->ranks[part.rank];
    if (rank.clock_set != set) return;
    last = std::max(last, rank.kernels[part.kernel].start_ns);
  }
  for (const Participation& part : collective.participations) {
    ProfileKernel& kernel = profile->ranks[part.rank].kernels[part.kernel];
    kernel.transfer_start_ns = std::min(last, kernel.end_ns);
  }
}

// Notes transfers between ranks of the profile that only one of both ranks has, and those that lack
// ends.
void note_lone_transfers(const MatchedCollectives& matched, Profile* profile) {
  std::vector<std::string>& notes = profile->ranks.front().notes;
  std::set<int> present;
  std::ptrdiff_t untold = 0, all = 0, lone = 0;
  for (const ProfileRank& rank : profile->ranks) {
    present.insert(rank.rank);
    untold += std::ranges::count_if(
        rank.kernels, [&](const ProfileKernel& kernel) { return lacks_ends(rank, kernel); });
  }
  for (const auto& [key, transfer] : matched) {
    if (!transfer.is_transfer) continue;
    const Participation& part = transfer.participations.front();
    const ProfileRank& rank = profile->ranks[part.rank];
    const CollectiveArgs& args = rank.collectives[rank.kernels[part.kernel].collective];
    if (!present.contains(args.from) || !present.contains(args.to)) continue;
    const std::ptrdiff_t ends = std::ssize(transfer.participations);
    all += ends;
    lone += ends == 1 ? 1 : 0;
  }
  if (lone > 0)
    notes.push_back(
        fmt::format("Of {} sends and receives {} have no match on the other rank: waiting in them "
                    "is not known.",
                    all, lone));
  if (untold > 0 && present.size() > 1)
    notes.push_back(fmt::format(
        "{} sends and receives, or batches of them (batch_isend_irecv), do not tell between which "
        "ranks: waiting in them is not known.",
        untold));
}

}  // namespace

Status align(Profile* profile) {
  MatchedCollectives matched;
  for (std::size_t i = 0; i < profile->ranks.size(); ++i)
    add_collectives(profile->ranks[i], i, &matched);
  Clocks(matched, profile).find_shifts();
  RETURN_IF_ERROR(bring_sets_together(profile));
  for (const auto& [key, collective] : matched) set_transfer_starts(collective, profile);
  note_lone_transfers(matched, profile);
  return Done{};
}

}  // namespace tandem
