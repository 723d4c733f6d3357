// Texts as tests look at them: a file's, its lines, what stands in it.
#pragma once

#include <catch2/catch.hpp>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "base/file.h"

namespace tandem {

// The file's text. The test ends where it cannot be read.
inline std::string contents(const std::filesystem::path& path) {
  const auto text = read_file(path.string());
  INFO((text.ok() ? "" : text.error().text()));
  REQUIRE(text.ok());
  return *text;
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// How many times the part stands in the text.
inline int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size()))
    ++found;
  return found;
}

}  // namespace tandem
