// Result<T>: a value, or an Error that says what was found and what was expected.
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace tandem {

// The place of a fault, as far as the code that found it knows: a rule between keys knows their
// names, the reader of a file knows the line. Scenario::placed() finds the lines of keys. No code
// parses the place from the message, which may be reworded.
struct FaultPlace {
  std::vector<std::string> keys;  // the keys at fault, the most likely first
  std::string source;             // "file:line", "file" or "--set"
};

// The reason why something could not be done.
struct Error {
  enum class Kind : int { Failed = 1, BadInput, Missing };  // 0: no Error
  static constexpr Kind Failed = Kind::Failed, BadInput = Kind::BadInput, Missing = Kind::Missing;

  std::string message;  // one line: what was found, what was expected
  Kind kind = BadInput;
  FaultPlace place = {};
  int code = 0;  // the error code that another program gave; 0: none

  // Makes an Error for bad input at "file:line".
  static Error at(std::string source, std::string message) {
    return {std::move(message), BadInput, {.keys = {}, .source = std::move(source)}};
  }
  // Makes an Error for bad input at these keys.
  static Error of(std::vector<std::string> keys, std::string message) {
    return {std::move(message), BadInput, {.keys = std::move(keys), .source = {}}};
  }

  // Returns the same Error with these keys added at the end.
  Error or_of(const std::vector<std::string>& keys) const {
    Error error = *this;
    error.place.keys.insert(error.place.keys.end(), keys.begin(), keys.end());
    return error;
  }

  // Returns the text to print: "file:line: message". A long one is shortened in the middle.
  std::string text() const;
};

// The value of a Result that has nothing to return but success.
struct Done {};

// A value, or the reason why there is none. `Why` is Error, or a type with more details.
template <class T, class Why = Error>
class [[nodiscard]] Result {
 public:
  Result(T result) : state_(std::in_place_index<0>, std::move(result)) {}
  Result(Why why) : state_(std::in_place_index<1>, std::move(why)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // REQUIRES: ok().
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  // REQUIRES: !ok().
  const Why& error() const { return std::get<1>(state_); }

 private:
  std::variant<T, Why> state_;
};

using Status = Result<Done>;

}  // namespace tandem

#define TANDEM_CONCAT_(a, b) a##b
#define TANDEM_CONCAT(a, b) TANDEM_CONCAT_(a, b)

// ASSIGN_OR_RETURN(auto x, f()): x is f's value; an Error of f leaves the enclosing function.
#define ASSIGN_OR_RETURN(declaration, expression) \
  ASSIGN_OR_RETURN_(TANDEM_CONCAT(result_, __LINE__), declaration, expression)
#define ASSIGN_OR_RETURN_(result, declaration, expression) \
  auto result = (expression);                              \
  if (!result.ok()) return result.error();                 \
  declaration = std::move(result).value()

#define RETURN_IF_ERROR(expression)                                      \
  do {                                                                   \
    if (auto status = (expression); !status.ok()) return status.error(); \
  } while (false)
