// The executor build and validation/gpu/run.sh: what they need is there, and the steps fit.
#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <iterator>
#include <random>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "tests/folder.h"
#include "tests/seed.h"
#include "tests/text.h"

using namespace tandem;

namespace {

using Names = std::vector<std::string>;

// A shell's exit status; what it says goes to the file `said` of the folder.
int shell(const Folder& folder, const std::string& command) {
  const int status = std::system(fmt::format("cd '{}' && {{ {} ; }} >'{}/said' 2>&1 </dev/null",
                                             TANDEM_SOURCE_DIR, command, folder.path().string())
                                     .c_str());
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

// run.sh on a GPU in virtual time, into the folder's results.
std::string script(const Folder& folder, const std::string& options,
                   const std::string& results = "results") {
  return fmt::format("TANDEM='{}' TANDEM_PLUGINS='{}' validation/gpu/run.sh {} -o '{}'",
                     TANDEM_PROGRAM, TANDEM_FAKE_PLUGINS, options, folder / results);
}

// What came back, as said: three files, and what the archive holds, unpacked.
Names unpacked(const Folder& folder, const std::string& results = "results") {
  const auto names_in = [&](const std::string& name) {
    Names names;
    for (const auto& entry : std::filesystem::directory_iterator(folder / name))
      names.push_back(entry.path().filename().string());
    std::ranges::sort(names);
    return names;
  };
  CHECK(names_in(results) == Names{"log", "results.md", "results.tar.gz"});
  const std::string into = results + ".unpacked";
  REQUIRE(shell(folder, fmt::format("rm -rf '{1}' && mkdir '{1}' && tar -xzf '{0}' -C '{1}'",
                                    folder / (results + "/results.tar.gz"), folder / into)) == 0);
  return names_in(into);
}

bool holds(const Names& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

}  // namespace

TEST_CASE("what ./dev carry gathers is enough to configure with, and to compile what needs most") {
  const Folder folder;
  const std::string carried = folder / "carried";
  REQUIRE(shell(folder, fmt::format("cmake/carry '{}'", carried)) == 0);
  CHECK(contents(folder / "carried/README").find("fmt ") != std::string::npos);
  // A folder that is somebody else's stays as it is.
  CHECK(shell(folder, "cmake/carry .") == 2);

  REQUIRE(shell(folder, fmt::format("cmake/executor -B '{}/build' -DTANDEM_CUDA=OFF "
                                    "-DTANDEM_CARRIED='{}'",
                                    folder.path().string(), carried)) == 0);
  // Every header that is no compiler's and no C library's comes from there.
  REQUIRE(shell(folder, fmt::format("for f in base/csv base/file topology/cluster "
                                    "scenarios/setting cli/main; do c++ -std=c++20 -M -I. "
                                    "-DFMT_HEADER_ONLY -isystem '{}/include' $f.cpp; done",
                                    carried)) == 0);
  const std::string headers = contents(folder / "said");
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
    return contents(folder / "said");
  };
  CHECK(said(3) == "found neither ninja nor make, expected one of them\n");
  tool("make", "");
  CHECK(said(0) == "Unix Makefiles: --preset executor -DA=B\n");
  tool("ninja", "");
  CHECK(said(0) == "Ninja: --preset executor -DA=B\n");
}

TEST_CASE("NCCL and cuBLASLt are found in Python's wheels, of the toolkit's CUDA") {
  const Folder folder;
  const std::string root = folder.path().string();
  // As the wheels nvidia-nccl-cu13, nvidia-cublas (CUDA 13) and nvidia-cublas-cu12 lay them out.
  const auto wheel = [&](const std::string& file, const std::string& text) {
    const std::string path = "site/nvidia/" + file;
    std::filesystem::create_directories(std::filesystem::path(folder / path).parent_path());
    folder.with(path, text);
  };
  wheel("nccl/include/nccl.h",
        "#define NCCL_MAJOR 2\n#define NCCL_MINOR 27\n#define NCCL_PATCH 7\n");
  wheel("nccl/lib/libnccl.so.2", "");
  for (const auto& [place, version] : {std::pair{"cu13", "13"}, {"cublas", "12"}}) {
    const std::string at = place;
    wheel(at + "/lib/libcublasLt.so." + version, "");
    wheel(at + "/include/cublasLt.h", "");
    wheel(at + "/include/cublas_api.h",
          fmt::format("#define CUBLAS_VER_MAJOR {}\n#define CUBLAS_VER_MINOR 4\n#define "
                      "CUBLAS_VER_PATCH 2\n",
                      version));
  }
  folder.with("CMakeLists.txt", fmt::format(R"(cmake_minimum_required(VERSION 3.25)
project(wheels LANGUAGES CXX)
list(APPEND CMAKE_MODULE_PATH {}/cmake)
set(CUDAToolkit_INCLUDE_DIRS ${{PROJECT_SOURCE_DIR}}/none)
set(CUDAToolkit_LIBRARY_DIR ${{PROJECT_SOURCE_DIR}}/none)
set(CMAKE_FIND_USE_CMAKE_SYSTEM_PATH OFF)
set(CMAKE_FIND_USE_SYSTEM_ENVIRONMENT_PATH OFF)
find_package(NCCL 2.18)
find_package(CublasLt)
message("nccl ${{NCCL_VERSION}} ${{NCCL_LIBRARY}}")
message("cublasLt ${{CublasLt_VERSION}} ${{CublasLt_LIBRARY}}")
)",
                                            TANDEM_SOURCE_DIR));
  const auto configured = [&](const char* cuda) {
    // Nothing of the system's, where there may be the real ones.
    const int status =
        shell(folder, fmt::format("PYTHONPATH='{0}/site' cmake -G Ninja -S '{0}' -B '{0}/build{1}' "
                                  "-DCUDAToolkit_VERSION_MAJOR={1} "
                                  "-DTANDEM_WHEELS_PYTHON=$(command -v python3)",
                                  root, cuda));
    INFO(contents(folder / "said"));
    REQUIRE(status == 0);
    return contents(folder / "said");
  };
  const std::string site = root + "/site/nvidia/", of_13 = configured("13"),
                    of_12 = configured("12"), of_14 = configured("14");
  INFO(of_13 << of_12 << of_14);
  CHECK(has(of_13, "nccl 2.27.7 " + site + "nccl/lib/libnccl.so.2\n"));
  CHECK(has(of_13, "cublasLt 13.4.2 " + site + "cu13/lib/libcublasLt.so.13\n"));
  CHECK(has(of_12, "cublasLt 12.4.2 " + site + "cublas/lib/libcublasLt.so.12\n"));
  CHECK(has(of_14, "Could NOT find CublasLt"));
}

TEST_CASE("a cuda backend that is required and cannot be had: one line says all that is missing") {
  const Folder folder;
  const std::string command = fmt::format(
      "CUDACXX=/none cmake/executor -B '{}/build' -DCMAKE_DISABLE_FIND_PACKAGE_NCCL=ON "
      "-DCMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON -DCMAKE_DISABLE_FIND_PACKAGE_MPI=ON ",
      folder.path().string());
  CHECK(shell(folder, command + "-DTANDEM_CUDA=REQUIRED") == 1);
  const std::string line =
      "cuda backend: not built, missing: nvcc of a CUDA toolkit from 12.5 on (in PATH); NCCL from "
      "2.18 on with nccl.h (NCCL_ROOT, or the wheel nvidia-nccl-cu13)\n";
  INFO(contents(folder / "said"));
  CHECK(has(contents(folder / "said"), line));
  CHECK(shell(folder, command + "-DTANDEM_CUDA=ON") == 0);
  CHECK(has(contents(folder / "said"), line));
}

TEST_CASE("validation/gpu/run.sh runs its steps and brings back a page, an archive and a log") {
  const Folder folder;
  const int status = shell(folder, script(folder, "-q -c abc123 -d 2031-05-17"));
  INFO(contents(folder / "said"));
  CHECK(status == 0);
  const Names archive = unpacked(folder);
  for (const char* name : {"spin-2.csv", "gemm-2.csv", "copy.csv", "costs-2.csv", "links.toml",
                           "spin-2.trace.csv", "smoke.trace.csv", "graph-2.csv", "doctor.txt"}) {
    INFO(name);
    REQUIRE(holds(archive, name));
    CHECK(contents(folder / std::string("results.unpacked/") + name).size() > 50);
  }
  CHECK(has(contents(folder / "results.unpacked/spin-2.trace.csv"), "# complete: yes"));
  const std::string page = contents(folder / "results/results.md");
  INFO(page);
  CHECK(has(page, "# One GPU, 2031-05-17"));
  CHECK(has(page, "Commit: abc123."));
  CHECK(has(page, "**All bounds hold** of what was run."));
  CHECK(has(page, "Not there: spin-4.csv, gemm-4.csv, spin-8.csv, gemm-8.csv."));
  CHECK(has(page, "driver "));
  CHECK(has(page, "| 2 | graph | "));
  CHECK(!has(page, "under way"));
}

TEST_CASE("validation/gpu/run.sh goes on where a step fails, says which did, and keeps its log") {
  const Folder folder;
  // Wherever messages are checked.
  CHECK(shell(folder, "TANDEM_FAKE_FAULT=1:0 " + script(folder, "-q")) == 1);
  const std::string said = contents(folder / "said");
  for (const char* what :
       {"NOT OK: small runs in every way (exit status 1)", "received other bytes",
        "missed: suite spin, P=2", "missed: suite gemm, P=2"}) {
    INFO(what);
    CHECK(has(said, what));
  }
  CHECK(holds(unpacked(folder), "failed-suite-spin-P=2.log"));
  CHECK(
      has(contents(folder / "results.unpacked/failed-suite-spin-P=2.log"), "received other bytes"));
  CHECK(has(contents(folder / "results/log"), "received other bytes"));
  const std::string page = contents(folder / "results/results.md");
  CHECK(has(page, "**Missed:**"));
  CHECK(has(page, "- suite spin, P=2: NOT OK, exit status 1"));
}

TEST_CASE("validation/gpu/run.sh says what is missing where there is no GPU") {
  const Folder folder;
  CHECK(shell(folder, "TANDEM_FAKE_GPUS=0 " + script(folder, "-q")) == 3);
  CHECK(has(contents(folder / "said"), "cuda backend unavailable"));
}

TEST_CASE("validation/gpu/run.sh: calls with some of the steps add up to one page") {
  const Folder folder;
  REQUIRE(shell(folder, script(folder, "-s spin -p '2 8' -c one", "a")) == 0);
  const Names first = unpacked(folder, "a");
  CHECK(holds(first, "spin-8.csv"));
  CHECK(holds(first, "copies-8.csv"));
  CHECK(!holds(first, "gemm-2.csv"));
  CHECK(!holds(first, "spin-4.csv"));
  // By NCCL more streams than queues: no bound is claimed, and by copies of the fewer ones.
  const std::string bounded = contents(folder / "a.unpacked/copies-8.csv");
  CHECK(!has(contents(folder / "a.unpacked/spin-8.csv"), "true,[]"));
  CHECK(has(bounded, "true"));
  CHECK(has(bounded, "false"));

  REQUIRE(shell(folder, script(folder, "-q -s gemm,graph -c two", "b")) == 0);
  REQUIRE(shell(folder, fmt::format("validation/gpu/run.sh -s page -o '{}' '{}' '{}'", folder / "c",
                                    folder / "a/results.tar.gz", folder / "b/results.tar.gz")) ==
          0);
  const Names both = unpacked(folder, "c");
  CHECK(holds(both, "spin-8.csv"));
  CHECK(holds(both, "gemm-2.csv"));
  const std::string page = contents(folder / "c/results.md");
  INFO(page);
  CHECK(has(page, "| suite spin, P=8 | ok |"));
  CHECK(has(page, "| one |"));
  CHECK(has(page, "| two |"));
  CHECK(has(page, "| - |"));
}

TEST_CASE("validation/gpu/run.sh works in a copy without git, and within a limit of time") {
  const Folder folder;
  REQUIRE(shell(folder, fmt::format("mkdir -p '{0}/validation' && cp -r validation/gpu "
                                    "'{0}/validation/gpu'",
                                    folder.path().string())) == 0);
  // It began five seconds ago, as bash has it.
  CHECK(shell(folder, fmt::format("cd '{}' && SECONDS=5 {}", folder.path().string(),
                                  script(folder, "-q -s spin -l 1"))) == 1);
  INFO(contents(folder / "said"));
  const std::string page = contents(folder / "results/results.md");
  CHECK(has(page, "Commit: unknown."));
  CHECK(has(page, "| suite spin, P=2 | left out: no time |"));
  unpacked(folder);
}

TEST_CASE("validation/gpu/run.sh refuses steps, stages, limits and archives that there are not") {
  const Folder folder;
  for (const auto& [options, what] : std::initializer_list<std::pair<const char*, const char*>>{
           {"-s spin,gem",
            "-s: found 'gem', expected some of: try spin gemm whole graph sanitize page\n"},
           {"-p '2 3'", "-p: found '3', expected some of: 2 4 8\n"},
           {"-p ''", "-p: found no stages, expected some of: 2 4 8\n"},
           {"-l 0", "-l: found '0', expected whole seconds\n"}}) {
    CHECK(shell(folder, script(folder, options)) == 2);
    CHECK(contents(folder / "said") == std::string("validation/gpu/run.sh: ") + what);
  }
  CHECK(shell(folder, script(folder, "-s page") + " README.md") == 2);
  CHECK(has(contents(folder / "said"), "README.md: found no archive"));
  CHECK(!std::filesystem::exists(folder / "results"));
}

TEST_CASE("validation/gpu/run.sh killed at any step leaves what was measured until then") {
  const unsigned seed = test_seed();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  const Folder folder;
  const int steps = std::uniform_int_distribution<int>(1, 9)(random);
  // It ends when so many steps have ended, in the midst of the next, with all that it has started.
  REQUIRE(
      shell(folder, fmt::format("mkdir '{0}/results'; setsid env {1} >'{0}/out' 2>&1 & pid=$!; "
                                "while kill -0 $pid 2>/dev/null && [ $(grep -c '| ok |' "
                                "'{0}/results/results.md' 2>/dev/null || true) -lt {2} ]; do sleep "
                                "0.02; done; kill -KILL -- -$pid; wait $pid || true",
                                folder.path().string(), script(folder, "-q"), steps)) == 0);
  REQUIRE(shell(folder, fmt::format("rm -f '{}'/results/*.new", folder.path().string())) == 0);
  const Names archive = unpacked(folder);
  const std::string page = contents(folder / "results/results.md");
  INFO(page);
  const std::regex ok("\\| ok \\|");
  CHECK(std::distance(std::sregex_iterator(page.begin(), page.end(), ok), std::sregex_iterator()) >=
        steps);
  for (const auto& [step, file] : {std::pair{"a transfer to oneself", "links.toml"},
                                   {"suite spin, P=2", "spin-2.csv"},
                                   {"a measured trace, P=2", "spin-2.trace.csv"},
                                   {"what the parts of a model", "costs-2.csv"},
                                   {"suite gemm, P=2", "gemm-2.csv"}}) {
    INFO(step);
    if (std::regex_search(page, std::regex(std::string("\\| ") + step + "[^|]*\\| ok")))
      CHECK(holds(archive, file));
  }
}
