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
#include "tests/exec/exec_jobs.h"
#include "tests/folder.h"
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

// From one rank to another; both ranks compute for `after_ns` before.
void transfer(HandJob* job, int from, int to, Nanoseconds after_ns = 0, Bytes bytes = kMessage) {
  const int edge = job->join({from, to});
  for (const auto& [rank, kind] : {std::pair{from, OpKind::Send}, {to, OpKind::Recv}}) {
    std::vector<std::uint32_t> waits;
    if (after_ns > 0) waits.push_back(job->compute(rank, 0, after_ns));
    job->comm(rank, kind, edge, 0, waits, 0, bytes);
  }
}

// Seconds of each rank's last communication, in the median iteration of seven.
std::map<int, double> measure(const Program& program, const std::string& net) {
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
    {
      HandJob job(4);
      transfer(&job, 0, 1, 0, 4 * kMessage);  // long, as the handshake is part of it
      check("one inside a node", measure(job.program, net.name)[1], 4 * bytes / net.inside);
    }
    {
      HandJob job(4);
      transfer(&job, 0, 2);
      check("one between nodes", measure(job.program, net.name)[2], bytes / net.between);
    }
    {
      HandJob job(4);
      transfer(&job, 0, 2);
      transfer(&job, 1, 3);
      auto seconds = measure(job.program, net.name);
      check("two on one uplink", seconds[2], 2 * bytes / net.between);
      check("two on one uplink, the other", seconds[3], 2 * bytes / net.between);
    }
    {
      HandJob job(4);
      transfer(&job, 0, 2);
      transfer(&job, 3, 1);
      auto seconds = measure(job.program, net.name);
      check("opposite directions", seconds[2], bytes / net.between);
      check("opposite directions, the other", seconds[1], bytes / net.between);
    }
    {
      // The second comes when half of the first is through. Both share what is left, and end
      // together: the first's other half and the second's first half take as long as a message;
      // then the second has its other half to itself.
      HandJob job(4);
      const double half_s = bytes / net.between / 2;
      transfer(&job, 0, 2);
      transfer(&job, 1, 3, to_ns(half_s));
      auto seconds = measure(job.program, net.name);
      check("half through when another comes", seconds[2], 3 * half_s);
      check("the late joiner", seconds[3], 3 * half_s);
    }
    {
      // Six steps of a quarter, each as slow as the slowest wire.
      HandJob job(4);
      const int ring = job.join({0, 1, 2, 3}, GroupKind::Data);
      for (int rank = 0; rank < 4; ++rank)
        job.comm(rank, OpKind::AllReduce, ring, -1, {}, 0, kMessage);
      check("ring all-reduce of four", measure(job.program, net.name)[3],
            6 * bytes / 4 / net.between);
    }
  }
}
