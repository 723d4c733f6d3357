// MpiRun: a command line under way, in a folder of its own, and the processes that it started.
#pragma once

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <functional>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/file.h"
#include "tests/folder.h"
#include "tests/waiting.h"

namespace tandem {

// A file's text, of /proc, say; empty where it cannot be read, as that of a process that has ended
// since it was opened.
inline std::string text_of(const std::filesystem::path& path) {
  const auto text = read_file(path.string());
  return text.ok() ? *text : "";
}

// Whether a process sleeps as exactly as one that plays does (ExactSleep).
inline bool sleeps_exactly(pid_t process) {
  return text_of("/proc/" + std::to_string(process) + "/timerslack_ns") == "1\n";
}

class MpiRun {
 public:
  // Output and errors go to files; all that it starts has a mark in its environment. `rank_key`:
  // how a process is told its rank.
  MpiRun(const Folder& folder, const std::string& command,
         std::string rank_key = "OMPI_COMM_WORLD_RANK")
      : out_(folder / "out"),
        err_(folder / "err"),
        rank_key_(std::move(rank_key)),
        mark_("TANDEM_TEST=" + folder.path().string()) {
    const std::string line = "cd '" + folder.path().string() + "' && exec " + command + " >'" +
                             out_ + "' 2>'" + err_ + "' </dev/null";
    process_ = fork();
    REQUIRE(process_ >= 0);
    if (process_ > 0) return;
    setpgid(0, 0);
    putenv(mark_.data());
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    setenv("HWLOC_HIDE_ERRORS", "2", 1);  // mpirun's own words, where there is no /sys
    execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
    _exit(127);
  }
  MpiRun(const MpiRun&) = delete;
  MpiRun& operator=(const MpiRun&) = delete;
  ~MpiRun() { end(); }

  // Kills all that is left of it.
  void end() {
    for (const pid_t process : processes()) kill(process, SIGKILL);
    wait();
  }

  // The exit status, or 128 and the signal.
  int wait() {
    int status = 0;
    if (status_ < 0 && waitpid(process_, &status, 0) == process_)
      status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return status_;
  }
  // Whether it ends by then; wait() has its status afterwards.
  bool ends_within(std::chrono::milliseconds time) {
    const auto begin = std::chrono::steady_clock::now();
    for (int status = 0; status_ < 0; usleep(5000)) {
      if (waitpid(process_, &status, WNOHANG) == process_)
        status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      else if (std::chrono::steady_clock::now() - begin > time)
        return false;
    }
    return true;
  }
  std::string out() const { return text_of(out_); }
  std::string err() const { return text_of(err_); }

  pid_t launcher() const { return process_; }
  // All processes under way that it started.
  std::vector<pid_t> processes() const { return marked(mark_); }
  // The one among them that is called so; 0: not there.
  pid_t named(const std::string& name) const {
    for (const pid_t process : processes())
      if (text_of("/proc/" + std::to_string(process) + "/comm") == name + '\n') return process;
    return 0;
  }
  bool leaves_nothing() const {
    return comes_true([this] { return processes().empty(); });
  }

  // Of the sockets that they listen on, the addresses beyond loopback, as /proc/net/tcp has them.
  std::vector<std::string> open_to_others() const { return listening(false); }
  // And those on loopback.
  std::vector<std::string> open_to_this_host() const { return listening(true); }

  // Of rank k, the process that mpirun started, and its child that plays; 0: not there.
  pid_t watch(int rank) const {
    for (const pid_t process : of(rank)) {
      if (variable(parent(process), rank_name(rank)) == false) return process;
    }
    return 0;
  }
  pid_t local_rank(int rank) const {
    const pid_t own = watch(rank);
    for (const pid_t process : of(rank)) {
      if (own != 0 && parent(process) == own) return process;
    }
    return 0;
  }

  // Until the only rank, which no mpirun started, plays.
  bool plays_alone() const {
    return comes_true([this] { return std::ranges::any_of(processes(), sleeps_exactly); });
  }

  // Waits until all of so many ranks play, and have slept for 20 ops or polls since.
  bool plays(int ranks) const {
    constexpr long kSleeps = 20;
    std::vector<pid_t> players(ranks);
    std::vector<long> enough(ranks);  // voluntary context switches
    return comes_true([&] {
      for (int rank = 0; rank < ranks; ++rank) {
        pid_t& player = players[rank];
        if (player != 0) continue;
        const pid_t process = local_rank(rank);
        if (process == 0 || !sleeps_exactly(process)) return false;
        player = process;
        enough[rank] = status(player, "voluntary_ctxt_switches") + kSleeps;
      }
      for (int rank = 0; rank < ranks; ++rank)
        if (status(players[rank], "voluntary_ctxt_switches") < enough[rank]) return false;
      return true;
    });
  }

 private:
  std::vector<std::string> listening(bool on_loopback) const {
    std::set<std::string> own;  // "socket:[123]"
    for (const pid_t process : processes()) {
      std::error_code gone;
      const std::filesystem::path folder = "/proc/" + std::to_string(process) + "/fd";
      for (std::filesystem::directory_iterator file(folder, gone), end; file != end;
           file.increment(gone))
        own.insert(std::filesystem::read_symlink(file->path(), gone).string());
    }
    std::vector<std::string> found;
    for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
      std::istringstream lines(text_of(table));
      for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        const std::vector<std::string> cells{std::istream_iterator<std::string>(words), {}};
        constexpr std::size_t kAddress = 1, kState = 3, kInode = 9;
        if (cells.size() <= kInode || cells[kState] != "0A") continue;
        if (own.count("socket:[" + cells[kInode] + "]") == 0) continue;
        const std::string address = cells[kAddress].substr(0, cells[kAddress].find(':'));
        // The bytes of each word are turned round: 127.0.0.1, ::1.
        const bool loopback = address == "00000000000000000000000001000000" ||
                              (address.size() == 8 && address.ends_with("7F"));
        if (loopback == on_loopback) found.push_back(cells[kAddress]);
      }
    }
    return found;
  }

  std::string rank_name(int rank) const { return rank_key_ + '=' + std::to_string(rank); }

  // Whether a process has exactly this in its environment.
  static bool variable(pid_t process, const std::string& setting) {
    const std::string all = '\0' + text_of("/proc/" + std::to_string(process) + "/environ");
    return all.find('\0' + setting + '\0') != std::string::npos;
  }

  static std::vector<pid_t> marked(const std::string& setting) {
    std::vector<pid_t> found;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const int process = std::atoi(entry.path().filename().c_str());
      if (process > 0 && variable(process, setting)) found.push_back(process);
    }
    return found;
  }

  std::vector<pid_t> of(int rank) const {
    std::vector<pid_t> own;
    for (const pid_t process : processes()) {
      if (variable(process, rank_name(rank))) own.push_back(process);
    }
    return own;
  }

  static pid_t parent(pid_t process) { return static_cast<pid_t>(status(process, "PPid")); }

  // A number in a process's /proc/PID/status; 0: it is gone.
  static long status(pid_t process, const std::string& name) {
    const std::string text = text_of("/proc/" + std::to_string(process) + "/status");
    const std::size_t at = text.find('\n' + name + ':');
    return at == std::string::npos ? 0 : std::atol(text.c_str() + at + name.size() + 2);
  }

  std::string out_, err_, rank_key_, mark_;
  pid_t process_ = -1;
  int status_ = -1;
};

// Checks that the run said one line on stderr, with this begin.
inline void check_line(const MpiRun& run, const std::string& begin) {
  const std::string err = run.err();
  INFO(err);
  CHECK(std::ranges::count(err, '\n') == 1);
  CHECK(err.starts_with(begin));
}

}  // namespace tandem
