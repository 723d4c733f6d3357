// Payload: the words that messages hold, made so that a wrong pairing is found. Words are whole
// numbers from 0 to 255 as floats: sums over 65,536 ranks are exact.
#pragma once

#include <cstdint>
#include <span>

#include "base/units.h"
#include "schedule/program/program.h"

namespace tandem {

// Returns the key of a message: it depends on the communicator, the iteration, and the op's kind of
// traffic, microbatch and part. Two ops that may match have the same key.
std::uint64_t payload_key(std::uint64_t seed, int iteration, std::int32_t communicator,
                          const Op& op);

// Returns how many floats hold `bytes`; at least one.
std::int64_t payload_words(Bytes bytes);

// Returns word i of what `member` of the communicator contributes. In an all-to-all and the like
// that is word i of the whole array that the member holds.
float payload_word(std::uint64_t key, int member, std::int64_t i);

// Sets words[i] = payload_word(key, member, first + i).
void fill(std::span<float> words, std::uint64_t key, int member, std::int64_t first = 0);

// Returns how many of words[i] are not payload_word(key, member, first + i).
std::int64_t wrong_words(std::span<const float> words, std::uint64_t key, int member,
                         std::int64_t first = 0);

// Returns how many of words[i] are not the sum of payload_word(key, member, first + i) over
// `members`.
std::int64_t wrong_sums(std::span<const float> words, std::uint64_t key, int members,
                        std::int64_t first = 0);

}  // namespace tandem
