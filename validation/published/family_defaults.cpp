// A table of rules: for runs for which a test holds, a scenario's key gets a value.
// "costs.software" names the constants of a framework.
#include "validation/published/family_defaults.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <variant>

#include "schedule/order/named_orders.h"

namespace tandem {
namespace {

struct FamilyDefault {
  bool (*holds)(const Case& run);
  const char* key;
  std::variant<bool, const char*> value;
};

bool starts(const Case& run, std::string_view family) { return run.family.starts_with(family); }

// Says whether it ran on Megatron-LM of 2021, which could not yet send while it computed.
bool early_megatron(const Case& run) {
  return starts(run, "sc21-table1") || starts(run, "korthikanti") || starts(run, "zero-bubble");
}
bool interleaves(const Case& run) { return traits_of(run.schedule).exchanges == BatchedP2p::Pairs; }
// Says whether it ran before 25 February 2022, when Jean Zay corrected the PCIe and NUMA settings
// of its A100 nodes. All runs then took 1 to 5 % less time (BigScience's throughput log). A row's
// source ends with its date: ", 2022-02-11".
bool before_numa_fix(const Case& run) {
  return run.system == "jz-a100" && run.source.find(", 2022-02-") != std::string::npos &&
         run.source.substr(run.source.size() - 2) < "25";
}
bool is_nemo(const Case& run) { return starts(run, "mlperf-"); }
// Says whether Transformer Engine overlaps its tensor communication with GEMMs (userbuffers).
bool overlaps_tensor(const Case& run) {
  return run.sequence_parallel && run.tp > 1 &&
         (is_nemo(run) || starts(run, "nemo-") || starts(run, "bridge-dense") ||
          starts(run, "mcore-"));
}
bool contains(const Case& run, std::string_view words) {
  return run.source.find(words) != std::string::npos;
}
// Says whether the row itself sets the key, to this text if one is given.
bool sets(const Case& run, std::string_view key, std::string_view text = "") {
  return std::ranges::any_of(run.sets, [&](const auto& set) {
    return set.first == key && (text.empty() || set.second.text() == text);
  });
}
// Says whether it ran a mixture of experts in MXFP8 by Megatron-Bridge of 26.06 or later, with the
// iteration in one CUDA graph. A row's source ends with its release: ", DGX-GB300, 26.06.01".
bool is_whole_graph_of_bridge(const Case& run) {
  return run.source.starts_with("NVIDIA-NeMo/Megatron-Bridge") && run.ep > 1 &&
         run.source.substr(run.source.rfind(' ') + 1) >= "26.06" &&
         sets(run, "train.fp8_recipe", "mxfp8") && sets(run, "train.cuda_graphs", "true") &&
         !sets(run, "train.cuda_graph_scope");
}
// Says whether attention ran in fp8: by the submissions' configurations, and by Megatron-Bridge's
// recipes, of which DeepSeek-V3's on GB200 has it not.
bool has_fp8_attention(const Case& run) {
  if (contains(run, "MLPerf Training v6.0")) return starts(run, "v60-dsv3");
  if (contains(run, "MLPerf Training v5.1"))
    return starts(run, "v51-llama8b") &&
           (run.precision == "nvfp4" || contains(run, "hpg.dgxb200x8.n1"));
  return is_whole_graph_of_bridge(run) &&
         !(starts(run, "bridge-dsv3") && run.system.starts_with("gb200"));
}
bool is_profiled(const Case& run) { return run.forward_s.has_value(); }

constexpr FamilyDefault kDefaults[] = {
    // Source: arXiv 2104.04473, section 4.1, and the rows' notes. Scatter/gather became
    // Megatron-LM's default a year later.
    {[](const Case& run) { return starts(run, "sc21-table1") || starts(run, "korthikanti"); },
     "parallel.scatter_gather", true},
    {[](const Case& run) { return early_megatron(run) && interleaves(run); }, "overlap.p2p", false},
    // DeepSpeed gathers the parameters of the next layers ahead.
    {[](const Case& run) { return run.zero_stage == 3; }, "overlap.param_gather", true},
    {[](const Case& run) { return starts(run, "sc21-table2-zero3"); }, "costs.software",
     "deepspeed-zero3-a100"},
    {[](const Case& run) { return starts(run, "vtrain-"); }, "costs.software", "deepspeed-a100"},
    {[](const Case& run) { return run.system == "jz-a100"; }, "costs.software", "bigscience-a100"},
    {before_numa_fix, "costs.software", "bigscience-a100-2202"},
    {[](const Case& run) { return run.system == "jz-v100"; }, "costs.software", "bigscience-v100"},
    // The transfers of these runs block, and their profiler saw no gaps between ops.
    {[](const Case& run) { return starts(run, "zero-bubble") && is_profiled(run); },
     "costs.software", "profiled-a100"},
    {overlaps_tensor, "overlap.tensor", "ring"},
    {[](const Case& run) { return is_nemo(run) && run.cp > 1; }, "overlap.context", true},
    // Megatron Bridge's recipes for mixtures of experts overlap the exchange with the other
    // direction's compute on H100, and use CUDA graphs on GB200.
    {[](const Case& run) { return starts(run, "bridge-moe") && run.vpp > 1 && run.tp > 1; },
     "overlap.expert", true},
    {[](const Case& run) { return starts(run, "bridge-moe") && run.system.starts_with("gb"); },
     "train.cuda_graphs", true},
    {[](const Case& run) { return starts(run, "bridge-moe") && run.system.starts_with("gb"); },
     "parallel.dispatcher", "hybridep"},
    // Source: Megatron-Bridge's performance recipes (perf_recipes/*/common.py) for DeepSeek-V3,
    // Qwen3 and GPT-OSS.
    {is_whole_graph_of_bridge, "overlap.expert", true},
    {is_whole_graph_of_bridge, "overlap.delay_wgrad", true},
    {has_fp8_attention, "train.fp8_attention", true},
    // Source: torchtitan's README names H100s with 96 GB of HBM2e, limited to 500 W.
    {[](const Case& run) { return starts(run, "torchtitan") && run.system == "dgx-h100"; },
     "cluster.gpu", "h100-500w"},
    {[](const Case& run) { return starts(run, "mpt-a100"); }, "costs.software", "fsdp-a100"},
    {[](const Case& run) { return starts(run, "mpt-h100"); }, "costs.software", "fsdp-h100"},
    {[](const Case& run) { return starts(run, "torchtitan"); }, "costs.software",
     "torchtitan-h100"},
    {is_nemo, "train.flash_attention", true},
    {is_nemo, "train.gradient_dtype", "bf16"},
    {is_nemo, "overlap.grad_reduce", true},
    {is_nemo, "overlap.param_gather", true},
    {[](const Case& run) { return is_nemo(run) && run.source.find("v3.0") != std::string::npos; },
     "costs.software", "nemo-2304-h100"},
    {[](const Case& run) {
       return starts(run, "nemo-longseq") && run.source.find("24.0") != std::string::npos;
     },
     "costs.software", "nemo-2403-h100"}};

}  // namespace

std::vector<std::pair<const char*, KeyValue>> family_defaults(const Case& run) {
  std::vector<std::pair<const char*, KeyValue>> found;
  for (const FamilyDefault& one : kDefaults) {
    if (!one.holds(run)) continue;
    if (const auto* word = std::get_if<const char*>(&one.value)) {
      found.emplace_back(one.key, std::string(*word));
    } else {
      found.emplace_back(one.key, std::get<bool>(one.value));
    }
  }
  return found;
}

}  // namespace tandem
