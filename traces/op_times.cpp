// Gives ops the durations that a trace measured. Collects each op's durations over all ranks of its
// body, shares those of a communication among its participants, and takes the median.
#include "traces/op_times.h"

#include <fmt/format.h>

#include <map>
#include <utility>
#include <vector>

#include "base/quantile.h"
#include "schedule/program/lanes.h"
#include "schedule/program/rank_folding.h"
#include "schedule/program/validate.h"
#include "traces/event_order.h"

namespace tandem {
namespace {

using OpSamples = std::vector<std::vector<Nanoseconds>>;  // by op of a body

Status check_whole(const Program& program, const TraceTable& measured) {
  const std::string_view found = meta_value(measured, "program");
  const std::string own = program_line(program).second;
  const auto hash_of = [](std::string_view line) { return line.substr(line.rfind(' ') + 1); };
  if (found.empty())
    return Error::at(measured.path,
                     "found no line '# program: NAME HASH', expected one as Tandem writes it");
  if (hash_of(found) != hash_of(own))
    return Error::at(measured.path,
                     fmt::format("found a trace of Program {}, expected one of {}", found, own));
  if (const std::string_view complete = meta_value(measured, "complete"); complete != "yes")
    return Error::at(measured.path,
                     fmt::format("found '# complete: {}', expected yes: a whole trace", complete));
  return Done{};
}

// Says whether the row's rank has the row's op. `first`: first_ops() of the Program.
bool has_op(const Program& program, const std::vector<std::int64_t>& first, const TraceRow& row) {
  if (index(row.rank) >= static_cast<int>(program.ranks.size())) return false;
  const int body = program.ranks[index(row.rank)].body;
  const std::int64_t op = row.op - first[body];
  return 0 <= op && op < static_cast<std::int64_t>(program.bodies[body].ops.size());
}

Status check_every_op(const Program& program, const TraceTable& measured,
                      const std::vector<OpSamples>& samples) {
  for (std::size_t body = 0; body < samples.size(); ++body) {
    for (std::size_t op = 0; op < samples[body].size(); ++op) {
      if (samples[body][op].empty())
        return Error::at(
            measured.path,
            fmt::format("found no {} of body {}, expected every op",
                        describe(program.bodies[body], program.bodies[body].ops[op]), body));
    }
  }
  return Done{};
}

// Returns samples by body. An Error if a rank has an op that is not its own, or one twice, or if no
// rank has an op of its body.
Result<std::vector<OpSamples>> samples_of(const Program& program, const TraceTable& measured) {
  std::vector<OpSamples> samples;
  for (const Body& body : program.bodies) samples.emplace_back(body.ops.size());
  const std::vector<std::int64_t> first = first_ops(program);
  std::vector<std::vector<bool>> seen(program.ranks.size());
  for (const TraceRow& row : measured.rows) {
    const int rank = index(row.rank);
    if (!has_op(program, first, row))
      return Error::at(measured.path,
                       fmt::format("found op {} on rank {}, expected the ops that it has in {}",
                                   row.op, rank, program.name));
    const int body = program.ranks[rank].body;
    const std::int64_t op = row.op - first[body];
    seen[rank].resize(samples[body].size());
    if (seen[rank][op])
      return Error::at(measured.path,
                       fmt::format("found op {} on rank {} twice, expected it once", row.op, rank));
    seen[rank][op] = true;
    samples[body][op].push_back(row.end_ns - row.start_ns);
  }
  RETURN_IF_ERROR(check_every_op(program, measured, samples));
  return samples;
}

// Returns sets of (body, slot) whose ops meet: within a set, the k-th ops of all slots are one
// communication. Slots of one class of communicators form a set; sets that share a slot are merged,
// the smaller into the larger (union-find).
std::vector<std::vector<std::pair<int, int>>> slots_that_meet(const Program& program) {
  std::map<std::pair<int, int>, std::size_t> set_of;
  std::vector<std::vector<std::pair<int, int>>> sets;
  const RankFolding folding = fold(program);
  for (const CommunicatorClass& comm_class : folding.comm_classes) {
    std::size_t set = sets.size();
    sets.emplace_back();
    for (const ClassMember& class_member : comm_class.members) {
      const std::pair<int, int> slot{folding.folded_ranks[class_member.folded_rank].body,
                                     class_member.slot};
      const auto [at, is_new] = set_of.try_emplace(slot, set);
      if (is_new) sets[set].push_back(slot);
      std::size_t other = at->second;
      if (other == set) continue;
      // The slot is already in a set: merges the two.
      if (sets[other].size() < sets[set].size()) std::swap(set, other);
      for (const auto& moved : sets[other]) set_of[moved] = set;
      sets[set].insert(sets[set].end(), sets[other].begin(), sets[other].end());
      sets[other].clear();
    }
  }
  std::erase_if(sets, [](const auto& set) { return set.empty(); });
  return sets;
}

// Pools the samples of a communication: each of its participants gets those of all.
void share(const Program& program, std::vector<OpSamples>* samples) {
  std::vector<std::vector<std::vector<std::uint32_t>>> slots;
  for (const Body& body : program.bodies) slots.push_back(ops_by_slot(body));
  for (const auto& set : slots_that_meet(program)) {
    const auto [first_body, first_slot] = set.front();
    for (std::size_t i = 0; i < slots[first_body][first_slot].size(); ++i) {
      std::vector<Nanoseconds> all;
      for (const auto& [body, slot] : set) {
        const auto& own = (*samples)[body][slots[body][slot][i]];
        all.insert(all.end(), own.begin(), own.end());
      }
      for (const auto& [body, slot] : set) (*samples)[body][slots[body][slot][i]] = all;
    }
  }
}

}  // namespace

Status reprice_by_trace(Program* program, const TraceTable& measured) {
  RETURN_IF_ERROR(check_whole(*program, measured));
  ASSIGN_OR_RETURN(std::vector<OpSamples> samples, samples_of(*program, measured));
  share(*program, &samples);
  for (std::size_t body = 0; body < samples.size(); ++body) {
    for (std::size_t op = 0; op < samples[body].size(); ++op) {
      program->bodies[body].ops[op].duration_ns = lower_median(std::move(samples[body][op]));
      program->bodies[body].ops[op].sms = 0;
    }
  }
  program->device = {};  // measured times hold what communication takes from compute
  return Done{};
}

}  // namespace tandem
