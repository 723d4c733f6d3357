// Packing: bins hold every sequence once and never more than the limit; what packed microbatches
// take is what the cost model says of the same tokens; and the program.
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>

#include "job/order_job.h"
#include "job/price_job.h"
#include "planning/pack/pack.h"
#include "planning/pack/packing.h"
#include "planning/play/play_job.h"
#include "tests/sandbox.h"
#include "tests/scenarios/small_scenario.h"
#include "tests/text.h"
#include "traces/metrics.h"

namespace tandem {
namespace {

using Json = nlohmann::json;

// 1 of a microbatch, 4 of a limit's tokens, 3 of a limit's square.
const SizeCost kCost{3, {5, 3}};

std::vector<int> drawn(std::mt19937* random, int count, int longest) {
  std::vector<int> lengths(count);
  for (int& length : lengths) length = std::uniform_int_distribution<int>(1, longest)(*random);
  return lengths;
}

std::vector<int> sorted(const std::vector<Bin>& bins) {
  std::vector<int> all;
  for (const Bin& bin : bins) all.insert(all.end(), bin.begin(), bin.end());
  std::ranges::sort(all);
  return all;
}

// The fewest bins, by trying all.
int fewest(const std::vector<int>& lengths, std::size_t at, std::vector<int>* rooms, int limit) {
  if (at == lengths.size()) return static_cast<int>(rooms->size());
  int least = INT32_MAX;
  for (std::size_t bin = 0; bin < rooms->size(); ++bin) {
    if ((*rooms)[bin] < lengths[at]) continue;
    (*rooms)[bin] -= lengths[at];
    least = std::min(least, fewest(lengths, at + 1, rooms, limit));
    (*rooms)[bin] += lengths[at];
  }
  rooms->push_back(limit - lengths[at]);
  least = std::min(least, fewest(lengths, at + 1, rooms, limit));
  rooms->pop_back();
  return least;
}

double highest(const std::vector<Bin>& bins, int limit) {
  double most = 0;
  for (const Bin& bin : bins) most = std::max(most, kCost.of(size_of(bin, limit)));
  return most;
}

// The small model as Llama is built: its parameters do not go with the length.
Scenario small(const Names& set = {}) {
  Names all = {"model.gated_mlp=true", "train.flash_attention=true"};
  all.insert(all.end(), set.begin(), set.end());
  return load(kSmall, all).front();
}

std::string csv_of(const std::vector<int>& lengths) {
  std::string text = "length\n";
  for (const int length : lengths) text += std::to_string(length) + '\n';
  return text;
}

PackStudy packed(const Scenario& scenario, const std::vector<int>& lengths, int limit) {
  const Folder folder;
  const auto study = pack(scenario, folder.with("lengths.csv", csv_of(lengths)),
                          {.tokens = limit, .engine = Engine::Ideal});
  INFO((study.ok() ? "" : study.error().text()));
  REQUIRE(study.ok());
  return *study;
}

double simulated_s(const Scenario& scenario) {
  const auto result = simulate(scenario, Engine::Ideal);
  REQUIRE(result.ok());
  return result->iteration_s;
}

TEST_CASE("bins hold every sequence once, none above the limit, in as many as asked for") {
  const unsigned seed = 20261121;
  INFO("seed " << seed);
  std::mt19937 random(seed);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<int> lengths = drawn(&random, 40, trial % 2 == 0 ? 1000 : 400);
    const std::vector<Bin> first = first_fit_decreasing(lengths, 1000);
    const int least = static_cast<int>(first.size());
    CHECK(least * 1000 >= std::accumulate(lengths.begin(), lengths.end(), 0));
    const int count = std::min(40, least + trial % 5);
    const std::vector<Bin> bins = pack_into(lengths, count, 1000, kCost);
    CHECK(static_cast<int>(bins.size()) == count);
    std::ranges::sort(lengths);
    CHECK(sorted(first) == lengths);
    CHECK(sorted(bins) == lengths);
    for (const Bin& bin : bins) {
      CHECK(!bin.empty());
      CHECK(tokens_of(bin) <= 1000);
    }
    for (const Bin& bin : first) CHECK(tokens_of(bin) <= 1000);
    CHECK(highest(bins, 1000) <= highest(first, 1000));
  }
}

TEST_CASE("first fit decreasing needs at most 11/9 of the fewest bins and 6/9 of one") {
  const unsigned seed = 7;
  INFO("seed " << seed);
  std::mt19937 random(seed);
  int best = 0;
  for (int trial = 0; trial < 200; ++trial) {
    const std::vector<int> lengths = drawn(&random, 8, trial % 2 == 0 ? 20 : 12);
    std::vector<int> rooms;
    const int least = fewest(lengths, 0, &rooms, 20);
    const int bins = static_cast<int>(first_fit_decreasing(lengths, 20).size());
    CHECK(bins >= least);
    CHECK(9 * bins <= 11 * least + 6);
    best += bins == least ? 1 : 0;
  }
  CHECK(best > 150);
}

TEST_CASE("bins and replicas come out even where they can") {
  // 4 + 2 and 3 + 3; by squares 20 and 18.
  const std::vector<Bin> bins = pack_into({2, 3, 4, 3}, 2, 10, kCost);
  CHECK(tokens_of(bins[0]) == 6);
  CHECK(tokens_of(bins[1]) == 6);
  // First fit alone: 9 in one, 5 4 in the other; no change lowers the 9.
  CHECK(highest(pack_into({4, 5, 9}, 2, 9, kCost), 9) == Approx(1 + 4 + 3));
  const auto dealt = deal_to_replicas({{1}, {2}, {3}, {4}}, 2, 10, kCost);
  CHECK(dealt == std::vector<std::vector<Bin>>{{{4}, {1}}, {{3}, {2}}});
}

TEST_CASE("a cost that is once, by tokens and by squares is found whole") {
  // 5 + 7 t + 3 s: whole 15; in halves s = 1/2; half t = 1/2, s = 1/4; then t = 1/4, s = 1/16.
  const SizeCost cost = fit(15, 13.5, {5 + 3.5 + 0.75, 5 + 1.75 + 3.0 / 16});
  CHECK(cost.of({1, 1}) == Approx(15));
  CHECK(cost.of({0.9, 0.2}) == Approx(5 + 6.3 + 0.6));
  CHECK(cost.of({0.3, 0.05}) == Approx(5 + 2.1 + 0.15));
  CHECK(cost.of({0.1, 0.01}) == Approx(5 + 0.7 + 0.03));
}

TEST_CASE("a cost whose shorter sequences are dearer never falls with more tokens") {
  const SizeCost cost = fit(10, 12, {11, 3});
  CHECK(cost.of({1, 1}) == 10);
  for (double t = 0.05; t < 1; t += 0.05) CHECK(cost.of({t, t * t}) <= cost.of({t + 0.05, 1}));
}

TEST_CASE("sequences as long as the limit take what the scenario of that length takes") {
  for (const Names& set : {Names{}, Names{"schedule.order=zb1p"}, Names{"schedule.order=dualpipe"},
                           Names{"parallel.vpp=2", "schedule.order=interleaved"},
                           Names{"train.zero=3", "parallel.pp=1", "parallel.dp=4"}}) {
    INFO((set.empty() ? "" : set[0]));
    const Scenario scenario = small(set);
    const PackStudy study = packed(scenario, std::vector<int>(32, 512), 512);
    REQUIRE(study.ways.size() == 3);
    CHECK(study.ways[0].iteration_s == simulated_s(scenario));
    CHECK(study.ways[1].iteration_s == study.ways[0].iteration_s);
    CHECK(study.ways[2].iteration_s == study.ways[0].iteration_s);
    CHECK(study.ways[2].microbatches == study.ways[0].microbatches);
    CHECK(study.ways[2].memory_bytes == study.ways[0].memory_bytes);
    CHECK(study.padding_fraction(study.ways[0]) == 0);
  }
}

TEST_CASE("four sequences of a quarter in a bin take what a micro batch of four takes") {
  for (const Names& set :
       {Names{}, Names{"train.sequence_parallel=true"}, Names{"parallel.cp=2", "parallel.dp=1"},
        Names{"model.experts=4", "model.top_k=2", "train.sequence_parallel=true"},
        Names{"schedule.order=dualpipe", "parallel.global_batch=64"},
        Names{"overlap.tensor=ring", "train.sequence_parallel=true"}}) {
    INFO((set.empty() ? "" : set[0]));
    Names wide = set;  // so that no kernel waits for its launch
    for (const char* key : {"model.hidden=8192", "model.heads=64", "cluster.memory_GiB=1000"})
      wide.emplace_back(key);
    const Scenario scenario = small(wide);
    Names four = wide;
    four.emplace_back("parallel.micro_batch=4");
    const PackStudy study =
        packed(scenario, std::vector<int>(scenario.job.plan.global_batch, 512), 2048);
    CHECK(study.ways[2].iteration_s == Approx(simulated_s(small(four))).epsilon(1e-6));
    CHECK(study.fill_fraction(study.ways[2]) == 1);
  }
}

TEST_CASE("the replica with the longest sequences is waited for") {
  // Of every two the first goes to the first replica.
  std::vector<int> lengths;
  for (int i = 0; i < 8; ++i) lengths.insert(lengths.end(), {512, 32});
  const PackStudy study = packed(small(), lengths, 512);
  CHECK(study.ways[1].iteration_s == study.ways[0].iteration_s);
  CHECK(study.padding_fraction(study.ways[1]) == 0);
  // 8 x 544 tokens in bins of 512: 8 full ones, and 8 x 32 = 256 in a ninth; rounded to 10.
  CHECK(study.least_bins == 9);
  CHECK(study.bins == 10);
  CHECK(study.ways[2].microbatches == 5);
  CHECK(study.padding_fraction(study.ways[0]) == Approx(1 - 544.0 / 1024));
  CHECK(study.fill_fraction(study.ways[2]) == Approx(8 * 544.0 / (10 * 512)));
}

TEST_CASE("a padded microbatch is as long as its longest sequence") {
  // 512 and 256 padded to 512; 128 and 128 whole: 4 x (1024 + 256) for 4 x 1024 tokens.
  std::vector<int> lengths;
  for (int i = 0; i < 4; ++i) lengths.insert(lengths.end(), {512, 256, 128, 128});
  const PackStudy study = packed(small({"parallel.micro_batch=2"}), lengths, 1024);
  CHECK(study.padding_fraction(study.ways[1]) == Approx(1 - 1024.0 / 1280));
}

TEST_CASE("microbatches are sized for the layout that was found") {
  std::vector<int> lengths;
  for (int i = 0; i < 4; ++i) lengths.insert(lengths.end(), {512, 256, 128, 128});
  const PackStudy study = packed(small({"parallel.layout=auto"}), lengths, 1024);
  REQUIRE(study.ways.size() == 3);
  CHECK(study.ways[2].iteration_s > 0);
}

// What an iteration of microbatches of these sizes takes.
Nanoseconds played(const Scenario& scenario, const std::vector<MicrobatchSize>& sizes) {
  const auto job = compile(scenario, [&](CompiledJob* p) {
    const auto work = [&](int seq, int micro_batch) {
      Scenario of = scenario;
      of.job.model.seq = seq;
      of.job.plan.micro_batch = micro_batch;
      of.job.plan.global_batch *= micro_batch;
      return price_workload(of.job, p->order, of.costs, p->site);
    };
    resize_microbatches(&p->program, fit(work(512, 1), work(256, 2), {work(256, 1), work(128, 1)}),
                        p->order.chains, sizes);
  });
  REQUIRE(job.ok());
  const auto trace = play_compiled(scenario, *job, Engine::Ideal);
  REQUIRE(trace.ok());
  return to_ns(measure(job->program, *trace).iteration_s);
}

TEST_CASE("a microbatch with fewer tokens never makes an iteration longer") {
  const unsigned seed = 11;
  INFO("seed " << seed);
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> share(0.1, 1);
  for (const Names& set : {Names{}, Names{"schedule.order=zb1p"}, Names{"schedule.order=dualpipe"},
                           Names{"parallel.vpp=2", "schedule.order=interleaved"}}) {
    INFO((set.empty() ? "" : set[0]));
    const Scenario scenario = small(set);
    std::vector<MicrobatchSize> sizes(8);
    Nanoseconds before = played(scenario, sizes);
    for (int step = 0; step < 20; ++step) {
      MicrobatchSize& size = sizes[std::uniform_int_distribution<int>(0, 7)(random)];
      size.tokens *= share(random);
      size.squares = std::min(size.squares, size.tokens * size.tokens);
      const Nanoseconds now = played(scenario, sizes);
      CHECK(now <= before);
      before = now;
    }
    CHECK(before < played(scenario, std::vector<MicrobatchSize>(8)));
  }
}

TEST_CASE("communication of a pass goes with its tokens, that of data parallelism does not") {
  const Scenario scenario = small({"train.sequence_parallel=true", "parallel.scatter_gather=true"});
  const auto whole = compile(scenario);
  REQUIRE(whole.ok());
  Program half = whole->program;
  const SizeCost any{0, {8, 4}};
  StageCosts costs;
  costs.fill(std::vector<SizeCost>(100, any));
  resize_microbatches(&half, std::vector<StageCosts>(2, costs), 1,
                      std::vector<MicrobatchSize>(8, {0.5, 0.25}));
  int passes = 0, data = 0;
  for (std::size_t b = 0; b < half.bodies.size(); ++b) {
    const Body& body = half.bodies[b];
    for (std::size_t i = 0; i < body.ops.size(); ++i) {
      const Op &op = body.ops[i], &before = whole->program.bodies[b].ops[i];
      if (op.kind < OpKind::Optimizer) CHECK(op.duration_ns == 4);
      if (op.kind == OpKind::Optimizer) CHECK(op.duration_ns == before.duration_ns);
      if (is_compute(op.kind)) continue;
      const bool of_data = body.slots[op.slot].group_kind == GroupKind::Data;
      CHECK(op.bytes == (of_data ? before.bytes : before.bytes / 2));
      ++(of_data ? data : passes);
    }
  }
  CHECK(passes > 100);
  CHECK(data >= 2);
}

TEST_CASE("shorter sequences never take longer to train on") {
  const unsigned seed = 3;
  INFO("seed " << seed);
  std::mt19937 random(seed);
  std::vector<int> lengths = drawn(&random, 64, 512);
  PackStudy before = packed(small(), lengths, 1024);
  for (int halving = 0; halving < 3; ++halving) {
    for (int& length : lengths) length = std::max(1, length / 2);
    const PackStudy study = packed(small(), lengths, 1024);
    CHECK(study.ways[0].iteration_s == before.ways[0].iteration_s);
    CHECK(study.ways[1].iteration_s < before.ways[1].iteration_s);
    CHECK(study.ways[2].iteration_s < before.ways[2].iteration_s);
    CHECK(study.bins <= before.bins);
    before = study;
  }
}

// The words of the line that begins with `first`.
Names row(const std::string& text, const std::string& first) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    Names row;
    for (std::string word; words >> word;) row.push_back(word);
    if (!row.empty() && row.front() == first) return row;
  }
  return {};
}

TEST_CASE("tandem pack: the table is the JSON, and fixed length is what simulate gives") {
  const Sandbox sandbox;
  sandbox.file("small.toml", kSmall);
  std::mt19937 random(5);
  sandbox.file("lengths.csv", csv_of(drawn(&random, 50, 512)));
  for (const std::string engine : {"ideal", "simgrid"}) {
    const std::string command =
        "pack small.toml lengths.csv --tokens 1024 --batches 2 --engine " + engine;
    const Ran ran = sandbox.tandem(command + " --json"), text = sandbox.tandem(command);
    check_done(ran);
    check_done(text);
    const Json study = Json::parse(ran.out);
    CHECK(study["iterations"] == 3);
    CHECK(study["iterations_played"] == 2);
    CHECK(study["sequences_left_out"] == 2);
    REQUIRE(study["ways"].size() == 3);
    for (const Json& way : study["ways"]) {
      const auto number = [&](const char* key) { return way.at(key).get<double>(); };
      const Names expected = {way.at("way"),
                              fmt::format("{}", way.at("seq").get<int>()),
                              fmt::format("{}", way.at("micro_batch").get<int>()),
                              fmt::format("{:.4g}", number("microbatches")),
                              fmt::format("{:.0f}", study.at("tokens").get<double>()),
                              fmt::format("{:.1f}", 100 * number("padding_fraction")),
                              fmt::format("{:.1f}", 100 * number("fill_fraction")),
                              fmt::format("{:.3f}", number("iteration_s")),
                              fmt::format("{:.0f}", number("tokens_per_s")),
                              fmt::format("{:.2f}", number("speedup")),
                              fmt::format("{:.1f}", number("memory_bytes") / GiB),
                              way.at("fits").get<bool>() ? "yes" : "NO"};
      CHECK(row(text.out, way.at("way")) == expected);
      CHECK(number("tokens_per_s") ==
            Approx(study.at("tokens").get<double>() / number("iteration_s")));
      CHECK(number("speedup") ==
            Approx(study["ways"][0]["iteration_s"].get<double>() / number("iteration_s")));
    }
    const Ran plain = sandbox.tandem("simulate small.toml --json --engine " + engine);
    check_done(plain);
    CHECK(study["ways"][0]["iteration_s"] == Json::parse(plain.out)[0]["iteration_s"]);
    CHECK(sandbox.tandem(command).out == text.out);
  }
}

TEST_CASE("tandem pack prints what docs/planning.md says") {
  const Sandbox sandbox;
  const std::string source = TANDEM_SOURCE_DIR "/";
  const std::string page = contents(source + "docs/planning.md");
  const Ran ran = sandbox.tandem(fmt::format(
      "pack '{0}scenarios/packing.toml' '{0}scenarios/lengths.csv' --tokens 8192", source));
  check_done(ran);
  const std::size_t table = ran.out.find("\n\n");
  REQUIRE(table != std::string::npos);
  CHECK(page.find(ran.out.substr(table + 2)) != std::string::npos);
}

TEST_CASE("tandem pack refuses what it cannot play with one line") {
  const Sandbox sandbox;
  sandbox.file("small.toml", kSmall);
  sandbox.file("uniform.toml", kTwoStages);
  sandbox.file("two.toml", kSmall + "[matrix]\nparallel.micro_batch = [1, 2]\n");
  sandbox.file("lengths.csv", csv_of(std::vector<int>(16, 100)));
  sandbox.file("few.csv", csv_of(std::vector<int>(15, 100)));
  sandbox.file("empty.csv", "# nothing\n");
  sandbox.file("other.csv", "tokens\n100\n");
  sandbox.file("text.csv", "length\n100\nlong\n");
  sandbox.file("counts.csv", "length,count\n100,15\n200,1\n");
  sandbox.file("none.csv", "length\n100\n0\n");
  sandbox.file("long.csv", "length\n100\n513\n");
  const auto refused = [&](const std::string& arguments, const std::string& line) {
    const Ran ran = sandbox.tandem("pack " + arguments);
    INFO(ran.err);
    CHECK(ran.status == 2);
    CHECK(ran.out.empty());
    CHECK(ran.err.find(line) != std::string::npos);
    CHECK(std::count(ran.err.begin(), ran.err.end(), '\n') == 1);
  };
  refused("small.toml lengths.csv", "--tokens is required");
  refused("small.toml lengths.csv --tokens 0", "--tokens");
  refused("uniform.toml lengths.csv --tokens 512",
          "uniform.toml:5: found costs.source = uniform, expected a model");
  refused("two.toml lengths.csv --tokens 512", "found 2 runs, expected one");
  refused("small.toml lengths.csv --tokens 512 --set 'schedule.vocabulary=\"parallel\"'",
          "found schedule.vocabulary = parallel, expected stage: passes of the vocabulary are of "
          "one size");
  refused("small.toml few.csv --tokens 512",
          "few.csv: found 15 sequences, expected an iteration of 16");
  refused("small.toml empty.csv --tokens 512", "empty.csv:1: found no rows");
  refused("small.toml gone.csv --tokens 512", "gone.csv: no such file");
  refused("small.toml other.csv --tokens 512", "other.csv:1: found no column 'length'");
  refused("small.toml text.csv --tokens 512",
          "text.csv:3: column 'length': found 'long', expected an integer");
  refused("small.toml counts.csv --tokens 512",
          "counts.csv:1: found the column 'count', expected 'length' alone");
  refused("small.toml none.csv --tokens 512",
          "none.csv:3: column 'length': found 0, expected 1 to 512, model.seq");
  refused("small.toml long.csv --tokens 1024",
          "long.csv:3: column 'length': found 513, expected 1 to 512, model.seq");
  refused("small.toml lengths.csv --tokens 50",
          "lengths.csv:2: column 'length': found 100, expected 1 to 50, --tokens");
  refused("small.toml lengths.csv --tokens 511", "--tokens: found 511, expected an even number");
  refused("small.toml lengths.csv --tokens 514 --set train.sequence_parallel=true",
          "--tokens: of half of 514 tokens");
  refused("small.toml lengths.csv --tokens 513 --set train.sequence_parallel=true",
          "--tokens: model.seq: found 513, expected a multiple of parallel.tp");
}

}  // namespace
}  // namespace tandem
