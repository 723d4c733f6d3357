#include "report/text/what_if_table.h"

#include <fmt/format.h>

#include "report/text/number_cells.h"
#include "report/text/text_table.h"

namespace tandem {
namespace {

std::string change_cell(const std::optional<double>& share) {
  return share ? signed_percent(*share) : std::string();
}

// Returns the reasons of the pairs that are not predicted.
template <class Pair>
std::string not_compared(const std::vector<Pair>& pairs, int width) {
  std::string reasons;
  for (const Pair& pair : pairs)
    if (!pair.reason.empty()) reasons += pair.reason + '\n';
  return reasons.empty() ? "" : "\nnot compared:\n" + wrapped(reasons, width);
}

std::string gains_line(const std::vector<WhatIf>& pairs) {
  const GainErrors errors = gain_errors(pairs);
  if (errors.n == 0) return "";
  return fmt::format(
      "\n{} of {} go the same way; of {} that change by more than {:.0f} %, {} are within "
      "a third of the measured change.\n",
      errors.same_direction, errors.n, errors.large, 100 * kLargeGain, errors.within_a_third);
}

// In a narrow table, columns of Place::First stay beside the names, and the others move below.
std::vector<Column<WhatIf>> change_columns() {
  using Row = const WhatIf&;
  return {{"model", [](Row p) { return p.model; }, Place::Name},
          {"changed", [](Row p) { return p.changed; }, Place::Name},
          {"from", [](Row p) { return p.from; }, Place::First},
          {"to", [](Row p) { return p.to; }, Place::First},
          {"measured %", [](Row p) { return change_cell(p.measured); }, Place::First},
          {"predicted %", [](Row p) { return change_cell(p.predicted); }, Place::First},
          {"difference", [](Row p) {
             return p.measured && p.predicted ? signed_percent(*p.predicted - *p.measured)
                                              : std::string();
           }}};
}

std::vector<Column<MachineRatio>> ratio_columns() {
  using Row = const MachineRatio&;
  return {
      {"job", [](Row r) { return r.job; }, Place::Name},
      {"from", [](Row r) { return r.from; }, Place::Name},
      {"to", [](Row r) { return r.to; }, Place::Name},
      {"measured", [](Row r) { return fmt::format("{:.2f}", r.measured); }, Place::First},
      {"predicted",
       [](Row r) { return r.predicted ? fmt::format("{:.2f}", *r.predicted) : std::string(); },
       Place::First},
      {"error %", [](Row r) { return r.predicted ? signed_percent(r.error()) : std::string(); }}};
}

std::string ratios_line(const std::vector<MachineRatio>& ratios) {
  const RatioErrors errors = ratio_errors(ratios);
  if (errors.n == 0) return "";
  return fmt::format(
      "\nA ratio is tokens/s/GPU of the second machine over the first one's. Of {} the mean "
      "absolute error is {} %, the bias {} %; {} have the same machine ahead.\n",
      errors.n, percent(errors.mean_absolute), signed_percent(errors.bias), errors.same_order);
}

}  // namespace

std::string what_if_table(const std::vector<WhatIf>& pairs, int width) {
  return text_table(change_columns(), pairs, width) + gains_line(pairs) +
         not_compared(pairs, width);
}

std::string ratio_table(const std::vector<MachineRatio>& ratios, int width) {
  return text_table(ratio_columns(), ratios, width) + wrapped(ratios_line(ratios), width) +
         not_compared(ratios, width);
}

std::string what_if_page(const std::vector<WhatIf>& pairs) {
  return markdown_table(change_columns(), pairs) + gains_line(pairs);
}

std::string ratio_page(const std::vector<MachineRatio>& ratios) {
  return markdown_table(ratio_columns(), ratios) + ratios_line(ratios);
}

}  // namespace tandem
