#include "planning/size.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "planning/rules.h"
#include "planning/stage_level.h"

namespace tandem {
namespace {

constexpr double kDay_s = 86400, kHour_s = 3600, kYear_h = 8766, kTrillion = 1e12;

// What make_scenario wants of a plan; the search replaces all of it.
const std::vector<std::pair<const char*, std::int64_t>> kPlaceholder = {
    {"parallel.tp", 1}, {"parallel.pp", 1}, {"parallel.dp", 1}, {"cluster.gpus", 1}};

std::string joined(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, ", "));
}

struct Tuned {
  std::optional<Found> plan;
  std::string reason;
};

Result<Tuned> tuned_plan(const SizeCase& c, const std::vector<std::string>& among) {
  ASSIGN_OR_RETURN(const Space space,
                   Space::among(among.empty() ? usual_space(c.scenario) : among));
  ASSIGN_OR_RETURN(Cluster cluster, make_cluster(c.scenario));
  StageLevel level(c.scenario, std::move(cluster));
  const SearchResult found = Search(c.scenario, space, &level).best({.keep = 1});
  if (!found.best.empty()) return Tuned{found.best.front(), ""};
  return Tuned{std::nullopt, found.counts.enumerated == 0 ? "no plan keeps the rules"
                                                          : "no plan fits into memory"};
}

Scenario planned(const SizeCase& c, const Found& plan) {
  Scenario scenario = with(c.scenario, plan.candidate);
  scenario.published = {};
  scenario.baseline.clear();
  scenario.least_bandwidth = false;
  return scenario;
}

// A batch that the plan can be run with: the next whole number of microbatches.
Scenario with_batch(Scenario scenario, double batch) {
  const Plan& plan = scenario.plan;
  const int step = plan.micro_batch * plan.dp * (scenario.order.vpp > 1 ? plan.pp : 1);
  const int steps = std::max(1, static_cast<int>(std::ceil(batch / step)));
  scenario.plan.global_batch = steps * step;
  scenario.order.microbatches = scenario.plan.microbatches();
  return scenario;
}

std::vector<double> ramp_batches(const SizeInputs& inputs, int global_batch) {
  std::vector<double> batches;
  for (double batch = inputs.ramp_from; batch > 0 && batch < global_batch; batch *= 2)
    batches.push_back(batch);
  return batches;
}

// The variations of a candidate that are simulated beside it.
struct Variation {
  std::size_t of = 0;
  Scenario scenario;
  enum Kind { Itself, Two, Four, Slower, Faster, Ramp } kind = Itself;
};

void add_variations(std::size_t of, const SizeCase& c, const Found& plan,
                    std::vector<Variation>* all) {
  const Scenario itself = planned(c, plan);
  const auto add = [&](Variation::Kind kind, const Scenario& scenario) {
    all->push_back({of, scenario, kind});
  };
  add(Variation::Itself, itself);
  const auto with_fabric = [&](double oversubscription) {
    Scenario scenario = itself;
    scenario.cluster.fabric.oversubscription *= oversubscription;
    return scenario;
  };
  if (itself.cluster.fabric.kind != Fabric::Star) {
    add(Variation::Two, with_fabric(2));
    add(Variation::Four, with_fabric(4));
  }
  const auto with_nics = [&](double factor) {
    Scenario scenario = itself;
    scenario.cluster.nic_bytes_per_s *= factor;
    return scenario;
  };
  add(Variation::Slower, with_nics(0.9));
  add(Variation::Faster, with_nics(1.1));
  for (const double batch : ramp_batches(c.inputs, itself.plan.global_batch))
    add(Variation::Ramp, with_batch(itself, batch));
}

// Seconds of all iterations before the whole batch; each batch has an equal share of the tokens.
double ramp_seconds(const SizeCase& c, const std::vector<double>& iterations) {
  if (iterations.empty()) return 0;
  const std::vector<double> batches = ramp_batches(c.inputs, c.scenario.plan.global_batch);
  const double share = c.inputs.ramp_tokens / static_cast<double>(batches.size());
  double seconds = 0;
  for (std::size_t i = 0; i < batches.size(); ++i)
    seconds += share / (batches[i] * c.scenario.model.seq) * iterations[i];
  return seconds;
}

std::pair<double, double> interval_of(const Outcome& outcome) {
  if (!outcome.interval_s) return {1, 1};
  return {outcome.interval_s->first / outcome.iteration_s,
          outcome.interval_s->second / outcome.iteration_s};
}

Economics economics_of(const SizeCase& c, const Sized& sized, double ramp_s, double times = 1) {
  const Outcome& outcome = *sized.outcome;
  const double tokens = static_cast<double>(c.scenario.plan.global_batch) * c.scenario.model.seq;
  return economics(c.inputs, sized.gpus, c.scenario.cluster.gpus_per_node, tokens,
                   outcome.iteration_s * times, ramp_s * times, interval_of(outcome));
}

std::string why_out(const SizeInputs& inputs, const Economics& e) {
  if (e.days_p95() > inputs.days) return fmt::format("later than {:g} days", inputs.days);
  if (inputs.budget > 0 && e.cost > inputs.budget) return "above the budget";
  return "";
}

// By job: the place of the cheapest that is not out; -1: none.
int cheapest(const std::vector<Sized>& sized, const std::string& job,
             const std::vector<Economics>& all, const std::vector<std::string>& reasons) {
  int best = -1;
  for (std::size_t i = 0; i < sized.size(); ++i) {
    if (sized[i].job != job || !reasons[i].empty()) continue;
    if (best < 0 || all[i].cost < all[best].cost) best = static_cast<int>(i);
  }
  return best;
}

void mark(std::vector<Sized>* sized) {
  for (Sized& one : *sized) {
    if (!one.outcome) continue;
    one.on_frontier = std::ranges::none_of(*sized, [&](const Sized& other) {
      if (other.job != one.job || !other.outcome) return false;
      const Economics &a = other.economics, &b = one.economics;
      return a.wall.p95_s <= b.wall.p95_s && a.cost <= b.cost &&
             (a.wall.p95_s < b.wall.p95_s || a.cost < b.cost);
    });
  }
}

// What bandwidth the best and the frontier need: many simulations each, so not for all.
void find_least_bandwidth(const std::vector<SizeCase>& cases, int jobs, std::vector<Sized>* sized) {
  std::vector<std::size_t> of;
  std::vector<Scenario> scenarios;
  for (std::size_t i = 0; i < sized->size(); ++i) {
    const Sized& one = (*sized)[i];
    if (!one.outcome || !(one.recommended || one.on_frontier) ||
        !cases[i].scenario.cluster.calibration.empty())
      continue;
    of.push_back(i);
    scenarios.push_back(planned(cases[i], *one.plan));
    scenarios.back().least_bandwidth = true;
  }
  const std::vector<Result<Outcome>> found = simulate_all(scenarios, Engine::Ideal, jobs);
  for (std::size_t i = 0; i < of.size(); ++i) {
    if (!found[i].ok()) continue;
    (*sized)[of[i]].outcome->looked_for_bandwidth = true;
    (*sized)[of[i]].outcome->least_internode_Gbitps = found[i]->least_internode_Gbitps;
  }
}

struct Change {
  const char* input;
  void (*apply)(SizeInputs*);
  double times = 1;  // the iteration
  double Sized::*nics = nullptr;
};

const std::vector<Change>& changes() {
  static const std::vector<Change> kChanges = {
      {"the iteration +10 %", [](SizeInputs*) {}, 1.1},
      {"the iteration -10 %", [](SizeInputs*) {}, 0.9},
      {"NIC bandwidth -10 %", [](SizeInputs*) {}, 1, &Sized::slower_nics},
      {"NIC bandwidth +10 %", [](SizeInputs*) {}, 1, &Sized::faster_nics},
      {"size.tokens_T +10 %", [](SizeInputs* s) { s->tokens *= 1.1; }},
      {"price of a node +10 %", [](SizeInputs* s) { s->node_hour *= 1.1, s->node *= 1.1; }},
      {"price.kWh +10 %", [](SizeInputs* s) { s->kWh *= 1.1; }},
      {"failures twice as often", [](SizeInputs* s) { s->failures.gpu_mtbf_h /= 2; }},
      {"failures half as often", [](SizeInputs* s) { s->failures.gpu_mtbf_h *= 2; }},
      {"failures.checkpoint_s x 2", [](SizeInputs* s) { s->failures.checkpoint_s *= 2; }},
      {"failures.restart_s x 2", [](SizeInputs* s) { s->failures.restart_s *= 2; }},
      {"failures.repair_hours x 2", [](SizeInputs* s) { s->failures.repair_h *= 2; }},
  };
  return kChanges;
}

std::vector<InputChange> input_changes(const std::vector<SizeCase>& cases,
                                       const std::vector<Sized>& sized,
                                       const std::vector<double>& ramps) {
  std::vector<InputChange> all;
  for (std::size_t chosen = 0; chosen < sized.size(); ++chosen) {
    if (!sized[chosen].recommended) continue;
    const Economics& before = sized[chosen].economics;
    for (const Change& change : changes()) {
      std::vector<Economics> after(sized.size());
      std::vector<std::string> reasons(sized.size(), "out");
      for (std::size_t i = 0; i < sized.size(); ++i) {
        if (sized[i].job != sized[chosen].job || !sized[i].outcome) continue;
        SizeCase changed = cases[i];
        change.apply(&changed.inputs);
        const double times = change.nics != nullptr ? sized[i].*change.nics : change.times;
        after[i] = economics_of(changed, sized[i], ramps[i], times);
        reasons[i] = why_out(changed.inputs, after[i]);
      }
      const int now = cheapest(sized, sized[chosen].job, after, reasons);
      InputChange s{sized[chosen].job, change.input,
                    after[chosen].wall.p95_s / before.wall.p95_s - 1,
                    after[chosen].cost / before.cost - 1, ""};
      if (now < 0) s.recommended = "none is in time and budget";
      if (now >= 0 && static_cast<std::size_t>(now) != chosen)
        s.recommended = fmt::format("{}, {} GPUs", sized[now].candidate, sized[now].gpus);
      all.push_back(std::move(s));
    }
  }
  return all;
}

// Candidates with the same GPU and as many of them a node differ in their network.
std::vector<TierWorth> tiers(const std::vector<SizeCase>& cases, const std::vector<Sized>& sized) {
  std::vector<TierWorth> all;
  const auto cluster = [&](std::size_t i) -> const ClusterSpec& {
    return cases[i].scenario.cluster;
  };
  for (std::size_t i = 0; i < sized.size(); ++i) {
    if (!sized[i].outcome) continue;
    std::size_t best = i;
    for (std::size_t j = 0; j < sized.size(); ++j) {
      const bool alike = sized[j].outcome && sized[j].job == sized[i].job &&
                         sized[j].gpus == sized[i].gpus &&
                         cluster(j).device.name == cluster(i).device.name &&
                         cluster(j).gpus_per_node == cluster(i).gpus_per_node;
      if (alike && sized[j].outcome->iteration_s < sized[best].outcome->iteration_s) best = j;
    }
    if (best == i) continue;
    all.push_back({sized[i].job, sized[i].candidate, sized[best].candidate, sized[i].gpus,
                   sized[i].outcome->iteration_s / sized[best].outcome->iteration_s});
  }
  return all;
}

}  // namespace

double Economics::days_p50() const { return wall.p50_s / kDay_s; }
double Economics::days_p95() const { return wall.p95_s / kDay_s; }

Economics economics(const SizeInputs& inputs, int gpus, int gpus_per_node, double tokens_a_step,
                    double iteration_s, double ramp_s, std::pair<double, double> interval) {
  Economics e;
  const double ramped = ramp_s > 0 ? inputs.ramp_tokens : 0;
  e.iterations = std::ceil(std::max(0.0, inputs.tokens - ramped) / tokens_a_step);
  const double work_s = e.iterations * iteration_s + ramp_s;
  e.ideal_days = work_s / kDay_s;
  e.nodes = (gpus + gpus_per_node - 1) / gpus_per_node;
  e.spares = inputs.spare_nodes >= 0 ? inputs.spare_nodes
                                     : spares_for(inputs.failures, e.nodes, gpus_per_node);
  e.available = availability(inputs.failures, e.nodes, gpus_per_node, e.spares);
  e.checkpoint_interval_s = checkpoint_interval_s(inputs.failures, gpus);
  e.goodput = goodput(inputs.failures, gpus, e.checkpoint_interval_s) * e.available;
  e.wall = wall_time(inputs.failures, {.work_s = work_s,
                                       .interval = interval,
                                       .interval_s = e.checkpoint_interval_s,
                                       .available = e.available,
                                       .gpus = gpus,
                                       .seed = static_cast<std::uint64_t>(inputs.seed)});
  const double paid = e.nodes + e.spares;
  const double node_hour =
      inputs.node_hour > 0 ? inputs.node_hour : inputs.node / (inputs.years * kYear_h);
  const double kW = paid * inputs.node_kW * inputs.pue;
  e.energy_MWh = kW * e.wall.p50_s / kHour_s / 1000;
  e.cost = e.wall.p95_s / kHour_s * (paid * node_hour + kW * inputs.kWh);
  e.cost_per_T = e.cost / (inputs.tokens / kTrillion);
  return e;
}

Result<std::vector<SizeCase>> load_size_cases(
    const std::string& path, const std::vector<std::pair<std::string, Setting>>& sets,
    const std::string& only) {
  ASSIGN_OR_RETURN(const ScenarioFile file, read_scenario_file(path));
  ASSIGN_OR_RETURN(std::vector<RunSettings> runs, runs_of(file, sets, only));
  std::vector<SizeCase> cases;
  for (RunSettings& run : runs) {
    ASSIGN_OR_RETURN(const SizeInputs inputs, take_size_inputs(path, &run.settings));
    for (const auto& [key, value] : kPlaceholder) run.settings[key] = {value, path};
    ASSIGN_OR_RETURN(Scenario scenario, make_scenario(file, run));
    if (scenario.uniform)
      return Error{fmt::format("{}: found costs.source = uniform, expected a model", path)};
    const std::vector<std::string>& points = run.points;
    const std::string job = points.size() > 1 ? points.front() : scenario.model_name;
    const std::string candidate =
        points.size() > 1 ? joined({points.begin() + 1, points.end()}) : run.name;
    for (const int gpus : inputs.gpus) {
      cases.push_back({job, candidate, scenario, inputs});
      cases.back().scenario.gpus = gpus;
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
  if (scenario.model.seq < kLongSequence) among.emplace_back("parallel.cp=1");
  return among;
}

Result<SizeResult> size(const std::vector<SizeCase>& cases, const std::vector<std::string>& among,
                        const SizeOptions& options) {
  SizeResult result{.seed = cases.front().inputs.seed};
  std::vector<Sized>& sized = result.sized;
  std::vector<Variation> variations;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const SizeCase& c = cases[i];
    ASSIGN_OR_RETURN(const Tuned tuned, tuned_plan(c, among));
    sized.push_back({c.job, c.candidate, c.scenario.gpus, tuned.reason, tuned.plan});
    if (tuned.plan) add_variations(i, c, *tuned.plan, &variations);
    options.on_progress(static_cast<int>(i) + 1, static_cast<int>(cases.size()));
  }
  std::vector<Scenario> scenarios;
  for (const Variation& variation : variations) scenarios.push_back(variation.scenario);
  std::vector<Result<Outcome>> outcomes = simulate_all(scenarios, options.engine, options.jobs);
  std::vector<std::vector<double>> ramp(sized.size());
  for (std::size_t i = 0; i < variations.size(); ++i) {
    if (!outcomes[i].ok()) return outcomes[i].error();
    Sized& one = sized[variations[i].of];
    const double iteration_s = outcomes[i]->iteration_s;
    const auto times = [&] { return iteration_s / one.outcome->iteration_s; };
    switch (variations[i].kind) {
      case Variation::Itself:
        one.outcome = std::move(*outcomes[i]);
        break;
      case Variation::Two:
        one.oversubscribed_2 = times();
        break;
      case Variation::Four:
        one.oversubscribed_4 = times();
        break;
      case Variation::Slower:
        one.slower_nics = times();
        break;
      case Variation::Faster:
        one.faster_nics = times();
        break;
      case Variation::Ramp:
        ramp[variations[i].of].push_back(iteration_s);
        break;
    }
  }
  std::vector<double> ramps;
  std::vector<Economics> all;
  std::vector<std::string> reasons;
  for (std::size_t i = 0; i < sized.size(); ++i) {
    ramps.push_back(ramp_seconds(cases[i], ramp[i]));
    if (sized[i].outcome) {
      sized[i].economics = economics_of(cases[i], sized[i], ramps[i]);
      if (!sized[i].outcome->training->fits) sized[i].reason = "does not fit into memory";
      if (sized[i].reason.empty()) sized[i].reason = why_out(cases[i].inputs, sized[i].economics);
    }
    all.push_back(sized[i].economics);
    reasons.push_back(sized[i].reason);
  }
  mark(&sized);
  for (const Sized& one : sized) {
    const int best = cheapest(sized, one.job, all, reasons);
    if (best >= 0) sized[best].recommended = true;
  }
  find_least_bandwidth(cases, options.jobs, &sized);
  result.input_changes = input_changes(cases, sized, ramps);
  result.tiers = tiers(cases, sized);
  return result;
}

}  // namespace tandem
