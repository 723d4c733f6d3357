// Branch and bound, best bound first. In: a space of plans. Out: the fastest ones. A cut (tp, cp,
// pp, dp, ...) branches into layouts (micro batch, vpp, recompute, ...), a layout into playings
// (order, overlap of transfers), and a playing into plans by their sharing (ZeRO, overlap of
// gradients). Branches wait in three priority queues: cuts, bounds of layouts, plans. A round takes
// branches of the queue with the lowest bound, shares them among the threads, and merges what they
// find in a fixed order. search.h says why the result is that of trying all plans.
#include "planning/tune/search.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>
#include <queue>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/parallel/parallel.h"

namespace tandem {
namespace {

// Returns a plan's kind. The best plans are of different kinds, so that they differ in more than
// details.
auto kind_of(const Candidate& c) {
  const Layout& l = c.layout;
  return std::tuple(l.tp, l.cp, l.ep, l.pp, l.vpp, l.dp, c.playing.order);
}

// The best plans of different kinds, at most `keep`.
class BestPlans {
 public:
  explicit BestPlans(int keep) : keep_(static_cast<std::size_t>(keep)) {}

  // Returns the longest iteration that is still kept.
  Nanoseconds limit() const {
    return found_.size() < keep_ ? INT64_MAX : found_.back().iteration_ns;
  }
  // Adds a plan. Returns whether it is the new first.
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

// A part of the space that is still open: a cut, a layout, a playing, or one plan. It is named by
// indices into the lists of cuts, of the cut's layouts, and so on; those not chosen are negative.
struct Branch {
  // The bounds of a layout, from the quickest to the tightest. A layout gets one after another;
  // until a playing is chosen, `playing` says which one it has.
  enum : std::int16_t { kLeastExposed = -4, kExposed, kUncontended, kTightest };

  Nanoseconds bound = 0;
  std::int32_t cut = 0, layout = -1;
  std::int16_t playing = -1, sharing = -1;
  std::int32_t plans = 1;  // number of plans in this branch; not known of a cut

  bool operator>(const Branch& other) const {
    return std::tie(bound, cut, layout, playing, sharing) >
           std::tie(other.bound, other.cut, other.layout, other.playing, other.sharing);
  }
};

// Plans of a layout with the same memory floor: the least bytes that the fullest GPU needs. They
// have the same stages on the ranks, and the same cuts of the model's state.
struct MemoryClass {
  int (*rank_of)(int stage, int pp, int vpp) = nullptr;
  int chains = 1, zero = 0, hsdp_shard = 0, zero_hpz = 0;

  bool operator==(const MemoryClass&) const = default;
};

// Remembers which plans fit, for layouts that differ in the micro batch alone. Callers go from the
// smallest micro batch on: plans too large with one are too large with every larger one.
struct KnownFit {
  int micro_batch = 0;                 // of the layout tried last
  std::vector<MemoryClass> may_fit;    // with this micro batch
  std::vector<MemoryClass> too_large;  // do not fit with this micro batch or a smaller one
};

// Whether the plan may fit into a GPU's memory. Remembers the answer.
bool may_fit(const Scenario& base, const StageLevel& level, const Candidate& candidate,
             KnownFit* known) {
  const auto& [layout, playing, sharing] = candidate;
  if (known->micro_batch != layout.micro_batch) known->may_fit.clear();
  known->micro_batch = layout.micro_batch;
  const OrderTraits& order = traits_of(playing.order, base.job.order.orders);
  const MemoryClass memory_class{order.placement.rank_of, order.chains, sharing.zero,
                                 sharing.hsdp_shard, sharing.zero_hpz};
  const auto is_in = [&](const std::vector<MemoryClass>& classes) {
    return std::ranges::find(classes, memory_class) != classes.end();
  };
  if (is_in(known->too_large)) return false;
  if (is_in(known->may_fit)) return true;
  const bool fits = level.fits(candidate, level.memory_floor(candidate));
  (fits ? known->may_fit : known->too_large).push_back(memory_class);
  return fits;
}

// Returns the playings of which a plan may fit into memory. Adds the numbers of their plans, and of
// the other playings' plans, to `counts`.
std::vector<Playing> playings_in_memory(const Scenario& base, const Space& space,
                                        const StageLevel& level, const Layout& layout,
                                        const std::vector<Playing>& playings, KnownFit* known,
                                        KnownLayout* counts) {
  std::vector<Playing> kept;
  for (const Playing& playing : playings) {
    const std::vector<Sharing> sharings = space.sharings(base, layout, playing);
    if (sharings.empty()) continue;
    const bool fits = std::ranges::any_of(sharings, [&](const Sharing& sharing) {
      return may_fit(base, level, {layout, playing, sharing}, known);
    });
    (fits ? counts->may_fit : counts->too_large) += static_cast<std::int32_t>(sharings.size());
    if (fits) kept.push_back(playing);
  }
  return kept;
}

}  // namespace

class BranchAndBound {
 public:
  BranchAndBound(Search& search, const SearchOptions& options)
      : search_(search), options_(options), best_(options.keep) {}

  SearchResult run() {
    for (const Found& found : options_.known) best_.add(found);
    for (std::size_t i = 0; i < search_.cuts_.size(); ++i) {
      const Search::Cut& cut = search_.cuts_[i];
      if (cut.holds_state) push({cut.bound, static_cast<std::int32_t>(i)});
      counts_.cuts_memory += cut.holds_state ? 0 : 1;
    }
    stopped_ = !search_.knows_cuts_;
    counts_.cuts_left = stopped_ ? search_.unbounded_cuts_ : 0;
    counts_.cuts = static_cast<std::int64_t>(search_.cuts_.size()) + counts_.cuts_left;
    while (!stopped_ && least_open() <= best_.limit() && least_open() < INT64_MAX) {
      expand(next_round());
      if (!best_.found().empty()) options_.on_bound(best_.found().front(), bound());
    }
    const Nanoseconds final_bound = search_.knows_cuts_ ? bound() : 0;
    for (Branches& branches : open_) {
      for (; !branches.empty(); branches.pop()) count_unexpanded(branches.top());
    }
    const bool complete = search_.knows_cuts_ && counts_.left == 0 && counts_.cuts_left == 0;
    return {best_.found(), counts_, complete, final_bound};
  }

 private:
  using Branches = std::priority_queue<Branch, std::vector<Branch>, std::greater<>>;

  // The outcome of expanding a branch.
  struct Expansion {
    std::vector<Branch> branches;
    std::optional<Found> played;
    SearchCounts counts;
    bool is_late = false;  // there was no time for it
  };

  static Nanoseconds least_of(const Branches& branches) {
    return branches.empty() ? INT64_MAX : branches.top().bound;
  }
  Nanoseconds least_open() const {
    return least_of(*std::ranges::min_element(open_, {}, least_of));
  }
  // Returns a time that no plan of the space beats.
  Nanoseconds bound() const {
    return best_.found().empty() ? least_open()
                                 : std::min(least_open(), best_.found().front().iteration_ns);
  }
  const KnownLayout& known_layout(const Branch& branch) const {
    return search_.cuts_[branch.cut].layouts[branch.layout];
  }
  std::vector<Sharing> sharings(const Layout& layout, const Playing& playing) const {
    return search_.space_.sharings(search_.base_, layout, playing);
  }
  // Returns the playings of which a plan may fit into memory, always in the same order: branches
  // refer to them by their index.
  std::vector<Playing> playings(const Layout& layout, const StageLevel& level) const {
    KnownLayout counts;
    KnownFit known;
    return playings_in_memory(search_.base_, search_.space_, level, layout,
                              search_.space_.playings(search_.base_, layout), &known, &counts);
  }

  // Branches of a queue take about equally long each, so that threads share a round well.
  enum BranchQueue : std::uint8_t { Cuts, Bounds, Plans };
  // The most branches of a round, by queue. Few plans: each that is played may rule out others.
  static constexpr int kAtOnce[] = {64, 4096, 32};

  static BranchQueue queue_of(const Branch& branch) {
    if (branch.layout < 0) return Cuts;
    return branch.playing < 0 ? Bounds : Plans;
  }
  void push(const Branch& branch) { open_[queue_of(branch)].push(branch); }

  // Takes the next branches out of the queue with the lowest bound.
  std::vector<Branch> next_round() {
    Branches& queue = *std::ranges::min_element(open_, {}, least_of);
    const int most = kAtOnce[queue_of(queue.top())];
    std::vector<Branch> round;
    while (!queue.empty() && queue.top().bound <= best_.limit() &&
           static_cast<int>(round.size()) < most && !stopped_) {
      round.push_back(queue.top());
      queue.pop();
      stopped_ = options_.stop();
    }
    return round;
  }

  // Divides a round into shares, as indices into it. A share goes to one thread: branches that need
  // the same measurement are in one share, so that it is made once.
  std::vector<std::vector<std::size_t>> shares_of(const std::vector<Branch>& round) const {
    std::vector<std::vector<std::size_t>> shares;
    std::map<Layout, std::size_t> share_of;  // by the layout that is measured
    for (std::size_t i = 0; i < round.size(); ++i) {
      std::size_t share = shares.size();
      if (round[i].layout >= 0 && round[i].playing < Branch::kTightest)
        share = share_of
                    .try_emplace(search_.levels_.front().canonical(known_layout(round[i]).layout),
                                 share)
                    .first->second;
      if (share == shares.size()) shares.emplace_back();
      shares[share].push_back(i);
    }
    // The longest come first, so that threads end together.
    std::ranges::stable_sort(shares, std::greater<>{}, &std::vector<std::size_t>::size);
    return shares;
  }

  // Expands the branches on all threads and merges the outcomes in the round's order.
  void expand(const std::vector<Branch>& round) {
    std::vector<Expansion> expansions(round.size());
    const std::vector<std::vector<std::size_t>> shares = shares_of(round);
    share_among_threads(static_cast<int>(search_.levels_.size()), shares.size(),
                        [&](int thread, std::size_t share) {
                          for (const std::size_t i : shares[share]) {
                            if (!options_.is_late())
                              expansions[i] = expanded(round[i], &search_.levels_[thread]);
                            if (options_.is_late()) expansions[i] = {.is_late = true};
                          }
                        });
    for (std::size_t i = 0; i < round.size(); ++i) {
      const Expansion& expansion = expansions[i];
      if (expansion.is_late) {
        stopped_ = true;
        push(round[i]);
        continue;
      }
      for (const Branch& branch : expansion.branches) push(branch);
      counts_ += expansion.counts;
      if (expansion.played && best_.add(*expansion.played))
        options_.on_better(best_.found().front());
    }
  }

  // Replaces a branch by those of the next level, or by itself with a tighter bound; or plays it.
  Expansion expanded(const Branch& branch, StageLevel* level) const {
    if (branch.layout < 0) return layouts_of_cut(branch.cut, level);
    const Layout& layout = known_layout(branch).layout;
    if (branch.playing < Branch::kTightest) return {{with_layout_bound(branch, layout, level)}};
    const std::vector<Playing> kept = playings(layout, *level);
    Expansion expansion;
    if (branch.playing < 0) {
      for (std::size_t i = 0; i < kept.size(); ++i)
        expansion.branches.push_back(with_playing_bound(branch, i, kept[i], level));
    } else if (branch.sharing < 0) {
      play_order(branch, kept[branch.playing], level, &expansion);
    } else {
      const Playing& playing = kept[branch.playing];
      const Candidate candidate{layout, playing, sharings(layout, playing)[branch.sharing]};
      const Result<Order> order = level->order_of(candidate);
      CHECK(order.ok());  // play_order() has played it
      play(candidate, *order, level, &expansion);
    }
    return expansion;
  }

  // Returns the same branch with the layout's next tighter bound.
  static Branch with_layout_bound(Branch branch, const Layout& layout, StageLevel* level) {
    ++branch.playing;
    if (branch.playing == Branch::kExposed && layout.recompute == Recompute::None)
      ++branch.playing;  // the bound so far is the same
    Nanoseconds bound = 0;
    if (branch.playing == Branch::kExposed) bound = level->exposed_bound(layout);
    if (branch.playing == Branch::kUncontended) bound = level->uncontended_bound(layout);
    if (branch.playing == Branch::kTightest) bound = level->work_bound(layout);
    branch.bound = std::max(branch.bound, bound);
    return branch;
  }

  // Returns a branch for each layout of a cut. A round has a cut only once, so no two threads list
  // the same cut's layouts.
  Expansion layouts_of_cut(std::int32_t cut_index, StageLevel* level) const {
    Search::Cut& cut = search_.cuts_[cut_index];
    search_.list_layouts(&cut, *level, options_);
    Expansion expansion{.counts = {.enumerated = cut.too_large, .memory = cut.too_large}};
    for (std::size_t i = 0; i < cut.layouts.size(); ++i) {
      const KnownLayout& known = cut.layouts[i];
      if (!options_.wants(known.layout)) continue;
      expansion.counts.enumerated += known.may_fit + known.too_large;
      expansion.counts.memory += known.too_large;
      const Nanoseconds bound = level->least_exposed_bound(known.layout);
      expansion.branches.push_back({bound, cut_index, static_cast<std::int32_t>(i),
                                    Branch::kLeastExposed, /*sharing=*/-1, known.may_fit});
    }
    return expansion;
  }

  // Returns the branch of a playing. Its bound is the lowest of its plans' bounds.
  Branch with_playing_bound(Branch branch, std::size_t index, const Playing& playing,
                            StageLevel* level) const {
    const Layout& layout = known_layout(branch).layout;
    const RankEnds ends = level->ends_bound(layout, playing);
    branch.playing = static_cast<std::int16_t>(index);
    branch.bound = INT64_MAX;
    const std::vector<Sharing> all = sharings(layout, playing);
    branch.plans = static_cast<std::int32_t>(all.size());
    for (const Sharing& sharing : all)
      branch.bound = std::min(branch.bound, level->data_bound({layout, playing, sharing}, ends));
    return branch;
  }

  // Returns a branch for each plan of a playing that fits into memory with this order. `all`: the
  // playing's sharings.
  std::vector<Branch> plans_in_memory(const Branch& branch, const Playing& playing,
                                      const std::vector<Sharing>& all, const Order& order,
                                      const StageLevel& level) const {
    const Layout& layout = known_layout(branch).layout;
    std::vector<Branch> plans;
    // By ZeRO's stage and the GPUs that it cuts over: memory depends on nothing else of a sharing.
    std::map<std::tuple<int, int, int>, bool> known_fits;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Candidate candidate{layout, playing, all[i]};
      const auto [fits, is_new] =
          known_fits.try_emplace({all[i].zero, all[i].hsdp_shard, all[i].zero_hpz});
      if (is_new) fits->second = level.fits(candidate, level.memory(candidate, order));
      if (fits->second)
        plans.push_back(
            {0, branch.cut, branch.layout, branch.playing, static_cast<std::int16_t>(i)});
    }
    return plans;
  }

  // Opens a playing: plays its order without data parallelism, which gives a tighter bound of each
  // plan; then plays the plan with the lowest bound. The other plans become branches.
  void play_order(const Branch& branch, const Playing& playing, StageLevel* level,
                  Expansion* expansion) const {
    const Layout& layout = known_layout(branch).layout;
    const std::vector<Sharing> all = sharings(layout, playing);
    const Result<Order> order = level->order_of({layout, playing, all.front()});
    if (!order.ok()) {
      expansion->counts.unplayable += static_cast<std::int64_t>(all.size());
      return;
    }
    std::vector<Branch> plans = plans_in_memory(branch, playing, all, *order, *level);
    expansion->counts.memory += static_cast<std::int64_t>(all.size() - plans.size());
    if (plans.empty()) return;
    // A single plan is played at once; for several it pays to play the order for a bound first.
    const bool plays_ranks = layout.pp > 1 && plans.size() > 1;
    const Candidate any{layout, playing, all.front()};
    const Result<RankEnds> ends =
        plays_ranks ? level->play_ranks(any, *order) : level->ends_bound(layout, playing);
    expansion->counts.orders += plays_ranks ? 1 : 0;
    if (!ends.ok()) {
      expansion->counts.unplayable += static_cast<std::int64_t>(plans.size());
      return;
    }
    for (Branch& plan : plans)
      plan.bound = level->data_bound({layout, playing, all[plan.sharing]}, *ends);
    const auto likeliest = std::ranges::min_element(plans, {}, &Branch::bound);
    const bool plays = likeliest->bound <= best_.limit();
    for (const Branch& plan : plans) {
      if (!plays || &plan != &*likeliest) expansion->branches.push_back(plan);
    }
    if (plays) play({layout, playing, all[likeliest->sharing]}, *order, level, expansion);
  }

  static void play(const Candidate& candidate, const Order& order, StageLevel* level,
                   Expansion* expansion) {
    const Result<Nanoseconds> played = level->play(candidate, order);
    ++(played.ok() ? expansion->counts.scheduled : expansion->counts.unplayable);
    if (played.ok()) expansion->played = {candidate, *played};
  }

  // Counts a branch that was left open at the end: its bound was too high, or there was no time.
  void count_unexpanded(const Branch& branch) {
    if (branch.layout < 0) {
      ++(stopped_ ? counts_.cuts_left : counts_.cuts_work);
    } else if (stopped_) {
      counts_.left += branch.plans;
    } else if (branch.playing < 0) {
      counts_.work += branch.plans;
    } else if (branch.sharing < 0) {
      counts_.pipeline += branch.plans;
    } else {
      counts_.data += branch.plans;
    }
  }

  Search& search_;
  const SearchOptions& options_;
  BestPlans best_;
  SearchCounts counts_;
  std::array<Branches, 3> open_;  // by BranchQueue
  bool stopped_ = false;
};

SearchCounts& SearchCounts::operator+=(const SearchCounts& more) {
  for (std::int64_t SearchCounts::*count :
       {&SearchCounts::cuts, &SearchCounts::cuts_memory, &SearchCounts::cuts_work,
        &SearchCounts::enumerated, &SearchCounts::memory, &SearchCounts::work,
        &SearchCounts::pipeline, &SearchCounts::data, &SearchCounts::scheduled,
        &SearchCounts::orders, &SearchCounts::unplayable, &SearchCounts::left,
        &SearchCounts::cuts_left})
    this->*count += more.*count;
  return *this;
}

// Computes the bound of a cut, over the micro batches with which its state fits into memory.
Search::Cut Search::with_bound(const Layout& cut, StageLevel* level) const {
  std::vector<Layout> fitting = space_.micro_batches(base_, cut);
  if (fitting.empty()) return {cut, /*holds_state=*/true, INT64_MAX};
  const auto fits = [&](const Layout& layout) {
    return level->fits({layout, {}, {}}, level->state_floor(layout));
  };
  // They grow, and a larger one needs no less memory.
  fitting.erase(std::ranges::partition_point(fitting, fits), fitting.end());
  return {cut, /*holds_state=*/!fitting.empty(), level->cut_bound(fitting)};
}

void Search::find_cuts(const SearchOptions& options) {
  constexpr std::size_t kAtOnce = 128;  // asks whether to stop after each 128 cuts
  cuts_.clear();
  const std::vector<Layout> cuts = space_.cuts(base_);
  std::vector<Cut> found(cuts.size());
  unbounded_cuts_ = static_cast<std::int64_t>(cuts.size());
  for (std::size_t begin = 0; begin < cuts.size(); begin += kAtOnce) {
    if (options.stop()) return;
    share_among_threads(static_cast<int>(levels_.size()), std::min(kAtOnce, cuts.size() - begin),
                        [&](int thread, std::size_t i) {
                          if (!options.is_late())
                            found[begin + i] = with_bound(cuts[begin + i], &levels_[thread]);
                        });
    if (options.is_late()) return;
  }
  // Cuts without a bound have no layout that keeps the rules.
  std::ranges::copy_if(std::move(found), std::back_inserter(cuts_),
                       [](const Cut& cut) { return !cut.holds_state || cut.bound < INT64_MAX; });
  knows_cuts_ = true;
}

// Lists the cut's layouts of which a plan may fit into memory. If the search is late, does nothing.
void Search::list_layouts(Cut* cut, const StageLevel& level, const SearchOptions& options) const {
  if (cut->is_open) return;
  std::vector<KnownLayout> layouts;
  std::int64_t too_large = 0;
  std::map<Layout, KnownFit> known_fits;  // by layout; micro batch and overlap are left out
  std::map<std::pair<int, int>, std::vector<const OrderTraits*>> orders;  // by vpp and micro batch
  for (const Layout& layout : space_.layouts(base_, cut->cut)) {
    KnownLayout known{layout};
    Layout fit_key = layout;
    fit_key.micro_batch = 0;
    fit_key.overlap_context = false;
    const auto [found, is_new] = orders.try_emplace({layout.vpp, layout.micro_batch});
    if (is_new) found->second = space_.orders(base_, layout);
    playings_in_memory(base_, space_, level, layout, space_.playings(base_, layout, found->second),
                       &known_fits[fit_key], &known);
    if (known.may_fit > 0) {
      layouts.push_back(known);
    } else {
      too_large += known.too_large;
    }
    if (options.is_late()) return;
  }
  *cut = {cut->cut, cut->holds_state, cut->bound, /*is_open=*/true, std::move(layouts), too_large};
}

SearchResult Search::best(const SearchOptions& options) {
  if (!knows_cuts_) find_cuts(options);
  return BranchAndBound(*this, options).run();
}

}  // namespace tandem
