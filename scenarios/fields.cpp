#include "scenarios/fields.h"

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

}  // namespace tandem
