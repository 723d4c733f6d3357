// parallel.layout: Megatron-LM's letters, and layouts that are found.
#include <span>

#include "interop/megatron/layout.h"
#include "job/compile.h"
#include "job/price_job.h"
#include "planning/choose/auto_layout.h"
#include "planning/simulate/simulate.h"
#include "tests/scenarios/small_scenario.h"
#include "workload/memory/memory.h"

using namespace tandem;

namespace {

// 12 layers and a head as long as one and a half of them, on four stages.
const std::string kLargeHead = R"([model]
layers = 12
hidden = 2048
heads = 16
seq = 2048
vocab = 64000
[parallel]
pp = 4
global_batch = 16
[cluster]
preset = "selene"
gpus = 4
)";

// Llama 3.1 70B on 64 GPUs, as Megatron-Bridge cuts it: eight ranks of five stages.
const std::string kLlama70B = R"([model]
layers = 80
hidden = 8192
heads = 64
kv_heads = 8
ffn_hidden = 28672
gated_mlp = true
tied_embeddings = false
seq = 8192
vocab = 128256
[parallel]
tp = 4
pp = 8
vpp = 5
dp = 8
global_batch = 512
[train]
sequence_parallel = true
flash_attention = true
zero = 1
[overlap]
grad_reduce = true
param_gather = true
[cluster]
preset = "dgx-h100"
)";

std::string refused(const Names& set) {
  const Folder folder;
  const auto scenarios = try_load(folder, kLargeHead, set);
  REQUIRE(!scenarios.ok());
  return scenarios.error().text();
}

RunResult result_with(const std::string& text, const Names& set) {
  const auto result = simulate(load(text, set).front(), Engine::Ideal);
  if (!result.ok()) FAIL(result.error().text());
  return *result;
}

}  // namespace

TEST_CASE("a layout's letters are numbers of layers, and say the stages a rank") {
  const Scenario s = load(kLargeHead, {"parallel.layout=Et*2|(t|)*5t*2|t*3L"}).front();
  CHECK(s.job.plan.layers_per_stage == std::vector{2, 1, 1, 1, 1, 1, 2, 3});
  CHECK(s.job.plan.vpp == 2);
  CHECK(load(kLargeHead, {"parallel.layout=E|t*6|t*6|L"}).front().job.plan.layers_per_stage ==
        std::vector{0, 6, 6, 0});
}

TEST_CASE("a layout that says what cannot be is refused in one line at its key") {
  CHECK(refused({"parallel.layout=Et*6|x|tL"}).find("expected E, t, m, L, |") != std::string::npos);
  CHECK(refused({"parallel.layout=t*6|Et*2|t*2|t*2L"}).find("one E, on the first stage") !=
        std::string::npos);
  CHECK(refused({"parallel.layout=Et*6|t*2|t*2L|t*2"}).find("one L, on the last stage") !=
        std::string::npos);
  // One layer of prediction: behind all layers, all in one place, before the loss or with it.
  for (const char* layout : {"Et*6m|t*2|t*2|t*2L", "Et*6|t*2|t*2m|t*2L", "Et*6|t*6m|L|L"}) {
    INFO(layout);
    CHECK(refused({std::string("parallel.layout=") + layout, "model.mtp_layers=1"})
              .find("found parallel.layout") != std::string::npos);
  }
  CHECK(refused({"parallel.layout=Et*6|t*6m|L", "model.mtp_layers=1", "parallel.pp=1",
                 "cluster.gpus=1"})
            .find("parallel.pp = 1") != std::string::npos);
  CHECK(refused({"parallel.layout=Et*4|t*4|t*4m|L", "model.mtp_layers=2"}).find("found 1 m") !=
        std::string::npos);
  CHECK(refused({"parallel.layout=Et*6|t*2|t*2|t*2mL"}).find("found 1 m") != std::string::npos);
  CHECK(refused({"parallel.layout=Et*6|t*2|t*2|t*3L"}).find("found 13 t in parallel.layout") !=
        std::string::npos);
  CHECK(refused({"parallel.layout=Et*6|t*2|t*4L"}) ==
        "--set: found 3 stages in parallel.layout = Et*6|t*2|t*4L, expected a multiple of "
        "parallel.pp = 4");
  CHECK(refused({"parallel.layout=Et*6|t*2|t*2|t*2L", "parallel.vpp=2"})
            .find("expected parallel.pp x parallel.vpp = 8") != std::string::npos);
  CHECK(refused({"parallel.layout=auto", "parallel.layers_per_stage=[3, 3, 3, 3]"})
            .find("expected one of them") != std::string::npos);
  const Folder folder;
  const auto uniform = try_load(folder, kUniform, {"parallel.layout=auto"});
  REQUIRE(!uniform.ok());
  CHECK(uniform.error().text().find("costs.source = uniform") != std::string::npos);
}

TEST_CASE(
    "a layout prints as it is read, and by Megatron's other arguments where they can say it") {
  for (const std::vector<int>& layers : std::vector<std::vector<int>>{
           {5}, {5, 3}, {2, 3, 3, 3, 1}, {0, 1, 1, 0}, {2, 2, 2, 3, 2, 2, 1}}) {
    std::vector<int> again;
    const std::string text = layout_text(layers, 1);
    const std::vector<LayoutStage> stages = layout_stages(text).value();
    for (const LayoutStage& stage : stages) again.push_back(stage.layers);
    CHECK(again == layers);
    CHECK(stages.front().embeddings == 1);
    CHECK(stages.back().losses == 1);
    CHECK(stages.back().mtp_layers == 1);
  }
  CHECK(layout_text({3, 4, 4, 4, 1}, 0) == "Et*3|(t*4|)*3tL");
  // DeepSeek-V3's, as Megatron-LM's documents have it.
  std::vector<int> deepseek(32, 2);
  deepseek.front() = 3;
  deepseek[30] = deepseek[31] = 0;
  CHECK(layout_text(deepseek, 1, true) == "Et*3|(t*2|)*29m|L");
  CHECK(has_mtp_before_loss(layout_stages("Et*3|(tt|)*29,m|L").value()));
  CHECK_FALSE(has_mtp_before_loss(layout_stages("Et*3|(tt|)*29,t|mL").value()));
  CHECK(layout_text({5, 0}, 2, true) == "Et*5m*2|L");
  CHECK(layout_arguments({5, 6, 6, 5}, 1) ==
        "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split");
  CHECK(layout_arguments({6, 6, 6, 5}, 1) == "--account-for-loss-in-pipeline-split");
  CHECK(layout_arguments({6, 6, 6, 3}, 1) == "--decoder-last-pipeline-num-layers 3");
  CHECK(layout_arguments({7, 6, 6, 3}, 1) ==
        "--decoder-first-pipeline-num-layers 7 --decoder-last-pipeline-num-layers 3");
  CHECK(layout_arguments({6, 5, 7, 6}, 1).empty());
  CHECK(layout_arguments({3, 4, 4, 1}, 2).empty());
}

TEST_CASE(
    "a found layout takes layers from the stage of the head, and is no slower than any other") {
  const RunResult even = result_with(kLargeHead, {});
  const RunResult found = result_with(kLargeHead, {"parallel.layout=auto"});
  CHECK(found.iteration_s < 0.95 * even.iteration_s);
  CHECK(even.layout.empty());
  const auto stages = layout_stages(found.layout);
  REQUIRE(stages);
  CHECK(stages->back().layers < 3);
  // Given by hand it is the same run.
  CHECK(result_with(kLargeHead, {"parallel.layout=" + found.layout}).iteration_s ==
        found.iteration_s);
  for (const char* other : {"[4, 3, 3, 2]", "[3, 4, 3, 2]", "[3, 3, 4, 2]", "[4, 4, 3, 1]",
                            "[4, 3, 4, 1]", "[3, 4, 4, 1]", "[4, 4, 4, 0]", "[2, 4, 4, 2]"}) {
    INFO(other);
    CHECK(found.iteration_s <=
          result_with(kLargeHead, {std::string("parallel.layers_per_stage=") + other}).iteration_s);
  }
}

TEST_CASE(
    "a found layout knows nothing of noise, and is found beside what the ideal engine refuses") {
  const std::string calm = result_with(kLargeHead, {"parallel.layout=auto"}).layout;
  CHECK(result_with(kLargeHead, {"parallel.layout=auto", "variability.straggler_ranks=[1]",
                                 "variability.straggler_factor=3", "variability.jitter=0.3"})
            .layout == calm);
  const auto slow_link = simulate(
      load(kLargeHead,
           {"parallel.layout=auto", "variability.slow_link=n0", "variability.slow_link_rate=0.5"})
          .front(),
      Engine::SimGrid);
  INFO((slow_link.ok() ? "" : slow_link.error().text()));
  REQUIRE(slow_link.ok());
  CHECK(slow_link->layout == calm);
}

TEST_CASE("orders that are made for costs get a layout of their own, never slower than even") {
  for (const char* order : {"zb1p", "zbv", "v-half", "dualpipev"}) {
    INFO(order);
    const std::string key = std::string("schedule.order=") + order;
    CHECK(result_with(kLargeHead, {key, "model.layers=16", "parallel.layout=auto"}).iteration_s <=
          result_with(kLargeHead, {key, "model.layers=16"}).iteration_s);
  }
  // 12 layers are no even number of them for eight stages.
  CHECK(result_with(kLargeHead, {"schedule.order=zbv", "parallel.layout=auto"}).iteration_s > 0);
}

TEST_CASE("predictions on the stage before the loss take their layer there, and leave their head") {
  const auto stages_of = [&](const char* layout) {
    Scenario s =
        load(kLargeHead, {"model.mtp_layers=1", std::string("parallel.layout=") + layout}).front();
    s.costs.profile.pipeline_overhead_s = 0;  // transfers differ by their bytes alone
    const OrderedJob job = order_job(s).value();
    return stage_costs(job.chain, s.job.model, job.plan, s.costs, job.site);
  };
  const auto with = stages_of("Et*4|t*4|t*4|mL"), before = stages_of("Et*4|t*4|t*4m|L");
  const auto sum = [](const OrderCosts& c) { return c.forward + c.input + c.weight; };
  CHECK(before[0].forward == with[0].forward);
  CHECK(before[1].forward == with[1].forward);
  const double moved = sum(before[2]) - sum(with[2]);
  CHECK(moved > 0.2 * sum(with[1]));  // more than most of a layer
  CHECK(sum(with[3]) - sum(before[3]) == Approx(moved).epsilon(0.01));
  // Two activations go over the last edge: the last layer's and the prediction's.
  CHECK(before[2].transfer > 1.2 * before[0].transfer);
  CHECK(with[2].transfer == with[0].transfer);

  const auto sent = [&](const char* layout) {
    return result_with(kLargeHead, {"model.mtp_layers=1", "parallel.layout=" + std::string(layout)})
        .sent_bytes[static_cast<std::size_t>(GroupKind::Pipeline)];
  };
  // Three edges there and back, of which one has two.
  CHECK(sent("Et*4|t*4|t*4m|L") == Approx(4. / 3 * sent("Et*4|t*4|t*4|mL")).epsilon(1e-6));
}

TEST_CASE("the stage of predictions holds them and an embedding, and their activations") {
  const auto scenario = [](const char* layout) {
    return load(kLargeHead, {"model.mtp_layers=1", "parallel.layout=" + std::string(layout)})
        .front();
  };
  const Scenario with = scenario("Et*4|t*4|t*4|mL"), before = scenario("Et*4|t*4|t*4m|L");
  const Model& model = with.job.model;
  const auto a = stage_parameters(model, OrderedPlan(with.job.plan)),
             b = stage_parameters(model, OrderedPlan(before.job.plan));
  const double predicts = mtp_share(model, with.job.plan).dense;
  CHECK(a[3].dense - b[3].dense == Approx(predicts));
  CHECK(b[2].dense - a[2].dense == Approx(predicts + embedding_share(model, with.job.plan)));
  const auto live = [&](const Scenario& s, int stage) {
    const OrderedPlan plan(s.job.plan);
    const PlanMemory memory(model, plan);
    const LiveActivations::Entry one{static_cast<Stage>(stage), 1};
    return memory.of_rank(std::span(&one, 1), 0).activations;
  };
  const double layer = activation_bytes_per_layer(model, with.job.plan);
  CHECK(live(before, 2) - live(with, 2) == Approx(layer));
  CHECK(live(with, 3) - live(before, 3) == Approx(layer));
}

TEST_CASE("a found layout puts predictions where the iteration is shortest") {
  const Names predicts = {"model.mtp_layers=1"};
  Names open = predicts;
  open.emplace_back("parallel.layout=auto");
  const RunResult found = result_with(kLargeHead, open);
  for (const char* layout : {"Et*4|t*4|t*4|mL", "Et*4|t*4|t*4m|L", "Et*4|t*5|t*3m|L",
                             "Et*5|t*5|t*2m|L", "Et*4|t*4|t*3|tmL"}) {
    INFO(layout);
    CHECK(found.iteration_s <=
          result_with(kLargeHead, {"model.mtp_layers=1", std::string("parallel.layout=") + layout})
              .iteration_s);
  }
  CHECK(result_with(kLargeHead, {"model.mtp_layers=1", "parallel.layout=" + found.layout})
            .iteration_s == found.iteration_s);
  const Names two_stages = {"model.mtp_layers=1", "model.layers=16", "schedule.order=interleaved",
                            "parallel.vpp=2"};
  const auto seconds = [&](const std::string& layout) {
    Names set = two_stages;
    set.push_back("parallel.layout=" + layout);
    return result_with(kLargeHead, set).iteration_s;
  };
  for (const char* layout : {"Et*2|(t*3|)*3t*2|t*2|tm|L", "Et*2|(t*3|)*3t*2|t*2|t|mL",
                             "Et*3|(t*3|)*2t*2|t*2|t*2|tm|L"}) {
    INFO(layout);
    CHECK(seconds("auto") <= seconds(layout));
  }
}

TEST_CASE(
    "Llama 3 70B: the found layout is no slower than the one that Megatron-Bridge publishes") {
  // Megatron-Bridge's recipe: PP 8, VPP 5.
  const RunResult published =
      result_with(kLlama70B, {"parallel.layout=Et*2|(t*2|)*34,t*3|(t*2|)*3,tL"});
  const RunResult even = result_with(kLlama70B, {});
  const RunResult found = result_with(kLlama70B, {"parallel.layout=auto"});
  CHECK(published.iteration_s < even.iteration_s);
  CHECK(found.iteration_s <= published.iteration_s);
  CHECK(found.training->fits);
}
