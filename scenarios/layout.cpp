// Parses a layout, checks that Tandem can place its parts, and sets the layers of each stage. In
// "Et*3|(t*4|)*6tL" a | ends a stage, E is the embedding, t a layer, L the loss; m, which this one
// does not have, is a layer of multi-token prediction.
#include "scenarios/layout.h"

#include <fmt/format.h>

#include <numeric>
#include <vector>

#include "interop/megatron/layout.h"

namespace tandem {
namespace {

// Checks that the embedding, the loss and multi-token prediction are on stages where Tandem can
// place them.
Status check_places(const std::vector<LayoutStage>& stages, const std::string& layout) {
  const auto fault = [&](const char* expected) {
    return Error::of({"parallel.layout"},
                     fmt::format("found parallel.layout = {}, expected {}", layout, expected));
  };
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const bool is_last = i + 1 == stages.size();
    if (stages[i].embeddings != (i == 0 ? 1 : 0)) return fault("one E, on the first stage");
    if (stages[i].losses != (is_last ? 1 : 0)) return fault("one L, on the last stage");
    const bool before_loss = i + 2 == stages.size() && has_mtp_before_loss(stages);
    if (stages[i].mtp_layers > 0 && !is_last && !before_loss)
      return fault("m on the last stage, or all m on the one before and L alone on the last");
  }
  return Done{};
}

// Returns any valid split, to be used until the best one is known; empty: there are too few layers.
// Only the last and the first stage may have no layer, as they have the head and the embedding.
std::vector<int> any_split(int layers, int stages) {
  if (stages > layers + 2 || stages < 2) return {};
  std::vector<int> split(stages, 1);
  int left = layers - stages;
  if (left < 0) split.back() = 0;
  if (left < -1) split.front() = 0;
  for (int stage = 0; left > 0; stage = (stage + 1) % stages, --left) ++split[stage];
  return split;
}

}  // namespace

Status complete_layout(Scenario* s) {
  JobSettings& job = s->job;
  if (job.layout.empty()) return Done{};
  if (s->places.contains("parallel.layers_per_stage"))
    return Error::of({"parallel.layout"},
                     "found parallel.layout and parallel.layers_per_stage, expected one of them");
  if (s->costs.uniform || s->costs.source == "uniform")
    return Error::of({"parallel.layout"},
                     "found parallel.layout with costs.source = uniform, expected a model whose "
                     "layers have a price");
  if (job.layout == "auto") {
    job.plan.layers_per_stage = any_split(job.model.layers, job.plan.stages());
    return Done{};
  }
  const auto stages = layout_stages(job.layout);
  if (!stages)
    return Error::of({"parallel.layout"},
                     fmt::format("found parallel.layout = {}, expected E, t, m, L, |, *n and "
                                 "brackets, as in Et*3|(t*4|)*6tL, or auto",
                                 job.layout));
  RETURN_IF_ERROR(check_places(*stages, job.layout));
  job.plan.mtp_before_loss = has_mtp_before_loss(*stages);
  if (job.plan.mtp_before_loss && job.plan.pp == 1)
    return Error::of({"parallel.layout", "parallel.pp"},
                     fmt::format("found m before L's stage in parallel.layout = {} with "
                                 "parallel.pp = 1, expected ranks of a pipeline",
                                 job.layout));
  int predictions = 0;
  for (const LayoutStage& stage : *stages) predictions += stage.mtp_layers;
  if (predictions != job.model.mtp_layers)
    return Error::of(
        {"parallel.layout", "model.mtp_layers"},
        fmt::format("found {} m in parallel.layout = {}, expected model.mtp_layers = {}",
                    predictions, job.layout, job.model.mtp_layers));
  for (const LayoutStage& stage : *stages) job.plan.layers_per_stage.push_back(stage.layers);
  const int layers =
      std::accumulate(job.plan.layers_per_stage.begin(), job.plan.layers_per_stage.end(), 0);
  if (layers != job.model.layers)
    return Error::of({"parallel.layout", "model.layers"},
                     fmt::format("found {} t in parallel.layout = {}, expected model.layers = {}",
                                 layers, job.layout, job.model.layers));
  const auto count = static_cast<int>(stages->size());
  const bool states_vpp = s->places.contains("parallel.vpp");
  if (!states_vpp && count % job.plan.pp == 0) job.plan.vpp = count / job.plan.pp;
  if (count == job.plan.stages()) return Done{};
  return Error::of(
      {"parallel.layout", states_vpp ? "parallel.vpp" : "parallel.pp"},
      fmt::format("found {} stages in parallel.layout = {}, expected {}", count, job.layout,
                  states_vpp ? fmt::format("parallel.pp x parallel.vpp = {}", job.plan.stages())
                             : fmt::format("a multiple of parallel.pp = {}", job.plan.pp)));
}

}  // namespace tandem
