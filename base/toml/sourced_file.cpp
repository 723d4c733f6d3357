#include "base/toml/sourced_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "base/file.h"
#include "base/nearest.h"
#include "base/toml/parse_toml.h"

namespace tandem {

struct SourcedFile::Table {
  toml::table entries;
  std::vector<std::string> asked;  // keys that somebody asked for, present or not

  int line_of(const toml::node* node) const {
    return node != nullptr ? static_cast<int>(node->source().begin.line) : 1;
  }
};

Result<SourcedFile> SourcedFile::read(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, read_file(path));
  ASSIGN_OR_RETURN(toml::table entries, parse_toml_table(text, path));
  return SourcedFile(path, std::make_unique<Table>(Table{std::move(entries), {}}));
}

SourcedFile::SourcedFile(std::string path, std::unique_ptr<Table> table)
    : path_(std::move(path)), table_(std::move(table)) {}
SourcedFile::SourcedFile(SourcedFile&&) noexcept = default;
SourcedFile& SourcedFile::operator=(SourcedFile&&) noexcept = default;
SourcedFile::~SourcedFile() = default;

bool SourcedFile::has(const std::string& key) const {
  table_->asked.push_back(key);
  return table_->entries.contains(key);
}

template <class T>
Result<T> SourcedFile::sourced(const std::string& key, std::string_view what) {
  read_.push_back(key);
  const auto value = table_->entries[key]["value"].value<T>();
  const auto source = table_->entries[key]["source"].value<std::string>();
  if (!value || !source || source->empty())
    return expected(key, fmt::format("{{value = {}, source = \"where it comes from\"}}", what));
  sources_.emplace_back(key, *source);
  return *value;
}

Result<KeyValue> SourcedFile::value(const std::string& key) {
  const auto found = table_->entries[key]["value"];
  const auto as_key_value = [](auto result) -> Result<KeyValue> {
    if (!result.ok()) return result.error();
    return KeyValue(*std::move(result));
  };
  if (found.is_boolean()) return as_key_value(flag(key));
  if (found.is_integer()) return as_key_value(sourced<std::int64_t>(key, "an integer"));
  if (found.is_floating_point()) return as_key_value(number(key));
  if (found.is_string()) return as_key_value(word(key));
  return expected(key, "{value = ..., source = \"where it comes from\"}");
}

Result<std::string> SourcedFile::text(const std::string& key) {
  read_.push_back(key);
  const auto value = table_->entries[key].value<std::string>();
  if (!value) return expected(key, "a text");
  return *value;
}

Result<double> SourcedFile::number(const std::string& key) {
  return sourced<double>(key, "a number");
}

Result<double> SourcedFile::share(const std::string& key) {
  ASSIGN_OR_RETURN(const double value, number(key));
  if (!(value > 0 && value <= 1)) return expected(key, "a number above 0 and at most 1");
  return value;
}

Result<bool> SourcedFile::flag(const std::string& key) {
  return sourced<bool>(key, "true or false");
}

Result<std::string> SourcedFile::word(const std::string& key) {
  return sourced<std::string>(key, "a text");
}

Result<int> SourcedFile::count(const std::string& key) {
  ASSIGN_OR_RETURN(const auto value, sourced<std::int64_t>(key, "an integer"));
  if (value < 0 || value > 1'000'000) return expected(key, "an integer from 0 to 1000000");
  return static_cast<int>(value);
}

std::vector<std::string> SourcedFile::stems(std::string_view suffix) const {
  std::vector<std::string> found;
  for (const auto& [key, node] : table_->entries) {
    std::string_view stem = key.str();
    if (!stem.ends_with(suffix)) continue;
    stem.remove_suffix(suffix.size());
    found.emplace_back(stem);
  }
  return found;
}

Status SourcedFile::finish() const {
  std::vector<std::string> known = read_;
  known.insert(known.end(), table_->asked.begin(), table_->asked.end());
  for (const auto& [key, node] : table_->entries) {
    if (std::ranges::find(read_, key.str()) != read_.end()) continue;
    return Error::at(fmt::format("{}:{}", path_, table_->line_of(&node)),
                     fmt::format("found key '{}', expected a known key; the nearest is '{}'",
                                 key.str(), nearest(key.str(), known)));
  }
  return Done{};
}

Error SourcedFile::expected(const std::string& key, std::string_view what) const {
  const toml::node* node = table_->entries.get(key);
  return Error::at(
      fmt::format("{}:{}", path_, table_->line_of(node)),
      fmt::format("found {} '{}', expected {}", node != nullptr ? "a wrong" : "no", key, what));
}

}  // namespace tandem
