#include "planning/choose/resolve.h"

#include "planning/choose/auto_layout.h"
#include "planning/choose/auto_order.h"

namespace tandem {

Result<Scenario> resolved(const Scenario& scenario) {
  if (!scenario.job.is_open()) return scenario;
  ASSIGN_OR_RETURN(const Scenario found,
                   scenario.job.order_is_open() ? with_order(scenario) : with_layout(scenario));
  return resolved(found);
}

}  // namespace tandem
