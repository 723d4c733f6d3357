// Outputs: what the program prints and writes, byte for byte, for a list of commands.
//
// tests/golden/outputs.txt has a line for each command: exit status, digest, bytes, arguments. The
// digest covers standard output, standard error and every file that the command wrote, so that a
// change of the code which is meant to change no output shows whether it does. With
// TANDEM_OUTPUTS=DIR the test leaves each command's output in DIR, and the list as it is now in
// DIR/outputs.txt: two such folders, before and after a change, are compared by diff -r.
//
// With TANDEM_OUTPUTS_OF=TEXT it runs only the commands that hold TEXT.
//
// Numbers are printed to their last digit, so the digests are those of x86-64; other machines
// compare exit statuses alone, as their compilers fuse other multiplications and additions.
#include <fmt/format.h>

#include <cstdlib>
#include <regex>
#include <sstream>

#include "base/random.h"
#include "tests/sandbox.h"
#include "tests/text.h"

using namespace tandem;

namespace {

namespace fs = std::filesystem;

const fs::path kSource = TANDEM_SOURCE_DIR;

struct Expected {
  int status = 0;
  std::string digest;
  std::size_t bytes = 0;
  std::string arguments;
};

std::vector<Expected> read_list() {
  std::vector<Expected> list;
  std::istringstream lines(contents(kSource / "tests/golden/outputs.txt"));
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    Expected expected;
    std::istringstream words(line);
    words >> expected.status >> expected.digest >> expected.bytes >> std::ws;
    std::getline(words, expected.arguments);
    list.push_back(expected);
  }
  return list;
}

// Blanks out the seconds that an engine or a search took on this machine.
std::string without_wall_times(const std::string& text) {
  static const std::regex kWall(R"re(("(engine_wall_s|search_wall_s)": ?)[-+0-9.e]+)re");
  return std::regex_replace(text, kWall, "$1-");
}

// Everything that the command left behind, as one text.
std::string output_of(const Expected& command, const Ran& ran, const Sandbox& sandbox) {
  std::string text = fmt::format("{}\nstatus {}\n--- out\n{}--- err\n{}", command.arguments,
                                 ran.status, ran.out, ran.err);
  for (const std::string& file : sandbox.files()) {
    const fs::path path = sandbox.path(file.c_str());
    if (fs::is_regular_file(path)) text += fmt::format("--- {}\n{}", file, contents(path));
    if (!fs::is_directory(path) || fs::is_symlink(path)) continue;
    std::vector<fs::path> inside(fs::directory_iterator(path), fs::directory_iterator{});
    std::sort(inside.begin(), inside.end());
    for (const fs::path& each : inside)
      text += fmt::format("--- {}/{}\n{}", file, each.filename().string(), contents(each));
  }
  return without_wall_times(text);
}

}  // namespace

TEST_CASE("every command of the list prints and writes what it did, byte for byte") {
  const char* folder = std::getenv("TANDEM_OUTPUTS");
  if (folder != nullptr) fs::create_directories(folder);
  std::string list =
      "# Commands and what they gave: exit status, digest, bytes, arguments "
      "(tests/outputs_test.cpp).\n";
  int number = 0;
  const std::vector<Expected> commands = read_list();
  CHECK(commands.size() > 200);
  const char* some = std::getenv("TANDEM_OUTPUTS_OF");
  for (const Expected& expected : commands) {
    if (some != nullptr && !has(expected.arguments, some)) continue;
    const Sandbox sandbox;
    for (const char* name : {"scenarios", "tests", "bench"})
      fs::create_directory_symlink(kSource / name, sandbox.path(name));
    const Ran ran = sandbox.tandem(expected.arguments);
    const std::string output = output_of(expected, ran, sandbox);
    const std::string digest = fmt::format("{:016x}", fnv1a(output));
    if (folder != nullptr)
      std::ofstream(fs::path(folder) / fmt::format("{:03}.txt", number)) << output;
    list += fmt::format("{} {} {} {}\n", ran.status, digest, output.size(), expected.arguments);
    ++number;
    INFO(expected.arguments << "\n" << ran.err);
    CHECK(ran.status == expected.status);
#ifdef __x86_64__
    CHECK(output.size() == expected.bytes);
    CHECK(digest == expected.digest);
#endif
  }
  if (folder != nullptr) std::ofstream(fs::path(folder) / "outputs.txt") << list;
}
