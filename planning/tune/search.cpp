// Branch and bound, best bound first, as search.h describes it. In: a space of plans. Out: the
// fastest ones. Branches wait in three priority queues: cuts, bounds of layouts, plans. A round
// takes branches of the queue with the lowest bound, shares them among the threads, and merges what
// they find in a fixed order.
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
auto kind_of(const Found& found) {
  const Layout& l = found.candidate.layout;
  return std::tuple(l.tp, l.cp, l.ep, l.pp, l.vpp, l.dp, found.candidate.playing.order);
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
    const auto same = std::ranges::find(found_, kind_of(found), kind_of);
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

// A part of the space that is still open. It is named by indices into the lists of cuts, of the
// cut's layouts, of the layout's playings and of the playing's sharings; those not chosen are -1.
struct Branch {
  // A branch is a cut, a layout with the bound of that name, a playing, or a plan. A layout gets
  // its four bounds one after another, from the quickest to compute to the tightest
  // (stage_level.h).
  enum Depth : std::uint8_t { Cut, LeastExposed, Exposed, Uncontended, Work, Playing, Plan };

  Nanoseconds bound = 0;
  Depth depth = Cut;
  std::int32_t cut = 0, layout = -1;
  std::int16_t playing = -1, sharing = -1;
  std::int32_t plans = 1;  // number of plans in this branch; 1 for a cut

  // Whether the branch's next bound needs passes to be measured.
  bool measures_next() const { return depth >= LeastExposed && depth < Work; }
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

// A layout's playings of which a plan may fit into memory.
struct FittingPlayings {
  std::vector<Playing> playings;
  std::int32_t may_fit = 0, too_large = 0;  // plans of these playings, and of the others
};

// Says which plans may fit into a GPU's memory. Layouts that differ in the micro batch alone come
// from the smallest on: plans too large with one are too large with every larger one.
class MemoryFilter {
 public:
  MemoryFilter(const Scenario& base, const Space& space, const StageLevel& level)
      : base_(base), space_(space), level_(level) {}

  FittingPlayings fitting(const Layout& layout, const std::vector<Playing>& playings) {
    Layout key = layout;
    key.micro_batch = 0;
    key.overlap_context = false;
    std::vector<KnownFit>& known = known_[key];
    FittingPlayings found;
    for (const Playing& playing : playings) {
      const std::vector<Sharing> sharings = space_.sharings(base_, layout, playing);
      if (sharings.empty()) continue;
      const bool fits = std::ranges::any_of(sharings, [&](const Sharing& sharing) {
        return may_fit({layout, playing, sharing}, &known);
      });
      (fits ? found.may_fit : found.too_large) += static_cast<std::int32_t>(sharings.size());
      if (fits) found.playings.push_back(playing);
    }
    return found;
  }

 private:
  // The last answer for a class of plans. If they do not fit, it holds for larger micro batches.
  struct KnownFit {
    MemoryClass plans;
    int micro_batch = 0;
    bool fits = true;
  };

  bool may_fit(const Candidate& candidate, std::vector<KnownFit>* known) const {
    const auto& [layout, playing, sharing] = candidate;
    const OrderTraits& order = traits_of(base_, playing);
    const MemoryClass plans{order.placement.rank_of, order.chains, sharing.zero, sharing.hsdp_shard,
                            sharing.zero_hpz};
    auto last = std::ranges::find(*known, plans, &KnownFit::plans);
    if (last == known->end()) last = known->insert(last, {plans});
    if (last->fits && last->micro_batch != layout.micro_batch)
      *last = {plans, layout.micro_batch, level_.fits(candidate, level_.memory_floor(candidate))};
    return last->fits;
  }

  const Scenario& base_;
  const Space& space_;
  const StageLevel& level_;
  std::map<Layout, std::vector<KnownFit>> known_;  // by layout without micro batch and overlap
};

}  // namespace

class BranchAndBound {
 public:
  BranchAndBound(Search& search, const SearchOptions& options)
      : search_(search), options_(options), best_(options.keep) {}

  SearchResult run() {
    for (const Found& found : options_.known) best_.add(found);
    for (std::size_t i = 0; i < search_.cuts_.size(); ++i) {
      const Search::Cut& cut = search_.cuts_[i];
      if (cut.holds_state) push({.bound = cut.bound, .cut = static_cast<std::int32_t>(i)});
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
    for (Branches& branches : open_)
      for (; !branches.empty(); branches.pop()) count_unexpanded(branches.top());
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
    return MemoryFilter(search_.base_, search_.space_, level)
        .fitting(layout, search_.space_.playings(search_.base_, layout))
        .playings;
  }

  // Branches of a queue take about equally long each, so that threads share a round well.
  enum BranchQueue : std::uint8_t { Cuts, Bounds, Plans };
  // The most branches of a round, by queue. Few plans: each that is played may rule out others.
  static constexpr int kAtOnce[] = {64, 4096, 32};

  static BranchQueue queue_of(const Branch& branch) {
    if (branch.depth == Branch::Cut) return Cuts;
    return branch.depth <= Branch::Work ? Bounds : Plans;
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
      if (round[i].measures_next()) {
        const Layout measured = search_.levels_.front().canonical(known_layout(round[i]).layout);
        share = share_of.try_emplace(measured, share).first->second;
      }
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
    const auto expand_share = [&](int thread, std::size_t share) {
      for (const std::size_t i : shares[share]) {
        if (!options_.is_late()) expansions[i] = expanded(round[i], &search_.levels_[thread]);
        if (options_.is_late()) expansions[i] = {.is_late = true};
      }
    };
    share_among_threads(static_cast<int>(search_.levels_.size()), shares.size(), expand_share);
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

  // Replaces a branch by those of the next depth, or plays it.
  Expansion expanded(const Branch& branch, StageLevel* level) const {
    if (branch.depth == Branch::Cut) return layouts_of_cut(branch.cut, level);
    const Layout& layout = known_layout(branch).layout;
    if (branch.measures_next()) return {{with_layout_bound(branch, layout, level)}};
    const std::vector<Playing> kept = playings(layout, *level);
    if (branch.depth == Branch::Work) return playings_of_layout(branch, kept, level);
    const Playing& playing = kept[branch.playing];
    if (branch.depth == Branch::Playing) return play_order(branch, playing, level);
    const Candidate candidate{layout, playing, sharings(layout, playing)[branch.sharing]};
    const Result<Order> order = level->order_of(candidate);
    CHECK(order.ok());  // play_order() has played it
    Expansion expansion;
    play(candidate, *order, level, &expansion);
    return expansion;
  }

  // Returns the same branch with the layout's next tighter bound.
  static Branch with_layout_bound(Branch branch, const Layout& layout, StageLevel* level) {
    const auto tightened = [&](Branch::Depth depth, Nanoseconds bound) {
      branch.depth = depth;
      branch.bound = std::max(branch.bound, bound);
      return branch;
    };
    // Without recompute, the exposed bound is the same as the one so far.
    if (branch.depth == Branch::LeastExposed && layout.recompute != Recompute::None)
      return tightened(Branch::Exposed, level->exposed_bound(layout));
    if (branch.depth < Branch::Uncontended)
      return tightened(Branch::Uncontended, level->uncontended_bound(layout));
    return tightened(Branch::Work, level->work_bound(layout));
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
      expansion.branches.push_back({.bound = level->least_exposed_bound(known.layout),
                                    .depth = Branch::LeastExposed,
                                    .cut = cut_index,
                                    .layout = static_cast<std::int32_t>(i),
                                    .plans = known.may_fit});
    }
    return expansion;
  }

  // Returns a branch for each playing. Its bound is the lowest of its plans' bounds.
  Expansion playings_of_layout(const Branch& branch, const std::vector<Playing>& playings,
                               StageLevel* level) const {
    const Layout& layout = known_layout(branch).layout;
    Expansion expansion;
    for (const Playing& playing : playings) {
      const RankEnds ends = level->ends_bound(layout, playing);
      const std::vector<Sharing> all = sharings(layout, playing);
      Nanoseconds least = INT64_MAX;
      for (const Sharing& sharing : all)
        least = std::min(least, level->data_bound({layout, playing, sharing}, ends));
      const auto index = static_cast<std::int16_t>(expansion.branches.size());
      expansion.branches.push_back({least, Branch::Playing, branch.cut, branch.layout, index,
                                    /*sharing=*/-1, static_cast<std::int32_t>(all.size())});
    }
    return expansion;
  }

  // Returns a branch for each plan of a playing that fits into memory with this order. `all`: the
  // playing's sharings.
  std::vector<Branch> plans_in_memory(const Branch& branch, const Playing& playing,
                                      const std::vector<Sharing>& all, const Order& order,
                                      const StageLevel& level) const {
    std::vector<Branch> plans;
    // By ZeRO's stage and the GPUs that it cuts over: memory depends on nothing else of a sharing.
    std::map<std::tuple<int, int, int>, bool> known_fits;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Candidate candidate{known_layout(branch).layout, playing, all[i]};
      const auto [fits, is_new] =
          known_fits.try_emplace({all[i].zero, all[i].hsdp_shard, all[i].zero_hpz});
      if (is_new) fits->second = level.fits(candidate, level.memory(candidate, order));
      if (fits->second)
        plans.push_back({/*bound=*/0, Branch::Plan, branch.cut, branch.layout, branch.playing,
                         static_cast<std::int16_t>(i)});
    }
    return plans;
  }

  // Opens a playing: plays its order without data parallelism, which gives a tighter bound of each
  // plan; then plays the plan with the lowest bound. The other plans become branches.
  Expansion play_order(const Branch& branch, const Playing& playing, StageLevel* level) const {
    const Layout& layout = known_layout(branch).layout;
    const std::vector<Sharing> all = sharings(layout, playing);
    const Candidate any{layout, playing, all.front()};
    const Result<Order> order = level->order_of(any);
    if (!order.ok()) return {.counts = {.unplayable = branch.plans}};
    std::vector<Branch> plans = plans_in_memory(branch, playing, all, *order, *level);
    const auto count = static_cast<std::int64_t>(plans.size());
    Expansion expansion{.counts = {.memory = branch.plans - count}};
    if (plans.empty()) return expansion;
    // A single plan is played at once; for several it pays to play the order for a bound first.
    const bool plays_ranks = layout.pp > 1 && plans.size() > 1;
    const Result<RankEnds> ends =
        plays_ranks ? level->play_ranks(any, *order) : level->ends_bound(layout, playing);
    expansion.counts.orders = plays_ranks ? 1 : 0;
    if (!ends.ok()) {
      expansion.counts.unplayable = count;
      return expansion;
    }
    for (Branch& plan : plans)
      plan.bound = level->data_bound({layout, playing, all[plan.sharing]}, *ends);
    const auto likeliest = std::ranges::min_element(plans, {}, &Branch::bound);
    if (likeliest->bound <= best_.limit()) {
      play({layout, playing, all[likeliest->sharing]}, *order, level, &expansion);
      plans.erase(likeliest);
    }
    expansion.branches = std::move(plans);
    return expansion;
  }

  static void play(const Candidate& candidate, const Order& order, StageLevel* level,
                   Expansion* expansion) {
    const Result<Nanoseconds> played = level->play(candidate, order);
    ++(played.ok() ? expansion->counts.scheduled : expansion->counts.unplayable);
    if (played.ok()) expansion->played = {candidate, *played};
  }

  // Counts a branch that was left open at the end: its bound was too high, or there was no time.
  // kTooSlow: by Branch::Depth.
  void count_unexpanded(const Branch& branch) {
    constexpr std::int64_t SearchCounts::*kTooSlow[] = {
        &SearchCounts::cuts_work, &SearchCounts::work,     &SearchCounts::work, &SearchCounts::work,
        &SearchCounts::work,      &SearchCounts::pipeline, &SearchCounts::data};
    std::int64_t SearchCounts::*count = kTooSlow[branch.depth];
    if (stopped_)
      count = branch.depth == Branch::Cut ? &SearchCounts::cuts_left : &SearchCounts::left;
    counts_.*count += branch.plans;
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
  MemoryFilter filter(base_, space_, level);
  std::map<std::pair<int, int>, std::vector<const OrderTraits*>> orders;  // by vpp and micro batch
  for (const Layout& layout : space_.layouts(base_, cut->cut)) {
    const auto [found, is_new] = orders.try_emplace({layout.vpp, layout.micro_batch});
    if (is_new) found->second = space_.orders(base_, layout);
    const FittingPlayings fitting =
        filter.fitting(layout, space_.playings(base_, layout, found->second));
    if (fitting.may_fit > 0) {
      layouts.push_back({layout, fitting.may_fit, fitting.too_large});
    } else {
      too_large += fitting.too_large;
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
