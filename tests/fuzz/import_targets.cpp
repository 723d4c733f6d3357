// Other tools' files: models, training plans, topologies, Chakra traces, profiles.
#include <algorithm>

#include "interop/chakra/chakra_file.h"
#include "interop/import.h"
#include "interop/log/comm_log.h"
#include "interop/topology/topologies.h"
#include "scenarios/scenario.h"
#include "scenarios/setting.h"
#include "tests/fuzz/targets.h"
#include "tests/interop/made_comm_log.h"
#include "traces/profile/kineto_reader.h"
#include "traces/profile/nsight_reader.h"

namespace tandem {
namespace {

// Seeds in files, each of a target: tests/fuzz/seeds/NAME.KIND.
std::vector<std::string> seeds_of(const char* kind) {
  return texts_of("tests/fuzz/seeds", std::string(".") + kind);
}

// What is imported becomes a scenario's text that can be read; what it says may be refused.
void run_plan(const FuzzInput& input) {
  const auto imported = import_sources({{input.path, input.text}});
  const ImportedPlan* plan = accepted(imported);
  if (plan == nullptr) return;
  const auto file = parse_scenario(scenario_text(*plan), "imported.toml", true);
  promise(file.ok(), "an import is a scenario: " + (file.ok() ? "" : file.error().text()));
  const auto scenarios = load_scenarios(*file);
  if (!scenarios.ok()) promise_refusal(scenarios.error());
}

void run_topology(const FuzzInput& input) {
  const auto imported = import_topology({{input.path, input.text}});
  if (const ImportedTopology* topology = accepted(imported)) preset_of(*topology);
}

std::vector<std::string> comm_log_seeds() {
  return {MadeCommLog().text(),
          "of all_reduce over 8 ranks (1):\n| payload | busbw | algbw |\n| 1MiB | 35.00GBps | "
          "20.00GBps |\n"};
}
void run_comm_log(const FuzzInput& input) {
  const auto read = read_comm_log({input.path, input.text}, {});
  const std::vector<LoggedTable>* tables = accepted(read);
  if (tables == nullptr) return;
  for (const LoggedTable& table : *tables)
    promise(table.times.empty() == table.op.empty(), "a table with times has its operation");
}

std::vector<std::string> chakra_seeds() {
  ChakraTrace trace;
  trace.version = "0.0.4";
  ChakraNode compute{.id = 1, .name = "gemm", .type = ChakraType::Compute};
  ChakraNode send{.id = 2, .name = "send", .type = ChakraType::Send};
  trace.nodes = {compute, send};
  return {encode_chakra(trace)};
}
void run_chakra(const FuzzInput& input) {
  const auto read = decode_chakra(input.text, "a.0.et");
  const ChakraTrace* trace = accepted(read);
  if (trace == nullptr) return;
  const std::string bytes = encode_chakra(*trace);
  const auto again = decode_chakra(bytes, "a.0.et");
  promise(again.ok() && encode_chakra(*again) == bytes, "a Chakra trace reads back");
}
void run_chakra_json(const FuzzInput& input) {
  accepted(parse_chakra_json(input.text, "a.0.json"));
}

void run_kineto(const FuzzInput& input) { accepted(read_kineto(input.path)); }
std::vector<std::string> nsight_seeds() {
  return {std::string("SQLite format 3\0", 16), "no database"};
}
void run_nsight(const FuzzInput& input) { accepted(read_nsight(input.path)); }

}  // namespace

std::vector<FuzzTarget> import_targets() {
  return {{"hugging_face", "config.json", [] { return seeds_of("hf.json"); }, run_plan},
          {"deepspeed", "ds_config.json", [] { return seeds_of("ds.json"); }, run_plan},
          {"plan_yaml", "plan.yaml", [] { return seeds_of("yaml"); }, run_plan},
          {"plan_toml", "plan.toml", [] { return seeds_of("titan.toml"); }, run_plan},
          {"shell", "train.sh", [] { return seeds_of("sh"); }, run_plan},
          {"log", "train.log", [] { return seeds_of("log"); }, run_plan},
          {"comm_log", "all_reduce.txt", comm_log_seeds, run_comm_log},
          {"topology", "topology", [] { return seeds_of("topology"); }, run_topology},
          {"chakra", "a.0.et", chakra_seeds, run_chakra},
          {"chakra_json", "a.0.json", [] { return seeds_of("chakra.json"); }, run_chakra_json},
          {"kineto", "kineto.json", [] { return seeds_of("kineto.json"); }, run_kineto},
          {"nsight", "nsight.sqlite", nsight_seeds, run_nsight}};
}

}  // namespace tandem
