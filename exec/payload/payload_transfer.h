// PayloadTransfer: moves the payload of one communication between ranks of one process. The words
// are made by the senders' ops, and compared with those that the receivers' ops expect.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schedule/program/program.h"

namespace tandem {

// A member of the communicator, and the op with which it takes part.
struct TransferMember {
  Rank rank{};
  const Body* body = nullptr;
  const Op* op = nullptr;
  std::uint64_t key = 0;
};

// Moves and checks the words that each member receives, op.bytes of them in all:
//   send, recv       member 1 receives the words of member 0
//   all-reduce       each member receives the sums over all members
//   reduce-scatter   member r receives block r of the sums
//   all-gather       each member receives a block of each member
//   all-to-all       member r receives block r of each member's array
//   ring shift       each member receives the words of the member before it
class PayloadTransfer {
 public:
  PayloadTransfer() = default;
  // `transfer_members`: in the order in which the communicator lists its members. `full`: all words
  // are moved; else about 4 KiB over all receivers, and at least a word of each message.
  PayloadTransfer(std::vector<TransferMember> transfer_members, bool full);

  bool done() const { return receiver_ == receivers_end_; }
  // Moves and checks some of the words that one member receives, which takes some microseconds.
  // Returns a complaint if they are wrong, else an empty string. REQUIRES: !done().
  std::string step();
  int receivers() const { return receivers_end_ - receivers_begin_; }

 private:
  CommKind kind() const { return comm_kind(transfer_members_.front().op->kind); }
  int members() const { return static_cast<int>(transfer_members_.size()); }
  // These move `count` words of each sender's array from word `first` on, and return as step().
  std::string move_sums(std::int64_t first, std::int64_t count) const;
  std::string move_copies(std::int64_t first, std::int64_t count) const;
  std::string complaint(int sender, std::int64_t wrong, std::int64_t words) const;

  std::vector<TransferMember> transfer_members_;
  std::int64_t words_ = 0;  // words that a receiver gets from each sender
  std::int64_t block_ = 0;  // receiver r gets words of a sender's array from word r * block_ on
  int receivers_begin_ = 0, receivers_end_ = 0;
  int receiver_ = 0;        // the member whose words are moved next
  std::int64_t moved_ = 0;  // of words_, for this receiver
};

}  // namespace tandem
