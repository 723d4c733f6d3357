// Updates the parts of a page written by hand that a command makes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tandem {

struct PagePart {
  std::string name, text;
};

// Returns `page` with new parts. A part is what stands between a line "<!-- made by MAKER: PART
// -->" and the next line "<!-- end -->". All else stays as it is, other makers' parts too. An Error
// names `path` and the line: a part that is not known or has no end, or a page without any of this
// maker.
Result<std::string> with_parts(const std::string& page, const std::string& path,
                               std::string_view maker, const std::vector<PagePart>& parts);

}  // namespace tandem
