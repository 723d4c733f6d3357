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

// Returns the job with its best plan without ZeRO 3, and with its best plan with it, where there is
// one; or with the reason why there is none.
Result<std::vector<SizedJob>> find_plans(SizedJob job, const std::vector<std::string>& among,
                                         const std::function<bool()>& stop) {
  ASSIGN_OR_RETURN(const Space space, Space::among(among));
  const std::vector<Refinement> unrefined_alone = {{}};
  if (refinements_in(space) != unrefined_alone)
    return Error{
        "--among: found parallel.layout, schedule.vocabulary or schedule.order = auto, expected "
        "named orders alone: a sizing compares plans that are not refined; tandem tune refines "
        "them"};
  ASSIGN_OR_RETURN(Cluster cluster, make_cluster(with_all_links(job.scenario)));
  StageLevel level(job.scenario, std::move(cluster));
  std::vector<SizedJob> jobs;
  SearchCounts counts;
  // Plans with ZeRO 3 are searched apart: stage level prices them lower than engines do, and few
  // measured runs have it, so that they would displace faster and surer ones.
  const std::vector<std::vector<std::string>> parts = {{"0", "1", "2"}, {"3"}};
  for (const std::vector<std::string>& zeroes : parts) {
    const Space part = space.only("train.zero", zeroes);
    const SearchResult found =
        Search(job.scenario, part, {&level, /*threads=*/1}).best({.keep = 1, .stop = stop});
    if (stop()) return Error{"stopped before every candidate had its plan", Error::Failed};
    if (!found.best.empty()) {
      jobs.push_back(job);
      jobs.back().plan = found.best.front();
    }
    counts += found.counts;
  }
  if (!jobs.empty()) return jobs;
  job.reason = "no plan can be played";
  if (counts.memory == counts.enumerated) job.reason = "no plan fits into memory";
  if (counts.found_none()) job.reason = "no plan keeps the rules";
  return std::vector{std::move(job)};
}

// Returns the numbers of GPUs of each node to try. For 2 nodes of 72:
//   144 GPUs  72, and the largest power of two below, 64
//   128 GPUs  64, an equal share of each
//   127 GPUs  72: the last node has GPUs without work
std::vector<int> used_gpus(const SizeStep& step, int node_gpus) {
  const int power = power_of_two_down(node_gpus);
  if (step.gpus == step.nodes * node_gpus && power < node_gpus) return {node_gpus, power};
  if (step.nodes > 1 && step.gpus % step.nodes == 0) return {step.gpus / step.nodes};
  return {node_gpus};
}

}  // namespace

Result<std::vector<SizedJob>> fit_plans(const std::vector<SizeCase>& cases, std::size_t case_index,
                                        const SizeStep& step, const std::vector<std::string>& among,
                                        const std::function<bool()>& stop) {
  const SizeCase& c = cases[case_index];
  const int node_gpus = c.node_gpus();
  std::vector<SizedJob> all;
  for (const int used : used_gpus(step, node_gpus)) {
    SizedJob job{.job = c.job, .offer = c.offer, .of = case_index, .nodes = step.nodes};
    job.scenario = c.scenario;
    job.gpus = used == node_gpus ? step.gpus : step.nodes * used;
    job.scenario.cluster.gpus = job.gpus;
    if (used != node_gpus)
      job.scenario.cluster.spec = with_part_of_node(job.scenario.cluster.spec, used);
    const int stated = job.batch();
    const int even = even_batch(stated, job.gpus, c.inputs.batch_tolerance);
    for (const int batch : even == stated ? std::vector{stated} : std::vector{stated, even}) {
      job.scenario.job.plan.global_batch = batch;
      ASSIGN_OR_RETURN(const std::vector<SizedJob> found,
                       find_plans(job, space_of(c.scenario, c.inputs.any_numerics, among), stop));
      all.insert(all.end(), found.begin(), found.end());
    }
  }
  const auto has_no_plan = [](const SizedJob& job) { return !job.plan; };
  if (std::ranges::all_of(all, has_no_plan)) return std::vector{all.front()};
  std::erase_if(all, has_no_plan);
  return all;
}

Result<std::vector<SizedJob>> with_plain_numerics(const SizedJob& job,
                                                  const std::vector<std::string>& among,
                                                  const std::function<bool()>& stop) {
  SizedJob plain = job;
  plain.plan.reset();
  return find_plans(plain, space_of(job.scenario, /*any_numerics=*/false, among), stop);
}

const SizedJob& best_of(const std::vector<SizeCase>& cases, const std::vector<SizedJob>& plans) {
  return *std::ranges::min_element(plans, {}, [&](const SizedJob& job) {
    if (!job.result || !job.result->training->fits) return kNever;
    const Economics e = economics_of(cases[job.of], job);
    return e.days_late() * (e.nodes + e.spares);
  });
}

}  // namespace tandem
