// tandem: one schedule, played by a simulator or by real devices.
#include <cstdio>
#include <functional>
#include <new>

#include <fmt/ranges.h>

#include "base/nearest.h"
#include "cli/commands.h"

namespace {

// An Error where a word stands in a command's place and is none.
tandem::Status check_commands(const CLI::App& app, int argc, char** argv) {
  const CLI::App* at = &app;
  for (int i = 1; i < argc && argv[i][0] != '-'; ++i) {
    std::vector<std::string> names;
    const CLI::App* next = nullptr;
    for (const CLI::App* command : at->get_subcommands({})) {
      names.push_back(command->get_name());
      if (names.back() == argv[i]) next = command;
    }
    if (names.empty()) return tandem::Done{};
    if (next == nullptr)
      return tandem::Error{
          fmt::format("found the command '{}', expected one of {}; the nearest is "
                      "'{}'",
                      argv[i], fmt::join(names, ", "), tandem::nearest(argv[i], names))};
    at = next;
  }
  return tandem::Done{};
}

int run(int argc, char** argv) {
  CLI::App app{
      "One schedule of a large training job, played by a simulated GPU cluster or by real "
      "devices."};
  app.name("tandem");
  app.set_version_flag("--version", "tandem 0.1.0");
  app.require_subcommand(1);
  app.footer(
      "Exit status: 0 done, 1 the run failed, 2 wrong use or bad input, 3 something needed is "
      "missing.\n"
      "Example: tandem simulate scenarios/megatron-sc21.toml");
  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    return std::string(error.what()) + "; see tandem --help\n";
  });
  tandem::Command chosen;
  tandem::add_simulate(&app, &chosen);
  tandem::add_sweep(&app, &chosen);
  tandem::add_run(&app, &chosen);
  tandem::add_compare(&app, &chosen);
  tandem::add_validate(&app, &chosen);
  tandem::add_bench(&app, &chosen);
  tandem::add_calibrate(&app, &chosen);
  tandem::add_schedule(&app, &chosen);
  tandem::add_topology(&app, &chosen);
  tandem::add_size(&app, &chosen);
  tandem::add_tune(&app, &chosen);
  tandem::add_pack(&app, &chosen);
  tandem::add_doctor(&app, &chosen);
  if (const tandem::Status known = check_commands(app, argc, argv); !known.ok()) {
    std::fprintf(stderr, "%s\n", known.error().message.c_str());
    return tandem::Error::BadInput;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : tandem::Error::BadInput;
  }
  const tandem::Status status = chosen();
  if (status.ok() && std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return 0;
  if (status.ok()) {
    std::fputs("standard output: found a write that failed, expected room for the results\n",
               stderr);
    return tandem::Error::Failed;
  }
  const std::string& message = status.error().message;  // empty: others have said it
  if (!message.empty()) std::fprintf(stderr, "%s\n", message.c_str());
  return status.error().kind;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fputs("found no memory left, expected a smaller run or a larger machine\n", stderr);
    return tandem::Error::Failed;
  }
}
