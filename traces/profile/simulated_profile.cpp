// Makes a kernel of each event, in the order of their starts: an op of compute extends the
// annotation of its pass, a communication gets its collective's arguments from the op and its
// communicator.
#include "traces/profile/simulated_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "traces/profile/finish_rank.h"
#include "traces/profile/kernel_names.h"

namespace tandem {
namespace {

constexpr std::int32_t kComputeStream = 7, kFirstCommStream = 20, kMainThread = 1;

// An event of a Trace or of a TraceTable.
struct OpEvent {
  OpKind kind = OpKind::Forward;
  int lane = 0;  // 0: compute
  int stage = -1, microbatch = -1;
  Nanoseconds start_ns = 0, end_ns = 0;
};

// The names that torch and NCCL have for a communication. An op's bytes are those of the whole
// tensor: shard_in and shard_out say whether the collective's input or output is only a rank's
// shard of it.
struct CommWords {
  std::string_view collective, kernel;
  bool shard_in = false, shard_out = false;
};

CommWords words_of(OpKind kind) {
  constexpr CommWords kCommWords[] = {
      // by OpKind, from Send on
      {"send", "ncclDevKernel_SendRecv"},
      {"recv", "ncclDevKernel_SendRecv"},
      {"allreduce", "ncclDevKernel_AllReduce_Sum_RING_SIMPLE"},
      {"_reduce_scatter_base", "ncclDevKernel_ReduceScatter_Sum_RING_SIMPLE", false, true},
      {"_allgather_base", "ncclDevKernel_AllGather_RING_LL", true, false},
      {"all_to_allv", "ncclDevKernel_SendRecv"},
      {"coalesced", "ncclDevKernel_SendRecv"}};  // a ring's step: a send and a receive as one
  return kCommWords[static_cast<std::size_t>(kind) - static_cast<std::size_t>(OpKind::Send)];
}

// Returns for instance "PP:1F3" ("Optimizer.step#" for the optimizer); nothing for an event without
// stage or microbatch.
std::optional<std::string> annotation_of(const OpEvent& event) {
  if (event.kind == OpKind::Optimizer) return "Optimizer.step#";
  if (event.stage < 0 || event.microbatch < 0) return std::nullopt;
  const OpKind first = is_vocabulary(event.kind) ? OpKind::EmbeddingForward : OpKind::Forward;
  const std::string_view letters = is_vocabulary(event.kind) ? "ESTG" : "FBIW";
  const int letter = static_cast<int>(event.kind) - static_cast<int>(first);
  return fmt::format("PP:{}{}{}", event.stage, letters.at(letter), event.microbatch);
}

// Builds the profile of one rank, event by event in the order of their starts.
class SimulatedRank {
 public:
  SimulatedRank(int rank, int world, int multiplicity) {
    made_.rank = rank;
    made_.rank_is_given = true;
    made_.world = world;
    made_.multiplicity = multiplicity;
    made_.profiler = "Tandem";
    made_.tells_waits = true;
  }

  // Adds a kernel; the pointer is valid until the next one. REQUIRES: `correlation`, which names
  // the kernel in add_wait, is above 0 and unique.
  ProfileKernel* add(const OpEvent& event, std::string_view name, std::int64_t correlation) {
    ProfileKernel kernel;
    kernel.correlation = correlation;
    kernel.start_ns = event.start_ns;
    kernel.end_ns = event.end_ns;
    kernel.stream = event.lane == 0 ? kComputeStream : kFirstCommStream + event.lane;
    kernel.name = made_.names.id(name);
    kernel.activity = is_compute(event.kind) ? Activity::Compute : Activity::Communication;
    if (is_compute(event.kind)) annotate(event);
    end_ns_ = std::max(end_ns_, event.end_ns);
    made_.kernels.push_back(kernel);
    return &made_.kernels.back();
  }

  void add_collective(const CollectiveArgs& args, ProfileKernel* kernel) {
    kernel->collective = static_cast<std::int32_t>(made_.collectives.size());
    made_.collectives.push_back(args);
  }
  void add_wait(std::int64_t correlation, std::int64_t waited) {
    made_.waits.emplace_back(correlation, waited);
  }
  void clear_tells_waits() { made_.tells_waits = false; }
  void add_group(ProcessGroup group) { made_.groups.push_back(std::move(group)); }
  std::uint32_t id(std::string_view text) { return made_.names.id(text); }

  ProfileRank finish() {
    made_.annotations.push_back({id("ProfilerStep#0"), false, kMainThread, 0, end_ns_});
    finish_rank(&made_);
    return std::move(made_);
  }

 private:
  // Extends the last annotation over the event if both are of one pass, else adds one.
  void annotate(const OpEvent& event) {
    const std::optional<std::string> text = annotation_of(event);
    if (!text) return;
    const std::uint32_t name = made_.names.id(*text);
    std::vector<Annotation>& all = made_.annotations;
    if (!all.empty() && all.back().name == name && all.back().end_ns <= event.start_ns) {
      all.back().end_ns = event.end_ns;
    } else {
      all.push_back({name, true, kComputeStream, event.start_ns, event.end_ns});
    }
  }

  ProfileRank made_;
  Nanoseconds end_ns_ = 0;
};

// Gives the kernel of a communication its collective's arguments. `sequence`: the op's number among
// those of its communicator.
void add_comm(const Program& program, const RankRow& row, const Op& op, std::int64_t sequence,
              SimulatedRank* made, ProfileKernel* kernel) {
  const int number = row.communicators[op.slot];
  const Communicator& comm = program.communicators[number];
  const CommWords words = words_of(op.kind);
  const auto ranks = static_cast<int>(comm.members.size());
  const auto shard = [&](bool is_shard) { return is_shard ? op.bytes / ranks : op.bytes; };
  CollectiveArgs args{.collective = made->id(words.collective),
                      .dtype = made->id("Byte"),
                      .group = made->id(std::to_string(number)),
                      .description = made->id(description_of(comm.group_kind)),
                      .ranks = made->id(ranks_text(comm.members)),
                      .group_size = ranks,
                      .in_elements = shard(words.shard_in),
                      .out_elements = shard(words.shard_out),
                      .sequence = sequence};
  if (op.kind == OpKind::Send || op.kind == OpKind::Recv) {
    args.from = index(comm.members.front());
    args.to = index(comm.members.back());
  }
  made->add_collective(args, kernel);
}

// Returns the numbers of the events that have ended, in the order of their starts.
std::vector<std::uint32_t> by_start(std::span<const EventTimes> events) {
  std::vector<std::uint32_t> order;
  for (std::uint32_t i = 0; i < events.size(); ++i) {
    if (events[i].start_ns >= 0 && events[i].end_ns >= events[i].start_ns) order.push_back(i);
  }
  std::ranges::stable_sort(order, {}, [&](std::uint32_t i) { return events[i].start_ns; });
  return order;
}

}  // namespace

std::string ranks_text(const std::vector<Rank>& members) {
  constexpr std::size_t most = 30;
  std::string text = "[";
  for (std::size_t i = 0; i < members.size() && i < most; ++i)
    text += fmt::format("{}{}", i == 0 ? "" : ", ", index(members[i]));
  return text + (members.size() > most ? ", ...]" : "]");
}

ProfileRank profile_rank_of(const Program& program, const Trace& trace, const RankTrace& rank) {
  const Body& body = program.bodies[rank.body];
  const RankRow& row = program.ranks[index(rank.rank)];
  const std::span<const EventTimes> events = trace.events_of(program, rank);
  SimulatedRank made(index(rank.rank), static_cast<int>(program.ranks.size()), rank.multiplicity);
  for (const std::int32_t number : row.communicators) {
    const Communicator& comm = program.communicators[number];
    ProcessGroup group{std::to_string(number), std::string(description_of(comm.group_kind)), {}};
    for (const Rank member : comm.members) group.ranks.push_back(index(member));
    made.add_group(std::move(group));
  }
  std::vector<std::int64_t> sequences(body.ops.size()), counted(body.slots.size());
  for (std::size_t i = 0; i < body.ops.size(); ++i) {
    if (body.ops[i].slot >= 0) sequences[i] = counted[body.ops[i].slot]++;
  }
  for (const std::uint32_t i : by_start(events)) {
    const Op& op = body.ops[i];
    const OpEvent event{op.kind,         op.lane, op.stage, op.microbatch, events[i].start_ns,
                        events[i].end_ns};
    for (const std::uint32_t wait : body.waits_of(op)) made.add_wait(i + 1, wait + 1);
    if (is_compute(op.kind)) {
      made.add(event, op.kernel >= 0 ? program.kernels[op.kernel].name : op_kind_name(op.kind),
               i + 1);
    } else {
      ProfileKernel* const kernel = made.add(event, words_of(op.kind).kernel, i + 1);
      add_comm(program, row, op, sequences[i], &made, kernel);
    }
  }
  return made.finish();
}

Profile profile_of(const Program& program, const Trace& trace) {
  Profile profile;
  for (const RankTrace& rank : trace.ranks)
    profile.ranks.push_back(profile_rank_of(program, trace, rank));
  std::ranges::stable_sort(profile.ranks, {}, &ProfileRank::rank);
  return profile;
}

Profile profile_of(const TraceTable& table) {
  std::map<Rank, int> multiplicities;
  for (const RankSplit& split : table.splits) multiplicities[split.rank] = split.multiplicity;
  std::map<Rank, std::vector<const TraceRow*>> by_rank;
  for (const TraceRow& row : table.rows) {
    if (row.end_ns >= row.start_ns) by_rank[row.rank].push_back(&row);
  }
  Profile profile;
  for (auto& [rank, rows] : by_rank) {
    std::ranges::stable_sort(rows, {}, [](const TraceRow* row) { return row->start_ns; });
    const auto stands_for = multiplicities.find(rank);
    SimulatedRank made(index(rank), 0, stands_for == multiplicities.end() ? 1 : stands_for->second);
    made.clear_tells_waits();
    std::map<std::string_view, int> lanes;
    for (const TraceRow* row : rows) {
      const int lane =
          is_compute(row->kind)
              ? 0
              : lanes.try_emplace(row->lane, static_cast<int>(lanes.size()) + 1).first->second;
      const OpEvent event{row->kind, lane, row->stage, row->microbatch, row->start_ns, row->end_ns};
      if (is_compute(row->kind)) {
        made.add(event, op_kind_name(row->kind), row->op + 1);
        continue;
      }
      const CommWords words = words_of(row->kind);
      ProfileKernel* const kernel = made.add(event, words.kernel, row->op + 1);
      made.add_collective({.collective = made.id(words.collective),
                           .dtype = made.id("Byte"),
                           .group = made.id(row->lane),
                           .description = made.id(description_of(group_kind_of_lane(row->lane))),
                           .ranks = made.id(""),
                           .in_elements = row->bytes,
                           .out_elements = row->bytes},
                          kernel);
    }
    profile.ranks.push_back(made.finish());
    profile.ranks.back().path = table.path;
  }
  return profile;
}

}  // namespace tandem
