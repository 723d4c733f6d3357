// mpi_job NAME [full]: a Program by hand, played by mpi. For mpi_test, under mpirun.
#include <cstdio>
#include <cstring>

#include "exec/mpi/mpi.h"
#include "launch/exit_status.h"
#include "tests/exec/exec_jobs.h"

using namespace tandem;

namespace {

// Every kind of communication, of sizes that do and do not divide by the ranks.
HandJob collectives() {
  HandJob job(4);
  const int all = job.join({0, 1, 2, 3}, GroupKind::Data),
            some = job.join({3, 1}, GroupKind::Tensor),
            ring = job.join({0, 1, 2, 3}, GroupKind::Context),
            pair = job.join({0, 2}, GroupKind::Context), edge = job.join({0, 3}),
            back = job.join({3, 0}), one = job.join({2}, GroupKind::Expert);
  int number = 0;
  for (const Bytes bytes : {0, 4, 10, 64, 4099, 200'000}) {
    ++number;
    for (int rank = 0; rank < 4; ++rank) {
      for (const OpKind kind : {OpKind::AllReduce, OpKind::ReduceScatter, OpKind::AllGather,
                                OpKind::AllToAll, OpKind::RingShift})
        job.comm(rank, kind, kind == OpKind::RingShift ? ring : all, number, {}, 0, bytes);
      if (rank % 2 == 1) job.comm(rank, OpKind::AllReduce, some, number, {}, 0, bytes);
      if (rank % 2 == 0) job.comm(rank, OpKind::RingShift, pair, number, {}, 0, bytes);
    }
    job.comm(0, OpKind::Send, edge, number, {}, 0, bytes);
    job.comm(3, OpKind::Recv, edge, number, {}, 0, bytes);
    job.comm(3, OpKind::Send, back, number, {}, 0, bytes);
    job.comm(0, OpKind::Recv, back, number, {}, 0, bytes);
    for (const OpKind kind : {OpKind::AllReduce, OpKind::AllToAll, OpKind::RingShift})
      job.comm(2, kind, one, number, {}, 0, bytes);
  }
  return job;
}

// Sent are microbatches 0, 1; received 1, 0.
HandJob swapped() {
  HandJob job(2);
  const int edge = job.join({0, 1});
  for (const int mb : {0, 1}) job.comm(0, OpKind::Send, edge, mb, {}, 0, 1000);
  for (const int mb : {1, 0}) job.comm(1, OpKind::Recv, edge, mb, {}, 0, 1000);
  return job;
}

// More is sent than there is room for.
HandJob cut() {
  HandJob job(2);
  const int edge = job.join({0, 1});
  job.comm(0, OpKind::Send, edge, 0, {}, 0, 1000);
  job.comm(1, OpKind::Recv, edge, 0, {}, 0, 500);
  return job;
}

// Each rank sends before it receives, and waits until its send has ended.
HandJob crossed() {
  HandJob job(2);
  const int there = job.join({0, 1}), back = job.join({1, 0});
  job.comm(0, OpKind::Recv, back, 0, {job.comm(0, OpKind::Send, there, 0)});
  job.comm(1, OpKind::Recv, there, 0, {job.comm(1, OpKind::Send, back, 0)});
  return job;
}

HandJob job_of(const std::string& name) {
  if (name == "collectives") return collectives();
  if (name == "swapped") return swapped();
  if (name == "cut") return cut();
  return crossed();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return exit_status(Error::BadInput);
  const HandJob job = job_of(argv[1]);
  ExecOptions options;
  options.iterations = 2;
  options.timeout_ns = 10'000'000'000;
  options.full_payload = argc > 2 && std::strcmp(argv[2], "full") == 0;
  const auto played = execute_mpi(job.program, options);
  if (!played.ok()) {
    std::fprintf(stderr, "%s\n", played.error().text().c_str());
    return exit_status(played.error());
  }
  if (!*played) return 0;
  const Execution& execution = **played;
  std::printf("%zu iterations, %ld payloads checked\n%s\n", execution.iterations.size(),
              static_cast<long>(execution.payloads_checked), execution.failure.c_str());
  return execution.failure.empty() ? 0 : exit_status(Error::Failed);
}
