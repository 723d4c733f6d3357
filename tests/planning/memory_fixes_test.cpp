// What is said of a plan that does not fit: what it holds, and which changes make it fit.
#include "planning/what_if/memory_fixes.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "job/memory_timeline.h"
#include "report/text/memory_table.h"
#include "report/text/text_table.h"
#include "schedule/order/order_text.h"
#include "tests/random/random_jobs.h"
#include "tests/scenarios/simulated.h"
#include "tests/scenarios/small_scenario.h"

using namespace tandem;

namespace {

// GPT-3 13B's layers on 8 GPUs of 80 GiB.
const std::string kLarge = R"([model]
layers = 40
hidden = 5120
heads = 40
seq = 2048
vocab = 51200
[parallel]
tp = 2
dp = 4
micro_batch = 4
global_batch = 32
[train]
flash_attention = true
[cluster]
preset = "selene"
gpus = 8
)";

// The run, with what would make it fit.
RunResult with_fixes(const Scenario& scenario) {
  std::vector<Result<RunResult>> results = {simulate(scenario, Engine::Ideal)};
  REQUIRE(results[0].ok());
  add_memory_fixes({scenario}, 2, &results);
  return *results[0];
}

// The keys of the run that a user has to set for this much memory.
Names gpu_with(double tensors_bytes, Names sets = {}) {
  sets.push_back("cluster.memory_reserve_GiB=1");
  sets.push_back(fmt::format("cluster.memory_GiB={:.9g}", tensors_bytes / GiB + 1));
  return sets;
}

double total(const Scenario& scenario) {
  const auto result = simulate(scenario, Engine::Ideal);
  REQUIRE(result.ok());
  return result->training->memory.total;
}

// The parts of each rank are its memory, kind by kind.
void check_parts(const Scenario& scenario) {
  const auto job = order_job(scenario);
  REQUIRE(job.ok());
  for (const MemoryTimeline& rank :
       memory_timelines(scenario.job.model, job->plan, job->order, 0)) {
    INFO("pipeline rank " << rank.pipeline_rank);
    std::map<std::string, double> by_kind;
    for (const MemoryPart& part : peak_parts(scenario.job.model, job->plan, job->order, rank)) {
      CHECK(part.bytes > 0);
      by_kind[part.kind] += part.bytes;
    }
    CHECK(by_kind["weights"] == Approx(rank.held.weights));
    CHECK(by_kind["gradients"] == Approx(rank.held.gradients));
    CHECK(by_kind["optimizer"] == Approx(rank.held.optimizer));
    CHECK(by_kind["activations"] == Approx(rank.peak().activations));
    CHECK(by_kind["communication"] == Approx(rank.held.communication));
    CHECK(by_kind.size() == 5);
    // All microbatches are freed at the end; what is counted all the time is there from the start.
    CHECK(!rank.steps.front().action);
    CHECK(rank.steps.front().activations == rank.steps.back().activations);
  }
}

// Each fix, when set, fits and takes the time that it says. Returns how many there are; 0 where one
// change is named that is not enough.
std::size_t check_fixes(const Scenario& scenario, const RunResult& run) {
  REQUIRE(run.memory_fixes);
  const std::vector<MemoryFix>& fixes = *run.memory_fixes;
  REQUIRE(!fixes.empty());
  CHECK(fixes.size() <= 3);
  if (fixes[0].verdict == Verdict::No) {
    CHECK(fixes.size() == 1);
    CHECK(fixes[0].spare_bytes < 0);
    CHECK(fixes[0].spare_bytes >= run.training->spare_bytes);
    return 0;
  }
  for (const MemoryFix& fix : fixes) {
    INFO(fmt::format("{}", fmt::join(fix.settings, " ")));
    const auto sets = parse_sets(fix.settings);
    REQUIRE(sets.ok());
    const auto changed = with_sets(scenario, *sets);
    REQUIRE(changed.ok());
    CHECK(changed->cluster.gpus == scenario.cluster.gpus);
    CHECK(changed->job.plan.global_batch == scenario.job.plan.global_batch);
    const RunResult again = simulated(*changed);
    CHECK(again.training->fits);
    CHECK(again.training->verdict == fix.verdict);
    CHECK(again.training->spare_bytes == Approx(fix.spare_bytes));
    CHECK(again.iteration_s == Approx(*fix.ideal_iteration_s).epsilon(1e-9));
    CHECK(*fix.of_iteration == Approx(again.iteration_s / run.iteration_s - 1).margin(1e-9));
    if (&fix != fixes.data()) CHECK(*fix.ideal_iteration_s >= *(&fix)[-1].ideal_iteration_s);
  }
  return fixes.size();
}

}  // namespace

TEST_CASE("a rank's microbatches are held until their weight gradients") {
  const auto order = order_in_rows({{"0F0", "0I0", "0F1", "0I1", "0F2", "0B2", "0W0", "0W1"}});
  REQUIRE(order.ok());
  // Most are held after F2: it, and two that wait.
  const LiveActivations live = live_activations(*order);
  REQUIRE(live.ranks.size() == 1);
  REQUIRE(live.ranks[0].size() == 1);
  CHECK(live.ranks[0][0].microbatches == 1);
  CHECK(live.ranks[0][0].stashed == 2);
  CHECK(live.waiting.size() == 1);
  CHECK(live.waiting[0][0].stashed == 2);
}

TEST_CASE("with recompute the fullest moment may be when most wait for their weight gradients") {
  // 0F0 0F1 0I0 0I1 0W0 0W1: two layers' inputs, then two whole layers' activations.
  const auto order = order_in_rows({{"0F0", "0F1", "0I0", "0I1", "0W0", "0W1"}});
  REQUIRE(order.ok());
  const Scenario scenario =
      load(kSmall, {"parallel.pp=1", "parallel.dp=4", "train.recompute=full"}).front();
  const auto at = [&](const LiveActivations& live) {
    return peak_memory(scenario.job.model, scenario.job.plan, live).activations;
  };
  LiveActivations live = live_activations(*order);
  const double peak = at(live);
  live.waiting.clear();
  CHECK(at(live) < peak);
}

TEST_CASE("a plan that does not fit gets at most three changes, which fit and take what they say") {
  const Scenario scenario = load(kLarge).front();
  const RunResult run = with_fixes(scenario);
  REQUIRE(!run.training->fits);
  CHECK(check_fixes(scenario, run) == 3);
  for (const MemoryFix& fix : *run.memory_fixes) CHECK(fix.changes.size() == 1);
}

TEST_CASE("a change that fits for sure goes before a milder one that may not, if it costs little") {
  // Without replicas, and with a small state and loss, what is left to change is activations. Two
  // sequences a microbatch fit if less than 2 % is wasted, one with 9 % to waste.
  Names sets = {"cluster.gpus=2", "parallel.dp=1", "train.optimizer_dtype=fp8",
                "train.gradient_dtype=bf16", "train.cross_entropy=chunked"};
  const auto with = [&sets](const std::string& set) {
    Names all = sets;
    all.push_back(set);
    return load(kLarge, all).front();
  };
  const RunResult two = simulated(with("parallel.micro_batch=2"));
  const MemoryBytes& memory = two.training->memory;
  sets.push_back(
      fmt::format("cluster.memory_GiB={:.9g}", (1.02 * memory.total + memory.outside) / GiB));
  REQUIRE(simulated(with("parallel.micro_batch=2")).training->verdict == Verdict::IfUnfragmented);
  REQUIRE(simulated(with("parallel.micro_batch=1")).training->verdict == Verdict::Yes);
  const RunResult run = with_fixes(with("parallel.micro_batch=4"));
  bool smaller = false;
  for (const MemoryFix& fix : *run.memory_fixes) {
    CHECK(fix.changes.front() != "micro batch 2");
    smaller |= fix.changes.front() == "micro batch 1";
  }
  CHECK(smaller);
}

TEST_CASE("of a kind the fastest change is named, though a milder and slower one fits, too") {
  // Llama 3 8B on 64 H100. ZeRO 2 and 3 both fit. ZeRO 3 gathers parameters beside the layers'
  // passes, ZeRO 2 behind the optimizer, where nothing hides them: 3 is the faster one.
  const std::string llama = R"([model]
layers = 32
hidden = 4096
heads = 32
kv_heads = 8
ffn_hidden = 14336
gated_mlp = true
tied_embeddings = false
seq = 8192
vocab = 128256
[parallel]
dp = 64
micro_batch = 1
global_batch = 64
[train]
flash_attention = true
framework = "megatron"
[cluster]
preset = "dgx-h100"
gpus = 64
)";
  const RunResult two = simulated(load(llama, {"train.zero=2"}).front());
  const RunResult three = simulated(load(llama, {"train.zero=3"}).front());
  REQUIRE(two.training->verdict == Verdict::Yes);
  REQUIRE(three.training->verdict == Verdict::Yes);
  REQUIRE(three.iteration_s < two.iteration_s);
  const RunResult run = with_fixes(load(llama).front());
  CHECK(check_fixes(load(llama).front(), run) > 0);
  CHECK(run.memory_fixes->front().changes == Names{"zero 3"});
  CHECK(*run.memory_fixes->front().ideal_iteration_s == Approx(three.iteration_s));
}

TEST_CASE("where a stage's first layers are recomputed, a change is to recompute all") {
  const Names all = {"cluster.gpus=2",
                     "parallel.dp=1",
                     "train.optimizer_dtype=fp8",
                     "train.gradient_dtype=bf16",
                     "train.cross_entropy=chunked",
                     "train.sequence_parallel=true",
                     "train.recompute=full"};
  Names first = gpu_with(1.1 * total(load(kLarge, all).front()), all);
  first.emplace_back("train.recompute_layers=1");
  const Scenario scenario = load(kLarge, first).front();
  const RunResult run = with_fixes(scenario);
  CHECK(check_fixes(scenario, run) > 0);
  CHECK(std::ranges::any_of(*run.memory_fixes, [](const MemoryFix& fix) {
    return fix.settings == Names{"train.recompute=full", "train.recompute_layers=-1"};
  }));
}

TEST_CASE("a plan that fits gets no changes") {
  CHECK(!with_fixes(load(kSmall).front()).memory_fixes);
}

TEST_CASE("changes come as lines, JSON, and a table of what the fullest GPU holds") {
  const RunResult run = with_fixes(load(kLarge).front());
  const std::string lines = unfit_lines(run);
  INFO(lines);
  CHECK(lines.find(fmt::format(": over by {:.1f} GiB. Of {:.1f} GiB of tensors, ",
                               -run.training->spare_bytes / GiB,
                               run.training->memory.total / GiB)) != std::string::npos);
  CHECK(lines.find("\nIt fits with " + run.memory_fixes->at(0).changes[0] + " (") !=
        std::string::npos);
  const auto json = to_json(run);
  CHECK(to_json(run_result_from_json(json)) == json);
  CHECK(json["memory_fixes"].size() == 3);
  const std::string table = memory_table({run}, kAnyWidth);
  INFO(table);
  CHECK(table.find(fmt::format("pipeline rank 0, at {:.3f} s, where {} ends",
                               run.training->peak.at_s, run.training->peak.action)) !=
        std::string::npos);
  for (const MemoryPart& part : run.training->parts)
    CHECK(table.find(part.name) != std::string::npos);
}

TEST_CASE("two changes are proposed where no single one is enough, then the nearest one") {
  const double held = total(load(kLarge).front());
  bool pairs = false, nearest = false;
  for (double share = 0.9; !nearest; share /= 1.3) {
    REQUIRE(share > 0.001);
    INFO(share);
    const Scenario scenario = load(kLarge, gpu_with(share * held)).front();
    const RunResult run = with_fixes(scenario);
    nearest = check_fixes(scenario, run) == 0;
    const std::vector<MemoryFix>& fixes = *run.memory_fixes;
    for (const MemoryFix& fix : fixes) pairs |= !nearest && fix.changes.size() == 2;
    const std::string lines = unfit_lines(run);
    INFO(lines);
    if (nearest) {
      CHECK(lines.find("No change of one or two settings makes it fit; the nearest is ") !=
            std::string::npos);
    } else if (fixes[0].changes.size() == 2) {
      CHECK(lines.find("No single change makes it fit; two do: ") != std::string::npos);
    }
  }
  CHECK(pairs);
}

TEST_CASE("nothing is tried where the order is looked for, and a line says so") {
  const RunResult run = with_fixes(
      load(kLarge, {"parallel.pp=2", "parallel.dp=2", "schedule.order=auto", "schedule.budget=1"})
          .front());
  REQUIRE(!run.training->fits);
  CHECK(run.memory_fixes->empty());
  CHECK(unfit_lines(run).find("No changes are tried where schedule.order") != std::string::npos);
}

TEST_CASE("the parts of every rank's memory add up to it, kind by kind") {
  const std::vector<Names> all = {
      {},
      {"parallel.pp=2", "parallel.dp=2", "model.tied_embeddings=false", "model.mtp_layers=1"},
      {"parallel.pp=2", "parallel.dp=2", "schedule.vocabulary=parallel"},
      {"parallel.pp=4", "parallel.dp=1", "schedule.order=zbv"},
      {"parallel.pp=2", "parallel.vpp=5", "parallel.dp=2", "train.recompute=full"},
      {"parallel.tp=1", "parallel.dp=8", "train.zero=3"},
      {"parallel.tp=1", "parallel.dp=8", "train.zero=2", "train.optimizer_offload=0.5"},
      {"cluster.preset=dgx-h100", "train.precision=fp8", "train.fp8_recipe=mxfp8",
       "train.sequence_parallel=true", "overlap.tensor=ring"},
      {"parallel.dp=2", "parallel.cp=2", "train.recompute=selective",
       "train.recompute_modules=mlp,layernorm"},
      {"model.experts=8", "model.top_k=2", "parallel.ep=4", "train.sequence_parallel=true"}};
  for (const Names& sets : all) {
    INFO(fmt::format("{}", fmt::join(sets, " ")));
    check_parts(load(kLarge, sets).front());
  }
}

TEST_CASE(
    "parts add up on random jobs, and changes hold what they say on GPUs that are too small") {
  int jobs = 0, fixed = 0;
  for (std::uint64_t seed = 1; jobs < random_jobs(60); ++seed) {
    INFO("seed " << seed);
    JobKeys keys = random_job(seed);
    const auto scenario = scenario_of(keys);
    if (!scenario || !order_job(*scenario).ok()) continue;
    ++jobs;
    check_parts(*scenario);
    if (jobs % 6 > 0) continue;
    for (const std::string& set : gpu_with(0.95 * total(*scenario))) {
      const std::size_t equals = set.find('=');
      keys[set.substr(0, equals)] = set.substr(equals + 1);
    }
    const auto tight = scenario_of(keys);
    REQUIRE(tight);
    if (check_fixes(*tight, with_fixes(*tight)) > 0) ++fixed;
  }
  CHECK(fixed > 0);
}
