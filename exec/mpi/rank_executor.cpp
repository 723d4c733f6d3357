// Polling loop of one rank: it starts the ops that wait for no other op of this rank, then polls
// the messages and the computation under way for their ends. In: a Program, and the Transport. Out:
// the times of each op, in the RunState that the watchdog reads.
#include "exec/mpi/rank_executor.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "exec/compute/gemm.h"
#include "exec/payload/payload.h"
#include "exec/payload/payload_layout.h"
#include "launch/clock.h"
#include "launch/start_barrier.h"
#include "schedule/program/lanes.h"
#include "schedule/program/validate.h"

namespace tandem {
namespace {

constexpr Nanoseconds kPoll_ns = 50'000;     // between polls while a message is under way
constexpr Nanoseconds kSpin_ns = 50'000;     // spun before a deadline, as a sleep may end late
constexpr Nanoseconds kIdle_ns = 5'000'000;  // between polls if no message is under way

class RankExecutor {
 public:
  RankExecutor(const Program& program, const ExecOptions& options, int core, Transport* transport,
               RunState* state)
      : program_(program),
        options_(options),
        core_(core),
        transport_(*transport),
        state_(*state),
        row_(program.ranks[transport->rank()]),
        body_(program.bodies[row_.body]),
        queues_(body_),
        cursors_(body_),
        lanes_(body_.lanes.size()) {}

  Status run() {
    RETURN_IF_ERROR(prepare());
    ASSIGN_OR_RETURN(state_.header().before, transport_.compare_clocks());
    for (int i = -options_.warmup; i < options_.iterations; ++i) {
      state_.header().iteration = static_cast<std::uint32_t>(i + options_.warmup);
      // Iteration 0 overwrites the times of the warm-up.
      RETURN_IF_ERROR(play(i, state_.times(std::max(i, 0))));
    }
    state_.header().late = wake_ups_.found();
    RETURN_IF_ERROR(transport_.barrier());
    ASSIGN_OR_RETURN(state_.header().after, transport_.compare_clocks());
    return Done{};
  }

 private:
  // Lane 0 has the compute ops, each other lane the messages of some communicators.
  static constexpr std::uint8_t kComputeLane = 0;

  // A lane's op under way, and buffers for the largest message of the lane.
  struct LaneState {
    bool under_way = false;
    std::uint32_t op = 0;
    int ticket = 0;
    std::vector<float> give, take;
  };

  Status prepare() {
    RETURN_IF_ERROR(transport_.open(program_));
    if (options_.compute == Compute::Gemm) {
      ASSIGN_OR_RETURN(
          gemm_, GemmUnit::open(program_, row_.body, options_.gemm_scale,
                                options_.seed + transport_.rank(), core_, transport_.ranks()));
    }
    for (std::uint32_t i = 0; i < body_.ops.size(); ++i) {
      const Op& op = body_.ops[i];
      payloads_.push_back(is_compute(op.kind) ? PayloadLayout{}
                                              : payload_layout(op, members(op), own_place(op)));
      LaneState& lane = lanes_[op.lane];
      const auto give = static_cast<std::size_t>(payloads_[i].give_words);
      const auto take = static_cast<std::size_t>(payloads_[i].take_words);
      lane.give.resize(std::max(lane.give.size(), give));
      lane.take.resize(std::max(lane.take.size(), take));
      if (options_.full_payload) continue;
      payloads_[i].given = sampled(payloads_[i].given);
      payloads_[i].taken = sampled(payloads_[i].taken);
    }
    for (LaneState& lane : lanes_) fill(lane.give, options_.seed, transport_.rank());
    return Done{};
  }

  const std::vector<Rank>& members_of(const Op& op) const {
    return program_.communicators[row_.communicators[op.slot]].members;
  }
  int members(const Op& op) const { return static_cast<int>(members_of(op).size()); }
  int own_place(const Op& op) const {
    const std::vector<Rank>& all = members_of(op);
    return static_cast<int>(std::ranges::find(all, static_cast<Rank>(transport_.rank())) -
                            all.begin());
  }
  std::uint64_t key(const Op& op) const {
    return payload_key(options_.seed, iteration_, row_.communicators[op.slot], op);
  }

  Status play(int iteration, std::span<OwnTimes> times) {
    iteration_ = iteration;
    times_ = times;
    cursors_ = LaneCursors(body_);
    std::ranges::fill(times, OwnTimes{});
    note_progress();
    RETURN_IF_ERROR(wait_for_start(&transport_, state_.header().before.ahead_ns));
    RETURN_IF_ERROR(start_ready());
    for (std::size_t ended = 0; ended < body_.ops.size();) {
      const std::size_t before = ended;
      RETURN_IF_ERROR(end_messages(&ended));
      end_compute(&ended);
      if (ended == before) {
        wait();
        continue;
      }
      state_.header().steps += ended - before;
      RETURN_IF_ERROR(start_ready());
    }
    note_progress();
    return Done{};
  }

  Status start_ready() {
    Status status = Done{};
    cursors_.start_ready(body_, queues_, [&](std::uint32_t op) {
      if (status.ok()) status = start(op);
    });
    note_progress();
    return status;
  }

  Status start(std::uint32_t i) {
    const Op& op = body_.ops[i];
    LaneState& lane = lanes_[op.lane];
    lane.under_way = true;
    lane.op = i;
    times_[i].arrive_ns = now_ns();
    if (is_compute(op.kind)) {
      if (gemm_) gemm_->start(i);
      return Done{};
    }
    const PayloadLayout& payload = payloads_[i];
    fill_buffer(lane.give, key(op), payload.given);
    ASSIGN_OR_RETURN(lane.ticket,
                     transport_.start({op.kind, row_.communicators[op.slot],
                                       std::span(lane.give).first(payload.give_words),
                                       std::span(lane.take).first(payload.take_words)}));
    return Done{};
  }

  Status end_messages(std::size_t* ended) {
    for (std::size_t number = kComputeLane + 1; number < lanes_.size(); ++number) {
      LaneState& lane = lanes_[number];
      if (!lane.under_way) continue;
      ASSIGN_OR_RETURN(const bool has_ended, transport_.has_ended(lane.ticket));
      if (!has_ended) continue;
      end(static_cast<std::uint8_t>(number));
      ++*ended;
      RETURN_IF_ERROR(check_payload(lane));
    }
    return Done{};
  }

  void end_compute(std::size_t* ended) {
    LaneState& lane = lanes_[kComputeLane];
    if (!lane.under_way || !compute_has_ended()) return;
    end(kComputeLane);
    OwnTimes& times = times_[lane.op];
    Nanoseconds due_ns = deadline();
    if (gemm_) {
      std::uint64_t ends = 0;
      // Resets the event. If a signal interrupts that, the next wait() returns at once.
      if (read(gemm_->event(), &ends, sizeof ends) < 0) ends = 0;
      times.end_ns = gemm_->end_ns();
      due_ns = times.arrive_ns + gemm_->busy_ns();
    }
    if (iteration_ >= 0) wake_ups_.add(times.arrive_ns, due_ns, times.end_ns);
    ++*ended;
  }

  // Returns the end of the compute op under way, if its duration is only waited for.
  Nanoseconds deadline() const {
    const std::uint32_t op = lanes_[kComputeLane].op;
    return times_[op].arrive_ns + body_.ops[op].duration_ns;
  }
  bool compute_has_ended() const { return gemm_ ? gemm_->ended() : now_ns() >= deadline(); }

  void end(std::uint8_t number) {
    lanes_[number].under_way = false;
    times_[cursors_.end(queues_, number)].end_ns = now_ns();
  }

  Status check_payload(const LaneState& lane) {
    const Op& op = body_.ops[lane.op];
    const PayloadLayout& payload = payloads_[lane.op];
    if (payload.taken.empty()) return Done{};
    const std::int64_t words = wrong_in_buffer(lane.take, key(op), members(op), payload.taken);
    ++state_.header().payloads_checked;
    if (words == 0) return Done{};
    std::int64_t checked = 0;
    for (const PayloadPiece& piece : payload.taken) checked += piece.words;
    const std::string senders =
        op.kind == OpKind::Recv ? fmt::format("rank {}", index(members_of(op)[0])) : "the others";
    return Error{fmt::format("received other bytes in {} than {} should have sent: {} of {} words "
                             "checked are wrong",
                             describe(body_, op), senders, words, checked),
                 Error::Failed};
  }

  // Sleeps until an op may end.
  void wait() {
    const bool any_message = std::any_of(lanes_.begin() + kComputeLane + 1, lanes_.end(),
                                         [](const LaneState& lane) { return lane.under_way; });
    const bool computes = lanes_[kComputeLane].under_way;
    Nanoseconds until = now_ns() + (any_message ? kPoll_ns : kIdle_ns);
    if (computes && !gemm_) until = std::min(until, deadline() - kSpin_ns);
    sleep_until(until, computes && gemm_ ? gemm_->event() : -1);
  }

  void note_progress() {
    std::ranges::copy(cursors_.done, state_.done().begin());
    std::ranges::copy(cursors_.busy, state_.begun().begin());
  }

  const Program& program_;
  const ExecOptions& options_;
  const int core_;
  Transport& transport_;
  RunState& state_;
  const RankRow& row_;
  const Body& body_;
  const LaneQueues queues_;
  LaneCursors cursors_;
  std::vector<LaneState> lanes_;
  std::vector<PayloadLayout> payloads_;  // by op
  std::unique_ptr<GemmUnit> gemm_;       // multiplies matrices; null: durations are only waited for
  WakeUps wake_ups_;
  int iteration_ = 0;
  std::span<OwnTimes> times_;
};

}  // namespace

Status play_rank(const Program& program, const ExecOptions& options, int core, Transport* transport,
                 RunState* state) {
  const ExactSleep exact_sleep;
  return RankExecutor(program, options, core, transport, state).run();
}

}  // namespace tandem
