// Plays a GpuPlan on a Gpu: issues its iterations and reads the ops' times from CUDA events.
#pragma once

#include <span>

#include "base/result.h"
#include "exec/cuda/gpu.h"
#include "exec/execute.h"
#include "exec/supervise/run_state.h"
#include "launch/control.h"
#include "schedule/program/program.h"

namespace tandem {

// The states of a plan's local ranks, one each.
using RunStates = std::span<RunState* const>;

// Plays all iterations and writes their times to `states`. The first state also gets a note about
// the devices and the kind of launch. The first iteration is always a warm-up whose payloads are
// checked. It is launched without a gate, as CUDA and NCCL load kernels and connect at first use,
// which may wait for the device. `control` connects the processes of a job, all of which call this.
// Null: this process plays all ranks, and returns an Error with a diagnosis if no op ends within
// the time-out.
Status play_gpu(const Program& program, const ExecOptions& options, const GpuPlan& plan, Gpu* gpu,
                Control* control, RunStates states);

}  // namespace tandem
