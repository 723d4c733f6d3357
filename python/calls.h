// Calls: the work behind the Python package's functions, on plain values. Scenarios are paths or
// text; results are the JSON that the command's --json prints.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "planning/real/real_run.h"
#include "python/interrupt.h"
#include "python/shared_trace.h"
#include "validation/compare/measure.h"

namespace tandem {

// The parameters that every call has.
struct CallParameters {
  std::string path;
  std::optional<std::string> text;  // the scenario if it is no file; `path` is then only its name
  std::vector<std::string> sets;    // KEY=VALUE, the value as TOML writes it
  std::string only;
  std::string engine;  // "ideal" or "simgrid"; empty: simgrid, but ideal for a Program
  int jobs = 0;        // 0: one a core
};

struct PlayedRun {
  std::string json;  // an object; of several runs an array
  std::unique_ptr<SharedTrace> trace;
};

// Called as runs end and twice a second, with the number of runs that have ended and of all runs.
using OnDone = std::function<void(int done, int total)>;

// Simulates a Program (CSV) or the only run of a scenario, in a process of its own. `trace`: keeps
// its events.
Result<PlayedRun> play_one(const CallParameters& call, bool unfolded, bool trace,
                           const OnDone& on_done);

// Returns the live page (HTML) of a scenario's only run. The engine is `ideal`, the only one that a
// page has.
Result<std::string> live_page(const CallParameters& call, const OnDone& on_done);

// The following four calls work in a process of their own. Ctrl-C ends this process and those that
// it started. Python's process keeps its timers, cores and libraries as they were.

// Explains a scenario's only run by profiles, a log, or both, simulated by the engine `ideal`.
Result<std::string> explain_run(const CallParameters& call,
                                const std::vector<std::string>& measured, Interrupt* interrupt);

// Compares a scenario's only run, or a file, with profiles; or two traces. `worst`: how many ops of
// two traces are listed, if given. `passes`: as the command's --only-passes.
Result<std::string> compare_measured(const CallParameters& call, const std::string& measured,
                                     const std::string& passes, std::optional<int> worst,
                                     Interrupt* interrupt);

// Simulates and measures a suite's runs on the backend host. If Ctrl-C ends the process, temporary
// files stay: the caller removes options.folder.
Result<std::string> validate_suite(const CallParameters& call, const MeasureOptions& options,
                                   Interrupt* interrupt);

// Plays a Program, or a scenario's only run, for real on the backend host.
Result<PlayedRun> run_real(const CallParameters& call, RealOptions options, Interrupt* interrupt);

// Simulates all runs of a scenario. Returns the Error of the first run that failed, if one did.
Result<PlayedRun> play_all(const CallParameters& call, bool unfolded, const OnDone& on_done);

struct Swept {
  std::string path;
  int rows = 0, failed = 0, kept = 0;
  std::string first_failure;
};
Result<Swept> sweep_into(const CallParameters& call, const std::string& output,
                         const std::string& list, const OnDone& on_done);

// `on_better` is called with a line for each new fastest plan.
Result<std::string> tune_plan(const CallParameters& call, const std::vector<std::string>& among,
                              const std::string& framework, int keep, double seconds,
                              Interrupt* interrupt,
                              const std::function<void(const std::string&)>& on_better);

Result<std::string> size_purchase(const CallParameters& call, const std::vector<std::string>& among,
                                  Interrupt* interrupt);

// Says which order to draw: a named one, a file's, or that of rows of cells in PyTorch's form. If
// all of these are missing, it is the order of `call`: of a CSV file in PyTorch's form, or of a
// scenario.
struct OrderRequest {
  CallParameters call;
  std::string name;
  std::string file;  // in PyTorch's or Primus's form
  std::optional<std::vector<std::vector<std::string>>> rows;
  int pp = 1, microbatches = 1;
  int vpp = 0, group = 0;     // 0: not given
  std::vector<double> costs;  // none, or F,I,W or F,I,W,C
  double memory_limit = 0;
  bool expert_overlap = false;
};
struct DrawnOrder {
  std::string name, grid, actions, communication;  // the latter two in PyTorch's form
  int ranks = 0, stages = 0, microbatches = 0;
};
Result<DrawnOrder> draw_order(const OrderRequest& request);

}  // namespace tandem
