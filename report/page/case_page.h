// Markdown of cases: the families beside what other tools reach on them, the rows that are farthest
// off, and those without a prediction. It is a page of its own, or the parts of one written by
// hand.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "validation/published/baseline_tools.h"
#include "validation/published/cases.h"

namespace tandem {

// Returns a page of its own, with all parts.
std::string case_page(const std::vector<CaseRow>& rows, const std::vector<BaselineTool>& tools,
                      const std::string& title);

// Returns `page` with new parts. A part is what stands between a line "<!-- made by MAKER: PART
// -->" and the next line "<!-- end -->", where PART is families, rivals, farthest or not predicted.
// All else stays as it is. An Error names `path` and the line: a part that is not known or has no
// end, or a page without any.
Result<std::string> updated_page(const std::string& page, const std::string& path,
                                 const std::vector<CaseRow>& rows,
                                 const std::vector<BaselineTool>& tools,
                                 const std::string& maker = "./dev accuracy");

// Returns who makes a file's parts of `page`: "./dev accuracy of STEM" if the page has such marks,
// so that it can hold the parts of several files; else "./dev accuracy".
std::string maker_of(const std::string& page, const std::string& stem);

}  // namespace tandem
