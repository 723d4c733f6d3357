// GpuPlan: the calls that one process makes to its GPU in one iteration of a Program.
//
// Program + local ranks  ->  GpuPlan: streams, events, communicators, calls  ->  Gpu
//
// Local ranks are the ranks that this process plays: one rank, in a job of many processes, or all
// ranks of the Program, where they share one GPU. A lane of a local rank becomes a CUDA stream, a
// dependency becomes an event, and the calls come in the order in which ops can begin. Planning
// needs no CUDA, so plans can be made, read and tested on machines without a GPU.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "exec/execute.h"
#include "schedule/program/program.h"

namespace tandem {

// The kinds of calls. Compute to Check carry out their op, or fill and check its payload. A Wait or
// Record names an op only for error messages.
enum class GpuVerb : std::uint8_t {
  Gate,        // a kernel that holds its stream until the host opens the gate
  Wait,        // its stream waits for `event` (cudaStreamWaitEvent)
  Record,      // `event` happens when its stream comes here, and is timed (cudaEventRecord)
  Compute,     // the op's kernel, or its duration
  Send,        // to the other member of the op's communicator
  Recv,        // from the other member
  Move,        // a transfer between two local ranks: from the stream's `give` to its `take`
  Collective,  // with members in other processes
  Emulate,     // a collective of local ranks only: takes its priced duration
  Fill,        // writes the payload to send into the buffer `give`
  Check,       // compares the payload received in the buffer `take`
  GroupBegin,  // transfers up to GroupEnd are one launch (ncclGroupStart)
  GroupEnd,
};
std::string_view verb_name(GpuVerb verb);

struct GpuCall {
  GpuVerb verb = GpuVerb::Compute;
  std::int32_t stream = 0;  // into GpuPlan::streams
  std::int32_t event = -1;  // of Wait and Record
  // The rank whose op it is, into GpuPlan::local_ranks. For a Move it is the sender, for the Check
  // after it the receiver.
  std::int32_t local_rank = -1;
  std::uint32_t op = 0;  // of the local rank's body

  bool operator==(const GpuCall&) const = default;
};

// A CUDA stream, and the buffers of its messages: `give` is sent from, `take` received into.
struct GpuStream {
  std::int32_t local_rank = 0;  // whose lane it is
  std::uint8_t lane = 0;        // of that local rank's body; 0 computes, others communicate
  std::int64_t give_words = 0, take_words = 0;  // sizes in floats, for the largest message
};

// A communicator of the Program that this process is in.
struct GpuCommunicator {
  std::int32_t communicator = 0;  // its number in the Program
  std::int32_t place = 0;         // this process's place among its members
  std::int32_t members = 1;       // processes; 1: all its members are local ranks
  std::int16_t sms = 0;           // the most SMs that an op of it states; 0: none states any
};

// The events between which an op of a local rank ran. A communication of local ranks only is issued
// once: its members share both events, and `begin` is when the last member was ready.
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

  bool all_ranks_are_local() const { return local_ranks.size() > 1; }
  // Returns the communicator with that number in the Program. REQUIRES: the plan has it.
  const GpuCommunicator& communicator(std::int32_t number) const;
};

// Plans the calls of local ranks: one rank, or all. If all ranks are local, each transfer is one
// Move, and collectives are emulated, as NCCL has no collective among ranks of one GPU. REQUIRES:
// program is validated.
GpuPlan gpu_plan(const Program& program, std::span<const Rank> local_ranks);

// Returns the communicator of the op that a call carries out: its number in the Program.
std::int32_t communicator_of(const Program& program, const GpuPlan& plan, const GpuCall& call);

// Returns whether NCCL carries out the call. `transfers`: how Moves are carried out.
bool is_by_nccl(const GpuCall& call, GpuTransfers transfers);

// Returns the numbers of the communicators whose messages NCCL carries out, in ascending order. For
// each of them NCCL makes a stream of its own, to order its launches.
std::vector<std::int32_t> nccl_communicators(const Program& program, const GpuPlan& plan,
                                             GpuTransfers transfers);

// The most hardware queues that a device has (CUDA_DEVICE_MAX_CONNECTIONS). The plan's streams and
// NCCL's are assigned to them round robin, and those that share a queue may delay each other.
constexpr int kHardwareQueues = 32;

// Returns the calls without Fill and Check.
std::vector<GpuCall> without_checks(std::span<const GpuCall> calls);

// Describes a call in one line, for people and tests: "stream 3 (rank 0, 0>1): send, forward 2 of
// stage 0 ...".
std::string describe(const Program& program, const GpuPlan& plan, const GpuCall& call);

}  // namespace tandem
