// A table of constants with their spreads, from which a run's are picked by its plan and evidence,
// and the moves of their keys in a profile.
#include "validation/calibrate/run_constants.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string_view>

#include "base/check.h"
#include "validation/published/profile_text.h"

namespace tandem {
namespace {

// The spreads are round numbers of our own. For constants that an iteration's time moves, we took
// those that give `tandem-fit calibrated` small errors. So its errors are of families that helped
// to choose the spreads.
// Columns: keys, spread, is_sum, told_by_iteration, told_by_ops. Example: tensor_overhead_us is a
// sum, usually off by 200 us, which ops tell and an iteration's time does not.
const std::vector<RunConstant>& all_constants() {
  static const std::vector<RunConstant> kAll = {
      {{"compute_stretch"}, 0.1, false, true, true},
      {{"forward_launch_ms", "backward_launch_ms", "tensor_launch_ms", "wide_tensor_launch_ms"},
       0.4,
       false,
       true,
       true},
      {{"expert_launch_ms"}, 2, true, true, false},
      {{"attention_share"}, 0.2, false, true, true},
      {{"optimizer_bytes"}, 0.3, false, false, true},
      {{"iteration_overhead_ms"}, 20, true, false, true},
      {{"tensor_stretch"}, 0.3, false, true, true},
      {{"partial_tensor_stretch"}, 0.5, false, true, true},
      {{"tensor_overhead_us"}, 200, true, false, true},
      {{"pipeline_overhead_us"}, 200, true, false, true},
      {{"data_stretch"}, 0.5, false, true, true},
      {{"zero3_stretch"}, 0.5, false, true, true}};
  return kAll;
}

const ProfileField& field_of(const char* key) {
  const auto fields = profile_fields();
  const auto field =
      std::ranges::find(fields, std::string_view(key), [](const ProfileField& f) { return f.key; });
  CHECK(field != fields.end());
  return *field;
}

}  // namespace

std::vector<RunConstant> run_constants(const Plan& plan, int gpus_per_node, bool ops) {
  // partial_tensor_stretch only counts in tensor groups smaller than a node. There it multiplies
  // tensor_stretch, and a run tells only their product. So one of the two stays.
  const std::string_view fixed =
      plan.tp < gpus_per_node ? "tensor_stretch" : "partial_tensor_stretch";
  std::vector<RunConstant> some;
  for (const RunConstant& each : all_constants()) {
    if ((ops ? each.told_by_ops : each.told_by_iteration) && each.keys.front() != fixed)
      some.push_back(each);
  }
  return some;
}

std::vector<std::string> run_constant_keys() {
  std::vector<std::string> keys;
  for (const RunConstant& each : all_constants())
    keys.insert(keys.end(), each.keys.begin(), each.keys.end());
  return keys;
}

FrameworkProfile moved_profile(FrameworkProfile profile, std::span<const RunConstant> constants,
                               std::span<const double> values) {
  CHECK(constants.size() == values.size());
  for (std::size_t k = 0; k < constants.size(); ++k) {
    for (const char* key : constants[k].keys) {
      const ProfileField& field = field_of(key);
      double& value = profile.*field.place;
      value = constants[k].is_sum ? std::max(0.0, value + values[k] * field.unit)
                                  : value * std::exp(values[k]);
    }
  }
  return profile;
}

FrameworkProfile rounded_profile(FrameworkProfile profile, std::span<const RunConstant> constants) {
  for (const RunConstant& constant : constants) {
    for (const char* key : constant.keys) {
      const ProfileField& field = field_of(key);
      profile.*field.place = rounded(profile.*field.place / field.unit) * field.unit;
    }
  }
  return profile;
}

double value_of(const FrameworkProfile& profile, const char* key) {
  const ProfileField& field = field_of(key);
  return profile.*field.place / field.unit;
}

}  // namespace tandem
