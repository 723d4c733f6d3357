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

// So many cuts, and of each so many layouts.
std::vector<Layout> drawn_layouts(const Scenario& base, const Space& space, std::mt19937* random) {
  constexpr int kCuts = 25, kLayouts = 4;
  std::vector<Layout> cuts = space.cuts(base), drawn;
  std::shuffle(cuts.begin(), cuts.end(), *random);
  cuts.resize(std::min<std::size_t>(cuts.size(), kCuts));
  for (const Layout& cut : cuts) {
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
      INFO(text_of({layout, {default_order(1)}, {}}));
      const Nanoseconds exposed = level.exposed_bound(layout);
      CHECK(level.least_exposed_bound(layout) <= exposed);
      CHECK(exposed <= level.unslowed_bound(layout));
      CHECK(level.unslowed_bound(layout) <= level.work_bound(layout));
      CHECK(level.state_floor(layout) > 0);
      ++checked;
    }
  }
  CHECK(checked > 500);
}

}  // namespace
