// Replaces the parts of a Markdown page that a command generates; the rest is written by hand.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tandem {

struct PagePart {
  std::string name, text;
};

// Returns `page` with new parts:
//   <!-- made by MAKER: PART -->
//   the lines that the text of the part replaces
//   <!-- end -->
// All else stays as it is, parts of other makers included. An Error, which names `path` and the
// line: a part that is not known or has no end, or a page without any part of this maker.
Result<std::string> with_parts(const std::string& page, const std::string& path,
                               std::string_view maker, const std::vector<PagePart>& parts);

}  // namespace tandem
