// Tables and lines of the program fit the width that they are printed to, and have colour where a
// terminal takes it.
#include <fcntl.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <set>
#include <sstream>

#include "tests/sandbox.h"

using namespace tandem;

namespace {

const std::string kScenarios = TANDEM_SOURCE_DIR "/scenarios/";

// Commands whose tables or lines are wider than 200 columns, and that take little time.
const std::vector<std::string> kCommands = {
    "simulate " + kScenarios + "zero3-vs-3d.toml --engine ideal",
    "simulate " + kScenarios +
        "megatron-sc21.toml --engine ideal --only 39B --set report.least_bandwidth=false",
    "tune " + kScenarios +
        ("megatron-sc21.toml --only '1.7B, selene' --engine ideal --among overlap.tensor=off "
         "--among parallel.cp=1 --among parallel.tp=1,2 --among parallel.pp=1"),
    "pack " + kScenarios + "packing.toml " + kScenarios +
        "lengths.csv --tokens 8192 --engine ideal --batches 1",
    ("validate " TANDEM_SOURCE_DIR "/validation/published/cases.csv --family zero-bubble"),
    "topology jz-a100"};

std::set<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  std::set<std::string> words;
  for (std::string word; in >> word;) words.insert(word);
  return words;
}

int widest(const std::string& text) {
  std::istringstream in(text);
  std::size_t most = 0;
  for (std::string line; std::getline(in, line);) most = std::max(most, line.size());
  return static_cast<int>(most);
}

// What the program writes to a terminal of that width; its lines end in "\n" alone.
std::string on_terminal(int columns, const std::vector<std::string>& arguments,
                        const std::string& term = "xterm-256color", bool no_color = false) {
  winsize size = {.ws_row = 24, .ws_col = static_cast<unsigned short>(columns)};
  int terminal = -1;
  const pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
  REQUIRE(child >= 0);
  if (child == 0) {
    unsetenv("COLUMNS");
    setenv("TERM", term.c_str(), 1);
    no_color ? setenv("NO_COLOR", "1", 1) : unsetenv("NO_COLOR");
    dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);  // where progress is shown
    std::vector<char*> words = {const_cast<char*>(TANDEM_PROGRAM)};
    for (const std::string& argument : arguments)
      words.push_back(const_cast<char*>(argument.c_str()));
    words.push_back(nullptr);
    execv(TANDEM_PROGRAM, words.data());
    _exit(127);
  }
  std::string text;
  char part[4096];
  for (ssize_t n = 0; (n = read(terminal, part, sizeof part)) > 0;)
    text.append(part, static_cast<std::size_t>(n));
  close(terminal);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  std::erase(text, '\r');
  return text;
}

}  // namespace

TEST_CASE("at 80, 120 and 200 columns no line is longer, and every cell is there") {
  const Sandbox box;
  for (const std::string& command : kCommands) {
    const std::string wide = box.tandem(command).out;
    for (const int width : {80, 120, 200}) {
      INFO(command << " at " << width);
      const Ran ran = box.tandem(command, fmt::format("COLUMNS={}", width));
      CHECK(ran.status == 0);
      CHECK(widest(ran.out) <= width);
      const std::set<std::string> words = words_of(ran.out);
      // Of tune's search other words tell how long it took.
      if (command.starts_with("tune")) continue;
      for (const std::string& word : words_of(wide)) {
        INFO(word);
        CHECK(words.contains(word));
      }
    }
  }
}

TEST_CASE("at 32 to 72 columns no line is longer but where it is one word") {
  const Sandbox box;
  std::vector<std::string> commands = kCommands;
  commands.insert(commands.end(),
                  {"doctor", "schedule --order 1f1b --pp 4 --microbatches 8 --explain"});
  for (const std::string command :
       {"",         "simulate", "sweep",      "run",       "compare",        "trace",
        "validate", "bench",    "bench comm", "calibrate", "calibrate comm", "calibrate device",
        "schedule", "topology", "size",       "tune",      "pack",           "import",
        "export",   "doctor"})
    commands.push_back(command + " --help");
  for (const std::string& command : commands) {
    // Tables take seconds, helps do not.
    const std::vector<int> widths = command.ends_with("--help")
                                        ? std::vector{32, 40, 48, 56, 63, 64, 72, 80, 100}
                                        : std::vector{32, 56};
    for (const int width : widths) {
      INFO(command << " at " << width);
      const Ran ran = box.tandem(command, fmt::format("COLUMNS={}", width));
      CHECK(ran.status == 0);
      std::istringstream in(ran.out);
      for (std::string line; std::getline(in, line);) {
        const auto columns = std::ranges::count_if(
            line, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
        if (line.ends_with(" \\")) line.resize(line.size() - 2);
        INFO(line);
        CHECK((columns <= width || line.find(' ', line.find_first_not_of(' ')) == line.npos));
      }
    }
  }
}

TEST_CASE("files, pipes and --wide get one block, and COLUMNS that says no width counts for none") {
  const Sandbox box;
  const std::string& command = kCommands.front();
  const std::string wide = box.tandem(command).out;
  CHECK(widest(wide) > 200);
  CHECK(box.tandem(command + " --wide", "COLUMNS=80").out == wide);
  for (const char* none : {"COLUMNS=", "COLUMNS=0", "COLUMNS=-80", "COLUMNS=many"})
    CHECK(box.tandem(command, none).out == wide);
}

TEST_CASE("on a terminal its own width counts where COLUMNS does not say") {
  const std::vector<std::string> arguments = {"simulate", kScenarios + "zero3-vs-3d.toml",
                                              "--engine", "ideal"};
  const Sandbox box;
  CHECK(on_terminal(90, arguments) == box.tandem(kCommands.front(), "COLUMNS=90").out);
}

TEST_CASE("pictures have colour on a terminal, but where NO_COLOR is set or TERM is dumb") {
  const std::vector<std::string> grid = {"schedule", "--order",        "1f1b", "--pp",
                                         "2",        "--microbatches", "2"};
  const auto with = [&](std::vector<std::string> arguments, const char* colour) {
    arguments.insert(arguments.end(), {"--colour", colour});
    return arguments;
  };
  const auto is_coloured = [](const std::string& text) {
    return text.find('\x1B') != std::string::npos;
  };
  CHECK(is_coloured(on_terminal(80, grid)));
  CHECK_FALSE(is_coloured(on_terminal(80, grid, "dumb")));
  CHECK_FALSE(is_coloured(on_terminal(80, grid, "")));
  CHECK_FALSE(is_coloured(on_terminal(80, grid, "xterm", true)));
  CHECK_FALSE(is_coloured(on_terminal(80, with(grid, "never"))));
  CHECK(is_coloured(on_terminal(80, with(grid, "always"), "dumb", true)));
}

TEST_CASE("a timeline is as wide as the terminal, twelve columns for its ranks among them") {
  const Sandbox box;
  box.file("two.toml", kTwoStages);
  for (const int columns : {60, 132}) {
    const std::string text = on_terminal(
        columns, {"simulate", box.path("two.toml"), "--engine", "ideal", "--timeline"}, "dumb");
    const std::size_t row = text.find("rank 1 ");
    REQUIRE(row != std::string::npos);
    const std::string line = text.substr(row, text.find('\n', row) - row);
    // "rank 1 ", then a character a column.
    const auto characters = std::count_if(line.begin(), line.end(), [](char c) {
      return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    });
    CHECK(characters == 7 + columns - 12);
  }
}
