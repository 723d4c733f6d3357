// The cuda backend.
#pragma once

#include "exec/backend.h"

namespace tandem {

// Plays on real GPUs with real kernels and NCCL. torchrun, mpirun or srun start one process a rank,
// each on the GPU of its local rank; with share_gpu this process plays all ranks on one GPU. Its
// execute() loads the plugin libtandem_cuda.so; Error::Missing if that fails, or if there is no
// GPU.
Backend cuda_backend();

}  // namespace tandem
