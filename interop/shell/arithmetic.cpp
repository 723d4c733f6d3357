// $((A * B)): integer expressions of launch scripts.
#include <cctype>
#include <cstdlib>

#include "interop/shell/shell.h"

namespace tandem {
namespace {

class ShellExpression {
 public:
  ShellExpression(const std::string& text, const std::map<std::string, ShellVariable>& variables)
      : text_(text), variables_(variables) {}

  bool read(long long* result) {
    *result = sum();
    skip();
    return !failed_ && at_ == text_.size();
  }

 private:
  static constexpr long long kMost = 1'000'000'000'000;

  void skip() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }
  bool next(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  long long bounded(long long value) {
    if (value > kMost || value < -kMost) failed_ = true;
    return failed_ ? 0 : value;
  }
  long long sum() {
    long long value = product();
    while (!failed_) {
      if (next('+')) {
        value = bounded(value + product());
      } else if (next('-')) {
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
      const bool times = next('*'), over = !times && next('/'),
                 modulo = !times && !over && next('%');
      if (!times && !over && !modulo) break;
      const long long by = atom();
      if (!times && by == 0) failed_ = true;
      if (failed_) return 0;
      // The bound's square is beyond the type.
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
    if (next('(')) {
      value = sum();
      if (!next(')')) failed_ = true;
    } else if (next('-')) {
      value = -atom();
    } else {
      value = number_or_name();
    }
    --depth_;
    return value;
  }
  long long number_or_name() {
    skip();
    const bool braces = text_.compare(at_, 2, "${") == 0;
    if (at_ < text_.size() && text_[at_] == '$') ++at_;
    if (braces) ++at_;
    const std::size_t begin = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '_'))
      ++at_;
    std::string word = text_.substr(begin, at_ - begin);
    if (braces && !next('}')) failed_ = true;
    const auto known = variables_.find(word);
    if (known != variables_.end() && known->second.words.size() == 1) word = known->second.words[0];
    if (word.empty() || word.size() > 12 ||
        word.find_first_not_of("0123456789") != std::string::npos) {
      failed_ = true;
      return 0;
    }
    return std::stoll(word);
  }

  const std::string& text_;
  const std::map<std::string, ShellVariable>& variables_;
  std::size_t at_ = 0;
  int depth_ = 0;
  bool failed_ = false;
};

}  // namespace

bool shell_arithmetic(const std::string& text,
                      const std::map<std::string, ShellVariable>& variables, long long* result) {
  return ShellExpression(text, variables).read(result);
}

}  // namespace tandem
