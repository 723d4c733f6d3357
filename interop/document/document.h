// DocumentNode: a value of a JSON, YAML or TOML file, with the line where it stands. All readers of
// other tools' files use this form, so that each parser library is named in one file only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"

namespace tandem {

struct DocumentField;

struct DocumentNode {
  using List = std::vector<DocumentNode>;
  using Map = std::vector<DocumentField>;

  std::variant<std::monostate, bool, std::int64_t, double, std::string, List, Map> value;
  int line = 0;
  // The file of a value that an override put here; null: the document's own.
  const std::string* file = nullptr;

  // Returns the value's file and line, "a.json:12"; `path`: of the document.
  std::string place(const std::string& path) const;
  bool is_null() const { return std::holds_alternative<std::monostate>(value); }
  bool is_true() const { return std::holds_alternative<bool>(value) && std::get<bool>(value); }
  const List* list() const { return std::get_if<List>(&value); }
  const Map* map() const { return std::get_if<Map>(&value); }
  // Returns the last field of that name; null: there is none, or this is not a map.
  const DocumentNode* find(std::string_view key) const;
  // Returns the field at a path of names, "training.seq_len"; null: there is none.
  const DocumentNode* at(std::string_view path) const;
  // Returns the value on one line, shortened if it is long.
  std::string text() const;
};

// The deepest nesting that is accepted. No tool writes deeper files, and functions over nodes
// recurse once per level.
inline constexpr int kMostDepth = 200;

struct DocumentField {
  std::string key;
  DocumentNode value;
};

// Errors begin with "path:line". A field with two values in a map of YAML is one, as OmegaConf
// refuses it; in JSON the last one counts, as in Python. Bare Infinity and NaN, which Python
// writes, become null.
Result<DocumentNode> parse_json(const std::string& text, const std::string& path);
Result<DocumentNode> parse_yaml(const std::string& text, const std::string& path);
Result<DocumentNode> parse_toml(const std::string& text, const std::string& path);

// Checks that no map of a document has a field twice.
Status check_unique(const DocumentNode& node, const std::string& path);

// Reads a word as YAML reads unquoted text: as a number, a boolean, null or a string.
DocumentNode plain_scalar(const std::string& word, int line);

}  // namespace tandem
