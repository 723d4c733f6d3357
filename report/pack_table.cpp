#include "report/pack_table.h"

#include <fmt/format.h>

#include "base/units.h"
#include "report/table.h"

namespace tandem {
namespace {

std::string beginning(const PackStudy& study) {
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

std::string table(const PackStudy& study) {
  std::vector<std::vector<std::string>> rows = {{"", "seq", "micro batch", "microbatches", "tokens",
                                                 "padding %", "fill %", "iteration s", "tokens/s",
                                                 "speedup", "GiB", "fits"}};
  for (const PackWay& way : study.ways)
    rows.push_back({way.name, std::to_string(way.seq), std::to_string(way.micro_batch),
                    fmt::format("{:.4g}", way.microbatches), fmt::format("{:.0f}", study.tokens),
                    fmt::format("{:.1f}", 100 * study.padding_fraction(way)),
                    fmt::format("{:.1f}", 100 * study.fill_fraction(way)),
                    fmt::format("{:.3f}", way.iteration_s),
                    fmt::format("{:.0f}", study.tokens_per_s(way)),
                    fmt::format("{:.2f}", study.speedup(way)),
                    fmt::format("{:.1f}", way.memory_bytes / GiB), way.fits ? "yes" : "NO"});
  return aligned(rows, 1);
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
      text +=
          fmt::format("; {} does not fit: {:.1f} GiB of the {:.1f} beside the reserve", way->name,
                      way->memory_bytes / GiB, (way->capacity_bytes - way->reserve_bytes) / GiB);
  }
  return text + ".\n";
}

}  // namespace

std::string pack_text(const PackStudy& study) {
  return beginning(study) + table(study) + "\n" + conclusion(study);
}

}  // namespace tandem
