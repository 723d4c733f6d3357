// Finds this process's rank in the variables that launchers set, and starts ranks on this machine
// as torchrun would: forks them, passes signals on, and ends all soon after one has failed.
#include "launch/launch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <span>
#include <string_view>
#include <vector>

#include "base/csv.h"
#include "launch/connection.h"
#include "launch/exit_status.h"
#include "launch/own_command.h"
#include "launch/secret.h"

namespace tandem {
namespace {

// A launcher, and the environment variables in which it tells a process its rank.
struct LauncherVariables {
  const char* name;
  const char* rank;
  const char* ranks;
  const char* local_rank;
};

constexpr std::array<LauncherVariables, 5> kLaunchers = {{
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
    {"MVAPICH", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK"},
    {"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK"},
    {"Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"},
}};

std::optional<int> rank_number(const char* text) {
  if (text == nullptr) return std::nullopt;
  const auto value = parse_integer(text);
  if (!value.ok() || *value < 0 || *value > 1'000'000'000) return std::nullopt;
  return static_cast<int>(*value);
}

volatile std::sig_atomic_t pending_signal = 0;  // caught and not yet passed on; 0: none

// The child processes of run_ranks().
class LocalRanks {
 public:
  LocalRanks() {
    pending_signal = 0;
    struct sigaction action {};
    action.sa_handler = [](int signal) { pending_signal = signal; };
    for (const int signal : {SIGTERM, SIGINT}) sigaction(signal, &action, nullptr);
  }
  LocalRanks(const LocalRanks&) = delete;
  LocalRanks& operator=(const LocalRanks&) = delete;
  ~LocalRanks() {
    signal_all(SIGKILL);
    for (const Member& member : members_) {
      if (!member.runs()) continue;
      while (waitpid(member.process, nullptr, 0) < 0 && errno == EINTR) {
      }
    }
  }

  Status start(int ranks, const std::string& port) {
    const std::vector<std::string> command = own_command();
    const pid_t parent = getpid();
    const Secret secret = random_secret();
    for (int rank = 0; rank < ranks; ++rank) {
      const pid_t process = fork();
      if (process < 0)
        return Error{fmt::format("process {} of {} could not be started: {}", rank, ranks,
                                 std::strerror(errno)),
                     Error::Failed};
      if (process == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() != parent) _exit(exit_status(Error::Failed));
        set_environment(rank, ranks, fmt::format("tandem-{}", parent), port, secret);
        become(command);
        _exit(exit_status(Error::Failed));
      }
      members_.push_back({process});
    }
    return Done{};
  }

  // Waits until all ranks have ended. After a failure, a signal or rank 0's end they get a time to
  // end by themselves; then SIGTERM, and after another time SIGKILL. Returns what run_ranks() does.
  Result<int> wait() {
    while (!all_have_ended()) {
      constexpr timespec kTick{0, 20'000'000};
      nanosleep(&kTick, nullptr);
      if (const int signal = pending_signal; signal != 0) {
        pending_signal = 0;
        signal_all(signal);
        terminate_all_after(kTimeToEnd);
      }
      reap_ended();
      if (Clock::now() < next_signal_at_) continue;
      signal_all(sigterm_sent_ ? SIGKILL : SIGTERM);
      sigterm_sent_ = true;
      next_signal_at_ = Clock::now() + (members_[0].runs() ? kTimeToWrite : kTimeToAbort);
    }
    if (!killed_rank_0_.empty()) return ended_with(members_[0].status, killed_rank_0_);
    const auto worst = std::ranges::max_element(members_, {}, &Member::status);
    return members_[0].status != 0 ? members_[0].status : worst->status;
  }

 private:
  using Clock = std::chrono::steady_clock;
  // Time for the other ranks to end after rank 0 has failed. Rank 0 has reported why.
  static constexpr auto kTimeAfterRank0 = std::chrono::milliseconds(500);
  // Time after another rank has failed. Rank 0 may wait for watchdogs before it reports why.
  static constexpr auto kTimeToNotice = std::chrono::seconds(4);
  // Time after rank 0 has succeeded, or after a signal came.
  static constexpr auto kTimeToEnd = std::chrono::seconds(10);
  // Time from SIGTERM to SIGKILL. Rank 0 may still write a trace; others at most abort
  // communication.
  static constexpr auto kTimeToWrite = std::chrono::seconds(30);
  static constexpr auto kTimeToAbort = std::chrono::seconds(5);

  struct Member {
    pid_t process = 0;
    int status = -1;  // -1: still running

    bool runs() const { return status < 0; }
  };

  static void set_environment(int rank, int ranks, const std::string& run, const std::string& port,
                              const Secret& secret) {
    const auto set = [](const char* key, const std::string& value) {
      setenv(key, value.c_str(), 1);
    };
    set("RANK", std::to_string(rank));
    set("WORLD_SIZE", std::to_string(ranks));
    set("LOCAL_RANK", std::to_string(rank));
    set("LOCAL_WORLD_SIZE", std::to_string(ranks));
    set("MASTER_ADDR", "127.0.0.1");
    set("MASTER_PORT", port);
    set("TORCHELASTIC_RUN_ID", run);
    set(kSecretVariable, secret.text());
    set("TANDEM_SOCKET_IFNAME", "=lo");
    unsetenv("TORCHELASTIC_USE_AGENT_STORE");
    for (const LauncherVariables& launcher : kLaunchers) {
      if (launcher.name == std::string_view("torchrun")) continue;
      for (const char* other : {launcher.rank, launcher.ranks, launcher.local_rank})
        unsetenv(other);
    }
  }

  bool all_have_ended() const { return std::ranges::none_of(members_, &Member::runs); }

  void signal_all(int signal) {
    any_signalled_ = true;
    for (const Member& member : members_) {
      if (member.runs()) kill(member.process, signal);
    }
  }

  void terminate_all_after(Clock::duration time) {
    if (!sigterm_sent_) next_signal_at_ = std::min(next_signal_at_, Clock::now() + time);
  }

  void reap_ended() {
    for (Member& member : members_) {
      int status = 0;
      if (!member.runs()) continue;
      if (waitpid(member.process, &status, WNOHANG) != member.process) continue;
      member.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      const bool succeeded = member.status == 0;
      const bool is_rank_0 = &member == &members_[0];
      if (is_rank_0)
        terminate_all_after(succeeded ? Clock::duration(kTimeToEnd) : kTimeAfterRank0);
      else if (!succeeded)
        terminate_all_after(kTimeToNotice);
      const bool not_by_us = WIFSIGNALED(status) && !any_signalled_;
      if (is_rank_0 && not_by_us)
        killed_rank_0_ = fmt::format("rank 0 was killed by signal {} ({})", WTERMSIG(status),
                                     strsignal(WTERMSIG(status)));
    }
  }

  std::vector<Member> members_;                                  // by rank
  Clock::time_point next_signal_at_ = Clock::time_point::max();  // SIGTERM, then SIGKILL
  bool sigterm_sent_ = false;
  bool any_signalled_ = false;  // by this process
  std::string killed_rank_0_;   // says which signal that this process did not send ended rank 0
};

}  // namespace

std::optional<LaunchedRank> launched_rank(const Environment& get) {
  for (const LauncherVariables& launcher : kLaunchers) {
    const auto rank = rank_number(get(launcher.rank)), ranks = rank_number(get(launcher.ranks)),
               local_rank = rank_number(get(launcher.local_rank));
    if (rank && ranks && local_rank && *rank < *ranks)
      return LaunchedRank{*rank, *ranks, *local_rank, launcher.name};
  }
  return std::nullopt;
}

std::optional<LaunchedRank> launched_rank() {
  return launched_rank([](const char* name) { return std::getenv(name); });
}

std::string named_ranks(const std::vector<std::size_t>& ranks) {
  constexpr std::size_t kNamed = 8;
  const std::span named = std::span(ranks).first(std::min(kNamed, ranks.size()));
  const std::string text = fmt::format("{}", fmt::join(named, ", "));
  const std::size_t more = ranks.size() - named.size();
  return more == 0 ? text : fmt::format("{} and {} more", text, more);
}

bool rank_0_reports(const Error& error) {
  constexpr timespec kPatience{5, 0};  // longer than mpirun, which signals after a second
  const auto launched = launched_rank();
  if (!launched || launched->rank == 0) return false;
  // An Error::Failed may be this rank's alone; bad input and what is missing all ranks see.
  if (error.kind == Error::Failed) return false;
  const bool interrupted = nanosleep(&kPatience, nullptr) != 0;
  return interrupted;
}

Result<int> run_ranks(int ranks) {
  std::string port;  // free now; if another program takes it, the ranks meet at the next one
  {
    ASSIGN_OR_RETURN(const Listener free, listen_on(loopback_alone()));
    port = std::to_string(free.port());
  }
  LocalRanks members;
  RETURN_IF_ERROR(members.start(ranks, port));
  return members.wait();
}

}  // namespace tandem
