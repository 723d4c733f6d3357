// FieldReader: takes the values of a file's map by name, and knows what nobody took.
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

// Beyond any size of a model or a plan: a larger one is refused.
inline constexpr std::int64_t kMostWhole = 1'000'000'000;
// An integer, 5e8 and 4.0 too; nothing: it is none.
std::optional<std::int64_t> whole_number(const DocumentNode& node);
// A product of sizes as files have them; kMostWhole squared where it is larger.
std::int64_t product_of(std::initializer_list<std::int64_t> factors);

// Whether one of the globs fits: "*" stands for any text.
bool matches_any(std::string_view name, std::initializer_list<std::string_view> globs);
// The globs stand in one text, parted by blanks.
bool matches_word(std::string_view name, std::string_view globs);
bool matches_glob(std::string_view name, std::string_view glob);

class FieldReader {
 public:
  using Names = std::initializer_list<std::string_view>;

  // REQUIRES: the map outlives it.
  FieldReader(const DocumentNode& map, std::string path) : map_(&map), path_(std::move(path)) {}

  // The first of these that is there and not null, counted as taken; a value of another type, or
  // an integer below `least`, is an error(), and nothing.
  std::optional<std::int64_t> whole(Names names, std::int64_t least = 0);
  std::optional<double> number(Names names);
  std::optional<bool> flag(Names names);
  std::optional<std::string> text(Names names);
  std::optional<std::vector<std::int64_t>> wholes(Names names);
  std::optional<std::vector<std::string>> texts(Names names);
  const DocumentNode* node(Names names);
  bool has(std::string_view name) const;
  bool is_null(std::string_view name) const;  // there, without a value
  // The first of the names that is there and not null; empty: none.
  std::string name_of(Names names) const;
  // "config.json:12", of a field that is there.
  std::string place_of(std::string_view name) const;

  // The first fault that was found.
  Status status() const;
  void fail(std::string_view name, std::string_view expected);
  // What nobody took.
  std::vector<const DocumentField*> left() const;

 private:
  const DocumentField* field(Names names);

  const DocumentNode* map_;
  std::string path_;
  std::set<std::string, std::less<>> taken_;
  std::optional<Error> error_;
};

}  // namespace tandem
