// TOML as a DocumentNode: the only file of this module that names the TOML library. Declared in
// interop/document/document.h.
#include <toml++/toml.h>

#include "base/toml/parse_toml.h"
#include "interop/document/document.h"

namespace tandem {
namespace {

DocumentNode node_of_toml(const toml::node& from) {
  const int line = static_cast<int>(from.source().begin.line);
  if (const auto* value = from.as_boolean()) return {value->get(), line};
  if (const auto* value = from.as_integer()) return {std::int64_t{value->get()}, line};
  if (const auto* value = from.as_floating_point()) return {value->get(), line};
  if (const auto* value = from.as_string()) return {value->get(), line};
  if (const toml::array* array = from.as_array()) {
    DocumentNode::List list;
    for (const toml::node& item : *array) list.push_back(node_of_toml(item));
    return {std::move(list), line};
  }
  if (const toml::table* table = from.as_table()) {
    DocumentNode::Map map;
    for (auto&& [key, node] : *table) map.push_back({std::string(key.str()), node_of_toml(node)});
    return {std::move(map), line};
  }
  return {{}, line};
}

}  // namespace

Result<DocumentNode> parse_toml(const std::string& text, const std::string& path) {
  ASSIGN_OR_RETURN(const toml::table table, parse_toml_table(text, path));
  return node_of_toml(table);
}

}  // namespace tandem
