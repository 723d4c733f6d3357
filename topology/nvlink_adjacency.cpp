// Packs rings into an NVLink adjacency, as NCCL searches for channels. In: the links of each pair
// of GPUs. Out: how many rings fit. The search is a branch and bound over edge-disjoint Hamiltonian
// cycles. It is exhaustive for the links of real machines; with very many links it ends after
// kMostRingSteps, and the rings that it has found by then count.
#include "topology/nvlink_adjacency.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tandem {
namespace {

constexpr std::size_t kMostGpus = 8;  // more would make the exhaustive search slow
constexpr int kMostLinksOfPair = 9;   // one digit
// Some milliseconds. A DGX-1 takes 48 steps. A first cycle of 8 GPUs, or that there is none, is
// found within 13,700, as there are 7! orders.
constexpr int kMostRingSteps = 100'000;

// Finds the most cycles through all members that use no link twice. Each cycle is two rings, since
// links have two directions.
class Packing {
 public:
  explicit Packing(NvlinkAdjacency links) : links_(std::move(links)), most_(fewest_links() / 2) {
    pack(0);
  }

  int cycles() const { return best_; }

  int fewest_links() const {
    int fewest = static_cast<int>(kMostGpus) * kMostLinksOfPair;
    for (const std::vector<int>& row : links_) {
      int sum = 0;
      for (const int links : row) sum += links;
      fewest = std::min(fewest, sum);
    }
    return fewest;
  }

 private:
  void pack(int found) {
    best_ = std::max(best_, found);
    if (found + fewest_links() / 2 <= best_) return;
    walk(0, 1, found);
  }

  // Extends the cycle from `here`, and closes it at member 0 once it has all members. The bits of
  // `seen` are the members on it so far. Tries members with most links left first, so that a search
  // that is cut short has found nearly the most cycles.
  void walk(std::size_t here, unsigned seen, int found) {
    if (best_ == most_ || ++steps_ > kMostRingSteps) return;
    const bool has_all = seen == (1U << links_.size()) - 1;
    if (has_all && links_[here][0] > 0) {
      take(here, 0, 1);
      pack(found + 1);
      take(here, 0, -1);
    }
    if (has_all) return;
    for (int left = kMostLinksOfPair; left > 0; --left) {
      for (std::size_t next = 1; next < links_.size(); ++next) {
        const bool is_seen = (seen >> next & 1) != 0;
        if (is_seen || links_[here][next] != left) continue;
        take(here, next, 1);
        walk(next, seen | 1U << next, found);
        take(here, next, -1);
      }
    }
  }

  void take(std::size_t a, std::size_t b, int links) {
    links_[a][b] -= links;
    links_[b][a] -= links;
  }

  NvlinkAdjacency links_;
  int most_ = 0;  // a cycle takes two links of each member
  int best_ = 0, steps_ = 0;
};

// Says whether every pair of GPUs has so many links. Eight GPUs then have a ring for each of a
// GPU's seven directed links (Tillson, "A Hamiltonian decomposition of K*2m", 1980). Packing finds
// only six, because it takes each cycle in both directions.
bool joins_all(const NvlinkAdjacency& among, int links) {
  for (std::size_t i = 0; i < among.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (among[i][j] != links) return false;
  return links > 0;
}

// Returns how many rings fit among these GPUs; for two GPUs, their links.
int rings(const NvlinkAdjacency& adjacency, std::span<const int> places) {
  NvlinkAdjacency among;
  for (const int from : places) {
    std::vector<int>& row = among.emplace_back();
    for (const int to : places) row.push_back(adjacency[from][to]);
  }
  const int links = among[0][1];
  if (places.size() == 2) return std::max(1, links);
  if (places.size() == kMostGpus && joins_all(among, links)) return 7 * links;
  const Packing packing(std::move(among));
  // If no cycle closes, as in a chain a - b - c, a ring goes there and back: a b c b. In it b
  // relays between its neighbours. Each ring takes a link of each member, in both directions, so
  // the member with the fewest links limits the rings.
  return packing.cycles() > 0 ? 2 * packing.cycles() : std::max(1, packing.fewest_links());
}

}  // namespace

Result<NvlinkAdjacency> parse_nvlink_adjacency(std::string_view text) {
  NvlinkAdjacency adjacency;
  for (std::size_t begin = 0; begin < text.size(); begin = text.find_first_not_of(' ', begin)) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    std::vector<int>& row = adjacency.emplace_back();
    for (const char digit : text.substr(begin, end - begin)) row.push_back(digit - '0');
    begin = end;
  }
  const Error wrong{
      fmt::format("found links '{}', expected for each of at most {} GPUs its links "
                  "to each, as in '0222 2022 2202 2220'",
                  text, kMostGpus)};
  if (adjacency.size() > kMostGpus) return wrong;
  for (std::size_t i = 0; i < adjacency.size(); ++i) {
    if (adjacency[i].size() != adjacency.size() || adjacency[i][i] != 0) return wrong;
    int sum = 0;
    for (std::size_t j = 0; j < adjacency.size(); ++j) {
      if (adjacency[i][j] < 0 || adjacency[i][j] > kMostLinksOfPair ||
          adjacency[j].size() != adjacency.size() || adjacency[i][j] != adjacency[j][i])
        return wrong;
      sum += adjacency[i][j];
    }
    if (sum == 0) return wrong;
  }
  return adjacency;
}

double nvlink_rate(const NvlinkAdjacency& adjacency, std::span<const int> places) {
  int best = 0;
  for (const std::vector<int>& row : adjacency)
    best = std::max(best, *std::ranges::max_element(row));
  return static_cast<double>(rings(adjacency, places)) / best;
}

}  // namespace tandem
