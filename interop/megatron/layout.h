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

// The embedding on the first stage, the loss on the last one, multi-token prediction there or on
// the one before; equal stages one after another once, as in "Et*3|(t*4|)*6tL". REQUIRES: a stage
// at least; two where prediction stands before the loss.
std::string layout_text(const std::vector<int>& layers_per_stage, int mtp_layers,
                        bool mtp_before_loss = false);

// Whether multi-token prediction stands on the stage before the last one, which has the loss alone.
bool has_mtp_before_loss(const std::vector<LayoutStage>& stages);

// The arguments that say as much without a layout: "--decoder-first-pipeline-num-layers 5", ...;
// empty where none can. `vpp`: stages a pipeline rank.
std::string layout_arguments(const std::vector<int>& layers_per_stage, int vpp);

}  // namespace tandem
