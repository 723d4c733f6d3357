// Measures whole processes against the bounds of docs/bench.md: wall time, peak memory, and the
// time that the engine or the search says it took. A case runs on one core unless it says
// otherwise. Short cases run several times, and the least time and the most memory count: other
// work on the machine only adds time. Two programs are run in turn, so that such work slows both
// alike.
#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/file.h"

namespace {

struct Case {
  std::string what;
  std::vector<std::string> arguments;  // of tandem
  int runs = 5;
  double wall_s = 0;                  // bound on the process's wall time; 0: none
  double engine_s = 0;                // bound on the engine's or the search's own time; 0: none
  double memory_MB = 0;               // bound on the peak; 0: none
  std::string key = "engine_wall_s";  // of engine_s in --json; empty: the command prints none
  bool all_cores = false;
};

constexpr double kLeastPlans_per_s = 5000;    // of a search
constexpr double kLeastRuns_per_s = 300;      // of a sweep
constexpr const char* kFreshFile = "{file}";  // an argument: a file that is not there yet

std::vector<Case> cases(const std::string& source) {
  const std::string pp64 = source + "/bench/pp64.toml",
                    sc21 = source + "/scenarios/megatron-sc21.toml";
  const std::string no_least_bandwidth = "report.least_bandwidth=false";
  return {
      {.what = "1F1B, PP 64, m 512, ideal",
       .arguments = {"simulate", pp64, "--engine", "ideal", "--json"},
       .runs = 11,
       .wall_s = 0.035,
       .memory_MB = 16},
      {.what = "the same, m 51,200",
       .arguments = {"simulate", pp64, "--engine", "ideal", "--set", "parallel.global_batch=51200",
                     "--json"},
       .runs = 11,
       .wall_s = 0.035,
       .memory_MB = 16},
      {.what = "the same, interleaved, VPP 2",
       .arguments = {"simulate", pp64, "--engine", "ideal", "--set", "parallel.vpp=2", "--json"},
       .runs = 11,
       .wall_s = 0.07},
      {.what = "the same, ZBV, its making included",
       .arguments = {"simulate", pp64, "--engine", "ideal", "--set", "schedule.order=zbv", "--set",
                     "parallel.vpp=2", "--json"},
       .runs = 11,
       .wall_s = 0.15},
      {.what = "the same, ZBV, m 51,200",
       .arguments = {"simulate", pp64, "--engine", "ideal", "--set", "schedule.order=zbv", "--set",
                     "parallel.vpp=2", "--set", "parallel.global_batch=51200", "--json"},
       .wall_s = 0.5},
      {.what = "1T, 3072 GPUs, simgrid, folded",
       .arguments = {"simulate", sc21, "--only", "1T, selene", "--set", no_least_bandwidth,
                     "--json"},
       .engine_s = 0.6},
      {.what = "1T, all 3072 ranks, 5 % jitter, simgrid",
       .arguments = {"simulate", sc21, "--only", "1T, selene", "--set", no_least_bandwidth, "--set",
                     "variability.jitter=0.05", "--json"},
       .runs = 1,
       .engine_s = 42,
       .memory_MB = 2000},
      {.what = "the same, Jean-Zay-style links",
       .arguments = {"simulate", sc21, "--only", "1T, Jean", "--set", no_least_bandwidth, "--set",
                     "variability.jitter=0.05", "--json"},
       .runs = 1,
       .engine_s = 22,
       .memory_MB = 2000},
      {.what = "the demo: ten models, three clusters",
       .arguments = {"simulate", sc21, "--jobs", "1", "--json"},
       .runs = 1,
       .wall_s = 20},
      {.what = "the same on all cores",
       .arguments = {"simulate", sc21, "--json"},
       .runs = 3,
       .wall_s = 3,
       .all_cores = true},
      {.what = "a sweep of 384 small runs, ideal",
       .arguments = {"sweep", source + "/bench/small-runs.toml", "-o", kFreshFile, "--engine",
                     "ideal", "--jobs", "1"},
       .runs = 3,
       .wall_s = 384 / kLeastRuns_per_s,
       .key = ""},
      {.what = "the search: GPT-3 175B, 64 A100",
       .arguments = {"tune", source + "/bench/gpt3-175b-64.toml", "--keep", "1", "--engine",
                     "ideal", "--json"},
       .runs = 1,
       .engine_s = 60,
       .key = "search_wall_s"},
      {.what = "the search: 1T, 3072 A100",
       .arguments = {"tune", sc21, "--only", "1T, selene", "--keep", "1", "--engine", "ideal",
                     "--json"},
       .runs = 1,
       .engine_s = 120,
       .key = "search_wall_s"},
      {.what = "the search: DeepSeek-V3, 2048 H800",
       .arguments = {"tune", source + "/scenarios/deepseek-v3.toml", "--only", "1F1B", "--keep",
                     "1", "--engine", "ideal", "--json"},
       .runs = 1,
       .engine_s = 60,
       .key = "search_wall_s"},
      {.what = "the same search on all cores",
       .arguments = {"tune", source + "/scenarios/deepseek-v3.toml", "--only", "1F1B", "--keep",
                     "1", "--engine", "ideal", "--json"},
       .runs = 1,
       .engine_s = 60 / 1.8,
       .key = "search_wall_s",
       .all_cores = true},
      {.what = "the search: DeepSeek-V3, named axes",
       .arguments = {"tune", source + "/scenarios/deepseek-v3.toml", "--only", "1F1B", "--keep",
                     "1", "--engine", "ideal", "--among", "train.precision=bf16,fp8", "--among",
                     "train.fp8_recipe=delayed,blockwise", "--among",
                     "parallel.dispatcher=alltoall,deepep", "--json"},
       .runs = 1,
       .engine_s = 60,
       .key = "search_wall_s"},
      {.what = "99,968 H100, noise, 10 seeds, all cores",
       .arguments = {"simulate", source + "/bench/noise-100k.toml", "--engine", "ideal", "--json"},
       .runs = 1,
       .wall_s = 60,
       .memory_MB = 1000,
       .all_cores = true},
      {.what = "tandem --help", .arguments = {"--help"}, .runs = 21, .wall_s = 0.010, .key = ""},
  };
}

struct Measured {
  double wall_s = 1e30, engine_s = 1e30, memory_MB = 0;
  double plans = 0;  // enumerated by a search
};

// Returns the first number behind a key in the program's output, or 0.
double number(const std::string& output, const std::string& key) {
  const std::string quoted = fmt::format("\"{}\": ", key);
  const std::size_t at = output.find(quoted);
  return at == std::string::npos ? 0 : std::atof(output.c_str() + at + quoted.size());
}

void keep_to_one_core() {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(sched_getcpu()), &one);
  CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
}

// Runs the program once, and keeps the least times and the most memory. Returns false if it fails,
// as an older program may that lacks an option of the case. Limits the address space, so that a
// failing program does not take all of the machine's memory.
bool run_once(const std::string& program, const Case& c, const std::string& output_path,
              Measured* m) {
  constexpr rlim_t kMost = rlim_t{8} << 30;
  const std::string fresh = output_path + ".csv";
  std::remove(fresh.c_str());
  const auto begin = std::chrono::steady_clock::now();
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    if (!c.all_cores) keep_to_one_core();
    const rlimit limit{kMost, kMost};
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    const int out = open(output_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(out, STDOUT_FILENO);
    dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
    std::vector<char*> argv = {const_cast<char*>(program.c_str())};
    for (const std::string& argument : c.arguments)
      argv.push_back(const_cast<char*>((argument == kFreshFile ? fresh : argument).c_str()));
    argv.push_back(nullptr);
    execv(program.c_str(), argv.data());
    _exit(127);
  }
  int status = 0;
  rusage usage{};
  CHECK(wait4(child, &status, 0, &usage) == child);
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return false;
  const auto output = tandem::read_file(output_path);
  CHECK(output.ok());
  m->wall_s = std::min(m->wall_s, wall.count());
  if (!c.key.empty()) m->engine_s = std::min(m->engine_s, number(*output, c.key));
  CHECK(m->engine_s > 0);
  m->plans = number(*output, "enumerated");
  m->memory_MB = std::max(m->memory_MB, static_cast<double>(usage.ru_maxrss) * 1024 / 1e6);
  return true;
}

// Formats a value and its bound: "0.031 s of 0.035 (0.89)".
std::string against(double measured, double bound, const char* unit) {
  const std::string value = fmt::format("{:.3g} {}", measured, unit);
  if (bound == 0) return value;
  return fmt::format("{} of {:g} ({:.2f}{})", value, bound, measured / bound,
                     measured > bound ? ", OVER" : "");
}

void print(const Case& c, const Measured& m) {
  fmt::print("{:<42} {:<28} {:<28} {}\n", c.what, against(m.wall_s, c.wall_s, "s"),
             c.key.empty() ? "" : against(m.engine_s, c.engine_s, "s"),
             against(m.memory_MB, c.memory_MB, "MB"));
  if (m.plans > 0)
    fmt::print("  {:.0f} plans, {:.0f} a second of at least {:.0f}\n", m.plans,
               m.plans / m.engine_s, kLeastPlans_per_s);
}

// Prints this program's figures over the other one's. Below 1, this one is faster or needs less.
void print_ratios(const Case& c, const Measured& m, const Measured& other) {
  fmt::print("{:<42} {:<28.3f} {:<28} {:.3f}\n", c.what, m.wall_s / other.wall_s,
             c.key.empty() ? "" : fmt::format("{:.3f}", m.engine_s / other.engine_s),
             m.memory_MB / other.memory_MB);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    fmt::print(stderr,
               "usage: tandem_bench TANDEM SOURCE_DIR OTHER_TANDEM|'' PART_OF_A_CASE'S_NAME|''\n");
    return 2;
  }
  const bool is_paired = *argv[3] != 0;
  const std::string output_path = fmt::format("/tmp/tandem-bench-{}.json", getpid());
  fmt::print(
      "{:<42} {:<28} {:<28} {}\n",
      is_paired ? "what (ratios of the least of n runs each)" : "what (least of n runs, one core)",
      "process", "engine", "peak memory");
  for (const Case& c : cases(argv[2])) {
    if (c.what.find(argv[4]) == std::string::npos) continue;
    Measured m, other;
    bool both = is_paired;
    for (int i = 0; i < c.runs; ++i) {
      CHECK(run_once(argv[1], c, output_path, &m));
      both = both && run_once(argv[3], c, output_path, &other);
    }
    if (!is_paired)
      print(c, m);
    else if (both)
      print_ratios(c, m, other);
    else
      fmt::print("{:<42} the other one cannot\n", c.what);
    std::fflush(stdout);
  }
  std::remove(output_path.c_str());
  std::remove((output_path + ".csv").c_str());
  return 0;
}
