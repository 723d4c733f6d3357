// OptionTable: says of each command, as data, which options act on which kinds of input. An option
// that would do nothing is refused.
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

// Options that act alike. An option may stand in several rows: it must keep all that hold for its
// kind of input.
struct OptionRow {
  const char* options;       // "--trace --plot"
  const char* kinds;         // letters of the kinds they act on; empty: the command has one kind
  const char* with = "";     // they act only with one of these: "--json", or "--format=grid"
  const char* without = "";  // and with none of these
};

struct CommandRow {
  const char* command;  // "bench comm"
  std::vector<InputKind> kinds;
  std::vector<OptionRow> rows;
};

// All commands of tandem and tandem-fit.
const std::vector<CommandRow>& command_rows();

// The input that a command was given. `kinds`: its letters in the table, one a kind of file.
struct CommandInput {
  std::string path;
  std::string kinds;
};

// An option of the command line. `values`: as given, or its default.
struct OptionState {
  std::string name;
  bool given = false;
  std::vector<std::string> values;
};

// An Error where an option was given that does nothing there. `options`: all that the command has.
Status check_options(std::string_view command, const CommandInput& input,
                     const std::vector<OptionState>& options);

}  // namespace tandem
