#include "scenarios/fields.h"

namespace tandem {

const std::vector<Field>& fields() {
  static const std::vector<Field> kFields = [] {
    std::vector<Field> all = job_fields();
    for (Field& field : cluster_fields()) all.push_back(std::move(field));
    return all;
  }();
  return kFields;
}

}  // namespace tandem
