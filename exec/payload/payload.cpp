#include "exec/payload/payload.h"

#include <algorithm>
#include <array>

#include "base/random.h"

namespace tandem {
namespace {

constexpr std::int64_t kWordsADraw = 8;    // a draw is 64 random bits: a byte for each word
constexpr std::size_t kBlockWords = 1024;  // words that are computed and compared at once

// A member's words, by a counter-based generator: draw i is a hash of the key, the member and i, so
// any rank can compute any word.
class MemberWords {
 public:
  MemberWords(std::uint64_t key, int member)
      : base_(scatter(key + scatter(static_cast<std::uint64_t>(member)))) {}

  // Returns draw `number`: eight words from word 8 * number on, the first in the lowest byte.
  std::uint64_t draw(std::int64_t number) const {
    return scatter(base_ + static_cast<std::uint64_t>(number));
  }

 private:
  std::uint64_t base_;
};

// Returns a draw's word: byte number `place`, from the lowest.
float word_of(std::uint64_t draw, std::int64_t place) {
  return static_cast<float>(draw >> (8 * place) & 0xff);
}

// Calls block(begin, count) for blocks of words that together cover all `words` words.
template <class Block>
void for_blocks(std::size_t words, Block block) {
  for (std::size_t begin = 0; begin < words; begin += kBlockWords)
    block(begin, std::min(kBlockWords, words - begin));
}

std::int64_t differences(std::span<const float> words, const float* expected) {
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < words.size(); ++i) wrong += words[i] != expected[i];
  return wrong;
}

}  // namespace

std::uint64_t payload_key(std::uint64_t seed, int iteration, std::int32_t communicator,
                          const Op& op) {
  std::uint64_t key = scatter(seed);
  for (const std::int64_t part : {std::int64_t{iteration}, std::int64_t{communicator},
                                  static_cast<std::int64_t>(comm_kind(op.kind)),
                                  std::int64_t{op.microbatch}, std::int64_t{op.part}})
    key = scatter(key + static_cast<std::uint64_t>(part));
  return key;
}

std::int64_t payload_words(Bytes bytes) {
  constexpr Bytes kWord = sizeof(float);
  return std::max<std::int64_t>(1, bytes / kWord + (bytes % kWord != 0));
}

float payload_word(std::uint64_t key, int member, std::int64_t i) {
  return word_of(MemberWords(key, member).draw(i / kWordsADraw), i % kWordsADraw);
}

void fill(std::span<float> words, std::uint64_t key, int member, std::int64_t first) {
  const MemberWords source(key, member);
  const auto count = static_cast<std::int64_t>(words.size());
  std::int64_t i = 0;
  while (i < count) {
    const std::uint64_t draw = source.draw((first + i) / kWordsADraw);
    const std::int64_t place = (first + i) % kWordsADraw;
    const std::int64_t here = std::min(kWordsADraw - place, count - i);
    if (here == kWordsADraw) {
      for (std::int64_t k = 0; k < kWordsADraw; ++k) words[i + k] = word_of(draw, k);
    } else {
      for (std::int64_t k = 0; k < here; ++k) words[i + k] = word_of(draw, place + k);
    }
    i += here;
  }
}

std::int64_t wrong_words(std::span<const float> words, std::uint64_t key, int member,
                         std::int64_t first) {
  std::array<float, kBlockWords> expected;
  std::int64_t wrong = 0;
  for_blocks(words.size(), [&](std::size_t begin, std::size_t count) {
    fill({expected.data(), count}, key, member, first + static_cast<std::int64_t>(begin));
    wrong += differences(words.subspan(begin, count), expected.data());
  });
  return wrong;
}

std::int64_t wrong_sums(std::span<const float> words, std::uint64_t key, int members,
                        std::int64_t first) {
  std::array<float, kBlockWords> sums, own;
  std::int64_t wrong = 0;
  for_blocks(words.size(), [&](std::size_t begin, std::size_t count) {
    sums.fill(0);
    for (int member = 0; member < members; ++member) {
      fill({own.data(), count}, key, member, first + static_cast<std::int64_t>(begin));
      for (std::size_t i = 0; i < count; ++i) sums[i] += own[i];
    }
    wrong += differences(words.subspan(begin, count), sums.data());
  });
  return wrong;
}

}  // namespace tandem
