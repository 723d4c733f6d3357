// ShellLoops: repeats a script's loops. A loop over known words or numbers is read once per round,
// any other loop once.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "interop/shell/branches.h"
#include "interop/shell/shell.h"

namespace tandem {

// A place in the text to go on reading at.
struct ShellPlace {
  std::size_t at = 0;
  int line = 1;
};

class ShellLoops {
 public:
  ShellLoops(ShellScript* script, ShellBranches* branches) : script_(script), branches_(branches) {}

  // Opens a loop with the words "for A in x y", "for (( a b c" or "while ...", whose body begins at
  // `body`. `active`: the loop is run.
  void open(const ShellCommand& words, bool active, ShellPlace body);
  // Ends a round. Returns where the next one begins; nothing: the loop has ended.
  std::optional<ShellPlace> end_round();
  // Handles "break" or "continue", which has no effect if it is unknown whether it runs.
  void leave(const std::string& word, bool is_known);
  // Notes that a variable was set.
  void assigned();
  std::size_t depth() const { return loops_.size(); }  // how many are open

 private:
  struct Loop {
    int line;
    std::size_t depth;  // of the branches around it
    ShellPlace body;
    bool knows_rounds = false;       // whether each round is read, else the body once
    bool assigns = false;            // whether it sets variables
    bool is_over = false;            // whether no further round begins, as after break
    std::string name;                // the variable of "for A in x y"
    std::string condition, step;     // of "for ((a; condition; step))"
    std::vector<std::string> words;  // of the rounds to come, the next one last
    std::size_t round = 0;           // index of this round's first command
    std::size_t before = 0;          // likewise of the round before; equal to `round`: none
  };

  // Return whether a round has begun. False: the loop has ended; nothing: that is unknown.
  std::optional<bool> begin_round(Loop* loop);
  std::optional<bool> begin_next_round(Loop* loop);
  void drop_commands(std::size_t first, std::size_t last, const std::set<int>& lines);
  void compare_rounds(Loop* loop);

  ShellScript* script_;
  ShellBranches* branches_;
  std::vector<Loop> loops_;
  int rounds_ = 0;  // of all loops
};

}  // namespace tandem
