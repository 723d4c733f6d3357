// Reads a list of cables, and finds out from the names of their ends what is a GPU, a NIC or a
// switch, and on which node: "n0.gpu1" is GPU 1 of node n0 (topology/listed_sites.h has the rules).
#include "topology/listed_cables.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "base/csv.h"
#include "base/hostlist.h"
#include "base/nearest.h"
#include "base/units.h"
#include "topology/listed_sites.h"

namespace tandem {
namespace {

// Returns the number after the prefix, if the text has nothing else.
std::optional<int> numbered(std::string_view text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return std::nullopt;
  text.remove_prefix(prefix.size());
  int number = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failed != std::errc{} || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

// Splits "n0.gpu1" into "n0" and 1. Returns nothing if the name is not a GPU's.
std::optional<std::pair<std::string_view, int>> node_and_gpu(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  if (dot == name.npos || dot == 0) return std::nullopt;
  const auto gpu = numbered(name.substr(dot + 1), "gpu");
  if (!gpu) return std::nullopt;
  return std::pair(name.substr(0, dot), *gpu);
}

// The nodes that cables name, and to which node a site belongs.
class NamedNodes {
 public:
  explicit NamedNodes(const std::vector<ListedCable>& cables) {
    for (const ListedCable& cable : cables) {
      for (const std::string& end : {cable.from, cable.to}) {
        if (const auto gpu = node_and_gpu(end)) number_.try_emplace(std::string(gpu->first), 0);
      }
    }
    int next = 0;
    for (auto& [name, number] : number_) {
      number = next++;
      names_.push_back(name);
    }
  }

  const std::vector<std::string>& names() const { return names_; }

  // Returns the node of a site: n0 for "n0" and "n0.nic1". -1: the site is between nodes.
  int node_of(std::string_view name) const {
    while (!name.empty()) {
      const auto found = number_.find(name);
      if (found != number_.end()) return found->second;
      const std::size_t dot = name.rfind('.');
      name = name.substr(0, dot == name.npos ? 0 : dot);
    }
    return -1;
  }

  Vertex site(const std::string& name) const {
    const int node = node_of(name);
    if (node_and_gpu(name)) return {name, node, Vertex::Gpu};
    const bool is_nic =
        node >= 0 && std::string_view(name).substr(names_[node].size()).starts_with(".nic");
    return {name, node, is_nic ? Vertex::Nic : Vertex::Switch};
  }

 private:
  struct Natural {
    using is_transparent = void;
    bool operator()(std::string_view a, std::string_view b) const { return in_natural_order(a, b); }
  };

  std::map<std::string, int, Natural> number_;
  std::vector<std::string> names_;
};

Error wrong(const ListedCable& cable, std::string_view expected) {
  return Error{
      fmt::format("found a cable from '{}' to '{}', expected {}", cable.from, cable.to, expected)};
}

Status check_cable(const ListedCable& cable, const NamedNodes& nodes) {
  if (cable.from.empty() || cable.to.empty() || cable.from == cable.to)
    return wrong(cable, "two ends");
  const int from = nodes.node_of(cable.from);
  const int to = nodes.node_of(cable.to);
  if (from >= 0 && to >= 0 && from != to) return wrong(cable, "a switch between nodes");
  if (cable.efficiency > 0 && (from < 0 || to < 0))
    return wrong(cable, "an efficiency inside nodes alone");
  return Done{};
}

// Refuses a column that is none of these, such as a misspelt efficiency.
Status check_columns(const std::string& path, const CsvTable& table) {
  const std::vector<std::string> known = {"from", "to", "GBps", "latency_us", "efficiency"};
  for (const std::string& column : table.columns()) {
    if (std::ranges::find(known, column) == known.end())
      return Error::at(path, fmt::format("found a column '{}', expected from, to, GBps, latency_us "
                                         "and perhaps efficiency; the nearest is '{}'",
                                         column, nearest(column, known)));
  }
  return Done{};
}

}  // namespace

Result<ListedSites> sites_of(const std::vector<ListedCable>& cables) {
  const NamedNodes nodes(cables);
  std::map<std::pair<int, int>, Vertex> gpus;  // by node and number: {0, 1} is n0.gpu1
  std::map<std::string, Vertex, decltype(&in_natural_order)> others(&in_natural_order);
  for (const ListedCable& cable : cables) {
    RETURN_IF_ERROR(check_cable(cable, nodes));
    for (const std::string& name : {cable.from, cable.to}) {
      Vertex site = nodes.site(name);
      if (const auto gpu = node_and_gpu(name)) {
        const auto known = gpus.emplace(std::pair(site.node, gpu->second), site).first;
        if (known->second.name != name)
          return Error{fmt::format("found '{}' and '{}', expected one name for a GPU",
                                   known->second.name, name)};
      } else {
        others.emplace(name, std::move(site));
      }
    }
  }
  ListedSites listed;
  listed.nodes = nodes.names();
  listed.gpus = static_cast<int>(gpus.size());
  listed.gpus_per_node = static_cast<int>(
      std::ranges::count_if(gpus, [](const auto& gpu) { return gpu.first.first == 0; }));
  std::unordered_map<std::string, SiteId> number;
  for (const auto& [node_and_number, site] : gpus) {
    const int here = static_cast<int>(listed.sites.size());
    const std::pair expected(here / listed.gpus_per_node, here % listed.gpus_per_node);
    if (node_and_number != expected)
      return Error{fmt::format(
          "found GPU {}, expected GPUs gpu0, gpu1, ... on each node, as many on each", site.name)};
    number.emplace(site.name, listed.sites.size());
    listed.sites.push_back(site);
  }
  if (listed.gpus == 0 || listed.gpus % listed.gpus_per_node != 0)
    return Error{fmt::format("found {} GPUs, expected as many on each node", listed.gpus)};
  for (const auto& [name, site] : others) {
    number.emplace(name, listed.sites.size());
    listed.sites.push_back(site);
  }
  for (const ListedCable& cable : cables)
    listed.cables.emplace_back(number.at(cable.from), number.at(cable.to));
  return listed;
}

Status check_numbers(const ListedSites& listed) {
  if (!numbered(listed.nodes.front(), "n")) return Done{};  // hosts by name
  for (std::size_t i = 0; i < listed.nodes.size(); ++i) {
    const auto number = numbered(listed.nodes[i], "n");
    if (!number) break;  // the rest are hosts
    if (*number != static_cast<int>(i))
      return Error{fmt::format("found node {}, expected nodes n0, n1, ... numbered through",
                               listed.nodes[i])};
  }
  for (const Vertex& site : listed.sites) {
    if (site.node < 0 && numbered(site.name.substr(0, site.name.find('.')), "n"))
      return Error{fmt::format("found {}, expected GPUs on its node", site.name)};
  }
  return Done{};
}

Result<int> gpus_per_node(const std::vector<ListedCable>& cables) {
  ASSIGN_OR_RETURN(const ListedSites listed, sites_of(cables));
  return listed.gpus_per_node;
}

double fastest_inside(const std::vector<ListedCable>& cables) {
  const NamedNodes nodes(cables);
  double fastest = 0;
  for (const ListedCable& cable : cables) {
    if (cable.efficiency > 0) continue;  // another than the cluster's
    const int node = nodes.node_of(cable.from);
    const bool is_inside = node >= 0 && node == nodes.node_of(cable.to);
    const bool has_gpu = node_and_gpu(cable.from) || node_and_gpu(cable.to);
    if (is_inside && has_gpu) fastest = std::max(fastest, cable.bytes_per_s);
  }
  return fastest;
}

bool need_hosts(const std::vector<ListedCable>& cables) {
  const auto listed = sites_of(cables);
  return listed.ok() && !check_numbers(*listed).ok();
}

Result<std::vector<std::string>> node_names(const std::vector<ListedCable>& cables) {
  ASSIGN_OR_RETURN(ListedSites listed, sites_of(cables));
  return std::move(listed.nodes);
}

Result<std::shared_ptr<const std::vector<ListedCable>>> read_cables(const std::string& path,
                                                                    bool has_hosts) {
  ASSIGN_OR_RETURN(const CsvTable table, CsvTable::read(path));
  RETURN_IF_ERROR(check_columns(path, table));
  const bool has_efficiency = table.has("efficiency");
  auto cables = std::make_shared<std::vector<ListedCable>>();
  for (int row = 0; row < table.size(); ++row) {
    ListedCable cable{std::string(table.text(row, "from")), std::string(table.text(row, "to"))};
    ASSIGN_OR_RETURN(const double GBps, table.number(row, "GBps"));
    ASSIGN_OR_RETURN(const double latency_us, table.number(row, "latency_us"));
    if (GBps * GB < 1) return table.error(row, "found GBps below a byte a second");
    if (!(latency_us >= 0 && latency_us < 1e9))
      return table.error(row, "found latency_us outside 0 to 1e9");
    if (has_efficiency && !table.text(row, "efficiency").empty()) {
      ASSIGN_OR_RETURN(cable.efficiency, table.number(row, "efficiency"));
      if (!(cable.efficiency > 0 && cable.efficiency <= 1))
        return table.error(row, "found an efficiency outside 0 to 1");
    }
    cable.bytes_per_s = GBps * GB;
    cable.latency_s = latency_us * 1e-6;
    cables->push_back(std::move(cable));
  }
  const NamedNodes nodes(*cables);
  for (int row = 0; row < table.size(); ++row) {
    if (const Status status = check_cable((*cables)[row], nodes); !status.ok())
      return table.error(row, status.error().message);
  }
  const auto sites = sites_of(*cables);
  if (!sites.ok()) return Error::at(path, sites.error().message);
  if (const Status numbers = check_numbers(*sites); !has_hosts && !numbers.ok())
    return Error::at(path, numbers.error().message);
  return std::shared_ptr<const std::vector<ListedCable>>(std::move(cables));
}

}  // namespace tandem
