// Orders that are found, on many random pipelines.
#include "tests/schedule/search_checks.h"

namespace tandem {

TEST_CASE("200 random pipelines: never above the best named order, below on most uneven ones") {
  check_random_cases(200, 400);
}

}  // namespace tandem
