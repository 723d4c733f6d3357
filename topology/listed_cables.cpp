#include "topology/listed_cables.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <string_view>

#include "base/csv.h"
#include "base/units.h"
#include "topology/listed_sites.h"

namespace tandem {
namespace {

// The number behind the prefix, if that is all that there is.
std::optional<int> numbered(std::string_view text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return std::nullopt;
  text.remove_prefix(prefix.size());
  int number = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failed != std::errc{} || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

// A site by its name, and which GPU of its node it is.
std::pair<Site, int> site_named(const std::string& name) {
  const std::string_view text = name;
  const std::size_t dot = text.find('.');
  const std::optional<int> node = numbered(text.substr(0, dot), "n");
  if (!node) return {{name, -1, Site::Switch}, -1};
  const std::string_view rest = dot == text.npos ? "" : text.substr(dot + 1);
  if (const auto gpu = numbered(rest, "gpu")) return {{name, *node, Site::Gpu}, *gpu};
  return {{name, *node, rest.starts_with("nic") ? Site::Nic : Site::Switch}, -1};
}

Error wrong(const ListedCable& cable, std::string_view expected) {
  return Error{
      fmt::format("found a cable from '{}' to '{}', expected {}", cable.from, cable.to, expected)};
}

Status check_cable(const ListedCable& cable) {
  if (cable.from.empty() || cable.to.empty() || cable.from == cable.to)
    return wrong(cable, "two ends");
  const int from = site_named(cable.from).first.node;
  const int to = site_named(cable.to).first.node;
  if (from >= 0 && to >= 0 && from != to) return wrong(cable, "a switch between nodes");
  return Done{};
}

}  // namespace

Result<ListedSites> sites_of(const std::vector<ListedCable>& cables) {
  std::map<std::pair<int, int>, Site> gpus;  // by node and place
  std::map<std::string, Site> others;
  for (const ListedCable& cable : cables) {
    RETURN_IF_ERROR(check_cable(cable));
    for (const std::string& name : {cable.from, cable.to}) {
      auto [site, gpu] = site_named(name);
      if (gpu >= 0) {
        gpus.emplace(std::pair(site.node, gpu), std::move(site));
      } else {
        others.emplace(name, std::move(site));
      }
    }
  }
  ListedSites listed;
  listed.gpus = static_cast<int>(gpus.size());
  for (const auto& [place, site] : gpus) listed.gpus_per_node += static_cast<int>(place.first == 0);
  std::map<std::string, SiteId> number;
  for (const auto& [place, site] : gpus) {
    const int here = static_cast<int>(listed.sites.size());
    if (listed.gpus_per_node == 0 ||
        place != std::pair(here / listed.gpus_per_node, here % listed.gpus_per_node))
      return Error{
          fmt::format("found GPU {}, expected nodes n0, n1, ... with GPUs gpu0, gpu1, ..., "
                      "as many on each",
                      site.name)};
    number.emplace(site.name, listed.sites.size());
    listed.sites.push_back(site);
  }
  if (listed.gpus == 0 || listed.gpus % listed.gpus_per_node != 0)
    return Error{fmt::format("found {} GPUs, expected as many on each node", listed.gpus)};
  for (const auto& [name, site] : others) {
    if (site.node >= listed.gpus / listed.gpus_per_node)
      return Error{fmt::format("found {}, expected GPUs on its node", name)};
    number.emplace(name, listed.sites.size());
    listed.sites.push_back(site);
  }
  for (const ListedCable& cable : cables)
    listed.cables.emplace_back(number.at(cable.from), number.at(cable.to));
  return listed;
}

Result<int> gpus_per_node(const std::vector<ListedCable>& cables) {
  ASSIGN_OR_RETURN(const ListedSites listed, sites_of(cables));
  return listed.gpus_per_node;
}

Result<std::shared_ptr<const std::vector<ListedCable>>> read_cables(const std::string& path) {
  ASSIGN_OR_RETURN(const CsvTable table, CsvTable::read(path));
  auto cables = std::make_shared<std::vector<ListedCable>>();
  for (int row = 0; row < table.size(); ++row) {
    ListedCable cable{std::string(table.text(row, "from")), std::string(table.text(row, "to"))};
    ASSIGN_OR_RETURN(const double GBps, table.number(row, "GBps"));
    ASSIGN_OR_RETURN(const double latency_us, table.number(row, "latency_us"));
    if (GBps * GB < 1) return table.error(row, "found GBps below a byte a second");
    if (!(latency_us >= 0 && latency_us < 1e9))
      return table.error(row, "found latency_us outside 0 to 1e9");
    if (const Status status = check_cable(cable); !status.ok())
      return table.error(row, status.error().message);
    cable.bytes_per_s = GBps * GB;
    cable.latency_s = latency_us * 1e-6;
    cables->push_back(std::move(cable));
  }
  if (const auto sites = sites_of(*cables); !sites.ok())
    return Error::at(path, sites.error().message);
  return std::shared_ptr<const std::vector<ListedCable>>(std::move(cables));
}

}  // namespace tandem
