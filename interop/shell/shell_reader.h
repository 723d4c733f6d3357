// ShellReader: interprets a launch script in one pass, command by command. It assigns variables and
// expands words as bash does, but runs no program. It follows an if's branch whose condition holds,
// or all branches if the condition is unknown, and repeats loops over known words or numbers.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <string>
#include <vector>

#include "interop/shell/branches.h"
#include "interop/shell/loops.h"
#include "interop/shell/shell.h"
#include "interop/shell/word_fields.h"

namespace tandem {

// The operator after a command.
enum class ShellSeparator {
  kEnd,           // ";", the end of a line or of the text
  kAnd,           // "&&"
  kOr,            // "||"
  kNextPatterns,  // ";;"
  kParenthesis,   // ")"
  kOther,         // "|", "&" and "("
};

// The state within a list such as "[ A ] && b && c || d", whose commands depend on the test A.
struct ShellGuard {
  bool is_open = false;       // the next command belongs to the list
  bool behind_and = false;    // that command follows "&&", not "||"
  std::optional<bool> holds;  // A, or its negation in "[ A ] || b"; nothing: unknown
};

class ShellReader {
 public:
  ShellReader(const std::string& text, const std::string& path) : text_(text), path_(path) {}

  Result<ShellScript> read() {
    read_all();
    if (error_) return *error_;
    // Each round of a loop adds its lines again.
    for (std::vector<int>* lines : {&script_.branches, &script_.failed, &script_.unset}) {
      std::ranges::sort(*lines);
      lines->erase(std::unique(lines->begin(), lines->end()), lines->end());
    }
    return std::move(script_);
  }

 private:
  // The limit of all expansions together, as A="$A$A" in a loop doubles each time.
  static constexpr std::size_t kMostText = 4'000'000;  // characters
  static bool is_name(char c) {                        // whether a name may have it
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
  }
  static bool is_blank(char c) { return c == ' ' || c == '\t'; }

  void read_all() {
    while (at_ < text_.size() && !error_) command();
  }
  bool at_end() const { return at_ >= text_.size(); }
  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  char take() {
    if (at_end()) return '\0';
    if (text_[at_] == '\n') ++line_;
    return text_[at_++];
  }
  void fail(int line, const std::string& what) {
    if (!error_) error_ = Error::at(fmt::format("{}:{}", path_, line), what);
    at_ = text_.size();
  }
  // Counts expanded characters, and fails where they are too many.
  void count(std::size_t size) {
    expanded_ += size;
    if (expanded_ > kMostText)
      fail(line_, fmt::format("found expansions of over {} characters, expected fewer", kMostText));
  }

  // Decides which commands are run, in commands.cpp.
  void end_command(ShellCommand words, ShellSeparator separator);
  void open_case(ShellCommand* words, bool active);
  void open_if(const ShellCommand& words, ShellSeparator separator);
  std::optional<bool> condition(const std::vector<std::string>& texts, int line, bool active);
  void guard(const ShellCommand& words, bool otherwise, bool active);
  void end_guarded(ShellSeparator separator, bool tests);
  bool sets_variables(const ShellCommand& words);
  void end_loop();

  // Reads commands, in shell.cpp.
  void skip(bool newlines);
  void command();
  ShellSeparator take_separator();
  void arithmetic_command(ShellCommand* words);
  bool is_keyword(const std::string& word);
  void redirection();
  void here_documents();
  bool assignment();
  std::vector<std::string> array(int line);

  // Reads words, in expansion.cpp.
  void read_word(WordFields* fields, bool whole = false);
  void single_quoted(WordFields* fields);
  void double_quoted(WordFields* fields);
  std::string bracketed(char open, char close);
  bool expansion(std::vector<std::string>* values);
  bool expand(std::vector<std::string>* values);
  std::optional<std::string> substituted(const std::string& inside);
  std::string with_defaults(const std::string& text);
  bool braces(const std::string& inside, std::vector<std::string>* values);
  static bool keep(const std::string& inside, std::vector<std::string>* values);

  std::string text_, path_;
  std::size_t at_ = 0;        // index of the next character in text_
  std::size_t expanded_ = 0;  // characters of all expansions so far
  int line_ = 1;
  int depth_ = 0;  // readers around this one, as in "${A:-${B:-2}}"
  ShellScript script_;
  ShellBranches branches_;
  ShellLoops loops_{&script_, &branches_};
  std::vector<std::string> here_ends_;  // end words of here-documents (<<EOF) after this line
  ShellGuard guard_;
  bool joined_ = false;   // the command follows && or ||
  bool starred_ = false;  // the last expansion was of ${A[*]}
  std::optional<Error> error_;
};

}  // namespace tandem
