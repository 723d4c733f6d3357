#include "interop/topology/nccl_rates.h"

#include <array>
#include <utility>

namespace tandem {
namespace {

// Rates of one NVLink and the most that a GPU has, for GPUs of compute capability `sm` up to that
// of the row before.
struct NvlinkRate {
  int sm;
  double nccl_GBps, line_GBps;
  int most;
};

constexpr std::array kNvlinks = {NvlinkRate{100, 40.1, 50, 18},  NvlinkRate{90, 20.6, 25, 18},
                                 NvlinkRate{86, 12, 14.0625, 4}, NvlinkRate{80, 20, 25, 12},
                                 NvlinkRate{70, 20, 25, 6},      NvlinkRate{60, 18, 20, 4}};

const NvlinkRate* nvlink_of(int sm) {
  for (const NvlinkRate& rate : kNvlinks) {
    if (sm >= rate.sm) return &rate;
  }
  return nullptr;
}

// NCCL's speed of a PCIe lane by its transfer rate.
struct PcieSpeed {
  std::string_view GTps;
  double lane_100Mbitps;
};

constexpr std::array kPcieSpeeds = {PcieSpeed{"2.5", 15}, PcieSpeed{"5", 30},
                                    PcieSpeed{"8", 60},   PcieSpeed{"16", 120},
                                    PcieSpeed{"32", 240}, PcieSpeed{"64", 480}};
// NCCL's lane speed and number of lanes where the file states no known ones.
constexpr double kOtherSpeed_100Mbitps = 60, kUsualLanes = 16;
constexpr double k100MbitpsPerGBps = 80;

constexpr int kVolta = 70, kAmpere = 80, kHopper = 90, kBlackwell = 100;

// The first GPU of a compute capability is its usual one.
constexpr std::array kGpus = {
    KnownGpu{"10de:1db5", kVolta, "dgx-1", ""},                    // V100 SXM2 32GB
    KnownGpu{"10de:1db1", kVolta, "dgx-1", ""},                    // V100 SXM2 16GB
    KnownGpu{"10de:1db8", kVolta, "dgx-2", ""},                    // V100 SXM3 32GB
    KnownGpu{"10de:20b2", kAmpere, "dgx-a100", "aws-p4de"},        // A100 SXM4 80GB
    KnownGpu{"10de:20b0", kAmpere, "dgx-a100-40gb", "aws-p4d"},    // A100 SXM4 40GB
    KnownGpu{"10de:20b5", kAmpere, "dgx-a100", ""},                // A100 PCIe 80GB
    KnownGpu{"10de:2330", kHopper, "dgx-h100", "aws-p5"},          // H100 SXM5 80GB
    KnownGpu{"10de:2335", kHopper, "dgx-h200", "aws-p5en"},        // H200 SXM 141GB
    KnownGpu{"10de:2324", kHopper, "hgx-h800", ""},                // H800 SXM5 80GB
    KnownGpu{"10de:2329", kHopper, "hgx-h20", ""},                 // H20
    KnownGpu{"10de:2901", kBlackwell, "dgx-b200", "aws-p6-b200"},  // B200
    KnownGpu{"10de:2941", kBlackwell, "gb200-nvl72", ""},          // GB200
    KnownGpu{"10de:3182", kBlackwell + 3, "dgx-b300", ""},         // B300 SXM6
    KnownGpu{"10de:31c2", kBlackwell + 3, "gb300-nvl72", ""}};     // GB300

}  // namespace

double nccl_nvlink_GBps(int sm) {
  const NvlinkRate* rate = nvlink_of(sm);
  return rate == nullptr ? 0 : rate->nccl_GBps;
}

double nvlink_line_GBps(int sm) {
  const NvlinkRate* rate = nvlink_of(sm);
  return rate == nullptr ? 0 : rate->line_GBps;
}

int most_nvlinks(int sm) {
  const NvlinkRate* rate = nvlink_of(sm);
  return rate == nullptr ? kMostNvlinks : rate->most;
}

double pcie_GBps(std::string_view speed, double width) {
  const std::string_view rate = speed.substr(0, speed.find(' '));
  const std::string_view whole = rate.ends_with(".0") ? rate.substr(0, rate.size() - 2) : rate;
  double lane_100Mbitps = kOtherSpeed_100Mbitps;
  for (const PcieSpeed& known : kPcieSpeeds) {
    if (whole == known.GTps) lane_100Mbitps = known.lane_100Mbitps;
  }
  return (width > 0 ? width : kUsualLanes) * lane_100Mbitps / k100MbitpsPerGBps;
}

double pcie_GBps_of(int sm) {
  if (sm >= kHopper) return pcie_GBps("32", 0);
  return pcie_GBps(sm >= kAmpere ? "16" : "8", 0);
}

double socket_GBps(std::string_view arch, std::string_view vendor, double family, double model) {
  // GB/s.
  constexpr double kArm = 6, kPower = 32, kAmd = 16, kBroadwell = 6, kSkylake = 10,
                   kSapphireRapids = 22, kEmeraldRapids = 40;
  // NCCL takes Skylake's for other vendors. Intel's model numbers: 0x55 Skylake, 0x8F Sapphire
  // Rapids, 0xCF Emerald Rapids.
  if (arch == "arm64" || arch == "aarch64") return kArm;
  if (arch == "ppc64") return kPower;
  if (vendor == "AuthenticAMD") return kAmd;
  if (vendor != "GenuineIntel") return kSkylake;
  if (family > 6 || model >= 0xCF) return kEmeraldRapids;
  if (model >= 0x8F) return kSapphireRapids;
  return model >= 0x55 ? kSkylake : kBroadwell;
}

const KnownGpu* known_gpu(std::string_view pci_id) {
  for (const KnownGpu& gpu : kGpus) {
    if (gpu.pci_id == pci_id) return &gpu;
  }
  return nullptr;
}

const KnownGpu* usual_gpu(int sm) {
  for (const KnownGpu& gpu : kGpus) {
    if (gpu.sm == sm) return &gpu;
  }
  return nullptr;
}

int sm_of_device(std::string_view name) {
  constexpr std::array kSeries = {
      std::pair("V100-", kVolta),         std::pair("A100-", kAmpere),
      std::pair("H100-", kHopper),        std::pair("H200-", kHopper),
      std::pair("H800-", kHopper),        std::pair("H20-", kHopper),
      std::pair("B200-", kBlackwell),     std::pair("GB200-", kBlackwell),
      std::pair("B300-", kBlackwell + 3), std::pair("GB300-", kBlackwell + 3)};
  for (const auto& [series, sm] : kSeries) {
    if (name.starts_with(series)) return sm;
  }
  return 0;
}

}  // namespace tandem
