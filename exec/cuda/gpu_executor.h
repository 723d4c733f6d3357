// The executor of a GPU: iterations of a Program, asked for behind a gate and read off events.
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

// One a local rank of a plan.
using RunStates = std::span<RunState* const>;

// Plays all iterations, noted in `states`, and what was real in the first of them. The first
// iteration is always a warm-up: it is launched directly, as what CUDA loads and NCCL connects at
// first use may wait for the device, and its payloads are checked. `control`: of a job of many
// processes, all of which call this; null: this one plays all ranks, and a run in which no op ends
// within the time-out is an Error that says why.
Status play_gpu(const Program& program, const ExecOptions& options, const GpuPlan& plan, Gpu* gpu,
                Control* control, RunStates states);

}  // namespace tandem
