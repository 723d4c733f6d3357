// Reads the table of `nvidia-smi topo -m`, which states for each pair of devices how they are
// joined (NV4, PIX, SYS). From the PCIe paths the PCIe switches and sockets are inferred. Whether
// NVLinks lead to a switch follows from the kind of GPU (host_template.cpp). The header may be
// underlined by ANSI codes, and network devices are called NIC0 with a legend, or by their names.
// The table states neither models of GPUs nor speeds. Declared in interop/topology/readers.h.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

#include "base/split.h"
#include "interop/document/text_scanner.h"
#include "interop/topology/nccl_rates.h"
#include "interop/topology/readers.h"

namespace tandem {
namespace {

// The cells for a path by PCIe. It leads through one bridge (PIX), several bridges (PXB), the CPU's
// host bridge (PHB), several host bridges (NODE) or two sockets (SYS; older drivers write SOC). NV4
// means four NVLinks.
constexpr std::array<std::string_view, 7> kPaths = {"X", "PIX", "PXB", "PHB", "NODE", "SYS", "SOC"};

// Returns a line without ANSI codes.
std::string plain(std::string_view line) {
  std::string text;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\x1b') {
      while (i < line.size() && std::isalpha(static_cast<unsigned char>(line[i])) == 0) ++i;
    } else {
      text += line[i];
    }
  }
  return text;
}

bool is_gpu_name(std::string_view word) {
  return word.starts_with("GPU") && digits_of(word.substr(3)) >= 0;
}

// Returns the devices that a header names: all words before its columns "CPU Affinity" and so on.
std::vector<std::string> devices_in_header(const std::vector<std::string>& words) {
  std::vector<std::string> devices;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool is_end = words[i] == "CPU" || words[i] == "NUMA" ||
                        (words[i] == "GPU" && i + 1 < words.size() && words[i + 1] == "NUMA");
    if (is_end) break;
    devices.push_back(words[i]);
  }
  return devices;
}

struct SmiTable {
  std::vector<std::string> devices;                       // GPUs and network devices, by column
  std::map<std::string, std::vector<std::string>> cells;  // by row, a cell a column
  std::map<std::string, std::string> affinity;            // GPU -> the CPU's cores near it
  std::map<std::string, std::string> legend;              // "NIC0" -> "mlx5_0"
  int line = 0;                                           // the header's
};

// Returns the number of "NV4"; nothing: the cell is a PCIe path.
std::optional<int> nvlinks_of(std::string_view cell) {
  if (!cell.starts_with("NV")) return std::nullopt;
  const long long count = digits_of(cell.substr(2));
  return count >= 1 && count <= 1000 ? std::optional(static_cast<int>(count)) : std::nullopt;
}

// Checks that the table says the same both ways, and X only of a device to itself.
Status check_both_ways(const SmiTable& table, const std::string& where) {
  for (std::size_t i = 0; i < table.devices.size(); ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      const std::string& here = table.cells.at(table.devices[i])[j];
      const std::string& there = table.cells.at(table.devices[j])[i];
      if (here == there && (here == "X") == (i == j)) continue;
      return Error::at(where, fmt::format("found '{}' from {} to {} and '{}' back in the table, "
                                          "expected the same, and X of a device to itself",
                                          here, table.devices[i], table.devices[j], there));
    }
  }
  return Done{};
}

// Checks that GPUs stand in the order of their numbers, since ranks follow the columns.
Status check_order(const SmiTable& table, const std::string& where) {
  std::string last;
  for (const std::string& device : table.devices) {
    if (!is_gpu_name(device)) continue;
    if (!last.empty() && digits_of(device.substr(3)) <= digits_of(last.substr(3)))
      return Error::at(
          where, fmt::format("found {} behind {}, expected GPUs in their order", device, last));
    last = device;
  }
  return Done{};
}

// Adds a device's row: its name, a cell a column, and for a GPU the CPU's cores near it.
Status read_row(const std::vector<std::string>& words, const std::string& where, SmiTable* table) {
  const std::size_t columns = table->devices.size();
  if (table->cells.contains(words[0]))
    return Error::at(where, fmt::format("found a second row {}, expected one a device", words[0]));
  if (words.size() < columns + 1)
    return Error::at(where, fmt::format("found {} cells for {}, expected {}, one a device",
                                        words.size() - 1, words[0], columns));
  const auto first = words.begin() + 1, end = first + static_cast<std::ptrdiff_t>(columns);
  for (auto cell = first; cell != end; ++cell) {
    if (std::ranges::find(kPaths, *cell) == kPaths.end() && !nvlinks_of(*cell))
      return Error::at(where, fmt::format("found '{}' for {}, expected X, NV1, PIX, PXB, PHB, NODE "
                                          "or SYS",
                                          *cell, words[0]));
  }
  if (end != words.end()) table->affinity[words[0]] = *end;
  table->cells[words[0]] = {first, end};
  return Done{};
}

Result<SmiTable> read_table(const TopologySource& source) {
  SmiTable table;
  int line_number = 0;
  for (const std::string& line : split(source.text, "\n")) {
    ++line_number;
    const std::vector<std::string> words = split_words(plain(line));
    if (words.empty()) continue;
    if (table.devices.empty()) {
      if (!is_gpu_name(words[0])) continue;
      table.devices = devices_in_header(words);
      table.line = line_number;
      RETURN_IF_ERROR(check_order(table, source.at(line_number)));
      continue;
    }
    if (words.size() == 2 && words[0].starts_with("NIC") && words[0].ends_with(':')) {
      table.legend[words[0].substr(0, words[0].size() - 1)] = words[1];
      continue;
    }
    if (std::ranges::find(table.devices, words[0]) == table.devices.end()) {
      if (!is_gpu_name(words[0])) continue;
      return Error::at(
          source.at(line_number),
          fmt::format("found a row {} without a column, expected the whole table", words[0]));
    }
    RETURN_IF_ERROR(read_row(words, source.at(line_number), &table));
  }
  for (const std::string& device : table.devices) {
    if (!table.cells.contains(device))
      return Error::at(
          source.at(table.line),
          fmt::format("found a column {} without a row, expected the whole table", device));
  }
  RETURN_IF_ERROR(check_both_ways(table, source.at(table.line)));
  return table;
}

// Groups of devices: two devices that are near each other are in one group. Its first device stands
// for the group.
class DeviceGroups {
 public:
  template <class Near>
  DeviceGroups(std::size_t devices, const Near& near) : first_(devices) {
    for (std::size_t i = 0; i < devices; ++i) {
      first_[i] = i;
      for (std::size_t j = 0; j < i; ++j) {
        if (first_[i] != first_[j] && near(i, j)) join(first_[i], first_[j]);
      }
    }
  }

  std::size_t of(std::size_t device) const { return first_[device]; }
  bool is_shared(std::size_t device) const {
    return std::ranges::count(first_, first_[device]) > 1;
  }

 private:
  void join(std::size_t a, std::size_t b) {
    std::ranges::replace(first_, std::max(a, b), std::min(a, b));
  }

  std::vector<std::size_t> first_;
};

bool is_path(const SmiTable& table, std::size_t i, std::size_t j,
             std::initializer_list<std::string_view> paths) {
  const std::string& cell = table.cells.at(table.devices[i])[j];
  return std::ranges::find(paths, cell) != paths.end();
}

// Returns the columns of network devices that training does not use, but storage and management:
// the ones that share no PCIe switch with a GPU, if other ones do.
std::set<std::size_t> idle_nics(const SmiTable& table) {
  std::set<std::size_t> near, far;
  for (std::size_t i = 0; i < table.devices.size(); ++i) {
    if (is_gpu_name(table.devices[i])) continue;
    bool is_near = false;
    for (std::size_t j = 0; j < table.devices.size(); ++j)
      is_near |= is_gpu_name(table.devices[j]) && is_path(table, i, j, {"PIX", "PXB"});
    (is_near ? near : far).insert(i);
  }
  return near.empty() ? std::set<std::size_t>() : far;
}

// Returns whether devices are on one socket: by their path, or, where the cell counts NVLinks in
// its place, by equal CPU affinity.
bool share_socket(const SmiTable& table, std::size_t i, std::size_t j) {
  if (is_path(table, i, j, {"PIX", "PXB", "PHB", "NODE"})) return true;
  const auto own = table.affinity.find(table.devices[i]);
  const auto other = table.affinity.find(table.devices[j]);
  return nvlinks_of(table.cells.at(table.devices[i])[j]) && own != table.affinity.end() &&
         other != table.affinity.end() && own->second == other->second;
}

// Adds the NVLinks of each pair of GPUs.
void add_nvlinks(const SmiTable& table, const std::vector<std::size_t>& gpus, ImportedNode* node) {
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    for (std::size_t j = i + 1; j < gpus.size(); ++j) {
      if (const auto links = nvlinks_of(table.cells.at(table.devices[gpus[i]])[gpus[j]]))
        node->wires.push_back(
            NodeWire::of_nvlinks(fmt::format("gpu{}", i), fmt::format("gpu{}", j), *links));
    }
  }
}

// Returns the name of a network device: "mlx5_0" for a column NIC0 with a legend.
std::string nic_name(const SmiTable& table, std::size_t column) {
  const auto known = table.legend.find(table.devices[column]);
  return known == table.legend.end() ? table.devices[column] : known->second;
}

// Adds the GPUs, and the network devices that are not idle, each with a wire to its PCIe switch, or
// to its CPU if it shares no switch. Adds the wires from switches to CPUs and between CPUs, too.
void add_devices(const SmiTable& table, const std::set<std::size_t>& idle, ImportedNode* node) {
  const std::size_t devices = table.devices.size();
  const DeviceGroups bridges(devices, [&](std::size_t i, std::size_t j) {
    return is_path(table, i, j, {"PIX", "PXB"});
  });
  const DeviceGroups sockets(
      devices, [&](std::size_t i, std::size_t j) { return share_socket(table, i, j); });
  std::map<std::size_t, std::string> switches, cpus;  // names by group
  for (std::size_t i = 0; i < devices; ++i) {
    if (idle.contains(i)) continue;
    std::string name;
    if (is_gpu_name(table.devices[i])) {
      name = fmt::format("gpu{}", node->gpus.size());
      node->gpus.emplace_back();
    } else {
      name = fmt::format("nic{}", node->nics.size());
      node->nics.push_back({nic_name(table, i), "", 0});
    }
    const auto [cpu, is_new] = cpus.try_emplace(sockets.of(i), fmt::format("cpu{}", cpus.size()));
    for (const auto& [group, other] : cpus) {
      if (is_new && other != cpu->second)
        node->wires.push_back({.from = other,
                               .to = cpu->second,
                               .kind = NodeWire::Sockets,
                               .GBps = socket_GBps("", "", 0, 0)});
    }
    std::string parent = cpu->second;
    if (bridges.is_shared(i)) {
      const auto [bridge, is_first] =
          switches.try_emplace(bridges.of(i), fmt::format("pcie{}", switches.size()));
      if (is_first) node->wires.push_back({.from = bridge->second, .to = parent});
      parent = bridge->second;
    }
    node->wires.push_back({.from = name, .to = parent});
  }
}

}  // namespace

bool is_nvidia_smi(std::string_view text) {
  for (const std::string& line : split(text, "\n")) {
    const std::vector<std::string> words = split_words(plain(line));
    if (words.size() > 1 && words[0] == "GPU0" &&
        (is_gpu_name(words[1]) || words[1] == "CPU" || words[1] == "NIC0" ||
         words[1].starts_with("mlx")))
      return true;
    // The command itself may stand first, behind any prompt.
    if (!words.empty() && line.find("nvidia-smi topo") == line.npos) return false;
  }
  return false;
}

Status read_nvidia_smi(const TopologySource& source, ImportedTopology* topology) {
  ASSIGN_OR_RETURN(const SmiTable table, read_table(source));
  ImportedNode node;
  node.kind = "nvidia-smi topo -m";
  node.states_nvlinks = node.counts_pairs = true;
  std::vector<std::size_t> gpus;  // their columns
  for (std::size_t i = 0; i < table.devices.size(); ++i) {
    if (is_gpu_name(table.devices[i])) gpus.push_back(i);
  }
  if (gpus.empty())
    return Error::at(source.at(table.line), "found no GPU in the table, expected GPU0, GPU1, ...");
  const std::set<std::size_t> idle = idle_nics(table);
  std::vector<std::string> left_out;
  for (const std::size_t i : idle) left_out.push_back(nic_name(table, i));
  add_nvlinks(table, gpus, &node);
  add_devices(table, idle, &node);
  if (topology->node)
    return Error::at(source.path, "found a second file of a node's inside, expected one");
  topology->assumed.push_back(
      fmt::format("{}: {:g} GB/s between sockets, as NCCL takes what it does not know", source.path,
                  socket_GBps("", "", 0, 0)));
  if (!left_out.empty())
    topology->left_out.push_back(
        fmt::format("{}: {}, which no GPU reaches by PIX or PXB: for storage or management",
                    source.path, fmt::join(left_out, ", ")));
  topology->sources.push_back(fmt::format("{} ({}, {} GPUs, {} network devices)", source.path,
                                          node.kind, node.gpus.size(), node.nics.size()));
  topology->node = std::move(node);
  return Done{};
}

}  // namespace tandem
