#include "planning/tune/search.h"

#include <algorithm>
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

// What is yet to be looked at: a layout, a way to play it, or one plan. Ties go by number.
struct Branch {
  Nanoseconds bound = 0;
  std::int32_t layout = 0;
  std::int16_t playing = -1, sharing = -1;  // -1: all of them

  bool operator>(const Branch& other) const {
    return std::tie(bound, layout, playing, sharing) >
           std::tie(other.bound, other.layout, other.playing, other.sharing);
  }
};

// Those ways to play a layout that a GPU's memory may hold; the plans of the others are counted.
std::vector<Playing> playings_in_memory(const Scenario& base, const Space& space,
                                        const StageLevel& level, const Layout& layout,
                                        std::int32_t* plans, std::int32_t* others) {
  std::vector<Playing> kept;
  for (const Playing& playing : space.playings(base, layout)) {
    const std::vector<Sharing> sharings = space.sharings(base, layout, playing);
    if (sharings.empty()) continue;
    const auto holds = [&](const Sharing& sharing) {
      return fits_memory(base.cluster.spec.device, level.memory_floor({layout, playing, sharing}));
    };
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
  BranchAndBound(const Search& known, const SearchOptions& options)
      : known_(known), level_(known.level_), options_(options), best_(options.keep) {}

  SearchResult run() {
    for (std::size_t i = 0; i < known_.layouts_.size(); ++i) {
      const Search::Known& layout = known_.layouts_[i];
      if (!options_.wants(layout.layout)) continue;
      counts_.enumerated += layout.plans + layout.others;
      counts_.memory += layout.others;
      if (layout.plans > 0) open_.push({layout.bound, static_cast<std::int32_t>(i)});
    }
    stopped_ = known_.stopped_;
    while (!open_.empty() && open_.top().bound <= best_.limit() && !stopped_) {
      const Branch branch = open_.top();
      open_.pop();
      expand(branch);
      stopped_ = options_.stop();
    }
    for (; !open_.empty(); open_.pop()) cut(open_.top());
    return {best_.found(), counts_};
  }

 private:
  const Layout& layout_of(const Branch& branch) const {
    return known_.layouts_[branch.layout].layout;
  }
  std::vector<Sharing> sharings(const Layout& layout, const Playing& playing) const {
    return known_.space_.sharings(known_.base_, layout, playing);
  }
  std::vector<Playing> playings(const Layout& layout) const {
    std::int32_t plans = 0, others = 0;
    return playings_in_memory(known_.base_, known_.space_, level_, layout, &plans, &others);
  }

  void expand(const Branch& branch) {
    const Layout& layout = layout_of(branch);
    const std::vector<Playing> kept = playings(layout);
    if (branch.playing < 0) {
      for (std::size_t i = 0; i < kept.size(); ++i) open_playing(branch.layout, i, kept[i]);
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

  void open_playing(std::int32_t number, std::size_t place, const Playing& playing) {
    const Layout& layout = known_.layouts_[number].layout;
    const RankEnds ends = level_.ends_bound(layout, playing);
    Nanoseconds least = INT64_MAX;
    for (const Sharing& sharing : sharings(layout, playing))
      least = std::min(least, level_.data_bound({layout, playing, sharing}, ends));
    open_.push({least, number, static_cast<std::int16_t>(place)});
  }

  // Plays the order without data parallelism, then the plan that promises most; the others wait.
  void play_order(const Branch& branch, const Playing& playing) {
    const Layout& layout = layout_of(branch);
    const std::vector<Sharing> all = sharings(layout, playing);
    const Result<Order> order = level_.order_of({layout, playing, all.front()});
    if (!order.ok()) {
      counts_.unplayable += static_cast<std::int64_t>(all.size());
      return;
    }
    std::vector<Branch> plans;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (fits_memory(known_.base_.cluster.spec.device,
                      level_.memory({layout, playing, all[i]}, *order))) {
        plans.push_back({0, branch.layout, branch.playing, static_cast<std::int16_t>(i)});
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
    const Search::Known& known = known_.layouts_[branch.layout];
    std::int64_t plans = 1;
    if (branch.playing < 0) {
      plans = known.plans;
    } else if (branch.sharing < 0) {
      const Playing playing = playings(known.layout)[branch.playing];
      plans = static_cast<std::int64_t>(sharings(known.layout, playing).size());
    }
    (stopped_             ? counts_.left
     : branch.playing < 0 ? counts_.work
     : branch.sharing < 0 ? counts_.pipeline
                          : counts_.data) += plans;
  }

  const Search& known_;
  StageLevel& level_;
  const SearchOptions& options_;
  Best best_;
  SearchCounts counts_;
  std::priority_queue<Branch, std::vector<Branch>, std::greater<>> open_;
  bool stopped_ = false;
};

Search::Search(const Scenario& base, const Space& space, StageLevel* level,
               const std::function<bool()>& stop)
    : base_(base), space_(space), level_(*level) {
  space.for_each_layout(base, [&](const Layout& layout) {
    Known known{layout};
    playings_in_memory(base, space, level_, layout, &known.plans, &known.others);
    if (known.plans > 0) known.bound = level_.work_bound(layout);
    if (known.plans + known.others > 0) layouts_.push_back(known);
    stopped_ = stop();
    return !stopped_;
  });
}

SearchResult Search::best(const SearchOptions& options) const {
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
  space.for_each_layout(base, [&](const Layout& layout) {
    for (const Playing& playing : space.playings(base, layout)) {
      for (const Sharing& sharing : space.sharings(base, layout, playing))
        play({layout, playing, sharing});
    }
    return true;
  });
  return {best.found(), counts};
}

}  // namespace tandem
