#include "exec/cuda/reduction.h"

#include <string>

namespace tandem {

Number number_of_message(const Program& program, const Op& op, std::int32_t communicator,
                         const ReductionTypes& types) {
  constexpr Bytes kMostNormBytes = 8;  // a norm of the gradients: a number or two, always fp32
  if (op.kind != OpKind::AllReduce && op.kind != OpKind::ReduceScatter) return Number::Fp32;
  const bool is_data = program.communicators[communicator].group_kind == GroupKind::Data;
  if (is_data && op.bytes <= kMostNormBytes) return Number::Fp32;
  const std::string& type = is_data ? types.gradients : types.others;
  return type == "fp16" ? Number::Fp16 : type == "bf16" ? Number::Bf16 : Number::Fp32;
}

ncclDataType_t nccl_type(Number number) {
  return number == Number::Fp16 ? ncclHalf : number == Number::Bf16 ? ncclBfloat16 : ncclFloat;
}

}  // namespace tandem
