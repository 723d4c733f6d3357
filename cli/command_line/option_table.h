// OptionTable: a table of each command's options: on which kinds of input they act, and together
// with which others. An option that would have no effect is refused. For example, the row
//   {"--wide", "sp", "", "--json"}
// says: --wide acts on scenarios and Programs, needs no other option, and is refused with --json.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tandem {

// A kind of input that a command reads.
struct InputKind {
  char letter;       // in the table
  const char* name;  // for users; empty: the command was given no file
};

// Options with the same conditions. An option may be in several rows: it must meet all rows of the
// kind of input.
struct OptionRow {
  const char* options;    // "--trace --plot"
  const char* kinds;      // letters of the kinds on which they act; empty: the command has one kind
  const char* with = "";  // they need one of these: "--json --format=grid"
  const char* without = "";  // they are refused with any of these
};

struct CommandRow {
  const char* command;  // "bench comm"
  std::vector<InputKind> kinds;
  std::vector<OptionRow> rows;
};

// Returns the rows of all commands of tandem and tandem-fit.
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
