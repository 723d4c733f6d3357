// Needs: what a test cannot do without. Where it is missing the test ends there, and ctest counts
// it as skipped by what it says (SKIP_REGULAR_EXPRESSION); one that went on with less would pass.
#pragma once

#include <catch2/catch.hpp>

#include "base/result.h"
#include "sim/engines.h"

namespace tandem {

template <class T>
void need(const Result<T>& found) {
  if (!found.ok()) FAIL("skipped: " << found.error().text());
}

inline void need_simgrid() { need(simgrid_available()); }

}  // namespace tandem
