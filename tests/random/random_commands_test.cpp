// Random scenarios with random further keys through every command that takes a scenario: no crash,
// no failed check, and what is refused is refused in one line.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cctype>
#include <string>
#include <utility>
#include <vector>

#include "scenarios/scenario.h"
#include "tests/draw.h"
#include "tests/random/random_jobs.h"
#include "tests/sandbox.h"
#include "tests/seed.h"

using namespace tandem;

namespace {

// Those name files or hosts.
const Names kOfFiles = {"cluster.links_file", "cluster.calibration", "cluster.hostfile",
                        "cluster.hosts",      "costs.table",         "costs.software"};

const Names kCommands = {
    "simulate {} --engine ideal --json",
    "simulate {} --engine simgrid --report r.html --timeline --bars",
    "simulate {} --engine ideal --sensitivity --jobs 1",
    "simulate {} --engine ideal --repeat 3 --jobs 1",
    "simulate {} --engine ideal --unfolded --kineto k",
    "schedule {} --explain",
    "schedule {} --format program",
    "schedule {} --format pytorch-comms",
    "topology {} --format svg",
    "topology {} --format dot",
    "export {} --chakra x",
    "tune {} --engine ideal --seconds 1 --jobs 1 --keep 2",
    "tune {} --engine ideal --seconds 1 --jobs 1 --keep 1 --among parallel.layout=even,auto",
};

// A value such as the key's help describes, valid or nearly so.
std::string random_value(const std::string& help, Draw* draw) {
  if (help.starts_with("true")) return draw->below(2) == 0 ? "true" : "false";
  if (help.starts_with("integer"))
    return draw->among(Names{"0", "1", "1", "2", "2", "3", "4", "5", "7", "8", "16", "64", "1000"});
  if (help.starts_with("number"))
    return draw->among(Names{"0.0", "0.01", "0.5", "0.9", "1.0", "1.5", "2.0", "3.0", "100.0"});
  if (help.starts_with("list"))
    return draw->among(Names{"[]", "[0]", "[1]", "[0, 1]", "[1, 1, 1, 1]"});
  Names words = {"auto", "all", "none", "x", ""};
  std::string word;
  for (const char c : help + " ") {
    const bool of_word = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_';
    if (of_word) word += c;
    if (!of_word && !word.empty()) words.push_back(std::exchange(word, {}));
  }
  return '"' + draw->among(words) + '"';
}

void add_random_keys(JobKeys* keys, Draw* draw) {
  static const auto all = scenario_keys();
  for (int i = draw->below(3); i > 0; --i) {
    const auto& [key, help] =
        all[static_cast<std::size_t>(draw->below(static_cast<int>(all.size())))];
    if (std::ranges::find(kOfFiles, key) != kOfFiles.end() || key.ends_with(".from")) continue;
    (*keys)[key] = random_value(help, draw);
  }
  if (draw->below(10) == 0) (*keys)["schedule.order"] = "\"auto\"";
  if (draw->below(10) == 0) (*keys)["parallel.layout"] = "\"auto\"";
  if (draw->below(10) == 0) (*keys)["report.least_bandwidth"] = "true";
  (*keys)["schedule.budget"] = "20";
  (*keys)["limits.ops"] = "2e5";
}

// Lines on stderr that are no warnings.
std::ptrdiff_t lines_of_errors(const std::string& err) {
  std::ptrdiff_t lines = 0;
  std::size_t begin = 0;
  while (begin < err.size()) {
    const std::size_t end = std::min(err.find('\n', begin), err.size());
    if (!err.substr(begin, end - begin).starts_with("warning: ")) ++lines;
    begin = end + 1;
  }
  return lines;
}

}  // namespace

TEST_CASE("random scenarios: no command crashes, and what is refused is refused in one line") {
  const unsigned seed = test_seed();
  const Sandbox sandbox;
  int played = 0;
  for (int i = 0; i < random_jobs(60); ++i) {
    Draw draw(std::uint64_t{seed} * 3'000'000 + i);
    JobKeys keys = random_job(draw.bits());
    add_random_keys(&keys, &draw);
    const std::string command = fmt::format(fmt::runtime(draw.among(kCommands)), "job.toml");
    sandbox.file("job.toml", text_of(keys));
    const Ran ran = sandbox.tandem(command);
    INFO(fmt::format("TANDEM_SEED={}: job {}: tandem {}\n{}\n{}", seed, i, command, text_of(keys),
                     ran.err));
    CHECK((ran.status == 0 || ran.status == 2));
    if (ran.status == 0) ++played;
    if (ran.status == 2) CHECK(lines_of_errors(ran.err) == 1);
    CHECK(ran.err.find("CHECK failed") == std::string::npos);
    CHECK(ran.out.find("nan") == std::string::npos);
  }
  CHECK(played > random_jobs(60) / 4);
}
