// $((A * B)): evaluates integer expressions of launch scripts, by recursive descent. Declared in
// interop/shell/shell.h.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "interop/document/text_scanner.h"
#include "interop/shell/shell.h"

namespace tandem {
namespace {

class ShellExpression {
 public:
  ShellExpression(const std::string& text, const std::map<std::string, ShellVariable>& variables)
      : text_(text), variables_(variables) {}

  bool read(long long* result) {
    *result = comparison();
    return !failed_ && text_.at_end();
  }

 private:
  // Larger results fail, so that nothing overflows. So do deeper brackets.
  static constexpr long long kMost = 1'000'000'000'000;
  static constexpr int kMostBrackets = 50;

  long long bounded(long long value) {
    if (value > kMost || value < -kMost) failed_ = true;
    return failed_ ? 0 : value;
  }
  long long comparison() {
    const long long left = sum();
    // The longer signs come first.
    if (text_.next("<=")) return static_cast<long long>(left <= sum());
    if (text_.next(">=")) return static_cast<long long>(left >= sum());
    if (text_.next("==")) return static_cast<long long>(left == sum());
    if (text_.next("!=")) return static_cast<long long>(left != sum());
    if (text_.next("<")) return static_cast<long long>(left < sum());
    if (text_.next(">")) return static_cast<long long>(left > sum());
    return left;
  }
  long long sum() {
    long long value = product();
    while (!failed_) {
      if (text_.next('+')) {
        value = bounded(value + product());
      } else if (text_.next('-')) {
        value = bounded(value - product());
      } else {
        break;
      }
    }
    return value;
  }
  long long product() {
    long long value = atom();
    while (!failed_) {
      const bool multiplies = text_.next('*'), divides = !multiplies && text_.next('/'),
                 is_modulo = !multiplies && !divides && text_.next('%');
      if (!multiplies && !divides && !is_modulo) break;
      const long long by = atom();
      if (!multiplies && by == 0) failed_ = true;
      if (failed_) return 0;
      // The square of kMost does not fit the type, so the product is checked beforehand.
      if (multiplies && value != 0 && std::llabs(by) > kMost / std::llabs(value)) failed_ = true;
      if (failed_) return 0;
      value = multiplies ? value * by : divides ? value / by : value % by;
    }
    return value;
  }
  long long atom() {
    if (++depth_ > kMostBrackets) failed_ = true;
    long long value = 0;
    if (failed_) return 0;
    if (text_.next('(')) {
      value = comparison();
      if (!text_.next(')')) failed_ = true;
    } else if (text_.next('-')) {
      value = -atom();
    } else {
      value = number_or_name();
    }
    --depth_;
    return value;
  }
  long long number_or_name() {
    const bool expands = text_.next('$');
    const bool braces = expands && text_.next('{');
    std::string word(text_.word());
    if (braces && !text_.next('}')) failed_ = true;
    const auto known = variables_.find(word);
    if (known != variables_.end() && known->second.words.size() == 1) {
      word = known->second.words[0];
    } else if (expands) {
      failed_ = true;  // "$1" is an argument, not a number
    }
    const bool negative = word.starts_with('-');
    const long long value = digits_of(std::string_view(word).substr(negative ? 1 : 0));
    failed_ = failed_ || value < 0;
    return failed_ ? 0 : negative ? -value : value;
  }

  TextScanner text_;
  const std::map<std::string, ShellVariable>& variables_;
  int depth_ = 0;
  bool failed_ = false;
};

}  // namespace

bool shell_arithmetic(const std::string& text,
                      const std::map<std::string, ShellVariable>& variables, long long* result) {
  return ShellExpression(text, variables).read(result);
}

bool shell_step(const std::string& text, int line,
                std::map<std::string, ShellVariable>* variables) {
  std::string step = text;
  std::erase_if(step, [](unsigned char c) { return std::isspace(c) != 0; });
  // The value of the expression is not used, so "++i" does the same as "i++".
  if (step.starts_with("++") || step.starts_with("--")) step = step.substr(2) + step.substr(0, 2);
  const auto end = std::ranges::find_if_not(
      step, [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
  const std::string name(step.begin(), end), sign(end, step.end());
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) != 0) return false;
  std::string expression;
  if (sign == "++" || sign == "--") {
    expression = name + sign[0] + '1';
  } else if (sign.starts_with('=') && !sign.starts_with("==")) {
    expression = sign.substr(1);
  } else if (sign.size() > 2 && sign[1] == '=' &&
             std::string_view("+-*/%").find(sign[0]) != std::string_view::npos) {
    expression = name + sign[0] + '(' + sign.substr(2) + ')';
  }
  long long value = 0;
  if (expression.empty()) return false;
  if (!shell_arithmetic(expression, *variables, &value)) {
    variables->erase(name);  // its value is unknown from here on
    return false;
  }
  (*variables)[name] = {{fmt::format("{}", value)}, line};
  return true;
}

}  // namespace tandem
