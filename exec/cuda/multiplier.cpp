// Each kernel becomes a Job: products by cuBLASLt and bytes to copy. All products of a number type
// share one pair of operands, and all products share one result c.
#include "exec/cuda/multiplier.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/random.h"
#include "schedule/program/validate.h"

namespace tandem {
namespace {

constexpr std::int64_t kCopyUnit = 16;            // bytes that a thread copies at once
constexpr std::int64_t kWindowBytes = 256 << 20;  // larger than any L2 cache
constexpr std::int64_t kFp8Side = 16;             // sides of FP8 matrices are multiples of it
constexpr std::int64_t kAttentionBatch = 64;      // products of attention in one batch

std::int64_t rounded_up(std::int64_t count, std::int64_t unit) {
  return (count + unit - 1) / unit * unit;
}

Result<Number> number_of(const std::string& precision) {
  if (precision == "fp32") return Number::Fp32;
  if (precision == "fp16") return Number::Fp16;
  if (precision == "bf16") return Number::Bf16;
  if (precision == "fp8") return Number::Fp8;
  return Error{fmt::format("found precision {}, expected fp32, fp16, bf16 or fp8", precision)};
}

// Returns the GEMM's shape with each side times `scale`, at least 1.
ProductShape scaled(const Gemm& gemm, Number number, double scale) {
  const auto scaled_side = [scale](std::int64_t side) {
    const double length = std::round(static_cast<double>(side) * scale);
    return static_cast<std::int64_t>(std::clamp(length, 1.0, 0x1p40));
  };
  return {number, gemm.batch, scaled_side(gemm.m), scaled_side(gemm.n), scaled_side(gemm.k)};
}

// Returns the type that attention multiplies in. REQUIRES: number_of(precision) is ok.
Number sixteen_bits(const std::string& precision) {
  return precision == "fp16" ? Number::Fp16 : Number::Bf16;
}

}  // namespace

void Multiplier::add_product(ProductShape shape, std::int64_t times, Job* job) {
  if (shape.number == Number::Fp8) {
    const ProductShape exact = shape;
    for (std::int64_t* side : {&shape.m, &shape.n, &shape.k}) *side = rounded_up(*side, kFp8Side);
    rounded_ |= shape != exact;
  }
  const auto [found, is_new] = shape_indices_.try_emplace(shape, shapes_.size());
  if (is_new) shapes_.push_back(shape);
  job->tasks.push_back({found->second, times});
  Operands& operands = operands_[shape.number];
  operands.a = std::max(operands.a, shape.a_numbers());
  operands.b = std::max(operands.b, shape.b_numbers());
  c_bytes_ = std::max(c_bytes_, shape.c_bytes());
}

// Adds products with about `flops` FLOPs that stand for attention: scores times values of one head,
// (1024 x 1024) by (1024 x 128), in batches of 64. If `flops` is less than half of one such
// product, adds one smaller product of t tokens, which has 2 * 128 * t^2 FLOPs.
void Multiplier::add_attention(double flops, Number number, Job* job) {
  constexpr std::int64_t kTokens = 1024, kHead = 128;
  const ProductShape whole{number, 1, kTokens, kHead, kTokens};
  const auto count = std::llround(flops / whole.flops());
  if (count == 0) {
    const double side = std::sqrt(flops / (2.0 * kHead));
    const auto units =
        std::clamp<std::int64_t>(std::llround(side / kFp8Side), 1, kTokens / kFp8Side);
    const std::int64_t tokens = units * kFp8Side;
    add_product({number, 1, tokens, kHead, tokens}, 1, job);
    return;
  }
  ProductShape batch = whole;
  batch.batch = kAttentionBatch;
  if (count >= kAttentionBatch) add_product(batch, count / kAttentionBatch, job);
  batch.batch = count % kAttentionBatch;
  if (batch.batch > 0) add_product(batch, 1, job);
}

void Multiplier::add(const Kernel& kernel, const ExecOptions& options, Job* job) {
  const Number number = *number_of(options.precision);
  const double scale = options.gemm_scale;
  for (const Gemm& gemm : kernel.gemms) {
    const bool stays_wide = gemm.in_16_bits && number == Number::Fp8;
    add_product(scaled(gemm, stays_wide ? Number::Bf16 : number, scale), 1, job);
  }
  if (kernel.attention_flops > 0)
    add_attention(kernel.attention_flops * scale * scale * scale, sixteen_bits(options.precision),
                  job);
  // A copy of n bytes reads n and writes n.
  const auto copied = std::llround(kernel.memory_bytes / 2 * scale * scale);
  job->copied_bytes = rounded_up(copied, kCopyUnit);
  window_bytes_ = std::max(window_bytes_, std::min(job->copied_bytes, kWindowBytes));
}

Result<Multiplier> Multiplier::plan(const Program& program, const Body& body,
                                    const ExecOptions& options, int sms, int device_sms) {
  if (const auto number = number_of(options.precision); !number.ok()) return number.error();
  Multiplier own;
  own.sms_ = sms;
  own.device_sms_ = device_sms;
  for (const Op& op : body.ops) {
    if (!is_compute(op.kind) || op.duration_ns == 0) continue;
    if (op.kernel < 0 || program.kernels[op.kernel].empty())
      return Error{
          fmt::format("found {} without a kernel, expected the shapes of its matrices to "
                      "multiply: costs.source = \"uniform\" has none",
                      describe(body, op))};
    const auto [job, is_new] = own.jobs_.try_emplace(op.kernel);
    if (is_new) own.add(program.kernels[op.kernel], options, &job->second);
  }
  return own;
}

double Multiplier::bytes() const {
  double bytes = c_bytes_ + 2 * static_cast<double>(window_bytes_) + kWorkspaceBytes;
  for (const auto& [number, operands] : operands_)
    bytes += bytes_of(number) * (operands.a + operands.b);
  return bytes;
}

ProductMemory Multiplier::memory(const ProductShape& shape) const {
  const Operands& operands = operands_.at(shape.number);
  return {operands.a_memory.get(), operands.b_memory.get(), c_.get(), workspace_.get()};
}

Status Multiplier::open(cudaStream_t stream, std::uint64_t seed) {
  ASSIGN_OR_RETURN(cublas_, open_cublas());
  ASSIGN_OR_RETURN(workspace_, make_array<std::byte>(kWorkspaceBytes));
  ASSIGN_OR_RETURN(c_, make_array<std::byte>(static_cast<std::int64_t>(c_bytes_)));
  ASSIGN_OR_RETURN(from_, make_array<std::byte>(window_bytes_));
  ASSIGN_OR_RETURN(to_, make_array<std::byte>(window_bytes_));
  std::uint64_t key = scatter(seed);
  for (auto& [number, operands] : operands_) {
    for (auto [numbers, memory] :
         {std::pair(operands.a, &operands.a_memory), std::pair(operands.b, &operands.b_memory)}) {
      const auto count = static_cast<std::int64_t>(numbers);
      ASSIGN_OR_RETURN(*memory, make_array<std::byte>(count * bytes_of(number)));
      key = scatter(key);
      RETURN_IF_CUDA_FAILS(fill_random, stream, number, memory->get(), count, key);
    }
  }
  if (window_bytes_ > 0)
    RETURN_IF_CUDA_FAILS(fill_random, stream, Number::Fp32, from_.get(),
                         window_bytes_ / static_cast<std::int64_t>(sizeof(float)), scatter(key));
  return open_products(stream, scatter(key));
}

// Chooses an algorithm for each shape, and checks one product of it. c is filled with NaNs before,
// so that check() finds entries that were never written.
Status Multiplier::open_products(cudaStream_t stream, std::uint64_t seed) {
  constexpr int kNaNByte = 0xff;                       // all bits set: a NaN in all types
  const int most_sms = sms_ < device_sms_ ? sms_ : 0;  // 0: all
  for (const ProductShape& shape : shapes_) {
    ASSIGN_OR_RETURN(Product product, Product::open(cublas_.get(), shape, most_sms));
    RETURN_IF_CUDA_FAILS(cudaMemsetAsync, c_.get(), kNaNByte,
                         static_cast<std::size_t>(shape.c_bytes()), stream);
    RETURN_IF_ERROR(product.run(cublas_.get(), memory(shape), stream));
    RETURN_IF_ERROR(product.check(memory(shape), seed, stream));
    products_.push_back(std::move(product));
  }
  RETURN_IF_CUDA_FAILS(cudaStreamSynchronize, stream);
  return Done{};
}

std::int64_t Multiplier::launches(std::int32_t kernel) const {
  constexpr std::int64_t kOfProduct = 2;  // split-K has a second kernel, which adds up the parts
  std::int64_t all = 1;                   // the copy
  for (const Task& task : jobs_.at(kernel).tasks) all += kOfProduct * task.times;
  return all;
}

Status Multiplier::run(std::int32_t kernel, cudaStream_t stream) const {
  const auto job = jobs_.find(kernel);
  CHECK(job != jobs_.end());
  for (const Task& task : job->second.tasks) {
    const Product& product = products_[task.product];
    for (std::int64_t i = 0; i < task.times; ++i)
      RETURN_IF_ERROR(product.run(cublas_.get(), memory(product.shape()), stream));
  }
  constexpr int kBlocksAnSm = 2;  // of 512 threads: half of what an SM holds, as others need room
  if (job->second.copied_bytes > 0)
    RETURN_IF_CUDA_FAILS(copy_bytes, stream, kBlocksAnSm * sms_, from_.get(), to_.get(),
                         job->second.copied_bytes, window_bytes_);
  return Done{};
}

}  // namespace tandem
