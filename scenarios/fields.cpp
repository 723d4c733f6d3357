#include "scenarios/fields.h"

#include <algorithm>

#include "scenarios/layer_kinds.h"

namespace tandem {

const std::vector<Field>& fields() {
  static const std::vector<Field> kFields = [] {
    std::vector<Field> all = job_fields();
    for (const auto& part : {cluster_fields(), validate_fields()})
      all.insert(all.end(), part.begin(), part.end());
    return all;
  }();
  return kFields;
}

bool is_scenario_key(const std::string& key) {
  return is_known_kind_key(key) ||
         std::ranges::any_of(fields(), [&](const Field& field) { return field.key == key; });
}

}  // namespace tandem
