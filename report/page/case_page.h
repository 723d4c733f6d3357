// Markdown on the accuracy on cases (measured runs of others): the errors of each family of runs
// beside those of other tools, the rows that are farthest off, and those without a prediction. It
// is a page of its own, or replaces parts of a page that is otherwise written by hand.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "validation/published/baseline_tools.h"
#include "validation/published/cases.h"

namespace tandem {

// Returns a whole page.
std::string case_page(const std::vector<CaseRow>& rows, const std::vector<BaselineTool>& tools,
                      const std::string& title);

// Returns `page` with its parts replaced, as with_parts() (page_parts.h) does. Parts are families,
// rivals, farthest and not predicted.
Result<std::string> updated_page(const std::string& page, const std::string& path,
                                 const std::vector<CaseRow>& rows,
                                 const std::vector<BaselineTool>& tools,
                                 const std::string& maker = "./dev accuracy");

// Returns the maker to look for in `page`. A page that holds the parts of several files marks them
// with "./dev accuracy of STEM", STEM being the file's name; other pages with "./dev accuracy".
std::string maker_of(const std::string& page, const std::string& stem);

}  // namespace tandem
