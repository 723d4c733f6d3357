// ShellLoops: which loops of a script go round. A loop over numbers or words that are known does,
// another is read once.
#pragma once

#include <cstddef>
#include <optional>
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
  // `body`. `active`: it is run.
  void open(const ShellCommand& words, bool active, ShellPlace body);
  // Ends a round. Returns where the next one begins; nothing: the loop has ended.
  std::optional<ShellPlace> end_round();
  // Takes "break" or "continue". Where it is not known whether it is run it changes nothing.
  void leave(const std::string& word, bool is_known);
  // Notes that a variable was set.
  void assigned();

 private:
  struct Loop {
    int line;
    std::size_t depth;  // of the branches around it
    ShellPlace body;
    bool repeats = false, assigns = false, broken = false;
    std::string name, condition, step;
    std::vector<std::string> words;  // those still to come, the next one last
    std::size_t round = 0;           // the first command of this round
    std::size_t before = 0;          // and of the round before; the same: there was none
  };

  std::optional<bool> begins(Loop* loop);
  void compare_rounds(Loop* loop);

  ShellScript* script_;
  ShellBranches* branches_;
  std::vector<Loop> loops_;
  int rounds_ = 0;
};

}  // namespace tandem
