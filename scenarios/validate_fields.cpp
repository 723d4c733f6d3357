// The keys of [validate].
#include "scenarios/fields.h"

namespace tandem {

std::vector<Field> validate_fields() {
  std::map<std::string, std::string> all;
  for (const std::string_view backend : kBackendNames) all.emplace(backend, backend);
  return {
      keys::choice<std::string>(
          "validate.backend",
          fmt::format("text: what tandem validate measures with: {}; default {}",
                      fmt::join(kBackendNames, ", "), kBackendNames.front()),
          all, AT(measurement.backend)),
      keys::choice<Compute>(
          "validate.compute",
          "text: timed (ops take their priced time) or gemm (they multiply matrices); "
          "default timed",
          {{"timed", Compute::Timed}, {"gemm", Compute::Gemm}}, AT(measurement.compute)),
      keys::flag(
          "validate.share_gpu",
          "true or false: with cuda, all ranks on one GPU, each on SMs of its own; default false",
          AT(measurement.share_gpu)),
      keys::choice<GpuTransfers>(
          "validate.transfers",
          "text: with validate.share_gpu, nccl, copy or priced: as tandem run "
          "--transfers; default nccl",
          {{"nccl", GpuTransfers::Nccl},
           {"copy", GpuTransfers::Copy},
           {"priced", GpuTransfers::Priced}},
          AT(measurement.transfers)),
      keys::text(
          "validate.launch",
          "text: a shell's words before the command that runs the ranks, with {preset}, "
          "{placement}, {ranks} and {folder} (the scenario's) filled in; default none: mpirun on "
          "this machine",
          AT(measurement.launch)),
      keys::number(
          "validate.iteration_percent",
          "number: what a simulated iteration, and its ratio to the baseline's, may differ from "
          "the measured one where compute takes longer than exposed communication; default 2",
          AT(measurement.iteration_percent), 1, keys::kPositive),
      keys::number("validate.communicating_percent",
                   "number: the same where it does not; default 4",
                   AT(measurement.communicating_percent), 1, keys::kPositive),
      keys::number("validate.bubble_points",
                   "number: percentage points that the bubble may differ by; default 2",
                   AT(measurement.bubble_points), 1, keys::kPositive),
      keys::number(
          "validate.overlap_points",
          "number: percentage points that the overlap of report.kind may differ by; default 3",
          AT(measurement.overlap_points), 1, keys::kPositive),
      keys::number(
          "validate.own_iteration_percent",
          "number: what the iteration may differ by that is simulated with the measured op "
          "times; default any",
          AT(measurement.own_iteration_percent), 1, keys::kPositive),
      keys::number("validate.own_bubble_points",
                   "number: percentage points, the same of its bubble; default any",
                   AT(measurement.own_bubble_points), 1, keys::kPositive),
      keys::number("validate.own_overlap_points",
                   "number: percentage points, the same of its overlap; default any",
                   AT(measurement.own_overlap_points), 1, keys::kPositive)};
}

}  // namespace tandem
