// Transport of the plugin libtandem_mpi.so, by nonblocking MPI messages. Collectives are made of
// messages, too, in the steps of collective.h: the collectives of Open MPI 4 are linear, or a third
// slower than a ring should be (docs/runtime.md).
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "exec/mpi/collective.h"
#include "exec/mpi/mpi_failure.h"
#include "exec/mpi/transport.h"
#include "launch/compare_clocks.h"
#include "schedule/program/program.h"

namespace tandem {
namespace {

class MpiTransport final : public Transport {
 public:
  MpiTransport() {
    int provided = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
  }

  ~MpiTransport() override { MPI_Finalize(); }

  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }

  Status open(const Program& program) override {
    for (const Communicator& communicator : program.communicators) {
      Group& group = groups_.emplace_back();
      for (const Rank member : communicator.members) {
        if (index(member) == rank_) group.own = static_cast<int>(group.members.size());
        group.members.push_back(index(member));
      }
    }
    return Done{};
  }

  Result<int> start(const Message& message) override {
    if (std::max(message.give.size(), message.take.size()) >
        static_cast<std::size_t>(std::numeric_limits<int>::max()))
      return Error{"found a message of more than 2^31 - 1 floats, expected a smaller one"};
    if (free_.empty()) {
      free_.push_back(static_cast<int>(under_way_.size()));
      under_way_.emplace_back();
    }
    const int ticket = free_.back();
    free_.pop_back();
    under_way_[ticket] = {};
    RETURN_IF_ERROR(begin(message, &under_way_[ticket]));
    return ticket;
  }

  Result<bool> has_ended(int ticket) override {
    UnderWay& own = under_way_[ticket];
    if (own.receives_from >= 0) {
      int received = 0;
      RETURN_IF_MPI_FAILS(MPI_Test, &own.received, &received, MPI_STATUS_IGNORE);
      if (received == 0) return false;
      RETURN_IF_ERROR(send_receipt(&own));
    }
    ASSIGN_OR_RETURN(bool ended, have_ended(own.send_requests));
    for (Slice& slice : own.slices) {
      ASSIGN_OR_RETURN(const bool slice_ended, advance(&slice, own.communicator));
      ended &= slice_ended;
    }
    if (ended) free_.push_back(ticket);
    return ended;
  }

  Status broadcast(std::span<std::byte> bytes) override {
    MPI_Request request = MPI_REQUEST_NULL;
    RETURN_IF_MPI_FAILS(MPI_Ibcast, bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, 0,
                        MPI_COMM_WORLD, &request);
    return wait(&request);
  }

  Status barrier() override {
    MPI_Request request = MPI_REQUEST_NULL;
    RETURN_IF_MPI_FAILS(MPI_Ibarrier, MPI_COMM_WORLD, &request);
    return wait(&request);
  }

  Result<bool> any(bool own) override {
    int given = own ? 1 : 0, all = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    RETURN_IF_MPI_FAILS(MPI_Iallreduce, &given, &all, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD,
                        &request);
    RETURN_IF_ERROR(wait(&request));
    return all != 0;
  }

  Result<ClockReading> compare_clocks() override {
    ASSIGN_OR_RETURN(const ClockReading reading,
                     tandem::compare_clocks(rank_, ranks_, {send_numbers, receive_numbers}));
    RETURN_IF_ERROR(barrier());
    return reading;
  }

 private:
  struct Group {
    std::vector<int> members;
    int own = -1;  // this rank's place; -1: it is not a member
  };
  static constexpr int kPingTag = 0;

  // The tags of a communicator: one for its messages, one for receipts (by which a receiver says
  // that it has all of a message), and one for each slice of a collective.
  static constexpr int kSlicesMost = 4;
  static int tag(std::int32_t communicator) { return 1 + (2 + kSlicesMost) * communicator; }
  static int receipt_tag(std::int32_t communicator) { return tag(communicator) + 1; }
  static int slice_tag(std::int32_t communicator, int slice) {
    return tag(communicator) + 2 + slice;
  }

  // One slice of a collective, at a step.
  struct Slice {
    Collective collective;
    int tag = 0;
    std::vector<MPI_Request> requests;  // of the step
  };

  struct UnderWay {
    std::int32_t communicator = 0;
    int receives_from = -1;  // a rank; -1: receives nothing, or no longer
    MPI_Request received = MPI_REQUEST_NULL;
    std::vector<MPI_Request> send_requests;  // of the message sent, and of its receipt
    std::vector<Slice> slices;
  };

  Status begin(const Message& message, UnderWay* own) {
    const Group& group = groups_[message.communicator];
    const int n = static_cast<int>(group.members.size());
    own->communicator = message.communicator;
    switch (message.kind) {
      case OpKind::Send:
        return send(message, group.members[1], own);
      case OpKind::Recv:
        return receive(message, group.members[0], own);
      case OpKind::RingShift:
        RETURN_IF_ERROR(receive(message, group.members[(group.own + n - 1) % n], own));
        return send(message, group.members[(group.own + 1) % n], own);
      default:
        return begin_slices(message, n, group.own, own);
    }
  }

  Status begin_slices(const Message& message, int members, int place, UnderWay* own) {
    constexpr std::size_t kSliceWords = 1 << 16;  // at least
    const std::size_t words = std::max(message.give.size(), message.take.size()) / members;
    const int slices = std::clamp(static_cast<int>(words / kSliceWords), 1, kSlicesMost);
    for (int i = 0; i < slices; ++i) {
      own->slices.push_back(
          {Collective(message, members, place, i, slices), slice_tag(message.communicator, i), {}});
      RETURN_IF_ERROR(begin_step(&own->slices.back(), message.communicator));
    }
    return Done{};
  }

  // Takes the slice through its steps as far as messages have arrived. Returns whether the last
  // step has ended.
  Result<bool> advance(Slice* slice, std::int32_t communicator) {
    while (slice->collective.step()) {
      ASSIGN_OR_RETURN(const bool ended, have_ended(slice->requests));
      if (!ended) return false;
      slice->collective.end_step();
      RETURN_IF_ERROR(begin_step(slice, communicator));
    }
    return true;
  }

  Status begin_step(Slice* slice, std::int32_t communicator) {
    const std::optional<Collective::Step> step = slice->collective.step();
    slice->requests.assign(2, MPI_REQUEST_NULL);
    if (!step) return Done{};
    const std::vector<int>& members = groups_[communicator].members;
    RETURN_IF_MPI_FAILS(MPI_Irecv, step->receive.data(), static_cast<int>(step->receive.size()),
                        MPI_FLOAT, members[step->from], slice->tag, MPI_COMM_WORLD,
                        &slice->requests[0]);
    RETURN_IF_MPI_FAILS(MPI_Issend, step->send.data(), static_cast<int>(step->send.size()),
                        MPI_FLOAT, members[step->to], slice->tag, MPI_COMM_WORLD,
                        &slice->requests[1]);
    return Done{};
  }

  static Result<bool> have_ended(std::span<MPI_Request> requests) {
    int ended = 0;
    RETURN_IF_MPI_FAILS(MPI_Testall, static_cast<int>(requests.size()), requests.data(), &ended,
                        MPI_STATUSES_IGNORE);
    return ended != 0;
  }

  // Starts sending a message, and receiving its receipt. A synchronous send alone is not enough: it
  // ends when its receiver has begun.
  static Status send(const Message& message, int to, UnderWay* own) {
    RETURN_IF_MPI_FAILS(MPI_Irecv, nullptr, 0, MPI_BYTE, to, receipt_tag(message.communicator),
                        MPI_COMM_WORLD, &own->send_requests.emplace_back(MPI_REQUEST_NULL));
    RETURN_IF_MPI_FAILS(MPI_Issend, message.give.data(), static_cast<int>(message.give.size()),
                        MPI_FLOAT, to, tag(message.communicator), MPI_COMM_WORLD,
                        &own->send_requests.emplace_back(MPI_REQUEST_NULL));
    return Done{};
  }

  static Status receive(const Message& message, int from, UnderWay* own) {
    own->receives_from = from;
    RETURN_IF_MPI_FAILS(MPI_Irecv, message.take.data(), static_cast<int>(message.take.size()),
                        MPI_FLOAT, from, tag(message.communicator), MPI_COMM_WORLD, &own->received);
    return Done{};
  }

  static Status send_receipt(UnderWay* own) {
    MPI_Request receipt = MPI_REQUEST_NULL;
    RETURN_IF_MPI_FAILS(MPI_Isend, nullptr, 0, MPI_BYTE, own->receives_from,
                        receipt_tag(own->communicator), MPI_COMM_WORLD, &receipt);
    MPI_Request_free(&receipt);
    own->receives_from = -1;
    return Done{};
  }

  static Status send_numbers(int peer, std::span<const Nanoseconds> numbers) {
    RETURN_IF_MPI_FAILS(MPI_Send, numbers.data(), static_cast<int>(numbers.size()), MPI_INT64_T,
                        peer, kPingTag, MPI_COMM_WORLD);
    return Done{};
  }
  static Status receive_numbers(int peer, std::span<Nanoseconds> numbers) {
    RETURN_IF_MPI_FAILS(MPI_Recv, numbers.data(), static_cast<int>(numbers.size()), MPI_INT64_T,
                        peer, kPingTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return Done{};
  }

  static Status wait(MPI_Request* request) {
    constexpr useconds_t kPoll_us = 100;
    for (int ended = 0; ended == 0; usleep(kPoll_us))
      RETURN_IF_MPI_FAILS(MPI_Test, request, &ended, MPI_STATUS_IGNORE);
    return Done{};
  }

  int rank_ = 0;
  int ranks_ = 1;
  std::vector<Group> groups_;        // the program's communicators
  std::vector<UnderWay> under_way_;  // by ticket
  std::vector<int> free_;            // tickets that may be used again
};

}  // namespace

extern "C" __attribute__((visibility("default"))) Transport* tandem_make_transport() {
  return new MpiTransport();
}

}  // namespace tandem
