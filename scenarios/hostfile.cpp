#include "scenarios/hostfile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "base/csv.h"
#include "base/file.h"
#include "base/hostlist.h"
#include "base/nearest.h"
#include "base/split.h"
#include "topology/listed_cables.h"

namespace tandem {
namespace {

constexpr int kMostSlots = 1'000'000;

// Returns the first GPU of each host, and sets the number of GPUs of a host. The hosts are those of
// cluster.hosts, or else the nodes of the links file.
Result<std::map<std::string, int>> first_gpus(const ClusterSettings& cluster, int* gpus_of_host) {
  ASSIGN_OR_RETURN(std::vector<std::string> hosts, node_names(*cluster.spec.cables));
  const int gpus = static_cast<int>(hosts.size()) * cluster.spec.gpus_per_node;
  if (!cluster.hosts.empty()) {
    ASSIGN_OR_RETURN(hosts, parse_hostlist(cluster.hosts));
  }
  const auto count = static_cast<int>(hosts.size());
  if (gpus % count != 0)
    return Error::of({"cluster.hosts"}, fmt::format("found {} hosts in cluster.hosts, expected as "
                                                    "many GPUs on each of the cluster's {}",
                                                    count, gpus));
  *gpus_of_host = gpus / count;
  std::map<std::string, int> first;
  for (int i = 0; i < count; ++i) first[hosts[i]] = i * *gpus_of_host;
  return first;
}

std::string_view without_domain(std::string_view host) { return host.substr(0, host.find('.')); }

// Finds a host by its name, or by its name without domains if just one of the hosts has that:
// n7.cluster.org is n7.
auto find_host(const std::map<std::string, int>& first_gpus, const std::string& name) {
  const auto exact = first_gpus.find(name);
  if (exact != first_gpus.end()) return exact;
  const auto is_same = [&](const auto& host) {
    return without_domain(host.first) == without_domain(name);
  };
  const auto found = std::ranges::find_if(first_gpus, is_same);
  const bool is_only_one = std::ranges::count_if(first_gpus, is_same) == 1;
  return is_only_one ? found : first_gpus.end();
}

// Returns the GPUs that each host of the hostfile gives to the job: as many as it has slots.
Result<std::vector<std::vector<int>>> gpus_by_host(const ClusterSettings& cluster) {
  int gpus_of_host = 0;
  ASSIGN_OR_RETURN(const auto first, first_gpus(cluster, &gpus_of_host));
  std::vector<std::vector<int>> gpus;
  for (const HostSlots& host : cluster.hostfile) {
    const auto found = find_host(first, host.name);
    if (found == first.end()) {
      std::vector<std::string> known;
      for (const auto& [name, gpu] : first) known.push_back(name);
      return Error::at(host.where, fmt::format("found host '{}', expected one of the cluster's {}; "
                                               "the nearest is '{}'",
                                               host.name, known.size(), nearest(host.name, known)));
    }
    if (host.slots > gpus_of_host)
      return Error::at(host.where, fmt::format("found {} slots on {}, expected at most its {} GPUs",
                                               host.slots, host.name, gpus_of_host));
    std::vector<int>& gpus_in_use = gpus.emplace_back();
    for (int i = 0; i < (host.slots > 0 ? host.slots : gpus_of_host); ++i)
      gpus_in_use.push_back(found->second + i);
  }
  return gpus;
}

// Reads the words of a line: a host, and perhaps its number of slots.
Result<HostSlots> host_of(const std::vector<std::string>& words, const std::string& where) {
  const std::size_t colon = words[0].find(':');
  HostSlots host{words[0].substr(0, colon), 0, where};
  std::vector<std::string> slots;
  if (colon != std::string::npos) slots.push_back(words[0].substr(colon + 1));
  for (std::size_t i = 1; i < words.size(); ++i) {
    constexpr std::string_view kSlots = "slots=";
    if (words[i].starts_with(kSlots)) {
      slots.push_back(words[i].substr(kSlots.size()));
    } else if (!words[i].starts_with("max_slots=") && !words[i].starts_with("max-slots=")) {
      return Error::at(where,
                       fmt::format("found '{}', expected a host and perhaps slots=8", words[i]));
    }
  }
  if (slots.empty()) return host;
  const auto count = parse_integer(slots[0]);
  if (slots.size() > 1 || !count.ok() || *count < 1 || *count > kMostSlots || host.name.empty())
    return Error::at(where,
                     fmt::format("found '{}', expected a host and a positive number of slots",
                                 fmt::join(words, " ")));
  host.slots = static_cast<int>(*count);
  return host;
}

}  // namespace

Result<std::vector<HostSlots>> read_hostfile(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, read_file(path, "a hostfile"));
  std::vector<HostSlots> hosts;
  std::unordered_map<std::string, std::size_t> index_of_host;
  int number = 0;
  for (const std::string& line : split(text, "\n")) {
    const std::string where = fmt::format("{}:{}", path, ++number);
    const std::vector<std::string> words = split_words(line.substr(0, line.find('#')));
    if (words.empty()) continue;
    ASSIGN_OR_RETURN(HostSlots host, host_of(words, where));
    const auto names = parse_hostlist(host.name);
    if (!names.ok()) return Error::at(where, names.error().message);
    for (const std::string& name : *names) {
      host.name = name;
      const auto [known, is_new] = index_of_host.try_emplace(name, hosts.size());
      if (is_new) {
        hosts.push_back(host);
        continue;
      }
      // A line without a number of slots counts as one.
      int& slots = hosts[known->second].slots;
      slots = std::max(1, slots) + std::max(1, host.slots);
      if (slots > kMostSlots)
        return Error::at(where, fmt::format("found more than {} slots on {}, expected at most as "
                                            "many as it has GPUs",
                                            kMostSlots, name));
    }
  }
  if (hosts.empty()) return Error::at(path, "found no host, expected one a line");
  return hosts;
}

Status place_by_hostfile(ClusterSettings* cluster) {
  cluster->gpu_of_rank.clear();
  if (!cluster->hosts.empty()) {
    if (const auto hosts = parse_hostlist(cluster->hosts); !hosts.ok())
      return Error::of({"cluster.hosts"}, "cluster.hosts: " + hosts.error().message);
  }
  if (cluster->hostfile.empty()) return Done{};
  if (!cluster->spec.cables)
    return Error::of({"cluster.hostfile"},
                     "found cluster.hostfile without cluster.links_file, expected both: a preset's "
                     "nodes have no names");
  auto by_host = gpus_by_host(*cluster);
  if (!by_host.ok()) return by_host.error();
  std::size_t slots = 0, most = 0;
  for (const std::vector<int>& gpus : *by_host) {
    slots += gpus.size();
    most = std::max(most, gpus.size());
  }
  if (slots < static_cast<std::size_t>(cluster->gpus))
    return Error::of({"cluster.hostfile", "cluster.gpus", "parallel.dp"},
                     fmt::format("found {} slots in cluster.hostfile, expected at least the job's "
                                 "{} GPUs",
                                 slots, cluster->gpus));
  cluster->slots = static_cast<int>(slots);
  std::vector<int>& gpu_of_rank = cluster->gpu_of_rank;
  if (!cluster->cyclic) {
    for (const std::vector<int>& gpus : *by_host)
      gpu_of_rank.insert(gpu_of_rank.end(), gpus.begin(), gpus.end());
  }
  // Cyclic: the first GPU of every host, then the second of every host, and so on.
  for (std::size_t round = 0; round < most && cluster->cyclic; ++round) {
    for (const std::vector<int>& gpus : *by_host) {
      if (round < gpus.size()) gpu_of_rank.push_back(gpus[round]);
    }
  }
  gpu_of_rank.resize(cluster->gpus);
  return Done{};
}

}  // namespace tandem
