// Vocabulary parallelism's work: what the ranks' shares add up to, and what they hold.
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "tests/workload/workload_fixture.h"
#include "workload/memory/memory.h"

namespace tandem {
namespace {

// A model with large ends: 8 stages of two layers.
Model large_ends(bool tied = true) {
  return {.layers = 16,
          .hidden = 2048,
          .heads = 16,
          .seq = 2048,
          .vocab = 131072,
          .tied_embeddings = tied};
}

Plan shared(int algorithm, int tp = 1, int pp = 8) {
  Plan plan = plan_of(tp, pp, 1);
  plan.vocabulary = algorithm;
  return plan;
}

Workload work_of(const Model& model, const Plan& plan) {
  return make_workload(model, plan, a100());
}

double bytes(const Workload& work, const Pass& pass) { return memory_bytes(work, pass); }

TEST_CASE("products of S and T on all ranks are the head's, and stages have theirs without it") {
  for (const int tp : {1, 2}) {
    const Model model = large_ends();
    const Workload whole = work_of(model, shared(0, tp));
    for (const int algorithm : {1, 2}) {
      const Plan plan = shared(algorithm, tp);
      const Workload cut = work_of(model, plan);
      REQUIRE(cut.vocabulary);
      const double s = flops(cut, cut.vocabulary->s), t = flops(cut, cut.vocabulary->t);
      CHECK(flops(cut) + plan.pp * (s + t) == Approx(flops(whole)).epsilon(1e-12));
      // A third of it are logits; the input's gradient is algorithm 1's T's, 2's S's.
      CHECK(s / t == Approx(algorithm == 1 ? 0.5 : 2));
      CHECK(flops(cut, cut.stages.back().forward) ==
            Approx(flops(cut, cut.stages.front().forward)));
    }
  }
}

TEST_CASE("passes over memory are the ends' and what is scaled: the logits, in algorithm 2 a sum") {
  const Model model = large_ends();
  const Workload whole = work_of(model, shared(0));
  const auto ends = [&](const Workload& work) {
    double sum = 0;
    for (const StageWork& stage : work.stages)
      sum += bytes(work, stage.forward) + bytes(work, stage.backward);
    return sum;
  };
  for (const int algorithm : {1, 2}) {
    const Plan plan = shared(algorithm);
    const Workload cut = work_of(model, plan);
    const VocabularyWork& work = *cut.vocabulary;
    const double ranks = plan.pp * (bytes(cut, work.embedding) + bytes(cut, work.s) +
                                    bytes(cut, work.t) + bytes(cut, work.embedding_gradient));
    const double tokens = 2048, e = 2, h = model.hidden, share = a100().profile.pass_share;
    // Each rank but one looks up and scatters beside the first stage's: 5 passes.
    double more = 2 * e * tokens * model.vocab + (plan.pp - 1) * 5 * share * e * tokens * h;
    if (algorithm == 2) more += plan.pp * 6 * share * e * tokens * h;
    CHECK(ends(cut) + ranks == Approx(ends(whole) + more).epsilon(1e-9));
  }
}

TEST_CASE("ranks hold a p-th of both matrices, or of the one that is tied, and none holds a copy") {
  for (const bool tied : {true, false}) {
    const Model model = large_ends(tied);
    const Plan plan = shared(2);
    const std::vector<HeldParameters> held = stage_parameters(model, plan);
    const double layers = share_of_equal_layers(model, plan, 2).dense;
    const double share = (tied ? 1 : 2) * 131072.0 * 2048 / 8;
    CHECK(held[0].dense == layers + share + 2048.0 * 2048);  // learned positions
    for (int stage = 1; stage < 8; ++stage) CHECK(held[stage].dense == layers + share);
    const Workload work = work_of(model, plan);
    CHECK(work.embedding_gradient_bytes == 0);
    for (std::size_t stage = 0; stage < 8; ++stage) {
      REQUIRE(work.stages[stage].units.size() == 3);
      double units = 0;
      for (const ParameterUnit& unit : work.stages[stage].units)
        units += static_cast<double>(unit.gradient_bytes);
      CHECK(units == Approx(held[stage].dense * 4));
    }
  }
}

TEST_CASE("with two stages a rank, the lower one has the rank's share") {
  Plan plan = shared(2, 1, 4);
  plan.vpp = 2;
  const std::vector<HeldParameters> held = stage_parameters(large_ends(), plan);
  const double share = 131072.0 * 2048 / 4;
  for (int stage = 1; stage < 8; ++stage)
    CHECK(held[stage].dense ==
          share_of_equal_layers(large_ends(), plan, 2).dense + (stage < 4 ? share : 0));
}

TEST_CASE("a vocabulary that p does not divide is rounded up to an even number of rows a rank") {
  Model model = large_ends();
  model.vocab = 50257;  // laid out as 50304
  for (const int pp : {2, 3, 7, 8, 16}) {
    const Plan plan = shared(1, 1, pp);
    const std::int64_t rows = vocabulary_rows(model, plan);
    CHECK(rows % 2 == 0);
    CHECK(rows * pp >= 50304);
    CHECK((rows - 2) * pp < 50304);
  }
}

TEST_CASE("a rank holds the logits of its rows, and what it was sent, from S to T") {
  const Model model = large_ends();
  const Plan plan = shared(2);
  const auto activations = [&](int outputs) {
    LiveActivations live{.ranks = {{{Stage{3}, 5}}}, .outputs = {outputs}};
    return peak_memory(model, plan, live).activations;
  };
  CHECK(activations(2) - activations(0) == 2 * 2048.0 * (2 * 2048 + 4 * 131072.0 / 8));
  // The last stage keeps its norm's input and output alone.
  const auto of_last = [&](int vocabulary) {
    Plan own = plan;
    own.vocabulary = vocabulary;
    return peak_memory(model, own, {.ranks = {{{Stage{7}, 1}}}}).activations;
  };
  CHECK(of_last(0) - of_last(2) == 2048.0 * 4 * 131072);
}

TEST_CASE("one rank shares with none, and further heads are not cut") {
  Plan plan = shared(2, 1, 1);
  CHECK(check_model(large_ends(), plan).error().text() ==
        "schedule.vocabulary: found parallel with parallel.pp = 1, expected ranks of a pipeline to "
        "share the vocabulary");
  Model model = large_ends();
  model.mtp_layers = 1;
  CHECK(
      check_model(model, shared(2)).error().text() ==
      "schedule.vocabulary: found parallel with model.mtp_layers = 1, expected 0: each of them has "
      "the head again");
  CHECK(check_model(large_ends(), shared(3)).error().text() ==
        "schedule.vocabulary_algorithm: found 3, expected 1 or 2");
}

}  // namespace
}  // namespace tandem
