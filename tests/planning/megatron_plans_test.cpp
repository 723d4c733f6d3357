// Plans for Megatron-LM: what its flags need to know of a model.
#include "planning/tune/frameworks.h"
#include "planning/tune/tune.h"
#include "tests/planning/stage_plans.h"
#include "tests/text.h"

namespace tandem {
namespace {

const Names kExperts = {"model.experts=4", "model.top_k=2", "train.sequence_parallel=true"};

// The small model's 16 sequences on 4 GPUs.
Scenario small(const Names& set = {}) {
  Names all = {"cluster.gpus=4", "parallel.dp=1", "cluster.memory_GiB=12"};
  all.insert(all.end(), set.begin(), set.end());
  return load(kSmall, all).front();
}

Scenario small_experts(Names set = {}) {
  set.insert(set.begin(), kExperts.begin(), kExperts.end());
  return small(set);
}

TEST_CASE("Megatron-LM's flags know of a model's experts") {
  CHECK(facts_for_flags(small_experts()).at("model.experts") == "4");
  CHECK(facts_for_flags(small()).count("model.experts") == 0);
}

}  // namespace
}  // namespace tandem
