// tandem import, and tandem tune --emit: from a file that somebody has to one that somebody runs.
#include "tests/sandbox.h"

using namespace tandem;

namespace {

// Llama-3.1-8B's sizes in the form of its file.
const std::string kLlama = R"({
  "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32,
  "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
  "vocab_size": 128256, "max_position_embeddings": 131072, "tie_word_embeddings": false
})";

}  // namespace

TEST_CASE("an imported Llama-3.1-8B is simulated on 64 H100s") {
  const Sandbox box;
  box.file("config.json", kLlama);
  check_refused(box.tandem("import config.json --cluster dgx-h100 --gpus 64 -o llama.toml"),
                "config.json: found all but the parallel sizes: --set parallel.tp=N");
  CHECK(box.files() == Names{"config.json"});
  const Ran ran = box.tandem(
      "import config.json --set parallel.tp=4 --set parallel.global_batch=512 --cluster dgx-h100 "
      "--gpus 64 -o llama.toml");
  check_done(ran);
  CHECK(ran.out.starts_with("llama.toml: 14 keys; 2 assumed, 0 not expressed, 0 not understood"));
  CHECK(has(ran.out, "\nmodel      8.0 B parameters (8030261248)                 config.json:2\n"));
  CHECK(has(ran.out, "\nbatch      512 sequences, 1 a microbatch                 --set\n"));
  const Ran simulated = box.tandem("simulate llama.toml --engine ideal --json");
  check_done(simulated);
  CHECK(simulated.out.find("\"gpus\": 64") != std::string::npos);
}

TEST_CASE("without -o the scenario is printed, and what is set wins over all files") {
  const Sandbox box;
  box.file("config.json", kLlama);
  const Ran ran =
      box.tandem("import config.json --partial --set model.seq=512 --set model.name=mine");
  check_done(ran);
  CHECK(ran.out.starts_with("# Written by tandem import.\n# from: config.json (Hugging Face"));
  CHECK(ran.out.find("\nseq = 512 ") != std::string::npos);
  CHECK(ran.out.find("\nname = \"mine\"") != std::string::npos);
  CHECK(ran.out.find("\n# [cluster]\n") != std::string::npos);
}

TEST_CASE("the scenario says how many parameters its model has, and how many are active") {
  const Sandbox box;
  box.file("config.json", kLlama);
  box.file("moe.json", R"({"model_type": "mixtral", "hidden_size": 4096, "num_hidden_layers": 32,
"num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
"vocab_size": 32000, "num_local_experts": 8, "num_experts_per_tok": 2,
"tie_word_embeddings": false})");
  box.file("ds_config.json", "{\"train_batch_size\": 8}");
  // Llama-3.1-8B's and Mixtral-8x7B's published counts.
  CHECK(has(box.tandem("import config.json --partial").out,
            "\n# model      8.0 B parameters (8030261248) "));
  CHECK(has(box.tandem("import moe.json --partial").out,
            "\n# model      46.7 B parameters (46702792704), 12.9 B active (12879925248) "));
  CHECK(!has(box.tandem("import ds_config.json --partial").out, "parameters ("));
}

TEST_CASE("a scenario that names a config.json is simulated as the imported one") {
  const Sandbox box;
  box.file("config.json", kLlama);
  box.file("from.toml",
           "[model]\nfrom = \"config.json\"\n[train]\nflash_attention = true\n"
           "[cluster]\npreset = \"dgx-h100\"\ngpus = 8\n");
  check_done(box.tandem("import config.json --partial --cluster dgx-h100 --gpus 8 -o from2.toml"));
  const Ran from = box.tandem("simulate from.toml --engine ideal");
  CHECK(from.status == 0);
  CHECK(from.err ==
        "warning: from: model.from: assumed: model.seq = 4096, of at most 131072: config.json does "
        "not say what length is trained\n");
  const auto rows = [](const std::string& out) {
    const std::size_t at = out.find(" 8   1   1 ");
    REQUIRE(at != std::string::npos);
    return out.substr(at, out.find('\n', at) - at);
  };
  CHECK(rows(from.out) == rows(box.tandem("simulate from2.toml --engine ideal").out));
  check_refused(box.tandem("sweep from.toml -o config.json"), "-o: found config.json, ");
  CHECK(box.read("config.json") == kLlama);
}

TEST_CASE("a sweep runs again what names a file that has changed, alone or in a list") {
  const Sandbox box;
  const std::string rest = "[cluster]\npreset = \"dgx-h100\"\ngpus = 8\n";
  // Its sequence is assumed, which is a warning.
  const std::string warned = "all.csv: 1 of 1 runs have warnings: see the column warnings\n";
  for (const std::string from : {"\"config.json\"", "[\"config.json\", \"more.json\"]"}) {
    box.file("config.json", kLlama);
    box.file("more.json", "{\"train_batch_size\": 8}");
    box.file("from.toml", "[model]\nfrom = " + from + "\n" + rest);
    const std::string command = "sweep from.toml -o all.csv --engine ideal";
    std::filesystem::remove(box.path("all.csv"));
    CHECK(box.tandem(command).err == warned);
    CHECK(box.tandem(command).err == "all.csv: 1 rows kept, 0 to run\n" + warned);
    // A field that the model does not have.
    box.file("config.json", kLlama.substr(0, kLlama.rfind('}')) + ", \"unheard_of\": 1}");
    CHECK(box.tandem(command).err ==
          "all.csv: 0 rows kept, 1 dropped that no run has (they stay in all.csv.old), 1 to run\n" +
              warned);
  }
}

TEST_CASE("import says how simulate refuses a plan that it writes") {
  const Sandbox box;
  // A mixture of experts, whose tensor ranks and further flags follow.
  const std::string script =
      "torchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py --num-layers 8 --hidden-size 2048 "
      "--num-attention-heads 16 --seq-length 4096 --vocab-size 32000 --num-experts 8 "
      "--moe-grouped-gemm --micro-batch-size 1 --global-batch-size 64 --bf16 \\\n"
      " --tensor-model-parallel-size ";
  box.file("one.sh", script + "1\n");
  box.file("two.sh", script + "2\n");
  const std::string two_of_experts =
      "warning: simulate refuses this plan: two.sh:2: train.sequence_parallel: found false, "
      "expected true for model.experts with parallel.tp = 2\n";
  for (const std::string gpus : {"", " --cluster dgx-h100"})
    CHECK(box.tandem("import two.sh -o two.toml" + gpus).err == two_of_experts);
  check_refused(box.tandem("simulate two.toml"), "two.toml:");
  // An option makes it so: import assumes what the plan needs.
  const std::string own = "import one.sh --cluster dgx-h100 -o one.toml --set ";
  const Ran assumed = box.tandem(own + "parallel.tp=2");
  CHECK(assumed.err.empty());
  CHECK(has(assumed.out, "one.toml: 18 keys; 2 assumed, "));
  CHECK(has(box.read("one.toml"),
            "# assumed: train.sequence_parallel = true: experts need it with parallel.tp = 2 "
            "(--set)\n"));
  check_done(box.tandem("simulate one.toml --engine ideal"));
  CHECK(has(box.tandem(own + "parallel.tp=2 --set train.sequence_parallel=false").err,
            "warning: simulate refuses this plan: --set: train.sequence_parallel: found false, "));
  CHECK(has(box.tandem(own + "parallel.micro_batch=3").err,
            "warning: simulate refuses this plan: one.sh:1: found parallel.global_batch = 64, "));
  // Three microbatches are no rounds of two ranks.
  CHECK(
      has(box.tandem(own + "parallel.pp=2 --set parallel.vpp=2 --set parallel.global_batch=24").err,
          "warning: simulate refuses this plan: --set: order interleaved: "));
}

TEST_CASE("a script's sequence parallelism counts where an option gives it tensor ranks") {
  const Sandbox box;
  box.file("train.sh",
           "torchrun --nproc_per_node 8 --nnodes 1 pretrain_gpt.py --num-layers 8 --hidden-size "
           "2048 --num-attention-heads 16 --seq-length 4096 --vocab-size 32000 "
           "--micro-batch-size 1 --global-batch-size 64 --bf16 --sequence-parallel\n");
  const std::string line = "\nsequence_parallel = true ";
  CHECK(has(box.tandem("import train.sh --set parallel.tp=2").out, line));
  CHECK(!has(box.tandem("import train.sh").out, line));
}

TEST_CASE("what cannot be imported is refused in one line, and nothing is written") {
  const Sandbox box;
  box.file("config.json", kLlama);
  box.file("bad.json", "{\"model_type\": \"llama\",\n \"hidden_size\": \"wide\"}");
  check_refused(box.tandem("import bad.json -o out.toml"),
                "bad.json:2: found hidden_size = wide, expected an integer from 1 to 1000000000");
  check_refused(box.tandem("import config.json bad.json -o out.toml"), "bad.json:2: ");
  check_refused(box.tandem("import none.json -o out.toml"), "none.json: ");
  check_refused(box.tandem("import config.json --cluster nowhere -o out.toml"), "");
  check_refused(box.tandem("import config.json --partial --set seq=1 -o out.toml"),
                "--set: found 'seq'");
  check_refused(box.tandem("import config.json -o config.json"), "");
  CHECK(box.files() == Names{"bad.json", "config.json"});
}

TEST_CASE("the best plan is emitted as flags that import reads back") {
  const Sandbox box;
  box.file("config.json", kLlama);
  check_done(
      box.tandem("import config.json --partial --cluster dgx-h100 --gpus 16 "
                 "--set parallel.global_batch=64 -o llama.toml"));
  const std::string tune =
      "tune llama.toml --engine ideal --keep 1 --among parallel.tp=4 --among parallel.pp=1,2 "
      "--among parallel.cp=1 --among parallel.micro_batch=1 --emit ";
  const Ran printed = box.tandem(tune + "megatron");
  check_done(printed);
  CHECK(printed.out.find("    --tensor-model-parallel-size 4\n") != std::string::npos);
  check_done(box.tandem(tune + "megatron -o plan.sh"));
  CHECK(box.read("plan.sh") == printed.out);
  const Ran again = box.tandem("import config.json plan.sh --cluster dgx-h100 -o again.toml");
  check_done(again);
  check_done(box.tandem("simulate again.toml --engine ideal"));
  check_refused(box.tandem(tune + "megaton"), "--emit: found 'megaton', expected one of");
  check_refused(box.tandem("tune llama.toml -o plan.sh"),
                "found --output, expected --emit with it");
}
