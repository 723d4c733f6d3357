// Matches kernels of a profile with ops of a Program: compute by pass (phase, stage, microbatch),
// communication by group kind, collective, ranks and order. In: a profile whose kernels have
// passes, and a Program. Out: the Program's ops with measured durations; or medians of the passes.
#include "traces/profile/profile_op_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "base/quantile.h"
#include "traces/profile/op_keys.h"
#include "traces/profile/profile_metrics.h"
#include "traces/trace.h"

namespace tandem {
namespace {

// Times of a rank's kernels, by pass and by communication.
struct RankTimes {
  std::map<PassKey, std::vector<double>> passes;  // ns, one for each pass
  // Times in ns, in the order of the kernels' starts, over all steps. The key is label and ranks;
  // each time is also listed under its label with ranks "".
  std::map<std::pair<CommLabel, std::string>, std::vector<double>> comms;
  bool splits_backward = false;  // has passes of weight gradients
};

RankTimes times_of_rank(const ProfileRank& rank, const std::vector<bool>& is_counted) {
  RankTimes times;
  // Kernels of one pass in one step are added up. The inner key is the step and, for passes without
  // a microbatch, the annotation, which alone tells them apart.
  constexpr int kOneAStep = -1;
  std::map<PassKey, std::map<std::pair<int, int>, Intervals>> passes;
  for (std::size_t i = 0; i < rank.kernels.size(); ++i) {
    if (!is_counted.empty() && !is_counted[i]) continue;
    const ProfileKernel& kernel = rank.kernels[i];
    if (kernel.activity == Activity::Communication) {
      const CommLabel label = label_of(rank, kernel);
      const auto ns = static_cast<double>(kernel.end_ns - kernel.transfer_start_ns);
      times.comms[{label, ""}].push_back(ns);
      if (const std::string ranks = ranks_of(rank, kernel); !ranks.empty())
        times.comms[{label, ranks}].push_back(ns);
    }
    if (kernel.activity != Activity::Compute || kernel.action < 0) continue;
    // Skips the annotation of a part alone, such as "mlp(B)", which does not tell the pass; and
    // kernels of another phase than their annotation's.
    const ProfileAction& action = rank.actions[kernel.action];
    if (!action.is_whole || action.phase != kernel.phase) continue;
    // The optimizer has one pass a step, for all stages.
    const bool is_one_a_step = action.microbatch >= 0 || kernel.phase == PassPhase::Step;
    const int annotation = is_one_a_step ? kOneAStep : kernel.action;
    passes[{kernel.phase, action.stage, action.microbatch}][{step_of(rank, kernel), annotation}]
        .emplace_back(kernel.start_ns, kernel.end_ns);
    times.splits_backward |= kernel.phase == PassPhase::BackwardWeight;
  }
  for (auto& [key, pieces] : passes) {
    for (auto& [piece, intervals] : pieces)
      times.passes[key].push_back(static_cast<double>(length_of(union_of(std::move(intervals)))));
  }
  return times;
}

std::vector<RankTimes> times_of(const Profile& profile) {
  const ProfileWindow window = window_of(profile);
  std::vector<RankTimes> times;
  for (std::size_t i = 0; i < profile.ranks.size(); ++i)
    times.push_back(times_of_rank(
        profile.ranks[i], window.is_counted.empty() ? std::vector<bool>() : window.is_counted[i]));
  return times;
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

// Returns the pass's mean over steps, or the median of the stage's passes in this phase if that
// microbatch was not recorded; nothing if there is none.
std::optional<double> pass_ns_of_phase(const RankTimes& times, PassPhase phase, int stage,
                                       int microbatch) {
  const auto exact = times.passes.find({phase, stage, microbatch});
  if (exact != times.passes.end()) return mean(exact->second);
  std::vector<double> alike;
  for (const auto& [key, values] : times.passes) {
    const bool same_stage = key.stage == stage || key.stage < 0 || stage < 0;
    if (key.phase == phase && same_stage) alike.insert(alike.end(), values.begin(), values.end());
  }
  return alike.empty() ? std::nullopt : std::optional(lower_median(std::move(alike)));
}

// Returns a pass's time in ns. In a profile whose weight gradients are passes of their own, a
// "backward" is the input gradient alone; a Program's full backward then takes both.
std::optional<double> pass_ns(const RankTimes& times, PassPhase phase, int stage, int microbatch) {
  if (phase == PassPhase::BackwardInput && times.splits_backward) {
    const auto input = pass_ns_of_phase(times, phase, stage, microbatch);
    return input ? input : pass_ns_of_phase(times, PassPhase::Backward, stage, microbatch);
  }
  if (phase == PassPhase::Backward && times.splits_backward) {
    const auto input = pass_ns(times, PassPhase::BackwardInput, stage, microbatch);
    const auto weight = pass_ns_of_phase(times, PassPhase::BackwardWeight, stage, microbatch);
    return input && weight ? std::optional(*input + *weight) : std::nullopt;
  }
  return pass_ns_of_phase(times, phase, stage, microbatch);
}

// Divides the time of each pass among its ops in proportion to their prices.
void price_compute(Body* body, const RankTimes& times, MeasuredOps* measured) {
  std::map<PassKey, std::vector<Op*>> passes;
  for (Op& op : body->ops) {
    if (!is_compute(op.kind)) continue;
    const bool is_step = op.kind == OpKind::Optimizer;
    passes[{phase_of(op.kind), is_step ? -1 : op.stage, op.microbatch}].push_back(&op);
  }
  for (auto& [key, ops] : passes) {
    const std::optional<double> ns = pass_ns(times, key.phase, key.stage, key.microbatch);
    auto& count = ns ? measured->compute : measured->compute_as_priced;
    count += static_cast<std::int64_t>(ops.size());
    if (!ns) continue;
    double priced_ns = 0, share = 0;  // share: of the ops so far
    for (const Op* op : ops) priced_ns += static_cast<double>(op->duration_ns);
    Nanoseconds given_ns = 0;
    for (Op* op : ops) {
      share += priced_ns > 0 ? static_cast<double>(op->duration_ns) / priced_ns
                             : 1.0 / static_cast<double>(ops.size());
      const auto until_ns = static_cast<Nanoseconds>(std::llround(share * *ns));
      op->duration_ns = until_ns - given_ns;
      given_ns = until_ns;
    }
  }
}

// Gives communications their times. Ops and kernels with the same label and ranks match in order,
// the first op with the first kernel, if there is one step and equally many of both; otherwise each
// op takes the kernels' median. `rank`: the Program's rank for which the profile's rank stands.
void price_comm(const Program& program, int rank, const RankTimes& times, int steps, Body* body,
                MeasuredOps* measured) {
  std::map<std::pair<CommLabel, std::string>, std::vector<Op*>> ops_by_ranks;
  for (Op& op : body->ops) {
    if (is_compute(op.kind)) continue;
    ops_by_ranks[{label_of(*body, op), ranks_of(program, rank, op)}].push_back(&op);
  }
  for (auto& [key, ops] : ops_by_ranks) {
    auto at = times.comms.find(key);
    if (at == times.comms.end()) at = times.comms.find({key.first, ""});
    const auto count = static_cast<std::int64_t>(ops.size());
    (at == times.comms.end() ? measured->comm_as_priced : measured->comm) += count;
    if (at == times.comms.end()) continue;
    const bool in_order = steps == 1 && at->second.size() == ops.size();
    const double usual = lower_median(at->second);
    for (std::size_t i = 0; i < ops.size(); ++i)
      ops[i]->duration_ns = std::llround(in_order ? at->second[i] : usual);
  }
}

// One of a body's ranks, which all run the same ops, and the times of the profile's rank that
// stands for them.
struct PlayingRank {
  int rank = 0;
  const RankTimes* times = nullptr;  // null: the profile has no such rank
};

// Returns one of the body's ranks if the profile has it by number, else the profile's first rank
// with one of the body's stages.
PlayingRank played_by(const Program& program, int body, const Profile& profile,
                      const std::vector<RankTimes>& times) {
  for (std::size_t i = 0; i < times.size(); ++i) {
    const ProfileRank& rank = profile.ranks[i];
    if (rank.rank_is_given && rank.rank < static_cast<int>(program.ranks.size()) &&
        program.ranks[rank.rank].body == body)
      return {rank.rank, &times[i]};
  }
  int first = 0;
  while (program.ranks[first].body != body) ++first;
  const std::set<int> stages = computed_stages(program.bodies[body]);
  for (const RankTimes& candidate : times) {
    for (const auto& [key, values] : candidate.passes) {
      if (key.stage < 0 || stages.contains(key.stage)) return {first, &candidate};
    }
  }
  return {};
}

// Refuses a profile of another number of ranks, or of forwards in a step, than the Program's.
Status check_job(const Program& program, const Profile& profile,
                 const std::vector<RankTimes>& times, int steps) {
  const auto world = static_cast<int>(program.ranks.size());
  for (std::size_t i = 0; i < times.size(); ++i) {
    const ProfileRank& rank = profile.ranks[i];
    const bool is_beyond = rank.rank_is_given && rank.rank >= world;
    if (is_beyond || (rank.world > 0 && rank.world != world))
      return Error::at(
          rank.path,
          fmt::format("found rank {} of {}, expected a profile of the {} ranks of {}", rank.rank,
                      std::max(rank.world, rank.rank + 1), world, program.name));
    if (!rank.rank_is_given) continue;
    std::set<std::pair<int, int>> expected;
    for (const Op& op : program.body_of(Rank{rank.rank}).ops) {
      if (op.kind == OpKind::Forward) expected.emplace(op.stage, op.microbatch);
    }
    std::size_t found = 0;
    for (const auto& [key, values] : times[i].passes)
      found += key.phase == PassPhase::Forward ? values.size() : 0;
    if (found > 0 && found != expected.size() * static_cast<std::size_t>(steps))
      return Error::at(rank.path,
                       fmt::format("found {:.4g} forwards a step, expected the {} of rank {} in {}",
                                   static_cast<double>(found) / steps, expected.size(), rank.rank,
                                   program.name));
  }
  return Done{};
}

Error no_passes(const Profile& profile) {
  return Error::at(profile.ranks.front().path,
                   "found no passes of microbatches told apart, expected annotations of them: "
                   "PP:1F3 (PyTorch's pipelining), forward_step and backward_step, or Forward 3");
}

// Says whether the rank begins a microbatch on a stage before it begins it on an earlier stage: the
// two are of different chains. `is_counted`: by kernel; empty: all.
bool has_two_chains(const ProfileRank& rank, const std::vector<bool>& is_counted) {
  std::map<std::tuple<int, int, int>, Nanoseconds> begins;  // by step, microbatch and stage
  for (std::size_t i = 0; i < rank.kernels.size(); ++i) {   // by start
    const ProfileKernel& kernel = rank.kernels[i];
    if (!is_counted.empty() && !is_counted[i]) continue;
    if (kernel.phase != PassPhase::Forward || kernel.action < 0) continue;
    const ProfileAction& action = rank.actions[kernel.action];
    if (kernel.activity == Activity::Compute && action.stage >= 0 && action.microbatch >= 0)
      begins.try_emplace({step_of(rank, kernel), action.microbatch, action.stage}, kernel.start_ns);
  }
  auto before = begins.begin();
  for (auto at = begins.begin(); at != begins.end(); before = at++) {
    const auto& [step, microbatch, stage] = at->first;
    const bool is_same =
        step == std::get<0>(before->first) && microbatch == std::get<1>(before->first);
    if (is_same && at->second < before->second) return true;
  }
  return false;
}

// Times in ns of a profile's passes on all ranks.
struct PassSamples {
  std::map<PassPhase, std::vector<double>> ns;
  std::map<int, std::vector<double>> forward_ns;  // by stage
  std::vector<double> transfers_ns;
  PassSeconds counted;  // stages and microbatches; no times yet
};

PassSamples samples_of_passes(const Profile& profile) {
  const auto append = [](const std::vector<double>& values, std::vector<double>* all) {
    all->insert(all->end(), values.begin(), values.end());
  };
  PassSamples samples;
  PassSeconds& counted = samples.counted;
  const std::vector<std::vector<bool>> counts = window_of(profile).is_counted;
  for (std::size_t i = 0; i < profile.ranks.size(); ++i)
    counted.has_two_chains |=
        has_two_chains(profile.ranks[i], counts.empty() ? std::vector<bool>() : counts[i]);
  for (const RankTimes& rank : times_of(profile)) {
    std::set<int> own_stages;
    for (const auto& [key, values] : rank.passes) {
      append(values, &samples.ns[key.phase]);
      counted.stages = std::max(counted.stages, key.stage + 1);
      counted.microbatches = std::max(counted.microbatches, key.microbatch + 1);
      if (key.stage < 0) continue;
      own_stages.insert(key.stage);
      if (key.phase == PassPhase::Forward) append(values, &samples.forward_ns[key.stage]);
    }
    counted.stages_a_rank = std::max(counted.stages_a_rank, static_cast<int>(own_stages.size()));
    for (const auto& [key, values] : rank.comms) {
      const auto& [label, ranks] = key;
      if (label.kind == GroupKind::Pipeline && ranks.empty()) append(values, &samples.transfers_ns);
    }
  }
  return samples;
}

}  // namespace

std::vector<std::string> MeasuredOps::warnings(const std::string& path) const {
  std::vector<std::string> lines;
  if (compute_as_priced > 0)
    lines.push_back(fmt::format("{}: has no time of {} of {} compute ops; they go as priced", path,
                                compute_as_priced, compute_as_priced + compute));
  if (comm_as_priced > 0)
    lines.push_back(fmt::format("{}: has no time of {} of {} communications; they go as priced",
                                path, comm_as_priced, comm_as_priced + comm));
  return lines;
}

Result<MeasuredOps> reprice_by_profile(Program* program, const Profile& profile) {
  const std::vector<RankTimes> times = times_of(profile);
  if (std::ranges::all_of(times, [](const RankTimes& rank) { return rank.passes.empty(); }))
    return no_passes(profile);
  const int steps = window_of(profile).steps;
  RETURN_IF_ERROR(check_job(*program, profile, times, steps));
  MeasuredOps measured;
  for (std::size_t body = 0; body < program->bodies.size(); ++body) {
    const PlayingRank played = played_by(*program, static_cast<int>(body), profile, times);
    if (played.times == nullptr)
      return Error::at(profile.ranks.front().path,
                       fmt::format("found no rank with the stages of body {} of {}, expected one",
                                   body, program->name));
    price_compute(&program->bodies[body], *played.times, &measured);
    price_comm(*program, played.rank, *played.times, steps, &program->bodies[body], &measured);
    for (Op& op : program->bodies[body].ops) op.sms = 0;
  }
  program->device = {};
  return measured;
}

Result<PassSeconds> pass_seconds(const Profile& profile, int passes) {
  PassSamples samples = samples_of_passes(profile);
  const bool tells_passes = !samples.ns[PassPhase::Forward].empty();
  if (!tells_passes && passes > 0) {
    const ProfileWindow window = window_of(profile);
    ASSIGN_OR_RETURN(const std::vector<ProfileSplit> splits, splits_of(profile, window));
    for (const ProfileSplit& split : splits) {
      for (const PhaseTotal& total : split.phases)
        samples.ns[total.phase].push_back(static_cast<double>(total.time_ns) / passes /
                                          window.steps);
    }
  }
  const auto seconds_of = [&](PassPhase phase) {
    const std::vector<double>& ns = samples.ns[phase];
    return ns.empty() ? std::nullopt : std::optional(1e-9 * lower_median(ns));
  };
  PassSeconds seconds = samples.counted;
  seconds.forward_s = seconds_of(PassPhase::Forward);
  seconds.weight_s = seconds_of(PassPhase::BackwardWeight);
  seconds.input_s = seconds_of(PassPhase::BackwardInput);
  if (!seconds.input_s && seconds.weight_s) seconds.input_s = seconds_of(PassPhase::Backward);
  seconds.backward_s = seconds.weight_s && seconds.input_s
                           ? std::optional(*seconds.input_s + *seconds.weight_s)
                           : seconds_of(PassPhase::Backward);
  if (!samples.transfers_ns.empty())
    seconds.p2p_s = 1e-9 * lower_median(std::move(samples.transfers_ns));
  for (auto& [stage, values] : samples.forward_ns)
    seconds.forward_by_stage.push_back(1e-9 * lower_median(std::move(values)));
  if (!seconds.forward_s || !seconds.backward_s) return no_passes(profile);
  return seconds;
}

}  // namespace tandem
