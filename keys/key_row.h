// KeyRow: a row of the tables of a scenario's keys.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace tandem {

enum class KeyType { Flag, Integer, Number, Text, Integers };

struct KeyRow {
  std::string_view name;  // "parallel.tp"
  // The type, meaning and default, as docs/scenario.md has them: "integer: tensor parallel size;
  // default 1". The text for a {} is filled in where the key is bound to a member.
  std::string_view help;

  constexpr KeyType type() const {
    return help.starts_with("true or false")      ? KeyType::Flag
           : help.starts_with("integer")          ? KeyType::Integer
           : help.starts_with("number")           ? KeyType::Number
           : help.starts_with("list of integers") ? KeyType::Integers
                                                  : KeyType::Text;
  }

  // Returns the default's first word: "1" here; empty: the key has none.
  constexpr std::string_view default_word() const {
    constexpr std::string_view kBefore = "; default ";
    const std::size_t at = help.find(kBefore);
    if (at == std::string_view::npos) return {};
    const std::string_view text = help.substr(at + kBefore.size());
    const std::string_view word = text.substr(0, text.find_first_of(" ,:;"));
    return word.ends_with('.') ? word.substr(0, word.size() - 1) : word;
  }
};

// Returns the type of a key whose value is a Value.
template <class Value>
constexpr KeyType key_type() {
  if constexpr (std::is_same_v<Value, bool>) return KeyType::Flag;
  if constexpr (std::is_same_v<Value, std::int64_t>) return KeyType::Integer;
  if constexpr (std::is_same_v<Value, double>) return KeyType::Number;
  if constexpr (std::is_same_v<Value, std::vector<std::int64_t>>) return KeyType::Integers;
  return KeyType::Text;
}

}  // namespace tandem
