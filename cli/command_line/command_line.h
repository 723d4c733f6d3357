// Commands, their options and the functions that they run. Only command_line.cpp, help_text.cpp and
// shell_files.cpp include CLI11, whose templates would take seconds to compile in every command's
// file.
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
  Option not_negative() const;
  // Has a repeatable option take one value each time.
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

// The chosen command. `input` says what it reads, so that its options can be checked; then `run`
// runs it.
struct Chosen {
  std::function<Result<CommandInput>()> input;
  Run run;
};

// A command, to which its options are added. The values they point to must live as long as the
// command line.
class Command {
 public:
  Command(CLI::App* app, Chosen* chosen) : app_(app), chosen_(chosen) {}

  // Returns the same command, whose subcommands stand together in its help.
  Command in_group(const std::string& name) const;
  Command subcommand(const std::string& name, const std::string& about) const;
  // Makes this a command that only has subcommands.
  void require_subcommand() const;
  // Value: int, double, std::string, std::vector<std::string>, Bytes, std::uint64_t.
  template <class Value>
  Option option(const std::string& names, Value* value, const std::string& help) const;
  Option flag(const std::string& names, bool* value, const std::string& help) const;
  void footer(const std::string& text) const;
  // `input`: for a command that reads several kinds (option_table.h).
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
  // Parses, runs the chosen command, and says what went wrong on stderr. Returns the exit status.
  int run(int argc, char** argv);

 private:
  int parse_and_run(int argc, char** argv);

  std::unique_ptr<CLI::App> app_;
  Chosen chosen_;
};

// Returns the value of --jobs, or for 0 the number of cores.
int jobs_or_cores(int jobs);

// Prints a line to standard error, with what users wrote escaped and cut (base/xml.h).
void say(std::string_view line);

}  // namespace tandem
