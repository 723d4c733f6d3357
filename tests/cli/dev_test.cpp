// ./dev, the front door, with cmake and the program replaced by stand-ins that tell what they were
// asked for.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "base/split.h"
#include "tests/folder.h"
#include "tests/sandbox.h"
#include "tests/text.h"

using namespace tandem;
using Catch::Contains;

namespace fs = std::filesystem;

namespace {

// A copy of ./dev on a machine of two cores that lacks no package.
class DevCopy {
 public:
  DevCopy() {
    fs::copy(fs::path(TANDEM_SOURCE_DIR) / "dev", folder_.path() / "dev");
    fs::create_directory(folder_.path() / "bin");
    stand_in("bin/dpkg-query", "echo 'install ok installed'");
    stand_in("bin/cmake", "echo \"cmake $*\" >>'" + folder_ / "calls" + "'");
    stand_in("bin/nproc", "echo 2");
  }

  void program(const std::string& prints) {
    fs::create_directories(folder_.path() / "build/release");
    stand_in("build/release/tandem", prints);
  }

  // stdout and stderr together.
  std::string run(const std::string& arguments) const {
    const std::string file = folder_ / "output";
    const std::string command = fmt::format("env -u COLUMNS PATH='{}':\"$PATH\" '{}' {} >'{}' 2>&1",
                                            folder_ / "bin", folder_ / "dev", arguments, file);
    INFO(command);
    REQUIRE(std::system(command.c_str()) == 0);
    return contents(file);
  }

  std::string calls() const { return contents(folder_ / "calls"); }

 private:
  void stand_in(const std::string& name, const std::string& does) const {
    std::ofstream(folder_ / name) << "#!/bin/sh\n" << does << '\n';
    fs::permissions(folder_ / name, fs::perms::owner_all);
  }

  Folder folder_;
};

}  // namespace

TEST_CASE("./dev install builds what is installed, and copies it") {
  const DevCopy dev;
  const std::string output = dev.run("install there");
  CHECK_THAT(output, Contains("on 2 cores some 6 minutes"));
  CHECK(dev.calls() ==
        "cmake --preset release\ncmake --build --preset release --target installed\n"
        "cmake --install build/release --prefix there\n");
}

TEST_CASE("no test is among what is installed") {
  const Folder folder;
  const std::string file = folder / "inputs";
  if (!fs::exists(TANDEM_BINARY_DIR "/build.ninja")) FAIL("skipped: no Ninja here");
  const std::string command =
      fmt::format("ninja -C '{}' -t inputs installed >'{}'", TANDEM_BINARY_DIR, file);
  if (std::system(command.c_str()) != 0) FAIL("skipped: this Ninja tells no inputs");
  const std::string inputs = contents(file);
  CHECK_THAT(inputs, Contains("tandem-fit"));
  CHECK_THAT(inputs, !Contains("tests/"));
}

TEST_CASE("./dev demo says its warnings first and ends with the table") {
  DevCopy dev;
  dev.program(
      "echo 'warning: small' >&2; printf 'model  GPUs\\n39B    512\\n\\nmodel  MFU\\n39B     33\\n"
      "\\n39B: compute\\n  74 %%\\n\\nA note.\\n'");
  CHECK(dev.run("demo") ==
        "warning: small\n39B: compute\n  74 %\n\nA note.\n\n"
        "Trace of 76B on Jean-Zay-style links: build/demo.perfetto.json. To look at it, open\n"
        "https://ui.perfetto.dev, choose 'Open trace file', and zoom with W and S.\n"
        "\nmodel  GPUs\n39B    512\n\nmodel  MFU\n39B     33\n");
}
