// Packing: sequences of many lengths into bins of a bounded number of tokens, and bins over
// replicas.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "schedule/lowering/microbatch_sizes.h"

namespace tandem {

// The tokens of each of its sequences.
using Bin = std::vector<int>;

// The column `length` of a CSV file, in its order. Errors name file and line: no such column, no
// integer, a length that is not from 1 to `longest`; `expected` says why no more than that.
Result<std::vector<int>> read_lengths(const std::string& path, int longest,
                                      const std::string& expected);

std::int64_t tokens_of(const Bin& bin);

// As a share of one sequence of `limit` tokens. Attention sees a sequence at a time, so its work is
// the sum of their squares.
MicrobatchSize size_of(const Bin& bin, int limit);

// The longest first, each into the first bin with room: at most 11/9 of the fewest bins, and 6/9 of
// one more (Dosa 2007). REQUIRES: no length above the limit.
std::vector<Bin> first_fit_decreasing(std::vector<int> lengths, int limit);

// Into so many bins, none above the limit, the costliest made cheap: the longest first, each into
// the cheapest bin with room; where one then fits nowhere, as first_fit_decreasing has them; and
// then sequences that the costliest bin moves to others, or changes for theirs. REQUIRES: at least
// as many bins as first_fit_decreasing gives, at most as many as sequences.
std::vector<Bin> pack_into(std::vector<int> lengths, int bins, int limit, const SizeCost& cost);

// The bins of each replica, equally many, costliest first, each to the cheapest replica with room.
// REQUIRES: bins that the replicas divide.
std::vector<std::vector<Bin>> deal(std::vector<Bin> bins, int replicas, int limit,
                                   const SizeCost& cost);

}  // namespace tandem
