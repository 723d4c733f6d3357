// Sandbox: runs the program in a temporary folder, which is removed with the object.
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

#include "tests/folder.h"
#include "tests/text.h"

namespace tandem {

using Names = std::vector<std::string>;

// Two stages, four microbatches, a forward of 1 ms and a backward of 2 ms: 1F1B takes (4 + 1) x 3
// ms and the transfers.
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

// The outcome of a command.
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

  // A shell reads `arguments`; `environment` is as env takes it: "COLUMNS=80". COLUMNS of whoever
  // runs the tests is unset, so that no table depends on it.
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

  std::filesystem::path work() const { return folder_.path() / "work"; }

  Folder folder_;
};

// Checks that the command was refused: exit status 2, one line on stderr with this begin, nothing
// on stdout.
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
