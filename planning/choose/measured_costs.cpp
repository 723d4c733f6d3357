// Reads the costs of stages from a trace. A pass is all compute ops of one rank, stage, kind and
// microbatch.
#include "planning/choose/measured_costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "base/quantile.h"
#include "base/units.h"
#include "traces/trace_files.h"

namespace tandem {
namespace {

bool is_pass(OpKind kind) {
  return kind == OpKind::Forward || kind == OpKind::Backward || kind == OpKind::BackwardInput ||
         kind == OpKind::BackwardWeight;
}

struct PassTimespan {
  Nanoseconds start_ns = 0, end_ns = 0;
};
// By rank, stage, kind and microbatch.
using TracedPasses = std::map<std::tuple<int, int, OpKind, int>, PassTimespan>;

TracedPasses passes_of(const TraceTable& trace) {
  TracedPasses passes;
  for (const TraceRow& row : trace.rows) {
    if (row.stage < 0 || !is_pass(row.kind)) continue;
    const PassTimespan own{row.start_ns, row.end_ns};
    PassTimespan& pass =
        passes.try_emplace({index(row.rank), row.stage, row.kind, row.microbatch}, own)
            .first->second;
    pass = {std::min(pass.start_ns, own.start_ns), std::max(pass.end_ns, own.end_ns)};
  }
  return passes;
}

// Whether the second half of the stages is a second chain, as DualPipe's: its first stage begins a
// microbatch on a rank that has not ended it on the stage before.
bool has_second_chain(const TracedPasses& passes, int stages) {
  if (stages % 2 != 0) return false;
  for (const auto& [key, pass] : passes) {
    const auto& [rank, stage, kind, microbatch] = key;
    if (stage != stages / 2 || kind != OpKind::Forward) continue;
    const auto before = passes.find({rank, stage - 1, kind, microbatch});
    if (before != passes.end() && pass.start_ns < before->second.end_ns) return true;
  }
  return false;
}

using StageSamples = std::map<std::pair<int, OpKind>, std::vector<Nanoseconds>>;

// Returns how long each pass and each send took, by stage of a chain and kind.
StageSamples samples_of(const TraceTable& trace, const TracedPasses& passes, int stages_a_chain) {
  StageSamples samples;
  for (const auto& [key, pass] : passes) {
    const auto& [rank, stage, kind, microbatch] = key;
    samples[{stage % stages_a_chain, kind}].push_back(pass.end_ns - pass.start_ns);
  }
  for (const TraceRow& row : trace.rows) {
    if (row.stage >= 0 && row.kind == OpKind::Send)
      samples[{row.stage % stages_a_chain, row.kind}].push_back(row.end_ns - row.start_ns);
  }
  return samples;
}

}  // namespace

Result<std::vector<OrderCosts>> measured_costs(const std::string& trace,
                                               std::vector<OrderCosts> priced) {
  ASSIGN_OR_RETURN(const TraceTable table, read_trace_csv(trace));
  if (meta_value(table, "complete") == "no")
    return Error::at(trace, "found '# complete: no', expected a complete trace");
  const TracedPasses passes = passes_of(table);
  int stages = 0;
  for (const auto& [key, pass] : passes) stages = std::max(stages, std::get<1>(key) + 1);
  const int chains = has_second_chain(passes, stages) ? 2 : 1;
  if (stages != chains * static_cast<int>(priced.size()))
    return Error::at(trace, fmt::format("found a trace of {} stages{}, expected pp x vpp = {}{}",
                                        stages, chains == 2 ? " in two chains" : "", priced.size(),
                                        chains == 2 ? " a chain" : ""));
  StageSamples samples = samples_of(table, passes, stages / chains);
  const auto median_s = [&](std::size_t stage, OpKind kind) -> std::optional<double> {
    const auto found = samples.find({static_cast<int>(stage), kind});
    if (found == samples.end()) return std::nullopt;
    return to_seconds(lower_median(found->second));
  };
  for (std::size_t s = 0; s < priced.size(); ++s) {
    OrderCosts& costs = priced[s];
    const auto forward = median_s(s, OpKind::Forward), whole = median_s(s, OpKind::Backward),
               input = median_s(s, OpKind::BackwardInput),
               weight = median_s(s, OpKind::BackwardWeight);
    if (!forward || (!whole && !(input && weight)))
      return Error::at(
          trace, fmt::format("found no forward or no backward of stage {}, expected both", s));
    costs.forward = *forward;
    if (input && weight) {
      costs.input = *input;
      costs.weight = *weight;
    } else {
      const double both = costs.input + costs.weight;
      const double share = both > 0 ? costs.input / both : 0.5;
      costs.input = share * *whole;
      costs.weight = (1 - share) * *whole;
    }
    costs.transfer = median_s(s, OpKind::Send).value_or(costs.transfer);
  }
  return priced;
}

}  // namespace tandem
