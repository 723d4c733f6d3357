// Watchdogs: every process that plays a rank is the child of a watchdog, which observes it and
// reports to the coordinator on rank 0. So if a rank dies, stops or hangs, the run can say which
// one and why.
//
//   rank's process          watchdog (its parent)              coordinator (a thread on rank 0)
//   writes RunState  ---->  reads it, waits for the child ---> waits for all, ends the run
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "exec/execute.h"
#include "exec/supervise/run_state.h"
#include "launch/admission.h"
#include "launch/connection.h"
#include "launch/secret.h"
#include "schedule/program/program.h"

namespace tandem {

// The messages between coordinator and watchdogs.
enum class MessageKind : std::uint32_t {
  Go = 1,  // from the coordinator: all ranks have joined, play
  Report,  // from a watchdog: a ReportMessage
  Dump,    // from the coordinator: send the RunState
  State,   // from a watchdog: the bytes of the RunState
  Bye,     // from the coordinator: all ranks have played
  Stop,    // from the coordinator: the run has failed
  Alive,   // from the coordinator, every second; a watchdog gives up if it hears nothing for long
};

// A watchdog's first message. It proves by the run's key that it belongs to the run
// (launch/admission.h).
struct HelloMessage {
  std::int32_t rank = 0;
  std::uint32_t zero = 0;     // in place of padding
  std::uint64_t program = 0;  // hash of the Program
};

struct ReportMessage {
  std::uint64_t steps = 0;  // RunState::Header::steps
  Phase phase = Phase::Starting;
  std::uint32_t gone = 0;      // 1: the rank's process has ended
  char exit_reason[112] = "";  // "was killed by signal 9 (Killed)"; empty: alive
};

// A child process that is watched.
class ChildProcess {
 public:
  // Forks. The child calls `body`, exits with the status that it returns, and dies with its parent.
  // It leaves SIGTERM and SIGINT, which a launcher sends to all, to its parent.
  explicit ChildProcess(const std::function<int()>& body);
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ~ChildProcess() { kill(); }

  // Collects changes of the child's state for the functions below.
  void update();
  bool is_gone() const { return gone_; }
  int exit_status() const { return exit_status_; }
  // Says how it ended or was stopped; empty: alive, or exited with 0.
  const std::string& exit_reason() const { return exit_reason_; }
  void kill();

 private:
  pid_t process_ = -1;
  bool gone_ = false;
  int exit_status_ = 0;
  std::string exit_reason_;
};

// Detects that a run is ended from outside: by SIGTERM or SIGINT, or by the end of the process that
// started the ranks. Once constructed, these signals stay caught until the process ends, so that it
// can still report.
class ExternalStop {
 public:
  // `launched`: somebody started the ranks, and they end with that process.
  explicit ExternalStop(bool launched);

  bool is_orphan() const;
  // Returns "was ended by signal 15 (Terminated)"; empty: nothing ends it.
  std::string ending() const;

 private:
  std::optional<pid_t> parent_;
};

// Watches a rank until its run ends. The child has ended on return. When a run fails, the watchdogs
// of ranks other than 0 stay until rank 0's process ends: if one left, mpirun would end all ranks
// before rank 0 has reported. `address`: of the coordinator; `key`: of the run; if empty, both are
// read from the rank's state once it has joined. Returns an Error if the rank cannot join, or if
// the coordinator is lost or silent, but none if the run was ended from outside.
Status watch(const HelloMessage& hello, const ExecOptions& options, const std::string& address,
             const Digest& key, const Hmac& hmac, const ExternalStop& external_stop,
             RunState* state, ChildProcess* child);

// How a run ended, as the coordinator saw it.
struct RunEnd {
  std::vector<std::optional<RunState>> states;  // by rank; nothing: it did not answer
  std::vector<std::string> exit_reasons;        // empty: alive
  std::string failure;                          // empty: all ranks have played all iterations
  Error::Kind kind = Error::Failed;             // of the failure
};

// Runs the coordinator: waits for the watchdogs of all ranks, and ends the run. `rendezvous_by`:
// the library to blame if no rank joins, such as "MPI".
RunEnd coordinate(const Program& program, const ExecOptions& options, const HelloMessage& own,
                  AdmissionListener admission, const ExternalStop& external_stop,
                  const std::string& rendezvous_by);

}  // namespace tandem
