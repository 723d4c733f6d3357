// The keys of [validate]. Declared in scenarios/fields.h.
#include "scenarios/fields.h"

namespace tandem {

std::vector<Field> validate_fields() {
  std::map<std::string, std::string> all;
  for (const std::string_view backend : kBackendNames) all.emplace(backend, backend);
  return {
      Field(keys::choice<std::string>("validate.backend", all, AT(measurement.backend)))
          .filled(fmt::join(kBackendNames, ", "), kBackendNames.front()),
      keys::choice<Compute>("validate.compute",
                            {{"timed", Compute::Timed}, {"gemm", Compute::Gemm}},
                            AT(measurement.compute)),
      keys::flag("validate.share_gpu", AT(measurement.share_gpu)),
      keys::choice<GpuTransfers>("validate.transfers",
                                 {{"nccl", GpuTransfers::Nccl},
                                  {"copy", GpuTransfers::Copy},
                                  {"priced", GpuTransfers::Priced}},
                                 AT(measurement.transfers)),
      keys::text("validate.launch", AT(measurement.launch)),
      keys::number("validate.iteration_percent", AT(measurement.iteration_percent), 1,
                   keys::kPositive),
      keys::number("validate.communicating_percent", AT(measurement.communicating_percent), 1,
                   keys::kPositive),
      keys::number("validate.bubble_points", AT(measurement.bubble_points), 1, keys::kPositive),
      keys::number("validate.overlap_points", AT(measurement.overlap_points), 1, keys::kPositive),
      keys::number("validate.own_iteration_percent", AT(measurement.own_iteration_percent), 1,
                   keys::kPositive),
      keys::number("validate.own_bubble_points", AT(measurement.own_bubble_points), 1,
                   keys::kPositive),
      keys::number("validate.own_overlap_points", AT(measurement.own_overlap_points), 1,
                   keys::kPositive)};
}

}  // namespace tandem
