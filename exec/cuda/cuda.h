// The cuda backend.
#pragma once

#include "exec/backend.h"

namespace tandem {

// Plays on real GPUs with real kernels and NCCL. There is one process a rank, each on the GPU of
// its local rank, as torchrun, mpirun or srun started them; with share_gpu this process plays all
// ranks on one GPU. Opens the plugin libtandem_cuda.so; Error::Missing if it cannot, or if there is
// no GPU.
Backend cuda_backend();

}  // namespace tandem
