// Vocabulary parallelism against what its paper measured: Yeung et al., "Balancing Pipeline
// Parallelism with Vocabulary Parallelism" (MLSys 2025, arXiv 2411.05288), tables 1 and 5.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/units.h"
#include "tests/scenarios/simulated.h"
#include "tests/scenarios/small_scenario.h"

using namespace tandem;

namespace {

constexpr std::array<int, 4> kVocabularies = {32768, 65536, 131072, 262144};

// MFU in percent, by size of the vocabulary: the head on the last stage, with the layers even or
// balanced by their FLOPs; and algorithm 2.
struct PaperRow {
  int pp, layers, heads, hidden, seq;
  std::array<double, 4> even, balanced, algorithm_2;
};
constexpr PaperRow kPaper[] = {{8,
                                32,
                                24,
                                3072,
                                2048,
                                {46.16, 40.48, 33.11, 25.23},
                                {46.01, 46.37, 44.22, 38.91},
                                {50.23, 50.18, 49.82, 49.69}},
                               {8,
                                32,
                                24,
                                3072,
                                4096,
                                {47.05, 41.87, 35.00, 26.75},
                                {46.93, 46.78, 47.44, 43.01},
                                {50.93, 50.75, 50.56, 50.40}},
                               {16,
                                48,
                                32,
                                4096,
                                2048,
                                {45.66, 40.09, 32.44, 24.21},
                                {45.56, 42.82, 38.65, 36.98},
                                {48.90, 50.49, 50.46, 50.46}},
                               {32,
                                64,
                                40,
                                5120,
                                2048,
                                {42.81, 37.28, 28.97, 20.86},
                                {43.48, 37.29, 36.32, 29.16},
                                {45.54, 45.86, 45.86, 46.16}}};

std::string text_of(const PaperRow& row, int vocabulary) {
  return fmt::format(R"([model]
layers = {}
heads = {}
hidden = {}
seq = {}
vocab = {}
tied_embeddings = false
[parallel]
pp = {}
global_batch = 128
[schedule]
order = "1f1b"
[train]
flash_attention = true
[overlap]
p2p = true
[cluster]
preset = "dgx-a100"
)",
                     row.layers, row.heads, row.hidden, row.seq, vocabulary, row.pp);
}

// Whole layers, so that the longest of the stages, by FLOPs a layer and of the head (their table
// 4), is as short as it can be: fewer on the last stage, the rest even.
std::vector<int> balanced(const PaperRow& row, int vocabulary) {
  const double head = 6.0 * vocabulary / (72.0 * row.hidden + 12.0 * row.seq);
  const auto longest = [&](int last) {
    const int others = row.pp - 1, left = row.layers - last;
    const int most = (left + others - 1) / others;
    return std::max<double>(most, last + head);
  };
  int last = 0;
  for (int more = 1; more <= row.layers / row.pp; ++more) {
    if (longest(more) < longest(last)) last = more;
  }
  std::vector<int> split;
  for (int stage = 0, left = row.layers - last; stage < row.pp - 1; ++stage) {
    split.push_back(left / (row.pp - 1 - stage));
    left -= split.back();
  }
  split.push_back(last);
  return split;
}

double seconds(const PaperRow& row, int vocabulary, const Names& set) {
  return simulated(load(text_of(row, vocabulary), set).front()).iteration_s;
}

}  // namespace

TEST_CASE("the gain over a head on the last stage is the paper's, from 8 to 121 %, to 12 %") {
  for (const PaperRow& row : kPaper) {
    double before = 1;
    for (std::size_t i = 0; i < kVocabularies.size(); ++i) {
      INFO(row.pp << " ranks, " << row.seq << " tokens, " << kVocabularies[i]);
      const double shared = seconds(row, kVocabularies[i], {"schedule.vocabulary=\"parallel\""});
      const double gain = seconds(row, kVocabularies[i], {}) / shared;
      CHECK(gain == Approx(row.algorithm_2[i] / row.even[i]).epsilon(0.12));
      CHECK(gain > before);  // rises with the vocabulary
      before = gain;
    }
  }
}

TEST_CASE("the gain over layers balanced by FLOPs is the paper's, from 5 to 58 %, to 12 %") {
  double least = 10, most = 0;
  for (const PaperRow& row : kPaper) {
    for (std::size_t i = 0; i < kVocabularies.size(); ++i) {
      INFO(row.pp << " ranks, " << row.seq << " tokens, " << kVocabularies[i]);
      const double shared = seconds(row, kVocabularies[i], {"schedule.vocabulary=\"parallel\""});
      const std::string split = fmt::format("parallel.layers_per_stage=[{}]",
                                            fmt::join(balanced(row, kVocabularies[i]), ","));
      const double gain = seconds(row, kVocabularies[i], {split}) / shared;
      CHECK(gain == Approx(row.algorithm_2[i] / row.balanced[i]).epsilon(0.12));
      least = std::min(least, gain);
      most = std::max(most, gain);
    }
  }
  CHECK(least > 1.05);
  CHECK(most > 1.4);
}

TEST_CASE("memory falls as the paper's does: on 8 A100s from 25.6 to 17.8 GB at 256k, to a tenth") {
  const PaperRow& row = kPaper[0];
  const auto gib = [&](const Names& set) {
    const auto result = simulated(load(text_of(row, 262144), set).front());
    REQUIRE(result.training);
    return result.training->memory.total / GiB;
  };
  CHECK(gib({}) == Approx(25.64).epsilon(0.1));
  CHECK(gib({"schedule.vocabulary=\"parallel\""}) == Approx(17.78).epsilon(0.1));
}
