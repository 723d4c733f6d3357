// Runs jobs in forked children: one pipe a child, read by poll() until the child has ended.
// Declared in base/parallel/parallel.h.
#include "base/parallel/parallel.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>
#include <sstream>
#include <utility>

#include "base/check.h"
#include "base/file.h"
#include "base/memory.h"

namespace tandem {
namespace {

struct Child {
  int job = 0;
  pid_t pid = 0;
  int pipe = -1;
  // The bytes that the child has written so far. The first byte is 0 for a result, followed by its
  // text. Otherwise it is the Error's kind, followed by: source, 0, keys (each with a line end), 0,
  // message.
  std::string output;
};

// Runs the job and writes its result to the pipe. It is noexcept because an exception must end the
// child, which would otherwise go on as a second parent.
[[noreturn]] void run_child(int fd, int job,
                            const std::function<Result<std::string>(int)>& work) noexcept {
  const Result<std::string> result = [&]() -> Result<std::string> {
    try {
      return work(job);
    } catch (const std::bad_alloc&) {
      return out_of_memory();
    }
  }();
  if (result.ok()) {
    (void)write_all(fd, '\0' + *result);
  } else {
    const Error& error = result.error();
    std::string keys;
    for (const std::string& key : error.place.keys) keys += key + '\n';
    (void)write_all(fd, static_cast<char>(error.kind) + error.place.source + '\0' + keys + '\0' +
                            error.message);
  }
  std::fflush(nullptr);
  _exit(0);
}

Error cannot_start() {
  return Error{fmt::format("the run's process could not be started: {}", std::strerror(errno)),
               Error::Failed};
}

Result<Child> spawn(int job, const std::function<Result<std::string>(int)>& work) {
  int ends[2];
  if (::pipe(ends) != 0) return cannot_start();
  std::fflush(nullptr);  // or the child would print our buffered output again
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) {
    const Error error = cannot_start();
    for (const int end : ends) ::close(end);
    return error;
  }
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);   // the child dies with its parent
    if (::getppid() != parent) _exit(1);  // the parent ended before prctl
    ::close(ends[0]);
    run_child(ends[1], job, work);
  }
  ::close(ends[1]);
  return Child{job, pid, ends[0], {}};
}

// Reads what the child wrote so far. Returns true once the child has closed its end.
bool drain(Child* child) {
  char buffer[65536];
  const ssize_t got = ::read(child->pipe, buffer, sizeof buffer);
  if (got < 0 && errno == EINTR) return false;
  if (got > 0) child->output.append(buffer, static_cast<std::size_t>(got));
  return got <= 0;
}

// Waits for the end of a child that has closed its pipe. Returns its result, or how it died.
Result<std::string> collect(Child* child) {
  ::close(child->pipe);
  int status = 0;
  while (::waitpid(child->pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status))
    return Error{fmt::format("the run's process was ended by signal {} ({})", WTERMSIG(status),
                             strsignal(WTERMSIG(status))),
                 Error::Failed};
  if (WEXITSTATUS(status) != 0 || child->output.empty())
    return Error{
        fmt::format("the run's process ended with status {} and no result", WEXITSTATUS(status)),
        Error::Failed};
  const char kind = child->output.front();
  std::string text = child->output.substr(1);
  if (kind == 0) return text;
  const std::size_t place_end = text.find('\0'), keys_end = text.find('\0', place_end + 1);
  FaultPlace place{.keys = {}, .source = text.substr(0, place_end)};
  std::istringstream keys(text.substr(place_end + 1, keys_end - place_end - 1));
  for (std::string key; std::getline(keys, key);) place.keys.push_back(key);
  return Error{text.substr(keys_end + 1), static_cast<Error::Kind>(kind), std::move(place)};
}

// The children under way. The destructor ends those that are left.
struct Running {
  Running() = default;
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  ~Running() {
    for (Child& child : children) {
      ::kill(child.pid, SIGKILL);
      (void)collect(&child);
    }
  }

  std::vector<Child> children;
  std::optional<int> next_job;  // nothing: to be asked for
  bool has_more = true;         // until there is no next job
};

// Starts children until `jobs` of them run, or no job is left.
Status start_more(int jobs, const NextJob& next, const std::function<Result<std::string>(int)>& job,
                  const OnJobDone& on_done, Running* running) {
  while (running->has_more && static_cast<int>(running->children.size()) < jobs) {
    if (!running->next_job) {
      ASSIGN_OR_RETURN(running->next_job, next());
    }
    running->has_more = running->next_job.has_value();
    if (!running->has_more) break;
    Result<Child> child = spawn(*running->next_job, job);
    if (!child.ok() && !running->children.empty()) break;  // tried again when a child has ended
    const int begun = *std::exchange(running->next_job, std::nullopt);
    if (child.ok()) {
      running->children.push_back(*std::move(child));
    } else {
      RETURN_IF_ERROR(on_done(begun, child.error()));
    }
  }
  return Done{};
}

// Waits for output, for half a second at most if there is an on_wait, and collects the children
// that have ended.
Status collect_ended(const OnJobDone& on_done, const std::function<void()>& on_wait,
                     std::vector<Child>* all) {
  std::vector<Child>& children = *all;
  std::vector<pollfd> waits;
  for (const Child& child : children) waits.push_back({child.pipe, POLLIN, 0});
  constexpr int kWait_ms = 500, kWithoutEnd = -1;
  const int ready = ::poll(waits.data(), waits.size(), on_wait ? kWait_ms : kWithoutEnd);
  if (ready < 0 && errno != EINTR)
    return Error{fmt::format("could not wait for the runs' processes: {}", std::strerror(errno)),
                 Error::Failed};
  if (ready == 0) on_wait();
  if (ready <= 0) return Done{};
  for (std::size_t i = children.size(); i-- > 0;) {
    if (waits[i].revents == 0 || !drain(&children[i])) continue;
    Child ended = std::move(children[i]);
    children.erase(children.begin() + static_cast<std::ptrdiff_t>(i));
    RETURN_IF_ERROR(on_done(ended.job, collect(&ended)));
  }
  return Done{};
}

}  // namespace

Status fork_each(int jobs, const NextJob& next, const std::function<Result<std::string>(int)>& job,
                 const OnJobDone& on_done, const std::function<void()>& on_wait) {
  CHECK(jobs >= 1);
  Running running;
  for (;;) {
    RETURN_IF_ERROR(start_more(jobs, next, job, on_done, &running));
    if (running.children.empty()) return Done{};
    RETURN_IF_ERROR(collect_ended(on_done, on_wait, &running.children));
  }
}

}  // namespace tandem
