// Bin packing with a bounded load. Sequences are placed longest first, each into the cheapest bin
// with room (a greedy list schedule). A local search then lowers the costliest bin by moving and
// swapping sequences.
#include "planning/pack/packing.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/csv.h"

namespace tandem {
namespace {

// Bins with the tokens and the cost of each.
class Bins {
 public:
  Bins(std::vector<Bin> bins, int limit, const SizeCost& cost)
      : bins_(std::move(bins)), limit_(limit), cost_(cost), loads_(bins_.size()) {
    for (int bin = 0; bin < size(); ++bin) update(bin);
  }

  int size() const { return static_cast<int>(bins_.size()); }
  const Bin& operator[](int bin) const { return bins_[bin]; }
  double cost(int bin) const { return loads_[bin].cost; }
  // Orders bins by cost; of two that cost the same, the one with fewer tokens comes first.
  std::pair<double, double> rank(int bin) const {
    return {loads_[bin].cost, loads_[bin].size.tokens};
  }
  std::vector<Bin> take() { return std::move(bins_); }

  int costliest() const {
    return static_cast<int>(std::ranges::max_element(loads_, {}, &Load::cost) - loads_.begin());
  }
  // Returns the `count` cheapest bins, or all; of equal bins the first ones.
  std::vector<int> cheapest(int count) const {
    std::vector<int> order(bins_.size());
    std::iota(order.begin(), order.end(), 0);
    const auto end = order.begin() + std::min(count, size());
    std::ranges::partial_sort(order, end, {},
                              [&](int bin) { return std::pair(loads_[bin].cost, bin); });
    order.erase(end, order.end());
    return order;
  }

  bool has_room(int bin, int length) const { return loads_[bin].tokens + length <= limit_; }
  // Returns the cost of a bin if a sequence of `in` tokens comes in and one of `out` tokens goes
  // out; 0: none. Returns nothing if the bin has no room.
  std::optional<double> changed(int bin, int in, int out) const {
    const Load& load = loads_[bin];
    if (!has_room(bin, in - out)) return std::nullopt;
    const double more = static_cast<double>(in) / limit_, less = static_cast<double>(out) / limit_;
    return cost_.of(
        {load.size.tokens + more - less, load.size.squares + more * more - less * less});
  }

  void add(int bin, int length) {
    bins_[bin].push_back(length);
    update(bin);
  }
  void remove(int bin, int length) {
    bins_[bin].erase(std::ranges::find(bins_[bin], length));
    update(bin);
  }

 private:
  struct Load {
    std::int64_t tokens = 0;
    MicrobatchSize size;
    double cost = 0;
  };

  void update(int bin) {
    const MicrobatchSize size = size_of(bins_[bin], limit_);
    loads_[bin] = {tokens_of(bins_[bin]), size, cost_.of(size)};
  }

  std::vector<Bin> bins_;
  int limit_;
  SizeCost cost_;
  std::vector<Load> loads_;
};

// Places each sequence into the cheapest bin with room, longest first. Returns nothing if a
// sequence fits into no bin.
std::optional<Bins> cheapest_first(const std::vector<int>& lengths, int count, int limit,
                                   const SizeCost& cost) {
  Bins bins(std::vector<Bin>(count), limit, cost);
  for (const int length : lengths) {
    int best = -1;
    for (int bin = 0; bin < count; ++bin) {
      if ((best < 0 || bins.rank(bin) < bins.rank(best)) && bins.has_room(bin, length)) best = bin;
    }
    if (best < 0) return std::nullopt;
    bins.add(best, length);
  }
  return bins;
}

// Places sequences by first fit, longest first. Each bin that stays empty gets the shortest
// sequence of the bin that has the most sequences.
Bins first_fit(const std::vector<int>& lengths, int count, int limit, const SizeCost& cost) {
  std::vector<Bin> bins = first_fit_decreasing(lengths, limit);
  CHECK(static_cast<int>(bins.size()) <= count);
  while (static_cast<int>(bins.size()) < count) {
    Bin& most = *std::ranges::max_element(bins, {}, &Bin::size);
    const int moved = most.back();
    most.pop_back();
    bins.push_back({moved});
  }
  return {std::move(bins), limit, cost};
}

// A change of two bins: a sequence of `out` tokens goes from the costliest bin to another one, and
// a sequence of `in` tokens comes back; 0: none comes back.
struct BinChange {
  int out = 0, in = 0;
};

// Returns the change of `from` and `to` that lowers the cost of the costlier one most; nothing if
// none lowers it.
std::optional<BinChange> best_change(const Bins& bins, int from, int to) {
  std::optional<BinChange> best;
  double highest = bins.cost(from) * (1 - 1e-9);  // a gain must be more than rounding
  const auto look_at = [&](int out, int in) {
    const auto left = bins.changed(from, in, out), there = bins.changed(to, out, in);
    if (!left || !there || std::max(*left, *there) >= highest) return;
    highest = std::max(*left, *there);
    best = {out, in};
  };
  for (const int out : bins[from]) {
    if (bins[from].size() > 1) look_at(out, 0);
    for (const int in : bins[to]) {
      if (in < out) look_at(out, in);
    }
  }
  return best;
}

// Lowers the cost of the costliest bin by changes with the 16 cheapest ones, until none helps or
// there were four for each bin.
void lower_costliest(Bins* bins) {
  constexpr int kPartners = 16;
  for (int step = 0; step < 4 * bins->size(); ++step) {
    const int from = bins->costliest();
    std::optional<BinChange> change;
    for (const int to : bins->cheapest(kPartners)) {
      if (to != from) change = best_change(*bins, from, to);
      if (!change) continue;
      bins->remove(from, change->out);
      bins->add(to, change->out);
      if (change->in == 0) break;
      bins->remove(to, change->in);
      bins->add(from, change->in);
      break;
    }
    if (!change) return;
  }
}

}  // namespace

Result<std::vector<int>> read_lengths(const std::string& path, int longest,
                                      const std::string& expected) {
  ASSIGN_OR_RETURN(const CsvTable table, CsvTable::read(path));
  if (!table.has("length"))
    return Error::at(fmt::format("{}:1", path),
                     "found no column 'length', expected one with the tokens of each sequence");
  // Refuses other columns: one that says how often a length comes would be ignored.
  for (const std::string& column : table.columns()) {
    if (column != "length")
      return Error::at(fmt::format("{}:1", path),
                       fmt::format("found the column '{}', expected 'length' alone: a row is one "
                                   "sequence, in training order",
                                   column));
  }
  std::vector<int> lengths;
  for (int row = 0; row < table.size(); ++row) {
    ASSIGN_OR_RETURN(const std::int64_t length, table.integer(row, "length"));
    if (length < 1 || length > longest)
      return table.error(row, fmt::format("column 'length': found {}, expected 1 to {}, {}", length,
                                          longest, expected));
    lengths.push_back(static_cast<int>(length));
  }
  return lengths;
}

std::int64_t tokens_of(const Bin& bin) {
  return std::accumulate(bin.begin(), bin.end(), std::int64_t{0});
}

MicrobatchSize size_of(const Bin& bin, int limit) {
  MicrobatchSize size{0, 0};
  for (const int length : bin) {
    const double share = static_cast<double>(length) / limit;
    size.tokens += share;
    size.squares += share * share;
  }
  return size;
}

std::vector<Bin> first_fit_decreasing(std::vector<int> lengths, int limit) {
  std::ranges::sort(lengths, std::greater<>());
  std::vector<Bin> bins;
  std::vector<int> room;
  for (const int length : lengths) {
    std::size_t bin = 0;
    while (bin < bins.size() && room[bin] < length) ++bin;
    if (bin == bins.size()) {
      bins.emplace_back();
      room.push_back(limit);
    }
    bins[bin].push_back(length);
    room[bin] -= length;
  }
  return bins;
}

std::vector<Bin> pack_into(std::vector<int> lengths, int bins, int limit, const SizeCost& cost) {
  CHECK(bins <= static_cast<int>(lengths.size()));
  std::ranges::sort(lengths, std::greater<>());
  std::optional<Bins> packed = cheapest_first(lengths, bins, limit, cost);
  if (!packed) packed = first_fit(lengths, bins, limit, cost);
  lower_costliest(&*packed);
  return packed->take();
}

std::vector<std::vector<Bin>> deal_to_replicas(std::vector<Bin> bins, int replicas, int limit,
                                               const SizeCost& cost) {
  CHECK(bins.size() % replicas == 0);
  const std::size_t each = bins.size() / replicas;
  std::ranges::stable_sort(bins, std::greater<>(),
                           [&](const Bin& bin) { return cost.of(size_of(bin, limit)); });
  std::vector<std::vector<Bin>> dealt(replicas);
  std::vector<double> costs(replicas);
  for (Bin& bin : bins) {
    int best = -1;
    for (int replica = 0; replica < replicas; ++replica) {
      if (dealt[replica].size() < each && (best < 0 || costs[replica] < costs[best]))
        best = replica;
    }
    costs[best] += cost.of(size_of(bin, limit));
    dealt[best].push_back(std::move(bin));
  }
  return dealt;
}

}  // namespace tandem
