// Lays out messages. A PayloadLayout is written {give_words, take_words, given, taken}, a piece
// {offset, words, member, first}. In a reduce-scatter of n members, for example, each member gives
// n chunks of `chunk` words and takes one chunk: the sum of all members' chunk number `own`.
#include "exec/payload/payload_layout.h"

#include <algorithm>

#include "exec/payload/payload.h"

namespace tandem {

PayloadLayout payload_layout(const Op& op, int members, int own) {
  const std::int64_t words = payload_words(op.bytes);
  const std::int64_t chunk = (words + members - 1) / members;  // words of one of `members` chunks
  const std::int64_t whole = members * chunk;
  PayloadLayout pieces;
  switch (op.kind) {
    case OpKind::Send:
      return {words, 0, {{0, words, own, 0}}, {}};
    case OpKind::Recv:
      return {0, words, {}, {{0, words, 1 - own, 0}}};
    case OpKind::RingShift:
      return {words, words, {{0, words, own, 0}}, {{0, words, (own + members - 1) % members, 0}}};
    case OpKind::AllReduce:
      return {words, words, {{0, words, own, 0}}, {{0, words, PayloadPiece::kSum, 0}}};
    case OpKind::ReduceScatter:
      pieces = {whole, chunk, {}, {{0, chunk, PayloadPiece::kSum, own * chunk}}};
      for (int i = 0; i < members; ++i) pieces.given.push_back({i * chunk, chunk, own, i * chunk});
      return pieces;
    case OpKind::AllGather:
      pieces = {chunk, whole, {{0, chunk, own, 0}}, {}};
      for (int i = 0; i < members; ++i) pieces.taken.push_back({i * chunk, chunk, i, 0});
      return pieces;
    case OpKind::AllToAll:
      pieces = {whole, whole, {}, {}};
      for (int i = 0; i < members; ++i) {
        pieces.given.push_back({i * chunk, chunk, own, i * chunk});
        pieces.taken.push_back({i * chunk, chunk, i, own * chunk});
      }
      return pieces;
    default:
      return pieces;
  }
}

std::vector<PayloadPiece> sampled(const std::vector<PayloadPiece>& pieces) {
  std::vector<PayloadPiece> samples;
  for (const PayloadPiece& piece : pieces) {
    const std::int64_t head = std::min(kSampleWords, piece.words);
    samples.push_back({piece.offset, head, piece.member, piece.first});
    const std::int64_t tail = std::max(head, piece.words - kSampleWords);
    if (tail < piece.words)
      samples.push_back(
          {piece.offset + tail, piece.words - tail, piece.member, piece.first + tail});
  }
  return samples;
}

void fill_buffer(std::span<float> buffer, std::uint64_t key,
                 const std::vector<PayloadPiece>& pieces) {
  for (const PayloadPiece& piece : pieces)
    fill(buffer.subspan(piece.offset, piece.words), key, piece.member, piece.first);
}

std::int64_t wrong_in_buffer(std::span<const float> buffer, std::uint64_t key, int members,
                             const std::vector<PayloadPiece>& pieces) {
  std::int64_t count = 0;
  for (const PayloadPiece& piece : pieces) {
    const std::span<const float> words = buffer.subspan(piece.offset, piece.words);
    count += piece.member == PayloadPiece::kSum
                 ? wrong_sums(words, key, members, piece.first)
                 : wrong_words(words, key, piece.member, piece.first);
  }
  return count;
}

}  // namespace tandem
