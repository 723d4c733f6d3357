#include "report/page/runs_page.h"

#include <fmt/format.h>

#include <filesystem>

#include "job/site.h"
#include "report/page/cluster_svg.h"
#include "report/page/run_inputs.h"

namespace tandem {
namespace {

// Draws a cluster whose links are listed. Others have a regular shape, which their keys describe;
// they get no picture.
std::string cluster_picture(const Scenario& scenario) {
  if (!scenario.cluster.spec.cables) return "";
  const auto cluster = make_cluster(scenario);
  return cluster.ok() ? cluster_svg(cluster->graph(), scenario.cluster.spec.name) : "";
}

// Returns the question that the page answers, as its title.
std::string question(const std::vector<RunResult>& results, const std::string& input) {
  const std::string iteration = "How long does an iteration take";
  if (results.size() > 1)
    return fmt::format("{} in {} runs of {}?", iteration, results.size(),
                       std::filesystem::path(input).stem().string());
  const RunResult& run = results.front();
  return fmt::format("{}: {} on {} GPUs?", iteration, run.name, run.gpus);
}

}  // namespace

Result<PageData> runs_page(const std::string& input, const std::vector<RunResult>& results,
                           const std::vector<Scenario>& scenarios, bool live) {
  PageData page{.title = question(results, input),
                .source = std::filesystem::path(input).filename().string()};
  if (!scenarios.empty()) {
    page.note = scenarios.front().report.note;
    page.cluster = cluster_picture(scenarios.front());
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    page.runs.push_back(page_run(results[i]));
    if (live) {
      ASSIGN_OR_RETURN(page.runs.back().inputs, run_inputs(scenarios[i]));
    }
  }
  return page;
}

}  // namespace tandem
