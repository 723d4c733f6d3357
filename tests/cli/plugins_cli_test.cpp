// Where plugins are looked for: in the installation and in the folder that is named, nowhere else.
#include <filesystem>
#include <string>

#include "tests/sandbox.h"

using namespace tandem;

namespace {

// A folder with strays that have the plugins' names, in which the program runs, and which the
// loader is told to look into; so does an empty entry.
struct Strays {
  Sandbox box;
  std::string environment =
      fmt::format("TANDEM_STRAY='{0}/loaded' LD_LIBRARY_PATH='{0}:'", box.path("."));

  Strays() {
    box.file("run.toml", kTwoStages);
    for (const char* name : {"simgrid", "mpi", "cuda", "loopback"})
      std::filesystem::copy(TANDEM_STRAY_PLUGIN,
                            box.path(fmt::format("libtandem_{}.so", name).c_str()));
  }
  bool any_loaded() const { return std::filesystem::exists(box.path("loaded")); }
};

}  // namespace

TEST_CASE("no plugin is taken from the working folder or from LD_LIBRARY_PATH") {
  const Strays strays;
  for (const char* command :
       {"simulate run.toml --engine simgrid", "run run.toml --backend mpi --iterations 1",
        "run run.toml --backend cuda --iterations 1", "doctor"}) {
    INFO(command);
    const Ran ran = strays.box.tandem(command, strays.environment);
    CHECK(!strays.any_loaded());
    CHECK(ran.status == strays.box.tandem(command).status);
  }
}

TEST_CASE("a plugin is taken from the folder that TANDEM_PLUGINS names by an absolute path") {
  const Strays strays;
  const Ran relative = strays.box.tandem("doctor", strays.environment + " TANDEM_PLUGINS=.");
  CHECK(relative.out.find("TANDEM_PLUGINS: found ., expected an absolute path") !=
        std::string::npos);
  CHECK(!strays.any_loaded());
  strays.box.tandem(
      "doctor", fmt::format("{} TANDEM_PLUGINS='{}'", strays.environment, strays.box.path(".")));
  CHECK(strays.any_loaded());
}
