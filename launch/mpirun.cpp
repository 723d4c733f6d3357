// Starts ranks by mpirun in a child process and passes their output on through pipes. mpirun may
// end with status 0 although it could not start the ranks or lost their output. So this file notes
// what comes through the pipes, and returns an Error if nothing did. Declared in launch/launch.h.
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/plugin.h"
#include "launch/connection.h"
#include "launch/exit_status.h"
#include "launch/interfaces.h"
#include "launch/launch.h"
#include "launch/own_command.h"

namespace tandem {
namespace {

volatile std::sig_atomic_t caught = 0;  // the last signal caught and not yet forwarded; 0: none

// Checks that Open MPI's mpirun, its daemon and its ranks can open enough files, and raises the
// limit if it may. With too few, mpirun hangs.
Status check_files(int ranks) {
  constexpr rlim_t kOwn = 64, kEach = 16;
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return Done{};
  const rlim_t needed = kOwn + kEach * static_cast<rlim_t>(ranks);
  if (files.rlim_max >= needed) {
    files.rlim_cur = std::max(files.rlim_cur, needed);
    setrlimit(RLIMIT_NOFILE, &files);
    return Done{};
  }
  return Error{
      fmt::format("found at most {} open files (ulimit -n), expected {} for mpirun with {} "
                  "ranks; --backend host needs none",
                  files.rlim_max, needed, ranks),
      Error::Failed};
}

// Checks the folder where Open MPI keeps what its processes share.
Status check_session_folder() {
  std::string folder = "/tmp";
  for (const char* name : {"TMP", "TEMP", "TMPDIR"}) {
    if (const char* value = std::getenv(name); value != nullptr && *value != 0) folder = value;
  }
  const Status writable = check_writable(fmt::format("{}/tandem.{}", folder, getpid()));
  if (writable.ok()) return Done{};
  return Error{fmt::format("{}; mpirun expects a folder that it can write: TMPDIR names another",
                           writable.error().text()),
               Error::Failed};
}

const char* own_environment(const char* name) { return std::getenv(name); }

std::string value_of(const char* name) {
  const char* value = own_environment(name);
  return value == nullptr ? "" : value;
}

// Sets a parameter of Open MPI in the environment, unless the user has set it. A value such as
// "^openib" only excludes components and chooses none, so it is replaced.
void prefer(const std::string& setting, const std::string& value) {
  const std::string name = "OMPI_MCA_" + setting;
  const std::string found = value_of(name.c_str());
  if (found.empty() || found.starts_with('^')) setenv(name.c_str(), value.c_str(), 1);
}

// Chooses Open MPI's transports for ranks on one host, which need no network between them.
void share_memory() {
  prefer("pml", "ob1");
  prefer("btl", "self,vader");
}

// Makes all ranks communicate by shared memory and listen on loopback alone. `library`: an open
// descriptor of libtandem_loopback.so. It is preloaded as /proc/self/fd/N, since its path may
// contain a colon or a blank, which separate the entries of LD_PRELOAD.
void keep_to_this_host(int library) {
  share_memory();
  constexpr int kKeepWhatIsSet = 0;
  setenv("TANDEM_SOCKET_IFNAME", "=lo", kKeepWhatIsSet);
  const std::string found = value_of("LD_PRELOAD");
  const std::string preload =
      fmt::format("/proc/self/fd/{}{}{}", library, found.empty() ? "" : ":", found);
  setenv("LD_PRELOAD", preload.c_str(), 1);
}

// Sets Open MPI's interfaces to those that were chosen for Tandem's ranks.
void keep_to_chosen_interfaces() {
  const InterfaceChoice choice = chosen_interfaces(own_environment);
  if (choice.names.empty()) return;
  const std::string names = fmt::format("{}", fmt::join(own_interfaces(choice), ","));
  for (const std::string part : {"btl_tcp", "oob_tcp"}) {
    if (value_of(("OMPI_MCA_" + part + "_if_exclude").c_str()).empty())
      prefer(part + "_if_include", names);
  }
}

// Returns mpirun's command line. `here`: all ranks are on this host. Ranks then get the user's own
// LD_PRELOAD: only mpirun preloads libtandem_loopback.so.
std::vector<std::string> command_line(int ranks, bool here) {
  std::vector<std::string> words = {"mpirun", "-q",  "--oversubscribe",    "--bind-to",
                                    "none",   "-np", std::to_string(ranks)};
  if (here)
    words.insert(words.end(),
                 {"--host", "localhost:*", "-x", "LD_PRELOAD=" + value_of("LD_PRELOAD")});
  for (std::string& word : own_command()) words.push_back(std::move(word));
  return words;
}

// Turns this child process into mpirun. `output`, `errors`: pipes to the parent. `library`: as in
// keep_to_this_host(), or -1 if ranks may be on other hosts.
[[noreturn]] void become_mpirun(std::vector<std::string> words, int output, int errors,
                                pid_t parent, int library) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(exit_status(Error::Failed));
  dup2(output, STDOUT_FILENO);
  dup2(errors, STDERR_FILENO);
  if (geteuid() == 0) {  // whoever runs this as root means it
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  }
  if (library >= 0)
    keep_to_this_host(library);
  else
    keep_to_chosen_interfaces();
  constexpr int kKeepWhatIsSet = 0;
  setenv("HWLOC_HIDE_ERRORS", "2", kKeepWhatIsSet);  // hwloc complains where there is no /sys
  become(std::move(words));
  std::fprintf(stderr, "mpirun: %s; --backend host needs no MPI\n", std::strerror(errno));
  _exit(exit_status(Error::Missing));
}

// Returns 0, or errno if not everything was written.
int write_all(int to, const char* bytes, std::size_t size) {
  while (size > 0) {
    const ssize_t written = write(to, bytes, size);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return errno;
    bytes += written;
    size -= static_cast<std::size_t>(written);
  }
  return 0;
}

// One of mpirun's two streams.
struct Stream {
  int from = -1, to = -1;
  bool passed_any = false;  // at least one byte was read
  int write_errno = 0;      // of the first write that failed

  // Passes a block on. Returns false if the other end is closed.
  bool pass() {
    std::array<char, 1 << 16> block;
    const ssize_t got = read(from, block.data(), block.size());
    if (got < 0 && errno == EINTR) return true;
    if (got <= 0) return false;
    passed_any = true;
    if (write_errno == 0) write_errno = write_all(to, block.data(), static_cast<std::size_t>(got));
    return true;
  }
};

// Returns a process's state as /proc shows it: 'R' and 'S', 'T' (stopped), 't' (stopped by a
// debugger), 'D' (waits for a disk), 'Z' (ended, but not collected by its parent). Returns 0 if the
// process is gone.
char state_of(const std::string& process) {
  std::ifstream file("/proc/" + process + "/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::size_t name_end = text.rfind(") ");
  return name_end == std::string::npos || name_end + 2 >= text.size() ? 0 : text[name_end + 2];
}

// The state of mpirun's children: its ranks, or the daemons that start them on other hosts.
enum class Children { None, Run, Ended };

// Returns Ended if all children have ended and mpirun has collected none of them. A sound mpirun
// collects a child as soon as it ends, so such an mpirun is stuck. If mpirun itself has ended or is
// held up (stopped, or waiting for a disk), its children count as running.
Children children_of(pid_t mpirun) {
  const char state = state_of(std::to_string(mpirun));
  if (state != 'R' && state != 'S') return Children::Run;
  Children found = Children::None;
  std::error_code gone;
  const std::string tasks = fmt::format("/proc/{}/task", mpirun);
  for (const auto& task : std::filesystem::directory_iterator(tasks, gone)) {
    std::ifstream children(task.path() / "children");
    if (!children) return Children::Run;  // a kernel without this list
    for (std::string child; children >> child; found = Children::Ended)
      if (state_of(child) != 'Z') return Children::Run;
  }
  return found;
}

// The part that pass_on() had in mpirun's end.
struct Passed {
  int signal = 0;      // the last signal that was forwarded to mpirun; 0: none
  bool stuck = false;  // mpirun was killed, as it ran on after all of its ranks had ended
};

// Passes both streams on until both are closed. Ends mpirun if its results cannot be written.
// Forwards signals that were sent to this process alone: Ctrl-C in a terminal reaches mpirun
// without help. Kills an mpirun that outlives its ranks by ten quiet seconds: with PMIx 4.2 it
// waits forever for a lock if a rank was killed while connecting to it. `here`: all ranks are on
// this host.
Passed pass_on(Stream* output, Stream* errors, pid_t process, bool here) {
  constexpr int kSecondMs = 1000, kQuietSeconds = 10;
  Passed passed;
  std::array<pollfd, 2> ends = {pollfd{output->from, POLLIN, 0}, pollfd{errors->from, POLLIN, 0}};
  int quiet_seconds = 0;
  bool had_ranks = false;
  for (bool terminated = false; ends[0].fd >= 0 || ends[1].fd >= 0;) {
    if (const int signal = caught; signal != 0) {
      caught = 0;
      kill(process, passed.signal = signal);
    }
    const int ready = poll(ends.data(), ends.size(), kSecondMs);
    if (ready < 0) continue;
    const Children children = children_of(process);
    had_ranks |= here && children == Children::Run;
    const bool outlives = children == Children::Ended || (children == Children::None && had_ranks);
    quiet_seconds = ready == 0 && outlives ? quiet_seconds + 1 : 0;
    if (quiet_seconds == kQuietSeconds) passed.stuck = kill(process, SIGKILL) == 0;
    if (ends[0].revents != 0 && !output->pass()) ends[0].fd = -1;
    if (ends[1].revents != 0 && !errors->pass()) ends[1].fd = -1;
    if (output->write_errno != 0 && !std::exchange(terminated, true)) kill(process, SIGTERM);
  }
  return passed;
}

// Notes SIGTERM and SIGINT that another process sent (SI_USER); those of a terminal are ignored.
void catch_signals() {
  caught = 0;
  struct sigaction action {};
  action.sa_flags = SA_SIGINFO;  // SA_RESTART is off: a signal interrupts a read
  action.sa_sigaction = [](int signal, siginfo_t* from, void*) {
    if (from->si_code == SI_USER) caught = signal;
  };
  for (const int signal : {SIGTERM, SIGINT}) sigaction(signal, &action, nullptr);
}

}  // namespace

void prepare_only_rank() {
  share_memory();
  prefer("ess_singleton_isolated", "1");
}

bool mpirun_is_local(const Environment& get) {
  const auto is_set = [&](const char* name) { return get(name) != nullptr && *get(name) != 0; };
  const bool slurm = is_set("SLURM_JOB_ID") || is_set("SLURM_JOBID");
  if (slurm && (!is_set("SLURM_NNODES") || get("SLURM_NNODES") != std::string_view("1")))
    return false;
  return !is_set("PBS_JOBID") && !is_set("LSB_JOBID") && !is_set("PE_HOSTFILE") &&
         !is_set("OMPI_MCA_orte_default_hostfile");
}

Result<int> run_mpirun(int ranks) {
  if (fcntl(STDOUT_FILENO, F_GETFD) < 0)
    return Error{"standard output: found it closed, expected room for the results", Error::Failed};
  RETURN_IF_ERROR(check_files(ranks));
  RETURN_IF_ERROR(check_session_folder());
  const bool here = mpirun_is_local(own_environment);
  Descriptor library;
  if (here) {
    ASSIGN_OR_RETURN(const std::string path, plugin_path("libtandem_loopback.so"));
    library = Descriptor(open(path.c_str(), O_RDONLY));
    if (!library) return Error{fmt::format("{}: {}", path, std::strerror(errno)), Error::Missing};
  }
  int ends[2], error_ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return Error{fmt::format("mpirun: {}", std::strerror(errno)), Error::Failed};
  Descriptor from(ends[0]), to(ends[1]);
  if (pipe2(error_ends, O_CLOEXEC) != 0)
    return Error{fmt::format("mpirun: {}", std::strerror(errno)), Error::Failed};
  Descriptor errors_from(error_ends[0]), errors_to(error_ends[1]);
  catch_signals();
  const pid_t parent = getpid();
  const pid_t process = fork();
  if (process < 0)
    return Error{fmt::format("mpirun could not be started: {}", std::strerror(errno)),
                 Error::Failed};
  if (process == 0)
    become_mpirun(command_line(ranks, here), to.number(), errors_to.number(), parent,
                  library.number());
  to = {};
  errors_to = {};
  Stream output{from.number(), STDOUT_FILENO}, errors{errors_from.number(), STDERR_FILENO};
  const Passed passed = pass_on(&output, &errors, process, here);
  int status = 0;
  while (waitpid(process, &status, 0) < 0 && errno == EINTR) {
    if (caught != 0) kill(process, caught);
  }
  if (output.write_errno != 0)
    return Error{fmt::format("standard output: {}, expected room for the results",
                             std::strerror(output.write_errno)),
                 Error::Failed};
  if (passed.stuck) {
    if (errors.passed_any) return exit_status(Error::Failed);
    return Error{"mpirun did not end within 10 s of its ranks, and was ended", Error::Failed};
  }
  if (WIFSIGNALED(status))
    return Error{fmt::format("mpirun was killed by signal {} ({})", WTERMSIG(status),
                             strsignal(WTERMSIG(status))),
                 Error::Failed};
  const int ended = WEXITSTATUS(status);
  if (ended == 0 && !output.passed_any)
    return Error{"mpirun ended with status 0 and no results, expected rank 0's", Error::Failed};
  if (ended != 0 && !errors.passed_any) {
    std::string cause;
    if (passed.signal != 0)
      cause = fmt::format(": ended by signal {} ({})", passed.signal, strsignal(passed.signal));
    return ended_with(
        ended, fmt::format("mpirun ended with status {} before a rank said why{}", ended, cause));
  }
  return ended;
}

}  // namespace tandem
