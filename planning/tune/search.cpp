#include "planning/tune/search.h"

#include <algorithm>
#include <map>
#include <queue>
#include <tuple>

#include "base/check.h"

namespace tandem {
namespace {

// Two plans of one kind differ in details only: the list of the best holds one of them.
auto kind_of(const Candidate& c) {
  const Layout& l = c.layout;
  return std::tuple(l.tp, l.cp, l.ep, l.pp, l.vpp, l.dp, c.playing.order);
}

// The best of each kind, `keep` of them.
class Best {
 public:
  explicit Best(int keep) : keep_(static_cast<std::size_t>(keep)) {}

  // A plan that takes longer than this is not kept.
  Nanoseconds limit() const {
    return found_.size() < keep_ ? INT64_MAX : found_.back().iteration_ns;
  }
  // Whether it is the new first.
  bool add(const Found& found) {
    const auto same = std::ranges::find_if(found_, [&](const Found& other) {
      return kind_of(other.candidate) == kind_of(found.candidate);
    });
    if (same != found_.end()) {
      if (same->iteration_ns <= found.iteration_ns) return false;
      found_.erase(same);
    }
    const auto place =
        std::ranges::upper_bound(found_, found.iteration_ns, {}, &Found::iteration_ns);
    const bool first = place == found_.begin();
    found_.insert(place, found);
    if (found_.size() > keep_) found_.pop_back();
    return first;
  }
  const std::vector<Found>& found() const { return found_; }

 private:
  std::size_t keep_;
  std::vector<Found> found_;
};

// What is yet to be looked at: a cut, a layout, a way to play it, or one plan. Ties go by number.
struct Branch {
  static constexpr std::int16_t kAll = -1, kByKernels = -2;  // the bound is of kernels alone

  Nanoseconds bound = 0;
  std::int32_t cut = 0, layout = kAll;
  std::int16_t playing = kAll, sharing = kAll;

  bool operator>(const Branch& other) const {
    return std::tie(bound, cut, layout, playing, sharing) >
           std::tie(other.bound, other.cut, other.layout, other.playing, other.sharing);
  }
};

// Plans of one memory floor: they lay the stages alike on the ranks and cut the model's state
// alike.
struct HeldAlike {
  int (*rank_of)(int stage, int pp, int vpp) = nullptr;
  int chains = 1, zero = 0;

  bool operator==(const HeldAlike&) const = default;
};

// Which of a layout's plans a GPU's memory may hold. `too_large`: what it does not hold of this
// layout, or of one with a smaller micro batch and all else the same; what it finds comes to it.
class MayHold {
 public:
  MayHold(const Scenario& base, const StageLevel& level, const Layout& layout,
          std::vector<HeldAlike>* too_large)
      : base_(base), level_(level), layout_(layout), too_large_(*too_large) {}

  bool operator()(const Playing& playing, const Sharing& sharing) {
    const OrderTraits& order = traits_of(playing.order, base_.job.order.orders);
    const HeldAlike alike{order.placement.rank_of, order.chains, sharing.zero};
    if (std::ranges::find(too_large_, alike) != too_large_.end()) return false;
    if (std::ranges::find(held_, alike) != held_.end()) return true;
    const double floor = level_.memory_floor({layout_, playing, sharing});
    const bool fits = fits_memory(base_.cluster.spec.device, floor);
    (fits ? held_ : too_large_).push_back(alike);
    return fits;
  }

 private:
  const Scenario& base_;
  const StageLevel& level_;
  const Layout& layout_;
  std::vector<HeldAlike>& too_large_;
  std::vector<HeldAlike> held_;
};

// Those ways to play a layout that a GPU's memory may hold; the plans of the others are counted.
std::vector<Playing> playings_in_memory(const Scenario& base, const Space& space,
                                        const StageLevel& level, const Layout& layout,
                                        std::vector<HeldAlike>* too_large, std::int32_t* plans,
                                        std::int32_t* others) {
  std::vector<Playing> kept;
  MayHold may_hold(base, level, layout, too_large);
  for (const Playing& playing : space.playings(base, layout)) {
    const std::vector<Sharing> sharings = space.sharings(base, layout, playing);
    if (sharings.empty()) continue;
    const auto holds = [&](const Sharing& sharing) { return may_hold(playing, sharing); };
    // The last cuts most; but ZeRO 3 that keeps what it gathered holds more than 2.
    const bool keeps = base.job.plan.reshard_after_forward == false;
    const bool fits = holds(sharings.back()) || (keeps && std::ranges::any_of(sharings, holds));
    *(fits ? plans : others) += static_cast<std::int32_t>(sharings.size());
    if (fits) kept.push_back(playing);
  }
  return kept;
}

}  // namespace

// One search over the layouts that are known.
class BranchAndBound {
 public:
  BranchAndBound(Search& known, const SearchOptions& options)
      : known_(known), level_(known.level_), options_(options), best_(options.keep) {}

  SearchResult run() {
    for (const Found& found : options_.known) best_.add(found);
    for (std::size_t i = 0; i < known_.cuts_.size(); ++i) {
      const Search::Cut& cut = known_.cuts_[i];
      if (cut.holds_state) open_.push({cut.bound, static_cast<std::int32_t>(i)});
      if (!cut.holds_state) ++counts_.cuts_memory;
    }
    counts_.cuts = static_cast<std::int64_t>(known_.cuts_.size());
    stopped_ = !known_.knows_cuts_;
    while (!open_.empty() && open_.top().bound <= best_.limit() && !stopped_) {
      const Branch branch = open_.top();
      open_.pop();
      expand(branch);
      stopped_ = options_.stop();
      if (!best_.found().empty()) options_.on_bound(best_.found().front(), bound());
    }
    const Nanoseconds least = known_.knows_cuts_ ? bound() : 0;
    for (; !open_.empty(); open_.pop()) cut(open_.top());
    const bool complete = known_.knows_cuts_ && counts_.left == 0 && counts_.cuts_left == 0;
    return {best_.found(), counts_, complete, least};
  }

 private:
  // Nothing that is still open takes less than its bound, nor what was found than its first.
  Nanoseconds bound() const {
    const Nanoseconds open = open_.empty() ? INT64_MAX : open_.top().bound;
    return best_.found().empty() ? open : std::min(open, best_.found().front().iteration_ns);
  }
  const Search::Known& known(const Branch& branch) const {
    return known_.cuts_[branch.cut].layouts[branch.layout];
  }
  std::vector<Sharing> sharings(const Layout& layout, const Playing& playing) const {
    return known_.space_.sharings(known_.base_, layout, playing);
  }
  std::vector<Playing> playings(const Layout& layout) const {
    std::int32_t plans = 0, others = 0;
    std::vector<HeldAlike> too_large;
    return playings_in_memory(known_.base_, known_.space_, level_, layout, &too_large, &plans,
                              &others);
  }

  void expand(const Branch& branch) {
    if (branch.layout < 0) {
      open_cut(branch.cut);
      return;
    }
    const Layout& layout = known(branch).layout;
    if (branch.playing == Branch::kByKernels) {
      open_.push({std::max(branch.bound, level_.work_bound(layout)), branch.cut, branch.layout});
      return;
    }
    const std::vector<Playing> kept = playings(layout);
    if (branch.playing < 0) {
      for (std::size_t i = 0; i < kept.size(); ++i) open_playing(branch, i, kept[i]);
    } else if (branch.sharing < 0) {
      play_order(branch, kept[branch.playing]);
    } else {
      const Playing& playing = kept[branch.playing];
      const Candidate candidate{layout, playing, sharings(layout, playing)[branch.sharing]};
      const Result<Order> order = level_.order_of(candidate);
      CHECK(order.ok());  // its order was played
      play(candidate, *order);
    }
  }

  void open_cut(std::int32_t number) {
    Search::Cut& cut = known_.cuts_[number];
    known_.open(&cut);
    counts_.enumerated += cut.others;
    counts_.memory += cut.others;
    for (std::size_t i = 0; i < cut.layouts.size(); ++i) {
      const Search::Known& known = cut.layouts[i];
      if (!options_.wants(known.layout)) continue;
      counts_.enumerated += known.plans + known.others;
      counts_.memory += known.others;
      const Nanoseconds bound = level_.kernel_bound(known.layout);
      open_.push({bound, number, static_cast<std::int32_t>(i), Branch::kByKernels});
    }
  }

  void open_playing(const Branch& branch, std::size_t place, const Playing& playing) {
    const Layout& layout = known(branch).layout;
    const RankEnds ends = level_.ends_bound(layout, playing);
    Nanoseconds least = INT64_MAX;
    for (const Sharing& sharing : sharings(layout, playing))
      least = std::min(least, level_.data_bound({layout, playing, sharing}, ends));
    open_.push({least, branch.cut, branch.layout, static_cast<std::int16_t>(place)});
  }

  // Plays the order without data parallelism, then the plan that promises most; the others wait.
  void play_order(const Branch& branch, const Playing& playing) {
    const Layout& layout = known(branch).layout;
    const std::vector<Sharing> all = sharings(layout, playing);
    const Result<Order> order = level_.order_of({layout, playing, all.front()});
    if (!order.ok()) {
      counts_.unplayable += static_cast<std::int64_t>(all.size());
      return;
    }
    std::vector<Branch> plans;
    std::map<int, bool> fits;  // by ZeRO's stage, the only part that memory knows
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto [known, is_new] = fits.try_emplace(all[i].zero);
      if (is_new)
        known->second = fits_memory(known_.base_.cluster.spec.device,
                                    level_.memory({layout, playing, all[i]}, *order));
      if (known->second) {
        plans.push_back(
            {0, branch.cut, branch.layout, branch.playing, static_cast<std::int16_t>(i)});
      } else {
        ++counts_.memory;
      }
    }
    if (plans.empty()) return;
    const Result<RankEnds> ends = rank_ends({layout, playing, all.front()}, *order, plans.size());
    if (!ends.ok()) {
      counts_.unplayable += static_cast<std::int64_t>(plans.size());
      return;
    }
    for (Branch& plan : plans)
      plan.bound = level_.data_bound({layout, playing, all[plan.sharing]}, *ends);
    const auto first = std::ranges::min_element(plans, {}, &Branch::bound);
    const bool plays = first->bound <= best_.limit();
    for (const Branch& plan : plans) {
      if (!plays || &plan != &*first) open_.push(plan);
    }
    if (plays) play({layout, playing, all[first->sharing]}, *order);
  }

  // A single plan is played at once; for several it pays to compute a bound first.
  Result<RankEnds> rank_ends(const Candidate& candidate, const Order& order, std::size_t plans) {
    if (candidate.layout.pp == 1 || plans == 1)
      return level_.ends_bound(candidate.layout, candidate.playing);
    ++counts_.orders;
    return level_.play_ranks(candidate, order);
  }

  void play(const Candidate& candidate, const Order& order) {
    const Result<Nanoseconds> played = level_.play(candidate, order);
    ++(played.ok() ? counts_.scheduled : counts_.unplayable);
    if (played.ok() && best_.add({candidate, *played})) options_.on_better(best_.found().front());
  }

  void cut(const Branch& branch) {
    if (branch.layout < 0) {
      ++(stopped_ ? counts_.cuts_left : counts_.cuts_work);
      return;
    }
    const Search::Known& layout = known(branch);
    std::int64_t plans = 1;
    if (branch.playing < 0) {
      plans = layout.plans;
    } else if (branch.sharing < 0) {
      const Playing playing = playings(layout.layout)[branch.playing];
      plans = static_cast<std::int64_t>(sharings(layout.layout, playing).size());
    }
    (stopped_             ? counts_.left
     : branch.playing < 0 ? counts_.work
     : branch.sharing < 0 ? counts_.pipeline
                          : counts_.data) += plans;
  }

  Search& known_;
  StageLevel& level_;
  const SearchOptions& options_;
  Best best_;
  SearchCounts counts_;
  std::priority_queue<Branch, std::vector<Branch>, std::greater<>> open_;
  bool stopped_ = false;
};

void Search::find_cuts(const std::function<bool()>& stop) {
  cuts_.clear();
  for (const Layout& cut : space_.cuts(base_)) {
    if (stop()) return;
    Cut found{cut};
    found.bound = INT64_MAX;
    for (const Layout& layout : space_.kernels(base_, cut))
      found.bound = std::min(found.bound, level_.kernel_bound(layout));
    if (found.bound == INT64_MAX) continue;  // no layout keeps the rules
    found.holds_state = fits_memory(base_.cluster.spec.device, level_.state_floor(cut));
    cuts_.push_back(std::move(found));
  }
  knows_cuts_ = true;
}

void Search::open(Cut* cut) {
  if (cut->is_open) return;
  cut->is_open = true;
  std::map<Layout, std::vector<HeldAlike>> too_large;  // by all but the micro batch, which grows
  for (const Layout& layout : space_.layouts(base_, cut->cut)) {
    Known known{layout};
    Layout any = layout;
    any.micro_batch = 0;
    playings_in_memory(base_, space_, level_, layout, &too_large[any], &known.plans, &known.others);
    if (known.plans > 0) {
      cut->layouts.push_back(known);
    } else {
      cut->others += known.others;
    }
  }
}

SearchResult Search::best(const SearchOptions& options) {
  if (!knows_cuts_) find_cuts(options.stop);
  return BranchAndBound(*this, options).run();
}

SearchResult search_all(const Scenario& base, const Space& space, StageLevel* level, int keep) {
  Best best(keep);
  SearchCounts counts;
  const auto play = [&](const Candidate& candidate) {
    ++counts.enumerated;
    const Result<Order> order = level->order_of(candidate);
    if (order.ok() && !fits_memory(base.cluster.spec.device, level->memory(candidate, *order))) {
      ++counts.memory;
      return;
    }
    const Result<Nanoseconds> played =
        order.ok() ? level->play(candidate, *order) : Result<Nanoseconds>(order.error());
    ++(played.ok() ? counts.scheduled : counts.unplayable);
    if (played.ok()) best.add({candidate, *played});
  };
  for (const Layout& cut : space.cuts(base)) {
    for (const Layout& layout : space.layouts(base, cut)) {
      for (const Playing& playing : space.playings(base, layout)) {
        for (const Sharing& sharing : space.sharings(base, layout, playing))
          play({layout, playing, sharing});
      }
    }
  }
  return {best.found(), counts};
}

}  // namespace tandem
