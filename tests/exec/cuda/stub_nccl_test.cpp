// The plugin libtandem_cuda.so on libraries that have the functions of several versions of NCCL.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/sandbox.h"
#include "tests/text.h"

using namespace tandem;

namespace {

// Where plugins stand: its C++ on mocks of CUDA, and where a CUDA toolkit is the one that users
// get.
std::vector<std::string> plugin_folders() {
#ifdef TANDEM_REAL_PLUGINS
  return {TANDEM_MOCKED_PLUGINS, TANDEM_REAL_PLUGINS};
#else
  return {TANDEM_MOCKED_PLUGINS};
#endif
}

}  // namespace

TEST_CASE("the plugin opens with an older NCCL than it was built with, and doctor names both") {
  const std::string plugins = GENERATE(from_range(plugin_folders()));
  const Sandbox sandbox;
  const auto doctor = [&](const std::string& version) {
    const Ran ran = sandbox.tandem(
        "doctor", "TANDEM_PLUGINS=" + plugins + " LD_LIBRARY_PATH=" TANDEM_STUB_NCCL "/" + version);
    INFO(ran.out << ran.err);
    CHECK(ran.status == 0);
    return ran.out;
  };
  for (const auto& [version, text] : {std::pair{"21805", "2.18.5"},
                                      {"22304", "2.23.4"},
                                      {"22703", "2.27.3"},
                                      {"22809", "2.28.9"}}) {
    const std::string said = doctor(version);
    INFO(said);
    CHECK(has(said, std::string(", found ") + text + " "));
    CHECK(!has(said, "undefined symbol"));
  }
  // What is not optional is missed by name.
  const std::string older = doctor("21300");
  INFO(older);
  CHECK(has(older, "undefined symbol: ncclComm"));
  CHECK(!has(older, "built with"));
}
