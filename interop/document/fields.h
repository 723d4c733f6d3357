// FieldReader: reads the values of a file's map by name, and remembers which were read, so that
// left() can list the fields that no reader understands.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "interop/document/document.h"

namespace tandem {

// The largest size of a model or a plan that is accepted: no real one comes near.
inline constexpr std::int64_t kMostWhole = 1'000'000'000;
// Returns the integer that a node holds, 5e8 and 4.0 too; nothing: it holds none.
std::optional<std::int64_t> whole_number(const DocumentNode& node);
// Multiplies sizes as files have them; returns at most kMostWhole squared.
std::int64_t product_of(std::initializer_list<std::int64_t> factors);

// Returns whether the name matches one of the globs: "*" stands for any text.
bool matches_any(std::string_view name, std::initializer_list<std::string_view> globs);
// Does the same with globs in one text, separated by blanks: "lr* *_dir".
bool matches_word(std::string_view name, std::string_view globs);
bool matches_glob(std::string_view name, std::string_view glob);

class FieldReader {
 public:
  using Names = std::initializer_list<std::string_view>;

  // REQUIRES: the map outlives this.
  FieldReader(const DocumentNode& map, std::string path) : map_(&map), path_(std::move(path)) {}

  // Return the value of the first of these fields that is present and not null, and mark it as
  // read. A value of another type, or an integer below `least`, sets the error of status() and
  // returns nothing.
  std::optional<std::int64_t> whole(Names names, std::int64_t least = 0);
  std::optional<double> number(Names names);
  std::optional<bool> flag(Names names);
  std::optional<std::string> text(Names names);
  std::optional<std::vector<std::int64_t>> wholes(Names names);
  std::optional<std::vector<std::string>> texts(Names names);
  const DocumentNode* node(Names names);
  // Returns a field that is a map; an empty map: it is missing, or no map, which sets the error.
  const DocumentNode& section(std::string_view name, std::string_view expected);
  bool has(std::string_view name) const;
  bool is_null(std::string_view name) const;  // present, without a value
  // Returns the first of the names that is present and not null; empty: none.
  std::string name_of(Names names) const;
  // Returns a field's file and line: "config.json:12".
  std::string place_of(std::string_view name) const;

  // Returns the first error. fail() sets it: "found VALUE, expected EXPECTED".
  Status status() const;
  void fail(std::string_view name, std::string_view expected);
  // Returns the fields that were not read.
  std::vector<const DocumentField*> left() const;

 private:
  // Marks all of the names as read; null: none is present with a value.
  const DocumentField* field(Names names);

  const DocumentNode* map_;
  std::string path_;
  std::set<std::string, std::less<>> taken_;
  std::optional<Error> error_;
};

}  // namespace tandem
