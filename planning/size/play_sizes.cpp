#include "planning/size/play_sizes.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "job/failed_links.h"

namespace tandem {
namespace {

// Returns the sequences of which a batch of the plan is a multiple. Interleaved orders take whole
// rounds of pp microbatches.
int batch_step(const JobSettings& job) {
  return job.plan.micro_batch * job.plan.dp * (job.order.vpp > 1 ? job.plan.pp : 1);
}

// Returns the scenario with the largest batch of at most `batch` sequences that the plan can run;
// if there is none, with the smallest that it can run.
Scenario with_batch(Scenario scenario, double batch) {
  const int step = batch_step(scenario.job);
  const int steps = std::max(1, static_cast<int>(batch / step));
  scenario.job.plan.global_batch = steps * step;
  scenario.job.order.microbatches = scenario.job.plan.microbatches();
  return scenario;
}

// Returns the runs of a plan's batch ramp: the whole batch, then batches from ramp_from on, doubled
// as long as below the whole one. Nothing: there is no ramp.
std::vector<Scenario> ramp_of(const SizeInputs& inputs, const Scenario& plan) {
  std::vector<Scenario> runs;
  for (double batch = inputs.ramp_from; batch > 0 && batch < plan.job.plan.global_batch;
       batch *= 2) {
    if (runs.empty()) runs.push_back(with_all_links(plan));
    runs.push_back(with_batch(runs.back(), batch));
  }
  return runs;
}

// Returns the seconds of the ramp's iterations, if one with the whole batch takes `whole_s`. Each
// batch size of the ramp gets an equal share of its tokens. A batch below the smallest that the
// plan can run takes as long as that one, and has fewer tokens: an upper bound.
double ramp_seconds(const SizeInputs& inputs, std::span<const Scenario> runs,
                    std::span<const RunResult> results, double whole_s) {
  const double share = inputs.ramp_tokens / static_cast<double>(runs.size() - 1);
  double sum = 0, batch = inputs.ramp_from;
  for (std::size_t k = 1; k < runs.size(); ++k, batch *= 2) {
    const JobSettings& settings = runs[k].job;
    const double sequences = std::min<double>(batch, settings.plan.global_batch);
    sum += share / (sequences * settings.model.seq) *
           (results[k].iteration_s / results[0].iteration_s * whole_s);
  }
  return sum;
}

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

// A job's plan on a changed cluster, to be compared with the job on its own cluster.
struct Changed {
  SizedJob* job = nullptr;
  Scenario scenario;
  double SizedJob::*ratio = nullptr;  // where the ratio goes; null: the cluster is the job's own
};

Changed with_cluster(SizedJob* job, ClusterSpec cluster, double SizedJob::*ratio) {
  Changed changed{job, with_all_links(planned(*job)), ratio};
  changed.scenario.cluster.spec = std::move(cluster);
  return changed;
}

ClusterSpec with_nics(ClusterSpec cluster, double factor) {
  cluster.nic_bytes_per_s *= factor;
  return cluster;
}

Result<std::vector<RunResult>> play(const std::vector<Scenario>& scenarios, Engine engine,
                                    const SizeOptions& options) {
  std::vector<RunResult> results;
  for (Result<RunResult>& result : simulate_all(scenarios, engine, options.jobs, /*files=*/{},
                                                /*files_of=*/0, options.on_runs)) {
    if (!result.ok()) return result.error();
    results.push_back(std::move(*result));
  }
  return results;
}

}  // namespace

Status play_sizes(const std::vector<SizeCase>& cases, Engine engine, const SizeOptions& options,
                  const std::vector<SizedJob*>& jobs) {
  std::vector<Scenario> plans, ramp_runs;
  std::vector<SizedJob*> played;
  std::vector<std::size_t> counts;  // of the ramp's runs, by job
  for (SizedJob* job : jobs) {
    if (!job->plan) continue;
    played.push_back(job);
    plans.push_back(planned(*job));
    std::vector<Scenario> runs = ramp_of(cases[job->of].inputs, plans.back());
    counts.push_back(runs.size());
    for (Scenario& run : runs) ramp_runs.push_back(std::move(run));
  }
  ASSIGN_OR_RETURN(const std::vector<RunResult> results, play(plans, engine, options));
  ASSIGN_OR_RETURN(const std::vector<RunResult> ramps, play(ramp_runs, Engine::Ideal, options));
  std::size_t first = 0;  // index of the job's first run in ramp_runs
  for (std::size_t i = 0; i < played.size(); ++i) {
    SizedJob& job = *played[i];
    job.result = results[i];
    if (counts[i] > 0) {
      job.ramp_s =
          ramp_seconds(cases[job.of].inputs, std::span(ramp_runs).subspan(first, counts[i]),
                       std::span(ramps).subspan(first, counts[i]), job.result->iteration_s);
      const int step = batch_step(ramp_runs[first].job);
      if (std::fmod(cases[job.of].inputs.ramp_from, step) != 0) job.ramp_step = step;
    }
    first += counts[i];
  }
  return Done{};
}

Status play_changes(const SizeOptions& options, const std::vector<SizedJob*>& jobs) {
  std::vector<Changed> all;
  for (SizedJob* job : jobs) {
    if (!job->result) continue;
    const ClusterSpec& own = job->scenario.cluster.spec;
    all.push_back(with_cluster(job, own, nullptr));
    all.back().scenario.report.least_bandwidth = own.calibration.empty();
    all.push_back(with_cluster(job, oversubscribed(own, 2), &SizedJob::oversubscribed_2));
    all.push_back(with_cluster(job, oversubscribed(own, 4), &SizedJob::oversubscribed_4));
    all.push_back(with_cluster(job, with_nics(own, 0.9), &SizedJob::slower_nics));
    all.push_back(with_cluster(job, with_nics(own, 1.1), &SizedJob::faster_nics));
  }
  std::vector<Scenario> scenarios;
  for (const Changed& changed : all) scenarios.push_back(changed.scenario);
  ASSIGN_OR_RETURN(const std::vector<RunResult> results, play(scenarios, Engine::Ideal, options));
  double unchanged_s = 1;
  for (std::size_t i = 0; i < all.size(); ++i) {
    SizedJob& job = *all[i].job;
    if (all[i].ratio != nullptr) {
      job.*all[i].ratio = results[i].iteration_s / unchanged_s;
      continue;
    }
    unchanged_s = results[i].iteration_s;
    job.result->looked_for_bandwidth = results[i].looked_for_bandwidth;
    job.result->least_internode_Gbitps = results[i].least_internode_Gbitps;
  }
  return Done{};
}

}  // namespace tandem
