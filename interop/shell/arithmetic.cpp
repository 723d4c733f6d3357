// $((A * B)): evaluates integer expressions of launch scripts, by recursive descent. Declared in
// interop/shell/shell.h.
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
    *result = sum();
    return !failed_ && text_.at_end();
  }

 private:
  static constexpr long long kMost = 1'000'000'000'000;

  long long bounded(long long value) {
    if (value > kMost || value < -kMost) failed_ = true;
    return failed_ ? 0 : value;
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
      const bool times = text_.next('*'), over = !times && text_.next('/'),
                 modulo = !times && !over && text_.next('%');
      if (!times && !over && !modulo) break;
      const long long by = atom();
      if (!times && by == 0) failed_ = true;
      if (failed_) return 0;
      // The bound's square does not fit the type.
      if (times && value != 0 && std::llabs(by) > kMost / std::llabs(value)) failed_ = true;
      if (failed_) return 0;
      value = times ? value * by : over ? value / by : value % by;
    }
    return value;
  }
  long long atom() {
    if (++depth_ > 50) failed_ = true;
    long long value = 0;
    if (failed_) return 0;
    if (text_.next('(')) {
      value = sum();
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
    const bool braces = text_.next('$') && text_.next('{');
    std::string word(text_.word());
    if (braces && !text_.next('}')) failed_ = true;
    const auto known = variables_.find(word);
    if (known != variables_.end() && known->second.words.size() == 1) word = known->second.words[0];
    const long long value = digits_of(word);
    failed_ = failed_ || value < 0;
    return failed_ ? 0 : value;
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

}  // namespace tandem
