// Reads a script's commands, and decides which of them are run. Declared in
// interop/shell/shell_reader.h; parse_shell in interop/shell/shell.h.
#include "interop/shell/shell.h"

#include <fmt/format.h>

#include <cctype>
#include <utility>

#include "base/split.h"
#include "interop/document/fields.h"
#include "interop/shell/shell_reader.h"
#include "interop/shell/slurm.h"

namespace tandem {

// Skips blanks, continued lines and comments; with `newlines` also ends of lines.
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
      if (comment.starts_with("#SBATCH "))
        set_slurm_variables(split_words(comment), line, &script_.variables);
    } else {
      return;
    }
  }
}

// Reads a simple command and what ends it.
void ShellReader::command() {
  ShellCommand words;
  bool assigns = false;
  while (true) {
    skip(false);
    const char c = peek();
    if (c == '(' && peek(1) == '(' && words.size() < 2 && !branches_.in_patterns() &&
        (words.empty() || matches_any(words[0].text, {"if", "elif", "while", "until", "for"}))) {
      arithmetic_command(&words);
      continue;
    }
    if (at_end() || c == '\n' || c == ';' || c == '|' || c == '&' || c == '(' || c == ')') {
      take();
      if (c == '\n') here_documents();
      const bool twice = (c == '&' || c == '|' || c == ';') && peek() == c;
      if (twice) take();
      if (assigns || !words.empty()) end_command(std::move(words), c, twice);
      if (twice && c == ';') branches_.next_patterns();
      return;
    }
    if (c == '<' || c == '>') {
      redirection();
      continue;
    }
    const int line = line_;
    if (words.empty() && assignment()) {
      assigns = true;
      continue;
    }
    WordFields fields;
    read_word(&fields);
    // "2>&1": the number belongs to the redirection.
    if ((peek() == '>' || peek() == '<') && fields.texts.size() == 1 &&
        fields.texts[0].find_first_not_of("0123456789") == std::string::npos)
      continue;
    for (const std::string& text : fields.texts) {
      if (words.empty() && is_keyword(text)) continue;
      words.push_back({text, line});
    }
  }
}

// Reads "((...))": the words of a condition where its value is known, and for a loop its parts.
void ShellReader::arithmetic_command(ShellCommand* words) {
  const int line = line_;
  std::string inside = bracketed('(', ')');
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

// Ends a command at the character `end` (`twice`: it stands there twice, as in "a && b"). Keeps
// the command, or if it is a condition decides which branches are taken.
void ShellReader::end_command(ShellCommand words, char end, bool twice) {
  const bool active = branches_.active();
  const std::string start = words.empty() ? "" : words[0].text;
  const bool tests = start == "[" || start == "[[" || start == "test" || start.starts_with("((");
  if (guarded_) branches_.close();
  // "[ a ] && b && c || d": c is run if a holds, d if it does not.
  guarded_ = guarded_ && both_ && twice && !tests && end != ';';
  both_ = end == '&';
  if (guarded_) branches_.open(both_ || !guard_ ? guard_ : std::optional(!*guard_));
  const bool chained = std::exchange(chained_, twice && (end == '&' || end == '|'));
  if (words.empty()) return;  // assignments alone
  std::string first = words[0].text;
  if (first == "case" && words.size() > 2) {
    if (active && words[1].text.find('$') != std::string::npos)
      script_.branches.push_back(words[0].line);
    branches_.open_case(words[1].text);
    words.erase(words.begin(), words.begin() + 3);
    if (words.empty()) return;
    first = words[0].text;
  }
  if (first == "esac") return branches_.close();
  if (branches_.in_patterns()) return branches_.pattern(words.back().text, end == ')');
  if (matches_any(first, {"for", "while", "until", "select"})) {
    loops_.open(words, active, {at_, line_});
    if (first == "for") return;
  }
  if (first == "done") return end_loop();
  if (active && first == "let") {
    for (std::size_t i = 1; i < words.size(); ++i)
      shell_step(words[i].text, words[i].line, &script_.variables);
    return loops_.assigned();
  }
  if (active && first.starts_with("((") &&
      shell_step(first.substr(2, first.size() - 4), words[0].line, &script_.variables))
    return loops_.assigned();
  if (twice && tests) {
    chained_ = false;
    guard(words, end == '|', active);
    return;
  }
  if (active && (first == "break" || first == "continue"))
    return loops_.leave(first, !chained && words.size() == 1);
  if (active && first == "printf" && words.size() > 3 && words[1].text == "-v") {
    std::vector<std::string> texts = {first};
    for (std::size_t i = 3; i < words.size(); ++i) texts.push_back(words[i].text);
    script_.variables.erase(words[2].text);
    if (const auto text = printed_text(texts))
      script_.variables[words[2].text] = {{*text}, words[2].line};
    return loops_.assigned();
  }
  if (!active && first != "fi" && first != "if" && first != "elif") return;
  if (first == "fi") branches_.close();
  if (first == "if" || first == "elif") {
    std::vector<std::string> texts;
    for (std::size_t i = 1; i < words.size(); ++i) texts.push_back(words[i].text);
    bool unset = false;
    std::optional<bool> condition;
    // A part of a longer condition decides nothing.
    if (end == ';' || end == '\n' || end == '\0') condition = shell_condition(texts, &unset);
    if (branches_.active() && !condition) script_.branches.push_back(words[0].line);
    if (branches_.active() && condition && unset) script_.unset.push_back(words[0].line);
    if (first == "if") {
      branches_.open(condition);
    } else {
      branches_.next(condition);
    }
  } else {
    set_slurm_variables(take_srun_options(&words), words[0].line, &script_.variables);
    script_.commands.push_back(std::move(words));
  }
}

// Ends a round of a loop, and goes back to where the next one begins.
void ShellReader::end_loop() {
  const std::size_t end = at_;
  const auto next = loops_.end_round();
  if (!next) return;
  count(end - next->at);
  if (error_) return;
  at_ = next->at;
  line_ = next->line;
}

// Reads the condition of "[ a ] && b" or "[ a ] || b" (`otherwise`). The command b is a branch.
void ShellReader::guard(const ShellCommand& words, bool otherwise, bool active) {
  std::vector<std::string> texts;
  for (const ShellWord& word : words) texts.push_back(word.text);
  bool unset = false;
  std::optional<bool> condition = shell_condition(texts, &unset);
  if (condition && otherwise) condition = !*condition;
  if (active && !condition) script_.branches.push_back(words[0].line);
  if (active && condition && unset) script_.unset.push_back(words[0].line);
  guard_ = active ? condition : false;
  branches_.open(guard_);
  guarded_ = true;
  both_ = !otherwise;
}

bool ShellReader::is_keyword(const std::string& word) {
  if (word == "else") branches_.otherwise();
  for (const char* keyword : {"then", "else", "do", "{", "}", "export", "local", "readonly",
                              "declare", "typeset", "exec", "time", "!"}) {
    if (word == keyword) {
      // An assignment may follow.
      skip(false);
      while (peek() == '-' && std::isalpha(static_cast<unsigned char>(peek(1))) != 0) {
        WordFields option;
        read_word(&option);
        skip(false);
      }
      while (assignment()) skip(false);
      return true;
    }
  }
  return false;
}

// Skips a redirection. The lines that "<<EOF" takes begin after this one.
void ShellReader::redirection() {
  const bool here = text_.compare(at_, 2, "<<") == 0 && text_.compare(at_, 3, "<<<") != 0;
  while (peek() == '<' || peek() == '>' || peek() == '&' || peek() == '-') take();
  skip(false);
  WordFields target;
  read_word(&target);
  if (here && !target.texts.empty()) here_ends_.push_back(target.texts[0]);
}

// Skips the lines of the documents that the line before asked for, up to "EOF" of each.
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
bool ShellReader::assignment() {
  std::size_t end = at_;
  while (end < text_.size() && is_name(text_[end])) ++end;
  if (end == at_ || std::isdigit(static_cast<unsigned char>(text_[at_])) != 0) return false;
  const bool more = end < text_.size() && text_[end] == '+';
  if (end + (more ? 1 : 0) >= text_.size() || text_[end + (more ? 1 : 0)] != '=') return false;
  const std::string name = text_.substr(at_, end - at_);
  const int line = line_;
  at_ = end + (more ? 2 : 1);
  const auto known = script_.variables.find(name);
  std::vector<std::string> value;
  if (peek() == '(') {
    take();
    value = array(line);
    if (more && known != script_.variables.end())
      value.insert(value.begin(), known->second.words.begin(), known->second.words.end());
  } else {
    WordFields fields;
    if (!at_end() && !is_blank(peek()) && peek() != '\n' && peek() != ';') read_word(&fields, true);
    std::string joined;
    for (const std::string& text : fields.texts) joined += (joined.empty() ? "" : " ") + text;
    if (more && known != script_.variables.end()) value = known->second.words;
    if (value.empty()) value.emplace_back();
    value[0] += joined;
  }
  for (const std::string& text : value) count(text.size());
  if (branches_.active()) {
    loops_.assigned();
    script_.variables[name] = {std::move(value), line};
  } else if (!value.empty() && value[0].find_first_not_of(" \t\n") != std::string::npos &&
             value[0].compare(value[0].find_first_not_of(" \t\n"), 2, "--") == 0) {
    // A branch that is not taken would set options: the variable is empty, unless it is set.
    script_.variables.try_emplace(name, ShellVariable{{}, line});
  }
  return true;
}

std::vector<std::string> ShellReader::array(int line) {
  std::vector<std::string> words;
  while (true) {
    skip(true);
    if (at_end()) {
      fail(line, "found an array without its end, expected )");
      return words;
    }
    if (peek() == ')') {
      take();
      return words;
    }
    if (peek() == ';' || peek() == '&' || peek() == '|' || peek() == '(') {
      take();
      continue;
    }
    WordFields fields;
    const std::size_t before = at_;
    read_word(&fields);
    if (at_ == before) take();
    words.insert(words.end(), fields.texts.begin(), fields.texts.end());
  }
}

Result<ShellScript> parse_shell(const std::string& text, const std::string& path) {
  std::string unix_text = text;
  std::erase(unix_text, '\r');
  return ShellReader(unix_text, path).read();
}

}  // namespace tandem
