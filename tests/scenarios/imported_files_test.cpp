// model.from and parallel.from: files of other tools stand in a scenario as if it said what they
// do.
#include <fmt/format.h>

#include "interop/import.h"
#include "tests/interop/small_log.h"
#include "tests/scenarios/small_scenario.h"

namespace tandem {
namespace {

// Llama-3.1-8B's sizes, a line each.
const std::string kLlama = R"({
"model_type": "llama",
"hidden_size": 4096,
"num_hidden_layers": 32,
"num_attention_heads": 32,
"num_key_value_heads": 8,
"intermediate_size": 14336,
"vocab_size": 128256,
"max_position_embeddings": 131072,
"tie_word_embeddings": false
}
)";

// Line 2 of the scenario names the file.
const std::string kFromModel = "[model]\nfrom = \"config.json\"\n";
const std::string kFromLog = "[parallel]\nfrom = \"train.log\"\n";
const std::string kOnNode = "[cluster]\npreset = \"dgx-h100\"\ngpus = 8\n";
const std::string kOnNodes = "[cluster]\npreset = \"dgx-h100\"\n";

// Scenarios with the files beside them.
class Files {
 public:
  Files() {
    add("config.json", kLlama);
    add("train.log", kSmallLog);
  }
  void add(const std::string& name, const std::string& text) const { folder_.with(name, text); }

  std::vector<Scenario> all(const std::string& text, const Names& set = {}) const {
    auto scenarios = try_load(folder_, text, set);
    INFO((scenarios.ok() ? "" : scenarios.error().text()));
    REQUIRE(scenarios.ok());
    return *std::move(scenarios);
  }
  Scenario one(const std::string& text, const Names& set = {}) const { return all(text, set)[0]; }

  // The Error, without the folder.
  std::string refusal(const std::string& text, const Names& set = {}) const {
    const auto scenarios = try_load(folder_, text, set);
    REQUIRE(!scenarios.ok());
    std::string error = scenarios.error().text();
    const std::string folder = folder_.path().string() + '/';
    for (std::size_t at; (at = error.find(folder)) != std::string::npos;)
      error.erase(at, folder.size());
    return error;
  }

 private:
  Folder folder_;
};

bool some_begins(const Names& lines, const std::string& begin) {
  return std::ranges::any_of(lines, [&](const auto& line) { return line.starts_with(begin); });
}

TEST_CASE("model.from gives the model of a config.json, and nothing else of it") {
  const Scenario scenario = Files().one(kFromModel + kOnNode);
  const Model& model = scenario.job.model;
  CHECK(model.layers == 32);
  CHECK(model.kv_heads == 8);
  CHECK_FALSE(model.tied_embeddings);
  // Llama-3.1-8B's published count.
  CHECK(card_parameters(model) == 8030261248);
  CHECK_FALSE(scenario.job.plan.flash_attention);
  CHECK(scenario.notes ==
        Names{"model.from: assumed: model.seq = 4096, of at most 131072: config.json does not say "
              "what length is trained"});
}

TEST_CASE("what the scenario says goes over the file, an axis over that, and --set over all") {
  const Files files;
  const std::string text = kFromModel + "seq = 2048\nlayers = 16\n" + kOnNode;
  const Scenario own = files.one(text);
  CHECK(own.job.model.layers == 16);
  CHECK(own.job.model.seq == 2048);
  CHECK(own.job.model.heads == 32);
  CHECK(own.notes.empty());  // the length is said
  const auto runs = files.all(text + "[matrix]\nmodel.layers = [8, 4]\n");
  CHECK(runs[0].job.model.layers == 8);
  CHECK(runs[1].job.model.layers == 4);
  CHECK(files.one(text, {"model.layers=2"}).job.model.layers == 2);
}

TEST_CASE("an axis names another file for each of its points") {
  const Files files;
  std::string small = kLlama;
  small.replace(small.find(": 32,"), 5, ": 24,");  // layers
  files.add("small.json", small);
  const auto runs =
      files.all("[matrix]\nmodel.from = [\"config.json\", \"small.json\"]\n" + kOnNode);
  REQUIRE(runs.size() == 2);
  CHECK(runs[0].job.model.layers == 32);
  CHECK(runs[1].job.model.layers == 24);
}

TEST_CASE("parallel.from a log gives plan, model and the number of GPUs") {
  const Files files;
  const Scenario scenario = files.one(kFromLog + kOnNodes);
  CHECK(scenario.job.model.layers == 32);
  CHECK(scenario.job.model.seq == 8192);
  CHECK(scenario.job.plan.tp == 4);
  CHECK(scenario.job.plan.vpp == 2);
  CHECK(scenario.job.plan.dp == 2);
  CHECK(scenario.job.plan.zero == 1);
  CHECK(scenario.job.data.grad_reduce);
  CHECK(scenario.cluster.gpus == 16);
  // Its line, counted from the log's first.
  CHECK(some_begins(scenario.notes, "parallel.from: not understood: "));
  CHECK(scenario.notes.front().ends_with("train.log:25: some_new_argument 3"));
  // How many GPUs there are, and how many replicas, is the scenario's to say.
  CHECK(files.one(kFromLog + kOnNodes, {"cluster.gpus=32"}).job.plan.dp == 4);
  CHECK(files.one(kFromLog + kOnNodes, {"parallel.dp=1"}).cluster.gpus == 8);
}

TEST_CASE("a scenario with layers of its own keeps its model beside parallel.from") {
  const Files files;
  const Scenario own = files.one(kSmallModel + kFromLog + kOnNodes);
  CHECK(own.job.model.layers == 8);
  CHECK(own.job.model.kv_heads == 0);
  CHECK(own.job.model.seq == 512);
  CHECK(own.job.plan.tp == 4);
  // One key of the model is no model.
  const Scenario changed = files.one(kFromLog + kOnNodes, {"model.seq=4096"});
  CHECK(changed.job.model.layers == 32);
  CHECK(changed.job.model.seq == 4096);
}

TEST_CASE("the plan's files are read behind the model's, which they may lean on") {
  const Files files;
  files.add("train.sh",
            "python pretrain_gpt.py --bf16 --tensor-model-parallel-size 2 "
            "--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 2 "
            "--seq-length 8192 --micro-batch-size 1 --global-batch-size 64\n");
  const std::string both = kFromModel + "[parallel]\nfrom = \"train.sh\"\n" + kOnNode;
  const Scenario scenario = files.one(both);
  CHECK(scenario.job.plan.vpp == 4);  // 32 layers on 4 ranks, 2 a stage
  CHECK(scenario.job.model.seq == 8192);
  CHECK(scenario.job.model.vocab == 128256);
  CHECK(scenario.notes.empty());  // the script says the length
  // Of a log that states a model too only the length counts.
  const Scenario log = files.one(kFromModel + kFromLog + kOnNodes, {"model.layers=16"});
  CHECK(log.job.model.layers == 16);
  CHECK(log.job.model.vocab == 128256);  // the log's is padded
  CHECK(log.job.model.seq == 8192);
  CHECK(log.job.plan.pp == 2);
  // A list is the same as both.
  const Scenario list = files.one(
      "[parallel]\nfrom = [\"config.json\", \"train.sh\"]\n[train]\nzero = 1\n" + kOnNode);
  CHECK(list.job.plan.vpp == 4);
  CHECK(list.job.model.layers == 32);
  CHECK(list.job.plan.zero == 1);
  // The trainer says whether the model's multi-token prediction is trained.
  std::string predicts = kLlama;
  predicts.insert(predicts.find('}'), ",\"num_nextn_predict_layers\": 1");
  files.add("config.json", predicts);
  CHECK(files.one(kFromModel + kOnNode).job.model.mtp_layers == 1);
  CHECK(files.one(both).job.model.mtp_layers == 0);
  CHECK(files.one(both, {"model.mtp_layers=2"}).job.model.mtp_layers == 2);
}

TEST_CASE("the plan's files see the model that the scenario itself has") {
  const Files files;
  files.add("titan.sh", R"(WORLD_SIZE=8
OVERRIDES=(
    --training.num_tokens_per_microbatch_per_dp_rank 512
    --training.num_tokens_per_train_step 4096
    --training.max_context_length 512
    --parallelism.num_pp_microbatches 4
    --parallelism.data_parallel_shard_degree 2
    --parallelism.tensor_parallel_degree 2
    --parallelism.pipeline_parallel_degree 2
    --parallelism.pipeline_parallel_schedule Interleaved1F1B
    --parallelism.pipeline_parallel_layers_per_stage 1
    --parallelism.pipeline_parallel_first_stage_less_layers 0
    --parallelism.pipeline_parallel_last_stage_less_layers 0
    activation-checkpoint:none
)
)");
  const std::string titan = kSmallModel + "[parallel]\nfrom = \"titan.sh\"\n" + kOnNode;
  const Scenario stages = files.one(titan);
  CHECK(stages.job.plan.vpp == 4);  // 8 layers on 2 ranks, 1 a stage
  CHECK(!some_begins(stages.notes, "parallel.from: assumed: parallel.vpp"));
  CHECK(files.one(titan, {"model.layers=4.0"}).job.plan.vpp == 2);
  for (const std::string none : {"0", "2.5", "true"})
    CHECK(files.refusal(titan, {"model.layers=" + none})
              .starts_with("--set: found model.layers = " + none + ", expected an integer from 1"));
  std::string without = titan;
  const std::size_t layers = without.find("\nlayers = 8\n");
  REQUIRE(layers != std::string::npos);
  without.replace(layers, 12, "\nlayers = 0\n");
  CHECK(files.refusal(without).starts_with("small.toml:2: found model.layers = 0, expected an"));

  files.add("experts.sh",
            "python pretrain_gpt.py --bf16 --tensor-model-parallel-size 2 --sequence-parallel "
            "--expert-model-parallel-size 2 --expert-tensor-parallel-size 1 --tp-comm-overlap "
            "--moe-grouped-gemm --micro-batch-size 1 --global-batch-size 16\n");
  const Plan experts = files
                           .one(kSmallModel + "experts = 8\ntop_k = 2\nexpert_ffn_hidden = 1024\n" +
                                "[parallel]\nfrom = \"experts.sh\"\n" + kOnNode)
                           .job.plan;
  CHECK(experts.overlap_of(TensorGemm::ProjFprop).method == TensorMethod::Pipelined);
  CHECK(experts.overlap_of(TensorGemm::Fc2Fprop).method == TensorMethod::Off);
}

TEST_CASE("a scenario that sets other stages than its plan's files has layers of its own on them") {
  const Files files;
  files.add("tt.toml",
            "[parallelism]\npipeline_parallel_degree = 4\npipeline_parallel_schedule = \"1F1B\"\n"
            "data_parallel_shard_degree = 2\n[training]\nlocal_batch_size = 8\nseq_len = 512\n"
            "[activation_checkpoint]\nmode = \"none\"\n[compile]\nenable = true\n");
  const std::string titan = kSmallModel + "[parallel]\nfrom = \"tt.toml\"\n" + kOnNode;
  // Embedding and head count as a layer each: 10 on 4 stages.
  const std::vector<int> cut = {2, 3, 2, 1};
  const Scenario same = files.one(titan);
  CHECK(same.job.plan.layers_per_stage == cut);
  CHECK(same.notes.empty());
  CHECK(files.one(titan, {"parallel.pp=4"}).job.plan.layers_per_stage == cut);
  const std::string note =
      "parallel.from: not expressed: parallel.layers_per_stage = [2, 3, 2, 1]: the scenario sets "
      "other stages";
  for (const Names& set :
       {Names{"parallel.pp=2"}, Names{"parallel.vpp=2", "schedule.order=interleaved"},
        Names{"parallel.layout=\"Et*2|t*2|t*2|t*2L\""}}) {
    const Scenario other = files.one(titan, set);
    CHECK(other.job.plan.layers_per_stage != cut);
    CHECK(other.notes == Names{note});
  }
  const auto runs = files.all(titan + "[matrix]\nparallel.pp = [1, 2, 4]\n");
  REQUIRE(runs.size() == 3);
  CHECK(runs[1].job.plan.pp == 2);
  CHECK(runs[2].job.plan.layers_per_stage == cut);
  const Scenario own = files.one(titan, {"parallel.pp=2", "parallel.layers_per_stage=[5, 3]"});
  CHECK(own.notes.empty());
}

TEST_CASE("the cluster of a file counts where the scenario names none") {
  const Files files;
  const std::string name = "config_DGXH100_2x8x16xtp4pp2cp1.sh";
  files.add(name, "export MINIBS=16\n");
  const std::string text =
      kSmallModel + fmt::format("[parallel]\nfrom = \"{}\"\ntp = 4\npp = 2\n", name);
  const Scenario bare = files.one(text);
  CHECK(bare.cluster.preset == "dgx-h100");
  CHECK(bare.cluster.gpus == 16);
  const Scenario own = files.one(text + "[cluster]\npreset = \"selene\"\n");
  CHECK(own.cluster.preset == "selene");
  CHECK(own.cluster.gpus == 16);
}

TEST_CASE("keys that no scenario has are noted, and refuse nothing") {
  const Files files;
  const std::string script =
      "python pretrain_gpt.py --bf16 --num-layers 8 --hidden-size 1024 --seq-length 512 "
      "--num-attention-heads 16 --vocab-size 32000 --fp8-format hybrid "
      "--experimental-attention-variant dsa --dsa-indexer-n-heads 4 --dsa-indexer-head-dim 32 "
      "--dsa-indexer-topk 64 "
      "--fp8-recipe mxfp8 --use-torch-fsdp2 --torch-fsdp2-no-reshard-after-forward "
      "--tensor-model-parallel-size 1\n";
  files.add("train.sh", script);
  const std::string from = "[parallel]\nfrom = \"train.sh\"\n";
  CHECK(files.refusal(from + kOnNode).find("found no batch") != std::string::npos);
  const Scenario scenario = files.one(from + "global_batch = 8\n" + kOnNode);
  const auto plan = import_sources({{"train.sh", script}});
  REQUIRE(plan.ok());
  for (const ImportedKey& key : plan->keys) {
    INFO(key.key);
    CHECK(some_begins(scenario.notes, fmt::format("parallel.from: not expressed: {} = ",
                                                  key.key)) == !is_scenario_key(key.key));
  }
}

TEST_CASE("of many notes the first seven stand there, and the number of all others") {
  const Files files;
  std::string log = kSmallLog;
  const std::size_t end = log.find("-------------------- end of");
  for (int i = 0; i < 30; ++i) log.insert(end, fmt::format("  {}_unheard_of ............ 1\n", i));
  files.add("train.log", log);
  const Names notes = files.one(kFromLog + kOnNodes).notes;
  REQUIRE(notes.size() == 8);
  CHECK(notes.back() ==
        "parallel.from: 24 more that were assumed, not expressed or not understood: tandem import "
        "lists them");
}

TEST_CASE("an Error names the scenario's line and the file's") {
  const Files files;
  CHECK(
      files.refusal(kFromModel + "[parallel]\ntp = 3\ndp = 1\n[cluster]\npreset = \"selene\"\n") ==
      "small.toml:2: config.json:5: model.heads: found 32, expected a multiple of parallel.tp = "
      "3");
  CHECK(files.refusal(kFromLog + kOnNodes, {"parallel.pp=5"}) ==
        "small.toml:2: train.log:32: found cluster.gpus = 16, expected a multiple of tp x pp = 4 x "
        "5");
  files.add("config.json", "{\"model_type\": \"llama\",\n \"hidden_size\": \"wide\"}");
  CHECK(files.refusal(kFromModel + kOnNode) ==
        "small.toml:2: config.json:2: found hidden_size = wide, expected an integer from 1 to "
        "1000000000");
  CHECK(files.refusal(kFromModel + kOnNode, {"model.from=none.json"})
            .starts_with("--set: found model.from = none.json: no such file, expected a config"));
  for (const std::string none : {"3", "[]", "true", "\"\""})
    CHECK(files.refusal(kOnNode, {"model.from=" + none}).starts_with("--set: found model.from = "));
}

TEST_CASE("the files are among those that a scenario names") {
  const Folder folder;
  folder.with("a.json", kLlama);
  folder.with("b.json", kLlama);
  folder.with("train.log", kSmallLog);
  const auto file = read_scenario_file(folder.with(
      "s.toml", "[model]\nfrom = [\"a.json\", \"b.json\"]\n[parallel]\nfrom = \"train.log\"\n"));
  REQUIRE(file.ok());
  Names names;
  for (const NamedFile& named : files_named(*file, {})) names.push_back(named.path);
  CHECK(names == Names{folder / "a.json", folder / "b.json", folder / "train.log"});
}

}  // namespace
}  // namespace tandem
