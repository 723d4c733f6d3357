// tandem: one schedule, played by a simulator or by real devices.
#include "base/memory.h"
#include "cli/command_line/commands.h"
#include "launch/standard_output.h"

namespace {

int run(int argc, char** argv) {
  tandem::CommandLine line(
      "tandem",
      "One schedule of a large training job, played by a simulated GPU cluster or by real "
      "devices.");
  const tandem::Command app = line.root();
  app.footer(
      "Exit status: 0 done, 1 the run failed, 2 wrong use or bad input, 3 something needed is "
      "missing.\n"
      "Example: tandem simulate scenarios/megatron-sc21.toml");
  const tandem::Command plan = app.in_group("Plan");
  tandem::add_tune(plan);
  tandem::add_size(plan);
  tandem::add_pack(plan);
  const tandem::Command simulate = app.in_group("Simulate");
  tandem::add_simulate(simulate);
  tandem::add_sweep(simulate);
  tandem::add_explore(simulate);
  tandem::add_schedule(simulate);
  tandem::add_topology(simulate);
  const tandem::Command run = app.in_group("Run for real");
  tandem::add_run(run);
  tandem::add_bench(run);
  tandem::add_calibrate(run);
  tandem::add_doctor(run);
  const tandem::Command compare = app.in_group("Compare with what was measured");
  tandem::add_compare(compare);
  tandem::add_explain(compare);
  tandem::add_trace(compare);
  tandem::add_validate(compare);
  const tandem::Command exchange = app.in_group("Exchange with other tools");
  tandem::add_import(exchange);
  tandem::add_export(exchange);
  return line.run(argc, argv);
}

}  // namespace

int main(int argc, char** argv) {
  tandem::fill_closed_streams();
  tandem::keep_freed_memory();
  tandem::use_large_pages();
  return run(argc, argv);
}
