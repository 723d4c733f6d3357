// Splits a rank's time by arithmetic of intervals: unions and intersections of the times of kernels
// on its streams. In: a rank's kernels. Out: its time by activity, by kind of communication, by
// kernel and by pass.
#include "traces/profile/profile_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <tuple>

#include "base/quantile.h"
#include "traces/profile/awaited.h"
#include "traces/profile/kernel_names.h"

namespace tandem {
namespace {

constexpr Nanoseconds kMicrosecond = 1000;

// Rounds down to a whole microsecond, also below 0.
Nanoseconds floor_us(Nanoseconds ns) {
  const Nanoseconds rest = ((ns % kMicrosecond) + kMicrosecond) % kMicrosecond;
  return ns - rest;
}

// A kernel with the activity and times that a view gives it.
struct ViewedKernel {
  const ProfileKernel* kernel = nullptr;
  Activity activity = Activity::Compute;
  Nanoseconds start_ns = 0, end_ns = 0;
};

std::vector<ViewedKernel> viewed_kernels(const ProfileRank& rank,
                                         const std::vector<bool>& is_counted,
                                         const ProfileView& view) {
  ByName<std::optional<Activity>> activities(rank.names, hta_activity_of);
  std::vector<ViewedKernel> all;
  all.reserve(rank.kernels.size());
  for (std::size_t i = 0; i < rank.kernels.size(); ++i) {
    if (!is_counted.empty() && !is_counted[i]) continue;
    const ProfileKernel& kernel = rank.kernels[i];
    ViewedKernel viewed{&kernel, kernel.activity, kernel.start_ns, kernel.end_ns};
    if (view.without_waiting && kernel.activity == Activity::Communication)
      viewed.start_ns = std::max(viewed.start_ns, kernel.transfer_start_ns);
    if (view.as_hta) {
      // A kernel to which HTA gives no activity still keeps the GPU from being idle.
      viewed.activity = activities.of(kernel.name).value_or(Activity::Memory);
      // HTA rounds the file's own microseconds, before clocks were aligned.
      const Nanoseconds shift = rank.clock_shift_ns;
      viewed.start_ns = floor_us(kernel.start_ns - shift + kMicrosecond - 1) + shift;
      viewed.end_ns = floor_us(kernel.end_ns - shift) + shift;
    }
    all.push_back(viewed);
  }
  return all;
}

// A communication in flight.
struct InFlight {
  Nanoseconds start_ns = 0, end_ns = 0;
  std::size_t label = 0;  // number of its label
};

// Gives each instant to one communication in flight, the one that ends last, so that an instant
// counts once. Returns each label's intervals. Example: A from 0 to 4 and B from 2 to 6 give A the
// interval 0 to 2, and B 2 to 6.
std::vector<Intervals> shares_of(std::vector<InFlight> flights, std::size_t labels) {
  std::ranges::stable_sort(flights, {}, &InFlight::start_ns);
  std::vector<Intervals> shares(labels);
  constexpr Nanoseconds kBeforeAll = std::numeric_limits<Nanoseconds>::min();
  Nanoseconds given = kBeforeAll;       // instants before it are given
  InFlight last{.end_ns = kBeforeAll};  // of the flights so far, the one that ends last
  const auto give_last_until = [&](Nanoseconds until) {
    const Nanoseconds end = std::min(until, last.end_ns);
    if (end > given) shares[last.label].emplace_back(given, end);
    given = std::max(given, until);
  };
  for (const InFlight& flight : flights) {
    give_last_until(flight.start_ns);
    if (flight.end_ns > last.end_ns) last = flight;
  }
  give_last_until(last.end_ns);
  return shares;
}

// Adds up the time in which communication only waits for peers: some of it runs, none transfers.
struct PeerWaits {
  Intervals all, transfers;

  void add(const ProfileKernel& kernel) {
    all.emplace_back(kernel.start_ns, kernel.end_ns);
    transfers.emplace_back(kernel.transfer_start_ns, kernel.end_ns);
  }
  Nanoseconds length() const { return length_of(union_of(all)) - length_of(union_of(transfers)); }
};

// Adds a communication's bytes to the total, if they are known.
void add_size(const ProfileRank& rank, const ViewedKernel& viewed, CommTotal* total) {
  const std::optional<double> bytes = bytes_of(rank, *viewed.kernel);
  const std::optional<CommKind> kind = comm_kind_of(total->label.collective);
  if (bytes.value_or(0) == 0 || !kind) return;
  const int ranks =
      *kind == CommKind::SendRecv ? 2 : rank.collectives[viewed.kernel->collective].group_size;
  ++total->sized;
  total->bytes += *bytes;
  total->largest = std::max(total->largest, *bytes);
  total->bus_bytes += *bytes * bus_factor(*kind, ranks);
  // Waiting for a peer is no transfer.
  total->sized_ns += std::max<Nanoseconds>(
      0, viewed.end_ns - std::max(viewed.start_ns, viewed.kernel->transfer_start_ns));
}

// Labels communications. Kernels with the same name and names of arguments share a label, which is
// made once. `by_kind`: a label is only what the communication is for ("tensor"), where known, and
// not its collective.
class CommLabels {
 public:
  CommLabels(const ProfileRank& rank, bool by_kind) : rank_(rank), by_kind_(by_kind) {}

  const CommLabel& of(const ProfileKernel& kernel) {
    constexpr CollectiveArgs kNoArgs{.collective = ~0u};  // the id of no name
    const CollectiveArgs args =
        kernel.collective >= 0 ? rank_.collectives[kernel.collective] : kNoArgs;
    auto [at, is_new] =
        labels_.try_emplace({kernel.name, args.collective, args.description, args.group});
    if (is_new) {
      at->second = label_of(rank_, kernel);
      if (by_kind_ && at->second.kind) at->second.collective.clear();
    }
    return at->second;
  }

 private:
  const ProfileRank& rank_;
  bool by_kind_;
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>, CommLabel>
      labels_;
};

struct LabelledComm {
  const ViewedKernel* viewed = nullptr;
  const CommLabel* label = nullptr;
};

// Adds up communication by label. `compute`: when the rank computes.
std::vector<CommTotal> comms_of(const ProfileRank& rank, const std::vector<ViewedKernel>& all,
                                const Intervals& compute, bool by_kind) {
  std::map<CommLabel, std::size_t> numbers;  // into `totals`, by label
  CommLabels labels(rank, by_kind);
  std::vector<LabelledComm> comms;
  for (const ViewedKernel& viewed : all) {
    if (viewed.activity != Activity::Communication || viewed.end_ns <= viewed.start_ns) continue;
    comms.push_back({&viewed, &labels.of(*viewed.kernel)});
    numbers.try_emplace(*comms.back().label, 0);
  }
  std::vector<CommTotal> totals;
  for (auto& [label, number] : numbers) {
    number = totals.size();
    totals.push_back({.label = label});
  }
  std::vector<Intervals> own(totals.size());
  std::vector<PeerWaits> waits(totals.size());
  std::vector<InFlight> flights;
  for (const LabelledComm& comm : comms) {
    const ViewedKernel& viewed = *comm.viewed;
    const std::size_t number = numbers.at(*comm.label);
    CommTotal& total = totals[number];
    ++total.count;
    if (viewed.kernel->collective >= 0) ++total.with_arguments;
    add_size(rank, viewed, &total);
    waits[number].add(*viewed.kernel);
    own[number].emplace_back(viewed.start_ns, viewed.end_ns);
    flights.push_back({viewed.start_ns, viewed.end_ns, number});
  }
  const std::vector<Intervals> shares = shares_of(std::move(flights), totals.size());
  for (std::size_t i = 0; i < totals.size(); ++i) {
    const Intervals united = union_of(std::move(own[i]));
    totals[i].time_ns = length_of(united);
    totals[i].overlap_ns = length_of(intersection_of(united, compute));
    totals[i].waiting_ns = waits[i].length();
    totals[i].exposed_ns = length_of(shares[i]) - length_of(intersection_of(shares[i], compute));
  }
  return totals;
}

std::vector<KernelTotal> longest_first(std::map<std::string, KernelTotal> by_name) {
  std::vector<KernelTotal> totals;
  for (auto& [name, total] : by_name) {
    total.name = name;
    totals.push_back(std::move(total));
  }
  std::ranges::stable_sort(totals, std::greater<>(), &KernelTotal::time_ns);
  return totals;
}

// Adds up kernels by name, and compute kernels by category ("GEMM").
void add_names(const ProfileRank& rank, const std::vector<ViewedKernel>& all, ProfileSplit* split) {
  std::vector<KernelTotal> by_id(rank.names.size());
  std::vector<bool> computes(rank.names.size());
  for (const ViewedKernel& viewed : all) {
    KernelTotal& total = by_id[viewed.kernel->name];
    ++total.count;
    total.time_ns += std::max<Nanoseconds>(0, viewed.end_ns - viewed.start_ns);
    if (viewed.activity == Activity::Compute) computes[viewed.kernel->name] = true;
  }
  std::map<std::string, KernelTotal> names, categories;
  const auto add = [](const KernelTotal& from, KernelTotal* to) {
    to->count += from.count;
    to->time_ns += from.time_ns;
  };
  for (std::size_t id = 0; id < by_id.size(); ++id) {
    if (by_id[id].count == 0) continue;
    const std::string& name = rank.names.text(static_cast<std::uint32_t>(id));
    add(by_id[id], &names[name]);
    if (computes[id]) add(by_id[id], &categories[std::string(category_of(name))]);
  }
  split->names = longest_first(std::move(names));
  split->categories = longest_first(std::move(categories));
}

// Adds up compute by phase and stage, and finds the median pass of each.
void add_phases(const ProfileRank& rank, const std::vector<ViewedKernel>& all,
                ProfileSplit* split) {
  struct Total {
    Nanoseconds time_ns = 0;
    std::map<std::int32_t, Nanoseconds> passes;
  };
  std::map<std::pair<PassPhase, int>, Total> totals;
  for (const ViewedKernel& viewed : all) {
    if (viewed.activity != Activity::Compute) continue;
    const ProfileKernel& kernel = *viewed.kernel;
    const ProfileAction action = kernel.action < 0 ? ProfileAction{} : rank.actions[kernel.action];
    Total& total = totals[{kernel.phase, action.stage}];
    const Nanoseconds length = std::max<Nanoseconds>(0, viewed.end_ns - viewed.start_ns);
    total.time_ns += length;
    if (action.is_whole && action.phase == kernel.phase) total.passes[kernel.action] += length;
  }
  for (const auto& [key, total] : totals) {
    PhaseTotal phase{.phase = key.first, .stage = key.second, .time_ns = total.time_ns};
    std::vector<Nanoseconds> passes;
    for (const auto& [action, length] : total.passes) passes.push_back(length);
    phase.passes = static_cast<std::int64_t>(passes.size());
    if (!passes.empty()) phase.median_ns = lower_median(std::move(passes));
    split->phases.push_back(phase);
  }
}

// Replaces the exposed communication, in all and by label and kind, by what compute waits for.
void set_exposed(const std::vector<Nanoseconds>& awaited, ProfileSplit* split) {
  split->exposed_ns = 0;
  for (std::size_t i = 0; i < awaited.size(); ++i) {
    split->comms[i].exposed_ns = awaited[i];
    split->exposed_ns += awaited[i];
  }
  for (CommTotal& kind : split->kinds) {
    kind.exposed_ns = 0;
    for (const CommTotal& comm : split->comms) {
      const bool is_part =
          kind.label.kind ? comm.label.kind == kind.label.kind : comm.label == kind.label;
      if (is_part) kind.exposed_ns += comm.exposed_ns;
    }
  }
}

// Sets the step, from `first` to `last`, and what follows from it: the bubble and, where waits are
// recorded, exposed communication.
void set_step(const ProfileRank& rank, Nanoseconds first, Nanoseconds last, const ProfileView& view,
              ProfileSplit* split) {
  if (rank.tells_waits && !view.as_hta) set_exposed(awaited_of(rank, *split, first, last), split);
  split->step_ns = last - first;
  split->bubble_ns =
      split->step_ns - split->compute_ns - split->exposed_ns - split->memory_alone_ns;
}

}  // namespace

std::string CommLabel::text() const {
  if (!kind) return collective;
  return fmt::format("{}{}{}", group_kind_name(*kind), collective.empty() ? "" : " ", collective);
}

std::optional<double> ProfileSplit::overlap_fraction() const {
  if (communication_ns == 0) return std::nullopt;
  return static_cast<double>(overlap_ns) / static_cast<double>(communication_ns);
}

double ProfileSplit::idle_fraction() const {
  return span_ns > 0 ? static_cast<double>(idle_ns) / static_cast<double>(span_ns) : 0;
}

Intervals union_of(Intervals intervals) {
  std::erase_if(intervals, [](const auto& span) { return span.second <= span.first; });
  std::ranges::sort(intervals);
  Intervals united;
  for (const auto& span : intervals) {
    if (!united.empty() && span.first <= united.back().second) {
      united.back().second = std::max(united.back().second, span.second);
    } else {
      united.push_back(span);
    }
  }
  return united;
}

Nanoseconds length_of(const Intervals& intervals) {
  Nanoseconds length = 0;
  for (const auto& [start, end] : intervals) length += end - start;
  return length;
}

Intervals intersection_of(const Intervals& a, const Intervals& b) {
  Intervals common;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const Nanoseconds start = std::max(a[i].first, b[j].first);
    const Nanoseconds end = std::min(a[i].second, b[j].second);
    if (start < end) common.emplace_back(start, end);
    a[i].second < b[j].second ? ++i : ++j;
  }
  return common;
}

CommLabel label_of(const ProfileRank& rank, const ProfileKernel& kernel) {
  const std::string& kernel_name = rank.name_of(kernel);
  if (kernel.collective < 0) {
    const std::string collective = collective_of("", kernel_name);
    return {group_kind_of("", collective, kernel_name), collective};
  }
  const CollectiveArgs& args = rank.collectives[kernel.collective];
  std::string description = rank.names.text(args.description);
  if (description.empty() || description == "undefined") {
    for (const ProcessGroup& group : rank.groups) {
      if (group.name == rank.names.text(args.group)) description = group.description;
    }
  }
  const std::string collective = collective_of(rank.names.text(args.collective), kernel_name);
  return {group_kind_of(description, collective, kernel_name), collective};
}

std::optional<double> bytes_of(const ProfileRank& rank, const ProfileKernel& kernel) {
  if (kernel.collective < 0) return std::nullopt;
  const CollectiveArgs& args = rank.collectives[kernel.collective];
  const int element = element_bytes(rank.names.text(args.dtype));
  // The whole is the output of a gather and the input of a scatter.
  const std::int64_t elements = std::max(args.in_elements, args.out_elements);
  if (element == 0 || elements < 0 || args.group_size < 1) return std::nullopt;
  return static_cast<double>(elements) * element;
}

Result<ProfileSplit> split_of(const ProfileRank& rank, const std::vector<bool>& is_counted,
                              const ProfileView& view) {
  const std::vector<ViewedKernel> all = viewed_kernels(rank, is_counted, view);
  if (all.empty())
    return Error::at(rank.path,
                     "found no kernel that was launched before the last ProfilerStep, expected "
                     "profiles of the same steps on all ranks");
  ProfileSplit split{.rank = rank.rank, .multiplicity = rank.multiplicity};
  std::array<Intervals, kActivities> by_activity;
  Intervals busy;
  PeerWaits waits;
  Nanoseconds first = all.front().start_ns, last = all.front().end_ns;
  for (const ViewedKernel& viewed : all) {
    ++(viewed.kernel->activity == Activity::Memory ? split.copies : split.kernels);
    const Nanoseconds length = viewed.kernel->end_ns - viewed.kernel->start_ns;
    if (length < kMicrosecond) ++split.below_us;
    first = std::min(first, viewed.start_ns);
    last = std::max(last, viewed.end_ns);
    busy.emplace_back(viewed.start_ns, viewed.end_ns);
    by_activity[static_cast<std::size_t>(viewed.activity)].push_back(busy.back());
    if (viewed.activity == Activity::Communication) waits.add(*viewed.kernel);
  }
  split.waiting_ns = waits.length();
  split.first_ns = first;
  split.span_ns = last - first;
  busy = union_of(std::move(busy));
  const auto united = [&](Activity activity) {
    return union_of(std::move(by_activity[static_cast<std::size_t>(activity)]));
  };
  const Intervals compute = united(Activity::Compute);
  const Intervals communication = united(Activity::Communication);
  split.compute_ns = length_of(compute);
  split.communication_ns = length_of(communication);
  split.overlap_ns = length_of(intersection_of(communication, compute));
  split.idle_ns = split.span_ns - length_of(busy);
  split.exposed_ns = split.communication_ns - split.overlap_ns;
  // The busy time that is left has neither compute nor communication.
  split.memory_alone_ns = length_of(busy) - split.compute_ns - split.exposed_ns;
  split.comms = comms_of(rank, all, compute, /*by_kind=*/false);
  split.kinds = comms_of(rank, all, compute, /*by_kind=*/true);
  add_names(rank, all, &split);
  add_phases(rank, all, &split);
  set_step(rank, first, last, view, &split);
  return split;
}

Result<std::vector<ProfileSplit>> splits_of(const Profile& profile, const ProfileWindow& window,
                                            const ProfileView& view) {
  std::vector<ProfileSplit> splits;
  for (std::size_t i = 0; i < profile.ranks.size(); ++i) {
    const std::vector<bool> all;
    ASSIGN_OR_RETURN(
        ProfileSplit split,
        split_of(profile.ranks[i], window.is_counted.empty() ? all : window.is_counted[i], view));
    splits.push_back(std::move(split));
  }
  std::map<int, std::pair<Nanoseconds, Nanoseconds>> spans;  // by clock_set
  for (std::size_t i = 0; i < splits.size(); ++i) {
    const Nanoseconds begin = splits[i].first_ns, end = begin + splits[i].span_ns;
    auto& [first, last] = spans.try_emplace(profile.ranks[i].clock_set, begin, end).first->second;
    first = std::min(first, begin);
    last = std::max(last, end);
  }
  for (std::size_t i = 0; i < splits.size(); ++i) {
    auto [first, last] = spans.at(profile.ranks[i].clock_set);
    if (spans.size() > 1 && window.by == StepsBy::ProfilerStep)
      last = std::max(last, first + window.steps * steps_beside(profile.ranks[i]).every_ns);
    set_step(profile.ranks[i], first, last, view, &splits[i]);
  }
  return splits;
}

}  // namespace tandem
