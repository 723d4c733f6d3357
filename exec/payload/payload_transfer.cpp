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
  std::array<float, kStepWords> sent_buffer, received_buffer;
  const std::int64_t count = std::min(kStepWords, words_ - moved_);
  const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(float);
  const std::span<float> sent(sent_buffer.data(), count), received(received_buffer.data(), count);
  const int n = members();
  const bool one_sender = kind() == CommKind::SendRecv || kind() == CommKind::RingShift;
  const int first_sender = one_sender ? (receiver_ + n - 1) % n : 0;
  const int senders_end = one_sender ? first_sender + 1 : n;
  const std::int64_t first = block_ * receiver_ + moved_;  // word of each sender's array
  const std::uint64_t key = transfer_members_[receiver_].key;
  std::string error;
  if (reduces(kind())) received_buffer.fill(0);
  for (int sender = first_sender; sender < senders_end && error.empty(); ++sender) {
    fill(sent, transfer_members_[sender].key, sender, first);
    if (reduces(kind())) {
      for (std::int64_t i = 0; i < count; ++i) received[i] += sent[i];
      continue;
    }
    std::memcpy(received.data(), sent.data(), bytes);
    const std::int64_t wrong = wrong_words(received, key, sender, first);
    if (wrong > 0) error = complaint(sender, wrong, count);
  }
  if (reduces(kind())) {
    const std::int64_t wrong = wrong_sums(received, key, n, first);
    // The complaint about a wrong sum names a member whose op has another key than the receiver's.
    const auto other = std::ranges::find_if(
        transfer_members_, [&](const TransferMember& each) { return each.key != key; });
    if (wrong > 0)
      error = complaint(static_cast<int>(other - transfer_members_.begin()) % n, wrong, count);
  }
  moved_ += count;
  if (moved_ == words_) {
    moved_ = 0;
    ++receiver_;
  }
  return error;
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
