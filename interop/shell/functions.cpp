// Groups of commands and functions of a script. A function's body is skipped where it is defined
// and run where it is called, with the words behind its name as "$1", "$2" and "$@":
//
//   size() { local N=$1; LAYERS=$N; }
//   size 32                             -> LAYERS is 32, N has no value
//
// Declared in interop/shell/shell_reader.h.
#include <utility>

#include "interop/document/text_scanner.h"
#include "interop/shell/shell_reader.h"

namespace tandem {
namespace {

constexpr std::size_t kMostOpen = 100;  // groups or definitions within each other
constexpr std::size_t kMostCalls = 20;  // likewise calls: deeper ones are passed over

}  // namespace

void ShellReader::open_group(bool is_subshell) {
  if (groups_.size() >= kMostOpen)
    return fail(line_, fmt::format("found {} groups within each other, expected fewer", kMostOpen));
  ShellGroup group = {.is_subshell = is_subshell,
                      .depth = branches_.depth(),
                      .guard = std::exchange(guard_, {}),
                      .variables = {}};
  if (is_subshell) {
    count(script_.variables.size());
    group.variables = script_.variables;
  }
  groups_.push_back(std::move(group));
  // Behind && or || it is unknown whether the group is run.
  branches_.open(std::exchange(joined_, false) ? std::nullopt : std::optional(true));
}

void ShellReader::close_group() {
  ShellGroup& group = groups_.back();
  branches_.close_to(group.depth);
  guard_ = group.guard;
  if (group.is_subshell) script_.variables = std::move(group.variables);
  groups_.pop_back();
}

// Returns whether one of the open groups but the outer `depth` is a subshell.
bool ShellReader::in_subshell(std::size_t depth) const {
  return std::any_of(groups_.begin() + static_cast<std::ptrdiff_t>(std::min(depth, groups_.size())),
                     groups_.end(), [](const ShellGroup& group) { return group.is_subshell; });
}

// Skips "name() {...}" or "function name {...}" behind its first words. Returns false, and reads
// nothing, if it is none.
bool ShellReader::skip_definition(const ShellCommand& words) {
  const bool has_keyword = words.size() == 2 && words[0].text == "function";
  if (branches_.in_patterns() || (!has_keyword && (words.size() != 1 || peek() != '(')))
    return false;
  const ShellPlace back = {at_, line_};
  bool is_definition = has_keyword;
  if (peek() == '(') {
    take();
    skip(/*newlines=*/true);
    is_definition = take() == ')';
  }
  skip(/*newlines=*/true);
  if (is_definition && (peek() == '{' || peek() == '(')) {
    define(words.back().text);
    return true;
  }
  at_ = back.at;
  line_ = back.line;
  return false;
}

// Skips a function's body, which comes next: reads it as a branch that is not taken.
void ShellReader::define(const std::string& name) {
  const ShellPlace place = {at_, line_};
  if (branches_.active()) functions_[name] = place;
  if (static_cast<std::size_t>(++defining_) > kMostOpen)
    return fail(line_,
                fmt::format("found {} functions within each other, expected fewer", kMostOpen));
  const std::size_t depth = branches_.depth(), groups = groups_.size();
  const std::size_t failed = script_.failed.size(), unset = script_.unset.size();
  branches_.open(false);
  run_group(place);
  if (groups_.size() > groups) fail(place.line, "found a function without its end, expected }");
  branches_.close_to(depth);
  const std::string_view body = std::string_view(text_).substr(place.at, at_ - place.at);
  const auto has = [&](std::string_view part) { return body.find(part) != std::string_view::npos; };
  if (branches_.active() && (has(".py") || has("torchrun"))) script_.uncalled[name] = place.line;
  // The body's own lines count where it is called.
  script_.failed.resize(failed);
  script_.unset.resize(unset);
  --defining_;
}

// Runs the commands from an opening bracket to the one that closes it.
void ShellReader::run_group(ShellPlace place) {
  const ShellGuard guard = std::exchange(guard_, {});
  const bool joined = std::exchange(joined_, false);
  const std::size_t groups = groups_.size();
  at_ = place.at;
  line_ = place.line;
  do {
    command();
  } while (groups_.size() > groups && !at_end() && !error_ && !exited_ && !returned_);
  guard_ = guard;
  joined_ = joined;
}

// Runs a function. `is_certain`: it is known that it is called.
void ShellReader::call(const ShellCommand& words, const ShellVariables& environment,
                       bool is_certain) {
  const auto body = functions_.find(words[0].text);
  if (calls_.size() >= kMostCalls) return;
  const ShellPlace back = {at_, line_}, place = body->second;
  const auto branches = std::exchange(branches_, {});
  const auto here_ends = std::exchange(here_ends_, {});
  branches_.open(is_certain ? std::optional(true) : std::nullopt);
  calls_.push_back({.locals = {}, .groups = groups_.size(), .loops = loops_.depth()});
  for (const auto& [name, variable] : environment) {
    save(name, &calls_.back().locals);
    script_.variables[name] = variable;
  }
  save("@", &calls_.back().locals);
  // In "f $@" with the script's own arguments, those of f stay unknown: the last expansion of the
  // script's own was then in the lines of this call.
  const bool is_known = arguments_line_ < words[0].line || arguments_line_ > line_;
  if (is_known) script_.variables["@"] = {word_texts(words, 1), words[0].line};
  script_.uncalled.erase(words[0].text);
  run_group(place);
  count(at_ - place.at);
  returned_ = false;
  groups_.resize(std::min(calls_.back().groups, groups_.size()));
  restore(calls_.back().locals);
  calls_.pop_back();
  branches_ = branches;
  here_ends_ = here_ends;
  at_ = back.at;
  line_ = back.line;
}

// Reads the file of "source m.sh" or "A=1 source m.sh". Returns false for another command, and
// where the file is not beside the script.
bool ShellReader::source(const ShellCommand& words, const ShellVariables& environment) {
  if (words.size() < 2 || (words[0].text != "source" && words[0].text != ".")) return false;
  const auto name_of = [](const std::string& file) { return file.substr(file.rfind('/') + 1); };
  const auto file = std::ranges::find_if(beside_, [&](const ImportSource& other) {
    return other.path != path_ && name_of(other.path) == name_of(words[1].text);
  });
  if (file == beside_.end()) return false;
  if (depth_ >= static_cast<int>(kMostCalls))
    fail(words[0].line,
         fmt::format("found {} files that source one another, expected fewer", kMostCalls));
  count(file->text.size());
  if (error_) return false;
  ShellReader inner(file->text, file->path, beside_);
  inner.depth_ = depth_ + 1;
  inner.expanded_ = expanded_;
  inner.began_ = true;  // sbatch reads the options of the script alone
  inner.script_.variables = script_.variables;
  SavedVariables hidden;
  for (const auto& [name, variable] : environment) {
    save(name, &hidden);
    inner.script_.variables[name] = variable;
  }
  inner.read_all();
  script_.sourced.push_back(file->path);
  take_from(&inner, words[0].line);
  restore(hidden);
  return true;
}

// Takes what a file that was sourced in this line has set and run.
void ShellReader::take_from(ShellReader* file, int line) {
  ShellScript& inner = file->script_;
  for (auto& [name, variable] : inner.variables) {
    const auto before = script_.variables.find(name);
    if (before == script_.variables.end() || before->second.words != variable.words)
      variable.line = line;
  }
  script_.variables = std::move(inner.variables);
  for (ShellCommand& command : inner.commands) {
    for (ShellWord& word : command) word.line = line;
  }
  const auto append = [](const auto& from, auto* to) {
    to->insert(to->end(), from.begin(), from.end());
  };
  append(inner.commands, &script_.commands);
  append(inner.environments, &script_.environments);
  append(inner.sourced, &script_.sourced);
  for (const auto lines : {&ShellScript::branches, &ShellScript::failed, &ShellScript::unset,
                           &ShellScript::checks, &ShellScript::read_once, &ShellScript::repeated}) {
    if (!(inner.*lines).empty()) (script_.*lines).push_back(line);
  }
  expanded_ = file->expanded_;
  loops_.assigned();
  exited_ = file->exited_;
  if (exited_) script_.ended = line;
  if (file->error_) {
    error_ = file->error_;
    at_ = text_.size();
  }
}

// Follows "shift" and "shift 2" in a function.
void ShellReader::shift(const ShellCommand& words) {
  const auto arguments = script_.variables.find("@");
  if (arguments == script_.variables.end()) return;
  std::vector<std::string>& texts = arguments->second.words;
  const long long by = words.size() > 1 ? digits_of(words[1].text) : 1;
  for (long long i = 0; i < by && !texts.empty(); ++i) texts.erase(texts.begin());
}

// Reads what stands behind "export", "local" and the like: options, assignments and names.
void ShellReader::declare_names(const std::string& keyword) {
  // Local variables, which have their values back after the call; "declare -g" makes none.
  SavedVariables* saved = calls_.empty() || keyword == "export" || keyword == "readonly"
                              ? nullptr
                              : &calls_.back().locals;
  const std::string options = skip_options();
  if (options.find('g') != std::string::npos) saved = nullptr;
  for (;; skip(/*newlines=*/false)) {
    if (assignment(saved)) continue;
    std::size_t end = at_;
    while (end < text_.size() && is_name(text_[end])) ++end;
    const bool is_name_alone =
        end >= text_.size() || std::string_view(" \t\n;&|)").find(text_[end]) != std::string::npos;
    if (end == at_ || !is_name_alone) return;
    if (saved != nullptr && branches_.active()) {
      const std::string name = text_.substr(at_, end - at_);
      save(name, saved);
      script_.variables.erase(name);
    }
    at_ = end;
  }
}

// Notes the value that a variable has, unless an earlier one was noted.
void ShellReader::save(const std::string& name, SavedVariables* to) const {
  const auto known = script_.variables.find(name);
  to->try_emplace(name,
                  known == script_.variables.end() ? std::nullopt : std::optional(known->second));
}

void ShellReader::restore(const SavedVariables& saved) {
  for (const auto& [name, variable] : saved) {
    if (variable) {
      script_.variables[name] = *variable;
    } else {
      script_.variables.erase(name);
    }
  }
}

// Returns a variable, or "1" and the like of a function's arguments; null: it has no value.
const ShellVariable* ShellReader::find(const std::string& name) {
  const auto named = script_.variables.find(name);
  if (named != script_.variables.end()) return &named->second;
  const auto all = script_.variables.find("@");
  const long long number = digits_of(name);
  if (all == script_.variables.end() || number < 1) return nullptr;
  const std::vector<std::string>& texts = all->second.words;
  const auto index = static_cast<std::size_t>(number);
  argument_ = {{index <= texts.size() ? texts[index - 1] : ""}, all->second.line};
  return &argument_;
}

}  // namespace tandem
