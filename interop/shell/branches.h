// ShellBranches: which branches of a script's ifs and cases are taken, as far as their conditions
// are known.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace tandem {

class ShellBranches {
 public:
  // Returns whether the next command is run. A branch with an unknown condition counts as taken,
  // and so do the branches after it.
  bool active() const { return frames_.empty() || frames_.back().active; }
  // `is_certain`: the condition does not depend on variables without a value.
  void open(std::optional<bool> condition, bool is_certain = true);
  void next(std::optional<bool> condition, bool is_certain = true);  // elif
  void otherwise();                                                  // else
  void close();
  // Returns how many branches are open; close_to() closes all but the outer `depth`.
  std::size_t depth() const { return frames_.size(); }
  void close_to(std::size_t depth) { frames_.resize(std::min(depth, frames_.size())); }
  // Returns whether the conditions of all open branches but the outer `depth` are certain.
  bool are_certain_inside(std::size_t depth) const;
  // Skips the rest of all open branches but the outer `depth`, as break does.
  void skip_inside(std::size_t depth);

  // Opens a case. If the word has a $ in it, its value is unknown and all branches are taken.
  void open_case(const std::string& word, bool is_certain);
  // Returns whether a pattern of a case comes next.
  bool in_patterns() const { return !frames_.empty() && frames_.back().in_patterns; }
  // Compares the case's word with a pattern. `is_last`: a branch's commands follow, not another
  // "|".
  void pattern(const std::string& glob, bool is_last);
  void next_patterns();  // behind ;;

 private:
  struct Frame {   // an if or a case that is open
    bool outer;    // whether the commands around it are run
    bool active;   // whether the current branch is run
    bool decided;  // whether a branch was taken for certain
    bool is_case = false;
    bool in_patterns = false;  // a pattern of the case comes next
    bool matches = false;      // whether one of the branch's patterns so far does
    std::string word = {};     // the case's
    bool certain = true;       // whether all conditions so far are known, and certainly so
  };
  std::vector<Frame> frames_;
};

// Evaluates "[ a = b ]", "[[ -n a ]]" and the like, already expanded; nothing: another condition,
// or a part of a value such as "${A%.*}". A variable without a value counts as empty, and sets
// *unset.
std::optional<bool> shell_condition(std::vector<std::string> words, bool* unset);

}  // namespace tandem
