// BoundKey: a key of the tables, the check of its value and the member that it sets.
//
//   keys::whole("parallel.tp", [](Scenario& s) -> int& { return s.job.plan.tp; }, 1)
//
// A key that no table has, or that has another type there, does not compile.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "base/key_value.h"
#include "base/split.h"
#include "base/xml.h"
#include "keys/key.h"

namespace tandem {

template <class Target>
struct BoundKey {
  AnyKey key;
  // Checks the value and stores it in the target. If the value is wrong, stores nothing and returns
  // the text of what was expected.
  std::function<std::optional<std::string>(const KeyValue&, Target*)> set;
};

// A place is a lambda from Target& to a reference to the member that a key sets, as above. `type`
// is that Target.
template <class Place>
struct PlaceTarget : PlaceTarget<decltype(&Place::operator())> {};
template <class Lambda, class Member, class Target>
struct PlaceTarget<Member (Lambda::*)(Target&) const> {
  using type = Target;
};
template <class Place>
using KeyAt = BoundKey<typename PlaceTarget<Place>::type>;

// Functions that bind keys, and ranges of numbers for them.
namespace keys {

inline constexpr double kNoMost = 1e30;  // larger than any number that a key is for

// The numbers that a key accepts.
struct Range {
  double least = 0;
  double most = kNoMost;
  bool above_least = false;  // `least` itself is not accepted

  bool has(double value) const {
    return value <= most && (above_least ? value > least : value >= least);
  }
  // Returns the expectation that `value` breaks, as text.
  std::string text(double value) const {
    const std::string from = fmt::format("{} {}", above_least ? "above" : "of at least", least);
    const bool tells_most = most < kNoMost || value > most;
    return fmt::format("a number {}{}", from,
                       tells_most ? fmt::format(" and at most {}", most) : "");
  }
};
inline constexpr Range kPositive{.above_least = true};
inline constexpr Range kShare{.most = 1, .above_least = true};
// Larger values are probably typing errors, and iterations would not fit into 64-bit nanoseconds.
inline constexpr Range kSeconds{.most = 1e4};
inline constexpr Range kTransferSeconds{.most = 900};
inline constexpr Range kMicroseconds{.most = 900e6};
inline constexpr Range kSteps{.most = 1000};
inline constexpr Range kCount{.least = 1, .most = 1e15};

// Each function below binds a key to the member at `place`, of the value's type or an optional of
// it.

template <class Place>
KeyAt<Place> whole(IntegerKey key, Place place, int least, int most = 1'000'000'000) {
  using Target = typename PlaceTarget<Place>::type;
  return {key, [=](const KeyValue& value, Target* target) -> std::optional<std::string> {
            const std::optional<std::int64_t> number = whole_number(value);
            if (!number || *number < least || *number > most)
              return fmt::format("an integer from {} to {}", least, most);
            place(*target) = static_cast<int>(*number);
            return std::nullopt;
          }};
}

// A number in `range`, which is multiplied by `unit` to the member's unit.
template <class Place>
KeyAt<Place> number(NumberKey key, Place place, double unit = 1, Range range = {}) {
  using Target = typename PlaceTarget<Place>::type;
  return {key, [=](const KeyValue& value, Target* target) -> std::optional<std::string> {
            const auto* integer = std::get_if<std::int64_t>(&value);
            const auto* real = std::get_if<double>(&value);
            double found = -1;  // no number: out of every range
            if (integer != nullptr) found = static_cast<double>(*integer);
            if (real != nullptr) found = *real;
            if (!range.has(found)) return range.text(found);
            place(*target) = found * unit;
            return std::nullopt;
          }};
}

template <class Place>
KeyAt<Place> numbers(IntegersKey key, Place place, std::int64_t most = 1'000'000'000) {
  using Target = typename PlaceTarget<Place>::type;
  return {key, [=](const KeyValue& value, Target* target) -> std::optional<std::string> {
            const auto* list = std::get_if<std::vector<std::int64_t>>(&value);
            if (list == nullptr) return "a list of integers";
            for (const std::int64_t number : *list) {
              if (number < 0 || number > most) return fmt::format("integers from 0 to {}", most);
            }
            place(*target).assign(list->begin(), list->end());
            return std::nullopt;
          }};
}

template <class Place>
KeyAt<Place> flag(FlagKey key, Place place) {
  using Target = typename PlaceTarget<Place>::type;
  return {key, [=](const KeyValue& value, Target* target) -> std::optional<std::string> {
            const auto* found = std::get_if<bool>(&value);
            if (found == nullptr) return "true or false";
            place(*target) = *found;
            return std::nullopt;
          }};
}

// A text. With `is_shown` it is stored as it will be printed, so that searches for it find it.
template <class Place>
KeyAt<Place> text(TextKey key, Place place, bool is_shown = false) {
  using Target = typename PlaceTarget<Place>::type;
  return {key, [=](const KeyValue& value, Target* target) -> std::optional<std::string> {
            const auto* found = std::get_if<std::string>(&value);
            if (found == nullptr) return "a text";
            place(*target) = is_shown ? printable(*found) : *found;
            return std::nullopt;
          }};
}

template <class Place>
KeyAt<Place> name(TextKey key, Place place) {
  return text(key, place, /*is_shown=*/true);
}

// Some of several words, separated by commas: "core_attn,mlp". Each row has a word (`name`) and a
// pointer to its bool member (`place`). The bools of words that are not named become false.
template <class Row, std::size_t kRows, class Place>
KeyAt<Place> words(TextKey key, const Row (&rows)[kRows], Place place) {
  using Target = typename PlaceTarget<Place>::type;
  return {key, [=, &rows](const KeyValue& value, Target* target) -> std::optional<std::string> {
            std::string expected = "some of";
            for (const Row& row : rows) expected += fmt::format(" {}", row.name);
            expected += ", with commas";
            const auto* text = std::get_if<std::string>(&value);
            if (text == nullptr) return expected;
            std::remove_reference_t<decltype(place(*target))> flags;
            for (const Row& row : rows) flags.*row.place = false;
            for (std::string word : split(*text, ",")) {
              std::erase(word, ' ');
              const auto found = std::ranges::find(rows, word, &Row::name);
              if (found == std::end(rows)) return expected;
              flags.*found->place = true;
            }
            place(*target) = flags;
            return std::nullopt;
          }};
}

// One of several words.
template <class Value, class Place>
KeyAt<Place> choice(TextKey key, std::map<std::string, Value> words, Place place) {
  using Target = typename PlaceTarget<Place>::type;
  return {key, [=](const KeyValue& value, Target* target) -> std::optional<std::string> {
            const auto* word = std::get_if<std::string>(&value);
            const auto found = word == nullptr ? words.end() : words.find(*word);
            if (found == words.end()) {
              std::string expected = "one of";
              for (const auto& [known, member_value] : words) expected += ' ' + known;
              return expected;
            }
            place(*target) = found->second;
            return std::nullopt;
          }};
}

}  // namespace keys

}  // namespace tandem
