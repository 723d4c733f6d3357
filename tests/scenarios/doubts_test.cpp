// What can be played, but hardly means what it says: a warning, or an Error where nothing could run
// it.
#include <fmt/format.h>

#include <algorithm>

#include "job/doubts.h"
#include "planning/simulate/simulate.h"
#include "tests/scenarios/small_scenario.h"

using namespace tandem;

namespace {

Names doubts_of(const std::string& text, const Names& set) {
  return doubts(load(text, set).front());
}

// The one doubt of the settings, which begins with its place.
std::string doubt_of(const Names& set) {
  const Names lines = doubts_of(kSmall, set);
  REQUIRE(lines.size() == 1);
  return lines.front();
}

std::string error_of(const std::string& text, const Names& set) {
  const Folder folder;
  const auto scenarios = try_load(folder, text, set);
  REQUIRE(!scenarios.ok());
  return scenarios.error().text();
}

// The warnings of a run of kSmall on the ideal engine.
Names warnings_of(const Names& set) {
  const auto result = simulate(load(kSmall, set).front(), Engine::Ideal);
  REQUIRE(result.ok());
  return result->warnings;
}

bool some_holds(const Names& lines, const std::string& text) {
  return std::ranges::any_of(
      lines, [&](const std::string& line) { return line.find(text) != std::string::npos; });
}

}  // namespace

TEST_CASE("a NIC that is set faster than its slot is doubted, with the slot's source") {
  CHECK(doubt_of({"cluster.preset=dgx-h100", "cluster.nic_Gbitps=800"}) ==
        "--set: cluster.nic_Gbitps = 800 is simulated as set, but a slot like that of "
        "H100-SXM5-80GB carries at most 512 Gbit/s (PCIe 5.0 x16)");
  CHECK(doubts_of(kSmall, {"cluster.preset=dgx-h100", "cluster.nic_Gbitps=512"}).empty());
  // Its makers sell it with such NICs.
  CHECK(doubts_of(kSmall, {"cluster.preset=dgx-b300", "cluster.nic_Gbitps=800"}).empty());
  CHECK(doubts_of(kSmall, {"cluster.preset=dgx-b300"}).empty());
}

TEST_CASE("tensor groups that are faster than their links' line are said to be") {
  // A stretch of 0.85 on links that are used in full.
  CHECK(some_holds(warnings_of({"cluster.intra_efficiency=1"}),
                   "--set: cluster.intra_efficiency = 1 leaves tensor communication 1.18 times as "
                   "fast as cluster.intra_GBps"));
  for (const char* set : {"cluster.intra_efficiency=0.85", "cluster.intra_GBps=600"})
    CHECK(!some_holds(warnings_of({set}), "leaves tensor communication"));
  CHECK(!some_holds(warnings_of({"cluster.intra_efficiency=1", "parallel.tp=1", "parallel.dp=4"}),
                    "leaves tensor communication"));
}

TEST_CASE("keys of leaves are said to have no effect on a star") {
  CHECK(doubt_of({"cluster.oversubscription=8"}) ==
        "--set: cluster.oversubscription has no effect: cluster.fabric = star has no leaves and "
        "never blocks");
  CHECK(doubts_of(kSmall, {"cluster.oversubscription=8", "cluster.fabric=fat-tree",
                           "cluster.nodes_per_leaf=2"})
            .empty());
}

TEST_CASE(
    "keys of passes, links and limits that stated seconds or an order file leave idle are said "
    "to") {
  const auto said = [](const Names& sets) { return doubts_of(kUniform, sets); };
  CHECK(said({"train.recompute=full", "overlap.grad_reduce=true", "overlap.bucket_MB=5"}) ==
        Names{"--set: overlap.bucket_MB, overlap.grad_reduce, train.recompute have no effect with "
              "costs.source = uniform: the seconds of an action are all there is"});
  CHECK(said({"train.precision=fp8"}) ==
        Names{"--set: train.precision has no effect with costs.source = uniform: the seconds of an "
              "action are all there is"});
  CHECK(said({"overlap.p2p=true", "overlap.batch_p2p=true"}).empty());
  CHECK(said({"costs.p2p_s=1", "variability.background=0.5"}) ==
        Names{"--set: variability.background has no effect without links: costs.p2p_MB or a "
              "model"});
  CHECK(said({"costs.p2p_MB=1", "cluster.preset=selene", "variability.background=0.5"}).empty());
  const Folder folder;
  const std::string order = folder.with("order.csv", "0F0,0B0,0F1,0B1\n1F0,1B0,1F1,1B1\n");
  CHECK(said({"schedule.order=" + order, "parallel.global_batch=2", "schedule.memory_limit=1"}) ==
        Names{"--set: schedule.memory_limit has no effect without an order by name or auto"});
}

TEST_CASE("a key that does nothing without another key is said to") {
  for (const auto& [set, condition] : std::vector<std::pair<std::string, std::string>>{
           {"model.kv_lora_rank=512", "model.mixer = latent"},
           {"model.mamba_heads=16", "model.mixer = mamba"},
           {"model.linear_conv=3", "model.mixer = linear"},
           {"schedule.budget=100", "schedule.order = auto"},
           {"train.recompute_modules=mlp", "train.recompute = selective"},
           {"train.cuda_graph_scope=attn", "train.cuda_graphs = true"},
           {"train.fp8_recipe=mxfp8", "train.precision = fp8"},
           {"train.amax_reduction=tensor", "train.precision = fp8"},
           {"train.fp8_attention=true", "train.precision = fp8 or nvfp4"},
           {"train.fp8_param_gather=true", "train.precision = fp8 or nvfp4"},
           {"train.reshard_after_forward=false", "train.zero = 3"},
           {"train.activation_offload_modules=moe_act", "model.experts or a module of attention"},
           {"train.activation_offload_modules=attn_norm",
            "model.mixer = latent for attn_norm, or other modules"},
           {"train.activation_offload_modules=attn_norm, mlp_norm",
            "model.mixer = latent for attn_norm, or other modules"},
           {"overlap.align_param_gather=false", "overlap.param_gather"},
           {"overlap.bucket_MB=5", "overlap.grad_reduce or overlap.param_gather"},
           {"cluster.host_link_GBps=50", "train.optimizer_offload or train.activation_offload_*"},
           {"cluster.host_memory_GBps=50", "train.optimizer_offload"},
           {"overlap.delay_wgrad=true", "model.experts and parallel.ep >= 2"},
           {"overlap.expert_sms=2", "model.experts and parallel.ep >= 2"},
           {"overlap.tensor_setting=x", "overlap.tensor_file"},
           {"parallel.cp_comm=all_gather", "parallel.cp >= 2"},
           {"overlap.context=true", "parallel.cp >= 2"},
           {"overlap.context_sms=2", "parallel.cp >= 2"},
           {"costs.p2p_s=1", "costs.source = uniform"},
           {"variability.straggler_factor=2", "straggler_ranks, _nodes, _stages or _share"},
           {"variability.slow_link_from_s=1", "variability.slow_link"}})
    CHECK(doubt_of({set}) == fmt::format("--set: {} has no effect without {}",
                                         set.substr(0, set.find('=')), condition));
  const std::string latent = fmt::format(
      "{}mixer = \"latent\"\nkv_lora_rank = 128\nqk_nope_head_dim = 64\nqk_rope_head_dim = 32\n"
      "v_head_dim = 64\n[cluster]\npreset = \"selene\"\ngpus = 1\n[parallel]\nglobal_batch = 8\n",
      kSmallModel);
  CHECK(doubts_of(latent, {}).empty());
  CHECK(doubts_of(latent, {"train.activation_offload_modules=attn_norm"}).empty());
  CHECK(doubts_of(kSmall, {"train.activation_offload_modules=attn_norm, core_attn"}).empty());
  CHECK(
      doubts_of(latent, {"model.kv_heads=4"}) ==
      std::vector<std::string>{"--set: model.kv_heads has no effect without model.mixer = heads"});
  const Names modules = {"train.recompute=selective", "train.recompute_modules=mlp, mla_up_proj"};
  CHECK(doubts_of(latent, modules).empty());
  CHECK(doubt_of(modules) ==
        "--set: mla_up_proj in train.recompute_modules has no effect without model.mixer = latent");
  CHECK(doubts_of(kSmall, {"overlap.delay_wgrad=false", "train.fp8_param_gather=false"}).empty());
  CHECK(doubts_of(kSmall, {"train.recompute=selective", "train.recompute_modules=mlp"}).empty());
  CHECK(doubts_of(kSmall, {"schedule.order=auto", "schedule.budget=100"}).empty());
  CHECK(doubts_of(kSmall, {"overlap.bucket_MB=5", "overlap.grad_reduce=true"}).empty());
  CHECK(doubts_of(kSmall, {"cluster.host_link_GBps=50", "cluster.host_memory_GBps=50",
                           "train.optimizer_offload=0.5"})
            .empty());
  CHECK(doubts_of(kSmall, {"cluster.host_link_GBps=50", "train.activation_offload_layers=1"})
            .empty());
}

TEST_CASE("keys of communication that the job does not have are said to do nothing") {
  const Names no_stages = {"parallel.pp=1", "parallel.dp=4"},
              no_replicas = {"parallel.dp=1", "cluster.gpus=4"},
              experts = {"model.experts=8", "model.top_k=2", "train.sequence_parallel=true"};
  const auto check = [](const Names& plan, const std::string& set, const std::string& condition) {
    Names sets = plan;
    sets.push_back(set);
    INFO(set);
    CHECK(doubt_of(sets) == fmt::format("--set: {} has no effect without {}",
                                        set.substr(0, set.find('=')), condition));
  };
  for (const char* set : {"overlap.p2p=true", "overlap.p2p_sms=2", "overlap.batch_p2p=true"}) {
    check(no_stages, set, "parallel.pp >= 2");
    CHECK(doubts_of(kSmall, {set}).empty());
  }
  CHECK(doubts_of(kSmall, {"parallel.pp=1", "parallel.dp=4", "overlap.p2p=false"}).empty());
  check(no_replicas, "overlap.data_sms=2", "parallel.dp x cp >= 2");
  CHECK(doubts_of(kSmall, {"overlap.data_sms=2"}).empty());
  for (const char* set : {"parallel.dispatcher=deepep", "parallel.fp8_dispatch=true"})
    check(experts, set, "parallel.ep >= 2");
  for (const char* set : {"overlap.delay_wgrad=true", "overlap.expert_sms=2"})
    check(experts, set, "model.experts and parallel.ep >= 2");
  Names cut = experts;
  cut.insert(cut.end(), {"parallel.ep=2", "parallel.dispatcher=deepep", "overlap.expert_sms=2"});
  CHECK(doubts_of(kSmall, cut).empty());
}

TEST_CASE("selective recompute of flash attention's core is said to do nothing") {
  const Names core = {"train.recompute=selective", "train.flash_attention=true"};
  CHECK(doubt_of(core) ==
        "--set: train.recompute = selective has no effect on time and memory here: flash attention "
        "keeps no scores; Megatron-LM would run attention's forward again, which is not simulated");
  Names titan = core, more = core;
  titan.emplace_back("train.framework=torchtitan");
  CHECK(some_holds(doubts_of(kSmall, titan), "flash attention keeps no scores"));
  CHECK(!some_holds(doubts_of(kSmall, titan), "Megatron-LM would"));
  more.emplace_back("train.recompute_modules=\"core_attn, mlp\"");
  CHECK(doubts_of(kSmall, more).empty());
  CHECK(doubts_of(kSmall, {"train.recompute=selective"}).empty());
}

TEST_CASE("keys of fp8 leave a run in 16 bits as it is") {
  const auto seconds = [](const Names& set) {
    const auto result = simulate(load(kSmall, set).front(), Engine::Ideal);
    REQUIRE(result.ok());
    return result->iteration_s;
  };
  const Names fused = {"train.flash_attention=true", "train.zero=1"};
  Names keys = fused;
  keys.insert(keys.end(), {"train.fp8_recipe=mxfp8", "train.fp8_attention=true",
                           "train.fp8_param_gather=true", "train.amax_reduction=none"});
  CHECK(seconds(keys) == seconds(fused));
}

TEST_CASE("a layer's key of [model] that all its kinds have themselves is said to do nothing") {
  const std::string text = kSmall + R"([model.kinds.dense]
ffn_hidden = 4096
[model.kinds.moe]
experts = 8
top_k = 2
)";
  const Names pattern = {"model.pattern=\"dense*2 + moe*6\"", "train.sequence_parallel=true"};
  const auto doubts_with = [&](const std::string& set) {
    Names sets = pattern;
    sets.push_back(set);
    return doubts_of(text, sets);
  };
  CHECK(doubts_with("model.top_k=4") ==
        Names{"--set: model.top_k has no effect: model.kinds.moe.top_k stands over it"});
  CHECK(doubts_with("model.ffn_hidden=2048").empty());        // moe takes it
  CHECK(doubts_with("model.expert_ffn_hidden=512").empty());  // likewise
}

TEST_CASE("numbers in another unit than the key's are doubted") {
  CHECK(doubt_of({"cluster.tflops=989e12"}) ==
        "--set: found cluster.tflops = 9.89e+14, and hardware has 1 to 100000 TFLOP/s: is the unit "
        "right?");
  CHECK(doubt_of({"cluster.memory_GBps=3.35"}).find("50 to 100000 GB/s") != std::string::npos);
  CHECK(doubts_of(kSmall, {"cluster.tflops=989", "cluster.memory_GBps=3350"}).empty());
}

TEST_CASE("mxfp8 is doubted on tensor cores that do not have it") {
  const Names fp8 = {"train.precision=fp8", "train.fp8_recipe=mxfp8", "cluster.preset=dgx-h100"};
  CHECK(doubts_of(kSmall, fp8) ==
        Names{"--set: found train.fp8_recipe = mxfp8, which tensor cores of H100-SXM5-80GB do not "
              "have: it is simulated as if they had"});
  CHECK(doubts_of(kSmall, {fp8[0], fp8[1], "cluster.preset=dgx-b200"}).empty());
}

TEST_CASE(
    "experts in CUDA graphs whose tokens must be counted, or with too much load, are doubted") {
  const Names experts = {"model.experts=8", "model.top_k=2", "parallel.ep=2",
                         "train.sequence_parallel=true"};
  const auto doubts_with = [&](const Names& more) {
    Names sets = experts;
    sets.insert(sets.end(), more.begin(), more.end());
    return doubts_of(kSmall, sets);
  };
  CHECK(doubts_with({"train.cuda_graphs=true"})
            .front()
            .find("--set: train.cuda_graphs with experts that take any number of tokens") == 0);
  CHECK(doubts_with({"train.cuda_graphs=true",
                     "train.cuda_graph_scope=\"attn, moe_router, moe_preprocess\""})
            .empty());
  CHECK(doubts_with(
            {"train.cuda_graphs=true", "model.capacity_factor=1", "model.pad_to_capacity=true"})
            .empty());
  CHECK(doubts_with({"model.expert_imbalance=5"}) ==
        Names{"--set: model.expert_imbalance = 5 counts as 2: of parallel.ep = 2 ranks the busiest "
              "one gets all tokens at most"});
}

TEST_CASE("stages that pp x vpp makes uneven are a warning, but where the ends count as layers") {
  // 32 layers on 2 x 3 stages: five of ceil(32 / 6) = 6, and 2 on the last.
  const std::string line = doubt_of({"model.layers=32", "parallel.vpp=3"});
  CHECK(line ==
        "--set: found 32 layers on pp x vpp = 2 x 3 stages, which are "
        "uneven: the first has 6, the last 2; Megatron-LM refuses that, and "
        "parallel.layers_per_stage says what is meant");
  CHECK(some_holds(warnings_of({"model.layers=32", "parallel.vpp=3"}), "which are uneven"));
  CHECK(doubts_of(kSmall, {}).empty());
  CHECK(doubts_of(kSmall, {"model.layers=10", "parallel.vpp=3"}).empty());  // 10 + 2 = 6 x 2
  CHECK(doubts_of(kSmall, {"model.layers=9", "parallel.layers_per_stage=[4, 5]"}).empty());
}

TEST_CASE("a group of microbatches counts for interleaved alone, and is a warning elsewhere") {
  const std::string line = doubt_of({"schedule.group=4"});
  CHECK(line.find("--set: found schedule.group = 4 with schedule.order = 1f1b") == 0);
  CHECK(doubts_of(kSmall, {"schedule.group=4", "parallel.vpp=2"}).empty());
}

TEST_CASE("long sequences whose attention nobody says to be fused are doubted, whatever the plan") {
  CHECK(doubt_of({"model.seq=8192"}) ==
        "train.flash_attention is not set, so each head has a matrix of 8192 x 8192, as before "
        "2022: set it to true for a framework of today, or to false for this");
  CHECK(doubts_of_any_plan(load(kSmall, {"model.seq=8192"}).front()).size() == 1);
  for (const char* said : {"true", "false"})
    CHECK(doubts_of(kSmall, {"model.seq=8192", std::string("train.flash_attention=") + said})
              .empty());
}

TEST_CASE("sequences and vocabularies below a GEMM's tile are a warning") {
  const Names lines =
      doubts_of(kSmall, {"model.seq=1", "model.vocab=1", "train.sequence_parallel=false"});
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].find("--set: found model.seq = 1, below") == 0);
  CHECK(lines[1].find("--set: found model.vocab = 1, below") == 0);
  CHECK(doubts_of(kSmall, {"model.seq=128", "model.vocab=128"}).empty());
}

TEST_CASE("repeats of what no seed changes are a warning") {
  const std::string alike = "variability.runs = 3 of a run that no seed changes";
  CHECK(some_holds(warnings_of({"variability.runs=3"}), alike));
  // Stragglers by name are the same with every seed.
  CHECK(some_holds(warnings_of({"variability.runs=3", "variability.straggler_factor=2",
                                "variability.straggler_stages=[0]"}),
                   alike));
  CHECK(!some_holds(warnings_of({"variability.runs=3", "variability.jitter=0.1"}), alike));
}

TEST_CASE("a key of experts without their number is refused with its place") {
  for (const char* key : {"model.top_k", "model.expert_ffn_hidden", "model.shared_expert_ffn",
                          "model.expert_imbalance"}) {
    const std::string set = std::string(key) + "=2";
    CHECK(error_of(kSmall, {set})
              .find(std::string("--set: found ") + key + " without model.experts, expected both") ==
          0);
  }
  CHECK(!load(kSmall, {"model.top_k=2", "model.experts=0"}).empty());  // said: a dense model
}

TEST_CASE("with uniform costs, too, what is stated of a model must divide") {
  const std::string text = kUniform + "[model]\nlayers = 8\nhidden = 1024\nheads = 6\n";
  CHECK(load(text, {"model.heads=8", "parallel.tp=4"}).size() == 1);
  CHECK(error_of(text, {"model.hidden=1020", "parallel.tp=4"})
            .find("small.toml:11: model.heads: found 6, expected a multiple of parallel.tp = 4") !=
        std::string::npos);
  CHECK(error_of(text, {}).find("model.hidden: found 1024, expected a multiple of model.heads") !=
        std::string::npos);
  CHECK(error_of(kUniform, {"model.layers=4", "parallel.pp=8", "parallel.vpp=2"})
            .find("found 16 stages, expected at most model.layers + 2 = 6") != std::string::npos);
}
