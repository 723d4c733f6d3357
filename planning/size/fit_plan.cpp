// Runs the search of tandem tune (tune/search.h) for a job on a number of nodes.
#include "planning/size/fit_plan.h"

#include <algorithm>
#include <utility>

#include "job/failed_links.h"
#include "job/site.h"
#include "planning/size/machines.h"
#include "planning/size/size_steps.h"
#include "planning/tune/refinement.h"
#include "planning/tune/rules.h"
#include "planning/tune/stage_level.h"

namespace tandem {
namespace {

// Returns `among`, with the usual choices for the keys that it does not name.
std::vector<std::string> space_of(const Scenario& scenario, bool any_numerics,
                                  std::vector<std::string> among) {
  const auto key = [](const std::string& text) { return text.substr(0, text.find('=')); };
  const std::vector<std::string> named = among;
  for (const std::string& usual : usual_space(scenario, any_numerics)) {
    if (std::ranges::find(named, key(usual), key) == named.end()) among.push_back(usual);
  }
  return among;
}

// Searches the fastest plan of the job's scenario.
Status find_plan(const std::vector<std::string>& among, const std::function<bool()>& stop,
                 SizedJob* job) {
  ASSIGN_OR_RETURN(const Space space, Space::among(among));
  if (refinements_in(space) != std::vector<Refinement>{{}})
    return Error{
        "--among: found parallel.layout, schedule.vocabulary or schedule.order = auto, expected "
        "named orders alone: a sizing compares plans that are not refined; tandem tune refines "
        "them"};
  ASSIGN_OR_RETURN(Cluster cluster, make_cluster(with_all_links(job->scenario)));
  StageLevel level(job->scenario, std::move(cluster));
  const SearchResult found =
      Search(job->scenario, space, {&level, 1}).best({.keep = 1, .stop = stop});
  if (stop()) return Error{"stopped before every candidate had its plan", Error::Failed};
  const SearchCounts& counts = found.counts;
  if (!found.best.empty()) {
    job->plan = found.best.front();
  } else {
    job->reason = "no plan can be played";
    if (counts.memory == counts.enumerated) job->reason = "no plan fits into memory";
    if (counts.found_none()) job->reason = "no plan keeps the rules";
  }
  return Done{};
}

// Returns the plan's tokens a second (stage-level time) for each node, spares counted; 0: no plan.
// The number of spares depends on the GPUs that the job leaves idle on each node, which
// working_nodes() counts.
double tokens_rate_of(const SizeCase& c, const SizedJob& job) {
  if (!job.plan) return 0;
  const int spares = spare_nodes(c.inputs, working_nodes(c, job.nodes, job.gpus));
  return static_cast<double>(job.batch()) * job.scenario.job.model.seq /
         to_seconds(job.plan->iteration_ns) / (job.nodes + spares);
}

}  // namespace

Result<SizedJob> fit_plan(const std::vector<SizeCase>& cases, std::size_t case_index,
                          const SizeStep& step, const std::vector<std::string>& among,
                          const std::function<bool()>& stop) {
  const SizeCase& c = cases[case_index];
  const int node_gpus = c.node_gpus();
  // The numbers of GPUs of each node to try, for nodes of 72:
  //   all of 2 nodes' 144: 72, and the largest power of two below, 64
  //   128 of them: an equal share of each, 64
  //   127 of them, or a part of a single node: 72, so that the last node has GPUs without work
  std::vector<int> used_gpus = {node_gpus};
  if (step.gpus == step.nodes * node_gpus) {
    if (power_of_two_down(node_gpus) < node_gpus) used_gpus.push_back(power_of_two_down(node_gpus));
  } else if (step.nodes > 1 && step.gpus % step.nodes == 0) {
    used_gpus = {step.gpus / step.nodes};
  }
  SizedJob best;
  for (const int used : used_gpus) {
    SizedJob job{.job = c.job, .offer = c.offer, .of = case_index, .nodes = step.nodes};
    job.scenario = c.scenario;
    job.gpus = used == node_gpus ? step.gpus : step.nodes * used;
    job.scenario.cluster.gpus = job.gpus;
    if (used != node_gpus)
      job.scenario.cluster.spec = with_part_of_node(job.scenario.cluster.spec, used);
    const int stated = job.batch();
    // A batch near the stated one that can be cut over more of the GPUs, if there is one.
    const int even = even_batch(stated, job.gpus, c.inputs.batch_tolerance);
    for (const int batch : even == stated ? std::vector{stated} : std::vector{stated, even}) {
      job.scenario.job.plan.global_batch = batch;
      job.plan.reset();
      job.reason.clear();
      RETURN_IF_ERROR(find_plan(space_of(c.scenario, c.inputs.any_numerics, among), stop, &job));
      if (best.nodes == 0 || tokens_rate_of(c, job) > tokens_rate_of(c, best)) best = job;
    }
  }
  return best;
}

Result<SizedJob> with_plain_numerics(const SizedJob& job, const std::vector<std::string>& among,
                                     const std::function<bool()>& stop) {
  SizedJob plain = job;
  plain.plan.reset();
  RETURN_IF_ERROR(find_plan(space_of(job.scenario, /*any_numerics=*/false, among), stop, &plain));
  return plain;
}

}  // namespace tandem
