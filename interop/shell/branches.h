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
  // Returns whether a command that stands here is run. A branch whose condition is not known counts
  // as taken, and so do those after it.
  bool active() const { return frames_.empty() || frames_.back().active; }
  void open(std::optional<bool> condition);
  void next(std::optional<bool> condition);  // elif
  void otherwise();                          // else
  void close();
  // How many are open; closes those that were opened behind so many.
  std::size_t depth() const { return frames_.size(); }
  void close_to(std::size_t depth) { frames_.resize(std::min(depth, frames_.size())); }
  // Returns whether all conditions from `depth` on are known. Leaves these branches: nothing more
  // of them is run.
  bool is_certain(std::size_t depth) const;
  void leave(std::size_t depth);

  // A case. A word with a $ in it is not known, and all of its branches are taken.
  void open_case(const std::string& word);
  // Returns whether what comes next is a pattern of a case, and takes one: the last of its branch?
  bool in_patterns() const { return !frames_.empty() && frames_.back().in_patterns; }
  void pattern(const std::string& glob, bool is_last);
  void next_patterns();  // behind ;;

 private:
  struct Frame {
    bool outer;  // whether what is around it is run
    bool active;
    bool decided;  // whether a branch of it was taken for certain
    bool is_case = false, in_patterns = false, matches = false;
    std::string word = {};
    bool known = true;  // its conditions so far
  };
  std::vector<Frame> frames_;
};

// Evaluates "[ a = b ]", "[[ -n a ]]" and the like, already expanded; nothing: another condition. A
// variable without a value counts as empty, and sets *unset.
std::optional<bool> shell_condition(std::vector<std::string> words, bool* unset);

}  // namespace tandem
