// SizeSteps: the numbers of nodes that a search tries, one after another, to find the fewest on
// which jobs are in time. Each depends on the times of those tried before.
#pragma once

#include <optional>
#include <vector>

namespace tandem {

// A number of nodes that was tried, and the days that it took, or its share of the days that it may
// take; infinity: no plan.
struct TriedSize {
  int nodes = 0;
  double days = 0;
};

// Return the nearest number of nodes not above, or not below, that is tried: those of at most 5
// significant bits, 16, 17, ... 31, 32, 34, ... 62, 64, 68, in steps of 3 to 6 %.
int size_down(int nodes);
int size_up(int nodes);

// Return the largest number not above `nodes` that is a power of two, or that is a power of two
// times 1, 3, 5, 9 or 15. Models are cut well over such numbers.
int power_of_two_down(int nodes);
int even_down(int nodes);

// Returns the largest untried number of at most `nodes` over which models are cut well, and that
// may take at most `days`; nothing: there is none. The largest even_down() always may. A smaller
// one may if the fewest node-days of all numbers tried from it on, over 1.1, are in time on it. For
// example, if 96 nodes take 50 days, or 4800 node-days, 64 nodes may take 4800 / 1.1 / 64 = 68.
std::optional<int> even_within(const std::vector<TriedSize>& tried, double days, int nodes);

// Returns the next number of nodes to try, to find the fewest that take at most `days`; nothing:
// they are found, or `most` takes longer. Brackets the number between one that is late and one in
// time, and interpolates as if days fell as a power of nodes. Then tries even_within(). If a number
// has no plan, tries those just below it over which models are cut well. REQUIRES: `guess` and
// `most` are at least 1.
std::optional<int> next_size(const std::vector<TriedSize>& tried, double days, int guess, int most);

// Returns the least tried number that takes at most `days`.
std::optional<int> least_in_time(const std::vector<TriedSize>& tried, double days);

// Returns a batch that differs from `batch` by at most the share `tolerance`, and can be cut over
// as many of the GPUs as possible: a multiple of the odd part of `gpus`, or of its largest divisor
// that has a multiple so near; then of as many twos as possible. For 1024 and 96 GPUs: 96 * 11 =
// 1056.
int even_batch(int batch, int gpus, double tolerance);

}  // namespace tandem
