// Goes from receiver to receiver, kStepWords words a step: computes the words of each sender by the
// sender's own op, copies them, and compares them with the words that the receiver's op expects.
#include "exec/payload/payload_transfer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "base/check.h"
#include "exec/payload/payload.h"
#include "schedule/program/validate.h"

namespace tandem {
namespace {

constexpr std::int64_t kStepWords = 1024;
constexpr std::int64_t kSampledWords = 1024;  // over all members, if not all words are moved

bool reduces(CommKind kind) {
  return kind == CommKind::AllReduce || kind == CommKind::ReduceScatter;
}

// Returns whether op.bytes consists of a block for each member.
bool has_blocks(CommKind kind) {
  return kind == CommKind::ReduceScatter || kind == CommKind::AllGather ||
         kind == CommKind::AllToAll;
}

}  // namespace

PayloadTransfer::PayloadTransfer(std::vector<TransferMember> transfer_members, bool full)
    : transfer_members_(std::move(transfer_members)) {
  CHECK(!transfer_members_.empty());
  const int n = members();
  words_ = payload_words(transfer_members_.front().op->bytes);
  if (has_blocks(kind())) words_ = (words_ + n - 1) / n;
  if (!full) words_ = std::min(words_, std::max<std::int64_t>(1, kSampledWords / n));
  if (kind() == CommKind::ReduceScatter || kind() == CommKind::AllToAll) block_ = words_;
  receivers_begin_ = receiver_ = kind() == CommKind::SendRecv ? 1 : 0;
  receivers_end_ = n;
}

std::string PayloadTransfer::step() {
  const std::int64_t count = std::min(kStepWords, words_ - moved_);
  const std::int64_t first = block_ * receiver_ + moved_;
  std::string error = reduces(kind()) ? move_sums(first, count) : move_copies(first, count);
  moved_ += count;
  if (moved_ == words_) {
    moved_ = 0;
    ++receiver_;
  }
  return error;
}

std::string PayloadTransfer::move_sums(std::int64_t first, std::int64_t count) const {
  std::array<float, kStepWords> sent_buffer, sum_buffer;
  const std::span<float> sent(sent_buffer.data(), count), sums(sum_buffer.data(), count);
  std::ranges::fill(sums, 0.0f);
  for (int sender = 0; sender < members(); ++sender) {
    fill(sent, transfer_members_[sender].key, sender, first);
    for (std::int64_t i = 0; i < count; ++i) sums[i] += sent[i];
  }
  const std::uint64_t key = transfer_members_[receiver_].key;
  const std::int64_t wrong = wrong_sums(sums, key, members(), first);
  if (wrong == 0) return "";
  // The complaint names the first member whose op has another key than the receiver's; member 0 if
  // there is none.
  int named = 0;
  for (int member = members() - 1; member >= 0; --member) {
    if (transfer_members_[member].key != key) named = member;
  }
  return complaint(named, wrong, count);
}

std::string PayloadTransfer::move_copies(std::int64_t first, std::int64_t count) const {
  std::array<float, kStepWords> sent_buffer, received_buffer;
  const std::span<float> sent(sent_buffer.data(), count), received(received_buffer.data(), count);
  const bool from_member_before = kind() == CommKind::SendRecv || kind() == CommKind::RingShift;
  const int before = (receiver_ + members() - 1) % members();
  for (int sender = 0; sender < members(); ++sender) {
    if (from_member_before && sender != before) continue;
    fill(sent, transfer_members_[sender].key, sender, first);
    std::memcpy(received.data(), sent.data(), sent.size_bytes());
    const std::uint64_t key = transfer_members_[receiver_].key;
    const std::int64_t wrong = wrong_words(received, key, sender, first);
    if (wrong > 0) return complaint(sender, wrong, count);
  }
  return "";
}

std::string PayloadTransfer::complaint(int sender, std::int64_t wrong, std::int64_t words) const {
  const TransferMember &from = transfer_members_[sender], &to = transfer_members_[receiver_];
  const std::string sent = describe(*from.body, *from.op), asked = describe(*to.body, *to.op);
  return fmt::format(
      "rank {} received other bytes in {} than rank {} should have sent: found {} of {} words that "
      "are not its, as rank {} is in {}; expected the partner of {}",
      index(to.rank), asked, index(from.rank), wrong, words, index(from.rank), sent, asked);
}

}  // namespace tandem
