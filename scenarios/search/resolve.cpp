#include "scenarios/search/resolve.h"

#include "scenarios/run/auto_layout.h"
#include "scenarios/search/auto_order.h"

namespace tandem {

bool is_open(const Scenario& scenario) {
  return scenario.job.layout == "auto" || scenario.job.order_is_open();
}

Result<Scenario> resolved(const Scenario& scenario) {
  if (scenario.job.order_is_open()) return with_order(scenario);
  if (scenario.job.layout == "auto") return with_layout(scenario);
  return scenario;
}

}  // namespace tandem
