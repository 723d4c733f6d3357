// GpuPlan: the calls that one process makes to its GPU in one iteration of a Program.
//
// Program + ranks that play here  ->  GpuPlan: streams, events, communicators, calls  ->  Gpu
//
// A lane of a rank becomes a stream, a dependency becomes an event, and the calls come in the
// Program's order of issue. A plan needs nothing of CUDA: it can be made, read and tested where
// there is no GPU.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/units.h"
#include "exec/execute.h"
#include "schedule/program/program.h"

namespace tandem {

// The kinds of calls. Compute to Check act on their op. A Wait or Record has one only so that an
// error can name it.
enum class GpuVerb : std::uint8_t {
  Gate,        // holds its stream until the gate is opened
  Wait,        // its stream goes on when `event` has happened
  Record,      // `event` happens when its stream comes here; it is timed
  Compute,     // the op's kernel, or its duration
  Send,        // to the other member of the op's communicator
  Recv,        // from the other member
  Move,        // a transfer both of whose ends play here: from the stream's `give` to its `take`
  Collective,  // with members that play elsewhere
  Emulate,     // a collective all of whose members play here: takes its priced duration
  Fill,        // the payload into `give`     (of an iteration that is checked)
  Check,       // the payload in `take`       (likewise)
  GroupBegin,  // transfers up to GroupEnd are one launch
  GroupEnd,
};
std::string_view verb_name(GpuVerb verb);

struct GpuCall {
  GpuVerb verb = GpuVerb::Compute;
  std::int32_t stream = 0;  // into GpuPlan::streams
  std::int32_t event = -1;  // of Wait and Record
  // The rank whose op it is, into GpuPlan::local_ranks. A Move has the sender, its Check the
  // receiver.
  std::int32_t local_rank = -1;
  std::uint32_t op = 0;  // of the local rank's body

  bool operator==(const GpuCall&) const = default;
};

// An in-order queue of the device.
struct GpuStream {
  std::int32_t local_rank = 0;  // whose lane it is
  std::uint8_t lane = 0;        // of that local rank's body; 0 computes, others communicate
  std::int64_t give_words = 0, take_words = 0;  // floats: room for its largest message
};

// A communicator of the Program that this process is in.
struct GpuCommunicator {
  std::int32_t communicator = 0;  // its number in the Program
  std::int32_t place = 0;         // this process's place among its members
  std::int32_t members = 1;       // 1: all of them play here
  std::int16_t sms = 0;           // the most SMs that one of its ops states; 0: none does
};

// The events between which an op of a local rank ran. If all members of a communication play here,
// they share its events, and `begin` is when the last of them was ready.
struct GpuOpEvents {
  std::int32_t begin = -1, end = -1;
};

struct GpuPlan {
  std::vector<Rank> local_ranks;                    // one, or all ranks of the Program
  std::vector<GpuStream> streams;                   // 0 is the first local rank's compute
  std::vector<GpuCommunicator> communicators;       // by number in the Program
  std::vector<std::int32_t> event_streams;          // by event: the stream it is recorded on
  std::int32_t gate = -1;                           // event: the gate was opened
  std::int32_t done = -1;                           // event: all calls have been carried out
  std::vector<std::vector<GpuOpEvents>> op_events;  // by local rank and op
  std::vector<GpuCall> calls;

  bool all_play_here() const { return local_ranks.size() > 1; }
  // Returns the communicator with that number in the Program. REQUIRES: the plan has it.
  const GpuCommunicator& communicator(std::int32_t number) const;
};

// Plans the calls of local ranks: one rank, or all. Where all ranks play here, a transfer is one
// Move, and collectives are emulated, as they cannot be carried out. REQUIRES: program is
// validated.
GpuPlan gpu_plan(const Program& program, std::span<const Rank> local_ranks);

// Returns whether NCCL carries the call out. `transfers`: how Moves are carried out.
bool is_by_nccl(const GpuCall& call, GpuTransfers transfers);

// The streams that share the device's hardware queues: the plan's, and one of NCCL's own for each
// communicator that has messages by NCCL, in which it orders its launches.
struct GpuQueueUse {
  int streams = 0, nccl_streams = 0;
  int all() const { return streams + nccl_streams; }
};
GpuQueueUse queue_use(const Program& program, const GpuPlan& plan, GpuTransfers transfers);

// The most hardware queues that a device has (CUDA_DEVICE_MAX_CONNECTIONS). Streams get them in
// turn, and streams that share one may hold each other up.
constexpr int kHardwareQueues = 32;

// Returns the calls without filling and checking payloads.
std::vector<GpuCall> without_checks(std::span<const GpuCall> calls);

// Describes a call in one line, for people and tests: "stream 3 (rank 0, 0>1): send, forward 2 of
// stage 0 ...".
std::string describe(const Program& program, const GpuPlan& plan, const GpuCall& call);

}  // namespace tandem
