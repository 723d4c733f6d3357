// Calls: what the Python package asks for, on plain values: scenarios as text, answers as the JSON
// of the command's --json.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "python/interrupt.h"
#include "python/shared_trace.h"

namespace tandem {

// What every call takes.
struct AskedOf {
  std::string path;
  std::optional<std::string> text;  // of a scenario that is no file: `path` is its name then
  std::vector<std::string> sets;    // KEY=VALUE, as TOML has it
  std::string only;
  std::string engine;  // "ideal", "simgrid"; empty: simgrid, of a Program ideal
  int jobs = 0;        // 0: one a core
};

struct PlayedRun {
  std::string json;  // an object, or an array of several runs
  std::unique_ptr<SharedTrace> trace;
};

// Told how many of how many have ended, twice a second too.
using OnDone = std::function<void(int done, int total)>;

// A Program (CSV) or the only run of a scenario, in a process of its own.
Result<PlayedRun> play_one(const AskedOf& asked, bool unfolded, bool trace, const OnDone& on_done);

// All runs of a scenario. The first Error of a run is the call's.
Result<PlayedRun> play_all(const AskedOf& asked, bool unfolded, const OnDone& on_done);

struct Swept {
  std::string path;
  int rows = 0, failed = 0, kept = 0;
  std::string first_failure;
};
Result<Swept> sweep_into(const AskedOf& asked, const std::string& output, const std::string& list,
                         const OnDone& on_done);

// `on_better`: told the line of each new fastest plan.
Result<std::string> tune_plan(const AskedOf& asked, const std::vector<std::string>& among,
                              const std::string& framework, int keep, double seconds,
                              Interrupt* interrupt,
                              const std::function<void(const std::string&)>& on_better);

Result<std::string> size_purchase(const AskedOf& asked, const std::vector<std::string>& among,
                                  Interrupt* interrupt);

// An order by its name, or (of a path or a text) a file's or the scenario's.
struct AskedOrder {
  AskedOf of;
  std::string name;
  int pp = 1, microbatches = 1;
  int vpp = 0, group = 0;     // 0: not said
  std::vector<double> costs;  // none, or F,I,W or F,I,W,C
  double memory_limit = 0;
  bool expert_overlap = false;
};
struct DrawnOrder {
  std::string name, grid, actions, communication;  // the last two in PyTorch's form
  int ranks = 0, stages = 0, microbatches = 0;
};
Result<DrawnOrder> draw_order(const AskedOrder& asked);

}  // namespace tandem
