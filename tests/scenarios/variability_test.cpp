// Variability: stragglers, repeated runs, background traffic, and what an iteration hangs on.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "base/data_dir.h"
#include "job/site.h"
#include "planning/simulate/sensitivity.h"
#include "schedule/program/slowdown.h"
#include "tests/scenarios/simulated.h"
#include "tests/scenarios/small_scenario.h"
#include "topology/preset.h"

using namespace tandem;

namespace {

// 1F1B on uniform costs, F of 1 s and B of 2 s, transfers free.
Scenario uniform(int pp, int microbatches, const Names& more = {}) {
  Names sets = {fmt::format("parallel.pp={}", pp),
                fmt::format("parallel.global_batch={}", microbatches)};
  sets.insert(sets.end(), more.begin(), more.end());
  return load(kUniform, sets)[0];
}

// F of 1 s and B of 2 s on a node each, 100 MB between them over NICs of 80 Gbit/s = 10 GB/s.
const std::string kTwoNodes = R"([parallel]
pp = 2
global_batch = 1
[costs]
source = "uniform"
forward_s = 1
backward_s = 2
p2p_MB = 100
[cluster]
gpus_per_node = 1
nics_per_node = 1
intra_GBps = 100
nic_Gbitps = 80
)";

}  // namespace

TEST_CASE("a stage s slower by e costs e (f + b) for each of its m - (p - 1 - s) pairs in 1F1B") {
  // With w = p - 1 - s stages behind it, stage s does w forwards, then m - w pairs of a forward and
  // a backward, then w backwards. The critical path: the first microbatch comes through s stages, s
  // f, and s itself, (1 + e) f, to the end and back, w (f + b). Then s works without a pause, from
  // its first backward to its last forward: (m - w - 1) (1 + e) (f + b). The last microbatch goes
  // to the end and back, w (f + b), through s, (1 + e) b, and s stages, s b. Together (m + p - 1)
  // (f + b), which is 1F1B's, and e (f + b) (m - w). The other w forwards and w backwards of s are
  // slower as well, in fill and flush: they fall into its two waits of w (f + b), and cost nothing.
  for (const Engine engine : engines()) {
    for (const int p : {1, 2, 4, 8}) {
      for (const int m : {8, 24}) {
        for (int stage = 0; stage < p; ++stage) {
          const Names slow = {fmt::format("variability.straggler_stages=[{}]", stage),
                              "variability.straggler_factor=1.1"};
          INFO("p " << p << ", m " << m << ", stage " << stage);
          const RunResult result = simulated(uniform(p, m, slow), engine);
          CHECK(result.iteration_s ==
                Approx(3.0 * (m + p - 1 + 0.1 * (m - (p - 1 - stage)))).epsilon(1e-9));
          CHECK(result.ranks_simulated == p);
        }
      }
    }
  }
}

TEST_CASE("of replicas the slowest decides, and the ranks are unfolded and said to be") {
  // A straggler twice as slow among rank 0 to 3: stage 0 of four replicas. All wait for it at the
  // gradients' reduction; without any the replicas are one.
  const RunResult plain = simulated(load(kSmall)[0]);
  CHECK(plain.ranks_simulated < 8);
  const RunResult result = simulated(
      load(kSmall, {"variability.straggler_ranks=[1]", "variability.straggler_factor=2"})[0]);
  CHECK(result.ranks_simulated == 8);
  CHECK(result.warnings == Names{"small: stragglers: 1 of 8 ranks take 2 times as long; all 8 "
                                 "ranks are simulated, none folded; seed 1"});
  CHECK(result.iteration_s > 1.5 * plain.iteration_s);
  // The straggler's whole node: nobody is slower than the straggler, so nothing is slower.
  const RunResult node = simulated(
      load(kSmall, {"variability.straggler_nodes=[0]", "variability.straggler_factor=2"})[0]);
  CHECK(node.iteration_s >= result.iteration_s);
}

TEST_CASE("what several lists of stragglers name is slow once") {
  // The one rank of stage 0: its stage, the rank and its node.
  const auto slow_s = [](const Names& named) {
    Names sets = named;
    sets.emplace_back("variability.straggler_factor=1.5");
    return simulated(uniform(2, 8, sets)).iteration_s;
  };
  const double once_s = slow_s({"variability.straggler_ranks=[0]"});
  CHECK(slow_s({"variability.straggler_stages=[0]"}) == once_s);
  CHECK(slow_s({"variability.straggler_stages=[0,0]"}) == once_s);
  CHECK(slow_s({"variability.straggler_stages=[0]", "variability.straggler_ranks=[0]"}) == once_s);
  CHECK(slow_s({"variability.straggler_stages=[0]", "variability.straggler_nodes=[0]",
                "variability.straggler_ranks=[0]"}) == once_s);
}

TEST_CASE("a slow stage is slow in both chains of DualPipe") {
  // Two stages of 4 x 3 s, of which one is twice as slow: 12 and 24 s, shared by two ranks. Each
  // rank of DualPipe has half of the microbatches of both stages.
  const auto slow = [](const std::string& order, const Names& more) {
    Names sets = {"schedule.order=" + order, "overlap.p2p=true"};
    sets.insert(sets.end(), more.begin(), more.end());
    return uniform(2, 4, sets);
  };
  for (const int stage : {0, 1}) {
    const Names straggler = {fmt::format("variability.straggler_stages=[{}]", stage),
                             "variability.straggler_factor=2"};
    for (const std::string order : {"1f1b", "dualpipe"})
      CHECK(simulated(slow(order, straggler)).compute_s == Approx(18));
    const RunResult dualpipe = simulated(slow("dualpipe", straggler));
    REQUIRE(dualpipe.lower_bound);
    CHECK(dualpipe.lower_bound->makespan >= 18);
    CHECK(dualpipe.lower_bound->makespan <= dualpipe.iteration_s);
    // Rank 0 is a straggler too: its other stage takes 2 x 6 s instead of 2 x 3.
    Names both = straggler;
    both.emplace_back("variability.straggler_ranks=[0]");
    CHECK(simulated(slow("dualpipe", both)).compute_s == Approx(21));
  }
  const Scenario plain = slow("dualpipe", {});
  const RunResult result = simulated(plain);
  const auto parts = sensitivity(plain, Engine::Ideal, result, false, 2);
  REQUIRE(parts.ok());
  for (const int stage : {0, 1}) {
    const double slower_s =
        simulated(slow("dualpipe", {fmt::format("variability.straggler_stages=[{}]", stage),
                                    "variability.straggler_factor=1.1"}))
            .iteration_s;
    CHECK((*parts)[stage].seconds == slower_s - result.iteration_s);
    CHECK(slower_s >= 12.6);  // a rank's 6 + 6.6 s
  }
}

TEST_CASE("stragglers of factor 1, and runs without jitter, are the plain run exactly") {
  for (const Engine engine : engines()) {
    const double plain_s = simulated(load(kSmall)[0], engine).iteration_s;
    const RunResult ones = simulated(
        load(kSmall, {"variability.straggler_ranks=[1]", "variability.straggler_factor=1"})[0],
        engine);
    CHECK(ones.iteration_s == plain_s);
    const RunResult runs = simulated(load(kSmall, {"variability.runs=3"})[0], engine);
    REQUIRE(runs.repeats);
    CHECK(runs.iteration_s == plain_s);
    CHECK(runs.repeats->iteration_s.p5 == plain_s);
    CHECK(runs.repeats->iteration_s.p95 == plain_s);
  }
}

TEST_CASE("repeated runs repeat exactly, p5 <= p50 <= p95, and p50 is the run that is shown") {
  for (const Engine engine : engines()) {
    const Scenario scenario =
        load(kSmall, {"variability.runs=9", "variability.jitter=0.1", "variability.seed=5"})[0];
    const RunResult first = simulated(scenario, engine), again = simulated(scenario, engine);
    REQUIRE(first.repeats);
    const Spread& spread = first.repeats->iteration_s;
    CHECK(first.repeats->first_seed == 5);
    CHECK(first.repeats->runs == 9);
    CHECK(spread.p5 < spread.p50);
    CHECK(spread.p50 < spread.p95);
    CHECK(first.iteration_s == spread.p50);
    CHECK(again.repeats->iteration_s.p95 == spread.p95);
    CHECK(again.iteration_s == first.iteration_s);
    // Of 9 the least and the greatest, by nearest rank: some seed's from 5 to 13.
    std::vector<double> each;
    for (int seed = 5; seed < 14; ++seed)
      each.push_back(simulated(load(kSmall, {"variability.jitter=0.1",
                                             fmt::format("variability.seed={}", seed)})[0],
                               engine)
                         .iteration_s);
    CHECK(std::ranges::min(each) == spread.p5);
    CHECK(std::ranges::max(each) == spread.p95);
  }
}

TEST_CASE("of many nodes the drawn share is slow, other ones with another seed") {
  const auto scenario = uniform(1, 2000, {"parallel.dp=2000"});
  const auto cluster = make_cluster(scenario);
  REQUIRE(cluster.ok());
  Stragglers stragglers;
  stragglers.factor = 1.5;
  stragglers.node_share = 0.1;
  const auto draw = [&](std::uint64_t seed) {
    return rank_factors(stragglers, seed, *cluster, in_order(2000));
  };
  // 2000 draws of 0.1: 200, with a standard deviation of sqrt(2000 x 0.1 x 0.9) = 13.4; five of
  // them.
  for (const std::uint64_t seed : {1, 2, 3})
    CHECK(std::abs(std::ranges::count(draw(seed), 1.5) - 200) < 67);
  CHECK(draw(1) == draw(1));
  CHECK(draw(1) != draw(2));
  stragglers.node_share = 1;
  CHECK(std::ranges::count(draw(1), 1.5) == 2000);
  stragglers.node_share = 0;
  CHECK(std::ranges::count(draw(1), 1.0) == 2000);
}

TEST_CASE("a Program whose ranks are slowed alike keeps its bodies, else it has one more a kind") {
  const auto job = compile(load(kSmall)[0]);
  REQUIRE(job.ok());
  const std::size_t bodies = job->program.bodies.size();
  Program all = job->program;
  CHECK_FALSE(slow_ranks(&all, std::vector<double>(8, 1.25)));
  CHECK(all.bodies.size() == bodies);
  Program one = job->program;
  std::vector<double> factors(8, 1);
  factors[3] = 3;
  CHECK(slow_ranks(&one, factors));
  CHECK(one.bodies.size() == bodies + 1);
  const auto& before = job->program.body_of(static_cast<Rank>(3)).ops;
  for (int rank = 0; rank < 8; ++rank) {
    const auto& ops = one.body_of(static_cast<Rank>(rank)).ops;
    if (ops.size() != before.size()) continue;  // of the other stage
    for (std::size_t i = 0; i < ops.size(); ++i) {
      const double factor = rank == 3 && is_compute(ops[i].kind) ? 3 : 1;
      if (job->program.ranks[rank].body == job->program.ranks[3].body)
        CHECK(ops[i].duration_ns ==
              std::llround(factor * static_cast<double>(before[i].duration_ns)));
    }
  }
}

TEST_CASE("background traffic takes its share of the links between nodes") {
  // A transfer takes 10 ms; with half of the NIC taken 20 ms.
  const auto transfer_s = [](const char* background, Engine engine) {
    const Scenario scenario =
        load(kTwoNodes, {fmt::format("variability.background={}", background)})[0];
    return (simulated(scenario, engine).iteration_s - 6) / 2;  // forward and backward of two stages
  };
  for (const Engine engine : engines()) {
    CHECK(transfer_s("0", engine) == Approx(0.010).epsilon(1e-6));
    CHECK(transfer_s("0.5", engine) == Approx(0.020).epsilon(1e-6));
  }
}

TEST_CASE("a slow link slows what is on its way for as long as it is slow") {
  need_simgrid();
  // F of 1 s, then 100 MB over a NIC of 10 GB/s from 1 s on: 10 ms. At a tenth of the rate 100 ms;
  // for the first 20 ms only: 20 MB by then, the other 80 MB in 8 ms, 28 ms in all. The gradient
  // goes back behind F and B of the second stage: 10 ms, as it takes the other NIC's way up.
  const auto transfers_s = [](const Names& sets) {
    return simulated(load(kTwoNodes, sets)[0], Engine::SimGrid).iteration_s - 6;
  };
  const auto slow = [&](const char* link, const char* rate, Names more = {}) {
    more.push_back(fmt::format("variability.slow_link={}", link));
    more.push_back(fmt::format("variability.slow_link_rate={}", rate));
    return transfers_s(more);
  };
  CHECK(transfers_s({}) == Approx(0.020).epsilon(1e-6));
  CHECK(slow("n0.nic0.up", "0.1") == Approx(0.110).epsilon(1e-6));
  // 10 GB/s x 0.1 x 0.02 s = 20 MB, then 80 MB.
  CHECK(slow("n0.nic0.up", "0.1", {"variability.slow_link_to_s=1.02"}) ==
        Approx(0.038).epsilon(1e-6));
  // 50 MB in the 5 ms before, the others in 50 ms.
  CHECK(slow("n0.nic0.up", "0.1", {"variability.slow_link_from_s=1.005"}) ==
        Approx(0.005 + 0.050 + 0.010).epsilon(1e-6));
  CHECK(slow("n0.nic0.up", "0.1", {"variability.slow_link_from_s=2"}) ==
        Approx(0.020).epsilon(1e-6));
  // Failed for 45 ms behind the first 50 MB: the others wait, then take 5 ms.
  CHECK(slow("n0.nic0.up", "0",
             {"variability.slow_link_from_s=1.005", "variability.slow_link_to_s=1.05"}) ==
        Approx(0.055 + 0.010).epsilon(1e-6));
  // Both directions: the gradient comes down to the first node.
  CHECK(slow("n0", "0.1") == Approx(0.200).epsilon(1e-6));
  CHECK(slow("n0", "1") == Approx(0.020).epsilon(1e-6));
}

TEST_CASE("a link that becomes slow only behind the iteration is said to do nothing") {
  need_simgrid();
  const auto warned = [](const char* from) {
    const Names sets = {"variability.slow_link=n0", "variability.slow_link_rate=0.1",
                        fmt::format("variability.slow_link_from_s={}", from)};
    const Names lines = simulated(load(kTwoNodes, sets)[0], Engine::SimGrid).warnings;
    return std::ranges::count_if(lines, [](const std::string& line) {
      return line.find(
                 "--set: variability.slow_link_from_s = 7 has no effect: the iteration takes "
                 "6.02 s") != std::string::npos;
    });
  };
  CHECK(warned("7") == 1);
  CHECK(warned("1") == 0);
}

TEST_CASE("a link that has failed is gone round, and the run says what that costs") {
  // Two replicas of two stages, a stage a node. Stage 0's GPU 0 loses its NIC: both replicas send
  // their 100 MB over the other one's 10 GB/s, in lock step 20 ms instead of 10, there and back.
  const Names two_rails = {"cluster.gpus_per_node=2", "cluster.nics_per_node=2", "parallel.dp=2",
                           "parallel.global_batch=2"};
  for (const Engine engine : engines()) {
    CHECK(simulated(load(kTwoNodes, two_rails)[0], engine).iteration_s ==
          Approx(6.020).epsilon(1e-9));
    Names sets = two_rails;
    sets.insert(sets.end(), {"variability.slow_link=n0.nic0", "variability.slow_link_rate=0"});
    const Scenario scenario = load(kTwoNodes, sets)[0];
    const RunResult result = simulated(scenario, engine);
    CHECK(result.iteration_s == Approx(6.040).epsilon(1e-9));
    REQUIRE(result.warnings.size() == 2);
    // Stage 0's GPU 0 with stage 1's, both ways, and the other replica's as before.
    CHECK(result.warnings[0] == scenario.name +
                                    ": n0.nic0 has failed: 2 of 4 routes between neighbours in "
                                    "communicators go another way");
    CHECK(result.warnings[1] == scenario.name +
                                    ": n0.nic0 has failed: the iteration takes 6.04 s, 6.02 s with "
                                    "all links: +0.33 %");
  }
}

TEST_CASE("a cluster from a file is played as its links say, whole and with one failed") {
  // Replicas are columns of the torus, stages its rows: 100 MB go one hop over 25 GB/s, 4 ms, and
  // 0.5 + 0.2 + 0.5 us. F of 1 s and B of 2 s through four stages, six transfers.
  Names sets = {"cluster.links_file=" + data_dir() + "/scenarios/clusters/torus.csv",
                "parallel.pp=4", "parallel.dp=4", "parallel.global_batch=4"};
  CHECK(simulated(load(kTwoNodes, sets)[0]).iteration_s == Approx(12.0240072).epsilon(1e-12));
  // Without the first column's first cable its replica takes three hops, one way over a cable that
  // another replica's transfers are on in lock step: 8 ms instead of 4 for one of the six, and 0.4
  // us more for two.
  sets.insert(sets.end(), {"variability.slow_link=r0.0.r0.1", "variability.slow_link_rate=0"});
  const RunResult result = simulated(load(kTwoNodes, sets)[0]);
  CHECK(result.iteration_s == Approx(12.028008).epsilon(1e-12));
  REQUIRE(result.warnings.size() == 2);
  CHECK(result.warnings[1].ends_with(
      "r0.0.r0.1 has failed: the iteration takes 12.03 s, 12.02 s with all links: +0.03 %"));
}

TEST_CASE("where there is no other way a link does not fail for good") {
  const auto refused = [](const char* link) {
    const Names sets = {fmt::format("variability.slow_link={}", link),
                        "variability.slow_link_rate=0"};
    const auto result = simulate(load(kTwoNodes, sets)[0], Engine::Ideal);
    REQUIRE(!result.ok());
    return result.error().text();
  };
  CHECK(refused("n0.nic0") ==
        "--set: found that n0.nic0 fails for good, expected variability.slow_link_to_s: there is "
        "no other way from n0.gpu0 to n1.gpu0");
  CHECK(refused("n9").starts_with(
      "--set: found variability.slow_link = n9, expected a link of the cluster; the nearest is"));
}

TEST_CASE("a link that the cluster lacks is refused, and so is any on the ideal engine") {
  const Names slow = {"variability.slow_link=n0.nic9", "variability.slow_link_rate=0.5"};
  const auto ideal = simulate(load(kTwoNodes, slow)[0], Engine::Ideal);
  REQUIRE(!ideal.ok());
  CHECK(ideal.error().text() ==
        "--set: found variability.slow_link with the ideal engine, expected simgrid: ideal knows "
        "no time on links");
  need_simgrid();
  const auto lacking = simulate(load(kTwoNodes, slow)[0], Engine::SimGrid);
  REQUIRE(!lacking.ok());
  CHECK(lacking.error().text().starts_with(
      "--set: found variability.slow_link = n0.nic9, expected a link of the cluster; the nearest "
      "is 'n0.nic0"));
}

TEST_CASE(
    "sensitivity: a stage counts as the straggler does, a kind of communication as its time") {
  // Parts are what runs with that straggler, and with transfers of 1.1 times 0.1 s, take more.
  const Scenario scenario = uniform(2, 4, {"costs.p2p_s=0.1"});
  const RunResult plain = simulated(scenario);
  const auto parts = sensitivity(scenario, Engine::Ideal, plain, false, 2);
  REQUIRE(parts.ok());
  REQUIRE(parts->size() == 3);
  for (const int stage : {0, 1}) {
    const RunResult slow = simulated(
        uniform(2, 4,
                {"costs.p2p_s=0.1", fmt::format("variability.straggler_stages=[{}]", stage),
                 "variability.straggler_factor=1.1"}));
    CHECK((*parts)[stage].part == fmt::format("stage {}", stage));
    CHECK((*parts)[stage].seconds == slow.iteration_s - plain.iteration_s);
    CHECK((*parts)[stage].of_iteration ==
          Approx(slow.iteration_s / plain.iteration_s - 1).epsilon(1e-9));
  }
  CHECK((*parts)[2].part == "pipeline communication");
  CHECK((*parts)[2].seconds ==
        Approx(simulated(uniform(2, 4, {"costs.p2p_s=0.11"})).iteration_s - plain.iteration_s)
            .epsilon(1e-9));
}

TEST_CASE("sensitivity: slower tensor communication leaves the CPU's launches less to wait for") {
  // Layers so small that launches take longer than kernels. Tensor groups alone use links in nodes.
  const Scenario scenario = load(
      kSmall, {"cluster.preset=dgx-h100", "parallel.tp=8", "parallel.pp=1", "parallel.dp=1"})[0];
  const RunResult plain = simulated(scenario);
  const auto parts = sensitivity(scenario, Engine::Ideal, plain, false, 2);
  REQUIRE(parts.ok());
  std::map<std::string, double> longer_s;
  for (const Sensitivity& part : *parts) longer_s[part.part] = part.seconds;
  CHECK(longer_s.at("links in a node") > 0);
  CHECK(longer_s.at("tensor communication") ==
        Approx(longer_s.at("links in a node")).epsilon(0.02));
}

TEST_CASE(
    "stragglers that are not there, and links that fail for good later, are refused with the "
    "place") {
  const auto refused = [](const Names& sets) {
    const Folder folder;
    const auto scenarios = try_load(folder, kSmall, sets);
    REQUIRE(!scenarios.ok());
    return scenarios.error().text();
  };
  CHECK(refused({"variability.straggler_ranks=[8]", "variability.straggler_factor=2"}) ==
        "--set: found variability.straggler_ranks with 8, expected numbers below 8");
  CHECK(refused({"variability.straggler_nodes=[1]", "variability.straggler_factor=2"}) ==
        "--set: found variability.straggler_nodes with 1, expected numbers below 1");
  CHECK(refused({"variability.slow_link=n0", "variability.slow_link_rate=0",
                 "variability.slow_link_from_s=2"}) ==
        "--set: found that n0 fails for good from 2 s on, expected variability.slow_link_to_s, or "
        "a failure from the beginning: routes do not change in an iteration");
  CHECK(refused({"variability.slow_link=n0"}) ==
        "--set: found one of variability.slow_link and variability.slow_link_rate, expected both: "
        "which link has what share of its bandwidth");
  CHECK(refused({"variability.straggler_stages=[0]"}) ==
        "--set: found stragglers without variability.straggler_factor, expected how many times as "
        "long they take");
}
