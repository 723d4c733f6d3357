#include "interop/document/document.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <set>

#include "base/split.h"
#include "base/xml.h"

namespace tandem {
namespace {

std::string joined(const DocumentNode::List& list) {
  std::string text;
  for (const DocumentNode& node : list) text += (text.empty() ? "" : ", ") + node.text();
  return "[" + text + "]";
}

std::string joined(const DocumentNode::Map& map) {
  std::string text;
  for (const DocumentField& field : map)
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", field.key, field.value.text());
  return "{" + text + "}";
}

}  // namespace

const DocumentNode* DocumentNode::find(std::string_view key) const {
  if (const Map* fields = map()) {
    for (auto field = fields->rbegin(); field != fields->rend(); ++field) {
      if (field->key == key) return &field->value;
    }
  }
  return nullptr;
}

std::string DocumentNode::place(const std::string& path) const {
  return fmt::format("{}:{}", file == nullptr ? path : *file, line);
}

const DocumentNode* DocumentNode::at(std::string_view path) const {
  const DocumentNode* node = this;
  for (const std::string& name : split(path, ".")) {
    if (node != nullptr) node = node->find(name);
  }
  return node;
}

std::string DocumentNode::text() const {
  constexpr std::size_t kMost = 60;
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *whole);
  if (const auto* number = std::get_if<double>(&value)) return fmt::format("{}", *number);
  if (const auto* word = std::get_if<std::string>(&value)) return shortened(*word, kMost);
  if (const List* nodes = list()) return shortened(joined(*nodes), kMost);
  if (const Map* fields = map()) return shortened(joined(*fields), kMost);
  return "null";
}

Status check_unique(const DocumentNode& node, const std::string& path) {
  if (node.list() != nullptr) {
    for (const DocumentNode& item : *node.list()) RETURN_IF_ERROR(check_unique(item, path));
  }
  if (node.map() == nullptr) return Done{};
  std::set<std::string_view> names;
  for (const DocumentField& field : *node.map()) {
    if (!names.insert(field.key).second)
      return Error::at(fmt::format("{}:{}", path, field.value.line),
                       fmt::format("found {} a second time, expected it once", field.key));
    RETURN_IF_ERROR(check_unique(field.value, path));
  }
  return Done{};
}

DocumentNode plain_scalar(const std::string& word, int line) {
  const std::string lower = lower_case(word);
  if (word.empty() || word == "~" || word == "None" || lower == "null") return {{}, line};
  if (lower == "true" || lower == "yes" || lower == "on") return {true, line};
  if (lower == "false" || lower == "no" || lower == "off") return {false, line};
  const char* first = word.data() + (word[0] == '+' ? 1 : 0);
  const char* last = word.data() + word.size();
  std::int64_t whole = 0;
  if (const auto read = std::from_chars(first, last, whole);
      read.ec == std::errc() && read.ptr == last)
    return {whole, line};
  double number = 0;
  if (const auto read = std::from_chars(first, last, number);
      read.ec == std::errc() && read.ptr == last && std::isfinite(number))
    return {number, line};
  return {word, line};
}

}  // namespace tandem
