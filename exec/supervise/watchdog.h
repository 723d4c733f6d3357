// Guards: every rank that plays is a child of a guard, which sees how it fares and tells the front,
// on rank 0. So a rank may die, stop or hang, and what it did is known all the same.
//
//   rank's process          guard (its parent)                 front (a thread on rank 0)
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
#include "launch/connection.h"
#include "schedule/program/program.h"

namespace tandem {

// What guards and front say to each other. Bye: all have played. Stop: the run has failed. Alive:
// the front is there; who hears nothing of it for the time-out and a while gives up.
enum class Say : std::uint32_t { Hello, Go, Report, Dump, State, Bye, Stop, Alive };

struct HelloWord {
  std::int32_t rank = 0;
  std::uint64_t run = 0;      // one number a run: who comes by mistake has another
  std::uint64_t program = 0;  // hash
};

struct ReportWord {
  std::uint64_t ended = 0;  // ops
  Phase phase = Phase::Starting;
  std::uint32_t gone = 0;  // the rank's process is no more
  char fate[112] = "";     // "was killed by signal 9 (Killed)"; empty: alive
};

// A child process that is watched.
class Child {
 public:
  // Forks; the child calls `body`, exits with what it gives, and dies with its parent. SIGTERM and
  // SIGINT, which a launcher sends to all, it leaves to its parent.
  explicit Child(const std::function<int()>& body);
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() { kill(); }

  void look();  // updates what follows
  bool is_gone() const { return gone_; }
  int exit_status() const { return exit_status_; }
  // Empty: alive, or exited with 0.
  const std::string& fate() const { return fate_; }
  void kill();

 private:
  pid_t process_ = -1;
  bool gone_ = false;
  int exit_status_ = 0;
  std::string fate_;
};

// What ends a run from outside: SIGTERM or SIGINT, which are caught from here to the end of the
// process, so that it can tell what it knows, and the end of the process that started the ranks.
class Outside {
 public:
  // `launched`: somebody started the ranks, and they end with it.
  explicit Outside(bool launched);

  bool is_orphan() const;
  // "was ended by signal 15 (Terminated)"; empty: nothing ends it.
  std::string ending() const;

 private:
  std::optional<pid_t> parent_;
};

// Guards a rank until the front says goodbye; then its child is no more. Of a run that failed,
// ranks other than 0 stay until rank 0's process ends: where one leaves mpirun ends all, and rank 0
// has yet to tell. `address`: the front's; empty: the rank will say it in its state. An Error where
// the rank cannot join, or the front is lost or silent; none where it was ended from outside.
Status guard(const HelloWord& hello, const ExecOptions& options, const std::string& address,
             const Outside& outside, RunState* state, Child* child);

// How a run ended, as the front saw it.
struct Gathered {
  std::vector<std::optional<RunState>> states;  // by rank; nothing: it did not answer
  std::vector<std::string> fates;               // empty: alive
  std::string failure;                          // empty: all ranks have played all iterations
  Error::Kind kind = Error::Failed;             // of the failure
};

// `meets_by`: what did not start where no rank comes: "MPI".
Gathered gather(const Program& program, const ExecOptions& options, const HelloWord& own,
                const Listener& listener, const Outside& outside, const std::string& meets_by);

}  // namespace tandem
