// The executor of a GPU: it issues iterations of a Program behind a gate and reads their times off
// events.
#pragma once

#include <memory>
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

// Plays all iterations and notes them in `states`; the first state also says what was real. The
// first iteration is always a warm-up with checked payloads. It is launched directly, as CUDA and
// NCCL load and connect things at first use, which may wait for the device. `control`: of a job of
// many processes, all of which call this. Null: this process plays all ranks, and a run in which no
// op ends within the time-out is an Error that says why.
Status play_gpu(const Program& program, const ExecOptions& options, const GpuPlan& plan, Gpu* gpu,
                Control* control, RunStates states);

}  // namespace tandem
