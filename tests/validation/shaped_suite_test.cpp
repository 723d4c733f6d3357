// The shaped cluster against closed forms: real messages on shaped links. Label shaped-suite, which
// ./dev validate runs. Skipped, with the reason, where the machine cannot.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "base/file.h"
#include "schedule/program/program_text.h"
#include "tests/folder.h"
#include "tests/made_program.h"
#include "traces/trace_files.h"

using namespace tandem;

namespace {

constexpr const char* kCluster = TANDEM_SOURCE_DIR "/validation/shaped-cluster";
constexpr Bytes kMessage = 16'000'000;

// Whether the machine can; says why not.
bool can_shape() {
  if (std::system(fmt::format("{} --check", kCluster).c_str()) == 0) return true;
  WARN("skipped: the reason stands above");
  return false;
}

// A message from the first rank to the second.
std::string message(int from, int to, Bytes bytes = kMessage) {
  return fmt::format("rank {0}: send0 {0}>{1} {2}B\n rank {1}: recv0 {0}>{1} {2}B\n", from, to,
                     bytes);
}

// Seconds of each of four ranks' last communication, in the median iteration of seven.
std::map<int, double> measure(const std::string& ops, const std::string& net) {
  const Program program = made_program("rank 0:\n rank 1:\n rank 2:\n rank 3:\n" + ops);
  const Folder folder;
  const std::string file = (folder.path() / "p.csv").string();
  const std::string trace = (folder.path() / "t.csv").string();
  auto writer = FileWriter::open(file);
  REQUIRE(writer.ok());
  writer->write(to_text(program));
  REQUIRE(writer->commit().ok());
  const std::string command = fmt::format(
      "{} --net {} mpirun -q -np {} {} run {} --backend mpi --iterations 7 --trace {} >{}/out",
      kCluster, net, program.ranks.size(), TANDEM_PROGRAM, file, trace, folder.path().string());
  REQUIRE(std::system(command.c_str()) == 0);
  const auto table = read_trace_csv(trace);
  REQUIRE(table.ok());
  std::map<int, double> seconds;
  for (const TraceRow& row : table->rows) {
    if (!is_compute(row.kind)) seconds[index(row.rank)] = to_seconds(row.end_ns - row.start_ns);
  }
  return seconds;
}

// Prints the figure, and holds it to 2 %.
void check(const char* what, double seconds, double expected_s) {
  std::printf("%-40s expected %7.2f ms, measured %7.2f ms, %+.2f %%\n", what, 1e3 * expected_s,
              1e3 * seconds, 1e2 * (seconds / expected_s - 1));
  CHECK(seconds == Approx(expected_s).epsilon(0.02));
}

}  // namespace

TEST_CASE("transfers on the shaped cluster take what sharing its links predicts") {
  if (!can_shape()) return;
  struct Net {
    const char* name;
    double inside, between;  // bytes/s
  };
  for (const Net& net : {Net{"shaped-dgx", 300e6, 100e6}, Net{"shaped-jz", 50e6, 50e6}}) {
    std::printf("%s\n", net.name);
    const auto bytes = static_cast<double>(kMessage);
    // Long, as the handshake is part of it.
    check("one inside a node", measure(message(0, 1, 4 * kMessage), net.name)[1],
          4 * bytes / net.inside);
    check("one between nodes", measure(message(0, 2), net.name)[2], bytes / net.between);
    {
      auto seconds = measure(message(0, 2) + message(1, 3), net.name);
      check("two on one uplink", seconds[2], 2 * bytes / net.between);
      check("two on one uplink, the other", seconds[3], 2 * bytes / net.between);
    }
    {
      auto seconds = measure(message(0, 2) + message(3, 1), net.name);
      check("opposite directions", seconds[2], bytes / net.between);
      check("opposite directions, the other", seconds[1], bytes / net.between);
    }
    {
      // The second comes when half of the first is through. Both share what is left, and end
      // together: the first's other half and the second's first half take as long as a message;
      // then the second has its other half to itself.
      const double half_s = bytes / net.between / 2;
      const std::string late = fmt::format(R"(
        rank 1: F0 {0}ns, send0 1>3 {1}B after F0
        rank 3: F0 {0}ns, recv0 1>3 {1}B after F0
      )",
                                           to_ns(half_s), kMessage);
      auto seconds = measure(message(0, 2) + late, net.name);
      check("half through when another comes", seconds[2], 3 * half_s);
      check("the late joiner", seconds[3], 3 * half_s);
    }
    // Six steps of a quarter, each as slow as the slowest wire.
    std::string ring;
    for (int rank = 0; rank < 4; ++rank)
      ring += fmt::format("rank {}: all-reduce data {}B\n", rank, kMessage);
    check("ring all-reduce of four", measure(ring, net.name)[3], 6 * bytes / 4 / net.between);
  }
}
