// Scenario: one run with all its settings, and how it is read from a file that describes one run or
// many.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "scenarios/found_order.h"
#include "scenarios/setting.h"
#include "scenarios/tensor_settings.h"
#include "scenarios/variability.h"
#include "schedule/lowering/lower.h"
#include "schedule/order/named_orders.h"
#include "schedule/program/execution.h"
#include "topology/cluster.h"
#include "workload/cost/cost_table.h"
#include "workload/model/model.h"
#include "workload/model/workload.h"

namespace tandem {

// The job and how it is trained: [model], [parallel], [schedule], [train] and [overlap].
struct JobSettings {
  std::string model_name;
  Model model;
  std::string pattern;  // kinds of the model's layers: "dense*3 + moe*58"; empty: all alike
  std::string routing;  // the file of model.routing; empty or "forced": experts have equal loads
  Plan plan;
  std::string layout;  // parallel.layout: "auto", or the text that gave plan.layers_per_stage
  OrderSpec order;
  std::string order_file;  // in PyTorch's or Primus's form, instead of a named order
  int order_budget = 0;  // orders that the search for "auto" tries; 0: about three seconds of work
  // The next three are not in the file. `order_trace`: a run's trace whose op times the search
  // uses; empty: priced times. `order_seconds`: the search's time; 0: order_budget counts.
  std::string order_trace;
  double order_seconds = 0;
  std::optional<FoundOrder> found_order;  // the order found for "auto"
  std::optional<bool> overlap_p2p;        // nothing: as is usual for the order
  bool batch_p2p = false;
  bool vocabulary_parallel = false;  // Plan::vocabulary is set from this and the next one
  int vocabulary_algorithm = 2;
  DataOptions data;  // its `zero` is copied from the plan
  double bucket_bytes = 0;
  TensorSettings tensor;
  bool expert_overlap = false;
  int p2p_sms = 0;
  std::optional<bool> fused_cross_entropy;  // the short form of Plan::cross_entropy

  // Whether schedule.order is "auto" and no order has been found for it yet.
  bool order_is_open() const { return order.name == kAutoOrder && !found_order; }
  // Whether anything is left to choose: the order, or parallel.layout = "auto".
  bool is_open() const { return order_is_open() || layout == "auto"; }
};

// A host of a hostfile.
struct HostSlots {
  std::string name;
  int slots = 0;      // ranks on it, the sum over its lines; 0: one for each of its GPUs
  std::string where;  // "file:line" of the first of its lines
};

// The machine that the job runs on: [cluster].
struct ClusterSettings {
  std::string preset;  // or empty
  ClusterSpec spec;
  int gpus = 0;
  int gpus_of_node = 0;  // GPUs of a node that the job uses; 0: as take_part_of_nodes() finds
  bool cyclic = false;   // ranks are dealt out to the nodes in turn
  std::string hosts;     // a hostlist in the order of the GPUs; empty: the nodes of links_file
  std::vector<HostSlots> hostfile;
  std::vector<int> gpu_of_rank;  // by the hostfile; empty: no hostfile
  int slots = 0;                 // of the hostfile's hosts together; 0: no hostfile
};

// How the job's ops are priced: [costs].
struct CostSettings {
  std::string source = "analytic";      // or "uniform", "table"
  std::optional<UniformCosts> uniform;  // only with source = "uniform": no model is priced
  double p2p_s = 0;                     // with uniform costs: seconds of a transfer on any cluster
  double p2p_bytes = 0;      // above 0: a transfer's bytes, priced on the cluster, instead of p2p_s
  FrameworkProfile profile;  // constants that price the model; with uniform costs only slowdowns
  // Whether such runs were measured (evidence.h). Nothing: costs do not come from the cost model.
  std::optional<bool> calibrated;
  // 5th and 95th percentile of measured over predicted iterations: of this software, or of a guess.
  std::pair<double, double> interval = {0, 0};
  std::string model_name;  // "nemo-h100 on H100-SXM5-80GB in fp8"; empty if `calibrated` is nothing
  std::optional<CostTable> table;  // only with source = "table": the kernels' prices

  // Whether the cluster decides how long a transfer takes.
  bool need_cluster() const { return !uniform || p2p_bytes > 0; }
};

// Returns the model that prices kernels. REQUIRES: costs are not uniform; `costs` and `device`
// outlive the result.
inline CostModel cost_model(const CostSettings& costs, const DeviceSpec& device,
                            const std::string& precision) {
  return {device, precision, costs.table ? &*costs.table : nullptr, costs.profile};
}

// Differences between runs, or from an undisturbed run: [variability].
struct VariabilitySettings {
  double jitter = 0;
  std::uint64_t seed = 1;
  Stragglers stragglers;
  SlowLink slow_link;
  double background = 0;  // share of the bandwidth between nodes that other jobs take
  int repeats = 1;        // how often the run is played, each time with the next seed
  std::optional<Perturbation> perturbation;  // not in the file: set when sensitivities are computed

  // Whether ranks with the same ops may take different times, so that none can stand for another.
  bool makes_ranks_differ() const { return jitter > 0 || stragglers.some_ranks(); }
  // Returns these settings for searches: without jitter, stragglers (except whole stages), links
  // that are slow for a while, and repetitions. An order or layout must serve without such
  // disturbances too, and the ideal engine cannot play slow links.
  VariabilitySettings without_disturbances() const;
};

// A measured figure from a publication, shown beside the simulated one.
struct Published {
  // Hardware FLOPs as Narayanan et al. 2021 count them; 0: nothing published.
  double tflops_per_gpu = 0;
  std::string cluster;  // name of the axis point that was measured
};

// Contents of a report: [report] and [published].
struct ReportSettings {
  bool least_bandwidth = false;
  std::string baseline;           // name of a point: the others' savings are computed against it
  std::optional<GroupKind> kind;  // communication that savings are compared with; nothing: all
  bool causal_flops = false;  // FLOPs count only the half of attention that a causal mask leaves
  bool traffic = false;       // adds columns of the bytes that a GPU sends
  std::string note;           // printed below the table
  Published published;
};

// How `tandem validate` compares a run with a measured one: [validate].
struct MeasurementSettings {
  std::string backend{kBackendNames.front()};
  std::string launch;  // shell words before the command that runs all ranks
  Compute compute = Compute::Timed;
  bool share_gpu = false;  // cuda: all ranks on one GPU
  GpuTransfers transfers = GpuTransfers::Nccl;
  // The largest differences of simulated and measured figures that pass. Of the iteration (and of
  // its ratio to the baseline's), the second counts if exposed communication exceeds compute.
  double iteration_percent = 2;
  double communicating_percent = 4;
  double bubble_points = 2;
  double overlap_points = 3;
  // The same for the simulation with the measured op times; nothing: any difference passes.
  std::optional<double> own_iteration_percent, own_bubble_points, own_overlap_points;
};

// Sizes above these are refused, as a typing error is more likely: [limits].
struct Limits {
  double runs = 100'000;    // of a file
  double ops = 50'000'000;  // of a run
};

struct Scenario {
  std::string name;                 // names of its points, joined by ", "
  std::vector<std::string> axes;    // the file's axes
  std::vector<std::string> points;  // the run's point on each axis
  JobSettings job;
  ClusterSettings cluster;
  CostSettings costs;
  VariabilitySettings variability;
  ReportSettings report;
  MeasurementSettings measurement;
  Limits limits;
  bool fold = true;  // not in the file: the caller lets one rank stand for all that do the same

  // Assumptions made in reading files of other tools, and parts of the files that were left out.
  std::vector<std::string> notes;

  std::string path;                           // of its file
  std::map<std::string, std::string> places;  // of each key that is set: "file:line", or "--set"

  Settings settings;  // all keys that are set, also by files of other tools

  // Returns the model that prices its kernels. REQUIRES: costs are not uniform; the scenario
  // outlives the result.
  CostModel cost_model() const {
    return tandem::cost_model(costs, cluster.spec.device, job.plan.precision);
  }

  // Returns the place that an Error about these keys begins with: that of the first key that is
  // set, else that of another key in their tables, else the file.
  std::string place_of(const std::vector<std::string>& keys) const;

  // Returns the error with the place of its keys. An error without keys stays as it is.
  Error placed(const Error& error) const;
};

// One run of a file before its settings are checked. The settings have the keys of imported files.
struct RunSettings {
  std::string name;                       // names of its points, joined by ", "
  std::vector<std::string> axes, points;  // equally long: each name of a point, and its axis
  Settings settings;
  std::vector<std::string> notes = {};  // as in Scenario
};

// Returns the runs that are the product of the file's axes, each with `sets` on top: the one named
// `only`, or else those whose name contains it. Error: more than limits.runs, found before any of
// them is made.
Result<std::vector<RunSettings>> runs_of(
    const ScenarioFile& file, const std::vector<std::pair<std::string, Setting>>& sets = {},
    const std::string& only = "");

// Errors: as load_scenarios().
Result<Scenario> make_scenario(const ScenarioFile& file, const RunSettings& run);

// Returns the runs of a file whose name contains `only`, each with `sets` on top. Errors: unknown
// keys (with the nearest known one), wrong types, negative sizes, and every rule that a plan
// breaks.
Result<std::vector<Scenario>> load_scenarios(
    const std::string& path, const std::vector<std::pair<std::string, Setting>>& sets = {},
    const std::string& only = "");
Result<std::vector<Scenario>> load_scenarios(
    const ScenarioFile& file, const std::vector<std::pair<std::string, Setting>>& sets = {},
    const std::string& only = "");

// Returns the file's only run. Error: there are several; `by` names the option that chooses one.
Result<Scenario> only_run(const std::vector<Scenario>& scenarios, const std::string& path,
                          std::string_view by = "--only");

// Returns the run that a file with these settings alone would give. Errors name `path` and the
// settings' places.
Result<Scenario> make_scenario(const std::string& path, const std::string& name,
                               const Settings& settings,
                               const std::vector<std::pair<std::string, Setting>>& sets = {});

// Returns the scenario with `sets` over its own settings. Its order or layout is open again if the
// settings leave it open.
Result<Scenario> with_sets(const Scenario& scenario,
                           const std::vector<std::pair<std::string, Setting>>& sets);

// Returns every key that a scenario knows, with its help. docs/scenario.md has them all (tested).
std::vector<std::pair<std::string, std::string>> scenario_keys();

}  // namespace tandem
