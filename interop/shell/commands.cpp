// Decides which commands of a script are run, and follows those that set variables. Declared in
// interop/shell/shell_reader.h.
#include <fmt/format.h>

#include <utility>

#include "interop/document/fields.h"
#include "interop/shell/shell_reader.h"
#include "interop/shell/slurm.h"

namespace tandem {
namespace {

// Returns whether a command is a test such as "[ A ]" or "! [ A ]".
bool is_test(const ShellCommand& words) {
  const std::size_t first = !words.empty() && words[0].text == "!" ? 1 : 0;
  if (words.size() <= first) return false;
  const std::string& word = words[first].text;
  return word == "[" || word == "[[" || word == "test" || word.starts_with("((");
}

}  // namespace

std::vector<std::string> word_texts(const ShellCommand& words, std::size_t first) {
  std::vector<std::string> texts;
  for (std::size_t i = first; i < words.size(); ++i) texts.push_back(words[i].text);
  return texts;
}

// Handles a command that ends at `separator`. A part of an if, a case or a loop changes which
// commands are run. Some commands set variables. All others that are run go into the script's list.
void ShellReader::end_command(ShellCommand words, ShellSeparator separator,
                              ShellVariables environment) {
  const bool ends_group = !words.empty() && (words[0].text == "}" || words[0].text == ")");
  if (ends_group && !groups_.empty() && groups_.back().is_subshell == (words[0].text == ")"))
    close_group();
  // These are asked before end_guarded(), which closes the command's own branch.
  const bool active = branches_.active();
  const bool joins = separator == ShellSeparator::kAnd || separator == ShellSeparator::kOr;
  const bool was_joined = std::exchange(joined_, joins);  // it stands behind && or ||
  const bool is_certain = !was_joined && branches_.are_certain_inside(0);  // to be run
  const bool leaves = active && !was_joined && !words.empty() && ends_for_sure(words[0].text);
  const bool is_in_branch = branches_.depth() > 0;
  end_guarded(separator, is_test(words));
  if (ends_group) return;
  if (words.size() > 2 && words[0].text == "case") open_case(&words, active);
  if (words.empty()) return;  // assignments alone, or a case's first pattern is in the next line
  if (follow_branches(words, separator)) return;

  const std::string first = words[0].text;
  const bool is_loop = matches_any(first, {"for", "while", "until", "select"});
  if (is_loop) loops_.open(words, active, {at_, line_});
  if (is_loop && active && words.size() > 1 && words[1].text == "read")
    forget(words, 2);  // "while read A B"
  if (leaves) leave(words, is_in_branch);
  if (active && (first == "exit" || first == "return")) return;
  if (active && source(words, environment)) return;
  if (active && functions_.contains(first)) {
    const bool in_subshell = separator == ShellSeparator::kOther;  // in a pipeline or behind "&"
    const ShellVariables before = in_subshell ? script_.variables : ShellVariables();
    call(words, environment, is_certain);
    if (in_subshell) script_.variables = before;
    return;
  }
  if (first == "for" || (active && !is_loop && sets_variables(words))) return;
  if (joins && is_test(words))  // "[ A ] && b" or "[ A ] || b"
    return guard(words, separator == ShellSeparator::kOr, active);
  if (!active) return;
  if (first == "break" || first == "continue")
    return loops_.leave(first, !was_joined && words.size() == 1);
  if (first == "eval" && evaluate(words, environment)) return;
  set_slurm_variables(take_srun_options(&words), words[0].line, &environment);
  script_.commands.push_back(std::move(words));
  script_.environments.push_back(std::move(environment));
}

// Follows a part of an if or a case, or the end of a loop. Returns false if the command is none.
bool ShellReader::follow_branches(const ShellCommand& words, ShellSeparator separator) {
  const std::string& first = words[0].text;
  if (branches_.in_patterns() && first != "esac") {  // "a" of "a | b)", then "b"
    branches_.pattern(words.back().text, separator == ShellSeparator::kParenthesis);
  } else if (first == "fi" || first == "esac") {
    branches_.close();
  } else if (first == "if" || first == "elif") {
    open_if(words, separator);
  } else if (first == "done") {
    end_loop();
  } else {
    return false;
  }
  return true;
}

// Ends the script or the function. In a branch, "exit 1" means that the script cannot run as it is
// given; it is assumed to run, and read on.
void ShellReader::leave(const ShellCommand& words, bool is_in_branch) {
  if (words[0].text == "return") {
    returned_ = true;
  } else if (is_in_branch && words.size() > 1 && words[1].text != "0") {
    script_.checks.push_back(words[0].line);
  } else {
    exited_ = true;
    if (text_.find_first_not_of(" \t\n;", at_) != std::string::npos) script_.ended = words[0].line;
  }
}

// Returns whether the word is "exit" or "return" and is sure to end the script or the function. In
// a subshell it ends that alone, and "[ -z $DATA ] && exit 1" depends on what is not known.
bool ShellReader::ends_for_sure(const std::string& word) const {
  if (word == "exit") return branches_.are_certain_inside(0) && !in_subshell(0);
  // The outermost branch is the call's own.
  return word == "return" && !calls_.empty() && branches_.are_certain_inside(1) &&
         !in_subshell(calls_.back().groups) && loops_.depth() == calls_.back().loops;
}

// Removes "case WORD in" from the front of a command; the first pattern is left.
void ShellReader::open_case(ShellCommand* words, bool active) {
  const std::string word = (*words)[1].text;
  if (active && word.find('$') != std::string::npos) script_.branches.push_back((*words)[0].line);
  const bool uses_arguments = arguments_line_ == (*words)[0].line;  // "case $1 in"
  branches_.open_case(word, /*is_certain=*/!uses_arguments);
  words->erase(words->begin(), words->begin() + 3);
}

// Opens the branch of "if A" or "elif A". A longer condition, "if A && B", counts as unknown, and
// so does a function, which is run behind "if".
void ShellReader::open_if(const ShellCommand& words, ShellSeparator separator) {
  const bool is_if = words[0].text == "if";
  const std::size_t name = words.size() > 1 && words[1].text == "!" ? 2 : 1;  // of the command
  if (is_if && branches_.active() && name < words.size() && functions_.contains(words[name].text))
    call({words.begin() + static_cast<std::ptrdiff_t>(name), words.end()}, {},
         /*is_certain=*/false);
  std::vector<std::string> test;  // empty: unknown
  if (separator == ShellSeparator::kEnd) test = word_texts(words, 1);
  const std::optional<bool> holds = condition(test, words[0].line, branches_.active());
  if (is_if) {
    branches_.open(holds, !assumed_);
  } else {
    branches_.next(holds, !assumed_);
  }
}

// Returns whether a test holds; nothing: unknown. Sets assumed_ if a variable without a value, or
// an argument of the script ("[ $1 = a ]"), decides it. If the test is run (`active`), lists its
// line where its result is unknown, or decided by a variable without a value.
std::optional<bool> ShellReader::condition(const std::vector<std::string>& texts, int line,
                                           bool active) {
  bool unset = false;
  const std::optional<bool> holds = shell_condition(texts, &unset);
  assumed_ = unset || arguments_line_ == line;
  if (!active) return holds;
  if (!holds) script_.branches.push_back(line);
  if (holds && unset) script_.unset.push_back(line);
  return holds;
}

// Begins a list with its test: "[ A ] && b && c || d", or "[ A ] || b" (`otherwise`). Each of the
// commands behind it is a branch of its own.
void ShellReader::guard(const ShellCommand& words, bool otherwise, bool active) {
  std::optional<bool> holds = condition(word_texts(words, 0), words[0].line, active);
  if (holds && otherwise) holds = !*holds;
  if (!active) holds = false;
  branches_.open(holds, !assumed_);
  guard_ = {.is_open = true, .behind_and = !otherwise, .holds = holds};
  joined_ = false;
}

// Ends the branch of a command of "[ A ] && b && c || d" at the `separator` behind it, and opens
// that of the next one: c is run if A holds, d if it does not. `tests`: the command is a test too,
// as B in "[ A ] && [ B ] && c": then a list of its own begins with it.
void ShellReader::end_guarded(ShellSeparator separator, bool tests) {
  if (!guard_.is_open) return;
  branches_.close();
  const bool is_and = separator == ShellSeparator::kAnd, is_or = separator == ShellSeparator::kOr;
  // Behind "||" comes the last command: its list ends with it.
  guard_.is_open = guard_.behind_and && (is_and || is_or) && !tests;
  guard_.behind_and = is_and;
  if (!guard_.is_open) return;
  std::optional<bool> runs = guard_.holds;
  if (is_or && runs) runs = !*runs;
  branches_.open(runs);
}

// Removes the variables whose names are among the words from number `first` on: their values are
// unknown from here on.
void ShellReader::forget(const ShellCommand& words, std::size_t first) {
  for (std::size_t i = first; i < words.size(); ++i)
    script_.variables.erase(words[i].text.substr(0, words[i].text.find('[')));
}

// Follows "let", "((i++))", "printf -v", "shift", "unset" and "read", of which the words that are
// read are unknown. Returns whether the command is one of these.
bool ShellReader::sets_variables(const ShellCommand& words) {
  const std::string& first = words[0].text;
  if (first == "shift") {
    shift(words);
  } else if (matches_any(first, {"unset", "read", "mapfile", "readarray"})) {
    forget(words, 1);
  } else if (first == "let") {
    for (std::size_t i = 1; i < words.size(); ++i)
      shell_step(words[i].text, words[i].line, &script_.variables);
  } else if (first == "printf" && words.size() > 3 && words[1].text == "-v") {
    // printf -v NAME FORMAT WORDS
    std::vector<std::string> texts = word_texts(words, 2);
    texts[0] = first;  // in place of NAME
    script_.variables.erase(words[2].text);
    if (const auto text = printed_text(texts))
      script_.variables[words[2].text] = {{*text}, words[2].line};
  } else {  // "((i++))"
    if (!first.starts_with("((")) return false;
    const std::string inside = first.substr(2, first.size() - 4);
    if (!shell_step(inside, words[0].line, &script_.variables)) return false;
  }
  loops_.assigned();
  return true;
}

// Reads the words of "eval" as commands: "eval run 'a\|b'" runs "run a|b". Returns false where they
// are not known or decide something; they then stay words of eval.
bool ShellReader::evaluate(const ShellCommand& words, const ShellVariables& environment) {
  constexpr int kMostEvals = 4;  // within each other
  const std::string text = fmt::format("{}\n", fmt::join(word_texts(words, 1), " "));
  const bool has_placeholder = text.find('<') != std::string::npos;  // "--load <path>"
  if (has_placeholder || text.starts_with('$') || depth_ >= kMostEvals) return false;
  ShellReader inner(text, path_);
  inner.script_.variables = script_.variables;
  inner.line_ = words[0].line;
  inner.depth_ = depth_ + 1;
  inner.expanded_ = expanded_;
  inner.read_all();
  expanded_ = inner.expanded_;
  const bool decides = !inner.script_.branches.empty() || !inner.script_.failed.empty() ||
                       inner.exited_ || !inner.functions_.empty();
  if (inner.error_ || decides) return false;
  for (ShellCommand& command : inner.script_.commands) {
    for (ShellWord& word : command) word.line = words[0].line;
    script_.commands.push_back(std::move(command));
  }
  for (ShellVariables& own : inner.script_.environments) {
    own.insert(environment.begin(), environment.end());
    script_.environments.push_back(std::move(own));
  }
  script_.variables = std::move(inner.script_.variables);
  loops_.assigned();
  return true;
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

}  // namespace tandem
