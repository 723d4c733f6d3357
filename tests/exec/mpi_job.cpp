// mpi_job NAME [full]: a Program by hand, played by mpi. For mpi_test, under mpirun.
#include <fmt/format.h>

#include <cstdio>
#include <cstring>

#include "exec/mpi/mpi.h"
#include "launch/exit_status.h"
#include "tests/made_program.h"

using namespace tandem;

namespace {

// Every kind of communication, of sizes that do and do not divide by the ranks.
Program collectives() {
  std::string text;
  int number = 0;
  for (const int bytes : {0, 4, 10, 64, 4099, 200'000}) {
    const std::string all =
        "all-reduce{0} data {1}B, reduce-scatter{0} data {1}B, "
        "all-gather{0} data {1}B, all-to-all{0} data {1}B, "
        "ring-shift{0} context {1}B";
    text += fmt::format(fmt::runtime(R"(
      rank 0: )" + all + R"(, ring-shift{0} context:0>2 on pair {1}B,
              send{0} 0>3 {1}B, recv{0} 3>0 {1}B
      rank 1: )" + all + R"(, all-reduce{0} tensor:3>1 {1}B
      rank 2: )" + all + R"(, ring-shift{0} context:0>2 on pair {1}B,
              all-reduce{0} expert:2 {1}B, all-to-all{0} expert:2 {1}B, ring-shift{0} expert:2 {1}B
      rank 3: )" + all + R"(, all-reduce{0} tensor:3>1 {1}B, recv{0} 0>3 {1}B, send{0} 3>0 {1}B
    )"),
                        ++number, bytes);
  }
  return made_program(text);
}

// Sent are microbatches 0, 1; received 1, 0.
Program swapped() {
  return made_program(R"(
    rank 0: send0 0>1 1kB, send1 0>1 1kB
    rank 1: recv1 0>1 1kB, recv0 0>1 1kB
  )");
}

// More is sent than there is room for.
Program cut() {
  return made_program(R"(
    rank 0: send0 0>1 1000B
    rank 1: recv0 0>1 500B
  )");
}

// Each rank sends before it receives, and waits until its send has ended.
Program crossed() {
  return made_program(R"(
    rank 0: send0 0>1, recv0 1>0 after send0
    rank 1: send0 1>0, recv0 0>1 after send0
  )");
}

Program program_of(const std::string& name) {
  if (name == "collectives") return collectives();
  if (name == "swapped") return swapped();
  if (name == "cut") return cut();
  return crossed();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return exit_status(Error::BadInput);
  const Program program = program_of(argv[1]);
  ExecOptions options;
  options.iterations = 2;
  options.timeout_ns = 10'000'000'000;
  options.full_payload = argc > 2 && std::strcmp(argv[2], "full") == 0;
  const auto played = execute_mpi(program, options);
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
