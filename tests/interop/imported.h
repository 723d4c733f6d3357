// What tests of imports share: files by their text, the samples, and keys as one map.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/csv.h"
#include "interop/import.h"
#include "tests/text.h"

namespace tandem {

using Keys = std::map<std::string, std::string>;

inline ImportedPlan imported(const std::string& name, const std::string& text,
                             std::int64_t gpus = 0) {
  const auto plan = import_sources({{name, text}}, {.gpus = gpus});
  if (!plan.ok()) FAIL(plan.error().text());
  return *plan;
}

inline bool mentions(const std::vector<std::string>& lines, const std::string& part) {
  return std::ranges::any_of(lines, [&](const std::string& line) { return has(line, part); });
}

// The Error of a file that is refused.
inline std::string refusal(const std::string& name, const std::string& text) {
  const auto plan = import_sources({{name, text}});
  REQUIRE(!plan.ok());
  return plan.error().text();
}

// Its keys that begin with `prefix`.
inline Keys keys_of(const ImportedPlan& plan, const std::string& prefix = "") {
  Keys keys;
  for (const ImportedKey& key : plan.keys) {
    if (key.key.starts_with(prefix)) keys[key.key] = toml_value(key.value);
  }
  return keys;
}

// Files of other tools that lie beside the repository; without them the test is skipped.
inline std::string sample(const std::string& name) {
  const std::string path = TANDEM_SOURCE_DIR "/../shared/samples/interop/" + name;
  if (!std::filesystem::exists(path)) FAIL("skipped: " << name << " is not there");
  return contents(path);
}

// All options of Megatron-LM: flags, dest, default and more.
inline CsvTable megatron_options() {
  sample("plans/megatron_flags.csv");
  const auto table =
      CsvTable::read(TANDEM_SOURCE_DIR "/../shared/samples/interop/plans/megatron_flags.csv");
  REQUIRE(table.ok());
  return *table;
}

}  // namespace tandem
