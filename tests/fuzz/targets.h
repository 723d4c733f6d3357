// Fuzz targets: readers of files, given bytes that nobody meant. What it refuses it calls bad
// input and says why; what it accepts is played, printed and read again.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tandem {

// The bytes, and the file that they were written to.
struct FuzzInput {
  std::string path;
  std::string text;
};

struct FuzzTarget {
  std::string_view name;
  std::string_view file;                // the name that a file of the kind has
  std::vector<std::string> (*seeds)();  // texts of the kind, whole ones
  // Throws std::logic_error where a promise is broken.
  void (*run)(const FuzzInput& input);
};

std::vector<FuzzTarget> table_targets();     // CSV: orders, Programs, traces, costs, ...
std::vector<FuzzTarget> scenario_targets();  // scenarios, settings, presets, profiles
std::vector<FuzzTarget> import_targets();    // other tools' files

std::vector<FuzzTarget> all_targets();

// The folder that inputs are written to; it goes with the process. TANDEM_DATA_DIR is in it.
const std::string& fuzz_folder();
// A file in it; its path.
std::string written(const std::string& name, const std::string& text);
void run_target(const FuzzTarget& target, const std::string& text);

// std::logic_error where it does not hold.
void promise(bool holds, const std::string& what);
// An Error says why, and is bad input or something missing.
void promise_refusal(const Error& error);

// The value; an Error is looked at, and there is none.
template <class T>
const T* accepted(const Result<T>& result) {
  if (result.ok()) return &*result;
  promise_refusal(result.error());
  return nullptr;
}

// The texts of the repository's files whose path, below its folder, begins and ends so; at most
// 64 KiB each.
std::vector<std::string> texts_of(const std::string& folder, std::string_view extension);

}  // namespace tandem
