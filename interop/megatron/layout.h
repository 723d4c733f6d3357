// --pipeline-model-parallel-layout: "Et*4|(t*4|)*14tmL" as its stages, and back.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

// What a stage has: E, t, m and L.
struct LayoutStage {
  int layers = 0, embeddings = 0, mtp_layers = 0, losses = 0;
};

// Nothing: it is no layout.
std::optional<std::vector<LayoutStage>> layout_stages(std::string_view layout);

// The embedding on the first stage, multi-token prediction and the loss on the last one; equal
// stages one after another once, as in "Et*3|(t*4|)*6tL". REQUIRES: a stage at least.
std::string layout_text(const std::vector<int>& layers_per_stage, int mtp_layers);

// The arguments that say as much without a layout: "--decoder-first-pipeline-num-layers 5", ...;
// empty where none can. `vpp`: stages a pipeline rank.
std::string layout_arguments(const std::vector<int>& layers_per_stage, int vpp);

}  // namespace tandem
