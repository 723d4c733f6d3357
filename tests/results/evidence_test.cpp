// What measured runs stand behind a prediction.
#include "scenarios/evidence.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace tandem {
namespace {

using Strings = std::vector<std::string>;

FrameworkProfile profile_of(Strings measured_on) {
  FrameworkProfile profile;
  profile.name = "mine";
  profile.measured_on = std::move(measured_on);
  profile.measured_gpus = 64;
  profile.interval_low = 0.9;
  profile.interval_high = 1.1;
  profile.experts_low = 0.8;
  profile.experts_high = 1.2;
  return profile;
}

struct Asked {
  KindOfRun kind;
  Missing missing;
  Strings traits;  // those that are missing
  int gpus = 64;
};

TEST_CASE("each two of a job's traits must have been measured together, on its GPU and precision") {
  const FrameworkProfile profile =
      profile_of({"H100 bf16 dense+tensor+pipeline", "H100 bf16 dense+context",
                  "H100 bf16 experts+pipeline", "H100 fp8 dense", "B200 fp8 experts"});
  const std::vector<Asked> all = {
      {{"H100", "bf16", {"dense"}}, Missing::Nothing, {}},
      {{"H100", "bf16", {"dense", "tensor"}}, Missing::Nothing, {}},
      {{"H100", "bf16", {"dense", "tensor", "pipeline"}}, Missing::Nothing, {}},
      {{"H100", "bf16", {"experts", "pipeline"}}, Missing::Nothing, {}},
      {{"H100", "bf16", {"dense", "tensor", "context"}},
       Missing::Parallelism,
       {"tensor", "context"}},
      {{"H100", "bf16", {"experts", "tensor"}}, Missing::Parallelism, {"experts", "tensor"}},
      {{"H100", "bf16", {"dense", "ZeRO3"}}, Missing::Parallelism, {"ZeRO3"}},
      {{"H100", "fp8", {"experts"}}, Missing::Model, {"experts"}},
      {{"B200", "fp8", {"dense", "tensor"}}, Missing::Model, {"dense"}},
      {{"H100", "bf16", {"dense", "delta", "tensor"}}, Missing::Model, {"delta"}},
      {{"H100", "fp16", {"dense"}}, Missing::Precision, {}},
      {{"H200", "bf16", {"dense"}}, Missing::Gpu, {}},
      {{"", "bf16", {"dense"}}, Missing::Gpu, {}},
      {{"H100", "bf16", {"dense"}}, Missing::Nothing, {}, 640},
      {{"H100", "bf16", {"dense"}}, Missing::Size, {}, 641}};
  for (const Asked& one : all) {
    INFO(text_of(one.kind) << " on " << one.gpus);
    const auto found = evidence_for(profile, one.kind, one.gpus);
    REQUIRE(found.ok());
    CHECK(found->missing == one.missing);
    CHECK(found->traits == one.traits);
    CHECK(found->is_calibrated() == (one.missing == Missing::Nothing));
  }
}

TEST_CASE("an interval is that of the software's rows, or of rows left out in that very sense") {
  const FrameworkProfile profile = profile_of({"H100 bf16 dense", "H100 bf16 experts"});
  using Pair = std::pair<double, double>;
  const auto interval = [&](const KindOfRun& kind, int gpus = 64) {
    return evidence_for(profile, kind, gpus)->interval;
  };
  CHECK(interval({"H100", "bf16", {"dense"}}) == Pair{0.9, 1.1});
  CHECK(interval({"H100", "bf16", {"experts"}}) == Pair{0.8, 1.2});
  const Pair widest = interval({"H100", "bf16", {"dense"}}, 641);
  for (const KindOfRun& kind : {KindOfRun{"H200", "bf16", {"dense"}},
                                {"H100", "fp8", {"dense"}},
                                {"H100", "bf16", {"dense", "tensor"}}}) {
    CHECK(interval(kind).first < 1);
    CHECK(interval(kind).second > 1);
    CHECK(widest.first <= interval(kind).first);
    CHECK(widest.second >= interval(kind).second);
  }
}

TEST_CASE("a job's kind of run is in words, and a profile's list without them is refused") {
  Model model;
  Plan plan;
  plan.precision = "fp8";
  CHECK(text_of(kind_of_run("H100", model, plan)) == "H100 fp8 dense");
  model.mixer = Mixer::Linear;
  CHECK(text_of(kind_of_run("H100", model, plan)) == "H100 fp8 dense+delta");
  model.mixer = Mixer::Heads;
  plan.tp = plan.pp = plan.cp = 2;
  plan.zero = 3;
  model.experts = 8;
  model.top_k = 2;
  CHECK(text_of(kind_of_run("H100", model, plan)) ==
        "H100 fp8 experts+tensor+pipeline+context+ZeRO3");
  const auto refused = evidence_for(profile_of({"H100 fp8"}), {"H100", "fp8", {"dense"}}, 8);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().text() ==
        "software mine: measured_on: found 'H100 fp8', expected GPU, precision and traits, as in "
        "'H100-SXM5-80GB bf16 dense+tensor+pipeline'");
}

}  // namespace
}  // namespace tandem
