// Packing: puts sequences of many lengths into bins of a bounded number of tokens, and bins on
// replicas.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "schedule/lowering/microbatch_sizes.h"

namespace tandem {

// A bin: the tokens of each of its sequences.
using Bin = std::vector<int>;

// Reads the column `length` of a CSV file, in its order. Errors name file and line: no such column,
// a column beside it, not an integer, a length that is not from 1 to `longest`; `expected` names
// that limit.
Result<std::vector<int>> read_lengths(const std::string& path, int longest,
                                      const std::string& expected);

std::int64_t tokens_of(const Bin& bin);

// Returns the bin's tokens, and the sum of its sequences' squared lengths, as shares of those of
// one sequence of `limit` tokens. Attention's work grows with the squares.
MicrobatchSize size_of(const Bin& bin, int limit);

// Places sequences longest first, each into the first bin with room. Takes at most 11/9 n + 6/9
// bins, where n are the fewest possible (Dosa 2007). REQUIRES: no length above the limit.
std::vector<Bin> first_fit_decreasing(std::vector<int> lengths, int limit);

// Packs the sequences into this number of bins, none above the limit, so that the costliest bin is
// cheap. Places sequences longest first, each into the cheapest bin with room; if one fits nowhere,
// starts again with first_fit_decreasing. Then moves or swaps sequences of the costliest bin as
// long as that helps. REQUIRES: at least as many bins as first_fit_decreasing gives, at most as
// many as sequences.
std::vector<Bin> pack_into(std::vector<int> lengths, int bins, int limit, const SizeCost& cost);

// Returns the bins of each replica, equally many of them: from the costliest bin on, each goes to
// the cheapest replica that lacks one. REQUIRES: the replicas divide the bins.
std::vector<std::vector<Bin>> deal_to_replicas(std::vector<Bin> bins, int replicas, int limit,
                                               const SizeCost& cost);

}  // namespace tandem
