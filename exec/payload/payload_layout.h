// PayloadLayout: which words of a message a rank fills, and which it can check.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "schedule/program/program.h"

namespace tandem {

// Words of a buffer and what they hold: word `offset + i` is payload_word(key, member, first + i),
// or the sum of that over all members if `member` is kSum.
struct PayloadPiece {
  static constexpr int kSum = -1;
  std::int64_t offset = 0;
  std::int64_t words = 0;
  int member = 0;
  std::int64_t first = 0;
};

// How many words a rank gives and takes in an op, and what they hold.
struct PayloadLayout {
  std::int64_t give_words = 0;
  std::int64_t take_words = 0;
  std::vector<PayloadPiece> given;
  std::vector<PayloadPiece> taken;
};

// `own`: the rank's place among `members`.
PayloadLayout payload_layout(const Op& op, int members, int own);

// Returns the first and the last kSampleWords words of each piece.
constexpr std::int64_t kSampleWords = 256;
std::vector<PayloadPiece> sampled(const std::vector<PayloadPiece>& pieces);

void fill_buffer(std::span<float> buffer, std::uint64_t key,
                 const std::vector<PayloadPiece>& pieces);

// Returns how many words are not what the pieces say.
std::int64_t wrong_in_buffer(std::span<const float> buffer, std::uint64_t key, int members,
                             const std::vector<PayloadPiece>& pieces);

}  // namespace tandem
