// FieldTable: the fields of a struct, one row each. A row writes the field to JSON and reads it
// back. It also holds the field's texts for docs/formats.md and the Python stub, and its column in
// a sweep's CSV:
//
//     template <>
//     FieldTable<Spread> make_fields() {
//       return {field("p5", &Spread::p5), field("p50", &Spread::p50), field("p95", &Spread::p95)};
//     }
//
// A struct with such a table may be a field of another one, also as an optional or in a list: in
// JSON it is an object. A missing optional is null in JSON, and null is not read back.
#pragma once

#include <array>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "schedule/program/program.h"

namespace tandem {

using Json = nlohmann::ordered_json;

// The texts of a field: its key, and what the documents and the Python stub say of it.
struct FieldText {
  std::string key;
  std::string type;              // type or unit: "text", "s"; empty for a part of an object
  std::string help;              // may be empty for a part of an object
  std::string python;            // type in the stub: "float | None"
  std::vector<FieldText> parts;  // of an object, or of each object of a list
  // The place of its column in a sweep's CSV. First come those with 0, in the order of the table.
  int column = 0;
};
inline constexpr int kNoColumn = -1;

template <class T>
struct FieldRow : FieldText {
  std::function<Json(const T&)> get;
  std::function<void(const Json&, T*)> set;  // none: the field is not read back
};

template <class T>
struct FieldTable {
  std::vector<FieldRow<T>> rows;
  std::string python = "Numbers";  // the struct's class in the Python stub

  explicit FieldTable(FieldRow<T> row) : rows{std::move(row)} {}
  FieldTable(std::initializer_list<FieldTable> parts) {
    for (const FieldTable& part : parts)
      rows.insert(rows.end(), part.rows.begin(), part.rows.end());
  }

  FieldTable(std::string class_in_stub, std::initializer_list<FieldTable> parts)
      : FieldTable(parts) {
    python = std::move(class_in_stub);
  }

  std::vector<FieldText> texts() const { return {rows.begin(), rows.end()}; }

  // The functions below return the same rows, changed.
  FieldTable in_column(int column) const {
    FieldTable changed = *this;
    for (FieldRow<T>& row : changed.rows) row.column = column;
    return changed;
  }
  // The field is null if it has the value of a new T.
  FieldTable null_by_default() const {
    FieldTable changed = *this;
    for (FieldRow<T>& row : changed.rows) {
      row.get = [get = row.get, none = row.get(T())](const T& from) {
        const Json json = get(from);
        return json == none ? Json() : json;
      };
      row.python += " | None";
    }
    return changed;
  }
};

// Makes the table of a struct's fields. Each struct that has one specializes this.
template <class T>
FieldTable<T> make_fields() = delete;

template <class T>
concept HasFields = requires {
  make_fields<T>();
};

template <HasFields T>
const FieldTable<T>& fields_of() {
  static const FieldTable<T> table = make_fields<T>();
  return table;
}

// Both are called by nlohmann's library. to_json() adds the fields to the object.
template <HasFields T>
void to_json(Json& object, const T& from) {
  for (const FieldRow<T>& row : fields_of<T>().rows) object[row.key] = row.get(from);
}
template <HasFields T>
void from_json(const Json& object, T& to) {
  for (const FieldRow<T>& row : fields_of<T>().rows) {
    if (row.set && !object.at(row.key).is_null()) row.set(object.at(row.key), &to);
  }
}

// Returns an object with the kinds of groups as keys.
template <class T>
Json by_group_kind(const std::array<T, kGroupKinds>& values) {
  Json json;
  for (int i = 0; i < kGroupKinds; ++i)
    json[std::string(group_kind_name(static_cast<GroupKind>(i)))] = values[i];
  return json;
}

// Sets the Python type of a field that is a T, and its parts if it is an object.
template <class T>
void describe(FieldText* text) {
  if constexpr (std::is_convertible_v<T, std::string_view>) {
    text->python = "str";
  } else if constexpr (std::is_arithmetic_v<T>) {
    text->python = std::is_integral_v<T> ? "int" : "float";
    if (std::is_same_v<T, bool>) text->python = "bool";
  } else if constexpr (HasFields<T>) {
    text->python = fields_of<T>().python;
    text->parts = fields_of<T>().texts();
  } else {
    describe<typename T::value_type>(text);
    constexpr bool kOptional = requires(T value) { value.has_value(); };
    text->python = kOptional ? text->python + " | None" : "list[" + text->python + "]";
  }
}

// Makes the row of a computed value. `get`: a function of const T&, or a member of T. `set` reads
// it back from JSON; nullptr: it is not read back.
template <class T, class Get>
FieldTable<T> field_value(std::string key, Get get, std::function<void(const Json&, T*)> set,
                          std::string type = "", std::string help = "") {
  FieldText text{std::move(key), std::move(type), std::move(help)};
  describe<std::remove_cvref_t<std::invoke_result_t<Get, const T&>>>(&text);
  return FieldTable<T>(
      {std::move(text), [=](const T& from) -> Json { return std::invoke(get, from); }, set});
}

template <class T, class Member>
FieldTable<T> field(std::string key, Member T::*member, std::string type = "",
                    std::string help = "") {
  return field_value<T>(
      std::move(key), member, [=](const Json& json, T* to) { json.get_to(to->*member); },
      std::move(type), std::move(help));
}

// Makes the row of a value for each kind of group.
template <class T, class Value>
FieldTable<T> field_by_kind(std::string key, std::array<Value, kGroupKinds> T::*member,
                            std::string type, std::string help) {
  FieldText text{std::move(key), std::move(type), std::move(help),
                 std::is_same_v<Value, double> ? "ByGroup" : "ShareByGroup"};
  const auto get = [=](const T& from) { return by_group_kind(from.*member); };
  for (int i = 0; i < kGroupKinds; ++i) {
    text.parts.push_back({.key = std::string(group_kind_name(static_cast<GroupKind>(i)))});
    describe<Value>(&text.parts.back());
  }
  return FieldTable<T>({text, get, [=, kinds = text.parts](const Json& json, T* to) {
                          for (int i = 0; i < kGroupKinds; ++i)
                            json.at(kinds[i].key).get_to((to->*member)[i]);
                        }});
}

// Makes a row for each field of an optional member, so that they stand in the JSON of T itself. All
// are null if the member is missing.
template <class T, class Member>
FieldTable<T> field_group(std::optional<Member> T::*member, const FieldTable<Member>& fields) {
  FieldTable<T> group{};
  for (const FieldRow<Member>& row : fields.rows) {
    group.rows.push_back(
        {row, [=](const T& from) { return from.*member ? row.get(*(from.*member)) : Json(); },
         [=](const Json& json, T* to) {
           row.set(json, &(to->*member ? *(to->*member) : (to->*member).emplace()));
         }});
    if (!row.python.ends_with(" | None")) group.rows.back().python += " | None";
  }
  return group;
}

}  // namespace tandem

template <class T>
struct nlohmann::adl_serializer<std::optional<T>> {
  static void to_json(tandem::Json& json, const std::optional<T>& value) {
    json = value ? tandem::Json(*value) : tandem::Json();
  }
  static void from_json(const tandem::Json& json, std::optional<T>& value) {
    if (!json.is_null()) json.get_to(value.emplace());
  }
};
