// ShellReader: interprets a launch script in one pass, command by command. It assigns variables and
// expands words as bash does, but runs no program. It follows an if's branch whose condition holds,
// or all branches if the condition is unknown, repeats loops over known words or numbers, and runs
// functions where they are called.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
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

using ShellVariables = std::map<std::string, ShellVariable>;
// Values that variables go back to; nothing: they had none.
using SavedVariables = std::map<std::string, std::optional<ShellVariable>>;

// A command that is being read. Assignments in front of it are for it alone, and its words do not
// see them.
struct OpenCommand {
  ShellCommand words;
  bool assigns = false;
  SavedVariables saved;  // what the assignments hide, as long as no word follows
  ShellVariables environment;
};

// A group of commands that is open: "{ a; b; }", or "( a; b )", whose assignments end with it.
struct ShellGroup {
  bool is_subshell = false;
  std::size_t depth = 0;     // of the branches around it
  ShellGuard guard;          // the list that the group is a command of
  ShellVariables variables;  // those before a subshell
};

// A function that is running.
struct ShellCall {
  SavedVariables locals;              // what its local variables hide
  std::size_t groups = 0, loops = 0;  // how many were open before it
};

class ShellReader {
 public:
  // `beside`: the files that the script may source.
  ShellReader(const std::string& text, const std::string& path,
              std::span<const ImportSource> beside = {})
      : text_(text), path_(path), beside_(beside) {
    std::erase(text_, '\r');
  }

  Result<ShellScript> read() {
    read_all();
    if (error_) return *error_;
    // Each round of a loop adds its lines again.
    for (std::vector<int>* lines :
         {&script_.branches, &script_.failed, &script_.unset, &script_.checks}) {
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
  static bool is_operator(char c) {  // whether a command ends at it
    return std::string_view("\n;|&()").find(c) != std::string_view::npos;
  }

  void read_all() {
    while (at_ < text_.size() && !error_ && !exited_) command();
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
  void end_command(ShellCommand words, ShellSeparator separator, ShellVariables environment);
  bool follow_branches(const ShellCommand& words, ShellSeparator separator);
  bool ends_for_sure(const std::string& word) const;
  void leave(const ShellCommand& words, bool is_in_branch);
  void open_case(ShellCommand* words, bool active);
  void open_if(const ShellCommand& words, ShellSeparator separator);
  std::optional<bool> condition(const std::vector<std::string>& texts, int line, bool active);
  void guard(const ShellCommand& words, bool otherwise, bool active);
  void end_guarded(ShellSeparator separator, bool tests);
  bool sets_variables(const ShellCommand& words);
  void forget(const ShellCommand& words, std::size_t first);
  bool evaluate(const ShellCommand& words, const ShellVariables& environment);
  void end_loop();

  // Groups and functions, in functions.cpp.
  void open_group(bool is_subshell);
  void close_group();
  bool in_subshell(std::size_t depth) const;
  bool skip_definition(const ShellCommand& words);
  void define(const std::string& name);
  void run_group(ShellPlace place);
  void call(const ShellCommand& words, const ShellVariables& environment, bool is_certain);
  bool source(const ShellCommand& words, const ShellVariables& environment);
  void take_from(ShellReader* file, int line);
  void shift(const ShellCommand& words);
  void declare_names(const std::string& keyword);
  void save(const std::string& name, SavedVariables* to) const;
  void restore(const SavedVariables& saved);
  const ShellVariable* find(const std::string& name);

  // Reads commands, in shell.cpp.
  void skip(bool newlines);
  void command();
  bool begins_subshell(const OpenCommand& open) const;
  bool begins_arithmetic(const ShellCommand& words) const;
  bool end_at_separator(OpenCommand open);
  void add_word(OpenCommand* open);
  ShellSeparator take_separator();
  void arithmetic_command(ShellCommand* words);
  bool follow_keyword(const std::string& word);
  std::string skip_options();
  void redirection();
  void here_documents();
  // `saved`: gets the values that the variables had; null: they are not needed.
  bool assignment(SavedVariables* saved = nullptr);
  ShellVariables undo_assignments(SavedVariables* saved);
  std::vector<std::string> array(int line);

  // Reads words, in expansion.cpp.
  void read_word(WordFields* fields, bool whole = false);
  void single_quoted(WordFields* fields);
  void double_quoted(WordFields* fields);
  std::string braced();
  std::string parenthesised();
  void pass_here_end();
  // The next five return true for "${A[@]}" and its like, whose values are a word each; false:
  // there is one value.
  bool expansion(std::vector<std::string>* values);
  bool expand(std::vector<std::string>* values);
  bool arguments(char sign, std::vector<std::string>* values);
  bool braces(const std::string& inside, std::vector<std::string>* values);
  static bool keep(const std::string& inside, std::vector<std::string>* values);
  std::string substitution(const std::string& inside);
  std::optional<std::string> output_of(const std::string& inside);
  std::string expanded(const std::string& text);
  std::string with_defaults(const std::string& text);

  std::string text_, path_;
  std::span<const ImportSource> beside_;
  std::size_t at_ = 0;        // index of the next character in text_
  std::size_t expanded_ = 0;  // characters of all expansions so far
  int line_ = 1;
  int depth_ = 0;  // readers around this one, as in "${A:-${B:-2}}" and in files that are sourced
  ShellScript script_;
  ShellBranches branches_;
  ShellLoops loops_{&script_, &branches_};
  std::vector<std::string> here_ends_;  // end words of here-documents (<<EOF) after this line
  ShellGuard guard_;
  bool joined_ = false;                     // the command follows && or ||
  bool starred_ = false;                    // the last expansion was of ${A[*]}
  bool began_ = false;                      // a command or an assignment was read
  bool exited_ = false, returned_ = false;  // the script or the function has ended
  bool assumed_ = false;                    // a variable without a value decided the last condition
  int arguments_line_ = 0;  // of the last expansion of the script's own arguments, taken as none
  std::vector<ShellGroup> groups_;               // open ones
  std::map<std::string, ShellPlace> functions_;  // their bodies
  std::vector<ShellCall> calls_;                 // the inner one last
  int defining_ = 0;                             // functions that are skipped, one in another
  ShellVariable argument_;                       // what find() returns for "$1"
  std::optional<Error> error_;
};

}  // namespace tandem
