// The search where a rule of thumb fails: rows of experts that are rounded, ZeRO that holds
// more, a stage without a layer, and keys that leave nothing.
#include <nlohmann/json.hpp>

#include "planning/tune/tune.h"
#include "tests/planning/stage_plans.h"
#include "tests/sandbox.h"

namespace tandem {
namespace {

Space among(const Names& texts) {
  auto space = Space::among(texts);
  REQUIRE(space.ok());
  return *std::move(space);
}

SearchResult searched(const Scenario& base, const Names& texts) {
  StageLevel level = level_of(base);
  return Search(base, among(texts), {&level, 1}).best({.keep = 1});
}

// The best of a space is no slower than the best of what is asked of it in a part.
void check_part(const Scenario& base, const Names& space, const std::string& part) {
  Names narrow = space;
  narrow.push_back(part);
  const SearchResult all = searched(base, space), of_part = searched(base, narrow);
  REQUIRE((all.complete && !all.best.empty() && !of_part.best.empty()));
  CHECK(all.best.front().iteration_ns <= of_part.best.front().iteration_ns);
  CHECK(all.bound_ns <= of_part.best.front().iteration_ns);
}

TEST_CASE("micro batches whose experts' rows are rounded up hide none rounded down") {
  const Names space = {"schedule.order=none,1f1b", "parallel.cp=1", "overlap.tensor=off",
                       "parallel.vpp=1"};
  check_part(load(kMixtral).front(), space, "parallel.micro_batch=3");
}

TEST_CASE("ZeRO 1 may hold less than ZeRO 3, which gathers the largest layer beside its parts") {
  const Scenario base =
      load(kSmall, {"model.seq=960", "model.vocab=128000", "model.layers=4", "parallel.tp=1",
                    "parallel.pp=1", "parallel.dp=6", "parallel.global_batch=36", "cluster.gpus=6",
                    "cluster.memory_GiB=2", "cluster.memory_reserve_GiB=0"})
          .front();
  check_part(base,
             {"parallel.cp=1", "overlap.tensor=off", "parallel.micro_batch=1,2,3", "parallel.pp=1"},
             "train.zero=1");
}

TEST_CASE("a stage before the loss may have no layer where predictions follow") {
  const Scenario base =
      load(kSmall, {"model.mtp_layers=1", "parallel.tp=1", "parallel.pp=1", "parallel.dp=6",
                    "parallel.global_batch=12", "cluster.gpus=6"})
          .front();
  const Names texts = {"parallel.pp=6", "schedule.order=1f1b", "parallel.cp=1",
                       "overlap.tensor=off", "parallel.micro_batch=1"};
  StageLevel level = level_of(base);
  const SearchResult all = search_all(base, among(texts), &level, 1);
  const SearchResult found = searched(base, texts);
  REQUIRE((!all.best.empty() && !found.best.empty()));
  CHECK(found.best.front().iteration_ns == all.best.front().iteration_ns);
}

TEST_CASE("cuts that no micro batch divides are no cuts, not too large ones") {
  const Scenario base = load(kSmall).front();
  CHECK(searched(base, {"parallel.micro_batch=3"}).counts.found_none());
  const SearchCounts counts = searched(base, {"parallel.micro_batch=16"}).counts;
  CHECK(counts.cuts > 0);
  CHECK(counts.cuts_memory == 0);
}

TEST_CASE("a key that is named twice is refused") {
  CHECK(Space::among({"parallel.tp=1", "parallel.pp=1", "parallel.tp=2"}).error().text() ==
        "--among: found parallel.tp twice, expected all its values in one");
}

TEST_CASE("a value that is named twice is tried once") {
  const Scenario base = load(kSmall, {"parallel.tp=1", "parallel.pp=1", "parallel.dp=8"}).front();
  const auto enumerated = [&](const std::string& shards) {
    StageLevel level = level_of(base);
    return search_all(base,
                      among({"parallel.hsdp_shard=" + shards, "parallel.cp=1", "parallel.tp=1",
                             "parallel.pp=1", "parallel.micro_batch=1"}),
                      &level, 1)
        .counts.enumerated;
  };
  CHECK(enumerated("4") > 0);
  CHECK(enumerated("4,4") == enumerated("4"));
}

TEST_CASE("a search that is stopped before it knows its cuts counts all of them as left") {
  const Scenario base = load(kSmall).front();
  StageLevel level = level_of(base);
  const Space space = among({});
  const SearchResult result =
      Search(base, space, {&level, 1}).best({.keep = 1, .stop = [] { return true; }});
  CHECK(!result.complete);
  CHECK(result.counts.cuts > 0);
  CHECK(result.counts.cuts_left == result.counts.cuts);
}

TEST_CASE("tandem tune searches though the scenario's own plan is refused, and says why it is") {
  const Sandbox box;
  box.file("small.toml", kSmall);
  const std::string few =
      " --among parallel.cp=1 --among overlap.tensor=off --among parallel.micro_batch=1 --keep 1 "
      "--engine ideal --json";
  const auto own = nlohmann::json::parse(box.tandem("tune small.toml" + few).out);
  const auto check = [&](const std::string& arguments, const std::string& why) {
    const Ran ran = box.tandem("tune " + arguments + few);
    CHECK(ran.status == 0);
    const std::string line = "the scenario's own plan is refused, others are searched: ";
    INFO(ran.err);
    CHECK(ran.err.starts_with("warning: " + line + why));
    CHECK(std::ranges::count(ran.err, '\n') == 1);
    const auto tuned = nlohmann::json::parse(ran.out);
    CHECK(tuned["own"].is_null());
    CHECK(tuned["own_refused"].get<std::string>().starts_with(why));
    for (const char* part : {"plan", "stage_level_s"})
      CHECK(tuned["best"][0][part] == own["best"][0][part]);
  };
  check("small.toml --set parallel.tp=3", "small.toml:");
  check("small.toml --set parallel.dp=4", "small.toml:15: found cluster.gpus = 8, expected ");
  check("small.toml --set parallel.micro_batch=3", "small.toml:12: found parallel.global_batch");
  check("small.toml --set 'parallel.layers_per_stage=[5,2]'", "--set: ");
  // The printed plan is simulated without the keys that were refused and that it does not set.
  for (const auto& [key, set] :
       {std::pair{"parallel.expert_tp", "=2"},
        std::pair{"schedule.vocabulary", "=parallel --set parallel.pp=1"}}) {
    const std::string tune = std::string("tune small.toml --set ") + key + set + few;
    const auto tuned = nlohmann::json::parse(box.tandem(tune).out);
    CHECK(tuned["own"].is_null());
    CHECK(tuned["cleared"] == nlohmann::json{key});
    const std::string text = box.tandem(tune.substr(0, tune.rfind(' ')) + " --wide").out;
    const std::string begin = "The first plan: tandem ";
    const std::size_t at = text.find(begin) + begin.size();
    INFO(text);
    const Ran again = box.tandem(text.substr(at, text.find('\n', at) - at) + " --json");
    REQUIRE(again.status == 0);
    CHECK(nlohmann::json::parse(again.out)[0]["iteration_s"] ==
          tuned["best"][0]["simulate"]["iteration_s"]);
  }
  // What no plan mends stays an error.
  check_refused(box.tandem("tune small.toml --set parallel.global_batch=0" + few), "--set: ");
  check_refused(box.tandem("tune small.toml --set parallel.tp=two" + few), "--set: ");
  check_refused(box.tandem("tune small.toml --set cluster.gpus_per_node=3" + few), "--set: ");
}

TEST_CASE("whether the framework runs an own plan is said where its rules can tell") {
  const Sandbox box;
  box.file("small.toml", kSmall);
  const auto said = [&](const std::string& sets) {
    return box
        .tandem(
            "tune small.toml --set overlap.p2p=false --framework megatron --keep 1 "
            "--engine ideal --wide --among parallel.cp=1 --among parallel.tp=2" +
            sets)
        .out;
  };
  const std::string unknown = "All but own are plans that megatron runs, and own may be one.\n";
  CHECK(said("").find("All are plans that megatron runs.\n") != std::string::npos);
  CHECK(said(" --set schedule.order=auto").find(unknown) != std::string::npos);
  CHECK(said(" --set overlap.batch_p2p=false").find(unknown) != std::string::npos);
}

}  // namespace
}  // namespace tandem
