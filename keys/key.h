// Keys of a scenario by name, checked when the code is compiled:
//
//   plan.set("parallel.tp", 8, "tp_size");     // the table has this key, and it is an integer
//   plan.set("parallel.tq", 8, "tp_size");     // does not compile: the table has no such key
//   plan.set("parallel.tp", true, "tp_size");  // does not compile: it is no flag
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "keys/cluster_rows.h"
#include "keys/job_rows.h"
#include "keys/key_row.h"
#include "keys/layer_rows.h"
#include "keys/run_rows.h"

namespace tandem {

// All keys of a scenario; a kind of layer, [model.kinds.NAME], has the keys of kLayerRows again.
inline constexpr std::span<const KeyRow> kKeyTables[] = {kJobRows, kLayerRows, kClusterRows,
                                                         kRunRows};

// Keys that files of other tools give, and that no scenario can set.
inline constexpr KeyRow kMissingRows[] = {
    {"model.index_heads", "integer: heads of DeepSeek sparse attention's indexer"},
    {"model.index_head_dim", "integer: size of such a head"},
    {"model.index_topk", "integer: positions that the indexer chooses"}};

namespace keys {

constexpr const KeyRow* find(std::string_view name, std::span<const KeyRow> rows) {
  for (const KeyRow& row : rows) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

constexpr const KeyRow* find(std::string_view name) {
  for (const std::span<const KeyRow> rows : kKeyTables) {
    if (const KeyRow* row = find(name, rows)) return row;
  }
  return find(name, kMissingRows);
}

// Calls of these do not compile, as they are not constexpr; the compiler's message has the key.
inline void no_table_has_this_key() {}
inline void this_key_has_another_type() {}
inline void no_layer_has_this_key() {}

}  // namespace keys

// A key of the tables, by its name.
class AnyKey {
 public:
  consteval AnyKey(const char* name) : row_(keys::find(name)) {
    if (row_ == nullptr) keys::no_table_has_this_key();
  }
  constexpr explicit AnyKey(const KeyRow& row) : row_(&row) {}

  constexpr std::string_view name() const { return row_->name; }
  constexpr std::string_view help() const { return row_->help; }
  // Returns "tp" of "parallel.tp".
  constexpr std::string_view last_word() const { return name().substr(name().rfind('.') + 1); }

  bool operator==(const AnyKey&) const = default;

 protected:
  const KeyRow* row_;
};

// A key whose values are of this type.
template <class Value>
class KeyOf : public AnyKey {
 public:
  consteval KeyOf(const char* name) : AnyKey(name) {
    if (row_->type() != key_type<Value>()) keys::this_key_has_another_type();
  }
  // REQUIRES: the row is of this type.
  constexpr explicit KeyOf(const KeyRow& row) : AnyKey(row) {}
};
using FlagKey = KeyOf<bool>;
using IntegerKey = KeyOf<std::int64_t>;
using NumberKey = KeyOf<double>;
using TextKey = KeyOf<std::string>;
using IntegersKey = KeyOf<std::vector<std::int64_t>>;

// A key of a layer, which may stand in [model.kinds.NAME] as well.
template <class Value>
class LayerKeyOf : public KeyOf<Value> {
 public:
  consteval LayerKeyOf(const char* name) : KeyOf<Value>(name) {
    if (keys::find(name, kLayerRows) == nullptr && keys::find(name, kMissingRows) == nullptr)
      keys::no_layer_has_this_key();
  }
};

// The type of a key's value that holds a T: bool, std::int64_t for other integers, std::string for
// texts, else T.
template <class T>
using ValueTypeOf = std::conditional_t<
    std::is_same_v<T, bool>, bool,
    std::conditional_t<
        std::is_integral_v<T>, std::int64_t,
        std::conditional_t<std::is_convertible_v<T, std::string_view>, std::string, T>>>;

// The beginning of the keys of a kind of layer: "model.kinds.NAME.heads".
inline constexpr std::string_view kKindPrefix = "model.kinds.";

// Whether a scenario may have a key of this name. Includes the keys of kinds.
bool is_scenario_key(std::string_view name);

}  // namespace tandem
