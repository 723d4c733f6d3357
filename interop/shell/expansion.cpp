// Reads words of a script and expands them as bash does: quotes, "$A", "${A:-2}", "$((1 + 2))",
// "$(echo ...)". Nothing is run: an expansion whose value is unknown stays in the word as written.
// Declared in interop/shell/shell_reader.h.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "interop/document/text_scanner.h"
#include "interop/shell/shell_reader.h"

namespace tandem {
namespace {

constexpr int kMostNested = 20;  // expansions within each other

// The parts of the inside of "${A[2]:-b}".
struct BraceParts {
  std::string name;       // "A"
  std::size_t index = 0;  // 2
  bool is_array = false;  // "[@]" or "[*]" stands in place of "[2]"
  bool is_star = false;   // "[*]" does
  std::string rest, op;   // ":-b" and ":-"

  char kind() const { return op.empty() ? '\0' : op.back(); }  // '-' of ":-" and of "-"
};

BraceParts parts_of(const std::string& inside) {
  BraceParts parts;
  const auto in_name = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
  const auto end = std::ranges::find_if_not(inside, in_name);
  parts.name.assign(inside.begin(), end);
  std::string& rest = parts.rest;
  rest.assign(end, inside.end());
  parts.is_star = rest.starts_with("[*]");
  parts.is_array = parts.is_star || rest.starts_with("[@]");
  if (parts.is_array) rest.erase(0, 3);
  if (const std::size_t close = rest.find(']'); rest.starts_with('[') && close < 8) {
    const long long number = digits_of(rest.substr(1, close - 1));
    parts.index = static_cast<std::size_t>(number);  // -1, where it is none, is behind all words
    rest.erase(0, close + 1);
  }
  parts.op = rest.substr(0, rest.starts_with(':') ? 2 : 1);
  return parts;
}

// Returns the words of a variable that "${A}", "${A[2]}", "${A[@]}" or "${A,,}" names. Nothing:
// there is none, or the operator cuts the value, as in "${A%.*}", which is not followed.
std::optional<std::vector<std::string>> chosen_words(const BraceParts& parts,
                                                     const std::vector<std::string>& words) {
  const bool lowers = parts.rest == ",,", raises = parts.rest == "^^";
  const bool keeps_value =
      parts.op.empty() || std::string_view("-=?").find(parts.kind()) != std::string_view::npos;
  if (parts.is_array) return keeps_value ? std::optional(words) : std::nullopt;
  if ((!keeps_value && !lowers && !raises) || parts.index >= words.size()) return std::nullopt;
  std::string word = words[parts.index];
  for (char& c : word) {
    if (lowers) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (raises) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return std::vector<std::string>{word};
}

}  // namespace

// Reads a word, up to a blank or an operator. `whole`: an expanded value with blanks stays one
// word.
void ShellReader::read_word(WordFields* fields, bool whole) {
  while (!at_end() && !error_) {
    const char c = peek();
    if (is_blank(c) || is_operator(c) || c == '<' || c == '>') return;
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

void ShellReader::single_quoted(WordFields* fields) {
  const int line = line_;
  take();
  std::string text;
  while (!at_end() && peek() != '\'') text += take();
  if (at_end()) return fail(line, "found a quote without its end, expected '");
  take();
  fields->add(text);
  fields->quotes_star = fields->quotes_star || text.find('*') != std::string::npos;
}

void ShellReader::double_quoted(WordFields* fields) {
  const int line = line_;
  take();
  bool vanishes = false;  // "${A[@]}" of an empty array makes no word; "" makes an empty one
  while (!at_end() && peek() != '"') {
    if (peek() == '\\') {
      take();
      const char c = take();
      if (c == '\n') continue;
      if (c != '"' && c != '\\' && c != '$' && c != '`') fields->add("\\");
      fields->add(std::string(1, c));
    } else if (peek() == '$' || peek() == '`') {
      std::vector<std::string> values;
      if (!expansion(&values)) {
        fields->add(values[0]);
      } else if (starred_) {
        const auto ifs = script_.variables.find("IFS");
        const bool has_ifs = ifs != script_.variables.end() && !ifs->second.words.empty();
        const std::string separator = has_ifs ? ifs->second.words[0].substr(0, 1) : " ";
        fields->add(fmt::format("{}", fmt::join(values, separator)));
      } else {
        fields->add_all(values);
        vanishes = values.empty();
      }
    } else {
      fields->add(std::string(1, take()));
    }
  }
  if (at_end()) return fail(line, "found a quote without its end, expected \"");
  take();
  if (!vanishes) fields->add("");
  fields->quotes_star |=
      !fields->texts.empty() && fields->texts.back().find('*') != std::string::npos;
}

// Reads "{...}" up to the bracket that closes it. Returns the text between the two.
std::string ShellReader::braced() {
  const int line = line_;
  take();
  const std::size_t begin = at_;
  for (int depth = 1; depth > 0;) {
    if (at_end()) {
      fail(line, "found { without its end, expected }");
      return "";
    }
    const char c = take();
    depth += c == '{' ? 1 : c == '}' ? -1 : 0;
  }
  return text_.substr(begin, at_ - 1 - begin);
}

// Does the same with "(...)", where brackets in quotes, comments and here-documents do not count.
std::string ShellReader::parenthesised() {
  const int line = line_;
  take();
  const std::size_t begin = at_;
  bool has_arithmetic = peek() == '(';  // there "<<" is a shift
  const std::vector<std::string> around = std::exchange(here_ends_, {});
  std::string ends = ")";  // of the brackets and quotes that are open, the inner one's last
  while (!ends.empty()) {
    if (at_end()) {
      fail(line, "found ( without its end, expected )");
      return "";
    }
    const char before = text_[at_ - 1], c = take(), end = ends.back();
    const bool is_quoted = end != ')';
    if (c == end) {
      ends.pop_back();
    } else if (end == '\'') {
      continue;  // in '...' nothing else counts
    } else if (c == '\\') {
      take();
    } else if (c == '"' || (c == '\'' && !is_quoted)) {
      ends += c;
    } else if (c == '(' && (!is_quoted || before == '$')) {  // in "..." brackets count as "$(...)"
      ends += ')';
      has_arithmetic |= before == '(';
    } else if (!is_quoted && c == '#' && (is_blank(before) || before == '\n')) {
      while (!at_end() && peek() != '\n') take();
    } else if (!is_quoted && c == '<' && peek() == '<' && !has_arithmetic) {
      pass_here_end();
    } else if (!is_quoted && c == '\n') {
      here_documents();
    }
  }
  here_ends_ = around;
  return text_.substr(begin, at_ - 1 - begin);
}

// Passes a second "<" and, unless a third follows, the end word of the here-document that they
// begin: "<<EOF", "<<-EOF" or "<<'EOF'".
void ShellReader::pass_here_end() {
  take();
  if (peek() == '<') {
    take();
    return;
  }
  while (peek() == '-' || is_blank(peek())) take();
  std::string word;
  while (!at_end() && !is_blank(peek()) && !is_operator(peek())) word += take();
  std::erase_if(word, [](char c) { return c == '\'' || c == '"' || c == '\\'; });
  if (!word.empty()) here_ends_.push_back(word);
}

// Expands the $ or ` that comes next. Returns true for "${A[@]}" and its like: `values` are then an
// array's elements, each a word of its own. Otherwise there is one value.
bool ShellReader::expansion(std::vector<std::string>* values) {
  starred_ = false;
  const bool many = expand(values);
  for (const std::string& text : *values) count(text.size());
  if (values->empty() && !many) values->emplace_back();
  return many;
}

// Does the same without counting characters, and may leave `values` empty.
bool ShellReader::expand(std::vector<std::string>* values) {
  if (take() == '`') {
    std::string inside;
    while (!at_end() && peek() != '`') inside += take();
    take();
    values->push_back("$(" + inside + ")");
    return false;
  }
  if (peek() == '(' && peek(1) == '(') {
    std::string inside = parenthesised();
    inside = inside.size() >= 2 ? inside.substr(1, inside.size() - 2) : "";
    long long result = 0;
    const bool is_known = shell_arithmetic(with_defaults(inside), script_.variables, &result);
    values->push_back(is_known ? fmt::format("{}", result) : "$((" + inside + "))");
    return false;
  }
  if (peek() == '(') {
    values->push_back(substitution(parenthesised()));
    return false;
  }
  if (peek() == '{') return braces(braced(), values);
  std::string name;
  while (!at_end() && is_name(peek())) name += take();
  if (name.empty() && (peek() == '#' || peek() == '@' || peek() == '*'))
    return arguments(take(), values);
  if (name.empty() && !at_end() && std::string_view("?$!-").find(peek()) != std::string::npos) {
    // "$?" and the like make no word, as "$@" without arguments.
    take();
    return true;
  }
  return braces(name, values);
}

// Expands "$#", "$@" or "$*" to a function's arguments. The script's own count as none.
bool ShellReader::arguments(char sign, std::vector<std::string>* values) {
  const auto known = script_.variables.find("@");
  const bool is_known = known != script_.variables.end();
  if (!is_known) arguments_line_ = line_;
  if (sign != '#') {
    starred_ = is_known && sign == '*';
    if (is_known) *values = known->second.words;
    return true;
  }
  if (!is_known) script_.unset.push_back(line_);
  values->push_back(fmt::format("{}", is_known ? known->second.words.size() : 0));
  return false;
}

// Expands "$(...)": to what it prints, or to gpu in "$(a && echo npu || echo gpu)", where a is not
// run and counts as failed. Others stay as written.
std::string ShellReader::substitution(const std::string& inside) {
  if (const auto printed = output_of(inside)) return *printed;
  constexpr std::string_view kElse = "|| echo ";
  const std::size_t otherwise = inside.rfind(kElse);
  const std::string word =
      otherwise == std::string::npos ? "" : inside.substr(otherwise + kElse.size());
  const bool is_plain = !word.empty() && std::ranges::all_of(word, is_name);
  if (!is_plain) return "$(" + inside + ")";
  script_.failed.push_back(line_);
  return word;
}

// Returns the output of "$(A=2; echo $A)": one echo or printf, after assignments. Nothing: the
// command is another one.
std::optional<std::string> ShellReader::output_of(const std::string& inside) {
  if (depth_ >= kMostNested ||
      (inside.find("echo") == std::string::npos && inside.find("printf") == std::string::npos))
    return std::nullopt;
  ShellReader inner(inside + "\n", path_);
  inner.script_.variables = script_.variables;
  inner.depth_ = depth_ + 1;
  inner.read_all();
  if (inner.error_ || inner.script_.commands.size() != 1 || !inner.script_.branches.empty())
    return std::nullopt;
  auto printed = printed_text(word_texts(inner.script_.commands[0], 0));
  while (printed && printed->ends_with('\n')) printed->pop_back();
  return printed;
}

// Expands each "${...}" and "$1" of an arithmetic expression.
std::string ShellReader::with_defaults(const std::string& text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::size_t close = text.find('}', i);
    const bool is_argument = text[i] == '$' && i + 1 < text.size() &&
                             std::isdigit(static_cast<unsigned char>(text[i + 1])) != 0;
    if (!is_argument && (text.compare(i, 2, "${") != 0 || close == std::string::npos)) {
      plain += text[i];
      continue;
    }
    std::vector<std::string> values;
    braces(is_argument ? text.substr(i + 1, 1) : text.substr(i + 2, close - i - 2), &values);
    plain += values.empty() ? "" : values[0];
    i = is_argument ? i + 1 : close;
  }
  return plain;
}

// Expands the text behind an operator, as in "${A:-$B/2}".
std::string ShellReader::expanded(const std::string& text) {
  ShellReader inner(text + "\n", path_);
  inner.script_.variables = script_.variables;
  inner.depth_ = depth_ + 1;
  WordFields fields;
  if (inner.depth_ < kMostNested) inner.read_word(&fields, /*whole=*/true);
  if (!inner.script_.failed.empty()) script_.failed.push_back(line_);
  return fields.joined();
}

// Expands the inside of "${...}": NAME, NAME[@], NAME[2], NAME:-default, NAME-default,
// NAME:=default, NAME:+other, NAME:?error, NAME,, or NAME^^.
bool ShellReader::braces(const std::string& inside, std::vector<std::string>* values) {
  if (inside == "@" || inside == "*" || inside == "#") return arguments(inside[0], values);
  const BraceParts parts = parts_of(inside);
  const char kind = parts.kind();
  const ShellVariable* known = find(parts.name);
  const bool is_set = known != nullptr && !known->words.empty() &&
                      !(known->words.size() == 1 && known->words[0].empty());
  if (is_set && kind != '+') {
    const auto chosen = chosen_words(parts, known->words);
    if (!chosen) return keep(inside, values);
    *values = *chosen;
    starred_ = parts.is_star;
    return parts.is_array;
  }
  const bool is_default = !is_set && (kind == '-' || kind == '=');
  const bool is_other = is_set && kind == '+';
  if (is_default || is_other) {
    values->push_back(expanded(parts.rest.substr(parts.op.size())));
    if (kind == '=' && !parts.name.empty() && branches_.active())
      script_.variables[parts.name] = {*values, line_};
    return false;
  }
  // A variable without a value gives:
  //   as an array, "${A[@]}": no words
  //   if it was never set, unless as "${A+b}": the expansion as written
  //   else, as after A="": ""
  if (parts.is_array) return true;
  if (known == nullptr && kind != '+') return keep(inside, values);
  values->push_back("");
  return false;
}

// Leaves the expansion as it is written.
bool ShellReader::keep(const std::string& inside, std::vector<std::string>* values) {
  *values = {"${" + inside + "}"};
  return false;
}

}  // namespace tandem
