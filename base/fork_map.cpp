#include "base/fork_map.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/check.h"

namespace tandem {
namespace {

struct Child {
  int job = 0;
  pid_t pid = 0;
  int pipe = -1;
  std::string output;  // one byte (0, or the error's kind), then the text
};

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

// noexcept: an exception ends the child; it must not run on as a second parent.
[[noreturn]] void run_child(int fd, int job,
                            const std::function<Result<std::string>(int)>& work) noexcept {
  const Result<std::string> result = work(job);
  const char kind = static_cast<char>(result.ok() ? 0 : result.error().kind);
  write_all(fd, std::string(1, kind) + (result.ok() ? *result : result.error().message));
  std::fflush(nullptr);
  _exit(0);
}

Child spawn(int job, const std::function<Result<std::string>(int)>& work) {
  int ends[2];
  CHECK(::pipe(ends) == 0);
  std::fflush(nullptr);  // or the child would print what waits in our buffers again
  const pid_t pid = ::fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    ::close(ends[0]);
    run_child(ends[1], job, work);
  }
  ::close(ends[1]);
  return Child{job, pid, ends[0], {}};
}

// Reads what the child wrote so far; true once it has closed its end.
bool drain(Child* child) {
  char buffer[65536];
  const ssize_t got = ::read(child->pipe, buffer, sizeof buffer);
  if (got < 0 && errno == EINTR) return false;
  if (got > 0) child->output.append(buffer, static_cast<std::size_t>(got));
  return got <= 0;
}

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
  return Error{std::move(text), static_cast<Error::Kind>(kind)};
}

}  // namespace

std::vector<Result<std::string>> fork_map(int count, int jobs,
                                          const std::function<Result<std::string>(int)>& job,
                                          const std::function<void(int)>& on_done) {
  CHECK(jobs >= 1);
  std::vector<Result<std::string>> results(count, Error{"not run", Error::Failed});
  std::vector<Child> running;
  int next = 0;
  while (next < count || !running.empty()) {
    while (next < count && static_cast<int>(running.size()) < jobs)
      running.push_back(spawn(next++, job));
    std::vector<pollfd> waits;
    for (const Child& child : running) waits.push_back({child.pipe, POLLIN, 0});
    if (::poll(waits.data(), waits.size(), -1) < 0) continue;
    for (std::size_t i = running.size(); i-- > 0;) {
      if (waits[i].revents == 0 || !drain(&running[i])) continue;
      results[running[i].job] = collect(&running[i]);
      on_done(running[i].job);
      running.erase(running.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  return results;
}

}  // namespace tandem
