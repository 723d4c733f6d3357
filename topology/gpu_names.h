// Names of GPUs as drivers, profilers, nccl-tests and presets give them.
#pragma once

#include <set>
#include <string>
#include <vector>

namespace tandem {

// Returns what is unusual about the GPUs that something was measured on, as sentences: another
// model than `device`, the simulated GPU ("": none), several models, slices of a GPU. A model is a
// word such as A100, GB200 or MI300X; names without one are not compared.
std::vector<std::string> gpu_notes(const std::set<std::string>& measured_on,
                                   const std::string& device);

}  // namespace tandem
