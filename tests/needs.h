// Needs: a test says what it cannot do without. Where that is missing, the test ends there, and
// ctest counts it as skipped by its message (SKIP_REGULAR_EXPRESSION). A test that went on with
// less would pass without having tested.
#pragma once

#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>

#include "base/result.h"
#include "sim/engines.h"

namespace tandem {

template <class T>
void need(const Result<T>& found) {
  if (!found.ok()) FAIL("skipped: " << found.error().text());
}

// Needs a program that the shell finds.
inline void need_program(const std::string& name) {
  if (std::system(("command -v " + name + " > /dev/null").c_str()) != 0)
    FAIL("skipped: " << name << " is not there");
}

inline void need_simgrid() { need(simgrid_available()); }

}  // namespace tandem
