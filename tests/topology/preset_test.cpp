// The presets: all load, their numbers have sources, and what is wrong with one is said.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>

#include "base/data_dir.h"
#include "tests/folder.h"
#include "tests/topology/built_cluster.h"
#include "tests/variable.h"
#include "topology/cluster.h"
#include "topology/gpu_names.h"
#include "topology/preset.h"
#include "topology/traffic.h"

namespace tandem {
namespace {

constexpr CommKind kCollectives[] = {CommKind::AllReduce, CommKind::ReduceScatter,
                                     CommKind::AllGather, CommKind::AllToAll};

TEST_CASE("GPUs that were measured on are compared with the simulated one by their model") {
  const std::string h100 = "H100-SXM5-80GB";
  CHECK(gpu_notes({"NVIDIA H100 80GB HBM3"}, h100).empty());
  CHECK(gpu_notes({"Tesla V100-SXM2-32GB"}, "V100-32GB").empty());
  CHECK(gpu_notes({"NVIDIA GH200 120GB"}, "H100-GH200-96GB").empty());
  CHECK(gpu_notes({"AMD Instinct MI300X"}, "MI300X-192GB").empty());
  // A name without a model is not known: memory, form and version are none.
  for (const char* unknown : {"GPU", "AMD Radeon Graphics", "80GB HBM3 SXM5"})
    CHECK(gpu_notes({unknown}, h100).empty());
  CHECK(gpu_notes({"NVIDIA A100-SXM4-80GB"}, "host-core").empty());
  CHECK(gpu_notes({"NVIDIA A100-SXM4-80GB"}, "").empty());
  CHECK(gpu_notes({"NVIDIA A100-SXM4-80GB"}, h100) ==
        std::vector<std::string>{"Measured on NVIDIA A100-SXM4-80GB, where the simulated GPU is "
                                 "H100-SXM5-80GB: they differ."});
  CHECK(gpu_notes({"NVIDIA GB200"}, "B200-180GB").size() == 1);
  CHECK(gpu_notes({"AMD Instinct MI325X"}, "MI300X-192GB").size() == 1);
  CHECK(gpu_notes({"NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3"}, "") ==
        std::vector<std::string>{"Ranks are on different GPUs, and means over them are of none: "
                                 "NVIDIA A100-SXM4-80GB, NVIDIA H100 80GB HBM3."});
  CHECK(gpu_notes({"NVIDIA H100 80GB HBM3 MIG 1g.10gb"}, h100) ==
        std::vector<std::string>{"Measured on slices of a GPU (MIG), not on whole ones: NVIDIA "
                                 "H100 80GB HBM3 MIG 1g.10gb."});
}

TEST_CASE("every preset loads, builds and has a source for each number") {
  const auto known = preset_names();
  CHECK(known.size() >= 30);
  for (const std::string& name : known) {
    INFO(name);
    const auto spec = load_preset(name);
    INFO((spec ? "" : spec.error().text()));
    REQUIRE(spec.ok());
    CHECK(spec->name == name);
    CHECK(spec->device.memory_bytes > 0);
    CHECK(spec->device.sms > 0);
    CHECK(spec->device.flops_per_s.contains("fp16"));
    const Cluster cluster = build(*spec, 4 * spec->gpus_per_node);
    CHECK(cluster.nodes() == 4);

    const auto sources = preset_sources(name);
    REQUIRE(sources.ok());
    for (const auto& [key, source] : *sources) {
      INFO(key);
      CHECK(source.size() >= 8);
    }
    // Every line of the file with a number on it has its entry (the GPU's are apart).
    std::ifstream file(data_dir() + "/topology/presets/" + name + ".toml");
    int numbers = 0;
    for (std::string line; std::getline(file, line);)
      numbers += line.find(" = {value = ") != line.npos;
    CHECK(numbers >= 9);
    CHECK(std::count_if(sources->begin(), sources->end(), [](const auto& entry) {
            return entry.first.find('.') == std::string::npos;
          }) == numbers);
  }
}

TEST_CASE("data sheets: an A100 has 79.3 GiB and 312 TFLOP/s, a node's NICs have the stated sum") {
  const auto a100 = load_device("a100-80gb");
  REQUIRE(a100.ok());
  CHECK(a100->memory_bytes == 79.3 * GiB);
  CHECK(a100->flops_per_s.at("bf16") == 312e12);
  const std::pair<const char*, double> node_Gbitps[] = {
      {"dgx-2", 800},       {"jz-v100", 400},   {"selene", 1600},
      {"dgx2-style", 800},  {"jz-style", 400},  {"jz-a100", 400},
      {"vtrain-a100", 800}, {"dgx-h100", 3200}, {"gb200-nvl72", 28800}};
  for (const auto& [name, expected] : node_Gbitps) {
    INFO(name);
    const auto spec = load_preset(name);
    REQUIRE(spec.ok());
    CHECK(spec->nics_per_node * spec->nic_bytes_per_s == Approx(expected * Gbit));
  }
}

TEST_CASE("Hopper and Blackwell come with 8 and 16 bits, each GPU with its own efficiencies") {
  for (const char* name : {"dgx-h100", "dgx-h200", "gb200-nvl72"}) {
    INFO(name);
    const auto spec = load_preset(name);
    REQUIRE(spec.ok());
    const auto& peaks = spec->device.flops_per_s;
    CHECK(peaks.at("fp16") == peaks.at("bf16"));
    CHECK(peaks.at("fp8") == Approx(2 * peaks.at("bf16")).epsilon(1e-3));
    CHECK(spec->device.sms >= 132);
    CHECK(spec->device.memory_bytes > 79 * GiB);
    CHECK(spec->device.memory_bytes_per_s >= 3.35e12);
  }
  const auto h100 = load_device("h100-80gb");
  const auto a100 = load_device("a100-80gb");
  REQUIRE(h100.ok());
  REQUIRE(a100.ok());
  // Alone an A100 gets nearer its peak than an H100, whose power holds it back, and so it is in
  // training: 0.78 of the peak in long GEMMs where an H100 has 0.63.
  CHECK(h100->gemm_efficiency < a100->gemm_efficiency);
  CHECK(h100->training_clock < a100->training_clock);
  CHECK(a100->gemm_efficiency * a100->training_clock ==
        Approx(DeviceSpec{}.gemm_efficiency).epsilon(0.05));
  CHECK(h100->own_gemms.size() == 1);
  CHECK(h100->own_gemms.contains("fp8"));
  CHECK(a100->own_gemms.empty());
  // The fewer bits, the less power: training keeps more of the rate of a kernel alone.
  const auto b200 = load_device("b200-180gb");
  REQUIRE(b200.ok());
  CHECK(b200->training_clock < b200->own_gemms.at("fp8").training_clock);
  CHECK(b200->own_gemms.at("fp8").training_clock < b200->own_gemms.at("nvfp4").training_clock);
}

TEST_CASE("jz-style differs from dgx2-style in links alone and is never faster") {
  const auto jz = load_preset("jz-style");
  const auto dgx = load_preset("dgx2-style");
  REQUIRE(jz.ok());
  REQUIRE(dgx.ok());
  CHECK(jz->device.name == dgx->device.name);
  CHECK(jz->intra_efficiency == dgx->intra_efficiency);
  CHECK(jz->inter_efficiency == dgx->inter_efficiency);
  CHECK(jz->ring_efficiency == dgx->ring_efficiency);
  const Cluster slow = build(*jz, 64);
  const Cluster fast = build(*dgx, 64);
  for (int count = 2; count <= 64; count += count < 16 ? 1 : 7) {
    for (int stride = 1; stride * (count - 1) < 64; ++stride) {
      const auto group = devices(count, 0, stride);
      for (const Bytes bytes : {Bytes{0}, Bytes{1}, Bytes{1} << 20, Bytes{1} << 30}) {
        for (const CommKind kind : kCollectives) {
          REQUIRE(collective_ns(slow, kind, bytes, group) >=
                  collective_ns(fast, kind, bytes, group));
        }
        REQUIRE(transfer_ns(slow, bytes, group.front(), group.back()) >=
                transfer_ns(fast, bytes, group.front(), group.back()));
      }
    }
  }
  std::vector<std::vector<DeviceId>> sends;
  for (int i = 0; i < 8; ++i) sends.push_back({DeviceId{i}, DeviceId{8 + i}});
  CHECK(lockstep_traffic(slow, CommKind::SendRecv, sends).seconds_per_byte ==
        Approx(2 * lockstep_traffic(fast, CommKind::SendRecv, sends).seconds_per_byte));
}

TEST_CASE("an unknown preset or device names the nearest known one") {
  const auto preset = load_preset("selen");
  REQUIRE(!preset.ok());
  CHECK(preset.error().text().find("found preset 'selen'") != std::string::npos);
  CHECK(preset.error().text().find("nearest is 'selene'") != std::string::npos);
  const auto device = load_device("a100-80");
  REQUIRE(!device.ok());
  CHECK(device.error().text().find("nearest is 'a100-80gb'") != std::string::npos);
  CHECK(!load_preset("../presets/selene").ok());
}

// The error of a preset of one's own, in a folder of data with nothing else in it, less the folder.
std::string own_preset_error(const std::string& text) {
  const Folder folder;
  std::filesystem::create_directories(folder / "topology/presets");
  std::filesystem::copy(data_dir() + "/topology/presets/devices",
                        folder / "topology/presets/devices");
  folder.with("topology/presets/own.toml", text);
  const Variable data("TANDEM_DATA_DIR", folder.path().string());
  const auto spec = load_preset("own");
  return spec ? "" : spec.error().text().substr(folder.path().string().size());
}

const char* const kOwn =
    "device = 'a100-80gb'\n"
    "gpus_per_node = {value = 8, source = 'here'}\n"
    "intra_GBps = {value = 300, source = 'here'}\n"
    "intra_efficiency = {value = 1, source = 'here'}\n"
    "intra_latency_us = {value = 1, source = 'here'}\n"
    "nics_per_node = {value = 8, source = 'here'}\n"
    "nic_Gbitps = {value = 100, source = 'here'}\n"
    "inter_efficiency = {value = 1, source = 'here'}\n"
    "inter_latency_us = {value = 5, source = 'here'}\n";

TEST_CASE("a preset of one's own loads from TANDEM_DATA_DIR, a wrong one says file and line") {
  const std::string own = kOwn;
  CHECK(own_preset_error(own + "fabric = {value = 'star', source = 'here'}\n").empty());
  CHECK(own_preset_error(own + "fabric = {value = 'stra', source = 'here'}\n") ==
        "/topology/presets/own.toml:10: found a wrong 'fabric', expected one of fat-tree "
        "rail-optimised star");
  CHECK(own_preset_error(own + "fabric = {value = 'star', source = 'here'}\nnic_Gbps = 3\n") ==
        "/topology/presets/own.toml:11: found key 'nic_Gbps', expected a known key; the nearest is "
        "'nic_Gbitps'");
  CHECK(own_preset_error(own) ==
        "/topology/presets/own.toml:1: found no 'fabric', expected {value = ..., source = \"where "
        "it comes from\"}");
  CHECK(
      own_preset_error("device = 'a100-80gb'\ngpus_per_node = 8\n") ==
      "/topology/presets/own.toml:2: found a wrong 'gpus_per_node', expected {value = ..., source "
      "= \"where it comes from\"}");
  CHECK(own_preset_error(own + "collectives = {value = 'auto', source = 'here'}\n"
                               "in_network_reduction = {value = true, source = 'here'}\n"
                               "fabric = {value = 'star', source = 'here'}\n")
            .empty());
  CHECK(own_preset_error(own + "collectives = {value = 'tree', source = 'here'}\n") ==
        "/topology/presets/own.toml:10: found a wrong 'collectives', expected one of auto "
        "hierarchical ring");
  CHECK(own_preset_error("device = \n").starts_with("/topology/presets/own.toml:1: "));
}

}  // namespace
}  // namespace tandem
