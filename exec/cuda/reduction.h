// The number types of messages: gradients and partial sums are added up in types of their own.
#pragma once

#include <nccl.h>

#include <cstdint>

#include "exec/cuda/kernels.h"
#include "exec/execute.h"
#include "schedule/program/program.h"

namespace tandem {

// Returns the type for an op of the Program's communicator. What is not added up goes as words of
// 32 bits, whatever they mean.
Number number_of_message(const Program& program, const Op& op, std::int32_t communicator,
                         const ReductionTypes& types);

// Returns how many numbers make a word of the payload.
constexpr std::int64_t numbers_a_word(Number number) {
  return static_cast<std::int64_t>(sizeof(float)) / bytes_of(number);
}

ncclDataType_t nccl_type(Number number);

}  // namespace tandem
