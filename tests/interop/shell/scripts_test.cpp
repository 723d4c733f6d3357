// Launch scripts are read as bash runs them, and what they do not say is not made up.
#include <catch2/catch.hpp>

#include "interop/plan/understood.h"
#include "interop/shell/shell.h"
#include "tests/interop/imported.h"

using namespace tandem;

namespace {

using Words = std::vector<std::string>;

Words words_of(const std::string& script) {
  const auto parsed = parse_shell(script, "a.sh");
  if (!parsed.ok()) FAIL(parsed.error().text());
  Words words;
  for (const ShellWord& word : parsed->commands.back()) words.push_back(word.text);
  return words;
}

const std::string kGpt =
    " pretrain_gpt.py --num-layers 16 --hidden-size 1024 --num-attention-heads 16 --seq-length "
    "2048 --vocab-size 32000 --micro-batch-size 1 --global-batch-size 64 --bf16 ";

ImportedPlan script(const std::string& text) { return imported("train.sh", text); }

}  // namespace

TEST_CASE("an empty array between quotes is no word, and the switch before it keeps its meaning") {
  CHECK(words_of("E=()\nrun \"${E[@]}\" --a \"$@\" \"${E[@]}\" b\n") == Words{"run", "--a", "b"});
  CHECK(words_of("E=()\nrun \"\" \"x${E[@]}\" \"$UNSET\"\n") == Words{"run", "", "x", "${UNSET}"});
  for (const std::string rest :
       {"\"$@\"", "${@}", "$EXTRA", "\"$EXTRA\"", "\"${EXTRA[@]}\"", "\"${EXTRA[@]:-}\"", "$1"}) {
    INFO(rest);
    const Keys keys =
        keys_of(script("torchrun" + kGpt + "--use-distributed-optimizer --swiglu " + rest + "\n"));
    CHECK(keys.at("train.zero") == "1");
    CHECK(keys.at("model.gated_mlp") == "true");
    CHECK(keys_of(script("torchrun" + kGpt + "--swiglu --disable-bias-linear " + rest + "\n")) ==
          keys_of(script("torchrun" + kGpt + "--swiglu --disable-bias-linear\n")));
  }
}

TEST_CASE("a variable without a value behind a switch is listed, as it may hold further flags") {
  for (const std::string flag : {"--swiglu", "--disable-bias-linear", "--no-rope-fusion"}) {
    const ImportedPlan plan = script("torchrun" + kGpt + flag + " $EXTRA\n");
    REQUIRE(plan.not_understood.size() == 1);
    CHECK(has(plan.not_understood[0], flag + " ${EXTRA}: that has no value there"));
  }
}

TEST_CASE("a pattern is one between double brackets only") {
  const auto branch = [](const std::string& condition) {
    return words_of("A=aws-h100\nif " + condition + "; then X=1; else X=2; fi\nrun $X\n").back();
  };
  CHECK(branch("[[ $A != aws* ]]") == "2");
  CHECK(branch("[[ $A == *h100 ]]") == "1");
  CHECK(branch("[[ $A != gcp* ]]") == "1");
  CHECK(branch("[ $A = aws* ]") == "2");
  // Not decided: both branches are read in order.
  CHECK(parse_shell("A=b\nif [[ $A == [ab] ]]; then X=1; fi\n", "a.sh")->branches ==
        std::vector<int>{2});
}

TEST_CASE("a document in a script takes its own lines, and no word of another") {
  CHECK(words_of("cat <<EOF > hosts && P=4\n--no 1\nEOF\nrun $P\n") == Words{"run", "4"});
  CHECK(words_of("cat <<-'A' <<B\n--no 1\n\tA\n--no 2\nB\nrun 1\n") == Words{"run", "1"});
  const std::string dos = "N=24\r\ncat <<EOF\r\n--no\r\nEOF\r\nrun --n $N\\\r\n --m 1\r\n";
  CHECK(words_of(dos) == Words{"run", "--n", "24", "--m", "1"});
}

TEST_CASE("a command's parentheses in quotes, comments and documents do not end it") {
  for (const std::string inside : {"a | cut -d '(' -f 1", "a \"(\" '\"' \")\"", "a \\( \\'",
                                   "a \"$(b '(' \"(\")\"", "a # don't (\n", "cat <<E\ndon't (\nE\n",
                                   "cat <<-'E'\n\t)\n\tE\n", "a <<< '('\n", "a $((1 << 2))\n"}) {
    INFO(inside);
    CHECK(words_of("A=$(" + inside + ")\nrun \"$A\" 2\n") ==
          Words{"run", "$(" + inside + ")", "2"});
  }
  CHECK(parse_shell("A=$(a '('\nrun \"it's\"\n(", "a.sh").error().text() ==
        "a.sh:1: found ( without its end, expected )");
}

TEST_CASE("the words of eval are read once more, as bash does") {
  const auto commands_of = [](const std::string& text) {
    const auto script = parse_shell(text, "a.sh");
    REQUIRE(script.ok());
    std::vector<Words> commands;
    for (const ShellCommand& command : script->commands) commands.push_back(word_texts(command, 0));
    return commands;
  };
  CHECK(commands_of(R"(C="run E\|\(L --a 'b c' '(' \$D"
D=4
eval $C 2>&1 | tee log
)") == std::vector<Words>{{"run", "E|(L", "--a", "b c", "(", "4"}, {"tee", "log"}});
  CHECK(commands_of("A=1\neval 'A=3 && run $A $B'\nrun $A\n") ==
        std::vector<Words>{{"run", "3", "${B}"}, {"run", "3"}});
  CHECK(parse_shell("W=2 eval 'run'\n", "a.sh")->environments.back().at("W").words == Words{"2"});
  // Words that are not known or no commands stay as they are.
  CHECK(commands_of("eval \"$C\"\neval \"it's\"\neval 'run <a>'\n") ==
        std::vector<Words>{{"eval", "${C}"}, {"eval", "it's"}, {"eval", "run <a>"}});
  const Keys keys = keys_of(script("A=(" + kGpt + R"(--pipeline-model-parallel-size 2
  --pipeline-model-parallel-layout 'E\|\(tt\|\)*8L')
C="torchrun --nproc-per-node 8 ${A[@]}"
eval $C
)"));
  CHECK(keys.at("parallel.pp") == "2");
  CHECK(keys.at("parallel.vpp") == "5");  // 10 stages: E, 8 of two layers, L
}

TEST_CASE("assignments do what bash does: to arrays, by let, and none where the value is unknown") {
  CHECK(words_of("A=(a b)\nA+=c\nrun ${A[@]}\n") == Words{"run", "ac", "b"});
  CHECK(words_of("let N=2*2 M=N+1\n((G = N * 8))\nrun $N $M $G\n") == Words{"run", "4", "5", "32"});
  CHECK(words_of("N=4\n((N = OTHER * 2))\nrun $N\n") == Words{"run", "${N}"});
  CHECK(words_of("T=2\nwhile [[ $# -gt 0 ]]; do T=$1; shift; done\nrun $T\n") == Words{"run", "2"});
}

TEST_CASE("a function's body is run where it is called, with its arguments and local variables") {
  CHECK(words_of("a() { N=1; }\nb() { N=2; }\na\nrun $N\n") == Words{"run", "1"});
  CHECK(words_of("f() {\n  local N=$1\n  M=$((N * $2)); shift; R=\"$@\"\n}\nN=5\nf 3 4 y\n"
                 "run $N $M $R\n") == Words{"run", "5", "12", "4", "y"});
  CHECK(words_of("function f\n{\n  N=2\n}\ng() ( N=3 )\nN=1\nf\ng\nrun $N\n") == Words{"run", "2"});
  CHECK(words_of("f() { if [ $1 = a ]; then N=1; return; fi; N=2; }\nf a\nrun $N\n") ==
        Words{"run", "1"});
  CHECK(words_of("f() { case $1 in a) N=1 ;; *) N=2 ;; esac }\nf b\nrun $N ${#}\n") ==
        Words{"run", "2", "0"});
  CHECK(words_of("f() { f; }\nf\nrun $(($1 * 8))\n") == Words{"run", "$(($1 * 8))"});
  CHECK(words_of("f() { run $1; }\nif ! f 3; then exit 1; fi\n") == Words{"run", "3"});
  CHECK(words_of("f() { [ -z \"$1\" ] && exit; run $1; }\nf \"$@\"\n") == Words{"run", "${1}"});
  CHECK(refusal("train.sh", "A='--num-layers 4'\nf() { torchrun pretrain_gpt.py $A; }\n$1\n") ==
        "train.sh:2: found no training, but the function f, which is not called here: call it with "
        "its arguments");
  CHECK(parse_shell("f() {\n  run\n", "a.sh").error().text() ==
        "a.sh:1: found a function without its end, expected }");
}

TEST_CASE("a function's body may end behind a loop or group, and run in a pipeline") {
  CHECK(words_of("f() { for i in 1; do TP=4; done }\nf\nrun $TP\n") == Words{"run", "4"});
  CHECK(words_of("f() { { TP=4; } }\nf\nrun $TP\n") == Words{"run", "4"});
  CHECK(words_of("TP=2\nf() { TP=4; }\nf | tee log\nrun $TP\n").back() == "2");
  CHECK(words_of("TP=2\n! test -z \"$TP\" || TP=4\nrun $TP\n") == Words{"run", "2"});
  CHECK(words_of("TP=4\nif ! (( TP == 4 )); then TP=8; fi\nrun $TP\n") == Words{"run", "4"});
  CHECK(words_of("TP=4\n! (( TP > 4 )) && TP=8\nrun $TP\n") == Words{"run", "8"});
}

TEST_CASE("what stands behind an exit is not run, and checks of what is not known are no exit") {
  CHECK(words_of("run 1\nexit 0\nrun 2\n") == Words{"run", "1"});
  CHECK(words_of("A=1\nif [ $A = 1 ]; then run 1; exit; fi\nrun 2 'a\n") == Words{"run", "1"});
  for (const std::string check :
       {"[ -z $U ] && exit 1", "[ -z \"$U\" ] && { echo no; exit 1; }", "cd x || exit 1",
        "cd x || { echo no; exit 1; }", "if [ $# -lt 1 ]; then exit 1; fi", "(exit 1)",
        "if check; then exit; fi", "u() { exit 1; }\n[ -z \"$U\" ] && u",
        "if [ -z \"$*\" ]; then exit 1; fi", "case $# in 0) exit ;; esac",
        "D=${1:-}\nif [ -z $D ]; then exit 1; fi"}) {
    INFO(check);
    CHECK(words_of(check + "\nrun 2\n") == Words{"run", "2"});
  }
  CHECK(parse_shell("A=1\n[ $A = 1 ] && exit 1\n", "a.sh")->checks == std::vector<int>{2});
  CHECK(has(refusal("train.sh", "exit 0\ntorchrun" + kGpt + "\n"),
            "train.sh:1: found exit before Megatron-LM's flags"));
}

TEST_CASE("assignments end with the command, the subshell or the function that they are for") {
  CHECK(words_of("T=2\nT=8 bash x.sh\nrun $T\n") == Words{"run", "2"});
  CHECK(words_of("T=2\nT=8 run $T\n") == Words{"run", "2"});
  CHECK(parse_shell("W=8 run\n", "a.sh")->environments.back().at("W").words == Words{"8"});
  CHECK(words_of("T=2\n(T=8; echo hi)\nrun $T\n") == Words{"run", "2"});
  CHECK(words_of("T=2\nf() { local T=8; }\nf\nrun $T\n") == Words{"run", "2"});
  CHECK(words_of("T=2\ndiff <(T=3) <(T=4)\nrun $T\n") == Words{"run", "2"});
  CHECK(words_of("T=2\n(for a in x y; do T+=$a; done)\nrun $T\n") == Words{"run", "2"});
  CHECK(words_of("T=2\nunset T\nrun ${T:-8}\n") == Words{"run", "8"});
  CHECK(words_of("T=8\nread T P <<< '2 4'\nrun $T\n") == Words{"run", "${T}"});
  CHECK(words_of("A=0\n[ $A = 1 ] && export X=b\nrun 1\n") == Words{"run", "1"});
  CHECK(words_of("A=0 X=a\n[ $A = 1 ] && { X=b; Y=b; }\nrun $X\n") == Words{"run", "a"});
}

TEST_CASE("conditions on parts of a value and on quoted patterns are not guessed") {
  CHECK(words_of("F=TRUE\nif [ \"${F,,}\" = true ]; then X=1; fi\nrun $X ${F,,} ${F^^}\n") ==
        Words{"run", "1", "true", "TRUE"});
  CHECK(words_of("A=1 X=a\n! [ $A = 1 ] && X=b\nrun $X\n") == Words{"run", "a"});
  CHECK(words_of("A=1\nif ! [ $A = 1 ]; then X=a; else X=b; fi\nrun $X\n") == Words{"run", "b"});
  CHECK(words_of("if [ x$U = x ]; then X=1; else X=2; fi\nrun $X\n") == Words{"run", "1"});
  for (const std::string condition : {"[[ $A == \"*c\" ]]", "[ \"${A%.*}\" = b ]"})
    CHECK(parse_shell("A=b.c\nif " + condition + "; then X=1; fi\n", "a.sh")->branches ==
          std::vector<int>{2});
}

TEST_CASE("flags are those of the training, and of several that differ none is chosen") {
  const std::string gpt = "torchrun" + kGpt, other =
                                                 "torchrun tools/run_text_generation_server.py "
                                                 "--tensor-model-parallel-size 8 --fp8-format "
                                                 "hybrid\n";
  const Keys keys = keys_of(script(gpt + "\n"));
  CHECK(keys_of(script(gpt + "\n" + other)) == keys);
  CHECK(keys_of(script(other + gpt + "\n")) == keys);
  CHECK(keys_of(script(gpt + "\nexit 0\n" + gpt + "--fp8-format hybrid\n")) == keys);
  CHECK(keys_of(script(gpt + "--log-interval 5\n" + gpt + "\n")) == keys);
  CHECK(refusal("train.sh", gpt + "--fp8-format hybrid\n" + gpt + "\n") ==
        "train.sh:2: found a training that differs from that of train.sh:1 in --fp8-format, "
        "expected one: remove the other");
  const ImportedPlan loop =
      script("for t in 1 2; do\n" + gpt + "--tensor-model-parallel-size $t\ndone\n");
  CHECK(keys_of(loop).at("parallel.tp") == "2");
  CHECK(mentions(loop.assumed, "the rounds of the loop differ: the last one counts"));
}

TEST_CASE("a size that the script leaves open is asked for, and an earlier one does not count") {
  const auto why = [](const std::string& text) {
    const auto plan = import_sources({{"train.sh", text}});
    REQUIRE(plan.ok());
    return unknown_parts(*plan);
  };
  CHECK(why("torchrun" + kGpt + "--tensor-model-parallel-size 2\n").empty());
  CHECK(why("torchrun" + kGpt + "--tensor-model-parallel-size $TP --global-batch-size $GBS\n") ==
        Words{"the batch: --set parallel.global_batch=N",
              "parallel.tp, which train.sh:1 leaves open as --tensor-model-parallel-size ${TP}",
              "parallel.global_batch, which train.sh:1 leaves open as --global-batch-size ${GBS}"});
  const std::string sized = kGpt + "--tensor-model-parallel-size 2 ", gpus = "torchrun --nnodes ";
  CHECK(
      why("torchrun --nnodes 4 --nproc_per_node 8" + sized + "--global-batch-size $GBS\n").size() ==
      2);
  CHECK(why(gpus + "$N --nproc_per_node 8" + sized + "\n") ==
        Words{"cluster.gpus, which train.sh:1 leaves open as --nnodes ${N}"});
  CHECK(why(gpus + "$(wc -l < hosts) --nproc_per_node 8" + sized + "\n") ==
        Words{"cluster.gpus, which train.sh:1 leaves open as --nnodes $(wc -l < hosts)"});
  for (const auto& [key, flag] : std::map<std::string, std::string>{
           {"model.experts", "--num-experts"},
           {"model.ffn_hidden", "--ffn-hidden-size"},
           {"parallel.vpp", "--num-layers-per-virtual-pipeline-stage"},
           {"parallel.layers_per_stage", "--pipeline-model-parallel-layout"}})
    CHECK(why("torchrun" + sized + flag + " $A --swiglu\n") ==
          Words{key + ", which train.sh:1 leaves open as " + flag + " ${A}"});
  const auto given = import_sources({{"train.sh", gpus + "$N" + sized + "\n"}}, {.gpus = 64});
  REQUIRE(given.ok());
  CHECK(unknown_parts(*given).empty());
  CHECK(why("#!/bin/bash\n#SBATCH --nodes=8-16\n#SBATCH --gpus-per-node=8\nsrun python" + sized +
            "\n") == Words{"cluster.gpus, which train.sh:2 leaves open as --nodes ${8-16}"});
}

TEST_CASE("a share of the optimizer that is left open is asked for where it is offloaded") {
  const std::string run = "torchrun" + kGpt + "--optimizer-offload-fraction $1 ";
  const auto asked = [&](const std::string& more, const ImportOptions& options = {}) {
    const auto plan = import_sources({{"train.sh", run + more + "\n"}}, options);
    if (!plan.ok()) FAIL(plan.error().text());
    return mentions(unknown_parts(*plan),
                    "train.optimizer_offload, which train.sh:1 leaves open as "
                    "--optimizer-offload-fraction ${1}");
  };
  CHECK(asked("--optimizer-cpu-offload"));
  CHECK_FALSE(asked(""));
  CHECK_FALSE(asked("--optimizer-cpu-offload", {.sets = {{"train.optimizer_offload", 0.5}}}));
}

TEST_CASE("GPUs are those that Slurm or mpirun start, where torchrun says nothing") {
  const auto gpus = [](const std::string& text) {
    const Keys keys = keys_of(script(text));
    return keys.contains("cluster.gpus") ? keys.at("cluster.gpus") : "";
  };
  const std::string header = "#!/bin/bash\n#SBATCH --nodes=16\n";
  CHECK(gpus(header + "#SBATCH --gpus-per-node=8\nsrun python -u" + kGpt + "\n") == "128");
  CHECK(gpus(header + "#SBATCH --gres=gpu:h100:4\nsrun python" + kGpt + "\n") == "64");
  CHECK(gpus("srun -N 16 --ntasks-per-node=8 --mpi=pmix python" + kGpt + "\n") == "128");
  CHECK(gpus("srun -n 32 -l python" + kGpt + "\n") == "32");
  CHECK(gpus(header + "#SBATCH --gpus=h100:64\nsrun python" + kGpt + "\n") == "64");
  CHECK(gpus(header + "torchrun --nproc_per_node 4 --nnodes $SLURM_NNODES" + kGpt + "\n") == "64");
  CHECK(gpus("G=24\nmpirun -np $G -x A=1 python" + kGpt + "\n") == "24");
  CHECK(gpus("python" + kGpt + "\n").empty());
  CHECK(gpus(header + "#SBATCH --gres=gpu:8,nvme:1\nsrun python" + kGpt + "\n") == "128");
  CHECK(gpus(header + "#SBATCH --gres=craynetwork:1,gpu:a100:4\nsrun python" + kGpt + "\n") ==
        "64");
  CHECK(gpus(header + "#SBATCH --gres=gpu\nsrun python" + kGpt + "\n") == "16");
  // sbatch reads no options behind the first command.
  CHECK(gpus(header + "A=1\n#SBATCH --nodes=32\nsrun --gpus-per-node 8 python" + kGpt + "\n") ==
        "128");
  // Options and variables of another command do not count.
  const std::string eval = "srun -N 1 --ntasks-per-node=2 python tools/eval.py --x 1\n",
                    train = "srun -N 4 --ntasks-per-node=8 python" + kGpt + "\n";
  CHECK(gpus(eval + train) == "32");
  CHECK(gpus(train + eval) == "32");
  CHECK(gpus("WORLD_SIZE=16 python" + kGpt + "\n") == "16");
  CHECK(gpus("WORLD_SIZE=16 python tools/eval.py\npython" + kGpt + "\n").empty());
  const ImportedPlan guess = script(header + "srun python" + kGpt + "\n");
  CHECK(keys_of(guess).at("cluster.gpus") == "128");
  CHECK(mentions(guess.assumed, "8 GPUs a node"));
  CHECK(script("srun -N 2 --ntasks-per-node=8 --mpi=pmix python" + kGpt + "\n")
            .not_understood.empty());
}

TEST_CASE("Megatron-DeepSpeed's spellings: rmsnorm, key-value heads and the stage") {
  const Keys keys =
      keys_of(script("deepspeed --num_gpus 8 --num_nodes 2" + kGpt +
                     "--swiglu --normalization rmsnorm --num-key-value-heads 4 --deepspeed "
                     "--zero-stage=1\n"));
  CHECK_FALSE(keys.contains("model.norm"));  // RMSNorm is usual with SwiGLU
  CHECK(keys.at("model.kv_heads") == "4");
  CHECK(keys.at("train.zero") == "1");
  CHECK(keys.at("cluster.gpus") == "16");
  CHECK(has(refusal("train.sh", "torchrun" + kGpt + "--normalization Other\n"),
            "expected LayerNorm or RMSNorm"));
}

TEST_CASE("the experts of an earlier config.json count for the script's overlaps") {
  const auto keys = [](const std::string& shared, const std::string& file,
                       const std::string& text) {
    const auto plan = import_sources(
        {{"config.json",
          R"({"model_type": "deepseek_v2", "hidden_size": 2048, "num_hidden_layers": 4,
"num_attention_heads": 16, "num_key_value_heads": 16, "q_lora_rank": 512, "kv_lora_rank": 512,
"qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "intermediate_size": 8192,
"moe_intermediate_size": 1408, "n_routed_experts": 64, "num_experts_per_tok": 6,
"first_k_dense_replace": 1, "vocab_size": 102400, "n_shared_experts": )" +
              shared + "}"},
         {file, text}});
    if (!plan.ok()) FAIL(plan.error().text());
    CHECK(mentions(plan->not_expressed, "tokens are sent in 16 bits") == has(text, "mxfp8"));
    CHECK(mentions(plan->not_understood, "--moe-frobnicate 7") == has(text, "frobnicate"));
    return keys_of(*plan, "overlap.");
  };
  const std::string run =
      "torchrun --nproc_per_node 8 pretrain_gpt.py --seq-length 4096 --micro-batch-size 1 "
      "--global-batch-size 64 --bf16 --expert-model-parallel-size 4 ";
  CHECK(keys("2", "train.sh", run).at("overlap.shared_experts") == "false");
  CHECK(keys("2", "train.sh", run + "--moe-shared-expert-overlap") ==
        Keys{{"overlap.shared_experts", "true"}});
  CHECK(keys("0", "train.sh", run + "--moe-dispatch-fwd-dtype mxfp8").empty());
  CHECK(keys("0", "train.sh", run + "--moe-frobnicate 7").empty());
  const std::string bridge =
      "train: {global_batch_size: 64}\n"
      "model: {tensor_model_parallel_size: 1, expert_model_parallel_size: 4, "
      "moe_shared_expert_overlap: ";
  CHECK(keys("2", "run.yaml", bridge + "false}\n").at("overlap.shared_experts") == "false");
  CHECK(keys("2", "run.yaml", bridge + "true}\n").at("overlap.shared_experts") == "true");
  // The MLP is where fc1 and fc2 are; only shared experts have them in a layer of experts.
  const std::string overlapped =
      run + "--tensor-model-parallel-size 2 --sequence-parallel --tp-comm-overlap";
  CHECK(keys("0", "train.sh", overlapped).at("overlap.gemm.proj_fprop") == "\"pipelined\"");
  CHECK(keys("0", "train.sh", overlapped).count("overlap.gemm.fc2_fprop") == 0);
  CHECK(keys("2", "train.sh", overlapped).at("overlap.gemm.fc2_fprop") == "\"pipelined\"");
}

TEST_CASE("gradients are kept as the optimizer or Megatron-FSDP takes them, in bf16 runs only") {
  const auto dtype = [](const std::string& rest) {
    const Keys keys = keys_of(script("torchrun" + kGpt + rest + "\n"));
    return keys.contains("train.gradient_dtype") ? keys.at("train.gradient_dtype") : "";
  };
  const std::string aware = "--use-precision-aware-optimizer --main-grads-dtype bf16 ";
  CHECK(dtype(aware) == "\"bf16\"");
  CHECK(keys_of(script("torchrun" + kGpt + aware + "--overlap-grad-reduce\n"))
            .at("overlap.bucket_MB") == "80");  // 40 million parameters of 2 bytes
  CHECK(dtype("--main-grads-dtype fp32").empty());
  CHECK(has(refusal("train.sh", "torchrun" + kGpt + "--main-grads-dtype bf16\n"),
            "expected fp32 without use_precision_aware_optimizer"));
  CHECK(
      has(refusal("train.sh", "torchrun" + kGpt + aware + "--accumulate-allreduce-grads-in-fp32\n"),
          "expected fp32 beside accumulate_allreduce_grads_in_fp32"));
  const std::string fsdp = "--use-megatron-fsdp ";
  CHECK(dtype(fsdp) == "\"bf16\"");  // as its weights
  const auto is_assumed = [](const std::string& rest) {
    return mentions(script("torchrun" + kGpt + rest + "\n").assumed,
                    "releases before March 2026 keep fp32");
  };
  CHECK(is_assumed(fsdp));
  CHECK_FALSE(is_assumed(fsdp + "--megatron-fsdp-main-grads-dtype auto"));
  CHECK_FALSE(is_assumed("--use-custom-fsdp"));
  CHECK_FALSE(mentions(imported("run_config.yaml",
                                "model: {tensor_model_parallel_size: 1}\n"
                                "train: {global_batch_size: 8}\n"
                                "ddp: {use_megatron_fsdp: true, "
                                "megatron_fsdp_main_grads_dtype: null}\n")
                           .assumed,
                       "releases before March 2026"));
  CHECK(dtype("--use-custom-fsdp").empty());  // older, and as without FSDP: fp32
  CHECK(dtype("--use-custom-fsdp --grad-reduce-in-bf16") == "\"bf16\"");
  CHECK(dtype("--use-torch-fsdp2") == "\"bf16\"");
  CHECK(dtype(fsdp + "--megatron-fsdp-main-grads-dtype fp32").empty());
  CHECK(mentions(script("torchrun" + kGpt + fsdp +
                        "--megatron-fsdp-main-grads-dtype fp32 "
                        "--megatron-fsdp-grad-comm-dtype bf16\n")
                     .not_expressed,
                 "gradients are sent as they are kept"));
  std::string fp32 = kGpt;
  fp32.erase(fp32.find("--bf16"), 6);
  const Keys keys = keys_of(script("torchrun" + fp32 + "--grad-reduce-in-bf16\n"));
  CHECK_FALSE(keys.contains("train.gradient_dtype"));
}

TEST_CASE("Megatron-FSDP and FSDP2 overlap what they shard, without the flags of overlap") {
  const auto overlaps = [](const std::string& rest) {
    const Keys keys = keys_of(script("torchrun" + kGpt + rest + "\n"));
    return std::pair(keys.contains("overlap.grad_reduce"), keys.contains("overlap.param_gather"));
  };
  const std::string strategy = "--use-megatron-fsdp --data-parallel-sharding-strategy ";
  CHECK(overlaps("--use-megatron-fsdp") == std::pair(true, true));  // optim_grads_params
  CHECK(overlaps(strategy + "optim_grads") == std::pair(true, false));
  CHECK(overlaps(strategy + "optim") == std::pair(false, false));
  CHECK(overlaps("--use-torch-fsdp2") == std::pair(true, true));
  CHECK(overlaps("--use-distributed-optimizer") == std::pair(false, false));
  // Megatron-Bridge's default gathers count beside forced reductions, and are said to.
  const auto assumed = [](const std::string& fields) {
    return imported("run_config.yaml",
                    "model: {tensor_model_parallel_size: 1}\ntrain: {global_batch_size: 8}\n"
                    "ddp: {use_megatron_fsdp: true, " +
                        fields + "}\n",
                    8)
        .assumed;
  };
  const std::string sums = "data_parallel_sharding_strategy: optim_grads",
                    line = "overlap.param_gather: on in Megatron-Bridge with dp > 1";
  CHECK(mentions(assumed(sums), line));
  CHECK_FALSE(mentions(assumed(sums + ", overlap_param_gather: false"), line));
  CHECK_FALSE(mentions(assumed("data_parallel_sharding_strategy: optim_grads_params"), line));
}

TEST_CASE("a share or a type that is none is refused, and not taken as another") {
  const auto why = [](const std::string& rest) {
    return refusal("train.sh", "torchrun" + kGpt + rest + "\n");
  };
  CHECK(has(why("--optimizer-cpu-offload --optimizer-offload-fraction 50%"),
            "found --optimizer-offload-fraction 50%, expected a number"));
  CHECK(has(why("--optimizer-cpu-offload --optimizer-offload-fraction -3"), "from 0 to 1"));
  CHECK(has(why("--use-precision-aware-optimizer --exp-avg-dtype int4 --exp-avg-sq-dtype int4"),
            "found --exp-avg-dtype int4, expected fp32, bf16, fp16 or fp8"));
}

TEST_CASE("DeepSpeed: an offloaded optimizer, and gradients that are kept in fp32") {
  const auto keys = [](const std::string& fields, const std::string& zero) {
    return keys_of(imported("ds.json", "{\"bf16\": {\"enabled\": true}, " + fields +
                                           "\"zero_optimization\": {\"stage\": 2" + zero + "}}"));
  };
  CHECK(keys("", R"(, "offload_optimizer": {"device": "cpu"})").at("train.optimizer_offload") ==
        "1");
  // The ratio counts in stage 3 alone (defaults_test.cpp).
  CHECK(keys("", R"(, "offload_optimizer": {"device": "cpu", "ratio": 0.5})")
            .at("train.optimizer_offload") == "1");
  CHECK_FALSE(
      keys("", R"(, "offload_optimizer": {"device": "none"})").contains("train.optimizer_offload"));
  CHECK(keys("", "").at("train.gradient_dtype") == "\"bf16\"");
  CHECK(keys(R"("data_types": {"grad_accum_dtype": "fp32"}, )", "").at("train.gradient_dtype") ==
        "\"fp32\"");
}

TEST_CASE("what one file assumes and another one states is no assumption") {
  const std::string config = R"({"model_type": "llama", "hidden_size": 1024,
"num_hidden_layers": 16, "num_attention_heads": 16, "intermediate_size": 4096,
"vocab_size": 32000, "max_position_embeddings": 4096})";
  const auto one = import_sources({{"config.json", config}});
  REQUIRE(one.ok());
  CHECK(mentions(one->assumed, "model.seq = 4096"));
  const ImportSource trainer{
      "train.yaml", "finetuning_type: full\ncutoff_len: 8192\nper_device_train_batch_size: 1\n"};
  for (const auto& sources : {std::vector<ImportSource>{{"config.json", config}, trainer},
                              {trainer, {"config.json", config}}}) {
    const auto both = import_sources(sources);
    REQUIRE(both.ok());
    CHECK(keys_of(*both).at("model.seq") == "8192");
    CHECK_FALSE(mentions(both->assumed, "model.seq ="));
  }
}

namespace {

// Experts in 8 groups, and the rest of a plan, as the flags of one script or of two.
const std::string kExperts =
    "--num-experts 8 --moe-router-topk 2 --moe-grouped-gemm "
    "--moe-shared-expert-intermediate-size 512 ";
const std::string kSizes =
    "--tensor-model-parallel-size 1 --pipeline-model-parallel-size 1 "
    "--expert-model-parallel-size 8 --micro-batch-size 1 --global-batch-size 64 --seq-length 2048 "
    "--bf16 ";

ImportSource model_script(const std::string& flags) {
  return {"models/m.sh",
          "MODEL_ARGS=(--num-layers ${LAYERS:-16} --hidden-size 1024 --num-attention-heads 16 "
          "--swiglu --vocab-size 32000 " +
              kExperts + flags + ")\n"};
}

Keys keys_of_files(const std::vector<ImportSource>& sources) {
  const auto plan = import_sources(sources);
  if (!plan.ok()) FAIL(plan.error().text());
  return keys_of(*plan);
}

}  // namespace

TEST_CASE("a script that is sourced stands in its place, as if both were one file") {
  const auto run = [](const std::string& source, const std::string& flags) {
    return ImportSource{"run.sh", source + "\ntorchrun --nproc-per-node 8 pretrain_gpt.py " +
                                      kSizes + "${MODEL_ARGS[@]} " + flags + "\n"};
  };
  const std::string line = "source \"${DIR}/models/m.sh\"";
  const ImportSource model = model_script("--moe-token-dispatcher-type alltoall");
  const Keys one = keys_of_files({{"run.sh", model.text + run("", "").text}});
  CHECK(one.at("parallel.dispatcher") == "\"alltoall\"");
  CHECK(keys_of_files({model, run(line, "")}) == one);
  CHECK(keys_of_files({run(line, ""), model}) == one);
  CHECK(keys_of_files({run(". models/m.sh", ""), model}) == one);
  // The last value of a flag wins.
  CHECK(keys_of_files({model, run(line, "--moe-token-dispatcher-type flex --moe-enable-deepep")})
            .at("parallel.dispatcher") == "\"deepep\"");
  // Variables reach the file, and those of its command end with it.
  const ImportSource short_model = {"short.sh", "LAYERS=4 source models/m.sh\n"};
  const Keys four = keys_of_files({model, short_model, run("source short.sh", "")});
  CHECK(four.at("model.layers") == "4");
  const auto script = parse_shell("A=1\nA=2 . b.sh\nrun $A $B\n", "a.sh", {{"b.sh", "\nB=$A\n"}});
  REQUIRE(script.ok());
  CHECK(word_texts(script->commands.back(), 1) == Words{"1", "2"});
  CHECK(script->variables.at("B").line == 2);  // where b.sh is sourced
  CHECK(script->sourced == Words{"b.sh"});
  CHECK(parse_shell(line, "a.sh", {{"b.sh", "B=(\n"}})->commands.size() == 1);  // another file
  const auto both = import_sources({model, run(line, "")});
  CHECK(mentions(both->sources, "models/m.sh (read by run.sh)"));
  // Errors are of the file that has them.
  const auto wrong = import_sources({{"models/m.sh", "\nA=(\n"}, run(line, "")});
  CHECK(wrong.error().text() == "models/m.sh:2: found an array without its end, expected )");
  const auto ring = parse_shell("source b.sh\n", "a.sh", {{"a.sh", ". b.sh"}, {"b.sh", ". a.sh"}});
  REQUIRE(!ring.ok());
  CHECK(ring.error().text() == "a.sh:1: found 20 files that source one another, expected fewer");
}

TEST_CASE("what a file states goes over the default of one that spreads the experts") {
  const ImportSource run = {"run.sh", "torchrun --nproc-per-node 8 pretrain_gpt.py " + kSizes};
  const auto keys = [&](const std::string& flags) {
    const ImportSource model = model_script(flags);
    const Keys found = keys_of_files({model, run});
    CHECK(keys_of_files({run, model}) == found);
    return found;
  };
  CHECK(keys("").at("parallel.dispatcher") == "\"allgather\"");
  CHECK(keys("--moe-token-dispatcher-type alltoall").at("parallel.dispatcher") == "\"alltoall\"");
  CHECK(keys("--moe-token-dispatcher-type flex --moe-enable-deepep").at("parallel.dispatcher") ==
        "\"deepep\"");
  CHECK(keys("").at("overlap.shared_experts") == "false");
  CHECK(keys("--moe-shared-expert-overlap").at("overlap.shared_experts") == "true");
  CHECK(keys("").at("train.flash_attention") == "true");
  CHECK(keys("--attention-backend unfused").at("train.flash_attention") == "false");
  CHECK(keys("--transformer-impl local").at("train.flash_attention") == "false");
  // Tokens that are sent nowhere have no dispatcher.
  CHECK_FALSE(keys_of(imported("train.sh",
                               "torchrun" + kGpt + kExperts + "--moe-token-dispatcher-type flex\n"))
                  .contains("parallel.dispatcher"));
  // The earlier file says which activation is fused.
  CHECK(keys_of_files({model_script(""), {"run.sh", run.text + "--no-bias-swiglu-fusion\n"}})
            .at("train.fused_bias_gelu") == "false");
}
