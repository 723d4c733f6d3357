// Sources: the project's own files, for tests of its rules.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <regex>
#include <string>
#include <vector>

#include "tests/text.h"

namespace tandem {

namespace fs = std::filesystem;
using Lines = std::vector<std::string>;

inline const fs::path kSource = TANDEM_SOURCE_DIR;

// In the order of dependence: a module includes itself and those before it. sim and exec do not
// include each other, and python not cli.
inline const std::vector<std::string> kModules = {
    "base",       "launch", "keys", "interop",   "topology", "workload", "schedule",
    "traces",     "sim",    "exec", "scenarios", "job",      "results",  "planning",
    "validation", "report", "cli",  "python",    "wasm"};

// A source file, with its path from the repository's root.
struct Source {
  std::string path;
  Lines lines;

  std::string module_name() const { return path.substr(0, path.find('/')); }
  std::string folder() const { return fs::path(path).parent_path().string(); }
  bool is_header() const { return path.ends_with(".h"); }
};

inline bool exists(const std::string& path) { return fs::is_regular_file(kSource / path); }

// Reads all .h, .cpp and .cu files of these folders.
inline std::vector<Source> sources_of(const std::vector<std::string>& folders) {
  std::vector<Source> sources;
  for (const std::string& folder : folders) {
    if (!fs::is_directory(kSource / folder)) continue;  // a module that is not built yet
    for (const auto& entry : fs::recursive_directory_iterator(kSource / folder)) {
      const std::string extension = entry.path().extension().string();
      if (extension != ".h" && extension != ".cpp" && extension != ".cu") continue;
      sources.push_back(
          {fs::relative(entry.path(), kSource).string(), lines_of(contents(entry.path()))});
    }
  }
  REQUIRE(sources.size() > 3);
  return sources;
}

inline std::vector<Source> module_sources() { return sources_of(kModules); }

inline std::vector<Source> all_sources() {
  std::vector<std::string> folders = kModules;
  folders.insert(folders.end(), {"tests", "bench"});
  return sources_of(folders);
}

// Lists the headers that the file includes by `open`, '<' or '"', without the brackets.
inline Lines includes_of(const Source& source, char open) {
  static const std::regex kInclude("\\s*#\\s*include\\s*([<\"])([^>\"]+)[>\"].*");
  Lines found;
  for (const std::string& line : source.lines) {
    std::smatch match;
    if (std::regex_match(line, match, kInclude) && match[1].str()[0] == open)
      found.push_back(match[2]);
  }
  return found;
}

}  // namespace tandem
