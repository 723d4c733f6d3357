// Watchdogs: every rank that plays is a child of a watchdog, which sees how it fares and tells the
// coordinator, on rank 0. So a rank may die, stop or hang, and what it did is known all the same.
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
// Alive: the coordinator is there; a watchdog that hears nothing of it for the time-out and a while
// gives up.
enum class MessageKind : std::uint32_t { Go = 1, Report, Dump, State, Bye, Stop, Alive };

// Who a watchdog is. It proves by the run's key that it is of the run (launch/admission.h).
struct HelloMessage {
  std::int32_t rank = 0;
  std::uint32_t zero = 0;
  std::uint64_t program = 0;  // hash
};

struct ReportMessage {
  std::uint64_t steps = 0;  // as the rank's state has them
  Phase phase = Phase::Starting;
  std::uint32_t gone = 0;      // the rank's process has ended
  char exit_reason[112] = "";  // "was killed by signal 9 (Killed)"; empty: alive
};

// A child process that is watched.
class ChildProcess {
 public:
  // Forks; the child calls `body`, exits with what it gives, and dies with its parent. SIGTERM and
  // SIGINT, which a launcher sends to all, it leaves to its parent.
  explicit ChildProcess(const std::function<int()>& body);
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ~ChildProcess() { kill(); }

  void look();  // updates what follows
  bool is_gone() const { return gone_; }
  int exit_status() const { return exit_status_; }
  // Empty: alive, or exited with 0.
  const std::string& exit_reason() const { return exit_reason_; }
  void kill();

 private:
  pid_t process_ = -1;
  bool gone_ = false;
  int exit_status_ = 0;
  std::string exit_reason_;
};

// What ends a run from outside: SIGTERM or SIGINT, which are caught from here to the end of the
// process, so that it can tell what it knows, and the end of the process that started the ranks.
class ExternalStop {
 public:
  // `launched`: somebody started the ranks, and they end with it.
  explicit ExternalStop(bool launched);

  bool is_orphan() const;
  // "was ended by signal 15 (Terminated)"; empty: nothing ends it.
  std::string ending() const;

 private:
  std::optional<pid_t> parent_;
};

// Watches a rank until the coordinator says Bye; its child has ended by then. When a run fails,
// ranks other than 0 stay until rank 0's process ends: where one leaves, mpirun ends all ranks, and
// rank 0 has yet to report. `address` and `key`: the coordinator's and the run's; empty: the rank
// will write them into its state. An Error where the rank cannot join, or the coordinator is lost
// or silent; none where it was ended from outside.
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

// `rendezvous_by`: what did not start where no rank comes: "MPI".
RunEnd coordinate(const Program& program, const ExecOptions& options, const HelloMessage& own,
                  Door door, const ExternalStop& external_stop, const std::string& rendezvous_by);

}  // namespace tandem
