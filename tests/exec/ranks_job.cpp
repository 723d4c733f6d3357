// ranks_job RANKS HOW: ranks that pretend to play and meet over TCP, started here where nobody has
// started them. For ranks_test.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "exec/mpi/mpi.h"
#include "exec/supervise/ranks.h"
#include "launch/clock.h"
#include "launch/exit_status.h"
#include "tests/made_program.h"

using namespace tandem;

namespace {

// HOW: "short"; "some": half a second an iteration; "long": 20 s; "heeds": long, and it looks for
// the word to stop; "fails": rank 1 does.
Program program_of(int ranks, const std::string& how) {
  const int microbatches = how == "short" || how == "fails" ? 4 : how == "some" ? 100 : 4000;
  std::string text;
  for (int rank = 0; rank < ranks; ++rank)
    text += fmt::format("rank {}, {} times: F# 5ms\n", rank, microbatches);
  return made_program(text);
}

// Each op takes its time. Who heeds the word to stop leaves a file.
Status play(const ExecOptions& options, const std::string& how, Control* control, RunState* state) {
  const ExactSleep exact_sleep;  // tests know by it who plays
  RunState::Header& header = state->header();
  header.heeds_stop = how == "heeds" ? 1 : 0;
  std::snprintf(header.note, sizeof header.note, "on nothing");
  ASSIGN_OR_RETURN(header.before, control->compare_clocks());
  for (int i = 0; i < options.iterations; ++i) {
    header.iteration = static_cast<std::uint32_t>(i);
    RETURN_IF_ERROR(control->barrier());
    state->done()[0] = 0;
    state->begun()[0] = 1;
    for (OwnTimes& times : state->times(i)) {
      times.arrive_ns = now_ns();
      usleep(5000);
      times.end_ns = now_ns();
      ++state->done()[0];
      ++header.steps;
      if (header.heeds_stop == 0 || header.stop == 0) continue;
      std::ofstream("stopped." + std::to_string(control->rank())) << "taken back\n";
      return Error{"was told to stop", Error::Failed};
    }
  }
  RETURN_IF_ERROR(control->barrier());
  ASSIGN_OR_RETURN(header.after, control->compare_clocks());
  if (how == "fails" && control->rank() == 1) return Error{"found no GPU 1", Error::Missing};
  return Done{};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return exit_status(Error::BadInput);
  const int ranks = std::atoi(argv[1]);
  const std::string how = argv[2];
  if (!launched_rank()) {
    const auto status = run_ranks(ranks);
    if (status.ok()) return *status;
    std::fprintf(stderr, "%s\n", status.error().text().c_str());
    return exit_status(status.error());
  }
  const Program program = program_of(ranks, how);
  ExecOptions options;
  options.iterations = 2;
  options.warmup = 0;
  options.timeout_ns = 3'000'000'000;
  const RanksBackend backend{
      "pretended",
      "emulated: all",
      "ranks_job ...",
      "TCP",
      [&](const LaunchedRank& own) { return join_ranks(own, options.timeout_ns); },
      [&](const LaunchedRank&, Control* control, RunState* state) {
        return play(options, how, control, state);
      }};
  const auto played = execute_ranks(program, options, backend);
  if (!played.ok()) {
    std::fprintf(stderr, "%s\n", played.error().text().c_str());
    return exit_status(played.error());
  }
  if (!*played) return 0;
  const Execution& execution = **played;
  std::printf("%zu iterations, %s\n", execution.iterations.size(), execution.real.c_str());
  if (std::fflush(stdout) != 0) {
    std::perror("standard output");
    return exit_status(Error::Failed);
  }
  if (!execution.failure.empty()) std::fprintf(stderr, "%s\n", execution.failure.c_str());
  return execution.failure.empty() ? 0 : exit_status(Error::Failed);
}
