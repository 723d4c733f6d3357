// Scenario: one run, all its settings in place; and the files that describe many.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "exec/backend.h"
#include "scenarios/config/found_order.h"
#include "scenarios/config/setting.h"
#include "scenarios/config/tensor_settings.h"
#include "scenarios/config/variability.h"
#include "schedule/lowering/lower.h"
#include "schedule/order/named_orders.h"
#include "topology/cluster.h"
#include "workload/cost/cost_table.h"
#include "workload/model/model.h"
#include "workload/model/workload.h"

namespace tandem {

// What is trained, and how: [model], [parallel], [schedule], [train] and [overlap].
struct JobSettings {
  std::string model_name;
  Model model;
  std::string pattern;  // of its layers' kinds, or empty
  Plan plan;
  std::string layout;  // parallel.layout: "auto", or what plan.layers_per_stage was read from
  OrderSpec order;
  std::string order_file;    // a CSV in PyTorch's form, instead of a named order
  int order_budget = 0;      // candidates of "auto"; 0: about three seconds of work
  std::string order_trace;   // of a run, whose times "auto" goes by; empty: prices; not in the file
  double order_seconds = 0;  // above 0: of "auto", instead of candidates; not in the file
  std::optional<FoundOrder> found_order;  // not in the file: in the place of "auto"
  std::optional<bool> overlap_p2p;        // default: by order
  bool batch_p2p = false;
  bool vocabulary_parallel = false;  // what Plan::vocabulary is completed from
  int vocabulary_algorithm = 2;
  DataOptions data;  // but zero, which the plan has
  double bucket_bytes = 0;
  TensorSettings tensor;
  bool expert_overlap = false;
  int p2p_sms = 0;

  // Whether schedule.order is "auto" and nobody has looked for one yet.
  bool order_is_open() const { return order.name == kAutoOrder && !found_order; }
};

// A line of a hostfile, or several of one host.
struct HostSlots {
  std::string name;
  int slots = 0;  // 0: all of its GPUs
  std::string where;
};

// On what: [cluster].
struct ClusterSettings {
  std::string preset;  // or empty
  ClusterSpec spec;
  int gpus = 0;
  int gpus_of_node = 0;  // that the job takes; 0: see take_part_of_nodes
  bool cyclic = false;   // ranks are dealt round over the nodes
  std::string hosts;     // a hostlist, in order of their GPUs; empty: the nodes of links_file
  std::vector<HostSlots> hostfile;
  std::vector<int> placed;  // by rank: its GPU, as the hostfile says; empty: there is none
};

// What the job's ops take: [costs].
struct CostSettings {
  std::string source = "analytic";      // or "uniform", "table"
  std::optional<UniformCosts> uniform;  // source = "uniform": no model
  double p2p_s = 0;                     // with them: what a transfer takes, whatever the cluster
  double p2p_bytes = 0;                 // or, above 0, what it carries over the cluster
  FrameworkProfile profile;             // whose constants price the model; uniform: slowdowns
  // Whether runs of that software on that GPU in that precision were measured. Nothing: costs are
  // not the model's.
  std::optional<bool> calibrated;
  // Measured over predicted iteration, 5th and 95th percentile: the software's, or that of a guess.
  std::pair<double, double> interval = {0, 0};
  std::string model_name;          // "nemo-h100 on H100-SXM5-80GB in fp8"; empty as `calibrated`
  std::optional<CostTable> table;  // source = "table": what kernels are priced by

  // Whether the cluster says what a transfer takes.
  bool need_cluster() const { return !uniform || p2p_bytes > 0; }
};

// What prices a model's kernels. REQUIRES: no uniform costs; they outlive it.
inline CostModel cost_model(const CostSettings& costs, const DeviceSpec& device,
                            const std::string& precision) {
  return {device, precision, costs.table ? &*costs.table : nullptr, costs.profile};
}

// What makes one run differ from the next, or from the undisturbed: [variability].
struct VariabilitySettings {
  double jitter = 0;
  std::uint64_t seed = 1;
  Stragglers stragglers;
  SlowLink slow_link;
  double background = 0;  // the share of the bandwidth between nodes that others take
  int repeats = 1;        // how often it is played, each time with the next seed
  std::optional<Perturbation> perturbation;  // not in the file: what asks for sensitivities sets it

  // Whether ranks that do the same take unlike times, so that none stands for another.
  bool parts_ranks() const { return jitter > 0 || stragglers.some_ranks(); }
  // Without that and without slow links that the ideal engine cannot play; once. For searches: what
  // they find outlives such a disturbance.
  VariabilitySettings undisturbed() const;
};

// What somebody measured, to stand beside the simulated number.
struct Published {
  // Hardware FLOPs, as Narayanan et al. 2021 count; 0: nothing published.
  double tflops_per_gpu = 0;
  std::string cluster;  // the axis point's name that it was measured on
};

// What is shown: [report] and [published].
struct ReportSettings {
  bool least_bandwidth = false;
  std::string baseline;           // a point's name: what the others save against it
  std::optional<GroupKind> kind;  // of communication, that savings are compared with; nothing: all
  bool causal_flops = false;      // FLOPs count the half of attention that a causal mask leaves
  bool traffic = false;           // columns of what a GPU sends
  std::string note;               // printed below the table
  Published published;
};

// How a run is held against reality, `tandem validate`: [validate].
struct MeasurementSettings {
  const Backend* backend = &backends().front();
  std::string launch;  // a shell's words before the command that runs all ranks
  Compute compute = Compute::Timed;
  bool share_gpu = false;  // cuda: all ranks on one GPU
  GpuTransfers transfers = GpuTransfers::Nccl;
  // What simulated may differ from measured: the iteration and its ratio to the baseline's, where
  // compute takes most of it and where exposed communication does; bubble and overlap.
  double iteration_percent = 2;
  double communicating_percent = 4;
  double bubble_points = 2;
  double overlap_points = 3;
  // What the simulation with the measured op times may differ by.
  std::optional<double> own_iteration_percent, own_bubble_points, own_overlap_points;
};

// What is refused, as a typing error is likelier: [limits].
struct Limits {
  double runs = 100'000;    // of a file
  double ops = 50'000'000;  // of a run
};

struct Scenario {
  std::string name;                 // the names of its points, joined by ", "
  std::vector<std::string> axes;    // of its file
  std::vector<std::string> points;  // one an axis
  JobSettings job;
  ClusterSettings cluster;
  CostSettings costs;
  VariabilitySettings variability;
  ReportSettings report;
  MeasurementSettings measurement;
  Limits limits;
  bool fold = true;  // one rank stands for its equals; not in the file: the caller's choice

  // What was assumed of the files of other tools that it names, and what was left out of them.
  std::vector<std::string> notes;

  std::string path;                           // of its file
  std::map<std::string, std::string> places;  // of what is set, by key: "file:line", or "--set"

  // What prices its kernels. REQUIRES: no uniform costs; the scenario outlives it.
  CostModel cost_model() const {
    return tandem::cost_model(costs, cluster.spec.device, job.plan.precision);
  }

  // Where the first of the keys that is set stands, else where another key of their tables does,
  // else the file: what an Error about them begins with.
  std::string place_of(const std::vector<std::string>& keys) const;

  // The Error of a rule at the place of its keys. Without any it stays as it is.
  Error placed(const Error& error) const;
};

// A run of a file before it is looked at: its name, and all that it sets, with what the files say
// that it names by model.from and parallel.from.
struct RunSettings {
  std::string name;                       // the names of its points, joined by ", "
  std::vector<std::string> axes, points;  // one a point
  Settings settings;
  std::vector<std::string> notes = {};  // as a Scenario has them
};

// The product of the file's axes, `sets` over all: the runs whose name holds `only`. Error: more
// than limits.runs, found before any of them is made.
Result<std::vector<RunSettings>> runs_of(
    const ScenarioFile& file, const std::vector<std::pair<std::string, Setting>>& sets = {},
    const std::string& only = "");

// Errors as load_scenarios has them.
Result<Scenario> make_scenario(const ScenarioFile& file, const RunSettings& run);

// The runs of a file whose name holds `only`, `sets` applied over all of them. Errors: unknown keys
// with the nearest known one, wrong types, negative sizes, and every rule that a plan breaks.
Result<std::vector<Scenario>> load_scenarios(
    const std::string& path, const std::vector<std::pair<std::string, Setting>>& sets = {},
    const std::string& only = "");
Result<std::vector<Scenario>> load_scenarios(
    const ScenarioFile& file, const std::vector<std::pair<std::string, Setting>>& sets = {},
    const std::string& only = "");

// The only one of these runs of the file. Error: there are several; `by` says how one is chosen.
Result<Scenario> only_run(const std::vector<Scenario>& scenarios, const std::string& path,
                          std::string_view by = "--only");

// The run of these settings alone, as a file with them would give it; `path` and the settings'
// places are what Errors name.
Result<Scenario> make_scenario(const std::string& path, const std::string& name,
                               const Settings& settings,
                               const std::vector<std::pair<std::string, Setting>>& sets = {});

// Whether a scenario knows the key, of kinds of layers as well.
bool is_scenario_key(const std::string& key);

// Every key that a scenario knows, with its help: docs/scenario.md has them all (tested).
std::vector<std::pair<std::string, std::string>> scenario_keys();

}  // namespace tandem
