// Orders that are found, on many random pipelines and on all golden rows.
#include "tests/schedule/search_checks.h"

namespace tandem {

TEST_CASE("200 random pipelines: never above the best named order, below on most uneven ones") {
  check_random_cases(200, 400);
}

TEST_CASE("all golden rows: never above the best named order that fits, nor above the reference") {
  check_golden_rows(1, 300);
}

}  // namespace tandem
