// Reads the output of `ibnetdiscover`: a block for each switch and each channel adapter (HCA), with
// a line for each of its links. Cables are read from the switches' blocks only. Names of hosts come
// from the descriptions of adapters, in either kind of block.
// Declared in interop/topology/readers.h.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "base/hostlist.h"
#include "base/split.h"
#include "interop/topology/readers.h"

namespace tandem {
namespace {

// The data rate of one lane of a link, by InfiniBand's name for it. Up to QDR it is 8/10 of the
// signalling rate, which is 10 Gbit/s of QDR; FDR has 64/66 of 14.06.
struct LaneSpeed {
  std::string_view name;
  double Gbitps;
};

constexpr std::array kLanes = {
    LaneSpeed{"SDR", 2},    LaneSpeed{"DDR", 4},     LaneSpeed{"QDR", 8},
    LaneSpeed{"FDR10", 10}, LaneSpeed{"FDR", 13.64}, LaneSpeed{"EDR", 25},
    LaneSpeed{"HDR", 50},   LaneSpeed{"NDR", 100},   LaneSpeed{"XDR", 200}};

// Returns the GB/s of "4xNDR"; nothing: the text is of another form.
std::optional<double> link_GBps(std::string_view text) {
  const std::size_t cross = text.find('x');
  int width = 0;
  if (cross == text.npos) return std::nullopt;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + cross, width);
  if (failed != std::errc{} || end != text.data() + cross || width < 1 || width > 12)
    return std::nullopt;
  for (const LaneSpeed& lane : kLanes) {
    if (text.substr(cross + 1) == lane.name) return width * lane.Gbitps / 8;
  }
  return std::nullopt;
}

// Returns the text in the next quotes from `from` on, and moves `from` past them.
std::optional<std::string_view> quoted(std::string_view line, std::size_t* from) {
  const std::size_t open = line.find('"', *from);
  const std::size_t close = open == line.npos ? line.npos : line.find('"', open + 1);
  if (close == line.npos) return std::nullopt;
  *from = close + 1;
  return line.substr(open + 1, close - open - 1);
}

// Returns A09-P1-IBLEAF-04-04 of "MF0;A09-P1-IBLEAF-04-04:MQM9701/U1". Other characters than
// letters, digits, - and _ become dashes, for the name goes into a CSV.
std::string switch_name(std::string_view description) {
  std::string_view name = description;
  if (const std::size_t semicolon = name.find(';'); semicolon != name.npos)
    name.remove_prefix(semicolon + 1);
  name = name.substr(0, name.find(':'));
  std::string clean;
  for (const char c : name)
    clean += std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' ? c : '-';
  return clean;
}

// A channel adapter. `host` and `device` are empty if the description names none.
struct Adapter {
  std::string description, host, device;
};

// In the description of a switch's own adapter, which reduces inside the network (SHARP).
constexpr std::string_view kAggregation = "Aggregation Node";

// Splits "a08-p1-dgx-04-c01 mlx5_5", "... HCA-6" and "host mlx5_0 extra" at the blank. "MT4129
// ConnectX7 Mellanox Technologies" says what the device is, not where.
Adapter adapter_of(std::string_view description) {
  Adapter adapter{std::string(description), "", ""};
  const std::size_t blank = description.find(' ');
  if (blank == description.npos || blank == 0) return adapter;
  const std::string_view host = description.substr(0, blank);
  const std::string_view device = description.substr(blank + 1);
  const bool is_part = host.starts_with("MT") && host.size() > 2 &&
                       host.find_first_not_of("0123456789", 2) == host.npos;
  const bool is_model = is_part || host == "Mellanox" || host == "localhost" || host == "(none)" ||
                        description.ends_with("Technologies");
  if (is_model || host.find_first_of("\",;[]\t'") != host.npos) return adapter;
  adapter.host = host;
  // HCA-6 is mlx5_5.
  int number = 0;
  if (device.starts_with("HCA-") &&
      std::from_chars(device.data() + 4, device.data() + device.size(), number).ec == std::errc{} &&
      number > 0) {
    adapter.device = fmt::format("mlx5_{}", number - 1);
  } else {
    adapter.device = device.substr(0, device.find(' '));
  }
  return adapter;
}

struct CableEnd {
  std::string guid;  // "S-..." of a switch, "H-..." of an adapter
  int port = 0;

  bool operator<(const CableEnd& other) const {
    return std::tie(guid, port) < std::tie(other.guid, other.port);
  }
};

struct FoundCable {
  CableEnd from, to;
  double GBps = 0;
};

class IbnetFile {
 public:
  explicit IbnetFile(const TopologySource& source) : source_(source) {}

  Status read() {
    int number = 0;
    for (const std::string& whole : split(source_.text, "\n")) {
      ++number;
      std::string_view line = whole;
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (line.starts_with("Switch") || line.starts_with("Ca\t") || line.starts_with("Ca ") ||
          line.starts_with("Rt")) {
        RETURN_IF_ERROR(read_head(line, number));
      } else if (line.starts_with('[')) {
        RETURN_IF_ERROR(read_cable(line, number));
      }
    }
    if (switches_.empty())
      return Error::at(source_.path,
                       fmt::format("found {} and no switch, expected a fabric: was it run on a "
                                   "host whose link is up?",
                                   adapters_.size() == 1
                                       ? "one channel adapter"
                                       : fmt::format("{} channel adapters", adapters_.size())));
    return Done{};
  }

  ImportedFabric fabric();

  std::vector<std::string> left_out;

 private:
  // Reads a block's first line: Switch 65 "S-guid" # "description" ..., or Ca 1 "H-guid" # ...
  Status read_head(std::string_view line, int number) {
    std::size_t at = 0;
    const auto guid = quoted(line, &at);
    const auto description = guid ? quoted(line, &at) : std::nullopt;
    if (!guid || !description || guid->size() < 3)
      return Error::at(source_.at(number),
                       "found a line of a switch or an adapter without its GUID and description, "
                       "expected both in quotes");
    block_guid_ = *guid;
    in_switch_block_ = line.starts_with("Switch");
    if (in_switch_block_) {
      switches_.try_emplace(block_guid_, switch_name(*description));
    } else {
      note_adapter(block_guid_, *description);
    }
    return Done{};
  }

  // Keeps the first description of an adapter that names its host.
  void note_adapter(const std::string& guid, std::string_view description) {
    Adapter adapter = adapter_of(description);
    Adapter& known = adapters_[guid];
    if (known.host.empty()) known = std::move(adapter);
  }

  // Reads a link in the block of a switch or of an adapter (second form):
  //   [port] "S-guid"[port] # "description" lid N 4xNDR
  //   [port](guid) "S-guid"[port] # lid N lmc N "description" lid N 4xNDR
  Status read_cable(std::string_view line, int number) {
    const auto wrong = [&](std::string_view what) {
      return Error::at(source_.at(number),
                       fmt::format("found a link without {}, expected [port] \"GUID\"[port] # "
                                   "\"description\" lid N 4xNDR",
                                   what));
    };
    if (block_guid_.empty()) return wrong("the switch that it is of");
    std::size_t at = 0;
    const auto peer = quoted(line, &at);
    if (!peer || peer->size() < 3) return wrong("the GUID of its other end");
    const auto port = port_in(line), to_port = port_in(line.substr(at));
    if (!port || !to_port) return wrong("the ports of its ends");
    const auto description = quoted(line, &at);
    if (!description) return wrong("the description of its other end");
    const std::size_t blank = line.find_last_not_of(" \t");
    const std::string_view trimmed = line.substr(0, blank + 1);
    const auto GBps = link_GBps(trimmed.substr(trimmed.find_last_of(" \t") + 1));
    if (!GBps) return wrong("its width and speed");
    if (!in_switch_block_) return Done{};  // the switch's block has the same link
    if (peer->starts_with("H-")) note_adapter(std::string(*peer), *description);
    cables_.push_back({{block_guid_, *port}, {std::string(*peer), *to_port}, *GBps});
    return Done{};
  }

  // Returns the port that the text begins with: "[33]".
  static std::optional<int> port_in(std::string_view text) {
    int port = 0;
    if (!text.starts_with('[')) return std::nullopt;
    const auto [end, failed] = std::from_chars(text.data() + 1, text.data() + text.size(), port);
    if (failed != std::errc{} || end == text.data() + text.size() || *end != ']')
      return std::nullopt;
    return port;
  }

  std::map<std::string, std::string> unique_names() const;

  void leave_out(const std::set<std::string>& ends, std::string_view noun, std::string_view why);

  const TopologySource& source_;
  std::string block_guid_;  // of the block that is being read
  bool in_switch_block_ = false;
  std::map<std::string, std::string> switches_;  // names by GUID
  std::map<std::string, Adapter> adapters_;      // by GUID
  std::vector<FoundCable> cables_;
};

// Returns the switches' names by GUID. The GUID is added to a name that several have, or none.
std::map<std::string, std::string> IbnetFile::unique_names() const {
  std::map<std::string, int> uses;
  for (const auto& [guid, name] : switches_) ++uses[name];
  std::map<std::string, std::string> names;
  for (const auto& [guid, name] : switches_)
    names[guid] = name.empty() || uses[name] > 1
                      ? fmt::format("{}{}{}", name, name.empty() ? "" : "-", guid.substr(2))
                      : name;
  return names;
}

// Notes ends of links that are left out: 2, "end" and " without a host's name" become "2 ends
// without a host's name".
void IbnetFile::leave_out(const std::set<std::string>& ends, std::string_view noun,
                          std::string_view why) {
  if (!ends.empty())
    left_out.push_back(fmt::format("{}: {} {}{}{}", source_.path, ends.size(), noun,
                                   ends.size() == 1       ? ""
                                   : noun.ends_with("ch") ? "es"
                                                          : "s",
                                   why));
}

ImportedFabric IbnetFile::fabric() {
  ImportedFabric fabric;
  fabric.states_rates = true;
  const std::map<std::string, std::string> names = unique_names();
  for (const auto& [guid, name] : names) fabric.switches.push_back(name);
  std::ranges::sort(fabric.switches, in_natural_order);
  std::map<std::string, FabricHost> hosts;
  std::set<std::pair<CableEnd, CableEnd>> seen;
  std::set<std::string> aggregation, nameless, unknown, loops;
  for (const FoundCable& cable : cables_) {
    const std::string& to = cable.to.guid;
    const std::string& from_switch = names.at(cable.from.guid);
    if (to == cable.from.guid) {
      loops.insert(from_switch);
      continue;
    }
    if (const auto to_switch = names.find(to); to_switch != names.end()) {
      // Both switches state the cable, unless the file was cut. It is added once.
      if (seen.insert(std::minmax(cable.from, cable.to)).second)
        fabric.cables.push_back({from_switch, to_switch->second, cable.GBps});
      continue;
    }
    const auto found = adapters_.find(to);
    if (found == adapters_.end()) {
      unknown.insert(to);
    } else if (!found->second.host.empty()) {
      FabricHost& host = hosts[found->second.host];
      host.name = found->second.host;
      host.ports.push_back({found->second.device, from_switch, cable.GBps});
    } else if (found->second.description.find(kAggregation) != std::string::npos) {
      aggregation.insert(to);
    } else {
      nameless.insert(to);
    }
  }
  leave_out(aggregation, "aggregation node",
            " of the switches, for SHARP: where it is on, set cluster.in_network_reduction");
  leave_out(loops, "switch",
            fmt::format(" with cables to itself: {}", hostlist_of({loops.begin(), loops.end()})));
  if (!nameless.empty())
    leave_out(nameless, "end",
              fmt::format(" without a host's name, such as '{}'",
                          adapters_.at(*nameless.begin()).description));
  if (!unknown.empty())
    leave_out(
        unknown, "end",
        fmt::format(" of links, such as {}, which the file does not describe", *unknown.begin()));
  for (auto& [name, host] : hosts) {
    std::ranges::stable_sort(host.ports, in_natural_order, &FabricPort::device);
    fabric.hosts.push_back(std::move(host));
  }
  std::ranges::sort(fabric.hosts, in_natural_order, &FabricHost::name);
  return fabric;
}

}  // namespace

bool is_ibnetdiscover(std::string_view text) {
  return text.find("\ncaguid=") != text.npos || text.find("\nswitchguid=") != text.npos;
}

Status read_ibnetdiscover(const TopologySource& source, ImportedTopology* topology) {
  IbnetFile file(source);
  RETURN_IF_ERROR(file.read());
  ImportedFabric fabric = file.fabric();
  if (fabric.hosts.empty())
    return Error::at(source.path, fmt::format("found {} switches and no host that is named, "
                                              "expected adapters such as \"host1 mlx5_0\"",
                                              fabric.switches.size()));
  if (topology->fabric)
    return Error::at(source.path, "found a second file of a fabric, expected one");
  topology->sources.push_back(fmt::format("{} (ibnetdiscover, {} switches, {} hosts)", source.path,
                                          fabric.switches.size(), fabric.hosts.size()));
  topology->fabric = std::move(fabric);
  topology->left_out.insert(topology->left_out.end(), file.left_out.begin(), file.left_out.end());
  return Done{};
}

}  // namespace tandem
