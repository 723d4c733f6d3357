#include "planning/size/buildable.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/units.h"
#include "planning/size/network_bill.h"

namespace tandem {
namespace {

// The limits that a GPU's hosts and boards set. With a `tray`, nodes of whole trays up to
// kMostInTrays GPUs count as sold: they are a rack or a part of one.
struct HostLimits {
  std::string_view gpu;  // how the device's name begins
  int pcie = 0;          // PCIe generation of the 16 lanes to a NIC; 0: there is no PCIe
  std::string_view pcie_source;
  std::array<int, 5> gpus_of_a_node = {};  // the numbers that are sold; 0: unused element
  int tray = 0;                            // GPUs of a tray; 0: not sold in trays
  std::string_view gpus_source;
};

constexpr int kMostInTrays = 72;
constexpr std::string_view kCards = "PCIe cards, pairs with NVLink bridges, HGX of 4, 8";
constexpr std::string_view kPcie5 = "Xeon of the 4th generation, EPYC 9004, Grace";

// The first row that fits counts.
constexpr HostLimits kHostLimits[] = {
    {"V100", 3, "Xeon of DGX-1 and 2", {1, 2, 4, 8, 16}, 0, "PCIe cards, boards of 4, DGX-1, 2"},
    {"A100", 4, "EPYC 7742 of DGX A100", {1, 2, 4, 8, 16}, 0, "PCIe cards, HGX A100 of 4, 8, 16"},
    {"H100-GH200", 5, kPcie5, {1, 2, 4, 32}, 0, "NVIDIA GH200, NVL2, NVL32; HPE Cray EX254n"},
    {"H100", 5, kPcie5, {1, 2, 4, 8}, 0, kCards},
    {"H200", 5, kPcie5, {1, 2, 4, 8}, 0, kCards},
    {"H800", 5, kPcie5, {1, 2, 4, 8}, 0, kCards},
    {"H20", 5, kPcie5, {1, 2, 4, 8}, 0, kCards},
    {"B200", 5, kPcie5, {8}, 0, "NVIDIA HGX B200"},
    {"B300", 6, "ConnectX-8 on the board of HGX B300", {8}, 0, "NVIDIA HGX B300"},
    {"GB200", 5, "ConnectX-7 at Grace", {2}, 4, "NVIDIA GB200 NVL2, NVL4, NVL36, NVL72"},
    {"GB300", 6, "ConnectX-8 at the GPU", {}, 4, "NVIDIA GB300 NVL72"},
    {"MI300X", 5, kPcie5, {8}, 0, "AMD Instinct MI300X platform"},
    {"MI325X", 5, kPcie5, {8}, 0, "AMD Instinct MI325X platform"},
    {"MI350X", 5, kPcie5, {8}, 0, "AMD Instinct MI350X platform"},
    {"MI355X", 5, kPcie5, {8}, 0, "AMD Instinct MI355X platform"},
    {"host-core", 0, "no PCIe between namespaces", {2}, 0, "shaped-dgx, shaped-jz"}};

// Returns the payload rate of 16 lanes in one direction: 8 GT/s a lane in generation 3, twice as
// much in each later one. Of 130 bits 128 are payload (PCI Express 3.0 to 5.0), of 256 bytes 236
// (6.0).
double slot_Gbit_per_s(int pcie) {
  return 16 * 8 * (1 << (pcie - 3)) * (pcie < 6 ? 128.0 / 130 : 236.0 / 256);
}

void check_slot(const HostLimits& limits, double nic_Gbit_per_s, std::vector<std::string>* lines) {
  if (limits.pcie == 0 || nic_Gbit_per_s <= slot_Gbit_per_s(limits.pcie)) return;
  lines->push_back(fmt::format(
      "a NIC of {:g} Gbit/s is faster than its slot beside a {}: 16 lanes of PCIe {} carry {:.0f} "
      "Gbit/s ({})",
      nic_Gbit_per_s, limits.gpu, limits.pcie, slot_Gbit_per_s(limits.pcie), limits.pcie_source));
}

void check_node(const HostLimits& limits, int gpus, std::vector<std::string>* lines) {
  if (limits.tray > 0 && gpus % limits.tray == 0 && gpus <= kMostInTrays) return;
  std::vector<std::string> sold;
  for (const int n : limits.gpus_of_a_node) {
    if (n == gpus) return;
    if (n > 0) sold.push_back(fmt::to_string(n));
  }
  if (limits.tray > 0)
    sold.push_back(fmt::format("multiples of {} up to {}", limits.tray, kMostInTrays));
  lines->push_back(
      fmt::format("nodes of {} {} joined by NVLink or the like are not sold, those of {} "
                  "are ({})",
                  gpus, limits.gpu, fmt::join(sold, ", "), limits.gpus_source));
}

}  // namespace

std::vector<std::string> build_warnings(const ClusterSpec& spec, int nodes) {
  std::vector<std::string> lines;
  const auto* limits =
      std::find_if(std::begin(kHostLimits), std::end(kHostLimits), [&](const HostLimits& row) {
        return std::string_view(spec.device.name).starts_with(row.gpu);
      });
  if (limits == std::end(kHostLimits)) {
    lines.push_back(
        fmt::format("slots and NVLink domains of a {} are not known here: they were not "
                    "looked at",
                    spec.device.name));
  } else {
    check_slot(*limits, spec.nic_bytes_per_s / Gbit, &lines);
    check_node(*limits, spec.gpus_per_node, &lines);
  }
  if (spec.cables != nullptr) return lines;
  if (const auto bill = network_bill(spec, nodes); !bill.ok())
    lines.push_back("the fabric cannot be built: " + bill.error().message);
  return lines;
}

}  // namespace tandem
