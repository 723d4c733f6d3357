// Sandbox: a folder that goes with the test, to run the program in.
#pragma once

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/file.h"
#include "tests/folder.h"

namespace tandem {

using Names = std::vector<std::string>;

// Two stages, four microbatches, milliseconds: (4 + 1) x 3 ms, and transfers.
inline const std::string kTwoStages = R"([parallel]
pp = 2
global_batch = 4
[costs]
source = "uniform"
forward_s = 0.001
backward_s = 0.002
p2p_s = 0.0001
)";

// A model of two layers on two GPUs.
inline const std::string kTinyModel = R"([model]
layers = 2
hidden = 64
heads = 4
seq = 32
vocab = 128
[parallel]
pp = 2
global_batch = 4
[cluster]
preset = "selene"
)";

// What a command left behind.
struct Ran {
  int status = -1;
  std::string out;
  std::string err;
};

class Sandbox {
 public:
  Sandbox() { std::filesystem::create_directory(work()); }

  void file(const char* name, const std::string& text) const {
    std::ofstream(work() / name, std::ios::binary) << text;
  }
  std::string read(const char* name) const { return contents(work() / name); }
  std::string path(const char* name) const { return (work() / name).string(); }

  Names files() const {
    Names names;
    for (const auto& entry : std::filesystem::directory_iterator(work()))
      names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }

  // `arguments` as a shell reads them, `environment` as env does: "COLUMNS=80". Without, no table
  // takes the width of whoever runs the tests.
  Ran tandem(const std::string& arguments, const std::string& environment = "") const {
    return run(TANDEM_PROGRAM, arguments, environment);
  }
  Ran tandem_fit(const std::string& arguments) const {
    return run(TANDEM_PROGRAM "-fit", arguments, "");
  }

 private:
  Ran run(const char* program, const std::string& arguments, const std::string& environment) const {
    const std::filesystem::path out = folder_.path() / "out", err = folder_.path() / "err";
    const std::string command =
        fmt::format("cd '{}' && env -u COLUMNS {} '{}' {} >'{}' 2>'{}' </dev/null", work().string(),
                    environment, program, arguments, out.string(), err.string());
    const int status = std::system(command.c_str());
    REQUIRE(WIFEXITED(status));
    return {WEXITSTATUS(status), contents(out), contents(err)};
  }

  static std::string contents(const std::filesystem::path& path) {
    const auto text = read_file(path.string());
    REQUIRE(text.ok());
    return *text;
  }

  std::filesystem::path work() const { return folder_.path() / "work"; }

  Folder folder_;
};

// Refused: exit status 2, one line on stderr that begins as said, nothing on stdout.
inline void check_refused(const Ran& ran, const std::string& begin) {
  INFO(ran.err);
  CHECK(ran.status == 2);
  CHECK(ran.out.empty());
  CHECK(std::count(ran.err.begin(), ran.err.end(), '\n') == 1);
  CHECK(ran.err.ends_with('\n'));
  CHECK(ran.err.substr(0, begin.size()) == begin);
}

inline void check_done(const Ran& ran) {
  INFO(ran.err);
  CHECK(ran.status == 0);
  CHECK(ran.err.empty());
  CHECK(!ran.out.empty());
}

}  // namespace tandem
