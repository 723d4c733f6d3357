#pragma once

#include <catch2/catch.hpp>
#include <string>

#include "interop/emit/emit.h"

namespace tandem {

inline std::string emitted(const std::string& format, const PlanSettings& settings) {
  const auto text = emit_plan(format, settings);
  if (!text.ok()) FAIL(text.error().text());
  return *text;
}

}  // namespace tandem
