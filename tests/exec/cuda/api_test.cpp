// The declarations that the mocks are built with are CUDA's, NCCL's and cuBLASLt's.
#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

namespace tandem {

using ApiValues = std::vector<std::pair<std::string, long long>>;
ApiValues values_of_mocks();
ApiValues values_of_toolkit();

}  // namespace tandem

TEST_CASE("the constants that the mocks are built with are the toolkit's") {
  const auto ours = tandem::values_of_mocks(), theirs = tandem::values_of_toolkit();
  REQUIRE(ours.size() == theirs.size());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    INFO(ours[i].first << ": " << ours[i].second << ", the toolkit's " << theirs[i].second);
    CHECK(ours[i] == theirs[i]);
  }
}
