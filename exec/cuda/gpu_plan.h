// GpuPlan: what one process asks of its GPU in one iteration of a Program, call by call.
//
//   Program + who plays here  ->  GpuPlan: streams, events, communicators, calls  ->  Gpu
//
// A lane of a rank is a stream, a dependency is an event, the order of the calls is the Program's
// order of issue. Nothing of CUDA stands here: the plan of any Program can be made, read and tested
// where there is no GPU.
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

// What a call does. Those of `event` have no op but for it to be named by; the others have an op.
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
std::string_view name(GpuVerb verb);

struct GpuCall {
  GpuVerb verb = GpuVerb::Compute;
  std::int32_t stream = 0;       // into GpuPlan::streams
  std::int32_t event = -1;       // of Wait and Record
  std::int32_t local_rank = -1;  // whose op: into GpuPlan::local ranks. Of a Move: the sender, for
                                 // Check the receiver
  std::uint32_t op = 0;          // of the local rank's body
};

// An in-order queue of the device.
struct GpuStream {
  std::int32_t local_rank = 0;  // whose lane it is
  std::uint8_t lane = 0;        // of that local rank's body; 0 computes, others communicate
  std::int64_t give_words = 0, take_words = 0;  // floats: room for its largest message
};

// A communicator of the Program that local ranks of this process are in.
struct GpuCommunicator {
  std::int32_t communicator = 0;  // of the Program
  std::int32_t place = 0;         // this process's, among its members
  std::int32_t members = 1;       // 1: all of them play here
  std::int16_t sms = 0;           // the most that one of its ops states; 0: none does
};

// When an op of a local rank ran: events. Of a communication all of whose members play here the
// events are common: `begin` is when the last of them was ready.
struct GpuOpEvents {
  std::int32_t begin = -1, end = -1;
};

struct GpuPlan {
  std::vector<Rank> local_ranks;                    // one, or all ranks of the Program
  std::vector<GpuStream> streams;                   // 0 is the first local rank's compute
  std::vector<GpuCommunicator> communicators;       // by number in the Program
  std::vector<std::int32_t> event_streams;          // by event: the stream that it is recorded on
  std::int32_t gate = -1;                           // events: the gate was opened,
  std::int32_t done = -1;                           // and all calls have been carried out
  std::vector<std::vector<GpuOpEvents>> op_events;  // by local rank and op
  std::vector<GpuCall> calls;

  bool all_play_here() const { return local_ranks.size() > 1; }
  // Where a communicator of the Program stands in `communicators`. REQUIRES: it does.
  const GpuCommunicator& communicator(std::int32_t number) const;
};

// Where all ranks play here, a transfer is one Move; collectives cannot be carried out and are
// emulated. `local ranks`: one rank, or all. REQUIRES: program is validated.
GpuPlan gpu_plan(const Program& program, std::span<const Rank> local_ranks);

// Whether NCCL carries the call out. `transfers`: how those whose ends both play here are.
bool is_by_nccl(const GpuCall& call, GpuTransfers transfers);

// Streams that share the device's hardware queues: the plan's, and of each communicator that has
// messages by NCCL the stream that NCCL orders its launches by.
struct GpuQueueUse {
  int streams = 0, nccl_streams = 0;
  int all() const { return streams + nccl_streams; }
};
GpuQueueUse queue_use(const Program& program, const GpuPlan& plan, GpuTransfers transfers);

// So many queues a device has at most (CUDA_DEVICE_MAX_CONNECTIONS); streams are dealt round to
// them, and those that share one may hold each other up.
constexpr int kHardwareQueues = 32;

// The calls of an iteration whose payloads are not checked.
std::vector<GpuCall> without_checks(std::span<const GpuCall> calls);

// One line a call, for people and tests: "stream 3 (rank 0, 0>1): send, forward 2 of stage 0 ...".
std::string describe(const Program& program, const GpuPlan& plan, const GpuCall& call);

}  // namespace tandem
