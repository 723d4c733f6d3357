// Fake GPUs: what CUDA and NCCL do with the calls of GpuPlans, in virtual time, and what they may
// not be asked for.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "exec/cuda/gpu_plan.h"
#include "schedule/program/program.h"

namespace tandem {

struct FakeOptions {
  // Hardware queues that streams are dealt round to (CUDA_DEVICE_MAX_CONNECTIONS); 0: each stream
  // has its own. In a queue calls start in the order of issue: one that cannot start yet holds back
  // those behind it, of other streams too.
  int queues = 0;
  // NCCL's device streams: each communicator that has messages by NCCL has one, made after the
  // plan's streams, that queues share like any other. A launch waits for it, and it for the launch:
  // a queue that holds it is held back by messages of others.
  bool nccl_streams = false;
  // Members of a communicator that play in no plan are not waited for. Else all must play.
  bool alone = false;
  // What a Compute, Emulate, Move, Send, Recv or Collective takes; empty: its op's duration.
  std::function<Nanoseconds(const GpuPlan&, const GpuCall&)> duration_ns;
};

struct FakeRun {
  std::vector<std::vector<Nanoseconds>> event_ns;  // by plan and event, from the gate's opening
};

// Plays an iteration: one plan a process. Streams are in-order queues, communication is a
// rendezvous of its members, matched by the order of issue on each communicator; a group's
// transfers start together.
//
// An Error names the process, the call and what is wrong with it: what check_calls finds; members
// that mean different things by one call; and a deadlock, with the first call that each process is
// stuck at.
Result<FakeRun> play(const Program& program, std::span<const GpuPlan> plans,
                     const FakeOptions& options = {});

// What is wrong with the calls of one process, whatever the others do. Above all: every op happens
// after all that it waits for and after its predecessor on its lane, by nothing but the order of
// streams and events. Then: waits for events recorded before, as others are no-ops; every op once,
// each event once and on its stream; all behind the gate and joined into `done`, as a capture
// demands; communicators as the Program has them, each on one stream; groups of transfers only;
// payloads filled before they go and checked after they came, with room for them.
Status check_calls(const Program& program, const GpuPlan& plan);

// "rank 3", or "ranks 0 to 7".
std::string process_name(const GpuPlan& plan);

// Where the ops of each slot of a body stand, and an op's place there.
struct SlotQueues {
  std::vector<std::vector<std::uint32_t>> slots;
  std::vector<std::uint32_t> place;

  explicit SlotQueues(const Body& body);
};

}  // namespace tandem
