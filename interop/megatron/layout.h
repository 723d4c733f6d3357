// --pipeline-model-parallel-layout: reads "Et*4|(t*4|)*14tmL" as stages, and writes it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

// A stage, with its numbers of the letters t, E, m and L.
struct LayoutStage {
  int layers = 0, embeddings = 0, mtp_layers = 0, losses = 0;
};

// Returns the stages of a layout; nothing: it is none.
std::optional<std::vector<LayoutStage>> layout_stages(std::string_view layout);

// Writes a layout: the embedding on the first stage, the loss on the last, and multi-token
// prediction there or on the stage before. Equal stages in a row are written once, as in
// "Et*3|(t*4|)*6tL". REQUIRES: at least one stage; two if prediction stands before the loss.
std::string layout_text(const std::vector<int>& layers_per_stage, int mtp_layers,
                        bool mtp_before_loss = false);

// Returns whether multi-token prediction stands on the stage before the last, which has the loss
// alone.
bool has_mtp_before_loss(const std::vector<LayoutStage>& stages);

// Returns arguments with the same meaning, such as "--decoder-first-pipeline-num-layers 5"; empty:
// there are none. `vpp`: stages of each pipeline rank.
std::string layout_arguments(const std::vector<int>& layers_per_stage, int vpp);

}  // namespace tandem
