// ShellScript: what a launch script sets and runs, as far as that can be told without running it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"

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

// One command's words, expanded: variables, arrays, defaults and arithmetic. What has no value here
// stays as it is written: "${DATA}".
using ShellCommand = std::vector<ShellWord>;

struct ShellScript {
  std::map<std::string, ShellVariable> variables;
  std::vector<ShellCommand> commands;
  // Lines with an if or a case that nothing here decides: all their branches are read, in order.
  std::vector<int> branches;
  std::vector<int> unset;  // lines with an if that was decided by variables without a value: empty
};

// Errors: quotes or brackets that do not end, expansions without end.
Result<ShellScript> parse_shell(const std::string& text, const std::string& path);

// An integer expression of numbers, names and + - * / % ( ); false: it is none.
bool shell_arithmetic(const std::string& text,
                      const std::map<std::string, ShellVariable>& variables, long long* result);

}  // namespace tandem
