// Watchdogs: every rank that plays is a child of a watchdog, which observes it and reports to the
// coordinator on rank 0. So a rank may die, stop or hang, and it is known what happened to it.
//
//   rank's process          watchdog (its parent)              coordinator (a thread on rank 0)
//   writes RunState  ---->  reads it, waits for the child ---> waits for all, ends the run
#pragma once

#include <sys/types.h>

#include <atomic>
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

// The messages between watchdogs and coordinator. Bye: all have played. Stop: the run has failed.
// Alive: the coordinator is there. A watchdog that hears nothing from it for the time-out and a
// while gives up.
enum class MessageKind : std::uint32_t { Go = 1, Report, Dump, State, Bye, Stop, Alive };

// A watchdog's first message. It proves by the run's key that it belongs to the run
// (launch/admission.h).
struct HelloMessage {
  std::int32_t rank = 0;
  std::uint32_t zero = 0;
  std::uint64_t program = 0;  // hash
};

struct ReportMessage {
  std::uint64_t steps = 0;  // as the rank's state has them
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

  void update();  // updates what follows
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

// Tells whether a run is ended from outside: by SIGTERM or SIGINT, or by the end of the process
// that started the ranks. The signals are caught from here to the end of the process, so that it
// can tell what it knows.
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

// Watches a rank until the coordinator says Bye; the child has ended by then. When a run fails, the
// watchdogs of ranks other than 0 stay until rank 0's process ends: if one left, mpirun would end
// all ranks, and rank 0 has yet to report. `address` and `key`: of the coordinator and the run;
// empty: the rank will write them into its state. Returns an Error if the rank cannot join, or if
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

// Waits for the watchdogs of all ranks, and ends the run. `rendezvous_by`: what did not start if no
// rank comes: "MPI".
RunEnd coordinate(const Program& program, const ExecOptions& options, const HelloMessage& own,
                  AdmissionListener admission, const ExternalStop& external_stop,
                  const std::string& rendezvous_by);

}  // namespace tandem
