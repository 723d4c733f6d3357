// The keys of [overlap] and of the ways to cut a model: what they set, and the rules they keep.
#include <catch2/catch.hpp>

#include "job/doubts.h"
#include "planning/simulate/simulate.h"
#include "tests/scenarios/small_scenario.h"

namespace tandem {
namespace {

std::string refused(const Names& keys) {
  const Folder folder;
  const auto scenarios = try_load(folder, kSmall, keys);
  if (!scenarios.ok()) return scenarios.error().text();
  const auto job = compile((*scenarios)[0]);
  return job.ok() ? "" : job.error().text();
}

GemmOverlap overlap_of(const Scenario& scenario, TensorGemm gemm) {
  return scenario.job.plan.overlap_of(gemm);
}

const std::string kFile = R"({"configs": {
  "small": {"qkv_fprop": {"method": "ring_exchange", "num_sm": 1},
            "proj_fprop": {"method": "pipeline", "num_sm": 24, "num_splits": 4},
            "fc1_dgrad": null},
  "other": {"fc2_fprop": {"method": "pipeline", "num_sm": 16, "num_splits": 2}}}})";

Result<Scenario> with_file(const std::string& text, const Names& more) {
  const Folder folder;
  Names keys = {"train.sequence_parallel=true",
                "overlap.tensor_file=\"" + folder.with("ub.json", text) + "\""};
  keys.insert(keys.end(), more.begin(), more.end());
  auto scenarios = try_load(folder, kSmall, keys);
  if (!scenarios.ok()) return scenarios.error();
  return (*scenarios)[0];
}

TEST_CASE("one word sets the overlap of every GEMM that has such a form") {
  const Scenario bulk = load(kSmall, {"train.sequence_parallel=true", "overlap.tensor=bulk"})[0];
  CHECK(overlap_of(bulk, TensorGemm::QkvFprop).method == TensorMethod::Off);
  CHECK(overlap_of(bulk, TensorGemm::QkvWgrad).method == TensorMethod::Bulk);
  CHECK(overlap_of(bulk, TensorGemm::QkvWgrad).sms == 24);
  const Scenario ring = load(kSmall, {"train.sequence_parallel=true", "overlap.tensor=ring"})[0];
  CHECK(overlap_of(ring, TensorGemm::ProjFprop).method == TensorMethod::Ring);
  CHECK(overlap_of(ring, TensorGemm::ProjFprop).sms == 1);
  CHECK(overlap_of(ring, TensorGemm::Fc1Wgrad).method == TensorMethod::Bulk);
}

TEST_CASE(
    "Transformer Engine reduces beside weight gradients without being asked, unless told off") {
  const auto wgrad = [](Names more) {
    more.insert(more.end(), {"cluster.preset=dgx-h100", "train.sequence_parallel=true"});
    return overlap_of(load(kSmall, more)[0], TensorGemm::QkvWgrad);
  };
  const GemmOverlap unasked = wgrad({"costs.software=nemo-h100"});
  CHECK(unasked.method == TensorMethod::Bulk);
  CHECK(!unasked.userbuffers);
  CHECK(wgrad({"costs.software=nemo-h100", "overlap.tensor=off"}).method == TensorMethod::Off);
  // Without a file, a setting's name tells nothing off.
  CHECK(wgrad({"costs.software=nemo-h100", "overlap.tensor_setting=x"}).method ==
        TensorMethod::Bulk);
  for (const char* other : {"costs.software=torchtitan-h100", "costs.software=megatron-a100"})
    CHECK(wgrad({other}).method == TensorMethod::Off);
}

TEST_CASE("a GEMM by name goes over the file, the file over the word") {
  const auto s = with_file(kFile, {"overlap.tensor_setting=small", "overlap.tensor=ring",
                                   "overlap.gemm.proj_fprop=pipelined:8:2"});
  REQUIRE(s.ok());
  CHECK(overlap_of(*s, TensorGemm::QkvFprop).method == TensorMethod::Ring);
  CHECK(overlap_of(*s, TensorGemm::QkvFprop).sms == 1);
  CHECK(overlap_of(*s, TensorGemm::ProjFprop).sms == 8);
  CHECK(overlap_of(*s, TensorGemm::ProjFprop).splits == 2);
  CHECK(overlap_of(*s, TensorGemm::Fc1Dgrad).method == TensorMethod::Off);
  CHECK(overlap_of(*s, TensorGemm::Fc2Fprop).method == TensorMethod::Off);
  CHECK(doubts(*s) == Names{"--set: overlap.tensor has no effect: overlap.tensor_file stands over "
                            "it"});
}

TEST_CASE("a settings file that says something else is refused by its name") {
  const auto message = [](const std::string& text, const Names& keys) {
    const auto scenario = with_file(text, keys);
    return scenario.ok() ? "" : scenario.error().text();
  };
  const auto has = [](const std::string& text, const char* part) {
    INFO(text);
    return text.find("ub.json: ") != std::string::npos && text.find(part) != std::string::npos;
  };
  CHECK(has(message(kFile, {}), "found 2 settings, expected overlap.tensor_setting to name one"));
  CHECK(has(message(kFile, {"overlap.tensor_setting=smal"}), "the nearest is 'small'"));
  CHECK(has(message("[1]", {}), "found no JSON object"));
  CHECK(has(message(R"({"qkv_fwd": {"method": "bulk"}})", {}), "the nearest is 'qkv_"));
  CHECK(has(message(R"({"qkv_fprop": {"method": "magic"}})", {}), "found method 'magic'"));
  CHECK(has(message(R"({"qkv_fprop": {"num_sm": 4}})", {}), "without a method"));
  CHECK(has(message(R"({"qkv_fprop": {"method": "ring_exchange", "num_sm": "four"}})", {}),
            "found num_sm = \"four\""));
}

TEST_CASE("bad combinations name their rule") {
  struct Case {
    Names keys;
    const char* part;
  };
  const Case cases[] = {
      {{"overlap.p2p=true", "overlap.batch_p2p=true"}, "overlap.p2p and overlap.batch_p2p both on"},
      {{"parallel.cp=3", "parallel.dp=2", "cluster.gpus=24"}, "2 x parallel.cp"},
      {{"model.experts=6", "model.top_k=2", "parallel.ep=4", "train.sequence_parallel=true",
        "parallel.expert_tp=1"},
       "parallel.ep = 4"},
      {{"parallel.ep=2"}, "parallel.ep: found 2, expected 1 without model.experts"},
      {{"model.experts=4"}, "model.top_k"},
      {{"parallel.tp=1", "parallel.dp=4", "overlap.tensor=ring"}, "parallel.tp = 1"},
      {{"overlap.tensor=ring"}, "train.sequence_parallel"},
      {{"train.sequence_parallel=true", "overlap.gemm.qkv_wgrad=ring"}, "overlap.gemm.qkv_wgrad"},
      {{"train.sequence_parallel=true", "overlap.gemm.qkv_fprop=ring:1:2:3"}, "METHOD:SMS:SPLITS"},
      {{"train.sequence_parallel=true", "overlap.gemm.qkv_fprop=ring:500"},
       "overlap.gemm.qkv_fprop: found 500 SMs, expected fewer than the GPU's 108"},
      {{"schedule.order=zbv", "parallel.vpp=3", "model.layers=12"}, "found vpp = 3, expected 2"},
      {{"schedule.order=dualpipe", "parallel.global_batch=6"},
       "order dualpipe: found 3 microbatches, expected an even number"},
      {{"schedule.order=zb1p", "schedule.memory_limit=0.5"}, "memory limit"},
      {{"train.zero=3", "train.reshard_after_forward=true"}, "train.reshard_after_forward"},
      {{"train.zero=1", "parallel.hsdp_shard=3"}, "parallel.hsdp_shard"},
      {{"train.zero=4"}, "train.zero"},
      {{"overlap.param_gather=true"}, "train.zero >= 1"},
      {{"train.zero=1", "overlap.align_param_gather=true"}, "overlap.param_gather"},
      {{"overlap.expert=true"}, "model.experts"},
      {{"model.experts=4", "model.top_k=2", "train.sequence_parallel=true", "overlap.expert=true"},
       "interleaved"},
      {{"model.experts=4", "model.top_k=2", "train.sequence_parallel=true", "parallel.ep=2",
        "parallel.expert_tp=1", "parallel.dispatcher=deepep", "overlap.expert_sms=0"},
       "found overlap.expert_sms = 0 with parallel.dispatcher = deepep, expected a positive"},
      {{"train.recompute_layers=2"}, "train.recompute = full"},
      {{"overlap.data_sms=200"},
       "overlap.data_sms: found 200 SMs, expected fewer than the GPU's 108"},
      {{"overlap.data_sms=65536"}, "an integer from 0 to 1000"},
      {{"parallel.expert_tp=1"},
       "parallel.expert_tp: found 1, expected none without model.experts"},
      {{"overlap.batch_p2p=true", "schedule.order=zb1p"}, "overlap.batch_p2p = true with order"},
      {{"parallel.cp_comm=all_to_all", "parallel.cp=16", "parallel.dp=2", "cluster.gpus=128"},
       "all_to_all"},
  };
  for (const Case& c : cases) {
    const std::string message = refused(c.keys);
    INFO(c.keys[0] << ": " << message);
    CHECK(message.find(c.part) != std::string::npos);
    CHECK(message.find("expected") != std::string::npos);
    CHECK(message.find('\n') == std::string::npos);
    CHECK((message.starts_with("--set: ") || message.find("small.toml") != std::string::npos));
  }
}

TEST_CASE("a rule is reported at the line that breaks it") {
  const Folder folder;
  const auto message = [&](const std::string& more) {
    const auto scenarios = try_load(folder, kSmall + more);
    if (!scenarios.ok()) return scenarios.error().text().substr(folder.path().string().size() + 1);
    return compile((*scenarios)[0]).error().text().substr(folder.path().string().size() + 1);
  };
  // kSmall has 15 lines.
  CHECK(message("[overlap]\np2p = false\ntensor = \"ring\"\n").starts_with("small.toml:18: "));
  CHECK(message("[overlap]\np2p = true\nparam_gather = true\n").starts_with("small.toml:18: "));
  CHECK(message("[overlap]\ntensor = \"off\"\ngemm.fc1_fprop = \"magic\"\n")
            .starts_with("small.toml:18: overlap.gemm.fc1_fprop: found method 'magic'"));
}

TEST_CASE("uniform costs leave no room for what an action's seconds do not say") {
  const Folder folder;
  for (const char* key : {"parallel.ep=3", "parallel.hsdp_shard=2", "train.zero=1",
                          "overlap.tensor=ring", "parallel.layers_per_stage=[1,3]"}) {
    const auto scenarios = try_load(folder, kUniform, {key, "parallel.dp=2"});
    REQUIRE_FALSE(scenarios.ok());
    CHECK(scenarios.error().text().find("with costs.source = uniform") != std::string::npos);
  }
}

TEST_CASE("an order in a V has two stages a rank where nothing else is said") {
  CHECK(load(kSmall, {"schedule.order=zbv"})[0].job.plan.vpp == 2);
  CHECK(load(kSmall, {"schedule.order=zb1p"})[0].job.plan.vpp == 1);
}

TEST_CASE("what an order says of the plan: one embedding in a V, two copies in DualPipe") {
  const auto plan = [](const std::string& order) {
    const auto job = compile(load(kSmall, {"schedule.order=" + order})[0]);
    REQUIRE(job.ok());
    return job->plan;
  };
  CHECK_FALSE(plan("1f1b").ends_on_one_rank);
  CHECK(plan("zbv").ends_on_one_rank);
  CHECK(plan("dualpipe").ends_on_one_rank);
  CHECK(plan("zbv").copies == 1);
  CHECK(plan("dualpipe").data_ranks() == 2 * 2);
}

TEST_CASE("where a forward and a backward trade layers, the memory's peak ends with the backward") {
  const std::string experts = R"([model]
layers = 16
hidden = 1024
heads = 16
seq = 1024
vocab = 32000
experts = 8
top_k = 2
pattern = "moe*4 + dense*12"
[parallel]
pp = 4
vpp = 2
dp = 8
ep = 8
global_batch = 128
[schedule]
order = "interleaved"
[overlap]
expert = true
[cluster]
preset = "dgx-h100"
gpus = 32
)";
  const auto run = simulate(load(experts).front(), Engine::Ideal);
  REQUIRE(run.ok());
  // Rank 0 holds most when its second stage's first backward has traded layers with a forward.
  CHECK(run->training->peak.action == "backward 0 of stage 4");
}

}  // namespace
}  // namespace tandem
