// ShellScript: the variables that a launch script sets and the commands that it runs, as far as
// they are known without running it.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "interop/document/import_source.h"

namespace tandem {

// A text, or an array of them, and the line of its last assignment.
struct ShellVariable {
  std::vector<std::string> words;
  int line = 0;
};

struct ShellWord {
  std::string text;
  int line = 0;
};

// One command's words after expansion of variables, arrays, defaults and arithmetic. A variable
// without a value stays as it is written: "${DATA}".
using ShellCommand = std::vector<ShellWord>;

// Returns the texts of a command's words from number `first` on.
std::vector<std::string> word_texts(const ShellCommand& words, std::size_t first);

struct ShellScript {
  std::map<std::string, ShellVariable> variables;
  std::vector<ShellCommand> commands;
  // Variables that one command alone has, for each command: A in "A=1 run", and those that Slurm
  // sets for the options of "srun -N 4 run".
  std::vector<std::map<std::string, ShellVariable>> environments;
  // Lines with an if or a case that cannot be decided: all their branches are read, in order.
  std::vector<int> branches;
  std::vector<int> failed;  // lines with "$(a || echo b)" that are taken as b
  std::vector<int> unset;   // lines with an if decided by variables without a value, taken as empty
  // Functions with a program in Python that are not called, by the lines of their bodies.
  std::map<std::string, int> uncalled;
  int ended = 0;            // line of the exit that ends the script before its last line; 0: none
  std::vector<int> checks;  // lines of "exit 1" under conditions that hold: they are passed over
  std::vector<int> read_once;  // lines of loops that set variables and may go round more often
  std::vector<int> repeated;  // lines of loops whose rounds run different commands: the last counts
  std::vector<std::string> sourced;  // paths of the files beside it that it sources
};

// Reads a script. A file that it sources stands in its place if it is one of those `beside` it;
// lines of that file are then the line of the command that sources it. Errors: quotes or brackets
// that do not end, expansions without end.
Result<ShellScript> parse_shell(const std::string& text, const std::string& path,
                                const std::vector<ImportSource>& beside = {});

// Evaluates an integer expression of numbers, names, + - * / % ( ) and a comparison. Returns false
// if the text is something else, or a name has no number.
bool shell_arithmetic(const std::string& text,
                      const std::map<std::string, ShellVariable>& variables, long long* result);

// Runs "i = 0", "i += 2", "i++" and the like. Returns false if the text is something else, or its
// value is unknown.
bool shell_step(const std::string& text, int line, std::map<std::string, ShellVariable>* variables);

// Returns the text that an echo or printf command prints; nothing: it is another command, or a word
// is unknown.
std::optional<std::string> printed_text(const std::vector<std::string>& words);

}  // namespace tandem
