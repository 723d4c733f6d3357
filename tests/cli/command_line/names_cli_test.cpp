// What users type first: help, a scenario's name, another tool's file, a script as it is.
#include <catch2/catch.hpp>

#include "tests/sandbox.h"

using namespace tandem;
using Catch::Contains;

TEST_CASE("tandem help COMMAND is tandem COMMAND --help") {
  const Sandbox box;
  for (const std::string command : {"", "size", "bench", "bench comm"}) {
    const Ran ran = box.tandem("help " + command);
    check_done(ran);
    CHECK(ran.out == box.tandem(command + " --help").out);
  }
  check_refused(box.tandem("help siz"), "found the command 'siz', expected one of ");
}

TEST_CASE("a scenario that Tandem brings is found by its name, from any folder") {
  const Sandbox box;
  const std::string options = " --only '1.7B, selene' --engine ideal --wide";
  const std::string whole = std::string(TANDEM_SOURCE_DIR) + "/scenarios/megatron-sc21.toml";
  const Ran by_path = box.tandem("simulate '" + whole + "'" + options);
  for (const std::string name : {"megatron-sc21", "megatron-sc21.toml"}) {
    const Ran ran = box.tandem("simulate " + name + options);
    CHECK(ran.status == 0);
    CHECK(ran.out == by_path.out);
    CHECK(box.tandem("topology " + name).out == box.tandem("topology '" + whole + "'").out);
    CHECK(box.tandem("schedule " + name + " --only '1.7B, selene'").status == 0);
  }
  check_refused(box.tandem("simulate megatron-sc22"), "megatron-sc22: no such file, expected");
  check_refused(box.tandem("simulate x/megatron-sc21"), "x/megatron-sc21: no such file, expected");
  // A file here goes before it.
  box.file("megatron-sc21.toml", kTwoStages);
  const Ran own = box.tandem("simulate megatron-sc21.toml --engine ideal --wide");
  CHECK(own.status == 0);
  CHECK(own.out != by_path.out);
}

TEST_CASE("another tool's file in a scenario's place points to import") {
  const Sandbox box;
  box.file("config.json",
           R"({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, )"
           R"("num_attention_heads": 4, "vocab_size": 128, "intermediate_size": 256})");
  box.file("train.sh",
           "torchrun pretrain_gpt.py --num-layers 2 --hidden-size 64 "
           "--num-attention-heads 4 --seq-length 32\n");
  for (const std::string name : {"config.json", "train.sh"}) {
    for (const char* command : {"simulate ", "tune ", "size ", "run "}) {
      INFO(command << name);
      check_refused(box.tandem(command + name),
                    name +
                        ": found a file of another tool, expected a scenario (TOML): tandem "
                        "import " +
                        name + " ");
    }
  }
  box.file("bad.toml", "[model\n");
  check_refused(box.tandem("simulate bad.toml"), "bad.toml:1: found text that is not TOML");
  box.file("bad.json", "{\"a\": 1}");
  check_refused(box.tandem("simulate bad.json"), "bad.json:1: found text that is not TOML");
}

TEST_CASE("a script whose nodes its caller sets says how many GPUs it needs at least") {
  const Sandbox box;
  box.file("train.sh",
           "NNODES=1\n"
           "torchrun --nproc_per_node 8 --nnodes $NNODES pretrain_gpt.py --num-layers 8 "
           "--hidden-size 64 --num-attention-heads 4 --seq-length 32 "
           "--max-position-embeddings 32 --micro-batch-size 1 --global-batch-size 64 "
           "--pipeline-model-parallel-size 8 --num-experts 8 --moe-ffn-hidden-size 64 "
           "--expert-model-parallel-size 8 --vocab-size 128\n");
  const Ran ran = box.tandem("import train.sh -o train.toml --cluster dgx-h100");
  check_refused(ran, "train.sh: found 8 GPUs (nodes x GPUs a node), expected a multiple of 64");
  CHECK_THAT(ran.err, Contains("give --gpus 64\n"));
  CHECK(box.files() == Names{"train.sh"});
  check_refused(box.tandem("import train.sh -o train.toml --cluster dgx-h100 --gpus 96"),
                "--gpus: found 96 GPUs");
  CHECK(box.tandem("import train.sh -o train.toml --cluster dgx-h100 --gpus 64").status == 0);
  CHECK(box.tandem("simulate train.toml --engine ideal").status == 0);
}
