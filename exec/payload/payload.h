// Payload: the pseudorandom words (floats) that test messages hold. A receiver computes the words
// that it expects, so a message from the wrong op or rank is found. Words are whole numbers from 0
// to 255, so sums over up to 65,536 ranks are exact in fp32.
#pragma once

#include <cstdint>
#include <span>

#include "base/units.h"
#include "schedule/program/program.h"

namespace tandem {

// Returns the key from which a message's words are computed: a hash of the communicator, the
// iteration, and the op's kind of communication, microbatch and part. So the ops of all members of
// one communication have the same key.
std::uint64_t payload_key(std::uint64_t seed, int iteration, std::int32_t communicator,
                          const Op& op);

// Returns how many words `bytes` bytes need; at least one.
std::int64_t payload_words(Bytes bytes);

// Returns word i of the data that `member` of the communicator contributes. In an all-to-all or a
// reduce-scatter the data is the whole array that the member holds, with a block for each member.
float payload_word(std::uint64_t key, int member, std::int64_t i);

// Sets words[i] = payload_word(key, member, first + i).
void fill(std::span<float> words, std::uint64_t key, int member, std::int64_t first = 0);

// Returns how many of words[i] are not payload_word(key, member, first + i).
std::int64_t wrong_words(std::span<const float> words, std::uint64_t key, int member,
                         std::int64_t first = 0);

// Returns how many of words[i] are not the sum of payload_word(key, member, first + i) over members
// 0 to members - 1.
std::int64_t wrong_sums(std::span<const float> words, std::uint64_t key, int members,
                        std::int64_t first = 0);

}  // namespace tandem
