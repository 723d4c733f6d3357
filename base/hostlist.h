// Hostlists: names of hosts as Slurm writes them, "a[0-3,12],b7"; and the order of names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tandem {

// All names, in the order in which they are written; "n[08-10]" keeps its zeros. A name may have
// several brackets. Errors: brackets that do not close or are empty, ranges that fall or are no
// numbers, more than a million names, one of more than 253 characters, a name that is there twice.
Result<std::vector<std::string>> parse_hostlist(std::string_view text);

// The same in short: neighbours that differ in the number at their end, or before ".", in brackets.
std::string hostlist_of(const std::vector<std::string>& names);

// Numbers in names by their value: n2 before n10.
bool in_natural_order(std::string_view a, std::string_view b);

}  // namespace tandem
