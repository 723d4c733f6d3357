// Makes a Program of the events of chakra_events(). Each rank gets its events sorted by depth (the
// longest chain of events before them) as ops of a body, and its communicators as slots.
#include "schedule/chakra/import_chakra.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "schedule/chakra/chakra_events.h"
#include "schedule/program/replay.h"
#include "schedule/program/validate.h"

namespace tandem {
namespace {

constexpr std::size_t kMostSlots = std::numeric_limits<std::int16_t>::max();

// Adds bodies to the Program. Ranks with equal ops share one body.
class Bodies {
 public:
  explicit Bodies(Program* program) : program_(program) {}

  std::int32_t add(Body body) {
    const auto [at, is_new] =
        numbers_.try_emplace(key(body), static_cast<std::int32_t>(program_->bodies.size()));
    if (is_new) program_->bodies.push_back(std::move(body));
    return at->second;
  }

 private:
  static std::string key(const Body& body) {
    std::string key;
    const auto add = [&](auto... values) {
      for (const std::int64_t value : {static_cast<std::int64_t>(values)...})
        key.append(reinterpret_cast<const char*>(&value), sizeof(value));
    };
    // The names of lanes are not part of the key: they contain numbers of peers, which differ
    // between ranks with equal ops.
    for (const Slot& slot : body.slots) add(static_cast<int>(slot.group_kind), slot.lane);
    for (const Op& op : body.ops) {
      add(static_cast<int>(op.kind), op.lane, op.slot, op.stage, op.microbatch, op.kernel, op.bytes,
          op.duration_ns, +op.waits);
      for (const std::uint32_t wait : body.waits_of(op)) add(wait);
    }
    return key;
  }

  Program* program_;
  std::map<std::string, std::int32_t> numbers_;
};

class ProgramMaker {
 public:
  ProgramMaker(const ChakraJob& job, const ChakraEvents& events)
      : job_(job), events_(events), bodies_(&program_) {}

  Result<Program> make() {
    program_.name = std::filesystem::path(job_.prefix).filename().string();
    std::vector<std::vector<std::int32_t>> of_rank(job_.ranks.size());
    for (std::size_t event = 0; event < events_.events.size(); ++event) {
      for (const ChakraPlace& place : events_.events[event].places)
        of_rank[place.rank].push_back(static_cast<std::int32_t>(event));
    }
    for (std::size_t rank = 0; rank < of_rank.size(); ++rank) {
      // All ranks sort their events in the same way: by depth, then by number. An event waits only
      // for events of lower depth, so the ranks' issue orders cannot deadlock.
      std::sort(of_rank[rank].begin(), of_rank[rank].end(), [&](std::int32_t a, std::int32_t b) {
        return std::pair(events_.events[a].depth, a) < std::pair(events_.events[b].depth, b);
      });
      RETURN_IF_ERROR(add_rank(static_cast<std::int32_t>(rank), of_rank[rank]));
    }
    return std::move(program_);
  }

 private:
  // A rank's lanes besides compute, and its slots.
  struct Lanes {
    // Lanes by the sender of their receives; -1: the lane of collectives and sends.
    std::map<std::int32_t, std::uint8_t> of_sender;
    std::map<std::int32_t, std::int16_t> slot_of;  // by communicator
  };

  Status add_rank(std::int32_t rank, const std::vector<std::int32_t>& events) {
    Body body;
    RankRow row;
    Lanes lanes;
    body.lanes.push_back({"compute"});
    std::vector<std::int32_t> op_of(job_.ranks[rank].nodes.size(), -1);
    for (const std::int32_t e : events) {
      const ChakraEvent& event = events_.events[e];
      const ChakraPlace& place = *std::find_if(event.places.begin(), event.places.end(),
                                               [&](const auto& p) { return p.rank == rank; });
      Op op = op_at(event, place);
      if (!event.members.empty()) {
        ASSIGN_OR_RETURN(op.slot, slot_for(event, place, op.kind, &lanes, &body, &row));
        op.lane = body.slots[op.slot].lane;
      }
      const std::vector<std::uint32_t> waits = waits_of(place, op_of, op.lane, body);
      if (waits.size() > kMostWaits)
        return chakra_error(
            job_, rank, at(place),
            fmt::format("found {} dependencies, expected at most {}", waits.size(), kMostWaits));
      op_of[place.node] = static_cast<std::int32_t>(add_op(op, waits, &body));
    }
    row.body = bodies_.add(std::move(body));
    program_.ranks.push_back(std::move(row));
    return Done{};
  }

  const ChakraNode& at(const ChakraPlace& place) const {
    return job_.ranks[place.rank].nodes[place.node];
  }

  Op op_at(const ChakraEvent& event, const ChakraPlace& place) {
    const ChakraNode& node = at(place);
    Op op{.kind = event.kind, .duration_ns = event.duration_ns, .bytes = event.bytes};
    if (event.kind == OpKind::Send && node.type == ChakraType::Recv) op.kind = OpKind::Recv;
    op.stage = static_cast<std::int16_t>(fitting(node.stage, 0x7FFF));
    op.microbatch =
        static_cast<std::int32_t>(fitting(at(event.places.front()).microbatch, 0x7FFFFFFF));
    // The node's name becomes a kernel's name if the node does not say which pass it is.
    if (is_compute(op.kind) && node.kind.empty() && !node.name.empty()) op.kernel = kernel_of(node);
    return op;
  }

  // Returns the value, or -1 if there is none from 0 to `most`.
  static std::int64_t fitting(std::optional<std::int64_t> value, std::int64_t most) {
    return value && *value >= 0 && *value <= most ? *value : -1;
  }

  std::int32_t kernel_of(const ChakraNode& node) {
    const auto [at, is_new] = kernels_.try_emplace({node.name, node.tensor_size.value_or(0)},
                                                   static_cast<int>(program_.kernels.size()));
    if (is_new) {
      Kernel& kernel = program_.kernels.emplace_back();
      kernel.name = node.name;
      kernel.memory_bytes = static_cast<double>(std::max<std::int64_t>(at->first.second, 0));
    }
    return at->second;
  }

  // Returns the slot of the event's communicator. Adds it to the body, with a new lane if need be.
  Result<std::int16_t> slot_for(const ChakraEvent& event, const ChakraPlace& place, OpKind kind,
                                Lanes* lanes, Body* body, RankRow* row) {
    const std::int32_t communicator = communicator_of(event);
    const auto slot = lanes->slot_of.find(communicator);
    if (slot != lanes->slot_of.end()) return slot->second;
    const std::int32_t sender = kind == OpKind::Recv ? event.members[0] : -1;
    auto lane = lanes->of_sender.find(sender);
    if (lane == lanes->of_sender.end()) {
      if (body->lanes.size() == kMostLanes)
        return chakra_error(job_, place.rank, at(place),
                            fmt::format("found receives from more than {} ranks, expected no more",
                                        kMostLanes - 2));
      lane = lanes->of_sender.emplace(sender, static_cast<std::uint8_t>(body->lanes.size())).first;
      body->lanes.push_back(
          {sender < 0 ? std::string("communication") : fmt::format("{}>{}", sender, place.rank)});
    }
    if (body->slots.size() > kMostSlots)
      return chakra_error(job_, place.rank, at(place),
                          fmt::format("found more than {} process groups and partners of its rank, "
                                      "expected no more",
                                      kMostSlots));
    const auto number = static_cast<std::int16_t>(body->slots.size());
    body->slots.push_back({event.group_kind, lane->second});
    row->communicators.push_back(communicator);
    lanes->slot_of.emplace(communicator, number);
    return number;
  }

  // Returns the communicator of the event's members. Transfers have communicators of their own.
  std::int32_t communicator_of(const ChakraEvent& event) {
    const auto [at, is_new] = communicators_.try_emplace(
        {event.kind == OpKind::Send, static_cast<int>(event.group_kind), event.members},
        static_cast<std::int32_t>(program_.communicators.size()));
    if (is_new) {
      Communicator& made = program_.communicators.emplace_back();
      made.group_kind = event.group_kind;
      for (const std::int32_t member : event.members) made.members.push_back(Rank{member});
    }
    return at->second;
  }

  // Returns the ops that the node's op waits for, except those on its own lane.
  std::vector<std::uint32_t> waits_of(const ChakraPlace& place,
                                      const std::vector<std::int32_t>& op_of, std::uint8_t lane,
                                      const Body& body) const {
    std::vector<std::uint32_t> waits;
    const ChakraGraph& graph = events_.graphs[place.rank];
    if (graph.parts[place.node] == ChakraPart::PostedFirst) return waits;
    for (const std::uint32_t wait : graph.waits[place.node]) {
      const auto before = static_cast<std::uint32_t>(op_of[wait]);
      if (body.ops[before].lane != lane) waits.push_back(before);  // else it is implied
    }
    std::ranges::sort(waits);
    return waits;
  }

  const ChakraJob& job_;
  const ChakraEvents& events_;
  Program program_;
  Bodies bodies_;
  std::map<std::pair<std::string, std::int64_t>, std::int32_t> kernels_;
  std::map<std::tuple<bool, int, std::vector<std::int32_t>>, std::int32_t> communicators_;
};

std::vector<std::string> left_out_of(const ChakraJob& job) {
  std::int64_t cpu = 0, metadata = 0;
  std::uint64_t cpu_us = 0;
  for (const ChakraTrace& trace : job.ranks) {
    for (const ChakraNode& node : trace.nodes) {
      const bool of_cpu = node.type == ChakraType::Compute && node.is_cpu_op;
      cpu += of_cpu ? 1 : 0;
      cpu_us += of_cpu ? node.duration_us : 0;
      metadata += node.type == ChakraType::Metadata ? 1 : 0;
    }
  }
  std::vector<std::string> lines;
  if (cpu > 0)
    lines.push_back(fmt::format(
        "nodes of the CPU ({}, {:.4g} s on all ranks together) take no time: others wait for what "
        "they wait for",
        cpu, 1e-6 * static_cast<double>(cpu_us)));
  if (metadata > 0) lines.push_back(fmt::format("metadata nodes ({}) take no time", metadata));
  return lines;
}

}  // namespace

Result<ImportedProgram> import_chakra(const ChakraJob& job, bool to_be_priced) {
  ASSIGN_OR_RETURN(const ChakraEvents events, chakra_events(job, to_be_priced));
  ASSIGN_OR_RETURN(Program program, ProgramMaker(job, events).make());
  const auto placed = [&](const Error& error) { return Error::at(job.path(0), error.text()); };
  if (events.events.empty())
    return Error::at(job.path(0),
                     "found no compute and no communication on any rank, expected some");
  if (const Status valid = validate(program); !valid.ok()) return placed(valid.error());
  if (const auto played = replay(program, fold(program)); !played.ok())
    return placed(played.error());
  return ImportedProgram{std::move(program), left_out_of(job)};
}

}  // namespace tandem
