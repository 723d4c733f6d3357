// A log's arguments beside a scenario's job: which differences make it another job's log.
#include <catch2/catch.hpp>

#include "tests/folder.h"
#include "tests/interop/small_log.h"
#include "validation/explain/log_arguments.h"

using namespace tandem;
using Catch::Contains;

namespace {

// Compares a log with the job that kSmallLog's arguments state, but for this setting.
Result<std::string> compared(const std::string& log, const std::string& set = "") {
  const Folder folder;
  folder.with("train.log", kSmallLog);
  auto sets = parse_sets(set.empty() ? std::vector<std::string>() : std::vector{set});
  REQUIRE(sets.ok());
  const auto job = load_scenarios(
      folder.with("job.toml", "parallel.from = \"train.log\"\ncluster.preset = \"dgx-h100\"\n"),
      *sets);
  INFO((job.ok() ? "" : job.error().text()));
  REQUIRE(job.ok());
  return compare_arguments("train.log", log, last_run(log), job_values(job->front()));
}

// Returns kSmallLog with this argument and value in place of its own, or beside them.
std::string with_argument(const std::string& name, const std::string& value) {
  std::string log = kSmallLog;
  const std::string line = "  " + name + " .... " + value + "\n";
  const std::size_t at = log.find("  " + name + " .");
  if (at == std::string::npos) return log.insert(log.find("  lr ..."), line);
  return log.replace(at, log.find('\n', at) + 1 - at, line);
}

}  // namespace

TEST_CASE("a log with the scenario's arguments agrees, whatever words they are in") {
  for (const char* set : {"", "model.vocab=128256", "parallel.global_batch=64",
                          "train.recompute_modules=\"core_attn\""}) {
    INFO(set);
    const auto found = compared(kSmallLog, set);
    REQUIRE(found.ok());
    CHECK(found->empty());
  }
  // Lines alone are compared elsewhere.
  const auto none = compared(iteration_line(1, "9000.0", "50.0"), "train.precision=\"fp16\"");
  REQUIRE(none.ok());
  CHECK(none->empty());
  const auto unread = compared(with_argument("recompute_granularity", "some"));
  REQUIRE(unread.ok());
  CHECK_THAT(*unread, Contains("not compared with the scenario: train.log:"));
}

TEST_CASE("a log that states another setting than the scenario's is another job's") {
  struct Case {
    std::string name, value, found;
  };
  for (const auto& [name, value, found] :
       std::vector<Case>{{"recompute_granularity", "full", "train.recompute = \"full\""},
                         {"fp8", "hybrid", "train.precision = \"fp8\""},
                         {"use_distributed_optimizer", "False", "train.zero = 0"},
                         {"virtual_pipeline_model_parallel_size", "4", "parallel.vpp = 4"},
                         {"sequence_parallel", "False", "train.sequence_parallel = false"},
                         {"ffn_hidden_size", "11008", "model.ffn_hidden = 11008"},
                         {"num_query_groups", "32", "model.kv_heads = 32"},
                         {"group_query_attention", "False", "model.kv_heads = 32"},
                         {"num_attention_heads", "64", "model.heads = 64"},
                         {"swiglu", "False", "model.gated_mlp = false"},
                         {"overlap_grad_reduce", "False", "overlap.grad_reduce = false"},
                         {"num_experts", "8", "model.experts = 8"},
                         {"world_size", "32", "cluster.gpus = 32"}}) {
    INFO(name);
    const auto result = compared(with_argument(name, value));
    REQUIRE(!result.ok());
    CHECK_THAT(result.error().text(), Contains(found + ", expected the scenario's "));
  }
  const auto fp16 = compared(kSmallLog, "train.precision=\"fp16\"");
  REQUIRE(!fp16.ok());
  CHECK(fp16.error().text() ==
        "train.log:5: found train.precision = \"bf16\", expected the scenario's \"fp16\": a log of "
        "another job");
  const auto full = compared(kSmallLog, "train.recompute=\"full\"");
  REQUIRE(!full.ok());
  CHECK_THAT(full.error().text(),
             Contains("train.log: found arguments that leave train.recompute = \"none\""));
}

TEST_CASE("a log in which DeepSpeed names another stage of ZeRO is doubted") {
  const auto doubt = [](const std::string& stage, const std::string& set) {
    const std::string line =
        "[2024-03-07 15:01:01,646] [INFO] [config.py:1001:print]   zero_optimization_stage "
        "...... " +
        stage + "\n";
    std::string steps;
    for (int step = 1; step <= 9; ++step)
      steps +=
          "epoch=0/micro_step=1/global_step=" + std::to_string(step) + ", CurrSamplesPerSec=12.8\n";
    const auto found = compared(line + steps, set);
    REQUIRE(found.ok());
    return *found;
  };
  CHECK(doubt("1", "").empty());
  CHECK(doubt("3", "train.zero=3").empty());
  CHECK(doubt("3", "") ==
        "train.log:1: found zero_optimization_stage = 3, and the scenario's train.zero is 1: "
        "perhaps a log of another job.");
  CHECK_THAT(doubt("0", ""), Contains("zero_optimization_stage = 0"));
}
