// Makes a change of each factor of a run that is not 1, of the ops' remaining ratios, and of the
// delays. A change multiplies simulated durations, or adds to them.
// The measured over the simulated time of an op of compute is kind x stage x rank x its own part:
// 1.3 = 1.1 x 1.0 x 1.15 x 1.03. usual_ratio() is the product without the own part. An operation of
// a communicator has experts x link x its own part. run_factors.h has the terms.
#include "validation/explain/changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <utility>

#include "traces/profile/simulated_profile.h"
#include "validation/explain/run_factors.h"

namespace tandem {
namespace {

constexpr double kLeastFactor = 0.002;  // a factor nearer to 1 makes no change
constexpr std::size_t kMostAlone = 8;   // stages or ranks that have a change of their own

using SharedFactors = std::shared_ptr<const RunFactors>;
using Changes = std::vector<Change>;

void multiply(double factor, Nanoseconds* ns) {
  *ns = std::llround(static_cast<double>(*ns) * factor);
}

bool differs(double factor) { return std::abs(factor - 1) >= kLeastFactor; }

// Says how a factor is taken from its ops, whose times are means over the steps.
const char* median_text(const ProfiledRun& run) {
  return run.steps_differ ? "the median of means over steps that differ" : "the median";
}

// Multiplies each op of compute by factor(rank, op).
template <class FactorOf>
std::function<void(OpDurations*)> scale_compute(const SharedFactors& factors,
                                                const FactorOf& factor) {
  return [factors, factor](OpDurations* durations) {
    const Program& program = factors->compared.program;
    for (int rank = 0; rank < static_cast<int>(program.ranks.size()); ++rank) {
      const Body& body = program.body_of(Rank{rank});
      for (std::size_t i = 0; i < body.ops.size(); ++i) {
        if (is_compute(body.ops[i].kind))
          multiply(factor(rank, body.ops[i]), &durations->compute[rank][i]);
      }
    }
  };
}

// Adds a change of the level for each kind of op whose factor is not 1. `whose` is "" or
// "experts' ".
template <class IsChanged>
void add_kinds(const SharedFactors& factors, const Factors& kinds, const char* whose,
               const IsChanged& is_changed, ChangeLevel level, Changes* changes) {
  for (const auto& [kind, factor] : kinds) {
    if (!differs(factor.value)) continue;
    const auto compute_kind = static_cast<OpKind>(kind);
    changes->push_back(
        {fmt::format("{}{} kernels {}", whose, op_kind_name(compute_kind),
                     times_text(factor.value)),
         fmt::format("{} (ops: {}, ranks: {})", median_text(factors->compared.run), factor.ops,
                     factors->compared.run.ranks.size()),
         factor.value > 1 ? "see tandem trace --top, or --costs for prices by shape; clocks and "
                            "power limits slow all kernels alike"
                          : "the simulation's prices are too high: tandem trace --costs",
         scale_compute(factors,
                       [is_changed, compute_kind, by = factor.value](int rank, const Op& op) {
                         return op.kind == compute_kind && is_changed(rank, op) ? by : 1;
                       }),
         level});
  }
}

constexpr int kNoPart = -1;

// A way to divide the ops of compute: by stage, by rank, or by place of experts (run_factors.h).
// Each part has a number and a factor. An op of kNoPart keeps its time.
struct Division {
  const Factors& factors;                   // by the part's number
  std::function<std::string(int)> subject;  // "stage 2: its"
  std::string beside;                       // "the other stages'"
  std::string plural;                       // "stages"
  std::string advice;
  ChangeLevel level = ChangeLevel::Other;
  std::function<int(int rank, const Op&)> number_of;
  // Changes communication by the factors of parts: for experts, the exchanges that wait for them.
  std::function<void(const Factors&, OpDurations*)> scale_comm = {};
};

// Multiplies the durations of these parts by their factors.
std::function<void(OpDurations*)> scale_parts(const SharedFactors& factors,
                                              const Division& division, const Factors& parts) {
  const auto scale_ops =
      scale_compute(factors, [parts, number_of = division.number_of](int rank, const Op& op) {
        return factor_at(parts, number_of(rank, op));
      });
  return [parts, scale_ops, scale_comm = division.scale_comm](OpDurations* durations) {
    scale_ops(durations);
    if (scale_comm) scale_comm(parts, durations);
  };
}

// Adds changes for the parts whose factor is not 1: one for each of the kMostAlone parts that are
// farthest from 1, and one for all others together.
void add_parts(const SharedFactors& factors, const Division& division, Changes* changes) {
  std::vector<std::pair<int, Factor>> far(division.factors.begin(), division.factors.end());
  std::erase_if(far, [](const auto& each) { return !differs(each.second.value); });
  std::ranges::stable_sort(far, std::greater(),
                           [](const auto& each) { return std::abs(each.second.value - 1); });
  const std::size_t alone = std::min(far.size(), kMostAlone);
  for (std::size_t i = 0; i < alone; ++i) {
    const auto& [part, factor] = far[i];
    changes->push_back({fmt::format("{} kernels {}, beside {}", division.subject(part),
                                    times_text(factor.value), division.beside),
                        fmt::format("{} (ops: {})", median_text(factors->compared.run), factor.ops),
                        division.advice, scale_parts(factors, division, {far[i]}), division.level});
  }
  if (far.size() == alone) return;
  const Factors others(far.begin() + static_cast<std::ptrdiff_t>(alone), far.end());
  changes->push_back({fmt::format("kernels of other {} differ by less", division.plural),
                      fmt::format("{}: {}, each by at most {:.1f} %", division.plural,
                                  others.size(), 100 * std::abs(far[alone].second.value - 1)),
                      division.advice, scale_parts(factors, division, others), division.level});
}

Division by_stage(const RunFactors& factors) {
  return {.factors = factors.stages,
          .subject = [](int stage) { return fmt::format("stage {}: its", stage); },
          .beside = "the other stages'",
          .plural = "stages",
          .advice = "move layers between the stages, or look what else that stage computes",
          .level = ChangeLevel::Stage,
          .number_of = [](int, const Op& op) { return static_cast<int>(op.stage); }};
}

Division by_rank_of_op(const RunFactors& factors) {
  return {.factors = factors.ranks,
          .subject = [](int rank) { return fmt::format("rank {}: its", rank); },
          .beside = "ranks like it",
          .plural = "ranks",
          .advice = "look at that GPU's clock, power, temperature and neighbours; replace it",
          .number_of = [](int rank, const Op&) { return rank; }};
}

// Divides by place: ranks of one place hold the same experts. An exchange of tokens waits for the
// slowest experts among its members. If their place has a changed factor, so has the exchange: the
// part of its own ratio that they explain, from 1 to their factor.
Division by_place(const SharedFactors& factors) {
  const auto subject = [factors](int place) {
    std::vector<Rank> ranks;
    for (std::size_t rank = 0; rank < factors->places.size(); ++rank) {
      if (factors->places[rank] == place) ranks.push_back(Rank{static_cast<int>(rank)});
    }
    return fmt::format("experts on ranks {}: their", ranks_text(ranks));
  };
  const auto slow_exchanges = [factors](const Factors& changed, OpDurations* durations) {
    factors->compared.for_comm([&](std::size_t c, std::size_t i, double ratio) {
      if (changed.contains(factors->slowest[c].place))
        multiply(factors->part_of_experts(c, ratio), &durations->comm[c][i]);
    });
  };
  return {.factors = factors->experts,
          .subject = subject,
          .beside = "other experts'",
          .plural = "groups of experts",
          .advice =
              "tokens crowd there: balance the router (auxiliary loss, bias, capacity); "
              "model.routing simulates measured loads",
          .number_of =
              [factors](int rank, const Op& op) {
                return factors->is_of_experts(rank, op) ? factors->places[rank] : kNoPart;
              },
          .scale_comm = slow_exchanges};
}

// Names the run of consecutive ops on one rank whose times exceed the usual ones by most in sum, as
// Kadane's algorithm finds it: a run ends once its sum is no longer above the usual one.
std::string longest_slow_run(const RunFactors& factors) {
  struct Run {
    int rank = -1;
    const Op *first = nullptr, *last = nullptr;
    double excess_ns = 0, usual_ns = 0;
  };
  Run run, longest;
  factors.compared.for_compute([&](int rank, std::uint32_t i, const Op& op, double ratio) {
    const auto simulated_ns = static_cast<double>(factors.compared.base.compute[rank][i]);
    const double usual_ns = simulated_ns * factors.usual_ratio(rank, op);
    if (run.rank != rank || run.excess_ns <= 0) run = {.rank = rank, .first = &op};
    run.last = &op;
    run.usual_ns += usual_ns;
    run.excess_ns += simulated_ns * ratio - usual_ns;
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

void add_ops(const SharedFactors& factors, Changes* changes) {
  std::int64_t ops = 0;
  factors->compared.for_compute([&](int rank, std::uint32_t, const Op& op, double ratio) {
    ops += differs(ratio / factors->usual_ratio(rank, op)) ? 1 : 0;
  });
  if (ops == 0) return;
  changes->push_back(
      {"single ops differ from others of their kind, stage and rank",
       fmt::format("{} (ops: {})", longest_slow_run(*factors), ops),
       "variation that ranks wait for: clocks, other work on the GPU, uneven data",
       [factors](OpDurations* durations) {
         factors->compared.for_compute([&](int rank, std::uint32_t i, const Op& op, double ratio) {
           multiply(ratio / factors->usual_ratio(rank, op), &durations->compute[rank][i]);
         });
       }});
}

// Says whether operations on the link may wait for ranks that are not in the profile.
bool may_wait_on(const RunFactors& factors, const CommLink& link) {
  const std::vector<bool>& may_wait = factors.compared.run.may_wait;
  for (std::size_t c = 0; c < may_wait.size(); ++c) {
    if (may_wait[c] && factors.link_of(c) == link) return true;
  }
  return false;
}

void add_links(const SharedFactors& factors, Changes* changes) {
  for (const auto& [link, factor] : factors->links) {
    if (!differs(factor.value)) continue;
    const bool may_wait = factor.value > 1 && may_wait_on(*factors, link);
    changes->push_back(
        {fmt::format("{} communication {} nodes: operations {}{}", group_kind_name(link.group_kind),
                     link.between_nodes ? "between" : "inside", times_text(factor.value),
                     may_wait ? ", or wait for ranks without a profile" : ""),
         fmt::format("{} (operations: {})", median_text(factors->compared.run), factor.ops),
         fmt::format("{}run nccl-tests on these ranks, and compare with tandem topology's links",
                     may_wait ? "add the profiles of all ranks; " : ""),
         [factors, link = link, by = factor.value](OpDurations* durations) {
           for (std::size_t c = 0; c < durations->comm.size(); ++c) {
             if (factors->link_of(c) != link) continue;
             for (Nanoseconds& ns : durations->comm[c]) multiply(by, &ns);
           }
         },
         ChangeLevel::Kind});
  }
}

// Adds a change for the single communications that may wait for ranks without a profile, or for the
// others.
void add_operations(const SharedFactors& factors, bool may_wait, Changes* changes) {
  const auto for_each = [factors, may_wait](const auto& each) {
    factors->compared.for_comm([&](std::size_t c, std::size_t i, double ratio) {
      if (factors->compared.run.may_wait[c] == may_wait) each(c, i, factors->own_ratio(c, ratio));
    });
  };
  std::int64_t operations = 0;
  for_each([&](std::size_t, std::size_t, double own) { operations += differs(own) ? 1 : 0; });
  if (operations == 0) return;
  changes->push_back(
      {fmt::format("single communications differ from others of their kind and link{}",
                   may_wait ? ", or wait for ranks without a profile" : ""),
       fmt::format("operations: {}", operations),
       fmt::format("{}links that are slow for a while, or shared with other jobs",
                   may_wait ? "add the profiles of all ranks; " : ""),
       [for_each](OpDurations* durations) {
         for_each([&](std::size_t c, std::size_t i, double own) {
           multiply(own, &durations->comm[c][i]);
         });
       }});
}

void add_delays(const ProfiledRun& run, Changes* changes) {
  std::map<std::pair<DelayKind, GroupKind>, std::vector<std::pair<int, Delay>>> by_kind;
  for (const RankOfRun& rank : run.ranks) {
    for (const Delay& delay : rank.delays)
      by_kind[{delay.kind, delay.waited_for}].emplace_back(rank.rank, delay);
  }
  for (const auto& [key, delays] : by_kind) {
    const auto [kind, waited_for] = key;
    std::map<int, Nanoseconds> by_rank;
    for (const auto& [rank, delay] : delays) by_rank[rank] += delay.ns;
    const auto most =
        std::ranges::max_element(by_rank, {}, [](const auto& each) { return each.second; });
    const std::string group =
        kind == DelayKind::Overlap ? fmt::format("{} ", group_kind_name(waited_for)) : "";
    changes->push_back(
        {group + words_of(kind).what,
         fmt::format("{:.3g} s on rank {} (gaps: {}, ranks: {})", to_seconds(most->second),
                     most->first, delays.size(), by_rank.size()),
         words_of(kind).advice, [delays = delays](OpDurations* durations) {
           for (const auto& [rank, delay] : delays) durations->compute[rank][delay.op] += delay.ns;
         }});
  }
}

void add_late(const Program& program, const ProfiledRun& run, Changes* changes) {
  struct Late {
    std::int64_t operations = 0;
    double most_ns = 0;
  };
  std::map<GroupKind, Late> by_kind;
  for (std::size_t c = 0; c < run.late_ns.size(); ++c) {
    for (const double ns : run.late_ns[c]) {
      if (ns <= 0) continue;
      Late& late = by_kind[program.communicators[c].group_kind];
      ++late.operations;
      late.most_ns = std::max(late.most_ns, ns);
    }
  }
  for (const auto& [kind, late] : by_kind)
    changes->push_back(
        {fmt::format("{} communication that should overlap compute begins late",
                     group_kind_name(kind)),
         fmt::format("at most {:.3g} s (operations: {})", 1e-9 * late.most_ns, late.operations),
         words_of(DelayKind::Overlap).advice,
         [&program, &run, kind = kind](OpDurations* durations) {
           for (std::size_t c = 0; c < run.late_ns.size(); ++c) {
             if (program.communicators[c].group_kind != kind) continue;
             for (std::size_t i = 0; i < run.late_ns[c].size(); ++i)
               durations->comm[c][i] += std::llround(run.late_ns[c][i]);
           }
         }});
}

// Gaps between steps come after all that the Program does.
void add_between(const ProfiledRun& run, Changes* changes) {
  const auto ns = static_cast<Nanoseconds>(run.between_ns);
  if (ns <= 0) return;
  changes->push_back({"nothing runs between steps", fmt::format("steps: {}", run.steps),
                      "checkpoints, evaluation, logging: do them beside training",
                      [ns](OpDurations* durations) { durations->after += ns; }});
}

}  // namespace

std::string times_text(double factor) {
  return factor >= 1 ? fmt::format("take {:.3g} times as long", factor)
                     : fmt::format("take {:.3g} of the time", factor);
}

std::vector<Change> changes_of(const Program& program, const OpDurations& base,
                               const ProfiledRun& run) {
  const auto factors = std::make_shared<const RunFactors>(factors_of({program, base, run}));
  Changes changes;
  const auto all_ops = [](int, const Op&) { return true; };
  const auto expert_ops = [factors](int rank, const Op& op) {
    return factors->is_of_experts(rank, op);
  };
  add_kinds(factors, factors->kinds, "", all_ops, ChangeLevel::Kind, &changes);
  add_parts(factors, by_stage(*factors), &changes);
  add_parts(factors, by_rank_of_op(*factors), &changes);
  add_kinds(factors, factors->expert_kinds, "experts' ", expert_ops, ChangeLevel::ExpertKind,
            &changes);
  add_parts(factors, by_place(factors), &changes);
  add_ops(factors, &changes);
  add_links(factors, &changes);
  for (const bool may_wait : {true, false}) add_operations(factors, may_wait, &changes);
  add_delays(run, &changes);
  add_late(program, run, &changes);
  add_between(run, &changes);
  return changes;
}

std::vector<ExplainedRank> explained_ranks(const Program& program, const OpDurations& base,
                                           const ProfiledRun& run) {
  struct ComputeSums {
    double measured_ns = 0, simulated_ns = 0;
  };
  std::map<int, ComputeSums> compute;  // by rank
  ComparedRun{program, base, run}.for_compute(
      [&](int rank, std::uint32_t i, const Op&, double ratio) {
        const auto simulated = static_cast<double>(base.compute[rank][i]);
        compute[rank].measured_ns += simulated * ratio;
        compute[rank].simulated_ns += simulated;
      });
  std::vector<ExplainedRank> ranks;
  for (const RankOfRun& rank : run.ranks) {
    const auto& [measured, simulated] = compute[rank.rank];
    Nanoseconds delays = 0;
    for (const Delay& delay : rank.delays) delays += delay.ns;
    ranks.push_back({rank.rank, simulated > 0 ? measured / simulated : 1, to_seconds(delays)});
  }
  return ranks;
}

}  // namespace tandem
