// The search: its answer is that of trying every plan, its bounds are bounds, its plans are
// scenarios; and the program.
#include <chrono>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "planning/tune/frameworks.h"
#include "planning/tune/tune.h"
#include "tests/planning/stage_plans.h"
#include "tests/sandbox.h"
#include "tests/text.h"

namespace tandem {
namespace {

using Json = nlohmann::json;

// The small model's 16 sequences on 4 GPUs, of which some plans do not fit.
Scenario small(const Names& set = {}) {
  Names all = {"cluster.gpus=4", "parallel.dp=1", "cluster.memory_GiB=4"};
  all.insert(all.end(), set.begin(), set.end());
  return load(kSmall, all).front();
}

Scenario small_experts() {
  return small(
      {"model.experts=4", "model.top_k=2", "train.sequence_parallel=true", "cluster.memory_GiB=8"});
}

Space among(const Names& texts) {
  auto space = Space::among(texts);
  REQUIRE(space.ok());
  return *std::move(space);
}

TEST_CASE("the search finds what trying every plan finds") {
  check_against_all(small(), among({"parallel.micro_batch=1,4", "overlap.tensor=off,ring",
                                    "parallel.vpp=1,2", "parallel.cp=1,2"}));
}

// Of 24, micro batches of 4 make 6 microbatches, which four ranks do not divide; those of 6 make 4.
TEST_CASE("the search finds plans of a larger micro batch where an order takes no smaller one") {
  const Scenario base = small({"parallel.global_batch=24"});
  const Space space = among({"parallel.pp=4", "parallel.vpp=2", "schedule.order=interleaved",
                             "parallel.micro_batch=4,6,12", "overlap.tensor=off"});
  StageLevel level = level_of(base);
  const SearchResult all = search_all(base, space, &level, 1);
  const SearchResult found = Search(base, space, {&level, 1}).best({.keep = 1});
  REQUIRE(all.best.size() == 1);
  CHECK(all.best.front().candidate.layout.micro_batch == 6);
  REQUIRE(found.best.size() == 1);
  CHECK(found.best.front().iteration_ns == all.best.front().iteration_ns);
  CHECK(found.counts.memory == all.counts.memory);
}

// Of 12 GPUs four share experts: they divide a rank's four of three ranks, not its six of two.
TEST_CASE("the search finds plans though a cut before them divides no expert group") {
  const Scenario base = small({"model.experts=4", "model.top_k=2", "cluster.gpus=12",
                               "parallel.tp=1", "parallel.pp=3", "parallel.dp=4",
                               "parallel.global_batch=48", "cluster.memory_GiB=40"});
  const Space space = among({"parallel.pp=2,3", "parallel.ep=4", "parallel.tp=1", "parallel.cp=1",
                             "parallel.micro_batch=1,2", "schedule.order=1f1b"});
  StageLevel level = level_of(base);
  const SearchResult found = Search(base, space, {&level, 1}).best({.keep = 1});
  REQUIRE(found.best.size() == 1);
  CHECK(found.best.front().candidate.layout.pp == 3);
}

// Two of four GPUs cut, two are their replicas.
Scenario small_shards() {
  return small({"parallel.tp=1", "parallel.pp=1", "parallel.dp=4", "train.zero=1",
                "parallel.hsdp_shard=2", "cluster.memory_GiB=8"});
}

Scenario small_kept() {
  return small({"parallel.tp=1", "parallel.pp=1", "parallel.dp=4", "train.zero=3",
                "train.reshard_after_forward=false"});
}

TEST_CASE("the search finds what trying every plan finds among shards that the scenario states") {
  const Scenario base = small_shards();
  const Space space = among({"parallel.micro_batch=1", "overlap.tensor=off", "parallel.vpp=1,2"});
  check_against_all(base, space);
  // Where two cannot cut, or nothing is cut, there is no plan.
  for (const Candidate& plan : all_of(base, space)) {
    INFO(plan_text(plan));
    CHECK(plan.sharing.zero > 0);
    CHECK(plan.layout.dp * plan.layout.cp % 2 == 0);
    CHECK(scenario_with(base, plan).job.plan.hsdp_shard == 2);
  }
}

TEST_CASE("the search finds what trying every plan finds where parameters stay gathered") {
  check_against_all(small_kept(),
                    among({"parallel.micro_batch=1", "overlap.tensor=off", "parallel.vpp=1,2"}));
}

TEST_CASE("no plan is found that needs the reserve") {
  // The best plan of 4 GiB needs so many bytes; a reserve that leaves a thousandth less shuts it
  // out, and what is found then fits beside it.
  const Space space = among({"parallel.micro_batch=1,4", "overlap.tensor=off", "parallel.cp=1"});
  const auto needs = [&](double reserve_GiB) {
    const Scenario base = small({fmt::format("cluster.memory_reserve_GiB={}", reserve_GiB)});
    StageLevel level = level_of(base);
    std::vector<double> bytes;
    for (const Found& found : Search(base, space, {&level, 1}).best({.keep = 4}).best)
      bytes.push_back(level.memory(found.candidate, *level.order_of(found.candidate)));
    REQUIRE(!bytes.empty());
    return bytes;
  };
  const double best = needs(0).front() / GiB;
  REQUIRE(best <= 4);
  for (const double bytes : needs(4 - 0.999 * best))
    CHECK(bytes <= 0.999 * best * GiB * (1 + 1e-12));
}

TEST_CASE("the search finds what trying every plan finds among experts") {
  check_against_all(small_experts(), among({"parallel.micro_batch=1", "overlap.tensor=off",
                                            "parallel.vpp=1,2", "parallel.cp=1"}));
}

// Two layers without experts before six with them.
Scenario small_kinds() {
  return small({"model.experts=4", "model.top_k=2", "train.sequence_parallel=true",
                "model.pattern=dense*2 + moe*6", "model.kinds.dense.experts=0",
                "model.kinds.dense.ffn_hidden=8192"});
}

TEST_CASE("the search finds what trying every plan finds among layers of two kinds") {
  check_against_all(small_kinds(), among({"parallel.micro_batch=1", "overlap.tensor=off",
                                          "parallel.vpp=1,2", "parallel.cp=1"}));
}

TEST_CASE("the search finds what trying every plan finds across nodes") {
  check_against_all(
      small({"cluster.preset=jz-v100", "cluster.gpus=16", "parallel.dp=4", "train.precision=fp16"}),
      among({"parallel.micro_batch=1", "overlap.tensor=off", "parallel.vpp=1,2", "parallel.cp=1",
             "train.recompute=none,full"}));
}

TEST_CASE("no bound is above the iteration of a plan below it") {
  for (const Scenario& base :
       {small(), small_experts(), small_kinds(), small_shards(), small_kept(),
        small({"cluster.preset=jz-v100", "cluster.gpus=16", "parallel.dp=4",
               "train.precision=fp16"})}) {
    const unsigned seed = 20261121;
    INFO("seed " << seed);
    check_bounds(base, drawn_of(base, among({}), seed, 300));
  }
}

TEST_CASE("a plan's settings are the plan") {
  const bool keeps_remainders = GENERATE(false, true);  // which only ZeRO 1 has
  Names stated = {"cluster.gpus=4", "cluster.memory_GiB=40"};
  if (keeps_remainders)
    stated.insert(stated.end(), {"train.zero=1", "train.param_remainders=true"});
  const Scenario base = small(stated);
  const auto plans = drawn_of(base, among({"parallel.micro_batch=2"}), 7, 20);
  CHECK(plans.size() == 20);
  for (const Candidate& plan : plans) {
    INFO(plan_text(plan));
    Names sets = stated;
    for (const auto& [key, value] : plan_settings(plan)) sets.push_back(key + "=" + value);
    const auto written = simulate(load(kSmall, sets).front(), Engine::Ideal);
    const auto built = simulate(scenario_with(base, plan), Engine::Ideal);
    REQUIRE((written.ok() && built.ok()));
    CHECK(written->iteration_s == built->iteration_s);
    CHECK(candidate_of(load(kSmall, sets).front()) == plan);
  }
}

TEST_CASE("what the stage level leaves out is a few percent of the iteration") {
  // Left out: communication of one pass beside the next one's compute, and SMs that data-parallel
  // and pipeline communication take.
  for (const Scenario& base : {small({"cluster.memory_GiB=40"}), small_shards()}) {
    StageLevel level = level_of(base);
    for (const Candidate& plan : all_of(base, among({"parallel.micro_batch=2", "parallel.cp=1",
                                                     "overlap.tensor=off", "train.zero=0,1"}))) {
      INFO(plan_text(plan));
      const auto order = level.order_of(plan);
      const auto played = level.play(plan, *order);
      const auto ideal = simulate(scenario_with(base, plan), Engine::Ideal);
      REQUIRE((played.ok() && ideal.ok()));
      CHECK(to_seconds(*played) == Approx(ideal->iteration_s).epsilon(0.05));
    }
  }
}

TEST_CASE("an iteration's overhead lengthens stage level and engine alike, by itself alone") {
  // Every rank has it once, behind what all ranks wait for: the gradient norm, or each other.
  const Scenario plain = small();
  Scenario charged = plain;
  charged.costs.profile.iteration_overhead_s = 0.0117;
  StageLevel level = level_of(plain), level_charged = level_of(charged);
  std::vector<Candidate> plans = all_of(plain, among({"parallel.vpp=1,2,4"}));
  const unsigned seed = 16;
  INFO("seed " << seed);
  std::mt19937 random(seed);
  std::shuffle(plans.begin(), plans.end(), random);
  plans.resize(40);
  for (const Candidate& plan : plans) {
    INFO(plan_text(plan));
    const auto order = level.order_of(plan);
    REQUIRE(order.ok());
    const auto before = level.play(plan, *order), after = level_charged.play(plan, *order);
    REQUIRE((before.ok() && after.ok()));
    CHECK(*after - *before == 11'700'000);
    const auto engine = [&](const Scenario& base) {
      const auto result = simulate(scenario_with(base, plan), Engine::Ideal);
      REQUIRE(result.ok());
      return std::llround(1e9 * result->iteration_s);
    };
    CHECK(engine(charged) - engine(plain) == 11'700'000);
  }
}

TEST_CASE("a tune plays its best, the rules' and the scenario's own plan, and judges the rules") {
  const Scenario base = small({"cluster.memory_GiB=40"});
  const auto tuned = tune(base, among({"parallel.cp=1"}), {.keep = 3, .engine = Engine::Ideal});
  REQUIRE(tuned.ok());
  REQUIRE(tuned->finalists.size() == 5);
  CHECK(tuned->finalists[3].label == "rules");
  CHECK(tuned->finalists[4].label == "own");
  for (int i = 0; i + 1 < 3; ++i)
    CHECK(tuned->finalists[i].result->iteration_s <= tuned->finalists[i + 1].result->iteration_s);
  CHECK(tuned->finalists[0].result->iteration_s < tuned->finalists[4].result->iteration_s);
  CHECK(tuned->complete);
  // One of each rule that is about such a job: the best plan on the side where it is, and on the
  // other, if any, one that is there and no faster.
  Nanoseconds best = INT64_MAX;
  for (int i = 0; i < 3; ++i) best = std::min(best, *tuned->finalists[i].stage_level_ns);
  std::size_t judged = 0;
  for (const Rule& rule : rules()) {
    if (!rule.applies(base)) continue;
    REQUIRE(judged < tuned->verdicts.size());
    const RuleCheck& verdict = tuned->verdicts[judged++];
    INFO(rule.name);
    CHECK(verdict.rule == rule.name);
    Nanoseconds fastest = INT64_MAX;
    for (const auto& [side, holds] : {std::pair{&verdict.keeps, true}, {&verdict.breaks, false}}) {
      if (!*side) continue;
      CHECK(rule.holds(base, (*side)->candidate.layout) == holds);
      fastest = std::min(fastest, (*side)->iteration_ns);
    }
    CHECK(fastest == best);
  }
  CHECK(judged > 0);
  CHECK(judged == tuned->verdicts.size());
}

TEST_CASE("the best plans are refined where they are asked to be, and what that brings is told") {
  const Names sets = {"cluster.gpus=4", "cluster.memory_GiB=40", "schedule.budget=60",
                      "model.vocab=64000"};
  const Scenario base = small(sets);
  const Names plans = {"parallel.tp=1", "parallel.cp=1", "parallel.pp=4", "parallel.micro_batch=1",
                       "train.recompute=none"};
  Names asked = plans;
  for (const char* key : {"schedule.order=1f1b,zb1p,auto", "parallel.layout=even,auto",
                          "schedule.vocabulary=stage,parallel"})
    asked.emplace_back(key);
  const TuneOptions options{.keep = 4, .refine = 1, .engine = Engine::Ideal};
  const auto tuned = tune(base, among(asked), options);
  REQUIRE(tuned.ok());
  REQUIRE(tuned->refined.size() == 1);
  const Refined& plan = tuned->refined.front();
  REQUIRE(plan.with.size() == 7);
  double best = plan.plain.iteration_s;
  for (const auto& [refinement, result] : plan.with) {
    INFO(refinement_text(refinement));
    REQUIRE(result.ok());
    best = std::min(best, result->iteration_s);
    // Neither a layout nor an order is ever worse than what it begins with.
    if (!refinement.vocabulary) CHECK(plan.saved_s(*result) >= 0);
    Names written = sets;
    for (const auto& [key, value] : plan_settings(plan.candidate, refinement))
      written.push_back(key + "=" + value);
    CHECK(simulate(load(kSmall, written).front(), Engine::Ideal)->iteration_s ==
          result->iteration_s);
  }
  // A part at a time first. The head takes as long as several layers, which equal stages wait for.
  CHECK((plan.with.front().refinement == Refinement{.layout = true}));
  CHECK(best < 0.95 * plan.plain.iteration_s);
  CHECK(tuned->finalists.front().result->iteration_s == best);
  CHECK(tuned->finalists.front().refinement.any());
  CHECK(tuned->finalists[3].label == "4");
  CHECK(to_json(*tuned)["refined"][0]["with"].size() == 7);

  // Without being asked nothing is refined; asked for auto alone, no plan is left without it.
  Names named = plans, open = plans;
  named.emplace_back("schedule.order=1f1b,zb1p");
  open.emplace_back("schedule.order=auto");
  CHECK(tune(base, among(named), options)->refined.empty());
  const auto found = tune(base, among(open), options);
  REQUIRE(found.ok());
  for (const Finalist& finalist : found->finalists) {
    if (finalist.label != "rules" && finalist.label != "own")
      CHECK(finalist.refinement == Refinement{.order = true});
  }
}

TEST_CASE("a framework's plans are those of the space that keep its rules, and no others") {
  // A framework that names values of ZeRO has them tried in pipelines, too.
  const Space wide =
      among({"parallel.micro_batch=1,2", "parallel.vpp=1,2,3,4", "train.zero=0,1,2,3"});
  for (const Scenario& base : {small(), small_experts()}) {
    for (const Framework& framework : frameworks()) {
      INFO(framework.name);
      std::vector<Candidate> kept;
      for (const Candidate& plan : all_of(base, wide)) {
        if (broken_rule(framework, base, plan).empty()) kept.push_back(plan);
      }
      CHECK(!kept.empty());
      CHECK((all_of(base, wide.run_by(framework)) == kept));
    }
  }
}

// Of pp 2, dp 2 on 4 GPUs, 16 sequences.
Candidate piped(std::string_view order, int vpp, Sharing sharing, bool overlap_p2p) {
  return {{.pp = 2, .dp = 2, .vpp = vpp}, {order, overlap_p2p}, sharing};
}

TEST_CASE("plans that a framework cannot run break the rule that says so") {
  const Scenario base = small();
  const auto breaks = [&](const char* name, const Candidate& plan) {
    return broken_rule(**framework_named(name), base, plan);
  };
  // Megatron interleaves, DeepSpeed's TrainSchedule does not.
  const Candidate interleaved = piped("interleaved", 2, {1, true, true}, true);
  CHECK(breaks("megatron", interleaved).empty());
  CHECK(breaks("nemo", interleaved).empty());
  CHECK(breaks("deepspeed", interleaved) == "parallel.vpp = 1");
  CHECK(breaks("fsdp", interleaved) == "parallel.pp = 1");
  // Two virtual stages on two ranks leave no time between a send and its receive but overlapped.
  CHECK(breaks("megatron", piped("interleaved", 2, {}, false)) ==
        "interleaved on pp = 2 with overlap.p2p only");
  CHECK(breaks("megatron", piped("1f1b", 1, {}, true)) == "overlap.p2p with interleaved only");
  CHECK(breaks("deepspeed", piped("1f1b", 1, {1, false, false}, false)).empty());
  CHECK(breaks("deepspeed", piped("1f1b", 1, {1, true, false}, false)) ==
        "overlap.grad_reduce with ZeRO and without a pipeline only");
  CHECK(breaks("megatron", piped("1f1b", 1, {1, false, true}, false)) ==
        "overlap.param_gather with overlap.grad_reduce only");
  // Three virtual stages a rank hold 2, 2, 2, 2, 0 and 0 of 8 layers. With five 8 + 2 are a
  // multiple of 10, but the first and the last stage have no layer.
  for (const int vpp : {3, 5})
    CHECK(breaks("megatron", piped("interleaved", vpp, {}, true)) ==
          "even cuts fill all stages: others need parallel.layout");
  // Three ranks with 3, 3 and 2 layers: Megatron-LM takes them as a layout, torchtitan does not.
  Candidate uneven = piped("1f1b", 1, {0, true, false}, false);
  uneven.layout.pp = 3;
  CHECK(breaks("megatron", uneven).empty());
  CHECK(breaks("torchtitan", uneven).starts_with("pp x vpp divides the layers"));
  const Candidate sharded = {{.dp = 4}, {"none", false}, {3, true, true}};
  CHECK(breaks("fsdp", sharded).empty());
  CHECK(breaks("deepspeed", sharded).empty());
  CHECK(breaks("torchtitan", sharded).empty());
  CHECK(breaks("nemo", sharded) == "train.zero = 0,1");
  CHECK(breaks("chatlearn", interleaved) == "overlap.grad_reduce = false");
  CHECK(breaks("torchtitan", interleaved) == "train.zero = 0,2,3");
  for (const Framework& framework : frameworks())
    CHECK_FALSE(breaks(framework.name.data(), piped("zbv", 2, {1, true, true}, true)).empty());
  // torchtitan runs it with the cuts that it has.
  CHECK(breaks("torchtitan", piped("zbv", 2, {3, true, true}, true)).empty());
}

TEST_CASE("experts and scans have rules of their own") {
  const auto breaks = [&](const char* name, const Scenario& base, const Candidate& plan) {
    return broken_rule(**framework_named(name), base, plan);
  };
  Candidate spread = {{.ep = 4, .expert_tp = 1, .dp = 4}, {"none", false}, {2, true, false}};
  CHECK(breaks("deepspeed", small_experts(), spread).empty());
  spread.sharing = {3, true, true};
  CHECK(breaks("deepspeed", small_experts(), spread) == "ep > 1 without ZeRO 3 only");
  CHECK(breaks("torchtitan", small_experts(), spread).empty());
  spread.sharing = {0, true, false};
  CHECK(breaks("torchtitan", small_experts(), spread) == "ep divides FSDP's shards x cp x tp");
  const Scenario hybrid =
      small({"model.pattern=(scan + core)*4", "model.kinds.scan.mixer=mamba",
             "model.kinds.scan.mamba_heads=16", "model.kinds.scan.mamba_head_dim=64",
             "model.kinds.scan.mamba_state=64"});
  CHECK(facts_for_flags(hybrid).at("hybrid_layers") == "M- *- M- *- M- *- M- *-");
  const Candidate interleaved = piped("interleaved", 2, {}, true);
  CHECK(breaks("megatron", hybrid, interleaved).empty());
  CHECK(breaks("chatlearn", hybrid, interleaved) == "a hybrid: vpp = 1, pp divides the layers");
}

TEST_CASE("the best plans under a framework break none of its rules") {
  for (const Framework& framework : frameworks()) {
    INFO(framework.name);
    const Scenario base = small({"cluster.memory_GiB=40"});
    const auto tuned = tune(base, among({"parallel.cp=1"}).run_by(framework),
                            {.framework = &framework, .keep = 3, .engine = Engine::Ideal});
    REQUIRE(tuned.ok());
    CHECK(tuned->framework == framework.name);
    for (const Finalist& finalist : tuned->finalists) {
      INFO(plan_text(finalist.candidate));
      if (finalist.label != "own")
        CHECK(broken_rule(framework, base, finalist.candidate).empty());
      else
        CHECK(tuned->own_breaks == broken_rule(framework, base, finalist.candidate));
    }
    // FSDP has no pipeline, and the scenario's own plan has one of two stages.
    CHECK(tuned->own_breaks.empty() == (framework.name != "fsdp"));
  }
}

TEST_CASE("every rule of a framework stands in docs/planning.md, with its source") {
  const std::string page = contents(TANDEM_SOURCE_DIR "/docs/planning.md");
  for (const Framework& framework : frameworks()) {
    for (const AllowedValues& allowed : framework.values) {
      INFO(allowed.key << " of " << framework.name);
      CHECK(page.find(fmt::format("| {} | `{}` = {} | {} |", framework.name, allowed.key,
                                  allowed.values, allowed.source)) != std::string::npos);
    }
    for (const FrameworkRule& rule : framework.rules) {
      INFO(rule.what);
      CHECK(page.find(fmt::format("| {} | {} |", rule.what, rule.source)) != std::string::npos);
    }
  }
}

TEST_CASE("a plan's line says that none is its order, not its recompute") {
  const Candidate plan = {{.dp = 4}, {"none", false}, {}};
  CHECK(plan_text(plan) == "tp 1 pp 1 dp 4 mb 1 order none");
}

TEST_CASE("a search that is stopped says so and keeps what it has") {
  bool found = false;
  const auto tuned = tune(small(), among({}),
                          {.keep = 1,
                           .engine = Engine::Ideal,
                           .stop = [&] { return found; },
                           .on_better = [&](const Found&, bool) { found = true; }});
  REQUIRE(tuned.ok());
  CHECK(!tuned->complete);
  CHECK(tuned->verdicts.empty());
  CHECK(tuned->finalists.size() >= 2);
}

TEST_CASE("a search on several threads finds and counts what one thread does") {
  const Scenario base = small();
  const Space space = among({"parallel.micro_batch=1,2"});
  StageLevel level = level_of(base);
  const SearchResult one = Search(base, space, {&level, 1}).best({.keep = 4});
  REQUIRE(one.counts.cuts > 1);
  REQUIRE(one.counts.scheduled > 1);
  for (const int threads : {2, 5}) {
    INFO(threads << " threads");
    std::vector<StageLevel> levels;
    levels.push_back(level_of(base));
    while (static_cast<int>(levels.size()) < threads)
      levels.push_back(levels.front().beside(*make_cluster(base)));
    const SearchResult several = Search(base, space, levels).best({.keep = 4});
    CHECK(several.best == one.best);
    CHECK(several.counts == one.counts);
    CHECK(several.bound_ns == one.bound_ns);
  }
}

TEST_CASE("a search that is stopped says what no plan takes less than") {
  const Scenario base = small();
  const Space space = among({"parallel.cp=1", "parallel.micro_batch=1,2"});
  StageLevel level = level_of(base);
  const SearchResult whole = Search(base, space, {&level, 1}).best({.keep = 1});
  REQUIRE(whole.complete);
  const Nanoseconds best = whole.best.front().iteration_ns;
  CHECK(whole.bound_ns == best);
  Nanoseconds before = 0;
  for (int branches = 0; branches < 2000; branches += 50) {
    INFO(branches << " branches");
    // The cuts are all bounded first.
    Search search(base, space, {&level, 1});
    (void)search.best({.keep = 1, .wants = [](const Layout&) { return false; }});
    int looked_at = 0;
    const SearchResult part =
        search.best({.keep = 1, .stop = [&] { return ++looked_at > branches; }});
    CHECK(part.bound_ns > 0);
    CHECK(part.bound_ns >= before);
    CHECK(part.bound_ns <= best);
    CHECK((part.complete || part.counts.left + part.counts.cuts_left > 0));
    before = part.bound_ns;
  }
  CHECK(before == best);
}

TEST_CASE("what there was no time for within a round is left as it was, and found later") {
  const Scenario base = small();
  const Space space = among({"parallel.cp=1", "parallel.micro_batch=1,2"});
  StageLevel level = level_of(base);
  const SearchResult whole = Search(base, space, {&level, 1}).best({.keep = 1});
  for (int looks = 0; looks < 3000; looks += 97) {
    INFO(looks << " looks at the clock");
    Search search(base, space, {&level, 1});
    int looked = 0;
    const SearchResult part = search.best({.keep = 1, .is_late = [&] { return ++looked > looks; }});
    CHECK(part.bound_ns <= whole.bound_ns);
    CHECK((part.complete || part.counts.left + part.counts.cuts_left > 0));
    const SearchResult rest = search.best({.keep = 1});
    CHECK(rest.complete);
    CHECK(rest.best == whole.best);
    CHECK(rest.counts == whole.counts);
  }
}

TEST_CASE("plans that --seconds leaves no time to play say so, with their price") {
  const Scenario base = small();
  int runs = 0;
  // The passing of time is what is tested. The search's time is over once plans are played: the
  // first waits for twice as long.
  const auto tuned = tune(base, among({"parallel.cp=1", "parallel.micro_batch=1"}),
                          {.jobs = 1, .engine = Engine::Ideal, .seconds = 1, .on_runs = [&](int) {
                             if (++runs == 1) std::this_thread::sleep_for(std::chrono::seconds(2));
                           }});
  REQUIRE(tuned.ok());
  const Finalist& first = tuned->finalists.front();
  CHECK(first.stage_level_ns.has_value());
  REQUIRE(!tuned->finalists.back().result.ok());
  CHECK(tuned->finalists.back().result.error().text().starts_with("not played"));
}

TEST_CASE("tandem tune: counts add up, and the best plan simulates as it says") {
  const Sandbox sandbox;
  sandbox.file("small.toml", kSmall);
  const std::string command =
      "tune small.toml --among parallel.cp=1 --among overlap.tensor=off --among "
      "parallel.micro_batch=1,2 --keep 2 ";
  const Ran ran = sandbox.tandem(command + "--json");
  check_done(ran);
  const Json tuned = Json::parse(ran.out);
  const Json& pruned = tuned["pruned"];
  std::int64_t sum = tuned["scheduled"].get<std::int64_t>() +
                     tuned["unplayable"].get<std::int64_t>() +
                     tuned["not_searched"].get<std::int64_t>();
  for (const Json& count : pruned) sum += count.get<std::int64_t>();
  CHECK(sum == tuned["enumerated"]);
  REQUIRE(tuned["best"].size() == 2);
  std::string sets;
  for (const auto& [key, value] : tuned["best"][0]["plan"].items())
    sets += " --set " + key + "=" + value.get<std::string>();
  const Ran simulated = sandbox.tandem("simulate small.toml --json" + sets);
  check_done(simulated);
  CHECK(Json::parse(simulated.out)[0]["iteration_s"] ==
        tuned["best"][0]["simulate"]["iteration_s"]);
  const Ran text = sandbox.tandem(command);
  check_done(text);
  CHECK(text.out.find("The first plan: tandem simulate small.toml --set parallel.tp=") !=
        std::string::npos);
}

TEST_CASE("tandem tune names what its plans do not have, and what a shell needs quoted") {
  const Sandbox sandbox;
  sandbox.file("small.toml", kSmall);
  const Ran ran = sandbox.tandem(
      "tune small.toml --among parallel.cp=1 --among overlap.tensor=off --among "
      "parallel.micro_batch=1 --keep 1 --engine ideal --set 'parallel.layers_per_stage=[5,3]' "
      "--set 'model.name=\"A model\"'");
  check_done(ran);
  CHECK(ran.out.find("--engine ideal --set 'model.name=\"A model\"' --set parallel.tp=") !=
        std::string::npos);
  CHECK(ran.out.find("In a scenario without parallel.layers_per_stage") != std::string::npos);
}

TEST_CASE("tandem tune refuses what it cannot search with one line") {
  const Sandbox sandbox;
  sandbox.file("small.toml", kSmall);
  sandbox.file("uniform.toml", kTwoStages);
  sandbox.file("two.toml", kSmall + "[matrix]\nparallel.micro_batch = [1, 2]\n");
  const auto refused = [&](const std::string& arguments, const std::string& line) {
    const Ran ran = sandbox.tandem("tune " + arguments);
    INFO(ran.err);
    CHECK(ran.status == 2);
    CHECK(ran.out.empty());
    CHECK(ran.err.find(line) != std::string::npos);
  };
  refused("uniform.toml", "uniform.toml:5: found costs.source = uniform, expected a model");
  refused("two.toml", "two.toml: found 2 runs, expected one: choose it with --only");
  refused("small.toml --set 'schedule.vocabulary=\"parallel\"'",
          "found schedule.vocabulary = parallel, expected stage");
  refused("small.toml --among parallel.tpp=2", "nearest is 'parallel.tp'");
  refused("small.toml --among schedule.order=1f2b", "nearest is '1f1b'");
  refused("small.toml --among schedule.order=auto --framework megatron", "--among: found no ");
  refused("small.toml --among schedule.vocabulary=cut", "expected one of stage, parallel");
  refused("small.toml --framework megatrn",
          "--framework: found 'megatrn', expected one of megatron, nemo, chatlearn, "
          "deepspeed, fsdp, torchtitan; the nearest is 'megatron'");
  refused("small.toml --framework fsdp --among parallel.pp=2",
          "--framework fsdp excludes at least ");
  refused("small.toml --among parallel.tp=", "expected a whole number");
  refused("small.toml --among parallel.tp", "expected KEY=VALUE,VALUE");
  refused("small.toml --set cluster.memory_GiB=0.01", "found no plan that fits into");
  refused("small.toml --among parallel.tp=3",
          "found no plan for 8 GPUs and a batch of 16: --among parallel.tp=3 excludes at least");
  refused("small.toml --among parallel.tp=4 --among parallel.pp=4",
          "--among parallel.tp=4 excludes ");
  refused("small.toml --jobs 0", "--jobs: found 0, expected a whole number of at least 1");
}

}  // namespace
}  // namespace tandem
