// What the passes of a stage take: measured on a few layers of each kind, and summed.
#include <algorithm>
#include <array>
#include <numeric>
#include <utility>
#include <vector>

#include "base/check.h"
#include "planning/tune/stage_level.h"
#include "scenarios/run/price_job.h"
#include "schedule/lowering/body_builder.h"
#include "sim/engines.h"

namespace tandem {

PassTimes StageTimes::of(const Model& model, int begin, int count, bool first, bool last) const {
  std::vector<int> of_kind(layers.size(), 0);
  for (int i = begin; i < begin + count; ++i) ++of_kind[model.kind_of(i)];
  PassTimes sum = once;
  for (std::size_t kind = 0; kind < layers.size(); ++kind) sum = sum + of_kind[kind] * layers[kind];
  if (first) sum = sum + embedding;
  if (last) sum = sum + head;
  return sum;
}

// From the pass's input to its last step, as the ideal engine plays it on a GPU of its own.
Nanoseconds StageLevel::length(const Pass& pass, const Layout& layout, Program* program) {
  BodyBuilder body;
  std::array<std::int16_t, kGroupKinds> slots{};
  std::vector<std::int32_t> communicators;
  for (int group_kind = 0; group_kind < kGroupKinds; ++group_kind) {
    slots[group_kind] = body.slot(static_cast<GroupKind>(group_kind),
                                  std::string(name(static_cast<GroupKind>(group_kind))));
    communicators.push_back(group_kind);
  }
  std::vector<std::uint32_t> ops, waits;
  for (const Step& step : pass.steps) {
    Op op{.kernel = step.kernel, .duration_ns = step.duration_ns};
    if (!step.computes) {
      op.kind = op_kind(step.collective);
      op.slot = slots[static_cast<std::size_t>(step.group_kind)];
      op.sms = step.settings.sms;
      op.bytes = step.bytes;
      Layout group = layout;
      if (step.among_experts) group.tp = std::max(layout.expert_tp, 1);
      op.duration_ns =
          groups_.alone_ns(groups_.of_pass(group, step.group_kind, step.collective), step.bytes);
    }
    waits.clear();
    for (const int wait : step.waits) waits.push_back(ops[wait]);
    ops.push_back(body.add(op, waits));
  }
  program->bodies = {body.take()};
  program->ranks = {{0, communicators}};
  const auto trace = ideal(*program);
  CHECK(trace.ok());
  return std::ranges::max(trace->events, {}, &EventTimes::end_ns).end_ns;
}

// From a job of four stages: with the embedding, of one layer, of two, with the head.
StageTimes StageLevel::measure_kind(const Layout& layout, const Model& kind) {
  Scenario scenario = with(base_, {layout, {default_order(1)}, {}});
  Plan plan = scenario.job.plan;
  plan.pp = 4;
  plan.vpp = 1;
  plan.layers_per_stage = {1, 1, 2, 1};
  if (!kind.is_moe()) {
    plan.ep = 1;
    plan.expert_tp = 0;
  }
  Model model = kind;
  model.layers = 5;
  const Workload work =
      price_workload(model, OrderedPlan(plan), base_.costs, groups_.cluster(), groups_.placement());
  Program program;
  program.kernels = work.kernels;
  program.device = {base_.cluster.spec.device.sms, base_.cluster.spec.device.memory_bytes_per_s};
  for (int group_kind = 0; group_kind < kGroupKinds; ++group_kind)
    program.communicators.push_back({static_cast<GroupKind>(group_kind), false, {Rank{0}}});
  std::array<PassTimes, 4> stages;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const StageWork& stage = work.stages[s];
    stages[s] = {length(stage.forward, layout, &program), length(stage.backward, layout, &program),
                 length(stage.backward_input, layout, &program),
                 length(stage.backward_weight, layout, &program)};
  }
  StageTimes times;
  times.layers = {stages[2] - stages[1]};
  times.once = stages[1] - times.layers.front();
  times.embedding = stages[0] - stages[1];
  times.head = stages[3] - stages[1];
  times.pipeline_bytes = work.pipeline_bytes;
  return times;
}

// What a pass takes once and the embedding are the first kind's, the head the last layer's, which
// may come with further ones.
StageTimes StageLevel::measure_layers(const Layout& layout) {
  const Model& model = base_.job.model;
  StageTimes all = measure_kind(layout, model.kinds.empty() ? model : model.kinds.front());
  for (std::size_t i = 1; i < model.kinds.size(); ++i) {
    const StageTimes kind = measure_kind(layout, model.kinds[i]);
    all.layers.push_back(kind.layers.front());
    if (model.kind_of(model.layers - 1) == static_cast<int>(i)) all.head = kind.head;
  }
  return all;
}

const StageTimes& StageLevel::times(const Layout& layout) {
  Layout key = layout;
  key.vpp = 1;
  const int node = groups_.cluster().spec().gpus_per_node;
  const int span = std::lcm(layout.tp * layout.cp, layout.ep * std::max(layout.expert_tp, 1));
  if (!base_.cluster.cyclic && groups_.cluster().nodes_alike() && node % span == 0) {
    key.pp = std::min(layout.pp, 2);  // whether the embedding is shared shows in no time
    key.dp = std::min(layout.block(), node) / (layout.tp * layout.cp);
  }
  const auto known = times_.find(key);
  if (known != times_.end()) return known->second;
  return times_.emplace(key, measure_layers(layout)).first->second;
}

std::vector<PassTimes> StageLevel::stages(const Layout& layout) {
  const StageTimes& parts = times(layout);
  Plan plan = base_.job.plan;
  plan.pp = layout.pp;
  plan.vpp = layout.vpp;
  plan.layers_per_stage.clear();
  const std::vector<int> layers = split_layers(base_.job.model, plan);
  std::vector<PassTimes> stages;
  int begin = 0;
  for (std::size_t s = 0; s < layers.size(); ++s) {
    stages.push_back(parts.of(base_.job.model, begin, layers[s], s == 0, s + 1 == layers.size()));
    begin += layers[s];
  }
  return stages;
}

}  // namespace tandem
