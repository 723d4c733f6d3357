// The number types of messages: options choose the types in which NCCL adds up gradients and
// partial sums of activations.
#pragma once

#include <nccl.h>

#include <cstdint>

#include "exec/cuda/kernels.h"
#include "exec/execute.h"
#include "schedule/program/program.h"

namespace tandem {

// Returns the type in which the op's message is added up. A message that is only moved goes as
// words of 32 bits (Fp32), whatever its type. `communicator`: its number in the Program.
Number number_of_message(const Program& program, const Op& op, std::int32_t communicator,
                         const ReductionTypes& types);

// Returns how many numbers make a word of the payload.
constexpr std::int64_t numbers_a_word(Number number) {
  return static_cast<std::int64_t>(sizeof(float)) / bytes_of(number);
}

ncclDataType_t nccl_type(Number number);

}  // namespace tandem
