// Where nothing contends simgrid gives ideal's iteration, folded and not, but for rounding: cases
// that random searches found to be off by some nanoseconds.
#include <cmath>

#include "planning/simulate/repeat.h"
#include "tests/scenarios/small_scenario.h"

using namespace tandem;

namespace {

// An all-reduce of fp8's largest values: 64 bytes.
const std::string kAmax = R"([model]
layers = 2
hidden = 96
heads = 6
kv_heads = 3
seq = 768
vocab = 32000
[parallel]
dp = 3
cp = 3
micro_batch = 1
global_batch = 15
cp_comm = "all_to_all"
[train]
precision = "fp8"
flash_attention = true
[cluster]
gpu = "h100-80gb"
gpus_per_node = 1
nics_per_node = 1
intra_GBps = 450.0
intra_latency_us = 1.0
nic_Gbitps = 200.0
inter_latency_us = 2.0
)";

// The gradient norm's all-reduce: 4 bytes.
const std::string kNorm = R"([model]
layers = 3
hidden = 128
heads = 1
seq = 512
vocab = 128256
[parallel]
pp = 3
cp = 2
micro_batch = 1
global_batch = 10
[schedule]
order = "gpipe"
[train]
precision = "fp32"
[overlap]
context = true
[cluster]
gpu = "h100-80gb"
gpus_per_node = 2
nics_per_node = 1
intra_GBps = 300.0
intra_latency_us = 0.0
nic_Gbitps = 10.0
inter_latency_us = 0.0
)";

// Transfers of a megabyte over two leaves.
const std::string kTransfers = R"([parallel]
tp = 2
pp = 3
dp = 5
micro_batch = 1
global_batch = 45
[schedule]
order = "zb1p"
memory_limit = 5.5
[overlap]
p2p = true
[cluster]
gpu = "v100-32gb"
gpus_per_node = 1
nics_per_node = 1
intra_GBps = 300.0
intra_latency_us = 0.0
nic_Gbitps = 200.0
inter_latency_us = 0.0
intra_efficiency = 0.8
inter_efficiency = 0.7
fabric = "fat-tree"
nodes_per_leaf = 2
oversubscription = 1.0
[costs]
source = "uniform"
forward_s = 1e-05
backward_s = 2.1e-05
p2p_MB = 1.0
)";

double iteration_s(Scenario scenario, Engine engine, bool fold) {
  scenario.fold = fold;
  const auto seconds = iterations_s({scenario}, engine, false, 1);
  REQUIRE(seconds.ok());
  return seconds->front();
}

bool differs_by_rounding(double one_s, double other_s) {
  constexpr double kMillionth = 1e-6, kFew_s = 20e-9;
  return std::abs(one_s - other_s) <= kFew_s + kMillionth * other_s;
}

}  // namespace

TEST_CASE("simgrid's iteration is ideal's where nothing contends, but for rounding") {
  for (const std::string& text : {kAmax, kNorm}) {
    INFO(text);
    const Scenario scenario = load(text).front();
    const double ideal_s = iteration_s(scenario, Engine::Ideal, true);
    CHECK(iteration_s(scenario, Engine::Ideal, false) == ideal_s);
    CHECK(differs_by_rounding(iteration_s(scenario, Engine::SimGrid, true), ideal_s));
    CHECK(differs_by_rounding(iteration_s(scenario, Engine::SimGrid, false), ideal_s));
  }
}

TEST_CASE(
    "simgrid's folded iteration is the unfolded one where transfers contend, but for rounding") {
  const Scenario scenario = load(kTransfers).front();
  CHECK(differs_by_rounding(iteration_s(scenario, Engine::SimGrid, true),
                            iteration_s(scenario, Engine::SimGrid, false)));
}
