// The keys of [validate].
#include "scenarios/field_makers.h"

namespace tandem {

std::vector<Field> validate_fields() {
  return {
      choice<std::string>("validate.backend",
                          "text: host or mpi: what tandem validate measures with; default host",
                          {{"host", "host"}, {"mpi", "mpi"}}, AT(validation.backend)),
      text("validate.launch",
           "text: a shell's words before the command that runs the ranks, with {preset}, "
           "{placement}, {ranks} and {folder} (the scenario's) filled in; default none: mpirun on "
           "this machine",
           AT(validation.launch)),
      number("validate.iteration_percent",
             "number: what a simulated iteration, and its ratio to the baseline's, may differ from "
             "the measured one where compute takes longer than exposed communication; default 2",
             AT(validation.iteration_percent), 1, kPositive),
      number("validate.communicating_percent", "number: the same where it does not; default 4",
             AT(validation.communicating_percent), 1, kPositive),
      number("validate.bubble_points",
             "number: percentage points that the bubble may differ by; default 2",
             AT(validation.bubble_points), 1, kPositive),
      number("validate.overlap_points",
             "number: percentage points that the overlap of report.kind may differ by; default 3",
             AT(validation.overlap_points), 1, kPositive)};
}

}  // namespace tandem
