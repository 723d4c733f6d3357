// The engine of live pages, where ./dev wasm built it.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>

namespace tandem {

inline std::string built_engine() { return TANDEM_SOURCE_DIR "/build/wasm/tandem.js"; }

// Whether tests can ask it; says why not.
inline bool has_engine() {
  if (!std::filesystem::exists(built_engine())) {
    WARN("skipped: no " << built_engine() << ", which ./dev wasm builds");
    return false;
  }
  if (std::system("command -v node >/dev/null 2>&1") == 0) return true;
  WARN("skipped: no node");
  return false;
}

// Returns a result as a page and the program both give it: without the wall time, with warnings
// that have no place of a setting ("job.toml:3: "), and without those on the axes of a file, which
// a page does not have.
template <class Json>
Json comparable(Json result) {
  result.erase("engine_wall_s");
  static const std::regex place("(the page|--set|[^ ]+\\.toml(:[0-9]+)?): ");
  Json warnings = Json::array();
  for (const auto& warning : result.at("warnings")) {
    const std::string text = std::regex_replace(warning.template get<std::string>(), place, "");
    if (text.find(" replaces what the axis ") != std::string::npos) continue;
    const std::size_t line = std::min(text.find("found "), text.find("cluster.nic_Gbitps = "));
    warnings.push_back(line == std::string::npos ? text : text.substr(line));
  }
  result["warnings"] = warnings;
  return result;
}

}  // namespace tandem
