// A watchdog connects to its run's coordinator. Then, every 20 ms, it checks its child, does what
// the coordinator says, and reports how far the child is, until one of these happens:
//   Bye: all ranks have played. The child gets 5 s to close its transport.
//   Stop: the run has failed. The child is ended; all ranks but rank 0 wait for rank 0's process.
//   The coordinator is gone or silent, or this process is an orphan. The child is ended.
#include "exec/supervise/watchdog.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

#include "launch/exit_status.h"

namespace tandem {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kTick_ms = 20;
constexpr auto kStatusEvery = std::chrono::milliseconds(200);
constexpr auto kTimeToExit = std::chrono::seconds(5);   // of the child after Bye
constexpr auto kTimeToAbort = std::chrono::seconds(2);  // of the child after its request to stop
// The same if the run is ended from outside: mpirun then kills all after a second.
constexpr auto kTimeToAbortWhenEnded = std::chrono::milliseconds(200);
constexpr auto kTimeToReach = std::chrono::seconds(5);  // of the coordinator
// A watchdog waits so much longer than the coordinator, which knows more and should report first.
constexpr auto kCoordinatorFirst = std::chrono::seconds(5);

std::atomic<int> last_signal = 0;  // a handler sets it, and another thread reads it
static_assert(std::atomic<int>::is_always_lock_free);

std::string exit_text(int status) {
  if (WIFSIGNALED(status))
    return fmt::format("was killed by signal {} ({})", WTERMSIG(status),
                       strsignal(WTERMSIG(status)));
  return WEXITSTATUS(status) == 0 ? "" : fmt::format("exited with {}", WEXITSTATUS(status));
}

class Watchdog {
 public:
  Watchdog(const HelloMessage& hello, const ExecOptions& options, const Hmac& hmac,
           const ExternalStop& external_stop, RunState* state, ChildProcess* child)
      : hello_(hello),
        options_(options),
        hmac_(hmac),
        external_stop_(external_stop),
        state_(*state),
        child_(*child) {}

  Status run(const std::string& address, const Digest& key) {
    RETURN_IF_ERROR(join(address, key));
    if (!connection_) return Done{};
    last_heard_ = Clock::now();
    while (coordinator_is_there()) {
      pollfd event{connection_->descriptor(), POLLIN, 0};
      poll(&event, 1, kTick_ms);
      child_.update();
      for (const ControlMessage& message : connection_->receive()) {
        last_heard_ = Clock::now();
        const auto kind = static_cast<MessageKind>(message.kind);
        if (kind == MessageKind::Bye) return let_child_exit();
        if (kind == MessageKind::Stop) return stop();
        if (kind == MessageKind::Go) state_.header().go = 1;
        if (kind == MessageKind::Dump) send_state();
      }
      report();
    }
    end_child();
    const bool reports = !external_stop_.is_orphan() && hello_.rank == kReporterOfRank0;
    return reports ? rank_0_is_lost() : Status(Done{});
  }

 private:
  // The rank whose watchdog reports that rank 0 is lost. Rank 0 reports all other failures.
  static constexpr int kReporterOfRank0 = 1;

  bool coordinator_is_there() const {
    if (external_stop_.is_orphan()) return false;
    return connection_->is_open() && Clock::now() - last_heard_ < patience();
  }

  Error rank_0_is_lost() const {
    if (!connection_->is_open())
      return Error{"rank 0 is gone, expected it to gather what the others did", Error::Failed};
    return Error{fmt::format("rank 0 does not answer within {:g} s, expected it to gather what the "
                             "others did",
                             to_seconds(options_.timeout_ns)),
                 Error::Failed};
  }

  // Returns how long the coordinator may be silent.
  Clock::duration patience() const {
    return std::chrono::nanoseconds(options_.timeout_ns) + kCoordinatorFirst;
  }

  // Waits until the rank says where the coordinator is, and connects to it. There is no connection
  // afterwards if the run was ended from outside.
  Status join(const std::string& known, const Digest& known_key) {
    std::string address = known;
    Digest key = known_key;
    for (const auto begin = Clock::now(); address.empty(); poll(nullptr, 0, kTick_ms)) {
      child_.update();
      if (state_.header().phase.load() >= Phase::Joined) {
        address = state_.header().coordinator;
        key = state_.header().run;
      }
      if (child_.is_gone()) return exit_error();
      if (!external_stop_.ending().empty()) {
        child_.kill();
        return wait_for_rank_0();
      }
      if (Clock::now() - begin < patience()) continue;
      child_.kill();
      return Error{fmt::format("rank {}: found no rank 0 within {:g} s", hello_.rank,
                               to_seconds(options_.timeout_ns)),
                   Error::Failed};
    }
    return reach(address, key);
  }

  // Connects to the coordinator. Retries for 5 s: if very many programs connect to the
  // coordinator's port at once, it drops some of them.
  Status reach(const std::string& address, const Digest& key) {
    IntroductionResult result;
    for (const auto begin = Clock::now();; poll(nullptr, 0, kTick_ms)) {
      auto reached = connect(address);
      if (reached.ok())
        result = introduce(std::move(*reached), hmac_, key, std::as_bytes(std::span(&hello_, 1)),
                           kMostMessage, Clock::now() + patience());
      if (result.connection) break;
      const bool late = Clock::now() - begin > kTimeToReach;
      if (!reached.ok() && late) return reached.error();
      if (late || !result.refused.empty())
        return Error{fmt::format("rank {}: {}: found {}, expected rank 0 to admit it", hello_.rank,
                                 address, result.found + result.refused),
                     Error::Failed};
    }
    connection_ = std::move(result.connection);
    return Done{};
  }

  Error exit_error() const {
    const RunState::Header& own = state_.header();
    if (own.failure[0] != 0)
      return Error{fmt::format("rank {}: {}", hello_.rank, own.failure), own.failure_kind};
    return Error{fmt::format("rank {} {} before all had joined", hello_.rank,
                             child_.exit_reason().empty() ? "ended" : child_.exit_reason()),
                 Error::Failed};
  }

  // Reports every 200 ms, and at once if something has changed. Sends the whole state at the end.
  void report() {
    const Phase phase = state_.header().phase;
    const bool over = child_.is_gone() || phase == Phase::Ended;
    const auto now = Clock::now();
    const bool has_changed =
        child_.exit_reason() != reported_exit_reason_ || phase != reported_phase_;
    if (has_changed || now - last_report_ > kStatusEvery) {
      last_report_ = now;
      reported_exit_reason_ = child_.exit_reason();
      reported_phase_ = phase;
      ReportMessage message;
      message.steps = state_.header().steps;
      message.phase = phase;
      message.gone = child_.is_gone() ? 1 : 0;
      std::strncpy(message.exit_reason, reported_exit_reason_.c_str(),
                   sizeof message.exit_reason - 1);
      connection_->send(static_cast<std::uint32_t>(MessageKind::Report),
                        std::as_bytes(std::span(&message, 1)));
    }
    if (over && !state_sent_) send_state();
  }

  void send_state() {
    state_sent_ = true;
    connection_->send(static_cast<std::uint32_t>(MessageKind::State), state_.bytes());
  }

  // Gives the child time to close its transport, and kills it if it does not exit by itself. An
  // Error names a child that dies meanwhile: mpirun may then end rank 0 before it has written its
  // results.
  Status let_child_exit() {
    kill_child_after(kTimeToExit);
    if (!child_.exit_reason().empty())
      return Error{
          fmt::format("rank {} {} after all had played", hello_.rank, child_.exit_reason()),
          Error::Failed};
    return Done{};
  }

  Status stop() {
    end_child();
    return hello_.rank == 0 ? Status(Done{}) : wait_for_rank_0();
  }

  // Ends the child. A child that polls for the request to stop (heeds_stop) first gets a while to
  // abort communication that other ranks wait for.
  void end_child() {
    RunState::Header& own = state_.header();
    own.stop = 1;
    const bool was_ended = !external_stop_.is_orphan() && !external_stop_.ending().empty();
    const Clock::duration time = was_ended ? Clock::duration(kTimeToAbortWhenEnded) : kTimeToAbort;
    kill_child_after(own.heeds_stop != 0 ? time : Clock::duration::zero());
  }

  // Kills the child if it has not ended by itself within the time.
  void kill_child_after(Clock::duration time) {
    for (const auto begin = Clock::now(); !child_.is_gone() && Clock::now() - begin < time;
         poll(nullptr, 0, kTick_ms))
      child_.update();
    child_.kill();
  }

  // Waits for rank 0's process to end: the coordinator keeps the connection open until then.
  // Without a connection, waits 5 s.
  Status wait_for_rank_0() {
    const auto begin = Clock::now();
    const auto is_over = [&] {
      if (!connection_) return Clock::now() - begin > kTimeToExit;
      connection_->receive();
      return !connection_->is_open();
    };
    while (!external_stop_.is_orphan() && !is_over()) poll(nullptr, 0, kTick_ms);
    return Done{};
  }

  HelloMessage hello_;
  const ExecOptions& options_;
  const Hmac& hmac_;
  const ExternalStop& external_stop_;
  RunState& state_;
  ChildProcess& child_;
  std::optional<Connection> connection_;
  Clock::time_point last_heard_{};  // when the coordinator was heard last
  Clock::time_point last_report_{};
  Phase reported_phase_ = Phase::Starting;
  std::string reported_exit_reason_;
  bool state_sent_ = false;
};

}  // namespace

ChildProcess::ChildProcess(const std::function<int()>& body) {
  const pid_t parent = getpid();
  process_ = fork();
  if (process_ < 0) {
    gone_ = true;
    exit_status_ = tandem::exit_status(Error::Failed);
    exit_reason_ = fmt::format("could not be started: {}", std::strerror(errno));
  }
  if (process_ != 0) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(tandem::exit_status(Error::Failed));
  for (const int signal : {SIGTERM, SIGINT}) std::signal(signal, SIG_IGN);
  int status = tandem::exit_status(Error::Failed);
  try {
    status = body();
  } catch (...) {  // the parent's handlers must not run in the child
  }
  _exit(status);
}

void ChildProcess::update() {
  int status = 0;
  while (!gone_ && waitpid(process_, &status, WNOHANG | WUNTRACED | WCONTINUED) == process_) {
    if (WIFSTOPPED(status)) {
      exit_reason_ = fmt::format("is stopped by signal {} ({})", WSTOPSIG(status),
                                 strsignal(WSTOPSIG(status)));
    } else if (WIFCONTINUED(status)) {
      exit_reason_.clear();
    } else {
      gone_ = true;
      exit_reason_ = exit_text(status);
      exit_status_ = WIFEXITED(status) ? WEXITSTATUS(status) : tandem::exit_status(Error::Failed);
    }
  }
}

void ChildProcess::kill() {
  if (gone_) return;
  ::kill(process_, SIGKILL);
  while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) continue;
  gone_ = true;
}

ExternalStop::ExternalStop(bool launched) {
  if (launched) parent_ = getppid();
  last_signal = 0;
  struct sigaction action {};
  action.sa_handler = [](int signal) { last_signal = signal; };
  for (const int signal : {SIGTERM, SIGINT}) sigaction(signal, &action, nullptr);
}

bool ExternalStop::is_orphan() const { return parent_ && getppid() != *parent_; }

std::string ExternalStop::ending() const {
  if (const int signal = last_signal; signal != 0)
    return fmt::format("was ended by signal {} ({})", signal, strsignal(signal));
  return is_orphan() ? "was left by the process that started it" : "";
}

Status watch(const HelloMessage& hello, const ExecOptions& options, const std::string& address,
             const Digest& key, const Hmac& hmac, const ExternalStop& external_stop,
             RunState* state, ChildProcess* child) {
  return Watchdog(hello, options, hmac, external_stop, state, child).run(address, key);
}

}  // namespace tandem
