// Plans for Megatron-LM: what its flags need to know of a model.
#include "planning/tune/frameworks.h"
#include "planning/tune/tune.h"
#include "tests/planning/stage_plans.h"
#include "tests/text.h"

namespace tandem {
namespace {

const Names kFourExperts = {"model.experts=4", "model.top_k=2", "train.sequence_parallel=true"};

// The small model's 16 sequences on 4 GPUs.
Scenario small(const Names& set = {}) {
  Names all = {"cluster.gpus=4", "parallel.dp=1", "cluster.memory_GiB=12"};
  all.insert(all.end(), set.begin(), set.end());
  return load(kSmall, all).front();
}

Scenario small_experts(Names set = {}) {
  set.insert(set.begin(), kFourExperts.begin(), kFourExperts.end());
  return small(set);
}

// Returns why the framework runs no plan of the scenario; empty: it runs some.
std::string why_none(const Scenario& base, const char* framework) {
  const auto space = Space::among({"parallel.tp=1", "parallel.pp=1", "parallel.cp=1"});
  REQUIRE(space.ok());
  const Space narrow = space->run_by(**framework_named(framework));
  for (const Layout& cut : narrow.cuts(base)) {
    if (!narrow.layouts(base, cut).empty()) return "";
  }
  return narrow.why_empty(base);
}

// Tokens of an expert vary from one microbatch to the next, which no graph can hold.
TEST_CASE("Megatron-LM has CUDA graphs of experts only in a scope without them, or padded") {
  const std::string graphs = "train.cuda_graphs=true";
  for (const char* framework : {"megatron", "nemo", "chatlearn"}) {
    INFO(framework);
    const std::string why = why_none(small_experts({graphs}), framework);
    INFO(why);
    CHECK(has(why, framework));
    CHECK(has(why,
              "(train.cuda_graphs of experts: padded to model.capacity_factor, or a "
              "train.cuda_graph_scope without moe) excludes "));
    CHECK_FALSE(why_none(small_experts({graphs, "train.cuda_graph_scope=\"attn, moe\""}), framework)
                    .empty());
    for (const Names& set :
         {Names{}, Names{graphs, "train.cuda_graph_scope=\"attn, moe_router, moe_preprocess\""},
          Names{graphs, "model.capacity_factor=1.5", "model.pad_to_capacity=true"}})
      CHECK(why_none(small_experts(set), framework).empty());
    CHECK(why_none(small({graphs}), framework).empty());
  }
  CHECK(why_none(small_experts({graphs}), "torchtitan").empty());
}

TEST_CASE("Megatron-LM's flags know of a model's experts") {
  CHECK(facts_for_flags(small_experts()).at("model.experts") == "4");
  CHECK(facts_for_flags(small()).count("model.experts") == 0);
}

}  // namespace
}  // namespace tandem
