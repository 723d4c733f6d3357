#include "report/text/pack_table.h"

#include <fmt/format.h>

#include "base/units.h"

namespace tandem {
namespace {

std::string sequences_text(const PackStudy& study) {
  std::string text = fmt::format(
      "{}: {} sequences, {:.0f} tokens in the mean, {} at most: {} iterations of {}, {} of them "
      "played",
      study.lengths, study.sequences, study.mean_length, study.longest, study.iterations,
      study.global_batch, study.played);
  if (study.left_out > 0) text += fmt::format("; the last {} sequences fill none", study.left_out);
  return text + fmt::format(
                    ".\nAn iteration fits into {:.4g} bins of {} tokens; the plan runs {:.4g}.\n\n",
                    study.least_bins, study.limit, study.bins);
}

std::string ways_table(const PackStudy& study, int width) {
  using Way = const PackWay&;
  const auto tenths = [](double value) { return fmt::format("{:.1f}", value); };
  const std::vector<Column<PackWay>> columns = {
      {"", [](Way w) { return w.name; }, Place::Name},
      {"seq", [](Way w) { return std::to_string(w.seq); }},
      {"micro batch", [](Way w) { return std::to_string(w.micro_batch); }},
      {"microbatches", [](Way w) { return fmt::format("{:.4g}", w.microbatches); }},
      {"tokens", [&](Way) { return fmt::format("{:.0f}", study.tokens); }},
      {"padding %", [&](Way w) { return tenths(100 * study.padding_fraction(w)); }, Place::First},
      {"fill %", [&](Way w) { return tenths(100 * study.fill_fraction(w)); }},
      {"iteration s", [](Way w) { return fmt::format("{:.3f}", w.iteration_s); }, Place::First},
      {"tokens/s", [&](Way w) { return fmt::format("{:.0f}", study.tokens_per_s(w)); },
       Place::First},
      {"speedup", [&](Way w) { return fmt::format("{:.2f}", study.speedup(w)); }, Place::First},
      {"GiB", [=](Way w) { return tenths(w.memory_bytes / GiB); }, Place::First},
      {"fits", [](Way w) { return w.fits ? "yes" : "NO"; }, Place::First}};
  return text_table(columns, study.ways, width);
}

std::string conclusion(const PackStudy& study) {
  const PackWay &fixed = study.ways.front(), &packed = study.ways.back();
  const double gain = study.speedup(packed);
  std::string text = fmt::format(
      "Packed into {} tokens an iteration takes {:.3f} s instead of {:.3f}, {}: {:.0f} % of what "
      "fixed length processes is padding, and bins are {:.0f} % full",
      study.limit, packed.iteration_s, fixed.iteration_s,
      gain >= 1 ? fmt::format("{:.2f} times as fast", gain)
                : fmt::format("{:.2f} times as slow", 1 / gain),
      100 * study.padding_fraction(fixed), 100 * study.fill_fraction(packed));
  for (const PackWay* way : {&fixed, &packed}) {
    if (!way->fits)
      text += fmt::format(
          "; {} does not fit: {:.1f} GiB of the {:.1f} beside CUDA's context "
          "and NCCL's buffers",
          way->name, way->memory_bytes / GiB, (way->capacity_bytes - way->reserve_bytes) / GiB);
  }
  return text + ".\n";
}

}  // namespace

std::string pack_text(const PackStudy& study, int width) {
  return wrapped(sequences_text(study), width) + ways_table(study, width) + "\n" +
         wrapped(conclusion(study), width);
}

}  // namespace tandem
