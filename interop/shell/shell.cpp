// Splits a script's text into commands: skips comments and redirections, collects words, and
// assigns variables. end_command() in commands.cpp then decides whether a command is run. Declared
// in interop/shell/shell_reader.h; parse_shell in interop/shell/shell.h.
#include "interop/shell/shell.h"

#include <fmt/format.h>

#include <cctype>
#include <utility>

#include "base/split.h"
#include "interop/document/fields.h"
#include "interop/shell/shell_reader.h"
#include "interop/shell/slurm.h"

namespace tandem {
namespace {

bool begins_with_option(const std::vector<std::string>& value) {  // "--tp 2"
  if (value.empty()) return false;
  const std::size_t first = value[0].find_first_not_of(" \t\n");
  return first != std::string::npos && value[0].compare(first, 2, "--") == 0;
}

}  // namespace

// Skips blanks, continued lines and comments; with `newlines` also ends of lines. A comment
// "#SBATCH --nodes=4" before the first command, where sbatch stops to look for them, sets Slurm's
// variables, such as SLURM_NNODES.
void ShellReader::skip(bool newlines) {
  while (!at_end()) {
    if (peek() == '\\' && peek(1) == '\n') {
      take();
      take();
    } else if (is_blank(peek()) || (newlines && peek() == '\n')) {
      take();
    } else if (peek() == '#' && (at_ == 0 || !is_name(text_[at_ - 1]))) {
      const int line = line_;
      std::string comment;
      while (!at_end() && peek() != '\n') comment += take();
      if (comment.starts_with("#SBATCH ") && !began_)
        set_slurm_variables(split_words(comment), line, &script_.variables);
    } else {
      return;
    }
  }
}

// Reads a simple command up to its separator, and ends it.
void ShellReader::command() {
  OpenCommand open;
  while (true) {
    skip(/*newlines=*/false);
    began_ = began_ || (!at_end() && peek() != '\n');
    if (skip_definition(open.words)) return;
    if (begins_subshell(open)) {
      take();
      open_group(/*is_subshell=*/true);
    } else if (begins_arithmetic(open.words)) {
      arithmetic_command(&open.words);
    } else if (at_end() || is_operator(peek())) {
      const bool ends_subshell = end_at_separator(std::move(open));
      if (!ends_subshell) return;
      // In "(a) && b" the ")" is a command too: "&&" follows it.
      open = {.words = {{")", line_}}, .assigns = false, .saved = {}, .environment = {}};
    } else if (peek() == '<' || peek() == '>') {
      redirection();
    } else if (open.words.empty() && assignment(&open.saved)) {
      open.assigns = true;
    } else {
      add_word(&open);
    }
  }
}

// Returns whether the "(" of a subshell comes next, as the first thing of a command.
bool ShellReader::begins_subshell(const OpenCommand& open) const {
  if (branches_.in_patterns() || open.assigns || !open.words.empty()) return false;
  return peek() == '(' && peek(1) != '(';
}

// Returns whether "((" comes next as in "((i++))", "if ((A > 1))" or "for ((i = 0; i < N; i++))".
bool ShellReader::begins_arithmetic(const ShellCommand& words) const {
  if (branches_.in_patterns() || peek() != '(' || peek(1) != '(') return false;
  if (words.empty()) return true;
  return words.size() < 3 &&
         matches_any(words.back().text, {"if", "elif", "while", "until", "for", "!"});
}

// Ends a command at its separator, which comes next. Returns whether that is a subshell's ")".
bool ShellReader::end_at_separator(OpenCommand open) {
  const char c = peek();
  const ShellSeparator separator = take_separator();
  const std::size_t behind = at_;
  const std::string first = open.words.empty() ? "" : open.words[0].text;
  // "case $A in a)", or "b)" of a case that is open.
  const bool is_pattern = first == "case" || (branches_.in_patterns() && first != "esac");
  if (first.empty()) {  // "A=1 $NONE" sets A
    for (const auto& [name, variable] : open.environment) script_.variables[name] = variable;
  }
  if (open.assigns || !open.words.empty())
    end_command(std::move(open.words), separator, std::move(open.environment));
  const bool went_back = at_ != behind;  // to a loop's first command
  if (went_back) return false;
  if (separator == ShellSeparator::kNextPatterns) branches_.next_patterns();
  if (is_pattern) return false;
  if (c == '(') open_group(/*is_subshell=*/true);  // as in "diff <(a) <(b)"
  return c == ')' && !groups_.empty() && groups_.back().is_subshell;
}

// Reads the next word of a command. Keywords in front of it are no words.
void ShellReader::add_word(OpenCommand* open) {
  ShellCommand& words = open->words;
  const int line = line_;
  // "A=1 run": with a word behind it, the assignment is for this command alone.
  if (!open->saved.empty()) open->environment = undo_assignments(&open->saved);
  WordFields fields;
  read_word(&fields);
  const bool is_number = fields.texts.size() == 1 &&
                         fields.texts[0].find_first_not_of("0123456789") == std::string::npos;
  if (is_number && (peek() == '>' || peek() == '<')) return;  // "2>&1": of the redirection
  for (const std::string& text : fields.texts) {
    if (words.empty() && matches_any(text, {"export", "local", "readonly", "declare", "typeset"})) {
      declare_names(text);
      open->assigns = true;
    } else if (!words.empty() || !follow_keyword(text)) {
      const bool needs_no_separator =
          words.size() == 1 && matches_any(words[0].text, {"fi", "esac", "done", "}", ")"});
      if (needs_no_separator && text == "}")  // "fi }" is "fi; }"
        end_command(std::exchange(words, {}), ShellSeparator::kEnd, {});
      words.push_back({text, line});
    }
  }
  // A quoted * is a plain character, but patterns here take every * as any text: "$(...)" makes
  // the test one of unknown result.
  const bool is_test = std::ranges::find(words, "[[", &ShellWord::text) != words.end();
  if (fields.quotes_star && !words.empty() && (is_test || branches_.in_patterns()))
    words.back().text = "$(" + words.back().text + ")";
}

ShellSeparator ShellReader::take_separator() {
  const char c = take();
  if (c == '\n') here_documents();
  const bool twice = (c == '&' || c == '|' || c == ';') && peek() == c;
  if (twice) take();
  if (c == '&') return twice ? ShellSeparator::kAnd : ShellSeparator::kOther;
  if (c == '|') return twice ? ShellSeparator::kOr : ShellSeparator::kOther;
  if (c == ';') return twice ? ShellSeparator::kNextPatterns : ShellSeparator::kEnd;
  if (c == '(') return ShellSeparator::kOther;
  return c == ')' ? ShellSeparator::kParenthesis : ShellSeparator::kEnd;
}

// Reads "((...))" as words: for "for ((a; b; c))" its three parts; else, if the value is known, a
// test with the same result, "[ 1 -ne 0 ]".
void ShellReader::arithmetic_command(ShellCommand* words) {
  const int line = line_;
  std::string inside = parenthesised();
  if (inside.size() < 2 || !inside.ends_with(')')) return;
  inside = with_defaults(inside.substr(1, inside.size() - 2));
  long long value = 0;
  std::vector<std::string> texts = {"((" + inside + "))"};
  if (!words->empty() && words->front().text == "for") {
    texts = split(inside, ";");
    texts.insert(texts.begin(), "((");
  } else if (shell_arithmetic(inside, script_.variables, &value)) {
    texts = {"[", value != 0 ? "1" : "0", "-ne", "0", "]"};
  }
  for (const std::string& text : texts) words->push_back({text, line});
}

// Skips options such as "-x". Returns their letters.
std::string ShellReader::skip_options() {
  WordFields options;
  skip(/*newlines=*/false);
  while (peek() == '-' && std::isalpha(static_cast<unsigned char>(peek(1))) != 0) {
    read_word(&options);
    skip(/*newlines=*/false);
  }
  std::string letters;
  for (const std::string& option : options.texts) letters += option;
  return letters;
}

// Gives variables the values back that they had before assignments. Returns the assigned values.
ShellVariables ShellReader::undo_assignments(SavedVariables* saved) {
  ShellVariables values;
  for (const auto& [name, before] : *saved) values[name] = script_.variables[name];
  restore(std::exchange(*saved, {}));
  return values;
}

// Does what a keyword in front of a command asks for. Returns false for any other word.
bool ShellReader::follow_keyword(const std::string& word) {
  if (word == "else") branches_.otherwise();
  if (word == "{") open_group(/*is_subshell=*/false);
  if (word == "exec" || word == "time") skip_options();  // "exec -a", "time -p"
  if (word == "!") {
    skip(/*newlines=*/false);
    const bool negates_test =
        peek() == '[' || text_.compare(at_, 2, "((") == 0 || text_.compare(at_, 5, "test ") == 0;
    return !negates_test;  // "!" is a part of the test "! [ A ]"
  }
  return matches_any(word, {"then", "else", "do", "{", "exec", "time"});
}

// Skips a redirection. The lines of a here-document, "<<EOF", begin after this line.
void ShellReader::redirection() {
  const bool is_here_document =
      text_.compare(at_, 2, "<<") == 0 && text_.compare(at_, 3, "<<<") != 0;
  while (peek() == '<' || peek() == '>' || peek() == '&' || peek() == '-') take();
  skip(/*newlines=*/false);
  WordFields target;
  read_word(&target);
  if (is_here_document && !target.texts.empty()) here_ends_.push_back(target.texts[0]);
}

// Skips the lines of the here-documents that the line before opened, up to the end word of each.
void ShellReader::here_documents() {
  for (const std::string& end : std::exchange(here_ends_, {})) {
    std::string line;
    do {
      line.clear();
      while (!at_end() && peek() != '\n') line += take();
      take();
      line.erase(0, line.find_first_not_of(" \t"));
    } while (line != end && !at_end());
  }
}

// Reads NAME=word, NAME+=word, NAME=(words) or NAME+=(words).
bool ShellReader::assignment(SavedVariables* saved) {
  std::size_t end = at_;
  while (end < text_.size() && is_name(text_[end])) ++end;
  if (end == at_ || std::isdigit(static_cast<unsigned char>(text_[at_])) != 0) return false;
  const bool has_plus = end < text_.size() && text_[end] == '+';
  const std::size_t equals = end + (has_plus ? 1 : 0);
  if (equals >= text_.size() || text_[equals] != '=') return false;
  const std::string name = text_.substr(at_, end - at_);
  const int line = line_;
  at_ = equals + 1;
  const auto known = script_.variables.find(name);
  const bool appends = has_plus && known != script_.variables.end();
  std::vector<std::string> value;
  if (peek() == '(') {
    take();
    value = array(line);
    if (appends)
      value.insert(value.begin(), known->second.words.begin(), known->second.words.end());
  } else {
    WordFields fields;
    read_word(&fields, /*whole=*/true);
    if (appends) value = known->second.words;
    if (value.empty()) value.emplace_back();
    value[0] += fields.joined();
  }
  for (const std::string& text : value) count(text.size());
  if (branches_.active()) {
    loops_.assigned();
    if (saved != nullptr) save(name, saved);
    script_.variables[name] = {std::move(value), line};
  } else if (begins_with_option(value)) {
    // Only a branch not taken would set these options: the variable is known to be empty, unless
    // it has a value.
    script_.variables.try_emplace(name, ShellVariable{{}, line});
  }
  return true;
}

// Reads an array's words up to the ) at its end. Operators between them are passed over.
std::vector<std::string> ShellReader::array(int line) {
  std::vector<std::string> words;
  for (skip(/*newlines=*/true); peek() != ')'; skip(/*newlines=*/true)) {
    if (at_end()) {
      fail(line, "found an array without its end, expected )");
      return words;
    }
    WordFields fields;
    const std::size_t before = at_;
    read_word(&fields);
    if (at_ == before) take();
    words.insert(words.end(), fields.texts.begin(), fields.texts.end());
  }
  take();
  return words;
}

Result<ShellScript> parse_shell(const std::string& text, const std::string& path,
                                const std::vector<ImportSource>& beside) {
  return ShellReader(text, path, beside).read();
}

}  // namespace tandem
