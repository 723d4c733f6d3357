// PayloadLayout: the words that a rank gives in a communication, and the words that it must
// receive.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "schedule/program/program.h"

namespace tandem {

// Consecutive words of a buffer, and the payload that they hold: word `offset + i` of the buffer is
// payload_word(key, member, first + i), or the sum of these over all members if `member` is kSum.
struct PayloadPiece {
  static constexpr int kSum = -1;
  std::int64_t offset = 0;
  std::int64_t words = 0;
  int member = 0;
  std::int64_t first = 0;
};

// The buffers of one rank in an op: their sizes, and the payload that they hold. The rank fills all
// of `given`. `taken` has the words that it can check.
struct PayloadLayout {
  std::int64_t give_words = 0;
  std::int64_t take_words = 0;
  std::vector<PayloadPiece> given;
  std::vector<PayloadPiece> taken;
};

// Returns the layout for an op. `own`: the rank's place among the communicator's `members` members.
PayloadLayout payload_layout(const Op& op, int members, int own);

// Returns the first and the last kSampleWords words of each piece.
constexpr std::int64_t kSampleWords = 256;
std::vector<PayloadPiece> sampled(const std::vector<PayloadPiece>& pieces);

void fill_buffer(std::span<float> buffer, std::uint64_t key,
                 const std::vector<PayloadPiece>& pieces);

// Returns how many words of the buffer differ from the pieces' payload.
std::int64_t wrong_in_buffer(std::span<const float> buffer, std::uint64_t key, int members,
                             const std::vector<PayloadPiece>& pieces);

}  // namespace tandem
