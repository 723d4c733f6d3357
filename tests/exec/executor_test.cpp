// The executor build and validation/gpu/run.sh: what they need is there, and the steps fit.
#include <fmt/format.h>
#include <sys/wait.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <regex>
#include <string>

#include "base/file.h"
#include "tests/folder.h"

using namespace tandem;

namespace {

// A shell's exit status; what it says goes to the file `said` of the folder.
int shell(const Folder& folder, const std::string& command) {
  const int status = std::system(fmt::format("cd '{}' && {{ {} ; }} >'{}/said' 2>&1 </dev/null",
                                             TANDEM_SOURCE_DIR, command, folder.path().string())
                                     .c_str());
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

std::string contents(const Folder& folder, const std::string& name) {
  const auto text = read_file(folder / name);
  REQUIRE(text.ok());
  return *text;
}

// run.sh on a GPU in virtual time.
int run_script(const Folder& folder, const std::string& variables) {
  return shell(folder,
               fmt::format("{} TANDEM='{}' TANDEM_PLUGINS='{}' validation/gpu/run.sh -q -o "
                           "'{}/results'",
                           variables, TANDEM_PROGRAM, TANDEM_FAKE_PLUGINS, folder.path().string()));
}

}  // namespace

TEST_CASE("what ./dev carry gathers is enough to configure with, and to compile what needs most") {
  const Folder folder;
  const std::string carried = folder / "carried";
  REQUIRE(shell(folder, fmt::format("cmake/carry '{}'", carried)) == 0);
  CHECK(contents(folder, "carried/README").find("fmt ") != std::string::npos);
  // A folder that is somebody else's stays as it is.
  CHECK(shell(folder, "cmake/carry .") == 2);

  REQUIRE(shell(folder, fmt::format("cmake/executor -B '{}/build' -DTANDEM_CUDA=OFF "
                                    "-DTANDEM_CARRIED='{}'",
                                    folder.path().string(), carried)) == 0);
  // Every header that is no compiler's and no C library's comes from there.
  REQUIRE(shell(folder, fmt::format("for f in base/csv base/file topology/cluster "
                                    "scenarios/config/setting cli/main; do c++ -std=c++20 -M -I. "
                                    "-DFMT_HEADER_ONLY -isystem '{}/include' $f.cpp; done",
                                    carried)) == 0);
  const std::string headers = contents(folder, "said");
  CHECK(headers.find("carried/include/boost/graph/adjacency_list.hpp") != std::string::npos);
  CHECK(headers.find("carried/include/fmt/format-inl.h") != std::string::npos);
  const std::regex elsewhere("/usr/(local/)?include/(boost|CLI|fmt|libfccp|nlohmann|toml)[^ ]*");
  std::smatch found;
  std::regex_search(headers, found, elsewhere);
  INFO(found.str());
  CHECK(found.empty());
}

TEST_CASE("cmake/executor builds with ninja or make, whichever is there, and says if neither is") {
  const Folder folder;
  std::filesystem::create_directory(folder / "bin");
  REQUIRE(shell(folder, fmt::format("ln -s $(command -v bash) $(command -v env) $(command -v "
                                    "dirname) '{}/bin'",
                                    folder.path().string())) == 0);
  const auto tool = [&](const std::string& name, const std::string& line) {
    const std::string path = folder.with("bin/" + name, "#!/usr/bin/env bash\n" + line + "\n");
    std::filesystem::permissions(path, std::filesystem::perms(0755));
  };
  tool("cmake", "echo \"$CMAKE_GENERATOR: $*\"");
  const auto said = [&](int status) {
    CHECK(shell(folder, fmt::format("PATH='{}/bin' CMAKE_GENERATOR= cmake/executor -DA=B",
                                    folder.path().string())) == status);
    return contents(folder, "said");
  };
  CHECK(said(3) == "found neither ninja nor make, expected one of them\n");
  tool("make", "");
  CHECK(said(0) == "Unix Makefiles: --preset executor -DA=B\n");
  tool("ninja", "");
  CHECK(said(0) == "Ninja: --preset executor -DA=B\n");
}

TEST_CASE("validation/gpu/run.sh runs its steps and writes its results") {
  const Folder folder;
  const int status = run_script(folder, "");
  INFO(contents(folder, "said"));
  CHECK(status == 0);
  for (const char* name : {"spin.csv", "gemm.csv", "copy.csv", "costs-2.csv", "links.toml"})
    CHECK(contents(folder, std::string("results/") + name).size() > 100);
  const std::string page = contents(folder, "results/results.md");
  INFO(page);
  CHECK(page.find("**All bounds hold.**") != std::string::npos);
  CHECK(page.find("driver ") != std::string::npos);
}

TEST_CASE("validation/gpu/run.sh goes on where a step fails, and says which did") {
  const Folder folder;
  CHECK(run_script(folder, "TANDEM_FAKE_FAULT=1:0") == 1);  // wherever messages are checked
  const std::string said = contents(folder, "said");
  for (const char* what :
       {"NOT OK: small runs in every way (exit status 1)", "received other bytes",
        "missed: suite spin, P=2", "missed: suite gemm, P=2"}) {
    INFO(what);
    CHECK(said.find(what) != std::string::npos);
  }
  CHECK(contents(folder, "results/log").find("received other bytes") != std::string::npos);
  CHECK(contents(folder, "results/results.md").find("**Missed:**") != std::string::npos);
}

TEST_CASE("validation/gpu/run.sh says what is missing where there is no GPU") {
  const Folder folder;
  CHECK(run_script(folder, "TANDEM_FAKE_GPUS=0") == 3);
  CHECK(contents(folder, "said").find("cuda backend unavailable") != std::string::npos);
}
