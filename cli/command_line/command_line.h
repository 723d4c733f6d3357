// Commands, their options and the functions that they run. A layer over CLI11, whose templates
// would take seconds to compile in every command's file: only command_line.cpp, help_text.cpp and
// shell_files.cpp include it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "cli/command_line/option_table.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace tandem {

// One option of a command. Checks are made when the command line is parsed.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option required() const;
  Option one_of(const std::vector<std::string>& values) const;
  Option range(int least, int most) const;
  Option range(double least, double most) const;
  Option range(Bytes least, Bytes most) const;
  Option at_least_one() const;
  Option positive() const;
  Option not_negative() const;
  // Takes one value each time that a repeatable option is given.
  Option one_value_each() const;
  // Reads sizes: K, M and G are powers of 1024.
  Option as_size() const;
  Option excludes(const Option& other) const;
  Option show_default() const;
  Option on_value(std::function<void()> seen) const;

 private:
  CLI::Option* option_;
};

using Run = std::function<Status()>;

// The command that the user chose. Its options are checked for the kind of its input; then it runs.
struct Chosen {
  std::function<Result<CommandInput>()> input;  // empty: the command reads one kind
  Run run;
};

// A command, to which its options are added. The values that they write to must live as long as the
// command line.
class Command {
 public:
  Command(CLI::App* app, Chosen* chosen) : app_(app), chosen_(chosen) {}

  // Returns the same command. The subcommands added to it are listed under the name in its help.
  Command in_group(const std::string& name) const;
  Command subcommand(const std::string& name, const std::string& about) const;
  // Makes this a command that only has subcommands.
  void require_subcommand() const;
  // Value: int, double, std::string, std::vector<std::string>, Bytes, std::uint64_t.
  template <class Value>
  Option option(const std::string& names, Value* value, const std::string& help) const;
  Option flag(const std::string& names, bool* value, const std::string& help) const;
  void footer(const std::string& text) const;
  // Sets what the command does. `input`: for a command that reads several kinds (option_table.h).
  void run(Run run, std::function<Result<CommandInput>()> input = {}) const;

 private:
  CLI::App* app_;
  Chosen* chosen_;
  std::string group_ = "Commands";
};

// The whole command line of a program.
class CommandLine {
 public:
  CommandLine(const std::string& name, const std::string& about);
  ~CommandLine();

  Command root();
  // Parses, runs the chosen command, and prints an Error on stderr. Returns the exit status.
  int run(int argc, char** argv);

 private:
  int parse_and_run(int argc, char** argv);

  std::unique_ptr<CLI::App> app_;
  Chosen chosen_;
};

// Returns the value of --jobs, or for 0 the number of cores.
int jobs_or_cores(int jobs);

// Prints a line to standard error. Unprintable characters are escaped, and a long line is cut
// (base/xml.h).
void say(std::string_view line);

}  // namespace tandem
