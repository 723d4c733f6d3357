// The plugin libtandem_cuda.so opens everywhere, and says what is missing where it cannot go on.
#include <catch2/catch.hpp>

#include "base/plugin.h"
#include "exec/cuda/gpu.h"
#include "tests/text.h"

using namespace tandem;

namespace {

template <class Function>
Function plugin_function(const char* name) {
  const auto symbol = plugin_symbol("libtandem_cuda.so", name);
  INFO((symbol.ok() ? "" : symbol.error().text()));
  REQUIRE(symbol.ok());
  return reinterpret_cast<Function>(*symbol);
}

}  // namespace

TEST_CASE("the cuda plugin counts GPUs, or says that there is no NVIDIA driver or GPU") {
  const Result<int> count = plugin_function<GpuCount>(kGpuCountSymbol)();
  if (count.ok()) {
    CHECK(*count > 0);
    return;
  }
  INFO(count.error().text());
  CHECK(count.error().kind == Error::Missing);
  CHECK((has(count.error().text(), "no NVIDIA driver: cudaGetDeviceCount: ") ||
         has(count.error().text(), "no NVIDIA GPU: cudaGetDeviceCount: ")));
}

TEST_CASE("a GPU that is not there is missing, not broken") {
  const Result<int> count = plugin_function<GpuCount>(kGpuCountSymbol)();
  constexpr int kNobodyHasSoMany = 1000;
  const auto open = plugin_function<OpenGpu>(kGpuSymbol);
  for (const int number : {-1, kNobodyHasSoMany}) {
    const Result<Gpu*> gpu = open(number);
    REQUIRE(!gpu.ok());
    INFO(gpu.error().text());
    CHECK(gpu.error().kind == Error::Missing);
    if (count.ok()) {
      CHECK(has(gpu.error().text(), "found " + std::to_string(*count) + " GPU"));
    } else {
      CHECK(gpu.error().text() == count.error().text());
    }
  }
}
