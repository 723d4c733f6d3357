// Finds how many layers each pipeline stage gets, for example 6,7,7,5, by a local search in two
// steps. First it compares splits by a quick replay: each pass of a stage is one action, which
// takes the sum of its layers' prices. The search begins at a balanced split and at Megatron-LM's
// even one, and moves single layers. Then the best few splits are played in full on the ideal
// engine, and layers are moved back towards the even split as long as that helps.
#include "planning/choose/auto_layout.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "interop/megatron/layout.h"
#include "job/memory_timeline.h"
#include "job/order_job.h"
#include "job/price_job.h"
#include "job/site.h"
#include "planning/play/play_job.h"
#include "results/job_result.h"
#include "schedule/lowering/price.h"
#include "schedule/order/layer_split.h"
#include "schedule/order/order_replay.h"
#include "schedule/order/repeated_replay.h"
#include "schedule/order/split_search.h"
#include "topology/cluster.h"
#include "workload/memory/memory.h"
#include "workload/memory/reserve.h"
#include "workload/model/workload.h"

namespace tandem {
namespace {

OrderCosts difference(const OrderCosts& a, const OrderCosts& b) {
  return {a.forward - b.forward, a.input - b.input, a.weight - b.weight, a.transfer};
}

// The parts of a stage's costs, in a model whose layers are all of one kind. A stage costs `each`
// and its layers; the first one also the embedding, the last one also the head.
struct KindCosts {
  OrderCosts layer, embedding, head;
  OrderCosts each;        // on any stage, whatever its layers, such as transfers
  OrderCosts prediction;  // multi-token prediction, if the plan has it on the stage before the head
};

// Returns the costs for layers of this kind. They are differences between the stages of a small
// pipeline that has only such layers:
//
//   stage    0  1  2  3      layer = stage 2 - stage 1      embedding = stage 0 - stage 1
//   layers   1  1  2  1      each  = stage 1 - layer        head      = stage 3 - stage 1
//
// If multi-token prediction is on the stage before the head's, the stages have 3, 1, 1 and 0
// layers. Then `prediction` is stage 2 - stage 1, and `head` is the whole of stage 3, `each`
// included.
KindCosts costs_of_kind(const Model& kind, const Scenario& scenario, const Site& site) {
  constexpr int kStages = 4, kTwoLayers = 2;  // stages; the one with two layers
  Plan plan = scenario.job.plan;
  plan.vpp = (kStages + plan.pp - 1) / plan.pp;
  plan.layers_per_stage.assign(plan.stages(), 1);
  const bool head_is_alone = plan.mtp_before_loss;
  if (head_is_alone) {
    plan.layers_per_stage.back() = 0;
    plan.layers_per_stage.front() += 2;
  } else {
    plan.layers_per_stage[kTwoLayers] += 1;
  }
  if (!kind.is_moe()) {
    plan.ep = 1;
    plan.expert_tp = 0;
  }
  Model model = kind;
  model.mtp_layers = scenario.job.model.mtp_layers;
  model.layers = plan.stages() + 1;
  const Workload chain = price_workload(model, OrderedPlan(plan), scenario.costs, site);
  const std::vector<OrderCosts> stages = stage_costs(chain, model, plan, scenario.costs, site);
  KindCosts costs;
  if (head_is_alone) {  // all other costs are those without prediction: the caller has them
    costs.prediction = difference(stages[stages.size() - 2], stages[1]);
    costs.prediction.transfer = stages.back().transfer;
    costs.head = stages.back();
    return costs;
  }
  costs.layer = difference(stages[kTwoLayers], stages[1]);
  costs.each = difference(stages[1], costs.layer);
  costs.embedding = difference(stages.front(), stages[1]);
  costs.head = difference(stages.back(), stages[1]);
  return costs;
}

// Returns the cost of each layer in seconds. Communication inside a layer overlaps nothing. A layer
// of multi-token prediction costs as much as the model's last layer.
LayerCosts layer_costs(const Scenario& given, const Site& site) {
  const Model& model = given.job.model;
  Scenario scenario = given;
  scenario.job.plan.mtp_before_loss = false;
  std::vector<KindCosts> kinds;
  if (model.kinds.empty()) kinds.push_back(costs_of_kind(model, scenario, site));
  for (const Model& kind : model.kinds) kinds.push_back(costs_of_kind(kind, scenario, site));
  LayerCosts costs;
  for (int layer = 0; layer < model.layers; ++layer)
    costs.layers.push_back(kinds[model.kind_of(layer)].layer);
  costs.each = kinds.front().each;
  costs.embedding = kinds.front().embedding;
  costs.head = kinds[model.kind_of(model.layers - 1)].head;
  if (!given.job.plan.mtp_before_loss) return costs;
  const KindCosts before_loss = costs_of_kind(model.layer(model.layers - 1), given, site);
  costs.prediction = before_loss.prediction;
  costs.head = difference(before_loss.head, costs.each);
  return costs;
}

// Evaluates a split by the quick replay: whether it fits into memory, and its time. An order may
// have several chains (DualPipe has two), each with all stages of the model.
class SplitEvaluator {
 public:
  SplitEvaluator(const Scenario& scenario, const LayerCosts& costs,
                 const VocabularyCosts& vocabulary, const std::optional<Order>& listed)
      : scenario_(scenario), costs_(costs), vocabulary_(vocabulary), order_(listed) {}

  // Whether the order depends on the stages' costs, so that each split needs an order of its own.
  bool makes_orders() const {
    return scenario_.job.order_file.empty() &&
           (scenario_.job.plan.vocabulary > 0 || traits_of(scenario_.job.order).made_for_costs());
  }

  // Makes the order for this split, unless the order made before serves all splits.
  Status prepare(const std::vector<int>& split) {
    const bool is_new = !order_ || makes_orders();
    if (is_new) {
      const auto costs = [&] { return stages_of(split); };
      const auto vocabulary = [&] { return vocabulary_; };
      ASSIGN_OR_RETURN(order_, make_order(order_spec(scenario_.job, costs, vocabulary)));
    }
    if (is_new || live_.ranks.empty()) live_ = live_activations(*order_);
    if (!makes_orders() && !replay_ && order_->vocabulary == 0) replay_.emplace(*order_);
    return Done{};
  }

  SplitValue value(const std::vector<int>& split) {
    if (const Status status = prepare(split); !status.ok()) return {.fits = false, .time = 1e300};
    Plan plan = scenario_.job.plan;
    plan.layers_per_stage = split;
    const DeviceSpec& device = scenario_.cluster.spec.device;
    const Model& model = scenario_.job.model;
    const OrderedPlan ordered = ordered_plan(plan, *order_);
    const double tensors = peak_memory(model, ordered, live_).total() + device.gemm_workspace_bytes;
    return {.fits = fits_memory(device, model, ordered, tensors),
            .time = makespan(stages_of_chains(split))};
  }

  // Returns how many passes of each stage, of all chains, are on the critical path of the replay.
  // Empty if each split has an order of its own.
  std::vector<PathPasses> longest_way(const std::vector<int>& split) {
    if (!replay_) return {};
    replay_->makespan(stages_of_chains(split));
    std::vector<PathPasses> way = replay_->longest_way();
    for (std::size_t stage = split.size(); stage < way.size(); ++stage) {
      PathPasses& sum = way[stage % split.size()];
      sum.forward += way[stage].forward;
      sum.input += way[stage].input;
      sum.weight += way[stage].weight;
    }
    way.resize(split.size());
    return way;
  }

  const Order& order() const { return *order_; }

 private:
  std::vector<OrderCosts> stages_of(const std::vector<int>& split) const {
    return costs_of_split(costs_, split);
  }
  std::vector<OrderCosts> stages_of_chains(const std::vector<int>& split) const {
    const std::vector<OrderCosts> chain_stages = stages_of(split);
    std::vector<OrderCosts> all;
    for (int chain = 0; chain < order_->chains; ++chain)
      all.insert(all.end(), chain_stages.begin(), chain_stages.end());
    return all;
  }
  double makespan(const std::vector<OrderCosts>& stages) {
    return replay_ ? replay_->makespan(stages)
                   : replay_stages(*order_, stages, vocabulary_).makespan;
  }

  const Scenario& scenario_;
  const LayerCosts& costs_;
  const VocabularyCosts vocabulary_;
  // prepare() sets these: the order of the last split, its replay if it serves all splits, and the
  // microbatches alive on each rank.
  std::optional<Order> order_;
  std::optional<RepeatedReplay> replay_;
  LiveActivations live_;
};

// A layout: the layers of each stage, and whether multi-token prediction is on the stage before the
// one with the loss.
struct SplitLayout {
  std::vector<int> split;
  bool mtp_before_loss = false;
};

Scenario scenario_with(Scenario scenario, const SplitLayout& layout) {
  scenario.job.plan.layers_per_stage = layout.split;
  scenario.job.plan.mtp_before_loss = layout.mtp_before_loss;
  return scenario;
}

// Plays layouts in full on the ideal engine and keeps the best.
class LayoutPlays {
 public:
  explicit LayoutPlays(const Scenario& scenario) : scenario_(scenario) {}

  Status play(const SplitLayout& layout) {
    Scenario scenario = scenario_with(scenario_, layout);
    scenario.variability = scenario_.variability.without_disturbances();
    ASSIGN_OR_RETURN(const PlayedJob job, play_once(scenario, Engine::Ideal));
    const RunResult result = result_of(scenario, job.job, job.trace);
    const SplitValue value{!result.training || result.training->fits, result.iteration_s};
    if (best_.split.empty() || value.better_than(best_value_)) {
      best_ = layout;
      best_value_ = value;
    }
    return Done{};
  }

  // Moves layers one by one back to where the even split has them, as long as that is faster: the
  // quick replay does not see all that a pipeline hides, and may have moved them for nothing. Plays
  // at most `most` layouts.
  Status move_towards(const std::vector<int>& even, int most) {
    std::vector<int> from;
    while (from != best_.split) {
      from = best_.split;
      for (std::size_t more = 0; more < even.size(); ++more) {
        for (std::size_t fewer = 0; fewer < even.size(); ++fewer) {
          if (from[more] <= even[more] || from[fewer] >= even[fewer]) continue;
          if (most-- <= 0) return Done{};
          std::vector<int> split = from;
          --split[more];
          ++split[fewer];
          RETURN_IF_ERROR(play({split, best_.mtp_before_loss}));
        }
      }
    }
    return Done{};
  }

  const SplitLayout& best() const { return best_; }

 private:
  const Scenario& scenario_;
  SplitLayout best_;
  SplitValue best_value_;
};

std::int64_t actions_of(const Order& order) {
  std::int64_t actions = 1;
  for (const std::vector<Action>& rank : order.ranks)
    actions += static_cast<std::int64_t>(rank.size());
  return actions;
}

// Returns how many splits the search may replay: 10 to 2000, with 20 million actions in all.
int most_splits(const SplitEvaluator& evaluator) {
  constexpr std::int64_t kActions = 20'000'000;
  constexpr std::int64_t kMakingOverReplaying = 50;  // the time to make an order over a replay's
  constexpr std::int64_t kFewest = 10, kMost = 2'000;
  std::int64_t actions = actions_of(evaluator.order());
  if (evaluator.makes_orders()) actions *= kMakingOverReplaying;
  return static_cast<int>(std::clamp(kActions / actions, kFewest, kMost));
}

// Returns how many layouts are played in full: 1 to `most`, with `actions` in all.
int plays_in_full(const Order& order, std::int64_t actions, std::int64_t most) {
  return static_cast<int>(std::clamp<std::int64_t>(actions / actions_of(order), 1, most));
}

struct GoodSplits {
  std::vector<std::vector<int>> splits;  // the best first
  Order order;                           // in which one of them was replayed
};

// Returns the best splits by replay. The search also begins at `even`, unless that is empty.
Result<GoodSplits> good_splits(const Scenario& scenario, const std::vector<int>& even) {
  const JobSettings& job = scenario.job;
  ASSIGN_OR_RETURN(const Site site, build_site(scenario));
  ASSIGN_OR_RETURN(const std::optional<Order> listed, listed_order(job));
  const LayerCosts costs = layer_costs(scenario, site);
  const std::vector<int> rank_of =
      listed ? stage_to_rank(*listed)
             : ranks_of_chain(traits_of(job.order), job.plan.pp, job.plan.vpp);
  const std::vector<int> balanced =
      balanced_split(costs, std::span(rank_of).first(job.plan.stages()));
  VocabularyCosts vocabulary;
  if (job.plan.vocabulary > 0) {
    Plan plan = job.plan;
    plan.layers_per_stage = balanced;
    const Workload chain = price_workload(job.model, OrderedPlan(plan), scenario.costs, site);
    vocabulary = vocabulary_costs(chain, job.model, plan, scenario.costs, site);
  }
  SplitEvaluator evaluator(scenario, costs, vocabulary, listed);
  RETURN_IF_ERROR(evaluator.prepare(balanced));
  std::vector<std::vector<int>> starts = {balanced};
  if (!even.empty()) starts.push_back(even);
  std::vector<std::vector<int>> splits = refined_splits(
      costs, starts, most_splits(evaluator),
      {.value = [&](const std::vector<int>& split) { return evaluator.value(split); },
       .longest_way = [&](const std::vector<int>& split) { return evaluator.longest_way(split); }});
  constexpr std::int64_t kActions = 100'000, kMost = 8;
  splits.resize(std::min<std::size_t>(
      splits.size(), static_cast<std::size_t>(plays_in_full(evaluator.order(), kActions, kMost))));
  return GoodSplits{std::move(splits), evaluator.order()};
}

// Whether multi-token prediction can be on the stage before the one with the loss, as Megatron-LM
// allows in a pipeline. Three stages may have no layer: those of embedding, prediction and loss.
bool may_predict_before_loss(const JobSettings& job) {
  return job.model.mtp_layers > 0 && job.plan.pp > 1 && job.plan.stages() <= job.model.layers + 3;
}

// Returns the even split in which predictions count as layers of the stage before the loss, and the
// last stage has no layer. For example 10 layers and 1 prediction on 4 stages: 11 units on 3 stages
// are 3, 4, 4, so the layers are 3, 4, 3, 0. Empty if that stage has no room for the predictions,
// or if the rules refuse the split.
std::vector<int> even_split_before_loss(const Scenario& scenario, std::vector<int> split) {
  const Model& model = scenario.job.model;
  const int stages = static_cast<int>(split.size()) - 1;
  const int units = model.layers + model.mtp_layers;
  for (int stage = 0; stage < stages; ++stage)  // the embedding's stage gets none of the remainder
    split[stage] = units / stages + (stage > 0 && stage <= units % stages ? 1 : 0);
  split[stages] = 0;
  split[stages - 1] -= model.mtp_layers;
  if (split[stages - 1] < 0) return {};
  return check_model(model, scenario_with(scenario, {split, true}).job.plan).ok()
             ? split
             : std::vector<int>{};
}

// Plays the best layouts with multi-token prediction before the loss.
Status play_before_loss(const Scenario& even, const std::vector<int>& split, LayoutPlays* plays) {
  const std::vector<int> even_split = even_split_before_loss(even, split);
  ASSIGN_OR_RETURN(const GoodSplits good,
                   good_splits(scenario_with(even, {split, /*mtp_before_loss=*/true}), even_split));
  for (const std::vector<int>& found : good.splits) RETURN_IF_ERROR(plays->play({found, true}));
  return even_split.empty() ? Status(Done{}) : plays->play({even_split, true});
}

}  // namespace

Result<Scenario> with_layout(const Scenario& scenario) {
  const Model& model = scenario.job.model;
  Scenario even = scenario;
  even.job.layout.clear();
  even.job.plan.mtp_before_loss = false;
  even.job.plan.layers_per_stage.clear();
  even.job.plan.layers_per_stage = split_layers(model, even.job.plan);
  SplitLayout best{even.job.plan.layers_per_stage};
  if (scenario.job.plan.stages() > 1) {
    constexpr std::int64_t kActions = 400'000, kMost = 200;
    const bool has_even = check_model(model, even.job.plan).ok();
    LayoutPlays plays(even);
    ASSIGN_OR_RETURN(const GoodSplits good,
                     good_splits(even, has_even ? best.split : std::vector<int>{}));
    for (const std::vector<int>& split : good.splits) RETURN_IF_ERROR(plays.play({split}));
    if (may_predict_before_loss(even.job))
      RETURN_IF_ERROR(play_before_loss(even, best.split, &plays));
    if (has_even) RETURN_IF_ERROR(plays.play(best));
    const std::vector<int> target =
        plays.best().mtp_before_loss ? even_split_before_loss(even, best.split) : best.split;
    if (has_even && !target.empty())
      RETURN_IF_ERROR(plays.move_towards(target, plays_in_full(good.order, kActions, kMost)));
    best = plays.best();
  }
  even = scenario_with(even, best);
  even.job.layout = layout_text(best.split, model.mtp_layers, best.mtp_before_loss);
  return even;
}

}  // namespace tandem
