#include "interop/document/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tandem {

std::optional<std::int64_t> whole_number(const DocumentNode& node) {
  if (const auto* whole = std::get_if<std::int64_t>(&node.value)) return *whole;
  const auto* number = std::get_if<double>(&node.value);
  if (number == nullptr || std::floor(*number) != *number || std::abs(*number) > 1e15)
    return std::nullopt;
  return static_cast<std::int64_t>(*number);
}

std::int64_t product_of(std::initializer_list<std::int64_t> factors) {
  constexpr std::int64_t kMost = kMostWhole * kMostWhole;
  std::int64_t product = 1;
  for (const std::int64_t factor : factors)
    product = factor > 0 && product > kMost / factor ? kMost : product * factor;
  return product;
}

bool matches_glob(std::string_view name, std::string_view glob) {
  const std::size_t star = glob.find('*');
  if (star == std::string_view::npos) return name == glob;
  if (!name.starts_with(glob.substr(0, star))) return false;
  name.remove_prefix(star);
  glob.remove_prefix(star + 1);
  for (std::size_t i = 0; i <= name.size(); ++i) {
    if (matches_glob(name.substr(i), glob)) return true;
  }
  return false;
}

bool matches_any(std::string_view name, std::initializer_list<std::string_view> globs) {
  return std::any_of(globs.begin(), globs.end(),
                     [&](std::string_view glob) { return matches_glob(name, glob); });
}

bool matches_word(std::string_view name, std::string_view globs) {
  while (!globs.empty()) {
    const std::size_t end = std::min(globs.find(' '), globs.size());
    if (end > 0 && matches_glob(name, globs.substr(0, end))) return true;
    globs.remove_prefix(std::min(end + 1, globs.size()));
  }
  return false;
}

const DocumentField* FieldReader::field(Names names) {
  const DocumentField* first = nullptr;
  if (const DocumentNode::Map* fields = map_->map()) {
    for (const std::string_view name : names) {
      // If two fields have one name, the last one counts.
      for (auto field = fields->rbegin(); field != fields->rend(); ++field) {
        if (field->key != name) continue;
        taken_.insert(field->key);
        if (first == nullptr && !field->value.is_null()) first = &*field;
      }
    }
  }
  return first;
}

std::optional<std::int64_t> FieldReader::whole(Names names, std::int64_t least) {
  const DocumentField* found = field(names);
  if (found == nullptr) return std::nullopt;
  const auto whole = whole_number(found->value);
  if (whole && *whole >= least && *whole <= kMostWhole) return whole;
  fail(found->key, fmt::format("an integer from {} to {}", least, kMostWhole));
  return std::nullopt;
}

std::optional<double> FieldReader::number(Names names) {
  const DocumentField* found = field(names);
  if (found == nullptr) return std::nullopt;
  if (const auto* number = std::get_if<double>(&found->value.value)) return *number;
  if (const auto whole = whole_number(found->value)) return static_cast<double>(*whole);
  fail(found->key, "a number");
  return std::nullopt;
}

std::optional<bool> FieldReader::flag(Names names) {
  const DocumentField* found = field(names);
  if (found == nullptr) return std::nullopt;
  if (const auto* flag = std::get_if<bool>(&found->value.value)) return *flag;
  fail(found->key, "true or false");
  return std::nullopt;
}

std::optional<std::string> FieldReader::text(Names names) {
  const DocumentField* found = field(names);
  if (found == nullptr) return std::nullopt;
  if (const auto* text = std::get_if<std::string>(&found->value.value)) return *text;
  fail(found->key, "a text");
  return std::nullopt;
}

std::optional<std::vector<std::int64_t>> FieldReader::wholes(Names names) {
  const DocumentField* found = field(names);
  if (found == nullptr) return std::nullopt;
  std::vector<std::int64_t> numbers;
  if (const auto* list = found->value.list()) {
    for (const DocumentNode& item : *list) {
      if (const auto whole = whole_number(item)) numbers.push_back(*whole);
    }
    if (numbers.size() == list->size()) return numbers;
  }
  fail(found->key, "a list of integers");
  return std::nullopt;
}

std::optional<std::vector<std::string>> FieldReader::texts(Names names) {
  const DocumentField* found = field(names);
  if (found == nullptr) return std::nullopt;
  std::vector<std::string> texts;
  if (const auto* list = found->value.list()) {
    for (const DocumentNode& item : *list) {
      if (const auto* text = std::get_if<std::string>(&item.value)) texts.push_back(*text);
    }
    if (texts.size() == list->size()) return texts;
  }
  fail(found->key, "a list of texts");
  return std::nullopt;
}

const DocumentNode* FieldReader::node(Names names) {
  const DocumentField* found = field(names);
  return found == nullptr ? nullptr : &found->value;
}

const DocumentNode& FieldReader::section(std::string_view name, std::string_view expected) {
  static const DocumentNode kNothing{DocumentNode::Map{}, 1};
  const DocumentNode* found = node({name});
  if (found != nullptr && found->map() == nullptr) fail(name, expected);
  return found == nullptr || found->map() == nullptr ? kNothing : *found;
}

bool FieldReader::has(std::string_view name) const {
  const DocumentNode* found = map_->find(name);
  return found != nullptr && !found->is_null();
}

bool FieldReader::is_null(std::string_view name) const {
  const DocumentNode* found = map_->find(name);
  return found != nullptr && found->is_null();
}

std::string FieldReader::name_of(Names names) const {
  const auto found =
      std::find_if(names.begin(), names.end(), [&](std::string_view name) { return has(name); });
  return found == names.end() ? "" : std::string(*found);
}

std::string FieldReader::place_of(std::string_view name) const {
  const DocumentNode* found = map_->find(name);
  return (found == nullptr ? map_ : found)->place(path_);
}

Status FieldReader::status() const {
  if (error_) return *error_;
  return Done{};
}

void FieldReader::fail(std::string_view name, std::string_view expected) {
  if (error_) return;
  const DocumentNode* found = map_->find(name);
  error_ = Error::at(place_of(name),
                     fmt::format("found {} = {}, expected {}", name,
                                 found == nullptr ? "nothing" : found->text(), expected));
}

std::vector<const DocumentField*> FieldReader::left() const {
  std::vector<const DocumentField*> fields;
  if (const DocumentNode::Map* map = map_->map()) {
    for (const DocumentField& field : *map) {
      if (!taken_.contains(field.key)) fields.push_back(&field);
    }
  }
  return fields;
}

}  // namespace tandem
