// Rules machines out by their excess, the ratio of a need (days, price, power, GPUs) to its limit,
// and picks the least of the others by price, days or total.
#include "planning/size/machines.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/units.h"
#include "job/doubts.h"
#include "planning/size/buildable.h"

namespace tandem {
namespace {

// Returns the factors of the iteration between which 90 % of real runs lie; 1 and 1: not known.
std::pair<double, double> interval_of(const RunResult& result) {
  if (!result.interval_s) return {1, 1};
  return {result.interval_s->first / result.iteration_s,
          result.interval_s->second / result.iteration_s};
}

// Returns the factors of the iteration with each seed of variability.runs; none: it was played
// once.
std::vector<double> seeds_of(const RunResult& result) {
  std::vector<double> factors;
  if (!result.repeats) return factors;
  for (const RepeatedRun& run : result.repeats->each)
    factors.push_back(run.iteration_s / result.repeats->iteration_s.p50);
  return factors;
}

bool is_possible(const SizedJob& job) { return job.result && job.result->training->fits; }

// Returns the value over its limit; 0: there is no limit.
double share_of_limit(double value, double limit) { return limit > 0 ? value / limit : 0; }

// Returns whether nodes fail so fast that no number of spares is enough. A number that the user
// states is taken as it is, unless a training then takes thousands of years.
bool fails_too_fast(const SizeInputs& inputs, const Economics& e) {
  constexpr double kLeastGoodput = 1e-6;
  return (inputs.chooses_spares() && e.available < kWantedAvailability) ||
         e.goodput < kLeastGoodput;
}

// A machine's need over a limit of [size], and why the machine is ruled out if that is above 1.
struct Excess {
  double times = 0;
  std::string reason;  // "later than 90 days"

  bool is_kept() const { return times <= 1 + 1e-9; }
};

Excess time_excess(const SizeCase& c, const SizedJob& job) {
  if (!job.result) return {kNever, job.reason};
  if (!is_possible(job)) return {kNever, "does not fit into memory"};
  if (fails_too_fast(c.inputs, job.economics))
    return {kNever, "nodes fail faster than they are repaired"};
  return {share_of_limit(job.economics.days_late() + c.inputs.delivery_days, c.inputs.days),
          fmt::format("later than {:g} days", c.inputs.days)};
}

// Returns the excess of all trainings' days over the years that the total counts.
Excess years_excess(const JobsOfCases& all, const Machine& machine) {
  const auto years = all.inputs_of(machine.jobs.front()).years_of_total();
  if (!years) return {};
  double share = 0;
  for (const std::size_t job : machine.jobs) share += share_of_years(all.case_of(job), all[job]);
  return {share, fmt::format("beyond the {:g} years counted", *years)};
}

// Returns the largest excess of purchase, rent, power, GPUs and the trainings' own cost.
Excess limit_excess(const JobsOfCases& all, const Machine& machine) {
  const SizeInputs& inputs = all.inputs_of(machine.jobs.front());
  std::vector<Excess> found = {
      {share_of_limit(machine.gpus, inputs.gpus_max), "above size.gpus_max"},
      {share_of_limit(machine.costs.purchase, inputs.purchase_budget), "above the purchase budget"},
      {share_of_limit(machine.costs.monthly, inputs.rent_per_month), "above the rent per month"},
      {share_of_limit(machine.costs.peak_MW, inputs.power_MW), "above size.power_MW"}};
  if (machine.network_price == kNever) found.push_back({kNever, "its network cannot be built"});
  for (const std::size_t job : machine.jobs) {
    if (is_possible(all[job]) && !fails_too_fast(all.inputs_of(job), all[job].economics))
      found.push_back(
          {share_of_limit(all[job].economics.cost, all.inputs_of(job).budget), "above the budget"});
  }
  return *std::ranges::max_element(found, {}, &Excess::times);
}

// Returns warnings of settings of the file that the job's time simplifies.
std::vector<std::string> time_warnings(const JobsOfCases& all, std::size_t job) {
  std::vector<std::string> lines;
  const SizedJob& sized = all[job];
  const SizeCase& c = all.case_of(job);
  // Runs differ by their seed, but one run was played.
  const VariabilitySettings& variability = c.scenario.variability;
  if (varies_by_seed(c.scenario) && variability.repeats <= 1)
    lines.push_back(
        fmt::format("[variability]: its one seed, {}, decides all draws of days; with "
                    "variability.runs they are drawn from as many",
                    variability.seed));
  // The batch grows in a ramp, and the plan cannot run some of its sizes.
  if (sized.ramp_step > 0)
    lines.push_back(fmt::format(
        "size.ramp_from = {:.0f}: the plan of {} GPUs runs multiples of {} alone; a batch below is "
        "taken to last as long (an upper bound), one between counts as the multiple below it",
        c.inputs.ramp_from, sized.gpus, sized.ramp_step));
  // A repair of less than a node needs as many idle GPUs on the node.
  const int repair = c.inputs.failures.repair_gpus;
  const int idle = working_nodes(c, sized).idle_a_node;
  if (repair != c.node_gpus() && idle < repair)
    lines.push_back(
        fmt::format("failures.repair_gpus = {}: a repair takes the whole node of {} GPUs: fewer "
                    "than {} of them are idle",
                    repair, c.node_gpus(), repair));
  return lines;
}

// Returns the largest excess of the machine's limits and of its jobs' time.
Excess worst_excess(const JobsOfCases& all, const Machine& machine) {
  Excess worst = limit_excess(all, machine);
  for (const std::size_t job : machine.jobs) {
    Excess late = time_excess(all.case_of(job), all[job]);
    if (machine.jobs.size() > 1) late.reason = all[job].job + ": " + late.reason;
    if (late.times > worst.times) worst = late;
  }
  const Excess beyond = years_excess(all, machine);
  return beyond.times > worst.times ? beyond : worst;
}

double total_of(const JobsOfCases& all, const Machine& machine) {
  const SizeInputs& inputs = all.inputs_of(machine.jobs.front());
  if (const auto years = inputs.years_of_total())
    return cost_of_years(inputs.price, machine.nodes + machine.spares, *years,
                         machine.network_price);
  double total = 0;
  for (const std::size_t job : machine.jobs)
    total += all.inputs_of(job).weight * all[job].economics.cost;
  return total;
}

// Returns the index of the machine with the least `value` among those for which `is_eligible`; of
// equal ones, the first.
template <class Eligible, class Value>
std::optional<std::size_t> least(const std::vector<Machine>& machines, Eligible is_eligible,
                                 Value value) {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < machines.size(); ++i) {
    if (is_eligible(machines[i]) && (!best || value(machines[i]) < value(machines[*best])))
      best = i;
  }
  return best;
}

// Marks the jobs that no other machine does at least as early and as cheaply.
void mark_frontier(std::vector<SizedJob>* sized) {
  for (SizedJob& job : *sized) {
    if (!is_possible(job)) continue;
    job.on_frontier = std::ranges::none_of(*sized, [&](const SizedJob& other) {
      if (other.job != job.job || !is_possible(other)) return false;
      const Economics &a = other.economics, &b = job.economics;
      return a.wall.late_s <= b.wall.late_s && a.cost <= b.cost &&
             (a.wall.late_s < b.wall.late_s || a.cost < b.cost);
    });
  }
}

}  // namespace

WorkingNodes working_nodes(const SizeCase& c, const SizedJob& job) {
  const int used = (job.gpus + job.nodes - 1) / job.nodes;
  return {job.nodes, used, c.node_gpus() - used, job.idle_nodes};
}

double network_price_of(const SizeCase& c, int nodes) {
  if (!c.inputs.price.network) return 0;
  const Result<NetworkBill> bill = network_bill(c.scenario.cluster.spec, nodes);
  return bill.ok() ? network_price(*bill, *c.inputs.price.network) : kNever;
}

double share_of_years(const SizeCase& c, const SizedJob& job) {
  const auto years = c.inputs.years_of_total();
  return years ? c.inputs.weight * job.economics.days_late() / days_of_years(*years) : 0;
}

Economics economics_of(const SizeCase& c, const SizedJob& job, double iteration_factor) {
  const RunResult& result = *job.result;
  const WorkingNodes working = working_nodes(c, job);
  const int spares = spare_nodes(c.inputs, working);
  return economics(c.inputs,
                   {.working = working,
                    .tokens_a_step = static_cast<double>(job.batch()) * c.scenario.job.model.seq,
                    .iteration_s = result.iteration_s * iteration_factor,
                    .ramp_s = job.ramp_s * iteration_factor,
                    .network_price = network_price_of(c, working.nodes + spares),
                    .interval = interval_of(result),
                    .seeds = seeds_of(result)});
}

void make_endless_if_failing(const SizeInputs& inputs, Economics* e) {
  if (!fails_too_fast(inputs, *e)) return;
  e->wall = {kNever, kNever};
  for (double* sum : {&e->days_per_T, &e->energy_MWh, &e->CO2_t, &e->cost, &e->cost_per_T}) {
    if (*sum > 0) *sum = kNever;  // 0: not counted
  }
}

Machine machine_of(const JobsOfCases& all, std::vector<std::size_t> jobs) {
  const SizedJob& first = all[jobs.front()];
  const SizeCase& c = all.case_of(jobs.front());
  Machine machine{.offer = first.offer, .jobs = std::move(jobs)};
  machine.days_late = c.inputs.delivery_days;
  int nodes = 0;  // that work or stand by
  for (const std::size_t job : machine.jobs) {
    const SizedJob& sized = all[job];
    machine.nodes = std::max(machine.nodes, sized.nodes);
    nodes = std::max(nodes, sized.nodes + std::max(sized.economics.spares, sized.idle_nodes));
    machine.days_late += all.inputs_of(job).weight * sized.economics.days_late();
  }
  machine.spares = nodes - machine.nodes;
  machine.gpus = nodes * c.node_gpus();
  if (const auto bill = network_bill(c.scenario.cluster.spec, nodes); bill.ok())
    machine.network = *bill;
  machine.warnings = build_warnings(c.scenario.cluster.spec, nodes);
  for (const std::size_t job : machine.jobs) {
    for (std::string& line : time_warnings(all, job)) {
      if (std::ranges::find(machine.warnings, line) == machine.warnings.end())
        machine.warnings.push_back(std::move(line));
    }
  }
  machine.network_price = network_price_of(c, nodes);
  machine.costs = machine_costs(c.inputs.price, nodes, machine.network_price);
  machine.total = total_of(all, machine);
  const auto has_plan = [&](std::size_t job) { return all[job].result.has_value(); };
  if (!std::ranges::all_of(machine.jobs, has_plan)) machine.total = machine.days_late = kNever;
  const Excess worst = worst_excess(all, machine);
  machine.excess = worst.times;
  if (!worst.is_kept()) machine.reason = worst.reason;
  return machine;
}

bool can_run_within_limits(const JobsOfCases& all, const Machine& machine) {
  return limit_excess(all, machine).is_kept() &&
         std::ranges::all_of(machine.jobs, [&](std::size_t job) { return is_possible(all[job]); });
}

bool are_bought_and_rented(const std::vector<Machine>& machines) {
  const auto is_rented = [](const Machine& machine) { return machine.costs.purchase == 0; };
  return std::ranges::any_of(machines, is_rented) && !std::ranges::all_of(machines, is_rented);
}

std::optional<std::size_t> answering(SizeAnswer::Question question,
                                     const std::vector<Machine>& machines, const JobsOfCases& all) {
  const auto is_in_time = [&](const Machine& m) {
    return m.network_price < kNever && years_excess(all, m).is_kept() &&
           std::ranges::all_of(m.jobs, [&](std::size_t job) {
             return time_excess(all.case_of(job), all[job]).is_kept();
           });
  };
  switch (question) {
    case SizeAnswer::Least:
      return least(machines, is_in_time,
                   [by_total = are_bought_and_rented(machines)](const auto& m) {
                     const double price = m.costs.purchase > 0 ? m.costs.purchase : m.costs.monthly;
                     return std::pair(by_total ? m.total : price, m.days_late);
                   });
    case SizeAnswer::Budget:
      return least(
          machines, [&](const Machine& m) { return can_run_within_limits(all, m); },
          [](const Machine& m) { return std::pair(m.days_late, m.total); });
    case SizeAnswer::Cheapest:
      return least(
          machines, [](const Machine& m) { return m.reason.empty(); },
          [](const Machine& m) { return std::pair(m.total, m.days_late); });
  }
  return std::nullopt;
}

std::optional<std::size_t> SizeResult::recommended() const {
  for (std::size_t i = 0; i < machines.size(); ++i) {
    if (machines[i].recommended) return i;
  }
  return std::nullopt;
}

void compare_machines(const std::vector<SizeCase>& cases, SizeResult* result) {
  mark_frontier(&result->sized);
  const SizeInputs& asked = result->asked.front();
  const auto answer = [&](SizeAnswer::Question question) {
    const auto machine = answering(question, result->machines, {cases, result->sized});
    result->answers.push_back({question, machine});
    return machine;
  };
  const auto has_deadline = [](const SizeInputs& inputs) { return inputs.days > 0; };
  if (std::ranges::any_of(result->asked, has_deadline)) answer(SizeAnswer::Least);
  if (asked.purchase_budget > 0 || asked.rent_per_month > 0 || asked.power_MW > 0 ||
      asked.gpus_max > 0 || asked.budget > 0)
    answer(SizeAnswer::Budget);
  if (const auto best = answer(SizeAnswer::Cheapest)) {
    result->machines[*best].recommended = true;
  } else {
    result->nearest = least(
        result->machines, [](const Machine& m) { return m.excess < kNever; },
        [](const Machine& m) { return m.excess; });
  }
}

std::vector<NetworkComparison> network_comparisons(const std::vector<SizeCase>& cases,
                                                   const SizeResult& result) {
  std::vector<NetworkComparison> all;
  const auto cluster = [&](const SizedJob& job) -> const ClusterSpec& {
    return cases[job.of].scenario.cluster.spec;
  };
  for (const SizedJob& job : result.sized) {
    if (!job.result) continue;
    const SizedJob* best = &job;
    for (const SizedJob& other : result.sized) {
      const bool is_alike = other.result && other.job == job.job && other.gpus == job.gpus &&
                            other.nodes == job.nodes &&
                            cluster(other).device.name == cluster(job).device.name &&
                            cluster(other).gpus_per_node == cluster(job).gpus_per_node;
      if (is_alike && other.result->iteration_s < best->result->iteration_s) best = &other;
    }
    // A plan may be there twice, on machines with and without idle nodes.
    const auto is_same = [&](const NetworkComparison& one) {
      return one.job == job.job && one.offer == job.offer && one.gpus == job.gpus;
    };
    if (best == &job || std::ranges::any_of(all, is_same)) continue;
    all.push_back({job.job, job.offer, best->offer, job.gpus,
                   job.result->iteration_s / best->result->iteration_s});
  }
  return all;
}

}  // namespace tandem
