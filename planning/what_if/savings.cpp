#include "planning/what_if/savings.h"

#include <numeric>
#include <utility>

#include "base/check.h"

namespace tandem {
namespace {

// Whether these points are the run's points with one replaced by the baseline.
bool is_baseline(const Scenario& run, const std::vector<std::string>& points) {
  if (points.size() != run.points.size() || points == run.points) return false;
  std::vector<std::string> replaced = run.points;
  for (std::string& point : replaced) {
    const std::string own = std::exchange(point, run.report.baseline);
    if (replaced == points) return true;
    point = own;
  }
  return false;
}

Saving saving_of(const Scenario& scenario, const RunResult& run, const RunResult& baseline) {
  const auto& comm_s = baseline.comm_s;
  Saving saving;
  saving.baseline = scenario.report.baseline;
  saving.seconds = baseline.iteration_s - run.iteration_s;
  saving.of_iteration = saving.seconds / baseline.iteration_s;
  saving.kind = scenario.report.kind ? group_kind_name(*scenario.report.kind) : "all";
  saving.communication_s = scenario.report.kind
                               ? comm_s[static_cast<std::size_t>(*scenario.report.kind)]
                               : std::accumulate(comm_s.begin(), comm_s.end(), 0.0);
  if (saving.communication_s > 0) saving.of_communication = saving.seconds / saving.communication_s;
  return saving;
}

}  // namespace

void add_savings(const std::vector<Scenario>& scenarios, std::vector<Result<RunResult>>* results) {
  CHECK(results->size() == scenarios.size());
  for (std::size_t i = 0; i < scenarios.size(); ++i) {
    if (scenarios[i].report.baseline.empty() || !(*results)[i].ok()) continue;
    for (std::size_t j = 0; j < scenarios.size(); ++j) {
      if ((*results)[j].ok() && is_baseline(scenarios[i], scenarios[j].points))
        (*results)[i]->saving = saving_of(scenarios[i], *(*results)[i], *(*results)[j]);
    }
  }
}

}  // namespace tandem
