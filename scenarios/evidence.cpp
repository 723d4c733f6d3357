#include "scenarios/evidence.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/csv.h"
#include "base/data_dir.h"
#include "base/split.h"
#include "base/toml/sourced_file.h"

namespace tandem {
namespace {

// A job with more than so many times the GPUs of the largest measured run is too large.
constexpr double kMostTimesGpus = 10;

// An uncalibrated interval is at least so many times as wide, in logarithms, as a calibrated one.
constexpr double kLeastWidening = 1.5;

using Traits = std::vector<std::string>;

constexpr const char* kDeltaNets = "delta";

bool has(const Traits& traits, const std::string& trait) {
  return std::ranges::find(traits, trait) != traits.end();
}

// Returns the intervals of uncalibrated.toml in the order of Missing, from Gpu to Parallelism.
Result<std::vector<std::pair<double, double>>> read_uncalibrated() {
  ASSIGN_OR_RETURN(SourcedFile file, SourcedFile::read(uncalibrated_path()));
  std::vector<std::pair<double, double>> intervals;
  for (const std::string left_out : {"gpu", "precision", "model", "parallelism"}) {
    ASSIGN_OR_RETURN(const double low, file.number(left_out + "_low"));
    ASSIGN_OR_RETURN(const double high, file.number(left_out + "_high"));
    if (!(low > 0 && low <= high)) return file.expected(left_out + "_high", "0 < low <= high");
    intervals.emplace_back(low, high);
  }
  RETURN_IF_ERROR(file.finish());
  return intervals;
}

Result<std::pair<double, double>> interval_without(Missing missing) {
  static const auto intervals = read_uncalibrated();  // once, as searches ask often
  if (!intervals.ok()) return intervals.error();
  if (missing != Missing::Size)
    return (*intervals)[static_cast<std::size_t>(missing) - static_cast<std::size_t>(Missing::Gpu)];
  std::pair<double, double> widest = intervals->front();
  for (const auto& [low, high] : *intervals)
    widest = {std::min(widest.first, low), std::max(widest.second, high)};
  return widest;
}

// Returns a trait, or a pair of traits, that no measured run has; empty if there is none.
Traits unmeasured(const std::vector<Traits>& measured, const Traits& traits) {
  const auto together = [&](const std::string& a, const std::string& b) {
    return std::ranges::any_of(measured,
                               [&](const Traits& run) { return has(run, a) && has(run, b); });
  };
  for (const std::string& trait : traits)
    if (!together(trait, trait)) return {trait};
  for (std::size_t i = 0; i < traits.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (!together(traits[j], traits[i])) return {traits[j], traits[i]};
  return {};
}

}  // namespace

KindOfRun kind_of_run(const std::string& gpu, const Model& model, const Plan& plan) {
  KindOfRun kind{gpu, plan.precision, {model.is_moe() ? "experts" : "dense"}};
  const bool has_delta_nets = std::ranges::any_of(kinds_of(model), [](const LayersOfKind& layers) {
    return layers.kind->mixer == Mixer::Linear;
  });
  for (const auto& [is_there, trait] :
       {std::pair{has_delta_nets, kDeltaNets}, std::pair{plan.tp > 1, "tensor"},
        std::pair{plan.pp > 1, "pipeline"}, std::pair{plan.cp > 1, "context"},
        std::pair{plan.zero == 3, "ZeRO3"}})
    if (is_there) kind.traits.emplace_back(trait);
  return kind;
}

std::string text_of(const KindOfRun& kind) {
  return fmt::format("{} {} {}", kind.gpu, kind.precision, fmt::join(kind.traits, "+"));
}

Result<Evidence> evidence_for(const FrameworkProfile& profile, const KindOfRun& kind, int gpus) {
  bool has_gpu = false;
  std::vector<Traits> measured;  // of runs in the precision
  for (const std::string& text : profile.measured_on) {
    const std::vector<std::string> words = split(text, " ");
    if (words.size() != 3)
      return Error{
          fmt::format("software {}: measured_on: found '{}', expected GPU, precision and "
                      "traits, as in 'H100-SXM5-80GB bf16 dense+tensor+pipeline'",
                      profile.name, text)};
    has_gpu = has_gpu || words[0] == kind.gpu;
    if (words[0] == kind.gpu && words[1] == kind.precision)
      measured.push_back(split(words[2], "+"));
  }
  Evidence found;
  const bool experts = kind.traits.front() == "experts";
  if (!has_gpu) {
    found.missing = Missing::Gpu;
  } else if (measured.empty()) {
    found.missing = Missing::Precision;
  } else if (found.traits = unmeasured(measured, kind.traits); !found.traits.empty()) {
    const std::string& trait = found.traits.front();
    const bool is_kind_of_model =
        found.traits.size() == 1 && (trait == kind.traits.front() || trait == kDeltaNets);
    found.missing = is_kind_of_model ? Missing::Model : Missing::Parallelism;
  } else if (gpus > kMostTimesGpus * profile.measured_gpus) {
    found.missing = Missing::Size;
  }
  const auto [low, high] = experts ? std::pair{profile.experts_low, profile.experts_high}
                                   : std::pair{profile.interval_low, profile.interval_high};
  found.interval = {low, high};
  if (found.is_calibrated()) return found;
  ASSIGN_OR_RETURN(const auto left_out, interval_without(found.missing));
  found.interval = {std::min(left_out.first, std::pow(low, kLeastWidening)),
                    std::max(left_out.second, std::pow(high, kLeastWidening))};
  return found;
}

Result<std::optional<BestMfu>> best_published_mfu(const std::string& gpu,
                                                  const std::string& precision, bool causal_flops) {
  static const auto table = CsvTable::read(data_dir() + "/workload/best_mfu.csv");
  if (!table.ok()) return table.error();
  const std::string_view attention = causal_flops ? "causal" : "whole";
  for (int row = 0; row < table->size(); ++row) {
    if (table->text(row, "gpu") != gpu || table->text(row, "precision") != precision ||
        table->text(row, "attention") != attention)
      continue;
    ASSIGN_OR_RETURN(const double mfu, table->number(row, "mfu"));
    return std::optional(BestMfu{mfu, fmt::format("{} in {}", gpu, precision),
                                 std::string(table->text(row, "run")),
                                 std::string(table->text(row, "source"))});
  }
  return std::optional<BestMfu>();
}

}  // namespace tandem
