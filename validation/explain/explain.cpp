// In: the base durations of a simulation, and a measured run (profiled_run.h). Out: causes, each a
// change of durations whose seconds a replay gives.
#include "validation/explain/explain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/quantile.h"
#include "validation/explain/profiled_run.h"

namespace tandem {
namespace {

// Measured over simulated, and of how many ops.
struct Factor {
  double value = 1;
  std::int64_t ops = 0;
};

// A cause before it is played: how it changes durations.
struct Change {
  std::string what, evidence, advice;
  std::function<void(OpDurations*)> apply;
};

constexpr std::size_t kMostOps = 50'000'000;  // of all ranks: some 4 GB
constexpr double kLeastFactor = 0.002;        // nearer to 1 is as simulated

std::string times_text(double factor) {
  return factor >= 1 ? fmt::format("take {:.3g} times as long", factor)
                     : fmt::format("take {:.3g} of the time", factor);
}

void multiply(double factor, Nanoseconds* ns) {
  *ns = std::llround(static_cast<double>(*ns) * factor);
}

class Explaining {
 public:
  Explaining(const Program& program, const OpDurations& base, const ProfiledRun& run)
      : program_(program), base_(base), run_(run) {
    find_kinds();
    find_stages();
    find_ranks();
  }

  std::vector<ExplainedRank> ranks() const {
    std::map<int, std::pair<double, double>> compute_ns;  // by rank: measured, simulated
    for_compute([&](int rank, std::uint32_t i, const Op&, double ratio) {
      const auto base = static_cast<double>(base_.compute[rank][i]);
      compute_ns[rank].first += base * ratio;
      compute_ns[rank].second += base;
    });
    std::vector<ExplainedRank> ranks;
    for (const RankOfRun& rank : run_.ranks) {
      const auto& [measured, simulated] = compute_ns[rank.rank];
      Nanoseconds delays = 0;
      for (const Delay& delay : rank.delays) delays += delay.ns;
      ranks.push_back({rank.rank, simulated > 0 ? measured / simulated : 1, to_seconds(delays)});
    }
    return ranks;
  }

  std::vector<Change> changes() {
    std::vector<Change> changes;
    add_kinds(&changes);
    add_stages(&changes);
    add_ranks(&changes);
    add_ops(&changes);
    add_collectives(&changes);
    add_delays(&changes);
    add_between(&changes);
    return changes;
  }

 private:
  using Ratios = std::map<int, std::vector<double>>;
  // By key, then rank. A factor is the median of its ranks' medians, of two the lower: what all
  // ranks share, so that half of them being slow is not a slow kind.
  using RankRatios = std::map<int, Ratios>;

  // Calls each(rank, op's number, op, measured over simulated) for measured ops of compute.
  template <class Each>
  void for_compute(const Each& each) const {
    for (const RankOfRun& rank : run_.ranks) {
      const Body& body = program_.body_of(Rank{rank.rank});
      for (std::uint32_t i = 0; i < body.ops.size(); ++i) {
        const auto base = static_cast<double>(base_.compute[rank.rank][i]);
        if (!is_compute(body.ops[i].kind) || rank.busy_ns[i] < 0 || base <= 0) continue;
        each(rank.rank, i, body.ops[i], rank.busy_ns[i] / base);
      }
    }
  }

  static std::map<int, Factor> medians(Ratios ratios) {
    std::map<int, Factor> factors;
    for (auto& [key, values] : ratios) {
      const auto count = static_cast<std::int64_t>(values.size());
      factors[key] = {lower_median(std::move(values)), count};
    }
    return factors;
  }

  static std::map<int, Factor> shared_medians(const RankRatios& ratios) {
    std::map<int, Factor> factors;
    for (const auto& [key, by_rank] : ratios) {
      std::vector<double> of_ranks;
      for (const auto& [rank, factor] : medians(by_rank)) {
        of_ranks.push_back(factor.value);
        factors[key].ops += factor.ops;
      }
      factors[key].value = lower_median(std::move(of_ranks));
    }
    return factors;
  }

  static double value(const std::map<int, Factor>& factors, int key) {
    const auto at = factors.find(key);
    return at == factors.end() ? 1 : at->second.value;
  }

  void find_kinds() {
    RankRatios ratios;
    for_compute([&](int rank, std::uint32_t, const Op& op, double ratio) {
      ratios[static_cast<int>(op.kind)][rank].push_back(ratio);
    });
    kinds_ = shared_medians(ratios);
  }

  // A stage that one rank has alone cannot be told from its rank.
  void find_stages() {
    std::map<int, int> ranks_of_stage;
    for (const RankRow& row : program_.ranks) {
      std::map<int, bool> own;
      for (const Op& op : program_.bodies[row.body].ops) own[op.stage] |= is_compute(op.kind);
      for (const auto& [stage, computes] : own) ranks_of_stage[stage] += computes ? 1 : 0;
    }
    RankRatios ratios;
    for_compute([&](int rank, std::uint32_t, const Op& op, double ratio) {
      if (op.stage >= 0 && ranks_of_stage[op.stage] > 1)
        ratios[op.stage][rank].push_back(ratio / value(kinds_, static_cast<int>(op.kind)));
    });
    if (ratios.size() > 1) stages_ = shared_medians(ratios);
  }

  void find_ranks() {
    Ratios ratios;
    for_compute([&](int rank, std::uint32_t, const Op& op, double ratio) {
      ratios[rank].push_back(ratio / value(kinds_, static_cast<int>(op.kind)) /
                             value(stages_, op.stage));
    });
    if (ratios.size() > 1) ranks_ = medians(std::move(ratios));
  }

  template <class Of>
  std::function<void(OpDurations*)> compute_times(double factor, const Of& of) const {
    return [this, factor, of](OpDurations* durations) {
      for (int rank = 0; rank < static_cast<int>(program_.ranks.size()); ++rank) {
        const Body& body = program_.body_of(Rank{rank});
        for (std::size_t i = 0; i < body.ops.size(); ++i) {
          if (is_compute(body.ops[i].kind) && of(rank, body.ops[i]))
            multiply(factor, &durations->compute[rank][i]);
        }
      }
    };
  }

  void add_kinds(std::vector<Change>* changes) const {
    for (const auto& [kind, factor] : kinds_) {
      if (std::abs(factor.value - 1) < kLeastFactor) continue;
      const auto of = static_cast<OpKind>(kind);
      changes->push_back(
          {fmt::format("{} kernels {}", op_kind_name(of), times_text(factor.value)),
           fmt::format("the median (ops: {}, ranks: {})", factor.ops, run_.ranks.size()),
           factor.value > 1 ? "see tandem trace --top, or --costs for prices by shape; clocks and "
                              "power limits slow all kernels alike"
                            : "the simulation's prices are too high: tandem trace --costs",
           compute_times(factor.value, [of](int, const Op& op) { return op.kind == of; })});
    }
  }

  void add_stages(std::vector<Change>* changes) const {
    for (const auto& [stage, factor] : stages_) {
      if (std::abs(factor.value - 1) < kLeastFactor) continue;
      changes->push_back(
          {fmt::format("stage {}: its kernels {}, beside the other stages'", stage,
                       times_text(factor.value)),
           fmt::format("the median (ops: {})", factor.ops),
           "move layers between the stages, or look what else that stage computes",
           compute_times(factor.value, [stage](int, const Op& op) { return op.stage == stage; })});
    }
  }

  void add_ranks(std::vector<Change>* changes) const {
    for (const auto& [number, factor] : ranks_) {
      if (std::abs(factor.value - 1) < kLeastFactor) continue;
      changes->push_back(
          {fmt::format("rank {}: its kernels {}, beside ranks like it", number,
                       times_text(factor.value)),
           fmt::format("the median (ops: {})", factor.ops),
           "look at that GPU's clock, power, temperature and neighbours; replace it",
           compute_times(factor.value, [number](int rank, const Op&) { return rank == number; })});
    }
  }

  void add_ops(std::vector<Change>* changes) const {
    std::int64_t ops = 0;
    for_compute([&](int rank, std::uint32_t, const Op& op, double ratio) {
      ops += std::abs(ratio / usual(rank, op) - 1) >= kLeastFactor ? 1 : 0;
    });
    if (ops == 0) return;
    changes->push_back({"single ops differ from others of their kind, stage and rank",
                        fmt::format("{} (ops: {})", longest_slow_run(), ops),
                        "variation that ranks wait for: clocks, other work on the GPU, uneven data",
                        [this](OpDurations* durations) {
                          for_compute([&](int rank, std::uint32_t i, const Op& op, double ratio) {
                            multiply(ratio / usual(rank, op), &durations->compute[rank][i]);
                          });
                        }});
  }

  // Says which ops in a row lose most, of all ranks: the range with the largest sum of seconds
  // beyond the usual ones.
  std::string longest_slow_run() const {
    struct Run {
      int rank = -1;
      const Op *first = nullptr, *last = nullptr;
      double excess_ns = 0, usual_ns = 0;
    };
    Run run, longest;
    for_compute([&](int rank, std::uint32_t i, const Op& op, double ratio) {
      const double usual_ns = static_cast<double>(base_.compute[rank][i]) * usual(rank, op);
      if (run.rank != rank || run.excess_ns <= 0) run = {.rank = rank, .first = &op};
      run.last = &op;
      run.usual_ns += usual_ns;
      run.excess_ns += static_cast<double>(base_.compute[rank][i]) * ratio - usual_ns;
      if (run.excess_ns > longest.excess_ns) longest = run;
    });
    if (longest.rank < 0) return "none is slower";
    const auto name = [](const Op& op) {
      return op.microbatch < 0 ? std::string(op_kind_name(op.kind))
                               : fmt::format("{} {}", op_kind_name(op.kind), op.microbatch);
    };
    return fmt::format("most on rank {} from {} to {}, {:.3g} times as long", longest.rank,
                       name(*longest.first), name(*longest.last),
                       1 + longest.excess_ns / longest.usual_ns);
  }

  double usual(int rank, const Op& op) const {
    return value(kinds_, static_cast<int>(op.kind)) * value(stages_, op.stage) *
           value(ranks_, rank);
  }

  // Calls each(communicator, number of its operation, measured over simulated).
  template <class Each>
  void for_comm(const Each& each) const {
    for (std::size_t c = 0; c < base_.comm.size(); ++c) {
      for (std::size_t i = 0; i < base_.comm[c].size(); ++i) {
        const auto base = static_cast<double>(base_.comm[c][i]);
        if (base > 0 && run_.comm_ns[c][i] >= 0) each(c, i, run_.comm_ns[c][i] / base);
      }
    }
  }

  int link_of(std::size_t communicator) const {
    const Communicator& comm = program_.communicators[communicator];
    return 2 * static_cast<int>(comm.group_kind) + (comm.between_nodes ? 1 : 0);
  }

  void add_collectives(std::vector<Change>* changes) {
    Ratios ratios;
    for_comm(
        [&](std::size_t c, std::size_t, double ratio) { ratios[link_of(c)].push_back(ratio); });
    links_ = medians(std::move(ratios));
    for (const auto& [link, factor] : links_) {
      if (std::abs(factor.value - 1) < kLeastFactor) continue;
      changes->push_back(
          {fmt::format("{} communication {} nodes: operations {}",
                       group_kind_name(static_cast<GroupKind>(link / 2)),
                       link % 2 == 1 ? "between" : "inside", times_text(factor.value)),
           fmt::format("the median (operations: {})", factor.ops),
           "run nccl-tests on these ranks, and compare with tandem topology's links",
           [this, link = link, by = factor.value](OpDurations* durations) {
             for (std::size_t c = 0; c < durations->comm.size(); ++c) {
               if (link_of(c) != link) continue;
               for (Nanoseconds& ns : durations->comm[c]) multiply(by, &ns);
             }
           }});
    }
    std::int64_t others = 0;
    for_comm([&](std::size_t c, std::size_t, double ratio) {
      others += std::abs(ratio / value(links_, link_of(c)) - 1) >= kLeastFactor ? 1 : 0;
    });
    if (others == 0) return;
    changes->push_back({"single communications differ from others of their kind and link",
                        fmt::format("operations: {}", others),
                        "links that are slow for a while, or shared with other jobs",
                        [this](OpDurations* durations) {
                          for_comm([&](std::size_t c, std::size_t i, double ratio) {
                            multiply(ratio / value(links_, link_of(c)), &durations->comm[c][i]);
                          });
                        }});
  }

  void add_delays(std::vector<Change>* changes) const {
    struct Words {
      const char *what, *advice;
    };
    static const std::map<DelayKind, Words> kWords = {
        {DelayKind::Copies,
         {"copies between GPU and host hold compute up",
          "checkpoints and offloads: copy on another stream, to pinned memory, beside compute"}},
        {DelayKind::Input,
         {"the step's first op waits for its data", "load and copy the next batch ahead"}},
        {DelayKind::Synchronisation,
         {"the optimizer waits", "look for .item(), a gradient norm or a barrier before it"}},
        {DelayKind::Pause,
         {"pauses in which a rank computes nothing",
          "look at the host: garbage collection, "
          "other processes, a synchronisation"}},
        {DelayKind::Launch,
         {"kernels are launched late", "CUDA graphs, larger microbatches, or a faster host"}},
        {DelayKind::Overlap,
         {"communication that should overlap compute is waited for",
          "look why: one stream, a synchronisation, CUDA_DEVICE_MAX_CONNECTIONS"}}};
    std::map<std::pair<DelayKind, GroupKind>, std::vector<std::pair<int, Delay>>> by_kind;
    for (const RankOfRun& rank : run_.ranks) {
      for (const Delay& delay : rank.delays)
        by_kind[{delay.kind, delay.waited_for}].emplace_back(rank.rank, delay);
    }
    for (const auto& [key, delays] : by_kind) {
      std::map<int, Nanoseconds> by_rank;
      for (const auto& [rank, delay] : delays) by_rank[rank] += delay.ns;
      const auto most =
          std::ranges::max_element(by_rank, {}, [](const auto& each) { return each.second; });
      const auto of = key.first == DelayKind::Overlap
                          ? fmt::format("{} ", group_kind_name(key.second))
                          : std::string();
      changes->push_back(
          {of + kWords.at(key.first).what,
           fmt::format("{:.3g} s on rank {} (gaps: {}, ranks: {})", to_seconds(most->second),
                       most->first, delays.size(), by_rank.size()),
           kWords.at(key.first).advice, [delays = delays](OpDurations* durations) {
             for (const auto& [rank, delay] : delays)
               durations->compute[rank][delay.op] += delay.ns;
           }});
    }
  }

  // Gaps between steps come after all that the Program does.
  void add_between(std::vector<Change>* changes) const {
    const auto ns = static_cast<Nanoseconds>(run_.between_ns);
    if (ns <= 0) return;
    changes->push_back({"nothing runs between steps", fmt::format("steps: {}", run_.steps),
                        "checkpoints, evaluation, logging: do them beside training",
                        [ns](OpDurations* durations) { durations->after += ns; }});
  }

  const Program& program_;
  const OpDurations& base_;
  const ProfiledRun& run_;
  std::map<int, Factor> kinds_, stages_, ranks_, links_;
};

// Refuses jobs whose ranks, each of which is played, have more ops than memory holds.
Status check_size(const Program& program) {
  std::size_t ops = 0;
  for (const RankRow& rank : program.ranks) ops += program.bodies[rank.body].ops.size();
  if (ops <= kMostOps) return Done{};
  return Error{fmt::format(
      "found {} ranks of {:.2g} million ops in all, expected at most {:g} "
      "million: fewer replicas (parallel.dp) explain the same",
      program.ranks.size(), 1e-6 * static_cast<double>(ops), 1e-6 * static_cast<double>(kMostOps))};
}

}  // namespace

bool Explanation::is_explained() const {
  return std::abs(not_explained_s) <= kMostUnexplained * measured_s;
}

Result<Explanation> explain(const Program& program, const Trace& simulated,
                            const Profile& measured) {
  RETURN_IF_ERROR(check_size(program));
  const OpDurations base = durations_of(program, simulated);
  ASSIGN_OR_RETURN(const ProfiledRun run, profiled_run(program, base, measured));
  const Nanoseconds base_ns = replayed(program, base);
  Explanation explanation{.simulated_s = to_seconds(base_ns),
                          .measured_s = 1e-9 * run.iteration_ns,
                          .steps = run.steps,
                          .ranks_in_all = static_cast<int>(program.ranks.size())};
  OpDurations all = base;
  double sum = 0;
  Explaining explaining(program, base, run);
  explanation.ranks = explaining.ranks();
  for (Change& change : explaining.changes()) {
    OpDurations alone = base;
    change.apply(&alone);
    change.apply(&all);
    const double alone_s = to_seconds(replayed(program, alone) - base_ns);
    sum += alone_s;
    if (std::abs(alone_s) < kLeastCause * explanation.measured_s) {
      explanation.smaller_s += alone_s;
      continue;
    }
    explanation.causes.push_back(
        {std::move(change.what), alone_s, std::move(change.evidence), std::move(change.advice)});
  }
  std::ranges::stable_sort(explanation.causes, std::greater(), &Cause::alone_s);
  const double all_s = to_seconds(replayed(program, all));
  explanation.interactions_s = all_s - explanation.simulated_s - sum;
  explanation.not_explained_s = explanation.measured_s - all_s;
  const auto measured_ranks = static_cast<int>(explanation.ranks.size());
  if (measured_ranks < explanation.ranks_in_all)
    explanation.notes.push_back(
        fmt::format("The profile has {} of {} ranks. The others are inferred: their ops take what "
                    "the kinds and stages of the measured ranks say.",
                    measured_ranks, explanation.ranks_in_all));
  if (run.waits_for_unseen)
    explanation.notes.push_back(
        "Communication with ranks that the profile lacks takes what the shortest of its kind took: "
        "the rest may be waiting for them, and is not explained.");
  return explanation;
}

nlohmann::ordered_json to_json(const Explanation& explanation) {
  nlohmann::ordered_json causes = nlohmann::ordered_json::array();
  for (const Cause& cause : explanation.causes)
    causes.push_back({{"what", cause.what},
                      {"alone_s", cause.alone_s},
                      {"evidence", cause.evidence},
                      {"advice", cause.advice}});
  nlohmann::ordered_json ranks = nlohmann::ordered_json::array();
  for (const ExplainedRank& rank : explanation.ranks)
    ranks.push_back(
        {{"rank", rank.rank}, {"compute_ratio", rank.compute_ratio}, {"delays_s", rank.delays_s}});
  return {{"simulated_s", explanation.simulated_s},
          {"measured_s", explanation.measured_s},
          {"causes", std::move(causes)},
          {"smaller_causes_s", explanation.smaller_s},
          {"interactions_s", explanation.interactions_s},
          {"not_explained_s", explanation.not_explained_s},
          {"explained", explanation.is_explained()},
          {"steps", explanation.steps},
          {"ranks_measured", std::move(ranks)},
          {"ranks", explanation.ranks_in_all},
          {"notes", explanation.notes}};
}

}  // namespace tandem
