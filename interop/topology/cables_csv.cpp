#include "interop/topology/cables_csv.h"

#include <fmt/format.h>

#include "base/csv.h"

namespace tandem {

std::string cables_csv(const ComposedCluster& cluster, const std::vector<std::string>& comments) {
  std::string text;
  for (const std::string& comment : comments) text += fmt::format("# {}\n", comment);
  text += "from,to,GBps,latency_us,efficiency\n";
  for (const ComposedCable& cable : cluster.cables)
    text += fmt::format("{},{},{:.10g},{:g},{}\n", csv_cell(cable.from), csv_cell(cable.to),
                        cable.GBps, cable.latency_us,
                        cable.efficiency > 0 ? fmt::format("{:g}", cable.efficiency) : "");
  return text;
}

}  // namespace tandem
