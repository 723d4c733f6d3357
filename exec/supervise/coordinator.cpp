// Coordinator of a run of many processes, a thread on rank 0. It waits until the watchdogs of all
// ranks report Joined, and sends Go; then it waits until all report Ended, and sends Bye. If
// something fails, it sends Dump, gathers the ranks' states, sends Stop, and concludes from the
// states why the run failed. Declared in exec/supervise/watchdog.h.
#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <utility>

#include "exec/supervise/diagnose.h"
#include "exec/supervise/watchdog.h"
#include "launch/launch.h"

namespace tandem {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRoundEvery_ms = 20;
constexpr auto kAliveEvery = std::chrono::seconds(1);
// The time in which some byte of the ranks' answers to Dump has to come. It is below one second,
// after which mpirun kills the ranks of a run that it ends.
constexpr auto kTimeToAnswer = std::chrono::milliseconds(700);

template <class T>
std::optional<T> read(std::span<const std::byte> bytes) {
  if (bytes.size() != sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

Nanoseconds longest_compute_ns(const Program& program) {
  Nanoseconds longest = 0;
  for (const Body& body : program.bodies) {
    for (const Op& op : body.ops) {
      if (is_compute(op.kind)) longest = std::max(longest, op.duration_ns);
    }
  }
  return longest;
}

// Returns the rank that failed first by rank 0's clock. A rank that has not compared clocks yet
// counts as having failed before all others, at 0.
std::optional<std::size_t> first_to_fail(const RunEnd& run_end) {
  std::optional<std::size_t> first;
  Nanoseconds first_ns = 0;
  for (std::size_t rank = 0; rank < run_end.states.size(); ++rank) {
    const auto& state = run_end.states[rank];
    if (!state || state->header().failure[0] == 0) continue;
    const RunState::Header& header = state->header();
    const bool has_compared = header.before.at_ns != 0;
    const Nanoseconds failed_ns = has_compared ? header.failed_ns - header.before.ahead_ns : 0;
    if (first && failed_ns >= first_ns) continue;
    first = rank;
    first_ns = failed_ns;
  }
  return first;
}

// Returns the progress of all ranks in the slowest rank's iteration. A rank that is in a later one
// has ended all its ops.
std::vector<RankProgress> progress_of(const Program& program, RunEnd* run_end) {
  std::uint32_t slowest = std::numeric_limits<std::uint32_t>::max();
  for (const auto& state : run_end->states) {
    if (state) slowest = std::min(slowest, state->header().iteration.load());
  }
  std::vector<RankProgress> progress;
  for (std::size_t rank = 0; rank < run_end->states.size(); ++rank) {
    const Body& body = program.body_of(static_cast<Rank>(rank));
    RankProgress& own = progress.emplace_back();
    own.exit_reason = run_end->exit_reasons[rank];
    own.done.resize(body.lanes.size());
    own.begun.resize(body.lanes.size());
    auto& state = run_end->states[rank];
    if (!state) continue;
    if (state->header().iteration > slowest) {
      for (const Op& op : body.ops) ++own.done[op.lane];
    } else {
      std::ranges::copy(state->done(), own.done.begin());
      std::ranges::copy(state->begun(), own.begun.begin());
    }
  }
  return progress;
}

// Returns why the run failed. The first of these that applies is the cause, as other ranks may have
// failed because of it: ranks that were killed or do not answer; the error of the rank that
// reported one first; the op that does not end, found from the ranks' progress (diagnose()).
Error cause_of_failure(const Program& program, RunEnd* run_end) {
  const auto exited = [](const std::string& reason) { return reason.starts_with("exited"); };
  const auto was_killed = [&](const std::string& reason) {  // or does not answer
    return !reason.empty() && !exited(reason);
  };
  const bool any_killed = std::ranges::any_of(run_end->exit_reasons, was_killed);
  if (const std::optional<std::size_t> rank = first_to_fail(*run_end); rank && !any_killed) {
    const RunState::Header& header = run_end->states[*rank]->header();
    return {fmt::format("rank {}: {}", *rank, header.failure), header.failure_kind};
  }
  std::vector<RankProgress> progress = progress_of(program, run_end);
  for (RankProgress& rank : progress) {
    if (any_killed && exited(rank.exit_reason)) rank.exit_reason.clear();  // not the cause
  }
  return {diagnose(program, progress), Error::Failed};
}

class Coordinator {
 public:
  Coordinator(const Program& program, const ExecOptions& options, const HelloMessage& own,
              AdmissionListener admission, const ExternalStop& external_stop,
              const std::string& rendezvous_by)
      : program_(program),
        options_(options),
        own_(own),
        admission_(std::move(admission)),
        external_stop_(external_stop),
        rendezvous_by_(rendezvous_by),
        members_(program.ranks.size()) {}

  RunEnd run() {
    const std::optional<RunFailure> failure = supervise();
    if (failure) collect_states();
    send_to_all(failure ? MessageKind::Stop : MessageKind::Bye);
    RunEnd run_end;
    for (Member& member : members_) {
      run_end.exit_reasons.push_back(exit_reason_of(member));
      run_end.states.push_back(std::move(member.state));
      if (failure && member.connection) member.connection->leave_open();
    }
    if (!failure) return run_end;
    run_end.failure = failure->text;
    if (failure->is_explained) return run_end;
    const Error cause = cause_of_failure(program_, &run_end);
    run_end.failure += cause.message;
    run_end.kind = cause.kind;
    return run_end;
  }

 private:
  // A failure of the run. Without is_explained the text is a beginning that the ranks' states go on
  // with: "no op ended within 60 s: ".
  struct RunFailure {
    std::string text;
    bool is_explained = true;
  };

  struct Member {
    std::optional<Connection> connection;  // nothing: its watchdog has not joined
    ReportMessage status;
    std::optional<RunState> state;
    bool answered = false;      // a State came; one of another Program's size is not kept
    std::uint64_t program = 0;  // hash of the Program that the rank runs

    bool can_answer() const { return connection && connection->is_open(); }
    bool is_lost() const { return connection && !connection->is_open(); }
    bool has_ended() const { return state && status.phase == Phase::Ended; }
  };

  // Waits until all ranks have ended, or the run has failed.
  std::optional<RunFailure> supervise() {
    const auto patience = std::chrono::nanoseconds(options_.timeout_ns);
    const auto begin = Clock::now();
    while (!have_reached(Phase::Joined)) {
      if (Clock::now() - begin > patience)
        return missing_ranks(fmt::format("within {:g} s", to_seconds(options_.timeout_ns)));
      run_round();
      if (const std::string ending = external_stop_.ending(); !ending.empty())
        return missing_ranks("until the run " + ending);
      if (std::optional<RunFailure> found = find_failure()) return found;
    }
    send_to_all(MessageKind::Go);
    const auto stuck_after = patience + std::chrono::nanoseconds(longest_compute_ns(program_));
    last_progress_ = Clock::now();
    while (!std::ranges::all_of(members_, &Member::has_ended)) {
      if (Clock::now() - last_progress_ > stuck_after)
        return RunFailure{
            .text = fmt::format("no op ended within {:g} s: ", to_seconds(options_.timeout_ns)),
            .is_explained = false};
      run_round();
      if (std::optional<RunFailure> found = find_failure()) return found;
    }
    return std::nullopt;
  }

  // Asks the ranks that have joined for their states. Waits until all have answered, or no byte has
  // come for kTimeToAnswer. Once the run is ended from outside, bytes no longer prolong the wait.
  void collect_states() {
    send_to_all(MessageKind::Dump);
    std::vector<const Member*> asked;
    for (const Member& member : members_) {
      if (member.can_answer()) asked.push_back(&member);
    }
    const auto received = [&asked] {
      std::size_t bytes = 0;
      for (const Member* member : asked) bytes += member->connection->received_bytes();
      return bytes;
    };
    auto waits_since = Clock::now();
    while (Clock::now() - waits_since < kTimeToAnswer) {
      std::erase_if(asked, [](const Member* it) { return it->answered || !it->can_answer(); });
      if (asked.empty()) return;
      const std::size_t before = received();
      run_round();
      if (received() > before && external_stop_.ending().empty()) waits_since = Clock::now();
    }
  }

  // Returns whether all ranks are in this phase or a later one.
  bool have_reached(Phase phase) const {
    return std::ranges::all_of(
        members_, [phase](const Member& member) { return member.status.phase >= phase; });
  }

  // Says which ranks are missing. If none has joined, it names the library by which they meet
  // instead: MPI starts only once all ranks are there, so a single missing rank keeps all from
  // joining.
  RunFailure missing_ranks(const std::string& when) const {
    std::vector<std::size_t> missing;
    for (std::size_t rank = 0; rank < members_.size(); ++rank) {
      if (members_[rank].status.phase < Phase::Joined) missing.push_back(rank);
    }
    if (missing.size() == members_.size())
      return {fmt::format("{} did not start {}, expected all {} ranks to come", rendezvous_by_,
                          when, members_.size())};
    return {fmt::format("found no rank {} {}, expected all {} to join", named_ranks(missing), when,
                        members_.size())};
  }

  // Returns a failure after which the run cannot go on. A stopped rank is none, as it can go on. A
  // rank's failure counts before a signal, because mpirun sends a signal when a rank fails.
  std::optional<RunFailure> find_failure() const {
    for (std::size_t rank = 0; rank < members_.size(); ++rank) {
      const Member& member = members_[rank];
      if (member.connection && member.program != own_.program)
        return RunFailure{
            fmt::format("found the Program {:016x} on rank {} and {:016x} on rank 0, expected one",
                        member.program, rank, own_.program)};
      const bool died = member.status.gone != 0 && member.status.phase != Phase::Ended;
      const bool is_lost_early = member.is_lost() && !member.has_ended();
      if (died || is_lost_early) return RunFailure{.text = "", .is_explained = false};
    }
    const std::string ending = external_stop_.ending();
    if (ending.empty()) return std::nullopt;
    return RunFailure{"the run " + ending};
  }

  void send_to_all(MessageKind message) {
    for (Member& member : members_) {
      if (member.connection) member.connection->send(static_cast<std::uint32_t>(message));
    }
  }

  // Waits for messages of watchdogs, for 20 ms at most, and handles them.
  void run_round() {
    if (const auto now = Clock::now(); now - alive_sent_ > kAliveEvery) {
      alive_sent_ = now;
      send_to_all(MessageKind::Alive);
    }
    std::vector<pollfd> events;
    admission_.add_events(&events);
    for (const Member& member : members_) {
      if (member.can_answer()) events.push_back({member.connection->descriptor(), POLLIN, 0});
    }
    poll(events.data(), events.size(), kRoundEvery_ms);
    for (ProvenCaller& caller : admission_.take_proven()) admit_watchdog(&caller);
    for (std::size_t rank = 0; rank < members_.size(); ++rank) {
      if (!members_[rank].connection) continue;
      for (const ControlMessage& message : members_[rank].connection->receive())
        handle(rank, message);
    }
  }

  // Admits the watchdog of a rank, unless the rank already has one.
  void admit_watchdog(ProvenCaller* caller) {
    const std::optional<HelloMessage> hello = read<HelloMessage>(caller->who);
    if (!hello || hello->rank < 0 || hello->rank >= static_cast<int>(members_.size())) return;
    Member& member = members_[hello->rank];
    if (member.connection)
      return admission_.refuse(caller, fmt::format("another rank {}", hello->rank));
    const int body = program_.ranks[hello->rank].body;
    admission_.admit(caller, std::max(sizeof(ReportMessage),
                                      RunState::size_of(program_, body, options_.iterations)));
    member.connection = std::move(caller->connection);
    member.program = hello->program;
  }

  void handle(std::size_t rank, const ControlMessage& message) {
    const auto kind = static_cast<MessageKind>(message.kind);
    const int body = program_.ranks[rank].body;
    if (kind == MessageKind::Report) handle_report(message, &members_[rank]);
    if (kind == MessageKind::State) handle_state(message, body, &members_[rank]);
  }

  void handle_report(const ControlMessage& message, Member* member) {
    auto status = read<ReportMessage>(message.body);
    if (!status) return;
    status->exit_reason[sizeof status->exit_reason - 1] = 0;
    if (status->steps != member->status.steps || status->phase != member->status.phase)
      last_progress_ = Clock::now();
    member->status = *status;
  }

  void handle_state(const ControlMessage& message, int body, Member* member) {
    member->answered = true;
    const std::size_t size = RunState::size_of(program_, body, options_.iterations);
    if (message.body.size() != size) return;
    member->state.emplace(program_, body, options_.iterations, message.body);
    last_progress_ = Clock::now();
  }

  static std::string exit_reason_of(const Member& member) {
    if (!member.connection) return "";
    if (member.state) return member.status.exit_reason;
    return member.is_lost() ? "is gone, and so is its watchdog" : "does not answer";
  }

  const Program& program_;
  const ExecOptions& options_;
  const HelloMessage own_;
  AdmissionListener admission_;
  const ExternalStop& external_stop_;
  const std::string& rendezvous_by_;
  std::vector<Member> members_;      // by rank
  Clock::time_point last_progress_;  // when a new step, phase or state was last received
  Clock::time_point alive_sent_{};
};

}  // namespace

RunEnd coordinate(const Program& program, const ExecOptions& options, const HelloMessage& own,
                  AdmissionListener admission, const ExternalStop& external_stop,
                  const std::string& rendezvous_by) {
  return Coordinator(program, options, own, std::move(admission), external_stop, rendezvous_by)
      .run();
}

}  // namespace tandem
