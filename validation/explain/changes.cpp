#include "validation/explain/changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <utility>

#include "base/quantile.h"
#include "traces/profile/simulated_profile.h"

namespace tandem {
namespace {

// Measured over simulated, and of how many ops.
struct Factor {
  double value = 1;
  std::int64_t ops = 0;
};

constexpr double kLeastFactor = 0.002;  // nearer to 1 is as simulated
constexpr std::size_t kMostAlone = 8;   // stages or ranks that are played alone

void multiply(double factor, Nanoseconds* ns) {
  *ns = std::llround(static_cast<double>(*ns) * factor);
}

// Holds the factors of a run. Its changes keep it.
class Explaining : public std::enable_shared_from_this<Explaining> {
 public:
  Explaining(const Program& program, const OpDurations& base, const ProfiledRun& run)
      : program_(program), base_(base), run_(run) {
    find_places();
    find_kinds();
    find_stages();
    find_ranks();
    find_experts();
    find_exchanges();
    find_links();
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

  std::vector<Change> changes() const {
    std::vector<Change> changes;
    add_kinds(kinds_, false, &changes);
    add_stages(&changes);
    add_ranks(&changes);
    add_experts(&changes);
    add_ops(&changes);
    add_collectives(&changes);
    add_delays(&changes);
    add_between(&changes);
    return changes;
  }

 private:
  using AlsoSlow = std::function<void(const std::map<int, Factor>&, OpDurations*)>;
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

  // A rank's place is its number in the group that exchanges tokens: ranks of one place hold the
  // same experts.
  void find_places() {
    places_.assign(program_.ranks.size(), -1);
    for (const Communicator& comm : program_.communicators) {
      if (comm.group_kind != GroupKind::Expert || comm.members.size() < 2) continue;
      for (std::size_t i = 0; i < comm.members.size(); ++i)
        places_[index(comm.members[i])] = static_cast<int>(i);
    }
  }

  // Returns the rank's place, of an op whose time follows from the tokens that its experts get;
  // else -1.
  int place_of(int rank, const Op& op) const {
    const bool is_of_experts =
        op.kernel >= 0 && program_.kernels[op.kernel].name.starts_with("experts ");
    return is_of_experts ? places_[rank] : -1;
  }

  void find_kinds() {
    RankRatios ratios;
    for_compute([&](int rank, std::uint32_t, const Op& op, double ratio) {
      if (place_of(rank, op) >= 0) return;
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
      if (op.stage >= 0 && ranks_of_stage[op.stage] > 1 && place_of(rank, op) < 0)
        ratios[op.stage][rank].push_back(ratio / value(kinds_, static_cast<int>(op.kind)));
    });
    if (ratios.size() > 1) stages_ = shared_medians(ratios);
  }

  void find_ranks() {
    Ratios ratios;
    for_compute([&](int rank, std::uint32_t, const Op& op, double ratio) {
      if (place_of(rank, op) >= 0) return;
      ratios[rank].push_back(ratio / value(kinds_, static_cast<int>(op.kind)) /
                             value(stages_, op.stage));
    });
    if (ratios.size() > 1) ranks_ = medians(std::move(ratios));
  }

  // Experts have two factors more: what all ranks share, by kind of op, and that of their place.
  void find_experts() {
    RankRatios shared, of_place;
    for_compute([&](int rank, std::uint32_t, const Op& op, double ratio) {
      if (place_of(rank, op) >= 0)
        shared[static_cast<int>(op.kind)][rank].push_back(ratio / usual(rank, op));
    });
    expert_kinds_ = shared_medians(shared);
    for_compute([&](int rank, std::uint32_t, const Op& op, double ratio) {
      if (const int place = place_of(rank, op); place >= 0)
        of_place[place][rank].push_back(ratio / usual(rank, op));
    });
    experts_ = shared_medians(of_place);
  }

  // An exchange takes longer by as much as the busiest of its experts at most.
  void find_exchanges() {
    busiest_.resize(program_.communicators.size(), {1, -1});
    for (std::size_t c = 0; c < busiest_.size(); ++c) {
      if (program_.communicators[c].group_kind != GroupKind::Expert) continue;
      for (const Rank member : program_.communicators[c].members) {
        const int place = places_[index(member)];
        busiest_[c] = std::max(busiest_[c], {value(experts_, place), place});
      }
    }
  }

  double of_experts(std::size_t communicator, double ratio) const {
    return std::clamp(ratio, 1.0, busiest_[communicator].first);
  }

  // Multiplies each op of compute by factor(rank, op).
  template <class FactorOf>
  std::function<void(OpDurations*)> compute_times(const FactorOf& factor) const {
    return [self = shared_from_this(), factor](OpDurations* durations) {
      const Program& program = self->program_;
      for (int rank = 0; rank < static_cast<int>(program.ranks.size()); ++rank) {
        const Body& body = program.body_of(Rank{rank});
        for (std::size_t i = 0; i < body.ops.size(); ++i) {
          if (is_compute(body.ops[i].kind))
            multiply(factor(rank, body.ops[i]), &durations->compute[rank][i]);
        }
      }
    };
  }

  void add_kinds(const std::map<int, Factor>& kinds, bool of_experts,
                 std::vector<Change>* changes) const {
    for (const auto& [kind, factor] : kinds) {
      if (std::abs(factor.value - 1) < kLeastFactor) continue;
      const auto of = static_cast<OpKind>(kind);
      changes->push_back(
          {fmt::format("{}{} kernels {}", of_experts ? "experts' " : "", op_kind_name(of),
                       times_text(factor.value)),
           fmt::format("the median (ops: {}, ranks: {})", factor.ops, run_.ranks.size()),
           factor.value > 1 ? "see tandem trace --top, or --costs for prices by shape; clocks and "
                              "power limits slow all kernels alike"
                            : "the simulation's prices are too high: tandem trace --costs",
           compute_times([this, of, of_experts, by = factor.value](int rank, const Op& op) {
             return op.kind == of && (!of_experts || place_of(rank, op) >= 0) ? by : 1;
           })});
    }
  }

  // Adds a change for each stage, rank or place whose factor is not 1: the farthest alone, the
  // others together. `number` gives an op's, `named` says whose kernels are of a number, `also`
  // changes more for some numbers.
  template <class Number, class Named>
  void add_parts(const std::map<int, Factor>& factors, const std::string& name, const Named& named,
                 const std::string& beside, const std::string& advice, const Number& number,
                 std::vector<Change>* changes, const AlsoSlow& also = {}) const {
    std::vector<std::pair<int, Factor>> far;
    for (const auto& each : factors) {
      if (std::abs(each.second.value - 1) >= kLeastFactor) far.push_back(each);
    }
    std::ranges::stable_sort(far, std::greater(),
                             [](const auto& each) { return std::abs(each.second.value - 1); });
    const auto change = [&](std::string what, std::string evidence,
                            const std::map<int, Factor>& some) {
      const auto compute =
          compute_times([=](int rank, const Op& op) { return value(some, number(rank, op)); });
      changes->push_back(
          {std::move(what), std::move(evidence), advice, [=](OpDurations* durations) {
             compute(durations);
             if (also) also(some, durations);
           }});
    };
    const std::size_t alone = std::min(far.size(), kMostAlone);
    for (std::size_t i = 0; i < alone; ++i)
      change(fmt::format("{} kernels {}, beside {}", named(far[i].first),
                         times_text(far[i].second.value), beside),
             fmt::format("the median (ops: {})", far[i].second.ops), {far[i]});
    if (far.size() == alone) return;
    const std::map<int, Factor> others(far.begin() + static_cast<std::ptrdiff_t>(alone), far.end());
    change(fmt::format("other {}s differ from {}", name, beside),
           fmt::format("{}s: {}, each by at most {:.1f} %", name, others.size(),
                       100 * std::abs(far[alone].second.value - 1)),
           others);
  }

  void add_stages(std::vector<Change>* changes) const {
    add_parts(
        stages_, "stage", [](int stage) { return fmt::format("stage {}: its", stage); },
        "the other stages'",
        "move layers between the stages, or look what else that stage computes",
        [](int, const Op& op) { return static_cast<int>(op.stage); }, changes);
  }

  void add_ranks(std::vector<Change>* changes) const {
    add_parts(
        ranks_, "rank", [](int rank) { return fmt::format("rank {}: its", rank); }, "ranks like it",
        "look at that GPU's clock, power, temperature and neighbours; replace it",
        [](int rank, const Op&) { return rank; }, changes);
  }

  void add_experts(std::vector<Change>* changes) const {
    add_kinds(expert_kinds_, true, changes);
    add_parts(
        experts_, "place",
        [this](int place) {
          std::vector<Rank> ranks;
          for (std::size_t rank = 0; rank < places_.size(); ++rank) {
            if (places_[rank] == place) ranks.push_back(Rank{static_cast<int>(rank)});
          }
          return fmt::format("experts on ranks {}: their", ranks_text(ranks));
        },
        "other experts'",
        "tokens crowd there: balance the router (auxiliary loss, bias, capacity); model.routing "
        "simulates measured loads",
        [this](int rank, const Op& op) { return place_of(rank, op); }, changes,
        [this](const std::map<int, Factor>& places, OpDurations* durations) {
          for_comm([&](std::size_t c, std::size_t i, double ratio) {
            if (places.contains(busiest_[c].second))
              multiply(of_experts(c, ratio), &durations->comm[c][i]);
          });
        });
  }

  void add_ops(std::vector<Change>* changes) const {
    std::int64_t ops = 0;
    for_compute([&](int rank, std::uint32_t, const Op& op, double ratio) {
      ops += std::abs(ratio / usual(rank, op) - 1) >= kLeastFactor ? 1 : 0;
    });
    if (ops == 0) return;
    changes->push_back(
        {"single ops differ from others of their kind, stage and rank",
         fmt::format("{} (ops: {})", longest_slow_run(), ops),
         "variation that ranks wait for: clocks, other work on the GPU, uneven data",
         [self = shared_from_this()](OpDurations* durations) {
           self->for_compute([&](int rank, std::uint32_t i, const Op& op, double ratio) {
             multiply(ratio / self->usual(rank, op), &durations->compute[rank][i]);
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
    const double dense =
        value(kinds_, static_cast<int>(op.kind)) * value(stages_, op.stage) * value(ranks_, rank);
    const int place = place_of(rank, op);
    if (place < 0) return dense;
    return dense * value(expert_kinds_, static_cast<int>(op.kind)) * value(experts_, place);
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

  // Returns what neither its experts nor its link explain.
  double own_ratio(std::size_t communicator, double ratio) const {
    return ratio / of_experts(communicator, ratio) / value(links_, link_of(communicator));
  }

  void find_links() {
    Ratios ratios;
    for_comm([&](std::size_t c, std::size_t, double ratio) {
      ratios[link_of(c)].push_back(ratio / of_experts(c, ratio));
    });
    links_ = medians(std::move(ratios));
  }

  void add_collectives(std::vector<Change>* changes) const {
    for (const auto& [link, factor] : links_) {
      if (std::abs(factor.value - 1) < kLeastFactor) continue;
      changes->push_back(
          {fmt::format("{} communication {} nodes: operations {}",
                       group_kind_name(static_cast<GroupKind>(link / 2)),
                       link % 2 == 1 ? "between" : "inside", times_text(factor.value)),
           fmt::format("the median (operations: {})", factor.ops),
           "run nccl-tests on these ranks, and compare with tandem topology's links",
           [self = shared_from_this(), link = link, by = factor.value](OpDurations* durations) {
             for (std::size_t c = 0; c < durations->comm.size(); ++c) {
               if (self->link_of(c) != link) continue;
               for (Nanoseconds& ns : durations->comm[c]) multiply(by, &ns);
             }
           }});
    }
    std::int64_t others = 0;
    for_comm([&](std::size_t c, std::size_t, double ratio) {
      others += std::abs(own_ratio(c, ratio) - 1) >= kLeastFactor ? 1 : 0;
    });
    if (others == 0) return;
    changes->push_back({"single communications differ from others of their kind and link",
                        fmt::format("operations: {}", others),
                        "links that are slow for a while, or shared with other jobs",
                        [self = shared_from_this()](OpDurations* durations) {
                          self->for_comm([&](std::size_t c, std::size_t i, double ratio) {
                            multiply(self->own_ratio(c, ratio), &durations->comm[c][i]);
                          });
                        }});
  }

  void add_delays(std::vector<Change>* changes) const {
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
          {of + words_of(key.first).what,
           fmt::format("{:.3g} s on rank {} (gaps: {}, ranks: {})", to_seconds(most->second),
                       most->first, delays.size(), by_rank.size()),
           words_of(key.first).advice, [delays = delays](OpDurations* durations) {
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
  std::vector<int> places_;  // by rank; -1: it exchanges no tokens
  std::map<int, Factor> kinds_, stages_, ranks_, links_, expert_kinds_, experts_;
  std::vector<std::pair<double, int>> busiest_;  // by communicator: its experts' factor and place
};

}  // namespace

std::string times_text(double factor) {
  return factor >= 1 ? fmt::format("take {:.3g} times as long", factor)
                     : fmt::format("take {:.3g} of the time", factor);
}

std::vector<Change> changes_of(const Program& program, const OpDurations& base,
                               const ProfiledRun& run) {
  return std::make_shared<Explaining>(program, base, run)->changes();
}

std::vector<ExplainedRank> explained_ranks(const Program& program, const OpDurations& base,
                                           const ProfiledRun& run) {
  return Explaining(program, base, run).ranks();
}

}  // namespace tandem
