// Hostlists: names of hosts in Slurm's short form, such as "a[0-3,12],b7"; and the order of names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tandem {

// Returns all names in the order in which they are written; "n[08-10]" keeps its zeros. A name may
// have several brackets. Errors: brackets that do not close or are empty, ranges that fall or are
// no numbers, more than a million names, a name of more than 253 characters, a name that occurs
// twice.
Result<std::vector<std::string>> parse_hostlist(std::string_view text);

// Returns the names as a hostlist. Neighbours that differ only in the number at their end, or
// before the first ".", share one bracket.
std::string hostlist_of(const std::vector<std::string>& names);

// Compares names with the numbers in them by value: n2 comes before n10.
bool in_natural_order(std::string_view a, std::string_view b);

}  // namespace tandem
