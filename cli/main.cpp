// tandem: one schedule, played by a simulator or by real devices.
#include "base/memory.h"
#include "cli/commands.h"

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
  tandem::add_simulate(app);
  tandem::add_sweep(app);
  tandem::add_run(app);
  tandem::add_compare(app);
  tandem::add_trace(app);
  tandem::add_validate(app);
  tandem::add_bench(app);
  tandem::add_calibrate(app);
  tandem::add_schedule(app);
  tandem::add_topology(app);
  tandem::add_size(app);
  tandem::add_tune(app);
  tandem::add_pack(app);
  tandem::add_import(app);
  tandem::add_export(app);
  tandem::add_doctor(app);
  return line.run(argc, argv);
}

}  // namespace

int main(int argc, char** argv) {
  tandem::keep_freed_memory();
  tandem::use_large_pages();
  return run(argc, argv);
}
