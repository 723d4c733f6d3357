// Plays a job in one of three ways, which give the same figures:
//   all ops      on any engine
//   by replica   one data-parallel replica after another, on the ideal engine (sim/by_replica.h)
//   steady       two short jobs, one round apart, on the ideal engine. A full pipeline repeats the
//                same actions every few microbatches, a round; so the difference of the two jobs is
//                added once for each round that the whole job has more (sim/steady_state.h)
#include "planning/play/play_job.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/parallel/progress.h"
#include "job/memory_timeline.h"
#include "job/perturb.h"
#include "schedule/order/named_orders.h"
#include "sim/by_replica.h"
#include "sim/steady_state.h"

namespace tandem {
namespace {

// Counts the ops that an engine will play. Folded, one rank stands for all with the same body.
std::int64_t ops_to_play(const Program& program, const SimOptions& options) {
  std::int64_t ops = 0;
  if (options.folded()) {
    for (const Body& body : program.bodies) ops += static_cast<std::int64_t>(body.ops.size());
  } else {
    for (const RankRow& rank : program.ranks)
      ops += static_cast<std::int64_t>(program.bodies[rank.body].ops.size());
  }
  return ops;
}

// The shortcut (steady) pays only for jobs with at least so many passes, and with at least so many
// times the microbatches of the short job.
constexpr std::int64_t kLeastPasses = 2000;
constexpr int kLeastShortening = 3;
// An order that is made for the stages' costs has no known rounds, so they must be searched for.
// With fewer than kLeastForRoundSearch * (pp + 8) microbatches the search takes longer than making
// the whole order.
constexpr int kLeastForRoundSearch = 24;

// Whether the job has too few microbatches for the shortcut to pay.
bool is_too_small(const JobSettings& job, const OrderTraits& order) {
  const std::int64_t microbatches = job.order.microbatches;
  if (2 * microbatches * job.plan.pp * job.plan.vpp < kLeastPasses) return true;
  return order.made_for_costs() && microbatches < kLeastForRoundSearch * (job.plan.pp + 8);
}

// Returns the number of microbatches of a short job: those that fill the pipeline, `rounds` rounds,
// and the remainder, so that only whole rounds are missing to `all` microbatches. For example all =
// 102, a fill of 8, a round of 4 and 5 rounds: 8 + 5 x 4 + 2 = 30, and 18 more rounds of 4 make
// 102. Returns 0 if that is not short.
int fewer_microbatches(int all, const OrderRounds& of_order, int rounds) {
  const auto [round, fill] = of_order;
  if (round == 0) return 0;
  const std::int64_t least = std::int64_t{fill} + std::int64_t{rounds} * round;
  if (kLeastShortening * least > all) return 0;
  return static_cast<int>(least + (all - least) % round);
}

Result<CompiledJob> with_microbatches(Scenario scenario, int microbatches) {
  scenario.job.order.microbatches = microbatches;
  return compile(scenario);
}

// Two short jobs, one round apart: `longer`, and rounds.shorter.
struct ShortJobs {
  CompiledJob longer;
  SteadyRounds rounds;
};

// The numbers of rounds of the longer short job, after its pipeline is full. They are tried one
// after another until times repeat from round to round; that test needs at least three rounds.
constexpr std::array kSteadyRounds = {5, 15, 45};

// Whether every rank's memory peaks at the same action in both jobs, so that further rounds do not
// raise it.
bool same_peaks(const Scenario& scenario, const ShortJobs& jobs) {
  if (scenario.costs.uniform) return true;  // memory is not asked for
  const auto peaks = [&](const CompiledJob& job) {
    std::vector<std::optional<Action>> actions;
    for (const MemoryTimeline& rank :
         memory_timelines(scenario.job.model, job.plan, job.order,
                          scenario.cluster.spec.device.gemm_workspace_bytes))
      actions.push_back(rank.peak().action);
    return actions;
  };
  return peaks(jobs.rounds.shorter) == peaks(jobs.longer);
}

// The figures of the job with all its rounds, and the trace of the longer short job.
struct SteadyPlay {
  PlayedProgram job;
  Trace trace;
};

// Returns the figures of all ops of the program on the ideal engine.
std::optional<PlayedProgram> played_program(const Program& program) {
  const auto trace = ideal(program);
  if (!trace.ok()) return std::nullopt;
  return measured(program, *trace);
}

// Plays both short jobs and adds the further rounds. Nothing: rounds do not repeat.
std::optional<SteadyPlay> play_steady_rounds(const CompiledJob& job, const SteadyRounds& rounds) {
  const auto shorter = played_program(rounds.shorter.program);
  if (!shorter) return std::nullopt;
  auto trace = ideal(job.program);
  if (!trace.ok()) return std::nullopt;
  const PlayedProgram longer = measured(job.program, *trace);
  if (!is_steady(*shorter, longer, *trace, rounds.round_microbatches / job.order.chains))
    return std::nullopt;
  return SteadyPlay{with_rounds(*shorter, longer, rounds.further_rounds), *std::move(trace)};
}

// Returns the round that the job's order repeats. It has 0 microbatches if no round is known, or if
// the job is too small for the shortcut.
OrderRounds rounds_of(const Scenario& scenario) {
  constexpr OrderRounds kUnknown{0, 0};
  const JobSettings& job = scenario.job;
  const OrderTraits& traits = traits_of(job.order);
  const bool is_named = !job.found_order && job.order_file.empty() && job.plan.vocabulary == 0;
  const bool folds = scenario.fold && scenario.variability.jitter <= 0;
  if (traits.rounds == nullptr || !is_named || !folds || is_too_small(job, traits)) return kUnknown;
  const Result<OrderSpec> spec = traits.made_for_costs() ? named_order(scenario) : job.order;
  if (!spec.ok() || !check_order(*spec).ok()) return kUnknown;
  return traits.rounds(*spec);
}

// Returns two jobs with fewer microbatches, one round apart. Returns nothing if the scenario's job
// is too small, does not fold, or has communication that takes SMs from compute.
std::optional<ShortJobs> short_jobs(const Scenario& scenario, const OrderRounds& of_order,
                                    int rounds) {
  const int fewer = fewer_microbatches(scenario.job.order.microbatches, of_order, rounds);
  if (fewer == 0) return std::nullopt;
  const int round = of_order.microbatches;
  auto longer = with_microbatches(scenario, fewer);
  auto shorter = with_microbatches(scenario, fewer - round);
  if (!longer.ok() || !shorter.ok() || !longer->folds || takes_sms(longer->program))
    return std::nullopt;
  return ShortJobs{*std::move(longer),
                   {*std::move(shorter), round, (scenario.job.order.microbatches - fewer) / round}};
}

// Returns the changes of bandwidth by a slow link, in order of time: first the links become slow,
// then they recover. Error: the cluster has no such link.
Result<std::vector<LinkChange>> link_changes(const SlowLink& slow, const Cluster& cluster) {
  ASSIGN_OR_RETURN(const std::vector<LinkId> links, links_of(slow, cluster));
  std::vector<LinkChange> begin, end;
  for (const LinkId id : links) {
    const double bytes_per_s = cluster.link(id).bytes_per_s;
    constexpr double kFailed = 1;  // byte a second: transfers on a failed link all but stop
    begin.push_back({to_ns(slow.from_s), index(id), std::max(kFailed, bytes_per_s * slow.rate)});
    if (slow.to_s) end.push_back({to_ns(*slow.to_s), index(id), bytes_per_s});
  }
  begin.insert(begin.end(), end.begin(), end.end());
  return begin;
}

}  // namespace

Result<Trace> play_compiled(const Scenario& scenario, const CompiledJob& job, Engine engine) {
  ASSIGN_OR_RETURN(const SimOptions options, options_of(scenario, job, engine));
  return play(engine, job.program, job.site.cluster, job.site.placement, options);
}

Result<PlayedJob> play_once(const Scenario& scenario, Engine engine) {
  ASSIGN_OR_RETURN(CompiledJob job, compile(scenario));
  ASSIGN_OR_RETURN(Trace trace, play_compiled(scenario, job, engine));
  return PlayedJob{std::move(job), std::move(trace)};
}

Result<MeasuredJob> play_ideal(const Scenario& scenario) {
  if (auto played = play_steady(scenario)) return *std::move(played);
  ASSIGN_OR_RETURN(CompiledJob job, compile(scenario));
  ASSIGN_OR_RETURN(Trace trace, ideal(job.program));
  Metrics metrics = measure(job.program, trace);
  return MeasuredJob{
      .job = std::move(job), .trace = std::move(trace), .metrics = std::move(metrics)};
}

Result<SimOptions> sim_options(const VariabilitySettings& variability, const Cluster& cluster,
                               bool folds, Engine engine) {
  SimOptions options{variability.jitter, variability.seed, folds};
  const SlowLink& slow = variability.slow_link;
  if (slow.name.empty() || slow.fails_for_good()) return options;
  if (engine == Engine::Ideal)
    return Error::of({"variability.slow_link"},
                     "found variability.slow_link with the ideal engine, expected "
                     "simgrid: ideal knows no time on links");
  ASSIGN_OR_RETURN(options.link_changes, link_changes(slow, cluster));
  return options;
}

Result<SimOptions> options_of(const Scenario& scenario, const CompiledJob& job, Engine engine) {
  auto options =
      sim_options(scenario.variability, job.site.cluster, scenario.fold && job.folds, engine);
  if (!options.ok()) return scenario.placed(options.error());
  return options;
}

Result<MeasuredJob> play_job(const Scenario& scenario, CompiledJob job, Engine engine, bool events,
                             int threads, bool progress) {
  ASSIGN_OR_RETURN(SimOptions options, options_of(scenario, job, engine));
  Progress bar("ops", ops_to_play(job.program, options));
  SimOptions playing = options;
  if (progress) playing.on_progress = [&bar](std::int64_t ops) { bar.advance(ops); };
  const Stopwatch stopwatch;
  if (engine == Engine::Ideal && !events) {
    if (auto played = play_by_replica(job.program, playing, /*measured=*/true, threads))
      return MeasuredJob{
          std::move(job), std::move(options), std::move(played->trace), std::move(played->metrics),
          played->ops,    stopwatch.seconds()};
  }
  ASSIGN_OR_RETURN(Trace trace,
                   play(engine, job.program, job.site.cluster, job.site.placement, playing));
  Metrics metrics = measure(job.program, trace);
  const auto ops = static_cast<std::int64_t>(trace.events.size());
  return MeasuredJob{
      std::move(job),     std::move(options), std::move(trace), std::move(metrics), ops,
      stopwatch.seconds()};
}

std::optional<MeasuredJob> play_steady(const Scenario& scenario) {
  const OrderRounds of_order = rounds_of(scenario);
  for (const int rounds : kSteadyRounds) {
    auto jobs = short_jobs(scenario, of_order, rounds);
    if (!jobs) break;
    auto options = options_of(scenario, jobs->longer, Engine::Ideal);
    if (!options.ok() || !same_peaks(scenario, *jobs)) break;
    const Stopwatch stopwatch;
    auto played = play_steady_rounds(jobs->longer, jobs->rounds);
    if (!played) continue;
    auto& [job, trace] = *played;
    return MeasuredJob{std::move(jobs->longer),
                       *std::move(options),
                       std::move(trace),
                       std::move(job.metrics),
                       job.ops,
                       stopwatch.seconds(),
                       std::move(jobs->rounds)};
  }
  return std::nullopt;
}

std::optional<Metrics> steady_metrics(const CompiledJob& longer, const SteadyRounds& rounds) {
  auto played = play_steady_rounds(longer, rounds);
  if (!played) return std::nullopt;
  return std::move(played->job.metrics);
}

}  // namespace tandem
