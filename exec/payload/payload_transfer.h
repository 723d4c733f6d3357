// PayloadTransfer: the payload of one communication inside a process. It is filled by its senders,
// moved, and checked by its receivers against their own ops.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schedule/program/program.h"

namespace tandem {

// A member of the communicator, and the op that it has come with.
struct TransferMember {
  Rank rank{};
  const Body* body = nullptr;
  const Op* op = nullptr;
  std::uint64_t key = 0;
};

// Moves and checks what each member receives, as words of op.bytes:
//   send, recv       the words of member 0, at member 1
//   all-reduce       the sums over all members, at each
//   reduce-scatter   block r of the sums, at member r
//   all-gather       a block of each member, at all
//   all-to-all       block r of each member's array, at member r
//   ring shift       the words of the member before, at each
class PayloadTransfer {
 public:
  PayloadTransfer() = default;
  // `transfer_members`: in the order in which the communicator lists its members. `full`: moves all
  // words; else about 4 KiB of all that is received together, at least a word of each message.
  PayloadTransfer(std::vector<TransferMember> transfer_members, bool full);

  bool done() const { return receiver_ == receivers_end_; }
  // Moves and checks one part of what one member receives, for some microseconds. Returns what is
  // wrong; empty: nothing. REQUIRES: !done().
  std::string step();
  int receivers() const { return receivers_end_ - receivers_begin_; }

 private:
  CommKind kind() const { return comm_kind(transfer_members_.front().op->kind); }
  int members() const { return static_cast<int>(transfer_members_.size()); }
  std::string complaint(int sender, std::int64_t wrong, std::int64_t words) const;

  std::vector<TransferMember> transfer_members_;
  std::int64_t words_ = 0;  // words that a receiver has of each sender
  std::int64_t block_ = 0;  // from one receiver's first word in an array to the next one's
  int receivers_begin_ = 0, receivers_end_ = 0;
  int receiver_ = 0;
  std::int64_t at_ = 0;  // the next of words_
};

}  // namespace tandem
