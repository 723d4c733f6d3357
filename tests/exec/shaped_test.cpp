// The shaped cluster: a command finds its namespaces in it, with the preset's rates, and nothing of
// it outlives the script. Skipped, with the reason, where the machine cannot.
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tests/text.h"

using namespace tandem;

namespace {

using Words = std::vector<std::string>;

const std::string kScript = TANDEM_SOURCE_DIR "/validation/shaped-cluster";

// The script under way. Whatever runs in the cluster holds the pipe that it prints to.
class Run {
 public:
  explicit Run(Words words) {
    words.insert(words.begin(), kScript);
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    script_ = fork();
    REQUIRE(script_ >= 0);
    if (script_ == 0) {
      dup2(ends[1], STDOUT_FILENO);
      dup2(ends[1], STDERR_FILENO);
      close(ends[0]);
      close(ends[1]);
      execv(kScript.c_str(), arguments.data());
      _exit(127);
    }
    close(ends[1]);
    printed_ = ends[0];
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;
  ~Run() {
    if (!status_) kill(script_, SIGKILL);
    wait();
    close(printed_);
  }

  // Reads on until `text` was printed.
  bool prints(const std::string& text) {
    while (output_.find(text) == std::string::npos) {
      if (!read_some()) return false;
    }
    return true;
  }

  // All that was printed, once nobody is left to print more; a failed check if somebody stays.
  const std::string& output() {
    while (read_some()) continue;
    CHECK(ended_);
    return output_;
  }

  void send(int signal) const { kill(script_, signal); }

  // The exit status, or 128 and the signal.
  int wait() {
    int status = 0;
    if (!status_ && waitpid(script_, &status, 0) == script_)
      status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return status_.value_or(-1);
  }

 private:
  // Waits 30 s at most. False: nobody prints any more, or nobody did.
  bool read_some() {
    pollfd readable{printed_, POLLIN, 0};
    if (poll(&readable, 1, 30'000) != 1) return false;
    char buffer[4096];
    const ssize_t bytes = read(printed_, buffer, sizeof buffer);
    ended_ = bytes == 0;
    if (bytes > 0) output_.append(buffer, static_cast<std::size_t>(bytes));
    return bytes > 0;
  }

  pid_t script_ = -1;
  int printed_ = -1;
  std::string output_;
  bool ended_ = false;
  std::optional<int> status_;
};

// Whether this machine can; ctest counts a test as skipped that prints why not.
bool possible() {
  Run check({"--check"});
  const std::string reason = check.output();
  const int status = check.wait();
  if (status == 77) {
    REQUIRE(reason.starts_with("skipped: "));
    WARN(reason);
    return false;
  }
  INFO(reason);
  REQUIRE(status == 0);
  return true;
}

}  // namespace

TEST_CASE("the shaped cluster refuses what it does not know") {
  for (const Words& words : {Words{},
                             {"--net", "none", "true"},
                             {"--nodes", "0", "true"},
                             {"--mapping", "odd", "true"},
                             {"--fast", "true"},
                             {"--net"}}) {
    Run run(words);
    CHECK(run.output().starts_with("shaped-cluster: "));
    CHECK(run.wait() == 2);
  }
}

TEST_CASE("a command in the shaped cluster has a namespace a rank and a node, and its own status") {
  if (!possible()) return;
  Run list({"ip", "netns", "list"});
  for (const char* name : {"r0", "r1", "r2", "r3", "n0", "n1", "core"})
    CHECK(has('\n' + list.output(), fmt::format("\n{}", name)));
  CHECK(list.wait() == 0);
  Run seven({"sh", "-c", "exit 7"});
  CHECK(seven.wait() == 7);
  Run crash({"sh", "-c", "kill -SEGV $$"});
  CHECK(crash.wait() == 128 + SIGSEGV);
}

TEST_CASE("the shaped cluster's links have the preset's rates, for the payload of full frames") {
  if (!possible()) return;
  // 50 and 100 MB/s of payload: 1448 of the 1514 bytes of a frame.
  Run jz({"--net", "shaped-jz", "tc", "-n", "r0", "class", "show", "dev", "eth0"});
  CHECK(has(jz.output(), "root rate 418232Kbit"));
  Run dgx({"--net", "shaped-dgx", "tc", "-n", "n0", "class", "show", "dev", "uplink"});
  CHECK(has(dgx.output(), "root rate 836464Kbit"));
}

TEST_CASE("ranks of the shaped cluster are on nodes in blocks or dealt round") {
  if (!possible()) return;
  for (const char* mapping : {"block", "cyclic"}) {
    Run run({"--mapping", mapping, "ip", "-n", "n0", "-brief", "link"});
    const std::string second = std::string(mapping) == "block" ? "r1" : "r2";
    CHECK(has(run.output(), "\nr0@"));
    CHECK(has(run.output(), fmt::format("\n{}@", second)));
  }
}

TEST_CASE("mpirun in the shaped cluster starts every rank in its namespace") {
  if (!possible()) return;
  Run run({"mpirun", "-np", "4", "ip", "-4", "-brief", "address", "show", "dev", "eth0"});
  for (const char* address : {"10.77.0.1/24", "10.77.0.2/24", "10.77.0.3/24", "10.77.0.4/24"})
    CHECK(has(run.output(), address));
  CHECK(run.wait() == 0);
}

TEST_CASE("nothing of the shaped cluster is left, however it ends") {
  if (!possible()) return;
  Run left({"sh", "-c", "sleep 1000 & echo up"});  // the command ends before what it started
  CHECK(has(left.output(), "up"));
  CHECK(left.wait() == 0);
  for (const int signal : {SIGKILL, SIGTERM, SIGINT}) {
    Run run({"sh", "-c", "echo up; sleep 1000"});
    CHECK(run.prints("up"));
    run.send(signal);
    run.output();
    CHECK(run.wait() == 128 + signal);
  }
}
