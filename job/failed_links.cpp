#include "job/failed_links.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace tandem {

Scenario with_all_links(Scenario scenario) {
  scenario.variability.slow_link = {};
  return scenario;
}

Status remove_failed_links(const SlowLink& slow, Cluster* cluster) {
  ASSIGN_OR_RETURN(const std::vector<LinkId> links, links_of(slow, *cluster));
  const Status status = cluster->fail_links(links);
  if (status.ok()) return Done{};
  return Error{fmt::format("found that {} fails for good, expected variability.slow_link_to_s: {}",
                           slow.name, status.error().message)};
}

std::string rerouting_note(const SlowLink& failed, const Program& program,
                           const Placement& placement, const Cluster& cluster,
                           const Cluster& with_all) {
  std::vector<std::pair<DeviceId, DeviceId>> pairs;
  for (const Communicator& communicator : program.communicators) {
    const std::vector<Rank>& members = communicator.members;
    for (std::size_t i = 0; i < members.size() && members.size() > 1; ++i) {
      const DeviceId device = placement[index(members[i])];
      const DeviceId next = placement[index(members[(i + 1) % members.size()])];
      pairs.emplace_back(device, next);
      pairs.emplace_back(next, device);
    }
  }
  std::ranges::sort(pairs);
  pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
  const auto changed = std::ranges::count_if(pairs, [&](const auto& pair) {
    return cluster.route(pair.first, pair.second) != with_all.route(pair.first, pair.second);
  });
  return fmt::format(
      "{} has failed: {} of {} routes between neighbours in communicators go another way",
      failed.name, changed, pairs.size());
}

}  // namespace tandem
