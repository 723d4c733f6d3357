// Makers of fields: a key's help, and the setter that checks its value and puts it in its place.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <string>

#include "scenarios/config/fields.h"

namespace tandem {

// A place in a Scenario, to be set.
#define AT(expression) \
  [](Scenario & s) -> auto& { return s.expression; }

// Each checks the type and the range, and says what was expected.

template <class Place>  // Place: int& of a Scenario&
Field whole(const char* key, const char* help, Place place, int least, int most = 1'000'000'000) {
  return {key, help, [=](const Setting& setting, Scenario* scenario) -> Status {
            const auto* value = std::get_if<std::int64_t>(&setting.value);
            if (value == nullptr || *value < least || *value > most)
              return setting.error(key, fmt::format("an integer from {} to {}", least, most));
            place(*scenario) = static_cast<int>(*value);
            return Done{};
          }};
}

// What a number may be.
struct Range {
  double least = 0;
  double most = 1e30;
  bool above_least = false;  // `least` itself is too little

  bool has(double value) const {
    return value <= most && (above_least ? value > least : value >= least);
  }
  // What is expected in place of a value.
  std::string text(double value) const {
    const std::string from = fmt::format("{} {}", above_least ? "above" : "of at least", least);
    return most < 1e30 || value > most ? fmt::format("a number {} and at most {}", from, most)
                                       : fmt::format("a number {}", from);
  }
};
inline constexpr Range kPositive{.above_least = true};
inline constexpr Range kShare{.most = 1, .above_least = true};
// Beyond these a typing error is likelier, and iterations would not fit into 64-bit nanoseconds.
inline constexpr Range kSeconds{.most = 1e4};
inline constexpr Range kTransferSeconds{.most = 900};
inline constexpr Range kMicroseconds{.most = 900e6};
inline constexpr Range kSteps{.most = 1000};
inline constexpr Range kCount{.least = 1, .most = 1e15};

// A number in that range, times `unit`.
template <class Place>  // Place: double& of a Scenario&
Field number(const char* key, const char* help, Place place, double unit = 1, Range range = {}) {
  return {key, help, [=](const Setting& setting, Scenario* scenario) -> Status {
            const auto* integer = std::get_if<std::int64_t>(&setting.value);
            const auto* real = std::get_if<double>(&setting.value);
            const double value = integer != nullptr ? static_cast<double>(*integer)
                                 : real != nullptr  ? *real
                                                    : -1;
            if (!range.has(value)) return setting.error(key, range.text(value));
            place(*scenario) = value * unit;
            return Done{};
          }};
}

template <class Place>  // Place: std::vector<int>& of a Scenario&
Field numbers(const char* key, const char* help, Place place) {
  return {key, help, [=](const Setting& setting, Scenario* scenario) -> Status {
            const auto* list = std::get_if<std::vector<std::int64_t>>(&setting.value);
            if (list == nullptr) return setting.error(key, "a list of integers");
            for (const std::int64_t number : *list) {
              if (number < 0 || number > 1'000'000'000)
                return setting.error(key, "integers, not negative");
            }
            place(*scenario).assign(list->begin(), list->end());
            return Done{};
          }};
}

template <class Place>  // Place: bool& (or optional) of a Scenario&
Field flag(const char* key, const char* help, Place place) {
  return {key, help, [=](const Setting& setting, Scenario* scenario) -> Status {
            const auto* value = std::get_if<bool>(&setting.value);
            if (value == nullptr) return setting.error(key, "true or false");
            place(*scenario) = *value;
            return Done{};
          }};
}

template <class Place>  // Place: std::string& of a Scenario&
Field text(const char* key, const char* help, Place place) {
  return {key, help, [=](const Setting& setting, Scenario* scenario) -> Status {
            const auto* value = std::get_if<std::string>(&setting.value);
            if (value == nullptr) return setting.error(key, "a text");
            place(*scenario) = *value;
            return Done{};
          }};
}

// One of several words.
template <class Value, class Place>  // Place: Value& of a Scenario&
Field choice(const char* key, const char* help, std::map<std::string, Value> words, Place place) {
  return {key, help, [=](const Setting& setting, Scenario* scenario) -> Status {
            const auto* word = std::get_if<std::string>(&setting.value);
            const auto found = word == nullptr ? words.end() : words.find(*word);
            if (found == words.end()) {
              std::string expected = "one of";
              for (const auto& [known, value] : words) expected += ' ' + known;
              return setting.error(key, expected);
            }
            place(*scenario) = found->second;
            return Done{};
          }};
}

}  // namespace tandem
