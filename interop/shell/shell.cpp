// Reads a script in one pass, command by command. It assigns variables and expands words as a shell
// does, but runs no command. Of an if it follows the branch whose condition holds, or all of them.
#include "interop/shell/shell.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>

#include "interop/document/text_scanner.h"
#include "interop/shell/branches.h"
#include "interop/shell/word_fields.h"

namespace tandem {
namespace {

// The limit of expansions, which may double one another.
constexpr std::size_t kMostText = 4'000'000;

bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

class ShellReader {
 public:
  ShellReader(const std::string& text, const std::string& path) : text_(text), path_(path) {}

  Result<ShellScript> read() {
    while (at_ < text_.size() && !error_) command();
    if (error_) return *error_;
    return std::move(script_);
  }

 private:
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
  void count(std::size_t size) {
    expanded_ += size;
    if (expanded_ > kMostText)
      fail(line_, fmt::format("found expansions of over {} characters, expected fewer", kMostText));
  }

  // Skips blanks, continued lines and comments; with `newlines` also ends of lines.
  void skip(bool newlines) {
    while (!at_end()) {
      if (peek() == '\\' && (peek(1) == '\n' || (peek(1) == '\r' && peek(2) == '\n'))) {
        while (take() != '\n') continue;
      } else if (is_blank(peek()) || (newlines && peek() == '\n')) {
        take();
      } else if (peek() == '#' && (at_ == 0 || !is_name(text_[at_ - 1]))) {
        while (!at_end() && peek() != '\n') take();
      } else {
        return;
      }
    }
  }

  // Reads a simple command and what ends it.
  void command() {
    ShellCommand words;
    bool assigns = false;
    while (true) {
      skip(false);
      const char c = peek();
      if (at_end() || c == '\n' || c == ';' || c == '|' || c == '&' || c == '(' || c == ')') {
        take();
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

  // Ends a command at the character `end` (`twice`: it stands there twice, as in "a && b"). Keeps
  // the command, or if it is a condition decides which branches are taken.
  void end_command(ShellCommand words, char end, bool twice) {
    const bool active = branches_.active();
    if (guarded_) branches_.close();
    guarded_ = false;
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
    if (twice && (first == "[" || first == "[[" || first == "test")) {
      guard(words, end == '|', active);
      return;
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
      script_.commands.push_back(std::move(words));
    }
  }

  // Reads the condition of "[ a ] && b" or "[ a ] || b" (`otherwise`). The command b is a branch.
  void guard(const ShellCommand& words, bool otherwise, bool active) {
    std::vector<std::string> texts;
    for (const ShellWord& word : words) texts.push_back(word.text);
    bool unset = false;
    std::optional<bool> condition = shell_condition(texts, &unset);
    if (condition && otherwise) condition = !*condition;
    if (active && !condition) script_.branches.push_back(words[0].line);
    if (active && condition && unset) script_.unset.push_back(words[0].line);
    branches_.open(active ? condition : false);
    guarded_ = true;
  }

  bool is_keyword(const std::string& word) {
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

  // Skips a redirection: for "<<EOF" the lines up to EOF, else one word.
  void redirection() {
    const bool here = text_.compare(at_, 2, "<<") == 0 && text_.compare(at_, 3, "<<<") != 0;
    while (peek() == '<' || peek() == '>' || peek() == '&' || peek() == '-') take();
    skip(false);
    WordFields target;
    read_word(&target);
    if (!here || target.texts.empty()) return;
    while (!at_end() && peek() != '\n') take();
    while (!at_end()) {
      take();
      std::string line;
      while (!at_end() && peek() != '\n') line += take();
      line.erase(0, line.find_first_not_of(" \t"));
      if (line == target.texts[0]) return;
    }
  }

  // Reads NAME=word, NAME+=word, NAME=(words) or NAME+=(words).
  bool assignment() {
    std::size_t end = at_;
    while (end < text_.size() && is_name(text_[end])) ++end;
    if (end == at_ || std::isdigit(static_cast<unsigned char>(text_[at_])) != 0) return false;
    const bool more = end < text_.size() && text_[end] == '+';
    if (end + (more ? 1 : 0) >= text_.size() || text_[end + (more ? 1 : 0)] != '=') return false;
    const std::string name = text_.substr(at_, end - at_);
    const int line = line_;
    at_ = end + (more ? 2 : 1);
    std::vector<std::string> value;
    if (peek() == '(') {
      take();
      value = array(line);
      if (more) {
        auto all = script_.variables[name].words;
        all.insert(all.end(), value.begin(), value.end());
        value = std::move(all);
      }
    } else {
      WordFields fields;
      if (!at_end() && !is_blank(peek()) && peek() != '\n' && peek() != ';')
        read_word(&fields, true);
      std::string joined;
      for (const std::string& text : fields.texts) joined += (joined.empty() ? "" : " ") + text;
      const auto known = script_.variables.find(name);
      if (more && known != script_.variables.end() && !known->second.words.empty())
        joined = known->second.words[0] + joined;
      value = {joined};
    }
    for (const std::string& text : value) count(text.size());
    if (branches_.active()) {
      script_.variables[name] = {std::move(value), line};
    } else if (!value.empty() && value[0].find_first_not_of(" \t\n") != std::string::npos &&
               value[0].compare(value[0].find_first_not_of(" \t\n"), 2, "--") == 0) {
      // A branch that is not taken would set options: the variable is empty, unless it is set.
      script_.variables.try_emplace(name, ShellVariable{{}, line});
    }
    return true;
  }

  std::vector<std::string> array(int line) {
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

  // Reads up to a blank or what ends a command. `whole`: blanks in an expanded value split nothing.
  void read_word(WordFields* fields, bool whole = false) {
    while (!at_end() && !error_) {
      const char c = peek();
      if (is_blank(c) || c == '\n' || c == ';' || c == '|' || c == '&' || c == '(' || c == ')' ||
          c == '<' || c == '>')
        return;
      if (c == '\'') {
        single_quoted(fields);
      } else if (c == '"') {
        double_quoted(fields);
      } else if (c == '\\') {
        take();
        if (peek() == '\n') {
          take();
          return;
        }
        fields->add(std::string(1, take()));
      } else if (c == '$' || c == '`') {
        std::vector<std::string> values;
        const bool many = expansion(&values);
        if (many) {
          fields->add_all(values);
        } else if (whole || values[0].starts_with('$')) {
          fields->add(values[0]);
        } else {
          fields->add_split(values[0]);
        }
      } else {
        fields->add(std::string(1, take()));
      }
    }
  }

  void single_quoted(WordFields* fields) {
    const int line = line_;
    take();
    std::string text;
    while (!at_end() && peek() != '\'') text += take();
    if (at_end()) return fail(line, "found a quote without its end, expected '");
    take();
    fields->add(text);
  }

  void double_quoted(WordFields* fields) {
    const int line = line_;
    take();
    fields->add("");
    while (!at_end() && peek() != '"') {
      if (peek() == '\\') {
        take();
        const char c = take();
        if (c == '\n') continue;
        if (c != '"' && c != '\\' && c != '$' && c != '`') fields->add("\\");
        fields->add(std::string(1, c));
      } else if (peek() == '$' || peek() == '`') {
        std::vector<std::string> values;
        if (expansion(&values)) {
          fields->add_all(values);
        } else {
          fields->add(values[0]);
        }
      } else {
        fields->add(std::string(1, take()));
      }
    }
    if (at_end()) return fail(line, "found a quote without its end, expected \"");
    take();
  }

  // Reads up to the closing bracket that balances. Returns the text without the outer ones.
  std::string bracketed(char open, char close) {
    const int line = line_;
    take();
    std::string inside;
    for (int depth = 1; depth > 0;) {
      if (at_end()) {
        fail(line, fmt::format("found {} without its end, expected {}", open, close));
        return inside;
      }
      const char c = take();
      depth += c == open ? 1 : c == close ? -1 : 0;
      if (depth > 0) inside += c;
    }
    return inside;
  }

  // Reads what a $ or a ` stands for. Returns true if it is elements of an array, each a field.
  bool expansion(std::vector<std::string>* values) {
    const bool many = expand(values);
    for (const std::string& text : *values) count(text.size());
    if (values->empty() && !many) values->emplace_back();
    return many;
  }

  bool expand(std::vector<std::string>* values) {
    if (take() == '`') {
      std::string inside;
      while (!at_end() && peek() != '`') inside += take();
      take();
      values->push_back("$(" + inside + ")");
      return false;
    }
    if (peek() == '(' && peek(1) == '(') {
      std::string inside = bracketed('(', ')');
      inside = inside.size() >= 2 ? inside.substr(1, inside.size() - 2) : "";
      long long result = 0;
      const bool whole = shell_arithmetic(with_defaults(inside), script_.variables, &result);
      values->push_back(whole ? fmt::format("{}", result) : "$((" + inside + "))");
      return false;
    }
    if (peek() == '(') {
      const std::string inside = bracketed('(', ')');
      // "$(a && echo npu || echo gpu)": a is not run, and counts as failed.
      constexpr std::string_view kElse = "|| echo ";
      const std::size_t otherwise = inside.rfind(kElse);
      const std::string word =
          otherwise == std::string::npos ? "" : inside.substr(otherwise + kElse.size());
      const bool plain = !word.empty() && std::ranges::all_of(word, is_name);
      if (plain) script_.failed.push_back(line_);
      values->push_back(plain ? word : "$(" + inside + ")");
      return false;
    }
    if (peek() == '{') return braces(bracketed('{', '}'), values);
    std::string name;
    while (!at_end() && is_name(peek())) name += take();
    if (name.empty() && !at_end() &&
        std::string_view("@*#?$!-").find(peek()) != std::string::npos) {
      take();
      return true;  // the script's own arguments: none
    }
    return braces(name, values);
  }

  // Expands "${A:-2}" inside of arithmetic.
  std::string with_defaults(const std::string& text) {
    std::string plain;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const std::size_t close = text.find('}', i);
      if (text.compare(i, 2, "${") != 0 || close == std::string::npos) {
        plain += text[i];
        continue;
      }
      std::vector<std::string> values;
      braces(text.substr(i + 2, close - i - 2), &values);
      plain += values.empty() ? "" : values[0];
      i = close;
    }
    return plain;
  }

  // Expands NAME, NAME[@], NAME[2], NAME:-default, NAME-default, NAME:=default, NAME:+other or
  // NAME:?error.
  bool braces(const std::string& inside, std::vector<std::string>* values) {
    std::size_t end = 0;
    while (end < inside.size() && is_name(inside[end])) ++end;
    const std::string name = inside.substr(0, end);
    std::string rest = inside.substr(end);
    const bool all = rest.starts_with("[@]") || rest.starts_with("[*]");
    if (all) rest.erase(0, 3);
    const auto known = script_.variables.find(name);
    const bool set = known != script_.variables.end() && !known->second.words.empty() &&
                     !(known->second.words.size() == 1 && known->second.words[0].empty());
    std::size_t index = 0;
    if (const std::size_t close = rest.find(']'); rest.starts_with('[') && close < 8) {
      const long long number = digits_of(rest.substr(1, close - 1));
      index = static_cast<std::size_t>(number);
      rest.erase(0, close + 1);
    }
    const std::string sign = rest.substr(0, rest.starts_with(':') ? 2 : 1);
    const char kind = sign.empty() ? '-' : sign.back();
    if (set && kind != '+') {
      // Parts of a value, as in ${A%.*}, are left as they are written.
      if (kind != '-' && kind != '=' && kind != '?') return keep(inside, values);
      *values = known->second.words;
      if (all) return true;
      if (index >= values->size()) return keep(inside, values);
      *values = {(*values)[index]};
      return false;
    }
    if ((set && kind == '+') || (!set && !sign.empty() && (kind == '-' || kind == '='))) {
      const std::string otherwise = rest.substr(sign.size());
      ShellReader inner(otherwise + "\n", path_);
      inner.script_.variables = script_.variables;
      inner.depth_ = depth_ + 1;
      WordFields fields;
      if (inner.depth_ < 20) inner.read_word(&fields, true);
      if (!inner.script_.failed.empty()) script_.failed.push_back(line_);
      std::string text;
      for (const std::string& one : fields.texts) text += (text.empty() ? "" : " ") + one;
      if (kind == '=' && !name.empty()) script_.variables[name] = {{text}, line_};
      values->push_back(text);
      return false;
    }
    // A name set to nothing gives nothing. One that was never set stays as it is written; with [@]
    // it is an empty array.
    if (known != script_.variables.end() || kind == '+') {
      if (!all) values->push_back("");
      return all;
    }
    return all || keep(inside, values);
  }
  static bool keep(const std::string& inside, std::vector<std::string>* values) {
    *values = {"${" + inside + "}"};
    return false;
  }

  std::string text_, path_;
  std::size_t at_ = 0, expanded_ = 0;
  int line_ = 1, depth_ = 0;
  ShellScript script_;
  ShellBranches branches_;
  bool guarded_ = false;  // the innermost branch ends with this command
  std::optional<Error> error_;
};

}  // namespace

Result<ShellScript> parse_shell(const std::string& text, const std::string& path) {
  return ShellReader(text, path).read();
}

}  // namespace tandem
