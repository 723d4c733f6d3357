// Slurm's options that say how many nodes, tasks and GPUs a job has, as "#SBATCH" lines and srun
// state them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "interop/shell/shell.h"

namespace tandem {

// Sets the variables that Slurm sets in a job with these options: {"-N", "4", "--mem=0"} sets
// SLURM_NNODES and SLURM_JOB_NUM_NODES to 4. Other options, such as --mem, are passed over. A range
// "4-8" leaves the value open: "${4-8}".
void set_slurm_variables(const std::vector<std::string>& options, int line,
                         std::map<std::string, ShellVariable>* variables);

// Takes srun's options out of a command: "srun -N 4 --mpi=pmix python a.py" becomes "srun python
// a.py". Returns them. A command whose program is not known stays as it is.
std::vector<std::string> take_srun_options(ShellCommand* command);

}  // namespace tandem
