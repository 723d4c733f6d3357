// Reads NCCL's topology files: a <system> of <cpu>s, below which nested <pci> stand for PCIe
// bridges and, innermost, for devices, with a <gpu> or a <nic> and its <net>s inside. There are
// three kinds: full dumps with NVLinks; lists of devices with PCI classes but without NVLinks, as
// clouds ship them; and lists without classes. So a device is recognised by its child, else by its
// class, and missing NVLinks are left to the preset. GPUs and NICs are collected first, then
// numbered by node(). Declared in interop/topology/readers.h.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "interop/document/xml_element.h"
#include "interop/topology/nccl_rates.h"
#include "interop/topology/readers.h"

namespace tandem {
namespace {

// PCI classes, or how they begin.
constexpr std::string_view kSwitchClass = "0x0680", kGpuClass = "0x03", kNicClass = "0x02";
// The target of NVLinks that lead to a switch shared by several hosts.
constexpr std::string_view kManyHosts = "fffffff:ff:ff.0";
constexpr double kUsualNetMbitps = 10000;  // NCCL's assumption for a net that states no speed
constexpr double kMbitpsPerGBps = 8000;

// The range in which an attribute must be where an element has it.
struct NumberRange {
  std::string_view attribute;
  double least, most;
};

constexpr std::array kRanges = {NumberRange{"link_width", 0, 64}, NumberRange{"speed", -1, 1e8},
                                NumberRange{"bw", 0, 1e7},        NumberRange{"count", 0, 1000},
                                NumberRange{"dev", -1, 1e5},      NumberRange{"sm", 0, 1000},
                                NumberRange{"familyid", -1, 1e5}, NumberRange{"modelid", -1, 1e5}};

struct FoundCpu {
  std::string name;  // "cpu0"
  int host = 0;
};

struct FoundNvlink {
  std::string target;  // the busid of a GPU or an NVLink switch
  bool to_switch = false;
  int count = 0, line = 0;
};

// A GPU of the file, before GPUs are numbered. `dev`: NCCL's number; -1: not stated.
struct FoundGpu {
  int host = 0, dev = -1;
  std::string busid;
  std::string parent;  // the PCIe switch or CPU above it: "pcie0", "cpu1"
  double pcie_GBps = 0, c2c_GBps = 0;
  ImportedGpu gpu;
  std::vector<FoundNvlink> nvlinks;
};

struct FoundNic {
  int host = 0, dev = -1;
  std::string parent;
  double pcie_GBps = 0;
  ImportedNic nic;
};

class NcclSystem {
 public:
  explicit NcclSystem(const TopologySource& source) : source_(source) {}

  Status read(const XmlElement& system) {
    RETURN_IF_ERROR(check_numbers(system));
    for (const XmlElement& cpu : system.children)
      has_classes_ |= cpu.name == "cpu" && any_has_class(cpu);
    for (const XmlElement& cpu : system.children) {
      if (cpu.name == "cpu") RETURN_IF_ERROR(read_cpu(cpu));
      if (cpu.name == "pci" || cpu.name == "nic")
        left_out.push_back(fmt::format("{}: a <{}> of no <cpu>", source_.at(cpu.line), cpu.name));
    }
    if (gpus_.empty() && nics_.empty())
      return Error::at(source_.at(system.line),
                       "found neither a GPU (a <gpu>, or a class that begins with 0x03) nor a "
                       "network device, expected some");
    for (const FoundGpu& gpu : gpus_) {
      if (gpu.gpu.sm != gpus_.front().gpu.sm)
        return Error::at(source_.path,
                         fmt::format("found GPUs of compute capability {} and {}, expected GPUs "
                                     "of one kind",
                                     gpus_.front().gpu.sm, gpu.gpu.sm));
    }
    return Done{};
  }

  Result<ImportedNode> node();

  // Returns "3 of 8 network devices have gdr = 0: ..."; empty: none has.
  std::string without_gdr() const;

  std::vector<std::string> left_out, assumed;

 private:
  static bool any_has_class(const XmlElement& element) {
    return element.has("class") || std::ranges::any_of(element.children, any_has_class);
  }

  Status check_numbers(const XmlElement& element) const {
    for (const NumberRange& range : kRanges) {
      // A text that is no number counts as one above the range.
      const double number = element.number(range.attribute, range.most + 1);
      if (element.text(range.attribute).empty() || (number >= range.least && number <= range.most))
        continue;
      return Error::at(
          source_.at(element.line),
          fmt::format("found {} = '{}' of a {}, expected {:g} to {:g}", range.attribute,
                      element.text(range.attribute), element.name, range.least, range.most));
    }
    for (const XmlElement& child : element.children) RETURN_IF_ERROR(check_numbers(child));
    return Done{};
  }

  static bool is_device(const XmlElement& pci, std::string_view child, std::string_view pci_class) {
    return pci.child(child) != nullptr || pci.text("class").starts_with(pci_class);
  }

  // Returns "10de:2330" of vendor 0x10de and device 0x2330; empty: the file does not state them.
  static std::string pci_id(const XmlElement& pci) {
    const auto digits = [&](std::string_view attribute) {
      const std::string_view text = pci.text(attribute);
      return std::string(text.starts_with("0x") ? text.substr(2) : text);
    };
    return pci.has("device") ? digits("vendor") + ':' + digits("device") : "";
  }

  static double rate_of(const XmlElement& pci) {
    return pcie_GBps(pci.text("link_speed"), pci.number("link_width"));
  }

  Status read_cpu(const XmlElement& cpu) {
    const std::string hash(cpu.text("host_hash"));
    const auto known = std::ranges::find(hosts_, hash);
    const int host = static_cast<int>(known - hosts_.begin());
    if (known == hosts_.end()) hosts_.push_back(hash);
    const std::string name = fmt::format("cpu{}", cpus_.size());
    const double sockets = socket_GBps(cpu.text("arch"), cpu.text("vendor"), cpu.number("familyid"),
                                       cpu.number("modelid"));
    for (const FoundCpu& other : cpus_) {
      if (other.host == host)
        wires_.push_back(
            {.from = other.name, .to = name, .kind = NodeWire::Sockets, .GBps = sockets});
    }
    cpus_.push_back({name, host});
    for (const XmlElement& child : cpu.children) {
      if (child.name == "pci") RETURN_IF_ERROR(read_pci(child, name, host));
      if (child.name == "nic") RETURN_IF_ERROR(add_nets(child, nullptr, name, host));
    }
    return Done{};
  }

  // Counts the devices at `pci` or below it.
  int devices_in(const XmlElement& pci) const {
    if (is_device(pci, "gpu", kGpuClass) || is_device(pci, "nic", kNicClass)) return 1;
    if (pci.children.empty()) return has_classes_ ? 0 : 1;  // taken for a NIC in read_pci()
    int devices = 0;
    for (const XmlElement& child : pci.children) {
      if (child.name == "pci") devices += devices_in(child);
    }
    return devices;
  }

  // Returns the rate of the fastest device below. It stands in for a bridge's own rate, which
  // virtual machines leave out or state as nonsense.
  static double fastest_below(const XmlElement& pci) {
    double fastest = pci.children.empty() ? rate_of(pci) : 0;
    for (const XmlElement& child : pci.children) {
      if (child.name == "pci")
        fastest = std::max(fastest,
                           child.child("gpu") != nullptr ? rate_of(child) : fastest_below(child));
      if (child.name == "gpu" || child.name == "nic") fastest = std::max(fastest, rate_of(pci));
    }
    return fastest;
  }

  // Reads a device, or a bridge with all below it.
  Status read_pci(const XmlElement& pci, const std::string& parent, int host) {
    if (is_device(pci, "gpu", kGpuClass)) return add_gpu(pci, parent, host);
    if (const XmlElement* nic = pci.child("nic")) return add_nets(*nic, &pci, parent, host);
    const bool bare_nic =
        pci.text("class").starts_with(kNicClass) || (!has_classes_ && pci.children.empty());
    if (bare_nic) {
      nics_.push_back({host, -1, parent, rate_of(pci), {"", pci_id(pci), 0}});
      return Done{};
    }
    if (pci.text("class").starts_with(kSwitchClass)) return Done{};
    std::string inner_parent = parent;  // a bridge above one device is left out
    if (devices_in(pci) > 1) {
      inner_parent = fmt::format("pcie{}", switches_++);
      const bool states_rate = pci.number("link_width") > 1;
      wires_.push_back({.from = inner_parent,
                        .to = parent,
                        .kind = NodeWire::Pcie,
                        .GBps = states_rate ? rate_of(pci) : fastest_below(pci)});
    }
    for (const XmlElement& child : pci.children) {
      if (child.name == "pci") RETURN_IF_ERROR(read_pci(child, inner_parent, host));
    }
    return Done{};
  }

  Status add_gpu(const XmlElement& pci, const std::string& parent, int host) {
    FoundGpu found{.host = host,
                   .busid = std::string(pci.text("busid")),
                   .parent = parent,
                   .pcie_GBps = rate_of(pci),
                   .gpu = {pci_id(pci), 0}};
    for (const FoundGpu& other : gpus_) {
      if (!found.busid.empty() && other.busid == found.busid && other.host == host)
        return Error::at(
            source_.at(pci.line),
            fmt::format("found a second GPU at busid '{}', expected one of a host", found.busid));
    }
    if (const XmlElement* gpu = pci.child("gpu")) {
      states_nvlinks_ = true;
      found.dev = static_cast<int>(gpu->number("dev", -1));
      found.gpu.sm = static_cast<int>(gpu->number("sm"));
      for (const XmlElement& link : gpu->children) {
        // bw is in MB/s.
        if (link.name == "c2c") found.c2c_GBps += link.number("bw") * link.number("count") / 1000;
        if (link.name == "nvlink") RETURN_IF_ERROR(add_nvlink(link, &found));
      }
    }
    gpus_.push_back(std::move(found));
    return Done{};
  }

  Status add_nvlink(const XmlElement& link, FoundGpu* gpu) {
    const double count = link.number("count");
    if (count < 1)
      return Error::at(source_.at(link.line),
                       "found an nvlink without a count, expected 1 to 1000");
    const std::string target(link.text("target"));
    if (target == gpu->busid) {
      left_out.push_back(
          fmt::format("{}: an NVLink from {} to itself", source_.at(link.line), target));
      return Done{};
    }
    joins_hosts_ |= target == kManyHosts;
    const bool to_switch = target == kManyHosts || link.text("tclass").starts_with(kSwitchClass);
    gpu->nvlinks.push_back({target, to_switch, static_cast<int>(count), link.line});
    return Done{};
  }

  // Adds the nets of a <nic>. `pci`: its PCI device; null: it hangs on the CPU without one.
  Status add_nets(const XmlElement& nic, const XmlElement* pci, const std::string& parent,
                  int host) {
    if (nic.child("net") == nullptr)
      left_out.push_back(fmt::format("{}: a <nic> without a <net>", source_.at(nic.line)));
    const auto ports = std::ranges::count(nic.children, "net", &XmlElement::name);
    const int slot = pci != nullptr && ports > 1 ? slots_++ : -1;
    for (const XmlElement& net : nic.children) {
      if (net.name != "net") continue;
      const double speed_Mbitps = net.number("speed");
      if (net.text("gdr") == "0") ++without_gdr_;
      nics_.push_back({host,
                       static_cast<int>(net.number("dev", -1)),
                       parent,
                       pci == nullptr ? pcie_GBps("", 0) : rate_of(*pci),
                       {std::string(net.text("name")), pci == nullptr ? "" : pci_id(*pci),
                        speed_Mbitps > 0 ? speed_Mbitps / kMbitpsPerGBps : 0, slot}});
    }
    return Done{};
  }

  void add_nvlinks(ImportedNode* node);
  void take_usual_speeds(ImportedNode* node);

  const TopologySource& source_;
  bool has_classes_ = false, states_nvlinks_ = false, joins_hosts_ = false;
  std::vector<std::string> hosts_;  // their hashes
  std::vector<FoundCpu> cpus_;
  int switches_ = 0, slots_ = 0;
  std::ptrdiff_t without_gdr_ = 0;  // network devices
  std::vector<FoundGpu> gpus_;
  std::vector<FoundNic> nics_;
  std::vector<NodeWire> wires_;
};

// Adds a wire for the NVLinks of each GPU to a switch, and for those of each pair of GPUs.
void NcclSystem::add_nvlinks(ImportedNode* node) {
  std::map<std::pair<int, std::string>, int> gpu_at;  // by host and busid
  for (std::size_t i = 0; i < gpus_.size(); ++i)
    gpu_at[{gpus_[i].host, gpus_[i].busid}] = static_cast<int>(i);
  std::map<std::pair<int, int>, int> links;  // from GPU to GPU, as each end states it
  for (std::size_t i = 0; i < gpus_.size(); ++i) {
    int to_switch = 0;
    for (const FoundNvlink& link : gpus_[i].nvlinks) {
      const auto other = gpu_at.find({gpus_[i].host, link.target});
      if (link.to_switch) {
        to_switch += link.count;
      } else if (other != gpu_at.end()) {
        links[{static_cast<int>(i), other->second}] += link.count;
      } else {
        left_out.push_back(fmt::format(
            "{}: {} NVLink{} to '{}', which is neither a switch nor a "
            "GPU of the file",
            source_.at(link.line), link.count, link.count == 1 ? "" : "s", link.target));
      }
    }
    if (to_switch > 0)
      node->wires.push_back(NodeWire::of_nvlinks(fmt::format("gpu{}", i), "nvswitch", to_switch));
  }
  for (const auto& [ends, count] : links) {
    const auto back = links.find({ends.second, ends.first});
    if (ends.first > ends.second && back != links.end()) continue;  // added from the other end
    node->wires.push_back(
        NodeWire::of_nvlinks(fmt::format("gpu{}", std::min(ends.first, ends.second)),
                             fmt::format("gpu{}", std::max(ends.first, ends.second)),
                             std::max(count, back == links.end() ? 0 : back->second)));
  }
}

// Gives nets without a speed the one that NCCL assumes, unless no net states one: then the preset's
// is used.
void NcclSystem::take_usual_speeds(ImportedNode* node) {
  const auto unknown = std::ranges::count(node->nics, 0.0, &ImportedNic::GBps);
  if (unknown == 0 || unknown == std::ssize(node->nics)) return;
  for (ImportedNic& nic : node->nics) {
    if (nic.GBps == 0) nic.GBps = kUsualNetMbitps / kMbitpsPerGBps;
  }
  assumed.push_back(
      fmt::format("{}: {} of {} nets state no speed and have 10 Gbit/s, as NCCL takes "
                  "them",
                  source_.path, unknown, node->nics.size()));
}

std::string NcclSystem::without_gdr() const {
  if (without_gdr_ == 0) return "";
  return fmt::format(
      "{}: {} of {} network devices have gdr = 0: their messages pass the host's memory, which "
      "no link prices",
      source_.path, without_gdr_, nics_.size());
}

// Numbers GPUs and NICs by host and NCCL's device number, and wires them.
Result<ImportedNode> NcclSystem::node() {
  const auto in_order = [](const auto& a, const auto& b) {
    return std::pair(a.host, a.dev) < std::pair(b.host, b.dev);
  };
  std::ranges::stable_sort(gpus_, in_order);
  std::ranges::stable_sort(nics_, in_order);
  if (hosts_.size() > 1 && !joins_hosts_)
    return Error::at(source_.path,
                     fmt::format("found {} hosts that no NVLink switch joins, expected one host, "
                                 "or an NVLink domain",
                                 hosts_.size()));
  ImportedNode node;
  node.kind = "NCCL topology";
  node.hosts = static_cast<int>(hosts_.size());
  node.states_nvlinks = states_nvlinks_;
  node.states_gpus = !gpus_.empty();
  node.joins_hosts = joins_hosts_;
  add_nvlinks(&node);
  bool replaces_pcie = false;
  for (std::size_t i = 0; i < gpus_.size(); ++i) {
    const FoundGpu& gpu = gpus_[i];
    node.gpus.push_back(gpu.gpu);
    const bool c2c = gpu.c2c_GBps > 0;
    replaces_pcie |= c2c;
    node.wires.push_back({.from = fmt::format("gpu{}", i),
                          .to = gpu.parent,
                          .kind = c2c ? NodeWire::C2c : NodeWire::Pcie,
                          .GBps = c2c ? gpu.c2c_GBps : gpu.pcie_GBps});
  }
  if (replaces_pcie) left_out.emplace_back("PCIe between GPUs and CPUs that NVLink-C2C joins");
  for (std::size_t i = 0; i < nics_.size(); ++i) {
    node.nics.push_back(nics_[i].nic);
    node.wires.push_back({.from = fmt::format("nic{}", i),
                          .to = nics_[i].parent,
                          .kind = NodeWire::Pcie,
                          .GBps = nics_[i].pcie_GBps});
  }
  node.wires.insert(node.wires.end(), wires_.begin(), wires_.end());
  take_usual_speeds(&node);
  if (!has_classes_ && gpus_.empty())
    assumed.push_back(
        fmt::format("{}: its {} PCI devices have no class and are taken for network "
                    "devices",
                    source_.path, nics_.size()));
  return node;
}

}  // namespace

bool is_nccl_xml(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n\xef\xbb\xbf");
  return first != std::string_view::npos && text[first] == '<';
}

Status read_nccl_xml(const TopologySource& source, ImportedTopology* topology) {
  ASSIGN_OR_RETURN(const XmlElement root, parse_xml(source.text, source.path));
  if (root.name == "graphs")
    return Error::at(source.at(root.line),
                     "found NCCL's graphs (NCCL_GRAPH_DUMP_FILE), expected its topology "
                     "(NCCL_TOPO_DUMP_FILE): <system>");
  if (root.name != "system")
    return Error::at(source.at(root.line),
                     fmt::format("found <{}>, expected NCCL's <system>", root.name));
  if (root.text("version") == "2")
    return Error::at(source.at(root.line),
                     "found RCCL's topology (version 2), which is not read: give the machine's "
                     "preset with --cluster, such as azure-nd-mi300x or mi355x-roce");
  if (root.text("version") != "1")
    return Error::at(source.at(root.line), fmt::format("found NCCL topology version '{}', "
                                                       "expected 1",
                                                       root.text("version")));
  NcclSystem system(source);
  RETURN_IF_ERROR(system.read(root));
  ASSIGN_OR_RETURN(ImportedNode node, system.node());
  if (topology->node)
    return Error::at(source.path, "found a second file of a node's inside, expected one");
  topology->sources.push_back(fmt::format("{} ({}, {} GPUs, {} network devices)", source.path,
                                          node.kind, node.gpus.size(), node.nics.size()));
  topology->node = std::move(node);
  if (std::string line = system.without_gdr(); !line.empty())
    topology->not_expressed.push_back(std::move(line));
  for (const auto& [from, to] : {std::pair(&system.left_out, &topology->left_out),
                                 std::pair(&system.assumed, &topology->assumed)})
    to->insert(to->end(), from->begin(), from->end());
  return Done{};
}

}  // namespace tandem
