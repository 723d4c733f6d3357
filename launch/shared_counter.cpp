// The parent forks a child. The child starts MPI, counts with the other ranks' children, and
// answers the parent's questions over a socket pair. The parent never starts MPI, because a process
// that has started MPI must not fork.
#include "launch/shared_counter.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>
#include <utility>

#include "base/plugin.h"

namespace tandem {
namespace {

// The parent asks for the next number, for the greatest `own` of all ranks, or to leave.
enum : char { kNext = 'n', kMeet = 'm', kLeave = 'l' };

struct Question {
  char kind = 0;
  std::int64_t own = 0;  // of kMeet
};

struct Answer {
  std::int64_t number = 0;
  Error::Kind kind = Error::Failed;
  char failure[512] = "";  // empty: none
};

// Returns whether everything was sent; false if the other end is gone.
template <class T>
bool send_value(int socket, const T& value) {
  return ::send(socket, &value, sizeof value, MSG_NOSIGNAL) == sizeof value;
}

template <class T>
bool receive_value(int socket, T* value) {
  return ::recv(socket, value, sizeof *value, MSG_WAITALL) == sizeof *value;
}

Answer answer_of(const Result<std::int64_t>& result) {
  Answer answer;
  if (result.ok()) {
    answer.number = *result;
  } else {
    answer.kind = result.error().kind;
    std::strncpy(answer.failure, result.error().text().c_str(), sizeof answer.failure - 1);
  }
  return answer;
}

Result<std::unique_ptr<Counter>> open_counter(const LaunchedRank& own) {
  const auto symbol = plugin_symbol("libtandem_mpi.so", kCounterSymbol, /*global=*/true);
  if (!symbol.ok())
    return Error{fmt::format("found no MPI ({}), expected libtandem_mpi.so: {} ranks share their "
                             "work by it; --shard needs none",
                             symbol.error().text(), own.ranks),
                 Error::Missing};
  std::unique_ptr<Counter> counter(reinterpret_cast<MakeCounter>(*symbol)());
  if (counter->rank() == own.rank && counter->ranks() == own.ranks) return counter;
  const Error other_mpi{
      fmt::format("found rank {} of {} by MPI, expected rank {} of {} as {} says: is it started by "
                  "another MPI's mpirun?",
                  counter->rank(), counter->ranks(), own.rank, own.ranks, own.family)};
  (void)counter.release();  // deleting it would wait for the others
  return other_mpi;
}

// Answers by MPI. kMeet and kLeave wait for all ranks.
Result<std::int64_t> answer(const Question& question, Counter* counter) {
  if (question.kind == kNext) return counter->next();
  return counter->greatest(question.own);
}

// Serves the parent in the child process, until the parent leaves or is gone. Looks for a question
// every millisecond. In between it lets MPI make progress: rank 0 holds the counter for all.
void serve_parent(int socket, const LaunchedRank& own) {
  auto opened = open_counter(own);
  const Answer joined = answer_of(opened.ok() ? Result<std::int64_t>(0) : opened.error());
  if (!send_value(socket, joined) || !opened.ok()) return;
  Counter* const counter = opened->release();  // deleting it waits until all ranks do so
  for (;;) {
    constexpr int kPoll_ms = 1;
    pollfd event{socket, POLLIN, 0};
    if (::poll(&event, 1, kPoll_ms) <= 0) {
      if (!counter->progress().ok()) return;
      continue;
    }
    Question question;
    if (!receive_value(socket, &question)) return;
    const bool leaves = question.kind == kLeave;
    const Result<std::int64_t> result = answer(question, counter);
    if (leaves && result.ok()) delete counter;
    if (!send_value(socket, answer_of(result)) || leaves) return;
  }
}

}  // namespace

Result<SharedCounter> SharedCounter::join(const LaunchedRank& own) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return Error{fmt::format("socketpair: {}", std::strerror(errno)), Error::Failed};
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) {
    const Error failed{fmt::format("fork: {}", std::strerror(errno)), Error::Failed};
    for (const int end : ends) ::close(end);
    return failed;
  }
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() == parent) {
      ::close(ends[0]);
      serve_parent(ends[1], own);
    }
    _exit(0);
  }
  ::close(ends[1]);
  SharedCounter counter(ends[0], child);
  Answer joined;
  if (!receive_value(counter.socket_, &joined))
    return Error{fmt::format("rank {}: found MPI ended at its start, expected it to run", own.rank),
                 Error::Failed};
  if (joined.failure[0] != 0) return Error{joined.failure, joined.kind};
  return counter;
}

SharedCounter::SharedCounter(SharedCounter&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)), child_(std::exchange(other.child_, -1)) {}

SharedCounter::~SharedCounter() {
  if (socket_ < 0) return;
  ::close(socket_);
  ::kill(child_, SIGKILL);
  while (::waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

Result<std::int64_t> SharedCounter::ask(char kind, std::int64_t own) {
  Answer answer;
  if (!send_value(socket_, Question{kind, own}) || !receive_value(socket_, &answer))
    return Error{"found MPI ended, expected it to share the work", Error::Failed};
  if (answer.failure[0] != 0) return Error{answer.failure, answer.kind};
  return answer.number;
}

Result<std::int64_t> SharedCounter::next() { return ask(kNext, 0); }
Result<std::int64_t> SharedCounter::meet(std::int64_t own) { return ask(kMeet, own); }

Status SharedCounter::leave() {
  RETURN_IF_ERROR(ask(kLeave, 0));
  return Done{};
}

}  // namespace tandem
