// tandem: one schedule, played by a simulator or by real devices.
#include <cstdio>
#include <functional>

#include "cli/commands.h"

namespace {

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
  tandem::add_schedule(&app, &chosen);
  tandem::add_topology(&app, &chosen);
  tandem::add_doctor(&app, &chosen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : tandem::Error::BadInput;
  }
  const tandem::Status status = chosen();
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.error().message.c_str());
  return status.error().kind;
}

}  // namespace

int main(int argc, char** argv) { return run(argc, argv); }
