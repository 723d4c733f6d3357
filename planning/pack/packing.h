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
// not an integer, a length that is not from 1 to `longest`; `expected` names that limit.
Result<std::vector<int>> read_lengths(const std::string& path, int longest,
                                      const std::string& expected);

std::int64_t tokens_of(const Bin& bin);

// Returns the size as a share of one sequence of `limit` tokens. Attention sees one sequence at a
// time, so its work is the sum of their squares.
MicrobatchSize size_of(const Bin& bin, int limit);

// Places sequences longest first, each into the first bin with room. That takes at most 11/9 of the
// fewest bins, and 6/9 of one more (Dosa 2007). REQUIRES: no length above the limit.
std::vector<Bin> first_fit_decreasing(std::vector<int> lengths, int limit);

// Packs the sequences into this number of bins, none above the limit, so that the costliest bin is
// cheap. They are placed longest first, each into the cheapest bin with room; if one then fits
// nowhere, by first_fit_decreasing. After that the costliest bin moves sequences to other bins or
// swaps them. REQUIRES: at least as many bins as first_fit_decreasing gives, at most as many as
// sequences.
std::vector<Bin> pack_into(std::vector<int> lengths, int bins, int limit, const SizeCost& cost);

// Returns the bins of each replica. Every replica gets equally many: the costliest bin comes first,
// and each goes to the cheapest replica with room. REQUIRES: the replicas divide the bins.
std::vector<std::vector<Bin>> deal_to_replicas(std::vector<Bin> bins, int replicas, int limit,
                                               const SizeCost& cost);

}  // namespace tandem
