// The bounds of the search on layouts of the scenarios that come with Tandem: experts, latent
// attention, shared nodes, other fabrics, every precision and dispatcher.
#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <vector>

#include "planning/tune/layout_keys.h"
#include "tests/planning/stage_plans.h"

using namespace tandem;

namespace {

// Of each file the first scenario that has no uniform costs, and the last.
std::vector<Scenario> shipped_scenarios() {
  std::vector<Scenario> shipped;
  for (const std::string file :
       {"deepseek-v3", "megatron-sc21", "nemo-data", "nemo-overlap", "nemo-pipeline", "packing",
        "torus", "v100-dgx2-vs-jz", "zero3-vs-3d"}) {
    auto loaded = load_scenarios(TANDEM_SOURCE_DIR "/scenarios/" + file + ".toml");
    INFO(file);
    REQUIRE(loaded.ok());
    std::erase_if(*loaded,
                  [](const Scenario& scenario) { return scenario.costs.uniform.has_value(); });
    if (loaded->empty()) continue;
    shipped.push_back(loaded->front());
    if (loaded->size() > 1) shipped.push_back(loaded->back());
  }
  return shipped;
}

Space with_named_keys() {
  auto space =
      Space::among({"train.precision=fp16,bf16,fp8", "train.fp8_recipe=delayed,current,blockwise",
                    "parallel.dispatcher=alltoall,allgather,deepep,hybridep"});
  REQUIRE(space.ok());
  return *std::move(space);
}

std::vector<Layout> drawn_cuts(const Scenario& base, const Space& space, std::size_t number,
                               std::mt19937* random) {
  std::vector<Layout> cuts = space.cuts(base);
  std::shuffle(cuts.begin(), cuts.end(), *random);
  cuts.resize(std::min(cuts.size(), number));
  return cuts;
}

// Of each of some cuts so many layouts.
std::vector<Layout> drawn_layouts(const Scenario& base, const Space& space, std::mt19937* random) {
  constexpr int kCuts = 25, kLayouts = 4;
  std::vector<Layout> drawn;
  for (const Layout& cut : drawn_cuts(base, space, kCuts, random)) {
    std::vector<Layout> layouts = space.layouts(base, cut);
    std::shuffle(layouts.begin(), layouts.end(), *random);
    layouts.resize(std::min<std::size_t>(layouts.size(), kLayouts));
    drawn.insert(drawn.end(), layouts.begin(), layouts.end());
  }
  return drawn;
}

TEST_CASE("of a layout's bounds the quicker are the lower, in every scenario") {
  const unsigned seed = 20261124;
  INFO("seed " << seed);
  std::mt19937 random(seed);
  std::size_t checked = 0;
  for (const Scenario& base : shipped_scenarios()) {
    INFO(base.name);
    StageLevel level = level_of(base);
    for (const Layout& layout : drawn_layouts(base, with_named_keys(), &random)) {
      INFO(plan_text({layout, {default_order(1)}, {}}));
      const Nanoseconds exposed = level.exposed_bound(layout);
      CHECK(level.least_exposed_bound(layout) <= exposed);
      CHECK(exposed <= level.uncontended_bound(layout));
      CHECK(level.uncontended_bound(layout) <= level.work_bound(layout));
      CHECK(level.state_floor(layout) > 0);
      ++checked;
    }
  }
  CHECK(checked > 500);
}

// Experts, whose rows are rounded, and scans, whose chunks are cut, by a sequence that neither goes
// into evenly.
constexpr auto kRounded = R"([model]
hidden = 1024
heads = 16
seq = 960
vocab = 32000
pattern = "scan*4 + attention*2 + experts*6"
[model.kinds.scan]
mixer = "mamba"
mlp = false
mamba_heads = 32
mamba_head_dim = 64
mamba_state = 128
mamba_chunk = 192
[model.kinds.experts]
experts = 48
top_k = 5
expert_ffn_hidden = 512
[parallel]
cp_comm = "all_to_all"
micro_batch = 1
global_batch = 960
[cluster]
preset = "dgx-h100"
gpus = 96
[train]
flash_attention = true
)";

std::vector<Scenario> scenarios_to_cut() {
  std::vector<Scenario> all = shipped_scenarios();
  for (const std::string imbalance : {"1", "1.07", "1.3"})
    all.push_back(load(kRounded, {"model.expert_imbalance=" + imbalance}).front());
  for (const std::string imbalance : {"1.04", "1.11"})
    all.push_back(load(kMixtral, {"model.expert_imbalance=" + imbalance}).front());
  return all;
}

TEST_CASE("the bound of a cut is the least of its micro batches', though few are measured") {
  const unsigned seed = 20261125;
  INFO("seed " << seed);
  std::mt19937 random(seed);
  std::size_t checked = 0;
  for (const Scenario& base : scenarios_to_cut()) {
    INFO(base.name);
    StageLevel level = level_of(base);
    const Space space = with_named_keys();
    for (const Layout& cut : drawn_cuts(base, space, 40, &random)) {
      INFO(plan_text({cut, {default_order(1)}, {}}));
      const std::vector<Layout> all = space.micro_batches(base, cut);
      Nanoseconds least = INT64_MAX;
      for (const Layout& layout : all) least = std::min(least, level.least_exposed_bound(layout));
      CHECK(level.cut_bound(all) <= least);
      CHECK(level.cut_bound(all) >= (least == INT64_MAX ? least : least - least / 999));
      checked += all.size();
    }
  }
  CHECK(checked > 5000);
}

// An expert's 128.4 rows are 128, one tile; twice as many 257, three tiles. Where weights and
// launches cost nothing, this shows.
TEST_CASE("a micro batch may take less by the sample than its double, where rows are rounded") {
  const Scenario base = load(R"([model]
layers = 2
hidden = 4096
heads = 32
seq = 128
vocab = 1024
experts = 8
top_k = 1
expert_ffn_hidden = 32768
expert_imbalance = 1.003
[parallel]
dp = 8
ep = 8
micro_batch = 1
global_batch = 16
[cluster]
preset = "dgx-h100"
gpus = 8
memory_GBps = 1e6
[train]
cuda_graphs = true
)")
                            .front();
  StageLevel level = level_of(base);
  Layout one = candidate_of(base).layout, two = one;
  two.micro_batch = 2;
  CHECK(level.least_exposed_bound(one) < level.least_exposed_bound(two));
  const Layout both[] = {one, two};
  CHECK(level.cut_bound(both) <= level.least_exposed_bound(one));
}

}  // namespace
