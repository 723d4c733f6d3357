// The global batch with which a log measured, beside that of the files that it is read with.
#include <fmt/format.h>

#include "tests/interop/imported.h"

using namespace tandem;

namespace {

// Imports a log beside ds_config.json, or beside a script of Megatron-LM, with 64 sequences an
// iteration of 4096 tokens on 16 GPUs.
ImportedPlan beside(bool deepspeed, const std::string& log) {
  const ImportSource other =
      deepspeed ? ImportSource{"ds.json",
                               R"({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 1,)"
                               R"( "bf16": {"enabled": true}, "zero_optimization": {"stage": 3}})"}
                : ImportSource{"run.sh",
                               "python pretrain_gpt.py --num-layers 4 --hidden-size 256 --bf16 "
                               "--num-attention-heads 4 --seq-length 4096 --micro-batch-size 1 "
                               "--global-batch-size 64\n"};
  const auto plan = import_sources({other, {"train.log", log}}, {.gpus = 16});
  if (!plan.ok()) FAIL(plan.error().text());
  return *plan;
}

std::string deepspeed_log(int batch) {
  std::string log = fmt::format(
      "[2024-03-07 15:01:01,646] [INFO] [config.py:1001:print]   train_batch_size ............. "
      "{}\n"
      "[2024-03-07 15:01:01,646] [INFO] [config.py:1001:print]   world_size ................... "
      "16\n",
      batch);
  for (int step = 10; step <= 100; step += 10)
    log += fmt::format("epoch=0/micro_step={0}/global_step={0}, CurrSamplesPerSec=12.8\n", step);
  return log;
}

std::string titan_log(int batch, int seq) {
  std::string log = fmt::format(
      "[titan] Trainer is initialized with local batch size 1, global batch size {}, gradient "
      "accumulation steps 8, sequence length {}, total steps 8000 (warmup 200)\n",
      batch, seq);
  for (int step = 10; step <= 100; step += 10)
    log +=
        fmt::format("[titan] step: {}  loss:  6.1  memory: 49.66GiB(52.28%)  tps: 4,096\n", step);
  return log;
}

// A progress bar of NeMo 1, whose first step compiles.
std::string nemo_log(int batch) {
  std::string log;
  for (int step = 0; step < 10; ++step)
    log +=
        fmt::format("Epoch 0: global_step={}.0, consumed_samples={}.0, train_step_timing in s={}\r",
                    step, batch * (step + 1), step == 0 ? "120.000" : "3.000");
  return log;
}

}  // namespace

TEST_CASE("a log measures the batch that it states: of another one than the job's nothing counts") {
  CHECK(beside(true, deepspeed_log(64)).measured.iteration_s.value() == Approx(5));
  CHECK(beside(false, titan_log(64, 4096)).measured.iteration_s.value() ==
        Approx(64.0 * 4096 / (4096 * 16)));
  CHECK(beside(false, nemo_log(64)).measured.iteration_s.value() == Approx(3));
  for (const ImportedPlan& plan :
       {beside(true, deepspeed_log(256)), beside(false, titan_log(256, 4096)),
        beside(false, nemo_log(256))}) {
    CHECK(!plan.measured.any());
    CHECK(plan.left_out ==
          std::vector<std::string>{"train.log: the times of 10 iterations whose global batch size, "
                                   "such as 256, is not 64"});
  }
  CHECK(beside(false, titan_log(64, 8192)).left_out ==
        std::vector<std::string>{"train.log: the times of 10 iterations whose sequence length, "
                                 "such as 8192, is not 4096"});
}
