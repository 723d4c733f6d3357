// Searches at stage level: among plans that keep all rules of thumb, among likely plans, then all.
// Plays the best with their near variants on the engine, and refines them if the space allows it.
#include "planning/tune/tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "base/parallel/progress.h"
#include "job/failed_links.h"
#include "job/site.h"
#include "planning/tune/frameworks.h"
#include "planning/tune/own_plan.h"
#include "planning/tune/stage_level.h"
#include "scenarios/costs.h"

namespace tandem {
namespace {

using Clock = std::chrono::steady_clock;

// Returns how far the iteration is above the bound, as a share of the bound.
double above(Nanoseconds iteration_ns, Nanoseconds bound_ns) {
  return static_cast<double>(iteration_ns) / static_cast<double>(bound_ns) - 1;
}

// The most branches of a search for a rule's counterexample. Without this limit, a search that
// finds none would try all plans. The search asks whether to stop once for each branch.
constexpr int kMostBranchesOfRule = 500;

// Returns how many clusters and simulations may exist at once. Each takes some kilobytes for each
// GPU, and together they are to stay below 4 GiB.
int most_at_once(const Scenario& base) {
  constexpr int kGpusAtOnce = 600'000;
  return std::max(1, kGpusAtOnce / base.cluster.gpus);
}

bool is_past(Clock::time_point begin, double seconds) {
  return seconds > 0 && std::chrono::duration<double>(Clock::now() - begin).count() > seconds;
}

// Plays the scenarios as simulate_all() does. Those not played before `is_late` get an Error.
// `files_of`: the index of the scenario that gets the options' detail; -1: none.
std::vector<Result<RunResult>> play_in_time(const Scenario& base,
                                            const std::vector<Scenario>& scenarios, int files_of,
                                            const std::function<bool()>& is_late,
                                            const TuneOptions& options) {
  struct OutOfTime {};  // thrown to end the runs under way
  const int jobs = std::min(options.jobs, most_at_once(base));
  const OutputFiles files{.detail = options.detail};
  if (options.seconds == 0)
    return simulate_all(scenarios, options.engine, jobs, files, files_of, options.on_runs);
  std::vector<Result<RunResult>> results;
  try {
    while (results.size() < scenarios.size() && !is_late()) {
      const auto begin = static_cast<int>(results.size());
      const auto end = std::min(begin + jobs, static_cast<int>(scenarios.size()));
      const auto on_runs = [&](int done) {
        if (done < end - begin && is_late()) throw OutOfTime();
        if (options.on_runs) options.on_runs(begin + done);
      };
      for (auto& result : simulate_all({scenarios.begin() + begin, scenarios.begin() + end},
                                       options.engine, jobs, files, files_of - begin, on_runs))
        results.push_back(std::move(result));
    }
  } catch (const OutOfTime&) {  // results so far stay
  }
  results.resize(scenarios.size(),
                 Error{"not played: --seconds left no time for it", Error::Failed});
  return results;
}

std::optional<Found> fastest_of(const SearchResult& result) {
  return result.best.empty() ? std::nullopt : std::optional(result.best.front());
}

// Returns the fastest plan that keeps all rules.
std::optional<Found> best_by_rules(const Scenario& base, const Space& space,
                                   std::span<StageLevel> levels, SearchOptions options) {
  const Space narrow = space_of_rules(space, base);
  options.keep = 1;
  options.wants = [&](const Layout& layout) { return keeps_all(base, layout); };
  return fastest_of(Search(base, narrow, levels).best(options));
}

// Finds for each rule a counterexample: the best plan that breaks it if `best` keeps it, or that
// keeps it if `best` breaks it. `by_rules`: the best plan that keeps all rules.
std::vector<RuleCheck> compare_rules(const Scenario& base, Search& search, const Found& best,
                                     const std::optional<Found>& by_rules,
                                     const std::function<bool()>& search_is_late,
                                     const TuneOptions& options) {
  std::vector<RuleCheck> verdicts;
  for (const Rule& rule : rules()) {
    if (!rule.applies(base) || options.stop()) continue;
    const bool kept = rule.holds(base, best.candidate.layout);
    int branches = 0;
    const SearchResult others =
        search.best({.keep = 1,
                     .wants = [&](const Layout& l) { return rule.holds(base, l) != kept; },
                     .stop = [&] { return ++branches > kMostBranchesOfRule || options.stop(); },
                     .is_late = search_is_late});
    std::optional<Found> other = fastest_of(others);
    if (!kept && by_rules && (!other || by_rules->iteration_ns < other->iteration_ns))
      other = by_rules;
    RuleCheck check{std::string(rule.name), std::string(rule.source), best, other, others.complete};
    if (!kept) std::swap(check.keeps, check.breaks);
    verdicts.push_back(std::move(check));
  }
  return verdicts;
}

// Plays the best plan a second time for its timeline, in a process of its own.
void add_timeline(const Scenario& base, const TuneOptions& options, Finalist* best) {
  if (!best->result.ok()) return;
  const Result<RunResult> again = simulate_all({refined(base, best->candidate, best->refinement)},
                                               options.engine, 1, {.detail = Detail::Timeline})
                                      .front();
  if (again.ok()) best->result->detail = again->detail;
}

bool is_best(const Finalist& finalist) {
  return finalist.label != "rules" && finalist.label != "own";
}

// Sorts the search's plans by time, those that fit first, and labels them by number.
void sort_best(std::vector<Finalist>* finalists) {
  const auto seconds = [](const Finalist& finalist) {
    const bool fits = finalist.result.ok() && finalist.result->training->fits;
    return fits ? finalist.result->iteration_s : 1e300;
  };
  const auto rest = std::stable_partition(finalists->begin(), finalists->end(), is_best);
  std::stable_sort(finalists->begin(), rest,
                   [&](const Finalist& a, const Finalist& b) { return seconds(a) < seconds(b); });
  int number = 0;
  for (auto finalist = finalists->begin(); finalist != rest; ++finalist)
    finalist->label = std::to_string(++number);
}

// Returns up to two variants of a plan: with scatter_gather switched, and without tensor overlap.
// Stage-level times are least exact for these two choices, so the search may have dropped a variant
// that is faster on the engine.
std::vector<Found> near_variants(const Scenario& base, const Space& space, const Found& found,
                                 StageLevel* level) {
  std::vector<Candidate> others;
  if (concerns(base, found.candidate, "parallel.scatter_gather")) {
    others.push_back(found.candidate);
    others.back().layout.scatter_gather = !found.candidate.layout.scatter_gather;
  }
  if (found.candidate.layout.tensor != TensorMethod::Off) {
    others.push_back(found.candidate);
    others.back().layout.tensor = TensorMethod::Off;
  }
  std::vector<Found> all;
  for (const Candidate& other : others) {
    if (!space.has(base, other)) continue;
    const Result<Order> order = level->order_of(other);
    if (!order.ok() || !level->fits(other, level->memory(other, *order))) continue;
    if (const Result<Nanoseconds> played = level->play(other, *order); played.ok())
      all.push_back({other, *played});
  }
  return all;
}

// Whether the first of two played plans is the better one.
bool is_better(const Finalist& first, const Finalist& second) {
  if (!first.result.ok() || !second.result.ok()) return first.result.ok();
  if (first.result->training->fits != second.result->training->fits)
    return first.result->training->fits;
  return first.result->iteration_s < second.result->iteration_s;
}

// Plays on the engine: the best plans, then the plan of the rules and the scenario's own. A best
// plan is replaced by one of its near variants if that is faster.
std::vector<Finalist> play_best(const Scenario& base, const Space& space,
                                const std::vector<Found>& best,
                                const std::optional<Found>& by_rules,
                                std::vector<StageLevel>* levels,
                                const std::function<bool()>& is_late, const TuneOptions& options) {
  std::vector<Finalist> played;
  std::vector<Scenario> scenarios;
  const auto add = [&](std::string label, const Found& found) {
    played.push_back({std::move(label), found.candidate, found.iteration_ns, Error{""}});
    scenarios.push_back(scenario_with(base, found.candidate));
  };
  for (const Found& found : best) {
    add("best", found);
    if (options.stop()) continue;
    for (const Found& variant : near_variants(base, space, found, &levels->front()))
      add("variant", variant);
  }
  if (by_rules) add("rules", *by_rules);
  const int own = options.own_refused.empty() ? static_cast<int>(scenarios.size()) : -1;
  if (options.own_refused.empty()) {
    played.push_back({"own", candidate_of(base), std::nullopt, Error{""}});
    scenarios.push_back(base);
  }
  levels->clear();  // frees memory for the runs
  std::vector<Result<RunResult>> results = play_in_time(base, scenarios, own, is_late, options);
  std::vector<Finalist> finalists;
  for (std::size_t i = 0; i < results.size(); ++i) {
    played[i].result = std::move(results[i]);
    if (played[i].label != "variant") {
      finalists.push_back(std::move(played[i]));
    } else if (is_better(played[i], finalists.back())) {
      played[i].label = finalists.back().label;
      finalists.back() = std::move(played[i]);
    }
  }
  sort_best(&finalists);
  return finalists;
}

// Whether the plan is one of the search's, with a pipeline.
bool is_best_pipeline(const Finalist& finalist) {
  return is_best(finalist) && finalist.candidate.layout.pp > 1;
}

// Sorts the search's plans, and drops all behind the first `keep`.
void keep_best(int keep, std::vector<Finalist>* finalists) {
  sort_best(finalists);
  int number = 0;
  std::erase_if(*finalists,
                [&](const Finalist& finalist) { return is_best(finalist) && ++number > keep; });
}

// Plays the best plans with pp > 1, at most options.refine, with each refinement, and adds the
// results to the finalists. If the space allows no plan without refinement, the refined plans
// replace the plain ones.
void refine(const Scenario& base, const std::vector<Refinement>& refinements,
            const std::function<bool()>& is_late, const TuneOptions& options, Tuned* tuned) {
  std::vector<Scenario> scenarios;
  for (const Finalist& finalist : tuned->finalists) {
    const bool is_refinable = is_best_pipeline(finalist) && finalist.result.ok() && !options.stop();
    if (!is_refinable || tuned->refined.size() >= static_cast<std::size_t>(options.refine))
      continue;
    tuned->refined.push_back({finalist.candidate, *finalist.result, {}});
    for (const Refinement& refinement : refinements) {
      if (refinement.any()) scenarios.push_back(refined(base, finalist.candidate, refinement));
    }
  }
  if (scenarios.empty()) return;
  std::vector<Result<RunResult>> results =
      play_in_time(base, scenarios, /*files_of=*/-1, is_late, options);
  std::vector<Finalist> finalists;
  std::size_t next = 0;
  for (Refined& plan : tuned->refined) {
    for (const Refinement& refinement : refinements) {
      if (!refinement.any()) continue;
      Result<RunResult>& result = results[next++];
      if (result.ok())
        finalists.push_back({"best", plan.candidate, std::nullopt, result, refinement});
      plan.with.push_back({refinement, std::move(result)});
    }
  }
  const bool may_be_plain = std::ranges::any_of(refinements, std::not_fn(&Refinement::any));
  if (!finalists.empty() && !may_be_plain) std::erase_if(tuned->finalists, is_best_pipeline);
  tuned->finalists.insert(tuned->finalists.begin(), finalists.begin(), finalists.end());
  keep_best(options.keep, &tuned->finalists);
}

// Returns the keys that the scenario sets and the search's plans do not have (Tuned::cleared).
std::vector<std::string> cleared_keys(const Scenario& base, const Space& space) {
  std::vector<std::string> cleared;
  for (const auto& [key, place] : base.places) {
    // A search leaves ZeRO's groups as they are, unless the user names sizes.
    const bool is_named_zero =
        (key == "parallel.hsdp_shard" || key == "parallel.zero_hpz") && !space.named(key).empty();
    if (is_cleared_by_search(key) || is_named_zero) cleared.push_back(key);
  }
  return cleared;
}

// Adds the keys of a refused own plan that the best plan, in its place, does not set.
void clear_refused(const Scenario& base, const Candidate& best, std::vector<std::string>* cleared) {
  const auto settings = plan_settings(best);
  for (const std::string& key : Space::own_keys()) {
    const bool is_known =
        std::ranges::find(*cleared, key) != cleared->end() ||
        std::ranges::any_of(settings, [&](const auto& s) { return s.first == key; });
    if (base.places.contains(key) && !is_known) cleared->push_back(key);
  }
}

// Returns Tuned::assumes. ZeRO 2 and 3 without cuts of the model count as DeepSpeed's
// (trainer_of()).
std::string assumed_trainer(const Scenario& base, const Space& space) {
  const auto may_be = [&](const char* key, const std::vector<std::string>& values) {
    const std::vector<std::string> named = space.named(key);
    return named.empty() || std::ranges::any_of(named, [&](const std::string& value) {
             return std::ranges::find(values, value) != values.end();
           });
  };
  const bool may_differ =
      may_be("train.zero", {"2", "3"}) && may_be("parallel.tp", {"1"}) &&
      may_be("parallel.pp", {"1"}) && may_be("train.precision", {"fp32", "fp16", "bf16"}) &&
      (!is_quantized(base.job.plan.precision) || !space.named("train.precision").empty());
  if (base.job.plan.trainer || base.cluster.gpus == 1 || !may_differ) return "";
  return "No framework is named: ZeRO 2 and 3 in 16 bits with tp 1 and pp 1 count DeepSpeed's "
         "memory, which is the most, and others Megatron-LM's; with --framework more may fit.";
}

// Checks that kernels have prices in each precision that the user names: the GPU must have a rate
// for it, and a cost table must have been measured in it. Also checks that the GPU has the recipes.
Status check_precisions(const Scenario& base, const Space& space) {
  for (const std::string& precision : space.named("train.precision")) {
    const CostModel prices = cost_model(base.costs, base.cluster.spec.device, precision);
    if (const Status priced = check_cost_model(prices); !priced.ok())
      return Error{"--among: train.precision: " + priced.error().message};
    if (base.costs.table && precision != base.job.plan.precision)
      return Error{
          fmt::format("--among: found train.precision = {}, expected {}, in which "
                      "costs.table was measured",
                      precision, base.job.plan.precision)};
  }
  const std::vector<std::string> recipes = space.named("train.fp8_recipe");
  Plan plan = base.job.plan;
  plan.precision = "fp8";
  plan.fp8_recipe = Fp8Recipe::Mxfp8;
  if (std::ranges::find(recipes, "mxfp8") != recipes.end() && lacks_recipe(base, plan))
    return Error{fmt::format(
        "--among: found train.fp8_recipe = mxfp8, which tensor cores of {} do not have, expected "
        "delayed, current, blockwise or rowwise",
        base.cluster.spec.device.name)};
  return Done{};
}

Status check_asked(const Scenario& base, const std::vector<Refinement>& refinements) {
  if (base.job.plan.vocabulary > 0)
    return base.placed(Error::of({"schedule.vocabulary"},
                                 "found schedule.vocabulary = parallel, expected stage, and "
                                 "--among schedule.vocabulary=stage,parallel: it is looked for "
                                 "once plans are found"));
  if (refinements.empty())
    return Error{
        "--among: found no parallel.layout, schedule.vocabulary or schedule.order that is left, "
        "expected one that --framework and every --among allow"};
  if (base.costs.uniform)
    return Error::at(base.place_of({"costs.source"}),
                     "found costs.source = uniform, expected a model: its plans have no other "
                     "costs to tell them apart");
  return Done{};
}

// Returns the loss that the framework has set for plans, as part of a line; empty: none.
std::string loss_text(const TuneOptions& options) {
  for (const auto& [key, value] : options.trainer) {
    if (key == "train.cross_entropy" && options.framework != nullptr)
      return fmt::format(", with {} = {}, which --framework {} sets where the scenario does not",
                         key, value, options.framework->name);
  }
  return "";
}

// Returns the reason why a search has found no plan.
Error no_plan(const Scenario& base, const Space& space, const SearchResult& result,
              const TuneOptions& options) {
  if (!result.complete) return Error{"stopped before the first plan was played", Error::Failed};
  // If memory refused all cuts, their plans have not been looked at: there may be none.
  const std::string why = result.counts.enumerated == 0 ? space.why_empty(base) : "";
  if (result.counts.found_none() || !why.empty()) {
    return Error::at(
        base.path,
        fmt::format("found no plan for {} GPUs and a batch of {}{}{}, expected sizes that divide "
                    "both and options that leave some plans",
                    base.cluster.gpus, base.job.plan.global_batch, why.empty() ? "" : ": ", why));
  }
  if (result.counts.unplayable > 0)
    return Error::at(base.path, fmt::format("found {} plans and none that can be played, expected "
                                            "fewer microbatches or more ops than limits.ops = {:g}",
                                            result.counts.enumerated, base.limits.ops));
  return Error::at(
      base.path,
      fmt::format(
          "found no plan that fits into the GPU's {:.1f} GiB of memory, beside CUDA's context "
          "and NCCL's buffers{}, expected more GPUs or a smaller model",
          base.cluster.spec.device.memory_bytes / GiB, loss_text(options)));
}

// Makes a StageLevel for each thread. The search ignores failed links, as it ignores slow ones; the
// runs on the engine have them.
Result<std::vector<StageLevel>> stage_levels(const Scenario& base, int threads) {
  std::vector<StageLevel> levels;
  for (int i = 0; i < threads; ++i) {
    ASSIGN_OR_RETURN(Cluster cluster, make_cluster(with_all_links(base)));
    levels.push_back(i == 0 ? StageLevel(base, std::move(cluster))
                            : levels.front().beside(std::move(cluster)));
  }
  return levels;
}

// The plans that a search has found.
struct Searched {
  SearchResult result;
  std::optional<Found> by_rules;    // the best plan that keeps all rules
  std::vector<Found> best;          // of the result, else the plan by rules
  std::vector<RuleCheck> verdicts;  // if the whole space was searched
  Clock::time_point end;            // of the search, before the verdicts
};

// Searches plans of the rules and likely plans first, so that good plans are found even if the
// search is stopped.
Searched search_plans(const Scenario& base, const Space& space, std::span<StageLevel> levels,
                      const std::function<bool()>& is_late, const TuneOptions& options) {
  Waiting waiting("searching plans");
  std::string shown_gap;
  const auto show_gap = [&](const Found& fastest, Nanoseconds bound_ns) {
    std::string gap = fmt::format("{:.1f}", 100 * above(fastest.iteration_ns, bound_ns));
    if (gap == shown_gap) return;
    shown_gap = std::move(gap);
    waiting.now(fmt::format("searching plans: {:.4g} s, about {} % above the best possible at most",
                            to_seconds(fastest.iteration_ns), shown_gap));
  };
  const auto options_of = [&](bool of_rules) -> SearchOptions {
    return {.keep = options.keep,
            .stop = options.stop,
            .is_late = is_late,
            .on_better = [&, of_rules](const Found& found) { options.on_better(found, of_rules); }};
  };
  Searched all;
  all.by_rules = best_by_rules(base, space, levels, options_of(/*of_rules=*/true));
  const Space likely = space_of_likely_plans(space, base);
  SearchOptions search_options = options_of(/*of_rules=*/false);
  search_options.known = Search(base, likely, levels).best(search_options).best;
  search_options.on_bound = show_gap;
  Search full_search(base, space, levels);
  all.result = full_search.best(search_options);
  all.end = Clock::now();
  all.best = all.result.best;
  if (all.best.empty() && all.by_rules) all.best.push_back(*all.by_rules);
  if (all.result.complete && !all.best.empty())
    all.verdicts =
        compare_rules(base, full_search, all.best.front(), all.by_rules, is_late, options);
  return all;
}

}  // namespace

std::optional<double> Tuned::gap() const {
  return bound_ns > 0 ? std::optional(above(best_ns, bound_ns)) : std::nullopt;
}

Result<Tuned> tune(const Scenario& base, const Space& space, const TuneOptions& asked) {
  const auto begin = Clock::now();
  TuneOptions options = asked;
  const auto search_is_late = [begin, seconds = asked.seconds] { return is_past(begin, seconds); };
  const auto is_late = [begin, seconds = asked.seconds] { return is_past(begin, 2 * seconds); };
  options.stop = [&] { return asked.stop() || search_is_late(); };
  const std::vector<Refinement> refinements = refinements_in(space);
  RETURN_IF_ERROR(check_asked(base, refinements));
  RETURN_IF_ERROR(check_precisions(base, space));
  // More threads than cores would only take memory.
  const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  ASSIGN_OR_RETURN(std::vector<StageLevel> levels,
                   stage_levels(base, std::min({options.jobs, cores, most_at_once(base)})));
  const Searched found = search_plans(base, space, levels, search_is_late, options);
  if (found.best.empty()) return no_plan(base, space, found.result, options);
  Tuned tuned{.scenario = base.name,
              .counts = found.result.counts,
              .complete = found.result.complete,
              .search_s = std::chrono::duration<double>(found.end - begin).count(),
              .best_ns = found.best.front().iteration_ns,
              .verdicts = found.verdicts,
              .cleared = cleared_keys(base, space),
              .trainer = options.trainer,
              .assumes = assumed_trainer(base, space),
              .own_refused = options.own_refused};
  tuned.bound_ns = std::min(found.result.bound_ns, tuned.best_ns);
  if (options.framework != nullptr) {
    tuned.framework = options.framework->name;
    if (options.own_refused.empty()) {
      tuned.own_breaks = broken_rule(*options.framework, base, candidate_of(base),
                                     !base.job.plan.layers_per_stage.empty());
      const bool has_name = !traits_of(base.job.order).name.empty() || base.job.plan.pp == 1;
      tuned.own_is_known = has_name && tuned.cleared.empty();
    }
  }
  tuned.finalists = play_best(base, space, found.best, found.by_rules, &levels, is_late, options);
  const Result<RunResult>& winner = tuned.finalists.front().result;
  if (!winner.ok() && !is_late()) return winner.error();
  if (!options.own_refused.empty())
    clear_refused(base, tuned.finalists.front().candidate, &tuned.cleared);
  if (std::ranges::any_of(refinements, &Refinement::any))
    refine(base, refinements, is_late, options, &tuned);
  if (options.detail == Detail::Timeline && !is_late())
    add_timeline(base, options, &tuned.finalists.front());
  return tuned;
}

}  // namespace tandem
