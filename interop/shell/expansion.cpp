// Reads words of a script and expands them as bash does: quotes, "$A", "${A:-2}", "$((1 + 2))",
// "$(echo ...)". Nothing is run: an expansion whose value is unknown stays in the word as written.
// Declared in interop/shell/shell_reader.h.
#include <fmt/format.h>

#include <algorithm>

#include "interop/document/text_scanner.h"
#include "interop/shell/shell_reader.h"

namespace tandem {
namespace {

constexpr int kMostNested = 20;  // expansions within each other

}  // namespace

// Reads a word, up to a blank or an operator. `whole`: an expanded value with blanks stays one
// word.
void ShellReader::read_word(WordFields* fields, bool whole) {
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
  fields->quotes_star =
      fields->quotes_star ||
      (!fields->texts.empty() && fields->texts.back().find('*') != std::string::npos);
}

// Reads from an opening bracket to the one that closes it. Returns the text between the two.
std::string ShellReader::bracketed(char open, char close) {
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
    std::string inside = bracketed('(', ')');
    inside = inside.size() >= 2 ? inside.substr(1, inside.size() - 2) : "";
    long long result = 0;
    const bool is_known = shell_arithmetic(with_defaults(inside), script_.variables, &result);
    values->push_back(is_known ? fmt::format("{}", result) : "$((" + inside + "))");
    return false;
  }
  if (peek() == '(') {
    const std::string inside = bracketed('(', ')');
    if (const auto printed = substituted(inside)) {
      values->push_back(*printed);
      return false;
    }
    // "$(a && echo npu || echo gpu)": a is not run, and counts as failed.
    constexpr std::string_view kElse = "|| echo ";
    const std::size_t otherwise = inside.rfind(kElse);
    const std::string word =
        otherwise == std::string::npos ? "" : inside.substr(otherwise + kElse.size());
    const bool is_plain = !word.empty() && std::ranges::all_of(word, is_name);
    if (is_plain) script_.failed.push_back(line_);
    values->push_back(is_plain ? word : "$(" + inside + ")");
    return false;
  }
  if (peek() == '{') return braces(bracketed('{', '}'), values);
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

// Returns the output of "$(A=2; echo $A)": one echo or printf, after assignments. Nothing: the
// command is another one.
std::optional<std::string> ShellReader::substituted(const std::string& inside) {
  if (depth_ >= kMostNested ||
      (inside.find("echo") == std::string::npos && inside.find("printf") == std::string::npos))
    return std::nullopt;
  ShellReader inner(inside + "\n", path_);
  inner.script_.variables = script_.variables;
  inner.depth_ = depth_ + 1;
  inner.read_all();
  if (inner.error_ || inner.script_.commands.size() != 1 || !inner.script_.branches.empty())
    return std::nullopt;
  std::vector<std::string> words;
  for (const ShellWord& word : inner.script_.commands[0]) words.push_back(word.text);
  auto printed = printed_text(words);
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

// Expands the inside of "${...}": NAME, NAME[@], NAME[2], NAME:-default, NAME-default,
// NAME:=default, NAME:+other, NAME:?error, NAME,, or NAME^^.
bool ShellReader::braces(const std::string& inside, std::vector<std::string>* values) {
  if (inside == "@" || inside == "*" || inside == "#") return arguments(inside[0], values);
  std::size_t end = 0;
  while (end < inside.size() && is_name(inside[end])) ++end;
  const std::string name = inside.substr(0, end);
  std::string rest = inside.substr(end);
  const bool all = rest.starts_with("[@]") || rest.starts_with("[*]");
  const bool is_star = rest.starts_with("[*]");
  if (all) rest.erase(0, 3);
  const ShellVariable* known = find(name);
  const bool is_set = known != nullptr && !known->words.empty() &&
                      !(known->words.size() == 1 && known->words[0].empty());
  std::size_t index = 0;
  if (const std::size_t close = rest.find(']'); rest.starts_with('[') && close < 8) {
    const long long number = digits_of(rest.substr(1, close - 1));
    index = static_cast<std::size_t>(number);  // -1, where it is none, is behind all words
    rest.erase(0, close + 1);
  }
  const std::string op = rest.substr(0, rest.starts_with(':') ? 2 : 1);
  const char kind = op.empty() ? '-' : op.back();  // '-' of ":-" and of "-"
  // The variable's own value.
  if (is_set && kind != '+') {
    if ((rest == ",," || rest == "^^") && !all && index < known->words.size()) {
      values->push_back(known->words[index]);
      for (char& c : values->back())
        c = static_cast<char>(rest == ",," ? std::tolower(static_cast<unsigned char>(c))
                                           : std::toupper(static_cast<unsigned char>(c)));
      return false;
    }
    // Operators that cut a value, as in ${A%.*}, are not expanded.
    if (kind != '-' && kind != '=' && kind != '?') return keep(inside, values);
    *values = known->words;
    starred_ = is_star;
    if (all) return true;
    if (index >= values->size()) return keep(inside, values);
    *values = {(*values)[index]};
    return false;
  }
  const bool takes_default = !is_set && !op.empty() && (kind == '-' || kind == '=');
  // The text behind the operator.
  if (takes_default || (is_set && kind == '+')) {
    ShellReader inner(rest.substr(op.size()) + "\n", path_);
    inner.script_.variables = script_.variables;
    inner.depth_ = depth_ + 1;
    WordFields fields;
    if (inner.depth_ < kMostNested) inner.read_word(&fields, /*whole=*/true);
    if (!inner.script_.failed.empty()) script_.failed.push_back(line_);
    std::string text;
    for (const std::string& word : fields.texts) text += (text.empty() ? "" : " ") + word;
    if (kind == '=' && !name.empty() && branches_.active())
      script_.variables[name] = {{text}, line_};
    values->push_back(text);
    return false;
  }
  // A variable set to "" gives "". A variable that was never set stays as written, or is an empty
  // array with [@].
  if (known != nullptr || kind == '+') {
    if (!all) values->push_back("");
    return all;
  }
  return all || keep(inside, values);
}

// Leaves the expansion as it is written.
bool ShellReader::keep(const std::string& inside, std::vector<std::string>* values) {
  *values = {"${" + inside + "}"};
  return false;
}

}  // namespace tandem
