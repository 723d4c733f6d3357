// Runs a command line in these steps: names of commands are checked, CLI11 parses the options, the
// option table is asked whether each has an effect, and the command runs.
#include "cli/command_line/command_line.h"
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <limits>
#include <new>
#include <sstream>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>

#include "base/memory.h"
#include "base/nearest.h"
#include "base/xml.h"
#include "cli/command_line/help_text.h"
#include "cli/command_line/shell_files.h"
#include "cli/command_line/version.h"
#include "launch/exit_status.h"
#include "launch/standard_output.h"

namespace tandem {
namespace {

// Returns an Error if a word in a command's place is no command.
Status check_commands(const CLI::App& app, int argc, char** argv) {
  const CLI::App* parent = &app;
  for (int i = 1; i < argc && argv[i][0] != '-'; ++i) {
    std::vector<std::string> names;
    const CLI::App* next = nullptr;
    for (const CLI::App* command : parent->get_subcommands({})) {
      names.push_back(command->get_name());
      if (names.back() == argv[i]) next = command;
    }
    if (names.empty()) return Done{};
    if (next == nullptr)
      return Error{fmt::format("found the command '{}', expected one of {}; the nearest is '{}'",
                               argv[i], fmt::join(names, ", "), nearest(argv[i], names))};
    parent = next;
  }
  return Done{};
}

// Returns an Error if an option has no effect on the chosen command's input (option_table.h).
Status check_chosen(const CLI::App& app, const Chosen& chosen) {
  const CLI::App* command = &app;
  std::string name;
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
    name += (name.empty() ? "" : " ") + command->get_name();
  }
  std::vector<OptionState> options;
  for (const CLI::Option* option : command->get_options()) {
    if (!option->nonpositional()) continue;
    const bool given = option->count() > 0;
    options.push_back({option->get_name(), given,
                       given ? option->results() : std::vector{option->get_default_str()}});
  }
  CommandInput input;
  if (chosen.input) {
    ASSIGN_OR_RETURN(input, chosen.input());
  }
  return check_options(name, input, options);
}

// Checks for a whole number of at least 1 that an int can hold. CLI11's own check would answer 0
// with the range of doubles, say of a larger number only that it cannot be converted, and take 010
// for 8.
CLI::Validator count() {
  return {[](const std::string& text) {
            const bool digits = text.find_first_not_of("0123456789") == std::string::npos;
            if (!digits || text.empty() || text.front() == '0')
              return fmt::format("found {}, expected a whole number of at least 1", text);
            int value = 0;
            return CLI::detail::lexical_cast(text, value)
                       ? std::string()
                       : fmt::format("found {}, expected at most {}", text,
                                     std::numeric_limits<int>::max());
          },
          "POSITIVE"};
}

// Checks for a number above 0. CLI11's own check lets nan pass.
CLI::Validator above_zero() {
  return {[](const std::string& text) {
            double value = 0;
            const bool is_number = CLI::detail::lexical_cast(text, value) && std::isfinite(value);
            return is_number && value > 0
                       ? std::string()
                       : fmt::format("found {}, expected a number above 0", text);
          },
          "POSITIVE"};
}

// Checks for a number from `least` to `most`. CLI11's own check lets nan pass.
template <class Number>
CLI::Validator within(Number least, Number most) {
  constexpr const char* kNumber = std::is_floating_point_v<Number> ? "{:g}" : "{}";
  const auto written = [](Number number) { return fmt::format(fmt::runtime(kNumber), number); };
  return {[=](const std::string& text) {
            Number value{};
            const bool is_number = CLI::detail::lexical_cast(text, value);
            return is_number && least <= value && value <= most
                       ? std::string()
                       : fmt::format("found {}, expected {} to {}", text, written(least),
                                     written(most));
          },
          CLI::Range(least, most).get_description()};
}

// Flushes standard output. Returns the exit status of a program that has printed all its results.
int end_of_output() {
  std::FILE* const results = standard_output();
  if (std::fflush(results) == 0 && std::ferror(results) == 0) return 0;
  say("standard output: found a write that failed, expected room for the results");
  return exit_status(Error::Failed);
}

}  // namespace

Option Option::required() const { return Option(option_->required()); }
Option Option::one_of(const std::vector<std::string>& values) const {
  return Option(option_->check(CLI::IsMember(values)));
}
Option Option::range(int least, int most) const {
  return Option(option_->check(within(least, most)));
}
Option Option::range(double least, double most) const {
  return Option(option_->check(within(least, most)));
}
Option Option::range(Bytes least, Bytes most) const {
  return Option(option_->check(within(least, most)));
}
Option Option::at_least_one() const { return Option(option_->check(count())); }
Option Option::positive() const { return Option(option_->check(above_zero())); }
Option Option::not_negative() const { return Option(option_->check(CLI::NonNegativeNumber)); }
Option Option::one_value_each() const { return Option(option_->allow_extra_args(false)); }
Option Option::as_size() const { return Option(option_->transform(CLI::AsSizeValue(false))); }
Option Option::excludes(const Option& other) const {
  return Option(option_->excludes(other.option_));
}
Option Option::show_default() const { return Option(option_->capture_default_str()); }
Option Option::on_value(std::function<void()> seen) const {
  return Option(option_->each([seen = std::move(seen)](const std::string&) { seen(); }));
}

Command Command::subcommand(const std::string& name, const std::string& about) const {
  return {app_->add_subcommand(name, about)->group(group_), chosen_};
}

Command Command::in_group(const std::string& name) const {
  Command grouped = *this;
  grouped.group_ = name;
  return grouped;
}

void Command::require_subcommand() const { app_->require_subcommand(1); }

template <class Value>
Option Command::option(const std::string& names, Value* value, const std::string& help) const {
  return Option(app_->add_option(names, *value, help));
}
template Option Command::option(const std::string&, int*, const std::string&) const;
template Option Command::option(const std::string&, double*, const std::string&) const;
template Option Command::option(const std::string&, std::string*, const std::string&) const;
template Option Command::option(const std::string&, std::vector<std::string>*,
                                const std::string&) const;
template Option Command::option(const std::string&, Bytes*, const std::string&) const;
template Option Command::option(const std::string&, std::uint64_t*, const std::string&) const;

Option Command::flag(const std::string& names, bool* value, const std::string& help) const {
  return Option(app_->add_flag(names, *value, help));
}

void Command::footer(const std::string& text) const { app_->footer(text); }

void Command::run(Run run, std::function<Result<CommandInput>()> input) const {
  app_->callback(
      [chosen = chosen_, mine = Chosen{std::move(input), std::move(run)}] { *chosen = mine; });
}

CommandLine::CommandLine(const std::string& name, const std::string& about)
    : app_(std::make_unique<CLI::App>(about)) {
  app_->name(name);
  app_->formatter(help_text());
  app_->set_version_flag("--version", fmt::format("{} {}", name, version()));
  app_->require_subcommand(1);
  app_->add_option_function<std::string>(
          "--shell-file",
          [this](const std::string& kind) {
            fmt::print(standard_output(), "{}", shell_file(*app_, kind));
            throw CLI::Success();
          },
          "print the manual page, or the completion for a shell")
      ->check(CLI::IsMember(shell_file_kinds()))
      ->trigger_on_parse();
  app_->failure_message([](const CLI::App* app, const CLI::Error& error) {
    return fmt::format("{}; see {} --help\n", printable(kept_short(error.what())), app->get_name());
  });
}

CommandLine::~CommandLine() = default;

Command CommandLine::root() { return {app_.get(), &chosen_}; }

int CommandLine::run(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // beyond the limit of a file's size a write fails instead
  try {
    return parse_and_run(argc, argv);
  } catch (const std::bad_alloc&) {
    say(out_of_memory().text());
    return exit_status(Error::Failed);
  } catch (const std::system_error& e) {
    const bool is_print = std::string_view(e.what()).starts_with("cannot write to file");  // fmt's
    say(is_print
            ? fmt::format("standard output: {}, expected room for the results", e.code().message())
            : e.what());
    return exit_status(Error::Failed);
  }
}

int CommandLine::parse_and_run(int argc, char** argv) {
  // "tandem help size" is "tandem size --help".
  std::string word = "--help";
  std::vector<char*> words(argv, argv + argc);
  if (argc > 1 && std::string_view(argv[1]) == "help") {
    words.erase(words.begin() + 1);
    words.push_back(word.data());
    argv = words.data();
  }
  if (const Status known = check_commands(*app_, argc, argv); !known.ok()) {
    say(known.error().text());
    return exit_status(Error::BadInput);
  }
  try {
    app_->parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    std::ostringstream out;
    if (app_->exit(e, out, std::cerr) != 0) return exit_status(Error::BadInput);
    fmt::print(standard_output(), "{}", out.str());
    return end_of_output();
  }
  Status status = check_chosen(*app_, chosen_);
  if (status.ok()) status = chosen_.run();
  if (status.ok()) return end_of_output();
  const std::string message = status.error().text();  // empty: the ranks have said it
  if (!message.empty()) say(message);
  return exit_status(status.error());
}

void say(std::string_view line) {
  // Does not use fmt::print(), which throws if nobody reads stderr.
  std::fputs((printable(kept_short(line)) + '\n').c_str(), stderr);
}

int jobs_or_cores(int jobs) {
  return jobs > 0 ? jobs : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace tandem
