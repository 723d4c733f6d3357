// Stage times: measures the passes of a stage, in simulation, on a job of a few layers of each
// kind. The times of a longer stage are sums of these. A pass is a small list schedule: each step
// starts when its lane (compute, or a kind of group) is free and the steps that it waits for have
// ended. Declared in planning/tune/stage_level.h.
//
// A layout is measured at up to three levels (Counted). Exposed counts only what no setting can
// hide. Uncontended counts all steps, as if communication took no SMs from kernels. All counts that
// as well.
#include <algorithm>
#include <array>
#include <numeric>
#include <utility>
#include <vector>

#include "base/check.h"
#include "job/price_job.h"
#include "planning/tune/stage_level.h"
#include "schedule/lowering/body_builder.h"
#include "sim/engines.h"

namespace tandem {

PassTimes StagePassTimes::of(const Model& model, int begin, int count, bool first,
                             bool last) const {
  PassTimes sum = once;
  for (int i = 0; i < count; ++i) sum = sum + layer(model.kind_of(begin + i), i);
  if (first) sum = sum + embedding;
  if (last) sum = sum + head;
  return sum;
}

// Returns a step's duration alone on the network.
Nanoseconds StageLevel::step_ns(const Step& step, const Layout& layout) {
  if (step.computes) return step.duration_ns;
  Layout group = layout;
  if (step.among_experts) group.tp = std::max(layout.expert_tp, 1);
  return groups_.alone_ns(groups_.of_pass(group, step.group_kind, step.collective), step.bytes);
}

// When each step of a pass begins and ends.
struct StepSpans {
  std::vector<Nanoseconds> begins, ends;

  // Returns the time from the pass's input to its last step.
  Nanoseconds length() const { return ends.empty() ? 0 : std::ranges::max(ends); }
};

// Returns the times of a pass's steps if a GPU does nothing else. ns(step) is a step's duration.
template <class Duration>
static StepSpans step_times(const Pass& pass, const Duration& ns) {
  std::array<Nanoseconds, kGroupKinds + 1> lanes{};  // compute has its own
  StepSpans times;
  for (const Step& step : pass.steps) {
    Nanoseconds& lane =
        lanes[step.computes ? kGroupKinds : static_cast<std::size_t>(step.group_kind)];
    for (const int wait : step.waits) lane = std::max(lane, times.ends[wait]);
    times.begins.push_back(lane);
    times.ends.push_back(lane += ns(step));
  }
  return times;
}

// Whether some communication takes SMs while a kernel runs.
static bool takes_sms(const Pass& pass, const StepSpans& times) {
  const auto& [begins, ends] = times;
  for (std::size_t i = 0; i < pass.steps.size(); ++i) {
    if (pass.steps[i].settings.sms == 0) continue;
    for (std::size_t k = 0; k < pass.steps.size(); ++k) {
      if (pass.steps[k].computes && begins[k] < ends[i] && begins[i] < ends[k]) return true;
    }
  }
  return false;
}

// Returns the time that no setting of a layout can hide: kernels, expert communication, and tensor
// communication without sequence parallelism. With it, tensor communication may overlap with
// kernels, as context communication always may.
Nanoseconds StageLevel::exposed_length(const Pass& pass, const Layout& layout) {
  // Communication counts only if all groups lie alike on the nodes. If they do not, its time may
  // differ among the layouts that share these times.
  const bool groups_alike = first_gpus_standing_for_all(layout) > 0;
  const StepSpans times = step_times(pass, [&](const Step& step) -> Nanoseconds {
    const bool exposed =
        step.computes ||
        (groups_alike && (step.group_kind == GroupKind::Expert ||
                          (step.group_kind == GroupKind::Tensor && !layout.sequence_parallel)));
    return exposed ? step_ns(step, layout) : 0;
  });
  return times.length();
}

// Returns a program without ops for one GPU.
Program StageLevel::one_gpu(std::vector<Kernel> kernels) const {
  Program program;
  program.kernels = std::move(kernels);
  program.device = {base_.cluster.spec.device.sms, base_.cluster.spec.device.memory_bytes_per_s};
  for (int group_kind = 0; group_kind < kGroupKinds; ++group_kind)
    program.communicators.push_back(
        {static_cast<GroupKind>(group_kind), /*between_nodes=*/false, {Rank{0}}});
  return program;
}

// Returns the time of a pass whose communication takes SMs from kernels: plays its steps as ops on
// the ideal engine.
Nanoseconds StageLevel::length_on_engine(const Pass& pass, const Layout& layout, Program* program) {
  BodyBuilder body;
  std::array<std::int16_t, kGroupKinds> slots{};
  std::vector<std::int32_t> communicators;
  for (int group_kind = 0; group_kind < kGroupKinds; ++group_kind) {
    slots[group_kind] = body.slot(static_cast<GroupKind>(group_kind),
                                  std::string(group_kind_name(static_cast<GroupKind>(group_kind))));
    communicators.push_back(group_kind);
  }
  std::vector<std::uint32_t> ops, waits;
  for (const Step& step : pass.steps) {
    Op op{.duration_ns = step_ns(step, layout), .kernel = step.kernel};
    if (!step.computes) {
      op.kind = op_kind(step.collective);
      op.slot = slots[static_cast<std::size_t>(step.group_kind)];
      op.sms = step.settings.sms;
      op.bytes = step.bytes;
    }
    waits.clear();
    for (const int wait : step.waits) waits.push_back(ops[wait]);
    ops.push_back(body.add(op, waits));
  }
  program->bodies = {body.take()};
  program->ranks = {{0, communicators}};
  const auto trace = ideal(*program, {.fold = false});  // there is only one rank
  CHECK(trace.ok());
  return std::ranges::max(trace->events, {}, &EventTimes::end_ns).end_ns;
}

// Returns a pipeline with layers of one kind; `layers`: their number on each stage. The embedding
// is on the first stage, the head on the last.
std::pair<Model, Plan> StageLevel::small_job(const Layout& layout, const Model& kind,
                                             const std::vector<int>& layers) const {
  Plan plan = plan_of(base_, {layout, {default_order(1)}, {}});
  plan.pp = static_cast<int>(layers.size());
  plan.vpp = 1;
  plan.layers_per_stage = layers;
  plan.offload_layers = 0;  // a layer's wait depends on how many its stage has: none is counted
  if (!kind.is_moe()) {
    plan.ep = 1;
    plan.expert_tp = 0;
  }
  Model model = kind;
  model.layers = std::accumulate(layers.begin(), layers.end(), 0);
  return {std::move(model), std::move(plan)};
}

// Measures a pipeline of four stages with 1, 1, 2 and 1 layers of this kind.
//   layer = stage 2 - stage 1      embedding = stage 0 - stage 1
//   once  = stage 1 - layer        head      = stage 3 - stage 1
StagePassTimes StageLevel::measure_kind(const Layout& layout, const Model& kind, Counted counted) {
  const std::pair<Model, Plan> few = small_job(layout, kind, {1, 1, 2, 1});
  const Model& model = few.first;
  const Plan& plan = few.second;
  // The block's collectives depend on these numbers of the layout alone.
  const Layout tensor{.tp = layout.tp,
                      .cp = layout.cp,
                      .micro_batch = layout.micro_batch,
                      .precision = layout.precision};
  const Nanoseconds collective_ns = known_->collectives.of(
      tensor, [&] { return block_collective_ns(model, plan, base_.costs, groups_.site()); });
  Workload work =
      price_workload(model, OrderedPlan(plan), base_.costs, groups_.site(), collective_ns);
  StagePassTimes times;
  Program program = one_gpu(std::move(work.kernels));
  const auto ns = [&](const Pass& pass) {
    if (counted == Counted::Exposed) return exposed_length(pass, layout);
    const StepSpans steps =
        step_times(pass, [&](const Step& step) { return step_ns(step, layout); });
    if (!takes_sms(pass, steps)) return steps.length();
    times.slowed = true;
    return counted == Counted::All ? length_on_engine(pass, layout, &program) : steps.length();
  };
  std::vector<PassTimes> stages;
  for (const StageWork& stage : work.stages)
    stages.push_back({ns(stage.forward), ns(stage.backward), ns(stage.backward_input),
                      ns(stage.backward_weight)});
  times.layers = {stages[2] - stages[1]};
  times.once = stages[1] - times.layers.front();
  times.embedding = stages.front() - stages[1];
  times.head = stages.back() - stages[1];
  times.pipeline_bytes = work.pipeline_bytes;
  return times;
}

// Measures all kinds of layers. The embedding and `once` are taken from the first kind, the head
// from the last layer's kind.
StagePassTimes StageLevel::measure_layers(const Layout& layout, Counted counted) {
  const Model& model = base_.job.model;
  if (layout.recompute_layers >= 0) {
    Layout all_alike = layout;
    all_alike.recompute_layers = kAsScenario;
    const StagePassTimes recomputed = measure_layers(all_alike, counted);
    all_alike.recompute = Recompute::None;
    StagePassTimes some = measure_layers(all_alike, counted);
    some.recomputed = recomputed.layers;
    some.first_layers = layout.recompute_layers;
    some.slowed |= recomputed.slowed;
    return some;
  }
  const auto measured = [&](const Model& kind) {
    if (kind.is_moe() || layout.expert_tp == 0) return measure_kind(layout, kind, counted);
    Layout dense = layout;  // a dense layer takes the same time however experts are cut
    dense.ep = 1;
    dense.expert_tp = 0;
    return known_->dense.of(std::tuple(canonical(dense), kind.kind, counted),
                            [&] { return measure_kind(layout, kind, counted); });
  };
  StagePassTimes all = measured(model.kinds.empty() ? model : model.kinds.front());
  for (std::size_t i = 1; i < model.kinds.size(); ++i) {
    const StagePassTimes kind = measured(model.kinds[i]);
    all.layers.push_back(kind.layers.front());
    all.slowed |= kind.slowed;
    if (model.kind_of(model.layers - 1) == static_cast<int>(i)) all.head = kind.head;
  }
  return all;
}

int StageLevel::first_gpus_standing_for_all(const Layout& layout) const {
  return groups_.first_gpus_standing_for_all(
      std::lcm(layout.tp * layout.cp, layout.ep * std::max(layout.expert_tp, 1)));
}

// Sets numbers that change no pass's time to one value: vpp, and pp and dp if some GPUs' groups
// stand for all groups.
Layout StageLevel::canonical(Layout layout) const {
  layout.vpp = 1;
  if (const int alike = first_gpus_standing_for_all(layout); alike > 0) {
    layout.dp = std::min(layout.pipeline_rank_gpus(), alike) / (layout.tp * layout.cp);
    layout.pp = std::min(layout.pp, 2);  // every number of stages above 1 gives the same times
  }
  return layout;
}

const StagePassTimes& StageLevel::uncontended_times(const Layout& layout) {
  return known_->uncontended.of(canonical(layout),
                                [&] { return measure_layers(layout, Counted::Uncontended); });
}

const StagePassTimes& StageLevel::times(const Layout& layout) {
  const StagePassTimes& uncontended = uncontended_times(layout);
  if (!uncontended.slowed) return uncontended;
  return known_->all.of(canonical(layout), [&] { return measure_layers(layout, Counted::All); });
}

// Returns one layout for all layouts with the same exposed times: overlap and pp do not matter.
Layout StageLevel::exposed_key(const Layout& layout) const {
  Layout alike = canonical(layout);
  alike.tensor = TensorMethod::Off;
  alike.overlap_context = alike.scatter_gather = false;
  alike.pp = 1;
  if (first_gpus_standing_for_all(layout) == 0)
    alike.dp = 1;  // only kernels count: alike on all ranks
  return alike;
}

// Measures without tensor overlap: methods that cut GEMMs have no less to compute. Times are known
// by `key`, and measured with the layout's own pp, vpp and dp (`least`). A first, a middle and a
// last stage of each kind of layers show whether the rules are kept.
const StagePassTimes& StageLevel::exposed_times(const Layout& layout) {
  const Layout key = exposed_key(layout);
  Layout least = key;
  least.pp = layout.pp;
  least.vpp = layout.vpp;
  least.dp = layout.dp;
  return known_->exposed.of(key, [&]() -> StagePassTimes {
    for (const auto& [kind, layers] : kinds_of(base_.job.model)) {
      const auto [model, plan] = small_job(least, *kind, {1, 1, 1});
      if (!check_model(model, plan).ok()) return {};
    }
    return measure_layers(least, Counted::Exposed);
  });
}

std::vector<PassTimes> StageLevel::stages_of(const StagePassTimes& parts,
                                             const Layout& layout) const {
  Plan plan = base_.job.plan;
  plan.pp = layout.pp;
  plan.vpp = layout.vpp;
  plan.layers_per_stage.clear();
  std::vector<PassTimes> stages;
  for (const auto& [stage, begin, layers] : layers_of_stages(base_.job.model, plan))
    stages.push_back(
        parts.of(base_.job.model, begin, layers, stage == 0, stage + 1 == layout.stages()));
  return stages;
}

}  // namespace tandem
