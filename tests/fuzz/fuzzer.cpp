// The fuzzer: libFuzzer on one target, TANDEM_FUZZ=NAME. Without a name it lists them.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "tests/fuzz/targets.h"

namespace {

tandem::FuzzTarget chosen() {
  const char* const name = std::getenv("TANDEM_FUZZ");
  for (const tandem::FuzzTarget& target : tandem::all_targets()) {
    if (name == nullptr) {
      std::printf("%s\n", std::string(target.name).c_str());
    } else if (target.name == name) {
      return target;
    }
  }
  if (name != nullptr) std::fprintf(stderr, "found no fuzz target %s\n", name);
  std::exit(name == nullptr ? 0 : 2);
}

const tandem::FuzzTarget& target() {
  static const tandem::FuzzTarget own = chosen();
  return own;
}

}  // namespace

// TANDEM_FUZZ_SEEDS: a folder that the target's seeds are written to, for a corpus.
extern "C" int LLVMFuzzerInitialize(int*, char***) {
  (void)target();
  if (const char* const folder = std::getenv("TANDEM_FUZZ_SEEDS")) {
    std::filesystem::create_directories(folder);
    int number = 0;
    for (const std::string& seed : target().seeds())
      std::ofstream(std::string(folder) + "/seed" + std::to_string(number++), std::ios::binary)
          << seed;
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    tandem::run_target(target(), {reinterpret_cast<const char*>(data), size});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "broken promise: %s\n", error.what());
    std::abort();
  }
  return 0;
}
