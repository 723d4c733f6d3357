// Compares padding with packing. In: a scenario and a file of sequence lengths. Some iterations of
// the file are played in three ways: all sequences padded to model.seq, each microbatch padded to
// its longest sequence, and sequences packed into bins. The cost of a microbatch of any size is
// interpolated in its tokens and in the squares of its sequences' lengths, as attention's work
// grows with the squares. The fit uses three kinds of prices: one sequence of full
// length; two of half the length, with as many tokens and half the squares; shorter ones.
#include "planning/pack/pack.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "base/json_text.h"
#include "base/parallel/parallel.h"
#include "base/parallel/progress.h"
#include "job/order_job.h"
#include "job/price_job.h"
#include "job/site.h"
#include "planning/choose/resolve.h"
#include "planning/pack/packing.h"
#include "planning/play/play_job.h"
#include "schedule/lowering/microbatch_sizes.h"

namespace tandem {
namespace {

using ReplicaSizes = std::vector<MicrobatchSize>;

// Returns the scenario with these sizes. `micro_batch`: sequences of a microbatch.
Scenario with_sizes(Scenario scenario, int seq, int micro_batch, int microbatches) {
  scenario.job.model.set_seq(seq);
  scenario.job.plan.micro_batch = micro_batch;
  scenario.job.plan.global_batch = micro_batch * scenario.job.plan.dp * microbatches;
  scenario.job.order.microbatches = microbatches;
  return scenario;
}

// Returns the scenario with sequences of 1 / `divisor` of the length, and `times` as many of them
// in a microbatch. With 2 and 2, a microbatch has the same tokens in halves.
Scenario with_parts(const Scenario& whole, int divisor, int times) {
  return with_sizes(whole, whole.job.model.seq / divisor, times * whole.job.plan.micro_batch,
                    whole.job.plan.microbatches());
}

// Returns scenarios with sequences of half the length, a quarter, ... as far as the rules allow.
std::vector<Scenario> shorter(const Scenario& whole) {
  constexpr int kMostParts = 128;
  std::vector<Scenario> all;
  for (int parts = 2; parts <= kMostParts && whole.job.model.seq % parts == 0; parts *= 2) {
    all.push_back(with_parts(whole, parts, 1));
    if (!check_model(all.back().job.model, all.back().job.plan).ok()) {
      all.pop_back();
      break;
    }
  }
  return all;
}

// Fits f, a function of a scenario, to sizes of a microbatch: by its values for the scenario, for
// the same tokens in halves, and for shorter sequences.
template <class F>
auto fit_of(const Scenario& whole, const F& f) {
  std::vector<decltype(f(whole))> of_shorter;
  for (const Scenario& scenario : shorter(whole)) of_shorter.push_back(f(scenario));
  return fit(f(whole), f(with_parts(whole, 2, 2)), of_shorter);
}

// Checks that the scenario's microbatches can be priced whole and in halves. `place`: where the
// user sets their length, for Errors.
Status check_halves(const Scenario& whole, const std::string& place) {
  const int seq = whole.job.model.seq;
  if (whole.job.plan.vocabulary > 0)
    return Error::at(place,
                     "found schedule.vocabulary = parallel, expected stage: passes of the "
                     "vocabulary are of one size");
  if (const Status status = check_model(whole.job.model, whole.job.plan); !status.ok())
    return Error::at(place, status.error().text());
  if (seq % 2 != 0)
    return Error::at(place, fmt::format("found {}, expected an even number of tokens: other sizes "
                                        "are priced by half of it",
                                        seq));
  const Scenario halves = with_parts(whole, 2, 2);
  if (const Status status = check_model(halves.job.model, halves.job.plan); !status.ok())
    return Error::at(place, fmt::format("of half of {} tokens, which other sizes are priced by: {}",
                                        seq, status.error().text()));
  return Done{};
}

// Returns the cost of a microbatch by its size: the sum of its times on all stages, compute and
// communication, if nothing overlaps.
SizeCost microbatch_cost(const Scenario& whole, const Site& site) {
  const auto seconds = [&](const Scenario& scenario) {
    double sum = 0;
    const OrderedPlan plan = ordered_plan(scenario.job);
    const Workload chain = price_workload(scenario.job.model, plan, scenario.costs, site);
    for (const OrderCosts& stage :
         stage_costs(chain, scenario.job.model, plan, scenario.costs, site))
      sum += stage.forward + stage.input + stage.weight;
    return sum;
  };
  return fit_of(whole, seconds);
}

// Plays the scenario with microbatches of these sizes. No sizes: all microbatches are whole.
Result<RunResult> play_sizes(const Scenario& scenario, const ReplicaSizes& sizes, Engine engine) {
  ASSIGN_OR_RETURN(const Scenario with_layout, resolved(scenario));
  const auto resize = [&](CompiledJob* job) {
    const auto workload = [&](const Scenario& part) {
      return price_workload(part.job, job->order, part.costs, job->site);
    };
    resize_microbatches(&job->program, fit_of(with_layout, workload), job->order.chains, sizes);
  };
  ASSIGN_OR_RETURN(const CompiledJob job,
                   sizes.empty() ? compile(with_layout) : compile(with_layout, resize));
  ASSIGN_OR_RETURN(const Trace trace, play_compiled(scenario, job, engine));
  RunResult result = result_of(scenario, job, trace);
  result.engine = engine_name(engine);
  return result;
}

// Returns the sizes of the replica whose microbatches cost most. Only this replica is played, as
// the others wait for it to reduce gradients.
const ReplicaSizes& costliest_replica(const std::vector<ReplicaSizes>& replicas,
                                      const SizeCost& cost) {
  return *std::ranges::max_element(replicas, {}, [&](const ReplicaSizes& sizes) {
    return std::accumulate(
        sizes.begin(), sizes.end(), 0.0,
        [&](double sum, const MicrobatchSize& size) { return sum + cost.of(size); });
  });
}

// One iteration in one way, ready to play.
struct PlayableIteration {
  int way = 0;  // index in PackStudy::ways: 0 fixed, 1 longest, 2 packed
  Scenario scenario;
  ReplicaSizes sizes;    // empty: all microbatches are whole
  double processed = 0;  // tokens, with padding
  int weight = 1;        // number of iterations that it stands for
};

// Deals the batch out as Megatron-LM does: the replicas take a microbatch in turn. Each microbatch
// is padded to its longest sequence.
PlayableIteration padded_to_longest(const Scenario& scenario, const Bin& batch,
                                    const SizeCost& cost) {
  const Plan& plan = scenario.job.plan;
  std::vector<ReplicaSizes> replicas(plan.dp);
  PlayableIteration playable{/*way=*/1, scenario, {}, 0};
  for (std::size_t first = 0; first < batch.size(); first += plan.micro_batch) {
    const auto begin = batch.begin() + static_cast<std::ptrdiff_t>(first);
    const int longest = *std::max_element(begin, begin + plan.micro_batch);
    const double share = static_cast<double>(longest) / scenario.job.model.seq;
    replicas[first / plan.micro_batch % plan.dp].push_back({share, share * share});
    playable.processed += static_cast<double>(longest) * plan.micro_batch;
  }
  playable.sizes = costliest_replica(replicas, cost);
  return playable;
}

// Returns the fewest microbatches of a replica that the order can run and that hold `least` bins
// over all replicas. With several stages on a rank it is a multiple of pp, as Megatron-LM requires.
Result<int> microbatches_for(const Scenario& scenario, int least, int sequences) {
  const int dp = scenario.job.plan.dp;
  const int step = scenario.job.order.vpp > 1 ? scenario.job.plan.pp : 1;
  const int first = (least + dp * step - 1) / (dp * step) * step;
  OrderSpec spec = scenario.job.order;
  for (spec.microbatches = first; spec.microbatches * dp <= sequences; spec.microbatches += step) {
    if (check_order(spec).ok()) return spec.microbatches;
  }
  return Error::at(
      scenario.place_of({"parallel.global_batch"}),
      fmt::format("found an iteration of {} sequences that fits into {} bins, expected one that "
                  "fills microbatches that schedule.order = {} can run",
                  sequences, least, scenario.job.order.name));
}

// Packs the batch into bins of at most `limit` tokens, one bin to a microbatch. Adds the fewest
// bins and the bins used to the study's.
Result<PlayableIteration> packed(const Scenario& scenario, const Bin& batch, int limit,
                                 const SizeCost& cost, PackStudy* study) {
  const int least = static_cast<int>(first_fit_decreasing(batch, limit).size());
  ASSIGN_OR_RETURN(const int microbatches,
                   microbatches_for(scenario, least, static_cast<int>(batch.size())));
  const int dp = scenario.job.plan.dp;
  std::vector<ReplicaSizes> replicas;
  for (const std::vector<Bin>& bins :
       deal_to_replicas(pack_into(batch, microbatches * dp, limit, cost), dp, limit, cost)) {
    ReplicaSizes& sizes = replicas.emplace_back();
    for (const Bin& bin : bins) sizes.push_back(size_of(bin, limit));
  }
  study->least_bins += least;
  study->bins += microbatches * dp;
  return PlayableIteration{/*way=*/2, with_sizes(scenario, limit, 1, microbatches),
                           costliest_replica(replicas, cost),
                           static_cast<double>(tokens_of(batch))};
}

// Returns each iteration in all three ways. Padded to model.seq, all iterations are the same, so
// that one stands for all.
Result<std::vector<PlayableIteration>> iterations_to_play(const Scenario& scenario,
                                                          const Site& site,
                                                          const std::vector<Bin>& batches,
                                                          PackStudy* study) {
  const Plan& plan = scenario.job.plan;
  const Scenario whole = with_sizes(scenario, study->limit, 1, plan.global_batch / plan.dp);
  RETURN_IF_ERROR(check_halves(scenario, scenario.place_of({"model.seq"})));
  RETURN_IF_ERROR(check_halves(whole, "--tokens"));
  const SizeCost padded_cost = microbatch_cost(scenario, site);
  const SizeCost packed_cost = microbatch_cost(whole, site);
  std::vector<PlayableIteration> all;
  all.push_back({/*way=*/0,
                 scenario,
                 {},
                 static_cast<double>(plan.global_batch) * scenario.job.model.seq,
                 study->played});
  for (const Bin& batch : batches) {
    all.push_back(padded_to_longest(scenario, batch, padded_cost));
    ASSIGN_OR_RETURN(PlayableIteration bins,
                     packed(whole, batch, study->limit, packed_cost, study));
    all.push_back(std::move(bins));
    study->tokens += static_cast<double>(tokens_of(batch)) / study->played;
  }
  study->least_bins /= study->played;
  study->bins /= study->played;
  return all;
}

// Adds a result to the means of its way. `share`: the share of the played iterations for which it
// stands.
void add(const PlayableIteration& playable, const RunResult& result, double share, PackWay* way) {
  const Scenario& scenario = playable.scenario;
  const Plan& plan = scenario.job.plan;
  const Training& training = *result.training;
  const bool is_first = way->iteration_s == 0;
  way->fits = training.fits && (is_first || way->fits);
  way->seq = scenario.job.model.seq;
  way->micro_batch = plan.micro_batch;
  way->microbatches += share * plan.microbatches();
  way->processed += share * playable.processed;
  way->room += share * plan.global_batch * scenario.job.model.seq;
  way->iteration_s += share * result.iteration_s;
  way->memory_bytes = std::max(way->memory_bytes, training.memory.total);
  way->reserve_bytes = training.memory.outside;
  way->capacity_bytes = training.memory.capacity;
}

Status play_all(const std::vector<PlayableIteration>& all, const PackOptions& options,
                PackStudy* study) {
  Progress progress("runs", static_cast<std::int64_t>(all.size()));
  open_ahead(options.engine);
  const std::vector<Result<std::string>> texts = fork_map(
      static_cast<int>(all.size()), options.jobs,
      [&](int i) -> Result<std::string> {
        ASSIGN_OR_RETURN(const RunResult result,
                         play_sizes(all[i].scenario, all[i].sizes, options.engine));
        return json_line(to_json(result));
      },
      [&](int) { progress.advance(); });
  study->ways = {{.name = "fixed"}, {.name = "longest"}, {.name = "packed"}};
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!texts[i].ok()) return texts[i].error();
    const RunResult result = run_result_from_json(nlohmann::ordered_json::parse(*texts[i]));
    add(all[i], result, static_cast<double>(all[i].weight) / study->played,
        &study->ways[all[i].way]);
  }
  return Done{};
}

// Returns the iterations to play, evenly spread over the file.
std::vector<Bin> batches_of(const std::vector<int>& lengths, const PackStudy& study) {
  std::vector<Bin> batches;
  for (int i = 0; i < study.played; ++i) {
    const std::int64_t iteration = std::int64_t{i} * study.iterations / study.played;
    const auto begin =
        lengths.begin() + static_cast<std::ptrdiff_t>(iteration * study.global_batch);
    batches.emplace_back(begin, begin + study.global_batch);
  }
  return batches;
}

}  // namespace

Result<PackStudy> pack(const Scenario& scenario, const std::string& lengths,
                       const PackOptions& options) {
  if (scenario.costs.uniform)
    return Error::at(
        scenario.place_of({"costs.source"}),
        "found costs.source = uniform, expected a model: seconds a microbatch know no tokens");
  if (scenario.job.order_is_open() || scenario.job.found_order)
    return Error::at(
        scenario.place_of({"schedule.order"}),
        "found schedule.order = auto, expected a named order: packing needs fewer microbatches");
  if (!scenario.job.order_file.empty())
    return Error::at(
        scenario.place_of({"schedule.order"}),
        "found an order from a file, expected one by name: packing needs fewer microbatches");
  const int seq = scenario.job.model.seq;
  ASSIGN_OR_RETURN(const std::vector<int> all,
                   read_lengths(lengths, std::min(seq, options.tokens),
                                seq <= options.tokens ? "model.seq" : "--tokens"));
  PackStudy study{.scenario = scenario.name,
                  .lengths = lengths,
                  .engine = engine_name(options.engine),
                  .limit = options.tokens,
                  .global_batch = scenario.job.plan.global_batch};
  study.sequences = static_cast<int>(all.size());
  study.iterations = study.sequences / study.global_batch;
  study.left_out = study.sequences % study.global_batch;
  study.played = std::min(options.batches, study.iterations);
  if (study.iterations == 0)
    return Error{fmt::format("{}: found {} sequences, expected an iteration of {}", lengths,
                             study.sequences, study.global_batch)};
  study.longest = std::ranges::max(all);
  study.mean_length = static_cast<double>(tokens_of(all)) / study.sequences;
  ASSIGN_OR_RETURN(const Site site, make_site(scenario));
  ASSIGN_OR_RETURN(const std::vector<PlayableIteration> playables,
                   iterations_to_play(scenario, site, batches_of(all, study), &study));
  RETURN_IF_ERROR(play_all(playables, options, &study));
  return study;
}

nlohmann::ordered_json to_json(const PackStudy& study) {
  nlohmann::ordered_json json = {{"scenario", study.scenario},
                                 {"lengths", study.lengths},
                                 {"engine", study.engine},
                                 {"token_limit", study.limit},
                                 {"global_batch", study.global_batch},
                                 {"sequences", study.sequences},
                                 {"sequences_left_out", study.left_out},
                                 {"longest", study.longest},
                                 {"mean_length", study.mean_length},
                                 {"iterations", study.iterations},
                                 {"iterations_played", study.played},
                                 {"tokens", study.tokens},
                                 {"least_bins", study.least_bins},
                                 {"bins", study.bins}};
  for (const PackWay& way : study.ways)
    json["ways"].push_back({{"way", way.name},
                            {"seq", way.seq},
                            {"micro_batch", way.micro_batch},
                            {"microbatches", way.microbatches},
                            {"processed_tokens", way.processed},
                            {"padding_fraction", study.padding_fraction(way)},
                            {"fill_fraction", study.fill_fraction(way)},
                            {"iteration_s", way.iteration_s},
                            {"tokens_per_s", study.tokens_per_s(way)},
                            {"speedup", study.speedup(way)},
                            {"memory_bytes", way.memory_bytes},
                            {"reserve_bytes", way.reserve_bytes},
                            {"capacity_bytes", way.capacity_bytes},
                            {"fits", way.fits}});
  return json;
}

}  // namespace tandem
