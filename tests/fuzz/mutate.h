// Mutations: a text made from others by what breaks readers, the same for the same key.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tandem {

// One of the seeds, changed a few times: bytes turned, cut out, doubled and put elsewhere, numbers
// made extreme, words of the other seeds put in. REQUIRES: a seed.
std::string mutated(const std::vector<std::string>& seeds, std::uint64_t key);

}  // namespace tandem
