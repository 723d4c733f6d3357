#include "report/text/what_if_table.h"

#include <fmt/format.h>

#include "report/text/number_cells.h"
#include "report/text/text_table.h"

namespace tandem {
namespace {

std::string change(const std::optional<double>& share) {
  return share ? signed_percent(*share) : std::string();
}

}  // namespace

std::string what_if_table(const std::vector<WhatIf>& pairs, int width) {
  using Of = const WhatIf&;
  const std::vector<Column<WhatIf>> columns = {
      {"model", [](Of p) { return p.model; }, Place::Name},
      {"changed", [](Of p) { return p.changed; }, Place::Name},
      {"from", [](Of p) { return p.from; }, Place::First},
      {"to", [](Of p) { return p.to; }, Place::First},
      {"measured %", [](Of p) { return change(p.measured); }, Place::First},
      {"predicted %", [](Of p) { return change(p.predicted); }, Place::First},
      {"difference", [](Of p) {
         return p.measured && p.predicted ? signed_percent(*p.predicted - *p.measured)
                                          : std::string();
       }}};
  std::string text = text_table(columns, pairs, width);
  std::string reasons;
  for (const WhatIf& pair : pairs)
    if (!pair.reason.empty()) reasons += pair.reason + '\n';
  return reasons.empty() ? text : text + "\nnot compared:\n" + wrapped(reasons, width);
}

}  // namespace tandem
