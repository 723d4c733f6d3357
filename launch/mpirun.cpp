// run_mpirun() of launch/launch.h: checks limits, forks a child that becomes mpirun, passes its two
// output streams on through pipes, and turns its end into an exit status or an Error. mpirun may
// end with status 0 although it could not start the ranks or lost their output. So an empty stream
// of results is an Error too.
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
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
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
#include "launch/standard_output.h"

namespace tandem {
namespace {

volatile std::sig_atomic_t caught = 0;           // the last signal not yet forwarded; 0: none
constexpr int kKeepWhatIsSet = 0, kReplace = 1;  // for setenv()

Error failed(std::string why) { return Error{std::move(why), Error::Failed}; }

// Checks that Open MPI's mpirun, its daemon and its ranks can open enough files, and raises the
// limit if it may. With too few, mpirun hangs.
Status check_files(int ranks) {
  constexpr rlim_t kFilesOfMpirun = 64, kFilesPerRank = 16;
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return Done{};
  const rlim_t needed = kFilesOfMpirun + kFilesPerRank * static_cast<rlim_t>(ranks);
  if (files.rlim_max < needed)
    return failed(
        fmt::format("found at most {} open files (ulimit -n), expected {} for mpirun with {} "
                    "ranks; --backend host needs none",
                    files.rlim_max, needed, ranks));
  files.rlim_cur = std::max(files.rlim_cur, needed);
  setrlimit(RLIMIT_NOFILE, &files);
  return Done{};
}

// Checks that Open MPI can write the folder of the files that its processes share.
Status check_session_folder() {
  std::string folder = "/tmp";
  for (const char* name : {"TMP", "TEMP", "TMPDIR"}) {
    if (const char* value = std::getenv(name); value != nullptr && *value != 0) folder = value;
  }
  const Status writable = check_writable(fmt::format("{}/tandem.{}", folder, getpid()));
  if (writable.ok()) return Done{};
  return failed(fmt::format("{}; mpirun expects a folder that it can write: TMPDIR names another",
                            writable.error().text()));
}

const char* own_environment(const char* name) { return std::getenv(name); }

std::string variable(const std::string& name) {  // empty: it is not set
  const char* value = own_environment(name.c_str());
  return value == nullptr ? "" : value;
}

// Sets a parameter of Open MPI in the environment, unless the user has set it. A value such as
// "^openib" only excludes components and chooses none, so it is replaced.
void prefer(const std::string& setting, const std::string& value) {
  const std::string name = "OMPI_MCA_" + setting;
  const std::string found = variable(name);
  if (found.empty() || found.starts_with('^')) setenv(name.c_str(), value.c_str(), kReplace);
}

// Chooses Open MPI's transports for ranks on one host, which need no network between them.
void prefer_shared_memory() {
  prefer("pml", "ob1");
  prefer("btl", "self,vader");
}

// Makes all ranks communicate by shared memory, and mpirun and the ranks listen on loopback alone.
// `loopback_library`: an open descriptor of libtandem_loopback.so. It is preloaded as
// /proc/self/fd/N, since its path may contain a colon or a blank, which separate the entries of
// LD_PRELOAD.
void keep_to_this_host(int loopback_library) {
  prefer_shared_memory();
  setenv("TANDEM_SOCKET_IFNAME", "=lo", kKeepWhatIsSet);
  const std::string found = variable("LD_PRELOAD");
  const std::string preload =
      fmt::format("/proc/self/fd/{}{}{}", loopback_library, found.empty() ? "" : ":", found);
  setenv("LD_PRELOAD", preload.c_str(), kReplace);
}

// Makes Open MPI use the network interfaces that were chosen for Tandem's ranks.
void keep_to_chosen_interfaces() {
  const InterfaceChoice choice = chosen_interfaces(own_environment);
  if (choice.names.empty()) return;
  const std::string names = fmt::format("{}", fmt::join(own_interfaces(choice), ","));
  for (const std::string component : {"btl_tcp", "oob_tcp"}) {
    if (variable("OMPI_MCA_" + component + "_if_exclude").empty())
      prefer(component + "_if_include", names);
  }
}

// Returns mpirun's command line. If all ranks are on this host, they get the user's own LD_PRELOAD:
// only mpirun preloads libtandem_loopback.so.
std::vector<std::string> command_line(int ranks, bool is_local) {
  std::vector<std::string> words = {"mpirun", "-q",  "--oversubscribe",    "--bind-to",
                                    "none",   "-np", std::to_string(ranks)};
  if (is_local)
    words.insert(words.end(),
                 {"--host", "localhost:*", "-x", "LD_PRELOAD=" + variable("LD_PRELOAD")});
  for (std::string& word : own_command()) words.push_back(std::move(word));
  return words;
}

// Turns this child process into mpirun. `output`, `errors`: pipes to the parent.
// `loopback_library`: as in keep_to_this_host(), or -1 if ranks may be on other hosts.
[[noreturn]] void become_mpirun(std::vector<std::string> words, int output, int errors,
                                pid_t parent, int loopback_library) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(exit_status(Error::Failed));
  setpgid(0, 0);
  dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);  // the caller's is not the ranks'
  dup2(output, STDOUT_FILENO);
  dup2(errors, STDERR_FILENO);
  if (geteuid() == 0) {  // mpirun would refuse to run as root
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", kReplace);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", kReplace);
  }
  if (loopback_library >= 0)
    keep_to_this_host(loopback_library);
  else
    keep_to_chosen_interfaces();
  setenv("HWLOC_HIDE_ERRORS", "2", kKeepWhatIsSet);  // hwloc complains where there is no /sys
  become(std::move(words));
  std::fprintf(stderr, "mpirun: %s; --backend host needs no MPI\n", std::strerror(errno));
  _exit(exit_status(Error::Missing));
}

// mpirun's standard output or standard error, which is copied to this process's own.
struct Stream {
  Descriptor source, write_end;  // of a pipe; mpirun has the end to write
  int destination = -1;
  bool passed_any = false;  // at least one byte was read
  int write_errno = 0;      // of the first write that failed; nothing is written after it

  // Copies the next block. Returns false if the source has ended.
  bool pass_block() {
    std::array<char, 1 << 16> block;
    const ssize_t got = read(source.number(), block.data(), block.size());
    if (got < 0 && errno == EINTR) return true;
    if (got <= 0) return false;
    passed_any = true;
    if (write_errno == 0)
      write_errno = write_all(destination, {block.data(), static_cast<std::size_t>(got)});
    return true;
  }
};

// Returns a process's state as /proc shows it: 'R' (runs), 'S' (sleeps), 'T' (stopped), 't' (by a
// debugger), 'D' (waits for a disk), 'Z' (a zombie: ended, but not collected by its parent).
// Returns 0 if the process is gone.
char process_state(const std::string& process) {
  const auto text = read_file("/proc/" + process + "/stat");
  if (!text.ok()) return 0;
  const std::size_t name_end = text->rfind(") ");  // "4711 (python) S 1 ..."
  if (name_end == std::string::npos || name_end + 2 >= text->size()) return 0;
  return (*text)[name_end + 2];
}

// The state of mpirun's children: its ranks, or the daemons that start them on other hosts.
enum class Children {
  None,
  MayRun,  // at least one runs, or that is not known
  Ended,   // all are zombies: a sound mpirun collects a child as soon as it ends, so this one hangs
};

Children children_of(pid_t mpirun) {
  const char state = process_state(std::to_string(mpirun));
  const bool could_collect_them = state == 'R' || state == 'S';
  if (!could_collect_them) return Children::MayRun;
  Children found = Children::None;
  std::error_code gone;
  const std::string tasks = fmt::format("/proc/{}/task", mpirun);
  for (std::filesystem::directory_iterator task(tasks, gone), end; task != end;
       task.increment(gone)) {
    std::ifstream children(task->path() / "children");
    if (!children) return Children::MayRun;  // a kernel without this list
    for (std::string child; children >> child;) {
      if (process_state(child) != 'Z') return Children::MayRun;
      found = Children::Ended;
    }
  }
  return found;
}

// Detects an mpirun that outlives its ranks by ten seconds without output: with PMIx 4.2 it waits
// forever for a lock if a rank was killed while connecting to it.
struct OutlivedRanks {
  pid_t mpirun = -1;
  bool is_local = false;   // the ranks are children of mpirun
  bool had_ranks = false;  // an mpirun that had none yet may be slow to start
  int quiet_seconds = 0;   // in a row, in which mpirun outlived its ranks

  // Notes an output, or a second without one (`is_quiet`). Returns whether ten of these are over.
  bool are_over(bool is_quiet) {
    constexpr int kMostQuietSeconds = 10;
    const Children children = children_of(mpirun);
    had_ranks |= is_local && children == Children::MayRun;
    const bool outlives = children == Children::Ended || (children == Children::None && had_ranks);
    quiet_seconds = is_quiet && outlives ? quiet_seconds + 1 : 0;
    return quiet_seconds == kMostQuietSeconds;
  }
};

// The signals that pass_on() sent to mpirun.
struct SignalsToMpirun {
  int forwarded = 0;                             // the last signal that was forwarded; 0: none
  std::chrono::steady_clock::time_point last{};  // when it was
  bool killed_stuck = false;  // mpirun was killed, as it ran on after all of its ranks had ended
};

// Forwards the last signal caught to mpirun, but none within a second after another: timeout(1) and
// shells signal a process and then its group, and mpirun aborts at the second signal, before the
// ranks have written what they know.
void forward_caught(pid_t mpirun, SignalsToMpirun* sent) {
  const int signal = caught;
  caught = 0;
  const auto now = std::chrono::steady_clock::now();
  if (signal == 0 || now - sent->last < std::chrono::seconds(1)) return;
  sent->last = now;
  sent->forwarded = signal;
  kill(mpirun, signal);
}

// Passes both streams on until both are closed. Ends mpirun if its results cannot be written. Kills
// an mpirun that outlives its ranks.
SignalsToMpirun pass_on(Stream* output, Stream* errors, pid_t mpirun, bool is_local) {
  constexpr int kSecond_ms = 1000;
  SignalsToMpirun sent;
  OutlivedRanks outlived{mpirun, is_local};
  std::array<pollfd, 2> ends = {pollfd{output->source.number(), POLLIN, 0},
                                pollfd{errors->source.number(), POLLIN, 0}};
  for (bool was_terminated = false; ends[0].fd >= 0 || ends[1].fd >= 0;) {
    forward_caught(mpirun, &sent);
    const int ready = poll(ends.data(), ends.size(), kSecond_ms);
    if (ready < 0) continue;
    if (outlived.are_over(ready == 0)) sent.killed_stuck = kill(mpirun, SIGKILL) == 0;
    if (ends[0].revents != 0 && !output->pass_block()) ends[0].fd = -1;  // which poll() leaves out
    if (ends[1].revents != 0 && !errors->pass_block()) ends[1].fd = -1;
    if (output->write_errno != 0 && !std::exchange(was_terminated, true)) kill(mpirun, SIGTERM);
  }
  return sent;
}

// Notes SIGTERM and SIGINT. mpirun is in a process group of its own, so it does not get them, even
// where they are sent to this process's group or come from a terminal.
void catch_signals() {
  caught = 0;
  struct sigaction action {};  // without SA_RESTART: a signal interrupts a read
  action.sa_handler = [](int signal) { caught = signal; };
  for (const int signal : {SIGTERM, SIGINT}) sigaction(signal, &action, nullptr);
}

Result<Descriptor> open_loopback_library() {
  ASSIGN_OR_RETURN(const std::string path, plugin_path("libtandem_loopback.so"));
  Descriptor library(open(path.c_str(), O_RDONLY));
  if (!library) return Error{fmt::format("{}: {}", path, std::strerror(errno)), Error::Missing};
  return library;
}

Result<Stream> open_stream(int destination) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return failed(fmt::format("mpirun: {}", std::strerror(errno)));
  return Stream{Descriptor(ends[0]), Descriptor(ends[1]), destination};
}

// Returns mpirun's exit status, or an Error if the results were lost or mpirun did not say why it
// failed. `wait_status`: from waitpid().
Result<int> outcome(int wait_status, const Stream& output, const Stream& errors,
                    const SignalsToMpirun& sent) {
  if (output.write_errno != 0)
    return failed(fmt::format("standard output: {}, expected room for the results",
                              std::strerror(output.write_errno)));
  if (sent.killed_stuck) {
    if (errors.passed_any) return exit_status(Error::Failed);
    return failed("mpirun did not end within 10 s of its ranks, and was ended");
  }
  if (WIFSIGNALED(wait_status))
    return failed(fmt::format("mpirun was killed by signal {} ({})", WTERMSIG(wait_status),
                              strsignal(WTERMSIG(wait_status))));
  const int status = WEXITSTATUS(wait_status);
  if (status == 0 && !output.passed_any)
    return failed("mpirun ended with status 0 and no results, expected rank 0's");
  if (status != 0 && !errors.passed_any) {
    std::string cause;
    if (sent.forwarded != 0)
      cause = fmt::format(": ended by signal {} ({})", sent.forwarded, strsignal(sent.forwarded));
    return ended_with(
        status, fmt::format("mpirun ended with status {} before a rank said why{}", status, cause));
  }
  return status;
}

}  // namespace

void prepare_only_rank() {
  prefer_shared_memory();
  prefer("ess_singleton_isolated", "1");
}

bool mpirun_is_local(const Environment& get) {
  const auto is_set = [&](const char* name) { return get(name) != nullptr && *get(name) != 0; };
  const bool is_slurm = is_set("SLURM_JOB_ID") || is_set("SLURM_JOBID");
  const bool has_one_node = is_set("SLURM_NNODES") && get("SLURM_NNODES") == std::string_view("1");
  if (is_slurm && !has_one_node) return false;
  for (const char* of_others :
       {"PBS_JOBID", "LSB_JOBID", "PE_HOSTFILE", "OMPI_MCA_orte_default_hostfile"}) {
    if (is_set(of_others)) return false;
  }
  return true;
}

Result<int> run_mpirun(int ranks) {
  if (standard_output_is_closed())
    return failed("standard output: found it closed, expected room for the results");
  RETURN_IF_ERROR(check_files(ranks));
  RETURN_IF_ERROR(check_session_folder());
  const bool is_local = mpirun_is_local(own_environment);
  Descriptor loopback_library;
  if (is_local) {
    ASSIGN_OR_RETURN(loopback_library, open_loopback_library());
  }
  ASSIGN_OR_RETURN(Stream output, open_stream(STDOUT_FILENO));
  ASSIGN_OR_RETURN(Stream errors, open_stream(STDERR_FILENO));
  catch_signals();
  const pid_t parent = getpid();
  const pid_t mpirun = fork();
  if (mpirun < 0)
    return failed(fmt::format("mpirun could not be started: {}", std::strerror(errno)));
  if (mpirun == 0)
    become_mpirun(command_line(ranks, is_local), output.write_end.number(),
                  errors.write_end.number(), parent, loopback_library.number());
  output.write_end = {};
  errors.write_end = {};
  SignalsToMpirun sent = pass_on(&output, &errors, mpirun, is_local);
  int wait_status = 0;
  while (waitpid(mpirun, &wait_status, 0) < 0 && errno == EINTR) forward_caught(mpirun, &sent);
  return outcome(wait_status, output, errors, sent);
}

}  // namespace tandem
