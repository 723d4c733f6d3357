#include "interop/shell/loops.h"

#include <algorithm>

namespace tandem {
namespace {

// The limit of all rounds together. A loop that waits for something may have more.
constexpr int kMostRounds = 10'000;

void note(int line, std::vector<int>* lines) {
  if (std::ranges::find(*lines, line) == lines->end()) lines->push_back(line);
}

bool is_known(const ShellWord& word) {
  return word.text.find_first_of("$*?{[") == std::string::npos;
}

}  // namespace

void ShellLoops::open(const ShellCommand& words, bool active, ShellPlace body) {
  Loop loop = {.line = words[0].line, .depth = branches_->depth(), .body = body};
  loop.round = loop.before = script_->commands.size();
  std::optional<bool> runs = std::nullopt;  // whether the body is run at all; nothing: unknown
  if (active && words[0].text == "for" && words.size() == 5 && words[1].text == "((") {
    // "for (( a b c": a is run here, b is tested before each round, c is run behind it.
    loop.condition = words[3].text;
    loop.step = words[4].text;
    if (shell_step(words[2].text, loop.line, &script_->variables)) runs = begin_round(&loop);
  } else if (active && words[0].text == "for" && words.size() > 2 && words[2].text == "in" &&
             std::all_of(words.begin() + 3, words.end(), is_known)) {
    // "for A in x y"
    loop.name = words[1].text;
    for (std::size_t i = words.size(); i-- > 3;) {
      if (!words[i].text.empty()) loop.words.push_back(words[i].text);
    }
    runs = begin_round(&loop);
  }
  if (active && words[0].text == "while") {
    // A condition that does not hold at first skips the body. Any other counts as unknown.
    bool unset = false;
    loop.is_over = shell_condition(word_texts(words, 1), &unset) == false;
    if (loop.is_over) runs = false;
    if (loop.is_over && unset) note(loop.line, &script_->unset);
  }
  loop.knows_rounds = runs.has_value();
  branches_->open(active ? runs : false);
  loops_.push_back(std::move(loop));
}

// Begins a round if the condition of "for ((" holds, or else if a word is left, which the loop's
// variable then has.
std::optional<bool> ShellLoops::begin_round(Loop* loop) {
  if (++rounds_ > kMostRounds) return std::nullopt;
  if (loop->name.empty()) {
    long long holds = 0;
    if (!shell_arithmetic(loop->condition, script_->variables, &holds)) return std::nullopt;
    return holds != 0;
  }
  if (loop->words.empty()) return false;
  script_->variables[loop->name] = {{loop->words.back()}, loop->line};
  loop->words.pop_back();
  return true;
}

std::optional<ShellPlace> ShellLoops::end_round() {
  if (loops_.empty()) return std::nullopt;
  Loop& loop = loops_.back();
  const std::optional<bool> again = loop.knows_rounds ? begin_next_round(&loop) : std::nullopt;
  branches_->close_to(loop.depth);
  if (again == true) {
    branches_->open(true);
    return loop.body;
  }
  // Rounds that are not read do not matter if the loop was read once and sets no variables.
  const bool would_matter = loop.knows_rounds || loop.assigns;
  if (!again.has_value() && would_matter) note(loop.line, &script_->read_once);
  loops_.pop_back();
  return std::nullopt;
}

std::optional<bool> ShellLoops::begin_next_round(Loop* loop) {
  compare_rounds(loop);
  const bool steps = loop->step.empty() || shell_step(loop->step, loop->line, &script_->variables);
  if (loop->is_over) return false;
  return steps ? begin_round(loop) : std::nullopt;
}

// Drops those of the commands from `first` to `last` that begin in one of these lines.
void ShellLoops::drop_commands(std::size_t first, std::size_t last, const std::set<int>& lines) {
  auto& all = script_->commands;
  auto& environments = script_->environments;
  std::size_t kept = first;
  for (std::size_t i = first; i < all.size(); ++i) {
    if (i < last && lines.contains(all[i].front().line)) continue;
    if (kept != i) {
      all[kept] = std::move(all[i]);
      environments[kept] = std::move(environments[i]);
    }
    ++kept;
  }
  all.resize(kept);
  environments.resize(kept);
}

// Drops a round whose commands are those of the round before. If they differ, notes the loop and
// drops the earlier round's commands in lines that the later round runs too, so that the last
// round's values count.
void ShellLoops::compare_rounds(Loop* loop) {
  auto& all = script_->commands;
  const auto first = all.begin() + static_cast<std::ptrdiff_t>(loop->before),
             round = all.begin() + static_cast<std::ptrdiff_t>(loop->round);
  const auto same = [](const ShellCommand& a, const ShellCommand& b) {
    return std::ranges::equal(a, b, {}, &ShellWord::text, &ShellWord::text);
  };
  if (first != round && std::equal(first, round, round, all.end(), same)) {
    all.resize(loop->round);
    script_->environments.resize(loop->round);
    return;
  }
  const std::size_t size = all.size();
  if (first != round) {
    note(loop->line, &script_->repeated);
    std::set<int> lines;
    for (auto command = round; command != all.end(); ++command) lines.insert(command->front().line);
    drop_commands(loop->before, loop->round, lines);
  }
  // The next round begins behind this one, which moved to the front by what was dropped. Of rounds
  // 0 to 2 and 3 to 5, with two commands dropped: this one is 1 to 3, and the next begins at 4.
  loop->before = loop->round - (size - all.size());
  loop->round = all.size();
}

void ShellLoops::leave(const std::string& word, bool is_known) {
  if (loops_.empty() || !loops_.back().knows_rounds) return;
  Loop& loop = loops_.back();
  const std::size_t body = loop.depth + 1;  // the loop itself is one open branch
  if (!is_known || !branches_->are_certain_inside(body))
    return note(loop.line, &script_->read_once);
  branches_->skip_inside(loop.depth);
  loop.is_over = word == "break";
}

void ShellLoops::assigned() {
  for (Loop& loop : loops_) loop.assigns = true;
}

}  // namespace tandem
