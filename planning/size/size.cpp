// Sizes a purchase. For each candidate (GPUs of a kind, their number and network) it searches the
// fastest plan, plays it on the engine, and adds up time and cost. Variations of the plan (a slower
// network, smaller batches) are played on the ideal engine; only their ratios to the plan itself on
// that engine are used.
#include "planning/size/size.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <utility>

#include "base/parallel/parallel.h"
#include "base/parallel/progress.h"
#include "base/split.h"
#include "job/failed_links.h"
#include "job/site.h"
#include "planning/size/size_compare.h"
#include "planning/tune/refinement.h"
#include "planning/tune/rules.h"
#include "planning/tune/stage_level.h"

namespace tandem {
namespace {

// The keys of a plan that make_scenario needs; the search replaces all of them.
const std::vector<std::pair<const char*, std::int64_t>> kPlaceholderKeys = {
    {"parallel.tp", 1}, {"parallel.pp", 1}, {"parallel.dp", 1}, {"cluster.gpus", 1}};

std::string joined(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, ", "));
}

struct BestPlan {
  std::optional<Found> plan;
  std::string reason;  // why there is none
};

// Returns `among`, and the usual choices for the keys that it does not name.
std::vector<std::string> space_of(const Scenario& scenario, std::vector<std::string> among) {
  const auto key = [](const std::string& text) { return text.substr(0, text.find('=')); };
  const std::vector<std::string> own = among;
  for (const std::string& usual : usual_space(scenario)) {
    if (std::ranges::find(own, key(usual), key) == own.end()) among.push_back(usual);
  }
  return among;
}

// Searches the candidate's fastest plan.
Result<BestPlan> tuned_plan(const SizeCase& c, const std::vector<std::string>& among,
                            const std::function<bool()>& stop) {
  ASSIGN_OR_RETURN(const Space space, Space::among(space_of(c.scenario, among)));
  if (refinements_in(space) != std::vector<Refinement>{{}})
    return Error{
        "--among: found parallel.layout, schedule.vocabulary or schedule.order = auto, expected "
        "named orders alone: a sizing compares plans that are not refined; tandem tune refines "
        "them"};
  ASSIGN_OR_RETURN(Cluster cluster, make_cluster(with_all_links(c.scenario)));
  StageLevel level(c.scenario, std::move(cluster));
  const SearchResult found = Search(c.scenario, space, {&level, 1}).best({.keep = 1, .stop = stop});
  if (stop()) return Error{"stopped before every candidate had its plan", Error::Failed};
  if (!found.best.empty()) return BestPlan{found.best.front(), ""};
  const SearchCounts& counts = found.counts;
  return BestPlan{std::nullopt, counts.found_none()                  ? "no plan keeps the rules"
                                : counts.memory == counts.enumerated ? "no plan fits into memory"
                                                                     : "no plan can be played"};
}

// Finds every candidate's plan on `jobs` threads. The searches share nothing.
Result<std::vector<BestPlan>> tuned_plans(const std::vector<SizeCase>& cases,
                                          const std::vector<std::string>& among,
                                          const SizeOptions& options) {
  const int of = static_cast<int>(cases.size());
  std::vector<Result<BestPlan>> found(cases.size(), Result<BestPlan>(BestPlan{}));
  std::atomic<int> done = 0;
  Waiting waiting("searching plans");
  share_among_threads(options.jobs, cases.size(), [&](int, std::size_t i) {
    found[i] = tuned_plan(cases[i], among, options.stop);
    waiting.now(fmt::format("searching plans: {} of {} candidates", ++done, of));
  });
  std::vector<BestPlan> plans;
  for (Result<BestPlan>& one : found) {
    ASSIGN_OR_RETURN(BestPlan plan, std::move(one));
    plans.push_back(std::move(plan));
  }
  return plans;
}

// Returns the scenario with the smallest batch of at least `batch` sequences that the plan can run.
Scenario with_batch(Scenario scenario, double batch) {
  const Plan& plan = scenario.job.plan;
  const int step = plan.micro_batch * plan.dp * (scenario.job.order.vpp > 1 ? plan.pp : 1);
  const int steps = std::max(1, static_cast<int>(std::ceil(batch / step)));
  scenario.job.plan.global_batch = steps * step;
  scenario.job.order.microbatches = scenario.job.plan.microbatches();
  return scenario;
}

// Returns the batches of the ramp: from ramp_from on, doubled as long as below the whole batch.
std::vector<double> ramp_batches(const SizeInputs& inputs, int global_batch) {
  std::vector<double> batches;
  for (double batch = inputs.ramp_from; batch > 0 && batch < global_batch; batch *= 2)
    batches.push_back(batch);
  return batches;
}

// An iteration with less than the whole batch.
struct RampStep {
  int batch = 0;
  double iteration_s = 0;
};

// Returns the seconds of all iterations before the whole batch. Each batch size gets an equal share
// of the tokens.
double ramp_seconds(const SizeCase& c, const std::vector<RampStep>& steps) {
  double seconds = 0;
  for (const auto& [batch, iteration_s] : steps) {
    const double share = c.inputs.ramp_tokens / static_cast<double>(steps.size());
    seconds += share / (static_cast<double>(batch) * c.scenario.job.model.seq) * iteration_s;
  }
  return seconds;
}

// A candidate's plan with one change. Its iteration is compared with that of the plan itself.
struct Variation {
  std::size_t of = 0;  // the candidate's index
  Scenario scenario;
  double SizedCandidate::*ratio = nullptr;  // where the ratio goes; nullptr: a batch of the ramp
};

// Returns the cluster with its fabric `times` as much oversubscribed. A star has no uplinks, so it
// first becomes a rail-optimised fabric of the same bandwidth, with leaves as in DGX SuperPOD: 32
// nodes of 8 GPUs share 8 leaf switches, one for each GPU of a node.
ClusterSpec oversubscribed(ClusterSpec cluster, double times) {
  constexpr int kLeafGpus = 256;
  if (cluster.fabric.kind == Fabric::Star) {
    cluster.fabric.kind = Fabric::RailOptimised;
    cluster.fabric.nodes_per_leaf = std::max(1, kLeafGpus / cluster.gpus_per_node);
    cluster.fabric.oversubscription = 1;
  }
  cluster.fabric.oversubscription *= times;
  return cluster;
}

// Adds the variations of candidate `of`: oversubscription, NICs, batches. `itself`: its plan.
void add_variations(std::size_t of, const SizeCase& c, const Scenario& itself,
                    std::vector<Variation>* all) {
  const auto add = [&](ClusterSpec cluster, double SizedCandidate::*ratio) {
    all->push_back({of, itself, ratio});
    all->back().scenario.cluster.spec = std::move(cluster);
  };
  const auto with_nics = [&](double factor) {
    ClusterSpec cluster = itself.cluster.spec;
    cluster.nic_bytes_per_s *= factor;
    return cluster;
  };
  add(oversubscribed(itself.cluster.spec, 2), &SizedCandidate::oversubscribed_2);
  add(oversubscribed(itself.cluster.spec, 4), &SizedCandidate::oversubscribed_4);
  add(with_nics(0.9), &SizedCandidate::slower_nics);
  add(with_nics(1.1), &SizedCandidate::faster_nics);
  for (const double batch : ramp_batches(c.inputs, itself.job.plan.global_batch))
    all->push_back({of, with_batch(itself, batch), nullptr});
}

// Plays the plans on the engine. Plays plans and variations on the ideal one, and sets the ratios
// of their times.
Status play_plans(const std::vector<SizeCase>& cases, const SizeOptions& options,
                  std::vector<SizedCandidate>* sized) {
  std::vector<Variation> variations;
  std::vector<std::size_t> of;
  std::vector<Scenario> plans, ideal;
  for (std::size_t i = 0; i < sized->size(); ++i) {
    if (!(*sized)[i].plan) continue;
    of.push_back(i);
    plans.push_back(planned(cases[i], *(*sized)[i].plan));
    add_variations(i, cases[i], with_all_links(plans.back()), &variations);
  }
  for (const Variation& variation : variations) ideal.push_back(variation.scenario);
  for (const Scenario& plan : plans) ideal.push_back(with_all_links(plan));
  std::vector<Result<RunResult>> played =
      simulate_all(plans, options.engine, options.jobs, {}, 0, options.on_runs);
  const std::vector<Result<RunResult>> varied =
      simulate_all(ideal, Engine::Ideal, options.jobs, {}, 0, options.on_runs);
  std::vector<double> ideal_s(sized->size());
  for (std::size_t i = 0; i < of.size(); ++i) {
    const Result<RunResult>& plain = varied[variations.size() + i];
    if (!played[i].ok()) return played[i].error();
    if (!plain.ok()) return plain.error();
    (*sized)[of[i]].result = std::move(*played[i]);
    ideal_s[of[i]] = plain->iteration_s;
  }
  std::vector<std::vector<RampStep>> ramps(sized->size());
  for (std::size_t i = 0; i < variations.size(); ++i) {
    const auto& [candidate, scenario, ratio] = variations[i];
    if (!varied[i].ok()) return varied[i].error();
    SizedCandidate& one = (*sized)[candidate];
    const double times = varied[i]->iteration_s / ideal_s[candidate];
    if (ratio != nullptr) {
      one.*ratio = times;
    } else {
      ramps[candidate].push_back({scenario.job.plan.global_batch, times * one.result->iteration_s});
    }
  }
  for (std::size_t i = 0; i < sized->size(); ++i)
    (*sized)[i].ramp_s = ramp_seconds(cases[i], ramps[i]);
  return Done{};
}

// Finds the bandwidth between nodes that each candidate needs. Candidates with a calibration are
// skipped: its measured times hold at one bandwidth only.
Status find_least_bandwidth(const std::vector<SizeCase>& cases, const SizeOptions& options,
                            std::vector<SizedCandidate>* sized) {
  std::vector<std::size_t> of;
  std::vector<Scenario> scenarios;
  for (std::size_t i = 0; i < sized->size(); ++i) {
    if (!(*sized)[i].result || !cases[i].scenario.cluster.spec.calibration.empty()) continue;
    of.push_back(i);
    scenarios.push_back(with_all_links(planned(cases[i], *(*sized)[i].plan)));
    scenarios.back().report.least_bandwidth = true;
  }
  const std::vector<Result<RunResult>> found =
      simulate_all(scenarios, Engine::Ideal, options.jobs, {}, 0, options.on_runs);
  for (std::size_t i = 0; i < of.size(); ++i) {
    if (!found[i].ok()) return found[i].error();
    (*sized)[of[i]].result->looked_for_bandwidth = true;
    (*sized)[of[i]].result->least_internode_Gbitps = found[i]->least_internode_Gbitps;
  }
  return Done{};
}

// Whether the key is part of what a candidate buys. --set refuses such keys, because it would
// change the hardware of all candidates and leave their names and prices. It may change how well
// hardware is used.
bool is_bought(std::string_view key) {
  static const std::vector<std::string> kBought = split_words(
      "preset name gpus_per_node intra_GBps nics_per_node nic_Gbitps fabric nodes_per_leaf "
      "oversubscription nics_on_switch nvlinks in_network_reduction gpus_of_node links_file hosts "
      "hostfile from gpu gpu_name memory_GiB memory_GBps host_link_GBps host_memory_GBps sms "
      "tflops");
  constexpr std::string_view kCluster = "cluster.";
  return key.starts_with(kCluster) &&
         std::ranges::find(kBought, key.substr(kCluster.size())) != kBought.end();
}

Status check_sets(const std::vector<std::pair<std::string, Setting>>& sets) {
  for (const auto& [key, setting] : sets) {
    if (key == "cluster.gpus") return setting.error(key, "size.gpus: a list of GPUs to try");
    if (is_bought(key))
      return setting.error(key,
                           "it in a candidate's own lines, beside its price: here it would change "
                           "all candidates, and neither their names nor their prices; "
                           "variability.background takes bandwidth between nodes from all");
  }
  return Done{};
}

}  // namespace

Scenario planned(const SizeCase& c, const Found& plan) {
  Scenario scenario = scenario_with(c.scenario, plan.candidate);
  scenario.report.published = {};
  scenario.report.baseline.clear();
  scenario.report.least_bandwidth = false;
  return scenario;
}

Result<std::vector<SizeCase>> load_size_cases(
    const std::string& path, const std::vector<std::pair<std::string, Setting>>& sets,
    const std::string& only) {
  ASSIGN_OR_RETURN(const ScenarioFile file, read_scenario_file(path));
  return load_size_cases(file, sets, only);
}

Result<std::vector<SizeCase>> load_size_cases(
    const ScenarioFile& file, const std::vector<std::pair<std::string, Setting>>& sets,
    const std::string& only) {
  const std::string& path = file.path;
  RETURN_IF_ERROR(check_sets(sets));
  ASSIGN_OR_RETURN(std::vector<RunSettings> runs, runs_of(file, sets, only));
  std::vector<SizeCase> cases;
  for (RunSettings& run : runs) {
    ASSIGN_OR_RETURN(const SizeInputs inputs, take_size_inputs(path, &run.settings));
    for (const std::string& key : Space::own_keys()) run.settings.erase(key);
    for (const auto& [key, value] : kPlaceholderKeys) run.settings[key] = {value, path};
    ASSIGN_OR_RETURN(Scenario scenario, make_scenario(file, run));
    if (scenario.costs.uniform)
      return Error::at(path, "found costs.source = uniform, expected a model");
    if (scenario.cluster.spec.cables)
      return Error::at(
          path,
          "found cluster.links_file, expected a cluster of any size: what its NICs and "
          "its fabric are");
    const std::vector<std::string>& points = run.points;
    const std::string job = points.size() > 1 ? points.front() : scenario.job.model_name;
    const std::string candidate =
        points.size() > 1 ? joined({points.begin() + 1, points.end()}) : run.name;
    for (const int gpus : inputs.gpus) {
      cases.push_back({job, candidate, scenario, inputs});
      cases.back().scenario.cluster.gpus = gpus;
    }
  }
  return cases;
}

std::vector<std::string> usual_space(const Scenario& scenario) {
  std::vector<std::string> among = {"schedule.order=none,1f1b,interleaved",
                                    "parallel.micro_batch=1,2,4",
                                    "parallel.scatter_gather=false",
                                    "parallel.tp=1,2,4,8,16",
                                    "parallel.vpp=1,2,3,4,5,6,7,8",
                                    "overlap.tensor=off,ring",
                                    "train.zero=0,1,3",
                                    "parallel.cp=1,2,4,8"};
  if (scenario.job.model.seq < kLongSequence) among.emplace_back("parallel.cp=1");
  return among;
}

Result<SizeResult> size(const std::vector<SizeCase>& cases, const std::vector<std::string>& among,
                        const SizeOptions& options) {
  SizeResult result{.seed = cases.front().inputs.seed};
  ASSIGN_OR_RETURN(const std::vector<BestPlan> plans, tuned_plans(cases, among, options));
  for (std::size_t i = 0; i < cases.size(); ++i)
    result.sized.push_back({.job = cases[i].job,
                            .candidate = cases[i].candidate,
                            .gpus = cases[i].scenario.cluster.gpus,
                            .reason = plans[i].reason,
                            .plan = plans[i].plan});
  RETURN_IF_ERROR(play_plans(cases, options, &result.sized));
  set_economics(cases, &result.sized);
  RETURN_IF_ERROR(find_least_bandwidth(cases, options, &result.sized));
  result.input_changes = input_changes(cases, result.sized);
  result.tiers = network_comparisons(cases, result.sized);
  return result;
}

}  // namespace tandem
