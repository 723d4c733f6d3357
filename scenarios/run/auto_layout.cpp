#include "scenarios/run/auto_layout.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "interop/megatron/layout.h"
#include "scenarios/run/job_result.h"
#include "scenarios/run/memory_timeline.h"
#include "scenarios/run/order_job.h"
#include "scenarios/run/place.h"
#include "scenarios/run/price_job.h"
#include "scenarios/run/run.h"
#include "schedule/lowering/price.h"
#include "schedule/order/layer_split.h"
#include "schedule/order/order_replay.h"
#include "topology/cluster.h"
#include "workload/model/workload.h"

namespace tandem {
namespace {

OrderCosts difference(const OrderCosts& a, const OrderCosts& b) {
  return {a.forward - b.forward, a.input - b.input, a.weight - b.weight, a.transfer};
}

struct KindCosts {
  OrderCosts layer, embedding, head, each;
};

// From a pipeline of such layers alone: one a stage, but two on the third. The head may come with
// layers of multi-token prediction, which are as the last layer.
KindCosts costs_of_kind(const Model& kind, const Scenario& scenario, const Cluster& cluster,
                        const Placement& placement) {
  constexpr int kStages = 4, kTwo = 2;
  Plan plan = scenario.job.plan;
  plan.vpp = (kStages + plan.pp - 1) / plan.pp;
  plan.layers_per_stage.assign(plan.stages(), 1);
  plan.layers_per_stage[kTwo] = 2;
  if (!kind.is_moe()) {
    plan.ep = 1;
    plan.expert_tp = 0;
  }
  Model model = kind;
  model.layers = plan.stages() + 1;
  const Workload chain =
      price_workload(model, OrderedPlan(plan), scenario.costs, cluster, placement);
  const std::vector<OrderCosts> stages =
      stage_costs(chain, model, plan, scenario.costs, cluster, placement);
  KindCosts costs;
  costs.layer = difference(stages[kTwo], stages[1]);
  costs.each = difference(stages[1], costs.layer);
  costs.embedding = difference(stages.front(), stages[1]);
  costs.head = difference(stages.back(), stages[1]);
  return costs;
}

// In seconds, communication inside a layer one after another.
LayerCosts layer_costs(const Scenario& scenario, const Cluster& cluster,
                       const Placement& placement) {
  const Model& model = scenario.job.model;
  std::vector<KindCosts> kinds;
  if (model.kinds.empty()) kinds.push_back(costs_of_kind(model, scenario, cluster, placement));
  for (const Model& kind : model.kinds)
    kinds.push_back(costs_of_kind(kind, scenario, cluster, placement));
  LayerCosts costs;
  for (int layer = 0; layer < model.layers; ++layer)
    costs.layers.push_back(kinds[model.kind_of(layer)].layer);
  costs.each = kinds.front().each;
  costs.embedding = kinds.front().embedding;
  costs.head = kinds[model.kind_of(model.layers - 1)].head;
  return costs;
}

// What splits of the job's layers come to.
class SplitJudge {
 public:
  SplitJudge(const Scenario& scenario, LayerCosts costs, const VocabularyCosts& vocabulary,
             const std::optional<Order>& listed)
      : scenario_(scenario), costs_(std::move(costs)), vocabulary_(vocabulary), order_(listed) {}

  // An order that is made for costs is another one for each split.
  bool makes_orders() const {
    return scenario_.job.order_file.empty() &&
           (scenario_.job.plan.vocabulary > 0 || traits_of(scenario_.job.order).made_for_costs());
  }

  Status prepare(const std::vector<int>& split) {
    if (order_ && !makes_orders()) return Done{};
    ASSIGN_OR_RETURN(
        order_, make_order(
                    scenario_.job, [&] { return stages_of(split); }, [&] { return vocabulary_; }));
    live_ = live_activations(*order_);
    return Done{};
  }

  SplitValue value(const std::vector<int>& split) {
    if (const Status status = prepare(split); !status.ok()) return {.fits = false, .time = 1e300};
    if (live_.ranks.empty()) live_ = live_activations(*order_);
    std::vector<OrderCosts> stages;
    for (int chain = 0; chain < order_->chains; ++chain) {
      for (const OrderCosts& stage : stages_of(split)) stages.push_back(stage);
    }
    Plan plan = scenario_.job.plan;
    plan.layers_per_stage = split;
    const DeviceSpec& device = scenario_.cluster.spec.device;
    const MemoryUse memory = peak_memory(scenario_.job.model, ordered_plan(plan, *order_), live_);
    return {.fits = fits_memory(device, memory.total() + device.gemm_workspace_bytes),
            .time = replay_stages(*order_, stages, vocabulary_).makespan};
  }

  const Order& order() const { return *order_; }

 private:
  std::vector<OrderCosts> stages_of(const std::vector<int>& split) const {
    return costs_of_split(costs_, split);
  }

  const Scenario& scenario_;
  const LayerCosts costs_;
  const VocabularyCosts vocabulary_;
  std::optional<Order> order_;
  LiveActivations live_;
};

// Splits that are played in full, on the ideal engine, and the best of them.
class FullPlays {
 public:
  explicit FullPlays(const Scenario& scenario) : scenario_(scenario) {}

  Status play(const std::vector<int>& split) {
    Scenario one = scenario_;
    one.job.plan.layers_per_stage = split;
    ASSIGN_OR_RETURN(const PlayedJob job, play_once(one, Engine::Ideal));
    const RunResult result = result_of(one, job.job, job.trace);
    const SplitValue own{!result.training || result.training->fits, result.iteration_s};
    if (best_.empty() || own.better_than(value_)) {
      best_ = split;
      value_ = own;
    }
    return Done{};
  }

  // Layers go back one by one to where they are in the even split, while that is better: stages
  // alone do not tell what a pipeline hides.
  Status undo_towards(const std::vector<int>& even) {
    std::vector<int> from;
    while (from != best_) {
      from = best_;
      for (std::size_t more = 0; more < even.size(); ++more) {
        for (std::size_t fewer = 0; fewer < even.size(); ++fewer) {
          if (from[more] <= even[more] || from[fewer] >= even[fewer]) continue;
          std::vector<int> split = from;
          --split[more];
          ++split[fewer];
          RETURN_IF_ERROR(play(split));
        }
      }
    }
    return Done{};
  }

  const std::vector<int>& best() const { return best_; }

 private:
  const Scenario& scenario_;
  std::vector<int> best_;
  SplitValue value_;
};

std::int64_t actions_of(const Order& order) {
  std::int64_t actions = 1;
  for (const std::vector<Action>& rank : order.ranks)
    actions += static_cast<std::int64_t>(rank.size());
  return actions;
}

// Splits that are played: fewer where an order has many actions, or is made for each split, which
// takes some fifty times as long.
int most_splits(const SplitJudge& judge) {
  constexpr std::int64_t kActions = 20'000'000, kToMake = 50;
  constexpr std::int64_t kFewest = 10, kMost = 2'000;
  std::int64_t actions = actions_of(judge.order());
  if (judge.makes_orders()) actions *= kToMake;
  return static_cast<int>(std::clamp(kActions / actions, kFewest, kMost));
}

// The best of those that were played stage by stage, to be played in full: one where that takes
// long.
Result<std::vector<std::vector<int>>> good_splits(const Scenario& scenario,
                                                  const std::vector<int>& even, bool has_even) {
  const JobSettings& job = scenario.job;
  ASSIGN_OR_RETURN(const Cluster cluster,
                   build_cluster(scenario.cluster, scenario.costs, scenario.variability));
  const Placement placement = place_ranks(scenario.cluster, cluster);
  ASSIGN_OR_RETURN(const std::optional<Order> listed, listed_order(job));
  LayerCosts costs = layer_costs(scenario, cluster, placement);
  const std::vector<int> rank_of =
      listed ? stage_to_rank(*listed)
             : ranks_of_chain(traits_of(job.order), job.plan.pp, job.plan.vpp);
  const std::vector<int> balanced =
      balanced_split(costs, std::span(rank_of).first(job.plan.stages()));
  VocabularyCosts vocabulary;
  if (job.plan.vocabulary > 0) {
    Plan plan = job.plan;
    plan.layers_per_stage = balanced;
    const Workload chain =
        price_workload(job.model, OrderedPlan(plan), scenario.costs, cluster, placement);
    vocabulary = vocabulary_costs(chain, job.model, plan, scenario.costs, cluster, placement);
  }
  SplitJudge judge(scenario, std::move(costs), vocabulary, listed);
  RETURN_IF_ERROR(judge.prepare(balanced));
  std::vector<std::vector<int>> starts = {balanced};
  if (has_even) starts.push_back(even);
  std::vector<std::vector<int>> splits =
      refined_splits(starts, most_splits(judge),
                     [&](const std::vector<int>& split) { return judge.value(split); });
  constexpr std::int64_t kActions = 100'000, kMost = 8;
  const auto count = static_cast<std::size_t>(
      std::clamp<std::int64_t>(kActions / actions_of(judge.order()), 1, kMost));
  splits.resize(std::min(splits.size(), count));
  return splits;
}

}  // namespace

Result<Scenario> with_layout(const Scenario& scenario) {
  const Model& model = scenario.job.model;
  Scenario even = scenario;
  even.job.layout.clear();
  even.job.plan.layers_per_stage.clear();
  even.job.plan.layers_per_stage = split_layers(model, even.job.plan);
  std::vector<int> best = even.job.plan.layers_per_stage;
  if (scenario.job.plan.stages() > 1) {
    const bool has_even = check(model, even.job.plan).ok();
    ASSIGN_OR_RETURN(std::vector<std::vector<int>> splits, good_splits(scenario, best, has_even));
    if (has_even) splits.push_back(best);
    FullPlays plays(even);
    for (const std::vector<int>& split : splits) RETURN_IF_ERROR(plays.play(split));
    if (has_even) RETURN_IF_ERROR(plays.undo_towards(best));
    best = plays.best();
  }
  even.job.plan.layers_per_stage = best;
  even.job.layout = layout_text(best, model.mtp_layers);
  return even;
}

}  // namespace tandem
