// OptionTable: says for each command, as data, which options act on which kinds of input. An option
// that would have no effect is refused.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tandem {

// A kind of input that a command reads: its letter in the table, and its name for users.
struct InputKind {
  char letter;
  const char* name;  // empty: the command was given no file
};

// Options that act alike. An option may stand in several rows: all rows that hold for the kind of
// input must be met.
struct OptionRow {
  const char* options;    // "--trace --plot"
  const char* kinds;      // letters of the kinds on which they act; empty: the command has one kind
  const char* with = "";  // needed with them, one of: "--json", or "--format=grid"
  const char* without = "";  // refused with them, each of these
};

struct CommandRow {
  const char* command;  // "bench comm"
  std::vector<InputKind> kinds;
  std::vector<OptionRow> rows;
};

// Gives the rows of all commands of tandem and tandem-fit.
const std::vector<CommandRow>& command_rows();

// The input that a command was given. `kinds`: the letter of each file's kind.
struct CommandInput {
  std::string path;
  std::string kinds;
};

// The state of an option on the command line. `values`: as given, or its default.
struct OptionState {
  std::string name;
  bool given = false;
  std::vector<std::string> values;
};

// Returns an Error where a given option has no effect. `options`: all that the command has.
Status check_options(std::string_view command, const CommandInput& input,
                     const std::vector<OptionState>& options);

}  // namespace tandem
