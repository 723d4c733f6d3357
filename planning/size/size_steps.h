// SizeSteps: which numbers of nodes a search tries. It is given what earlier ones took.
#pragma once

#include <optional>
#include <vector>

namespace tandem {

// A number of nodes that was tried, and the days that it took (p95); infinity: no plan.
struct TriedSize {
  int nodes = 0;
  double days = 0;
};

// Numbers of nodes have at most 5 significant bits, as 16 to 31, 32, 34, ... 62, 64, 68: steps of 3
// to 6 %. Return the nearest that is not above, or not below.
int size_down(int nodes);
int size_up(int nodes);

// Return the largest number that is not above, over which models are cut well: a power of two; or
// one times 1, 3, 5, 9 or 15.
int power_of_two_down(int nodes);
int even_down(int nodes);

// Returns the next number of nodes to try, to find the least that takes at most `days`; nothing:
// found, or `most` takes longer. It brackets, and interpolates as if days fell as a power of nodes.
// Where a number has no plan, it tries those below over which models are cut well.
// REQUIRES: `guess` and `most` are at least 1.
std::optional<int> next_size(const std::vector<TriedSize>& tried, double days, int guess, int most);

// Returns the least tried number that takes at most `days`.
std::optional<int> least_in_time(const std::vector<TriedSize>& tried, double days);

// Returns the batch near `batch`, by the share `tolerance` at most, that can be cut over more of
// the GPUs: a multiple of the odd part of `gpus` (else of its largest divisor that has one there),
// and of as many twos as possible.
int even_batch(int batch, int gpus, double tolerance);

}  // namespace tandem
