// tandem-fit: fits the cost model's constants to runs that others measured, and says how near they
// come.

#include "cli/fit/fit_commands.h"

int main(int argc, char** argv) {
  tandem::CommandLine line("tandem-fit",
                           "Fits the cost model to runs that others measured, and tells how near "
                           "its predictions come.");
  const tandem::Command app = line.root();
  app.footer(
      "Exit status: 0 done, 1 the run failed, 2 wrong use or bad input.\n"
      "Example: tandem-fit published validation/published/cases.csv --steps 1");
  tandem::add_published(app);
  tandem::add_calibrated(app);
  tandem::add_accuracy(app);
  tandem::add_comparisons(app);
  tandem::add_kernels(app);
  return line.run(argc, argv);
}
