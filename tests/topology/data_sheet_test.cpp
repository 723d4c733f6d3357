// The presets against data sheets: what a GPU's peaks, memory and links follow from, so that a
// number that is wrong by a factor (sparse for dense, both directions for one) is found.
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "base/units.h"
#include "topology/cluster.h"
#include "topology/preset.h"

namespace tandem {
namespace {

DeviceSpec device(const std::string& name) {
  auto loaded = load_device(name);
  INFO((loaded.ok() ? "" : loaded.error().text()));
  REQUIRE(loaded.ok());
  return std::move(loaded).value();
}

ClusterSpec preset(const std::string& name) {
  auto loaded = load_preset(name);
  INFO((loaded.ok() ? "" : loaded.error().text()));
  REQUIRE(loaded.ok());
  return std::move(loaded).value();
}

// What a chip is made of, by its maker's white papers; `tensor` and `fp32` are the FLOPs of an SM
// (of AMD a compute unit) in a clock, dense, in 16 and in 32 bits.
struct Chip {
  double tensor;
  double fp32;
  double boost_MHz;
  int stacks;         // of memory
  double stack_GiB;   // of which some are not shown
  double pin_Gbitps;  // of each of its bits
  int bits = 1024;    // of a stack; 32 of a chip of GDDR
};

const std::map<std::string, Chip> kChips = {{"v100-32gb", {1024, 128, 1530, 4, 8, 1.75}},
                                            {"a100-40gb", {2048, 128, 1410, 5, 8, 2.43}},
                                            {"a100-80gb", {2048, 128, 1410, 5, 16, 3.186}},
                                            {"h100-80gb", {4096, 256, 1980, 5, 16, 5.24}},
                                            {"h100-96gb", {4096, 256, 1980, 6, 16, 5.2}},
                                            {"h100-500w", {4096, 256, 1980, 6, 16, 3.125}},
                                            {"h100-nvl-94gb", {4096, 256, 1785, 6, 16, 5.1}},
                                            {"h800-80gb", {4096, 256, 1980, 5, 16, 5.24}},
                                            // A quarter of a Hopper's tensor cores' rate.
                                            {"h20-96gb", {1024, 256, 1980, 6, 16, 5.2}},
                                            {"h200-141gb", {4096, 256, 1980, 6, 24, 6.25}},
                                            {"b200-180gb", {8192, 256, 1965, 8, 24, 8}},
                                            {"gb200-186gb", {8192, 256, 2062, 8, 24, 8}},
                                            {"b300-288gb", {8192, 256, 1965, 8, 36, 8}},
                                            {"gb300-288gb", {8192, 256, 2062, 8, 36, 8}},
                                            {"mi300x-192gb", {2048, 256, 2100, 8, 24, 5.2}},
                                            {"mi325x-256gb", {2048, 256, 2100, 8, 32, 6}},
                                            {"mi350x-288gb", {4096, 256, 2200, 8, 36, 8}},
                                            {"mi355x-288gb", {4096, 256, 2400, 8, 36, 8}}};

TEST_CASE("a GPU's peaks are its SMs times what one does in a clock, at about its boost clock") {
  for (const auto& [name, chip] : kChips) {
    INFO(name);
    const DeviceSpec spec = device(name);
    const double fp16_MHz = spec.flops_per_s.at("fp16") / (spec.sms * chip.tensor) / 1e6;
    const double fp32_MHz = spec.flops_per_s.at("fp32") / (spec.sms * chip.fp32) / 1e6;
    // NVIDIA states tensor cores at a clock of their own, 1830 of an H100's 1980 MHz.
    CHECK(fp16_MHz / chip.boost_MHz > 0.86);
    CHECK(fp16_MHz / chip.boost_MHz < 1.01);
    CHECK(fp32_MHz / chip.boost_MHz > 0.98);
    // The H20's stated 44 TFLOP/s would need 2203 MHz.
    CHECK(fp32_MHz / chip.boost_MHz < (name == "h20-96gb" ? 1.12 : 1.01));
  }
}

TEST_CASE("a GPU's memory is its stacks': all of it at most, and their pins' rate") {
  for (const auto& [name, chip] : kChips) {
    INFO(name);
    const DeviceSpec spec = device(name);
    const double shown = spec.memory_bytes / (chip.stacks * chip.stack_GiB * GiB);
    CHECK(shown <= 1);
    CHECK(shown > 0.92);  // a B200 shows 178 of 192 GiB
    CHECK(spec.memory_bytes_per_s ==
          Approx(chip.stacks * chip.bits / 8.0 * chip.pin_Gbitps * 1e9).epsilon(0.03));
  }
}

TEST_CASE("8 bits are twice as fast as 16, and 4 bits twice as 8, on Blackwell Ultra three times") {
  const std::map<std::string, double> four_over_eight = {
      {"b200-180gb", 2}, {"gb200-186gb", 2}, {"b300-288gb", 3}, {"gb300-288gb", 3}};
  for (const auto& [name, chip] : kChips) {
    INFO(name);
    const DeviceSpec spec = device(name);
    const auto& peaks = spec.flops_per_s;
    const bool ampere = name.starts_with("a100");
    const bool volta = name.starts_with("v100");
    CHECK(peaks.contains("bf16") == !volta);
    CHECK(peaks.contains("fp8") == (!volta && !ampere));
    if (!volta) CHECK(peaks.at("bf16") == peaks.at("fp16"));
    if (peaks.contains("fp8")) CHECK(peaks.at("fp8") == Approx(2 * peaks.at("fp16")).epsilon(1e-3));
    if (peaks.contains("mxfp8")) CHECK(peaks.at("mxfp8") == peaks.at("fp8"));
    if (peaks.contains("mxfp4"))
      CHECK(peaks.at("mxfp4") == Approx(2 * peaks.at("fp8")).epsilon(1e-3));
    const auto factor = four_over_eight.find(name);
    CHECK(peaks.contains("nvfp4") == (factor != four_over_eight.end()));
    if (factor != four_over_eight.end())
      CHECK(peaks.at("nvfp4") == factor->second * peaks.at("fp8"));
  }
}

TEST_CASE("every GPU that is known is in the table of chips, and no other") {
  std::set<std::string> known;
  for (const std::string& name : device_names()) known.insert(name);
  CHECK(known.erase("host-core") == 1);  // a core of this machine
  std::set<std::string> chips;
  for (const auto& [name, chip] : kChips) chips.insert(name);
  CHECK(known == chips);
}

TEST_CASE("an H800 is an H100 but for its NVLinks, 8 for 18") {
  const DeviceSpec h100 = device("h100-80gb");
  const DeviceSpec h800 = device("h800-80gb");
  CHECK(h800.flops_per_s == h100.flops_per_s);
  CHECK(h800.memory_bytes == h100.memory_bytes);
  CHECK(h800.memory_bytes_per_s == h100.memory_bytes_per_s);
  CHECK(h800.sms == h100.sms);
  CHECK(h800.gemm_efficiency == h100.gemm_efficiency);
  // In fp8 what DeepGEMM timed, with a scale for 128 numbers, and not Transformer Engine's.
  CHECK(h800.own_gemms.at("fp8").efficiency < h100.own_gemms.at("fp8").efficiency);
  CHECK(h800.attention_efficiency == h100.attention_efficiency);
  const ClusterSpec dgx = preset("dgx-h100");
  const ClusterSpec hgx = preset("hgx-h800");
  CHECK(hgx.intra_bytes_per_s / dgx.intra_bytes_per_s == Approx(8.0 / 18));
  CHECK(hgx.intra_efficiency == dgx.intra_efficiency);
  CHECK(hgx.nic_bytes_per_s == dgx.nic_bytes_per_s);
}

TEST_CASE("what a GPU reaches of its peaks is its relative's, where nobody measured it") {
  const std::pair<const char*, const char*> relatives[] = {{"a100-40gb", "a100-80gb"},
                                                           {"h100-96gb", "h100-80gb"},
                                                           {"h100-nvl-94gb", "h100-80gb"},
                                                           {"h20-96gb", "h100-80gb"}};
  for (const auto& [name, relative] : relatives) {
    INFO(name << " as " << relative);
    const DeviceSpec a = device(name);
    const DeviceSpec b = device(relative);
    CHECK(a.gemm_efficiency == b.gemm_efficiency);
    CHECK(a.own_gemms == b.own_gemms);
    CHECK(a.attention_efficiency == b.attention_efficiency);
    CHECK(a.training_clock == b.training_clock);
    CHECK(a.profile == b.profile);
  }
  // What training leaves of a GEMM that runs alone, no run in 16 bits tells but a B200's.
  for (const char* blackwell : {"b300-288gb", "gb200-186gb", "gb300-288gb"})
    CHECK(device(blackwell).training_clock == device("b200-180gb").training_clock);
  // AMD's best GEMMs in TFLOP/s (mamf.csv), of which training gets what it gets of an MI325X's; all
  // else in proportion to an H100.
  const DeviceSpec h100 = device("h100-80gb");
  for (const auto& [name, best] :
       {std::pair{"mi300x-192gb", 668.4}, {"mi325x-256gb", 784.9}, {"mi355x-288gb", 1565.0}}) {
    INFO(name);
    const DeviceSpec spec = device(name);
    CHECK(spec.gemm_efficiency == Approx(best * 1e12 / spec.flops_per_s.at("bf16")).epsilon(0.02));
    CHECK(spec.training_clock == device("mi325x-256gb").training_clock);
    const double of_h100 = spec.gemm_efficiency / h100.gemm_efficiency;
    CHECK(spec.attention_efficiency == Approx(h100.attention_efficiency * of_h100).epsilon(0.02));
    CHECK(spec.profile == "primus");
  }
}

TEST_CASE("headline numbers: a GPU's links in both directions, a node's adapters in one") {
  const struct {
    const char* name;
    const char* gpu;
    int gpus;
    double both_GBps;    // the data sheet's number: links x rate of both directions
    double node_Gbitps;  // the sum of the node's adapters
  } nodes[] = {{"dgx-a100-40gb", "A100-SXM4-40GB", 8, 12 * 50, 8 * 200},
               {"aws-p4d", "A100-SXM4-40GB", 8, 12 * 50, 4 * 100},
               {"azure-nd-h100", "H100-SXM5-80GB", 8, 18 * 50, 8 * 400},
               {"h100-roce", "H100-SXM5-80GB", 8, 18 * 50, 8 * 400},
               {"hgx-h800", "H800-SXM5-80GB", 8, 8 * 50, 8 * 400},
               {"hgx-h20", "H20-96GB", 8, 18 * 50, 8 * 400},
               {"aws-p5en", "H200-SXM5-141GB", 8, 18 * 50, 16 * 200},
               {"dgx-b200", "B200-180GB", 8, 18 * 100, 8 * 400},
               {"dgx-b300", "B300-288GB", 8, 18 * 100, 8 * 800},
               // A rack is one NVLink domain of 18 trays of 4 GPUs.
               {"gb200-nvl72", "GB200-186GB", 18 * 4, 18 * 100, 18 * 4 * 400},
               {"gb300-nvl72", "GB300-288GB", 18 * 4, 18 * 100, 18 * 4 * 800},
               // A link to each of the seven others.
               {"azure-nd-mi300x", "MI300X-192GB", 8, 128, 8 * 400},
               {"mi325x-roce", "MI325X-256GB", 8, 128, 8 * 400},
               {"mi350x-roce", "MI350X-288GB", 8, 153.6, 8 * 400},
               {"mi355x-roce", "MI355X-288GB", 8, 153.6, 8 * 400}};
  for (const auto& node : nodes) {
    INFO(node.name);
    const ClusterSpec spec = preset(node.name);
    CHECK(spec.device.name == node.gpu);
    CHECK(spec.gpus_per_node == node.gpus);
    CHECK(2 * spec.intra_bytes_per_s == Approx(node.both_GBps * GB));
    CHECK(spec.nics_per_node * spec.nic_bytes_per_s == Approx(node.node_Gbitps * Gbit));
  }
}

TEST_CASE("what is like another node differs from it in what its name says alone") {
  const std::pair<const char*, const char*> alike[] = {{"dgx-a100-40gb", "dgx-a100"},
                                                       {"aws-p4d", "aws-p4de"},
                                                       {"azure-nd-h100", "dgx-h100"},
                                                       {"h100-roce", "dgx-h100"},
                                                       {"hgx-h800", "dgx-h100"},
                                                       {"hgx-h20", "dgx-h100"},
                                                       {"aws-p5", "dgx-h100"},
                                                       {"aws-p5en", "dgx-h200"},
                                                       {"mi355x-roce", "azure-nd-mi300x"},
                                                       {"mi325x-roce", "azure-nd-mi300x"},
                                                       {"mi350x-roce", "mi355x-roce"}};
  for (const auto& [name, other] : alike) {
    INFO(name << " as " << other);
    const ClusterSpec a = preset(name);
    const ClusterSpec b = preset(other);
    CHECK(a.intra_efficiency == b.intra_efficiency);
    CHECK(a.intra_latency_s == b.intra_latency_s);
    CHECK(a.intra_base_s == b.intra_base_s);
    CHECK(a.intra_low_latency.latency == b.intra_low_latency.latency);
    CHECK(a.intra_low_latency.rate == b.intra_low_latency.rate);
    CHECK(a.nvls == b.nvls);
    CHECK(a.nvls_efficiency == b.nvls_efficiency);
    CHECK(a.gather_efficiency == b.gather_efficiency);
    CHECK(a.alltoall_efficiency == b.alltoall_efficiency);
    CHECK(a.pair_efficiency == b.pair_efficiency);
    CHECK(a.ring_fill_steps == b.ring_fill_steps);
    if (std::string(name).starts_with("aws-")) continue;  // EFA has tables of its own
    CHECK(a.inter_efficiency == b.inter_efficiency);
    CHECK(a.inter_latency_s == b.inter_latency_s);
    CHECK(a.inter_base_s == b.inter_base_s);
    CHECK(a.inter_low_latency.latency == b.inter_low_latency.latency);
    CHECK(a.inter_low_latency.rate == b.inter_low_latency.rate);
    CHECK(a.trees == b.trees);
  }
}

TEST_CASE("what Blackwell's nodes do between nodes is one table's, aws-p6-b200's") {
  for (const char* name : {"dgx-b300", "gb200-nvl72", "gb300-nvl72"}) {
    INFO(name);
    const ClusterSpec a = preset(name);
    const ClusterSpec b = preset("dgx-b200");
    CHECK(a.intra_efficiency == b.intra_efficiency);
    CHECK(a.nvls == b.nvls);
    CHECK(a.nvls_efficiency == b.nvls_efficiency);
    CHECK(a.ring_fill_steps == b.ring_fill_steps);
    CHECK(a.inter_efficiency == b.inter_efficiency);
    CHECK(a.inter_latency_s == b.inter_latency_s);
    CHECK(a.inter_base_s == b.inter_base_s);
    CHECK(a.inter_low_latency.latency == b.inter_low_latency.latency);
    CHECK(a.inter_low_latency.rate == b.inter_low_latency.rate);
    CHECK(a.trees == b.trees);
  }
}

TEST_CASE("RoCE as Meta has it: pods of 3072 GPUs, 7 to 1 between them") {
  const ClusterSpec spec = preset("h100-roce");
  CHECK(spec.fabric.kind == Fabric::FatTree);
  CHECK(spec.fabric.nodes_per_leaf * spec.gpus_per_node == 3072);
  CHECK(spec.fabric.oversubscription == 7);
  // Whoever talks to another pod passes the spine.
  const auto hops = [](const char* name, int gpus) {
    const auto cluster = Cluster::build(preset(name), gpus);
    REQUIRE(cluster.ok());
    return cluster->route(DeviceId{0}, DeviceId{gpus - 1}).size();
  };
  CHECK(hops("h100-roce", 3080) == hops("h100-roce", 3072) + 2);
  CHECK(hops("dgx-h100", 3080) == hops("dgx-h100", 3072));
}

}  // namespace
}  // namespace tandem
