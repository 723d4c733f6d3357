#include "interop/topology/cables_csv.h"

#include <fmt/format.h>

namespace tandem {
namespace {

// In quotes where a CSV would take it for something else.
std::string csv_cell(const std::string& name) {
  if (name.find_first_of(",\"#") == std::string::npos) return name;
  std::string quoted = "\"";
  for (const char c : name) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + '"';
}

}  // namespace

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
