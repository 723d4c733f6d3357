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

constexpr std::int64_t kUnit = 16;                // bytes that a thread copies at once
constexpr std::int64_t kWindowBytes = 256 << 20;  // beyond any L2
constexpr std::int64_t kSide = 16;                // FP8: sides are multiples of it
constexpr std::int64_t kAttentionBatch = 64;      // products of attention that make a batch

std::int64_t rounded_up(std::int64_t of, std::int64_t unit) {
  return (of + unit - 1) / unit * unit;
}

Result<Number> number_of(const std::string& precision) {
  if (precision == "fp32") return Number::Fp32;
  if (precision == "fp16") return Number::Fp16;
  if (precision == "bf16") return Number::Bf16;
  if (precision == "fp8") return Number::Fp8;
  return Error{fmt::format("found precision {}, expected fp32, fp16, bf16 or fp8", precision)};
}

ProductShape scaled(const Gemm& gemm, Number number, double scale) {
  const auto side = [scale](std::int64_t of) {
    const double length = std::round(static_cast<double>(of) * scale);
    return static_cast<std::int64_t>(std::clamp(length, 1.0, 0x1p40));
  };
  return {number, gemm.batch, side(gemm.m), side(gemm.n), side(gemm.k)};
}

// Returns the type that attention multiplies in. REQUIRES: number_of(precision) is ok.
Number sixteen_bits(const std::string& precision) {
  return precision == "fp16" ? Number::Fp16 : Number::Bf16;
}

}  // namespace

void Multiplier::add_product(ProductShape shape, std::int64_t times, Job* job) {
  if (shape.number == Number::Fp8) {
    const ProductShape asked = shape;
    for (std::int64_t* side : {&shape.m, &shape.n, &shape.k}) *side = rounded_up(*side, kSide);
    rounded_ |= shape != asked;
  }
  const auto [at, is_new] = numbers_.try_emplace(shape, shapes_.size());
  if (is_new) shapes_.push_back(shape);
  job->tasks.push_back({at->second, times});
  Operands& operands = operands_[shape.number];
  operands.a = std::max(operands.a, shape.a_numbers());
  operands.b = std::max(operands.b, shape.b_numbers());
  c_bytes_ = std::max(c_bytes_, shape.c_bytes());
}

// Adds products that stand for `flops` of attention: scores times values of one head, (1024 x 1024)
// by (1024 x 128), in batches of 64. Less than half the FLOPs of one such product are carried out
// as one smaller product of t tokens, of 2 * 128 * t^2 FLOPs.
void Multiplier::add_attention(double flops, Number number, Job* job) {
  constexpr std::int64_t kTokens = 1024, kHead = 128;
  const ProductShape whole{number, 1, kTokens, kHead, kTokens};
  const auto count = std::llround(flops / whole.flops());
  if (count == 0) {
    const double side = std::sqrt(flops / (2.0 * kHead));
    const auto tokens = std::clamp<std::int64_t>(std::llround(side / kSide), 1, kTokens / kSide);
    add_product({number, 1, tokens * kSide, kHead, tokens * kSide}, 1, job);
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
    const bool wide = gemm.in_16_bits && number == Number::Fp8;
    add_product(scaled(gemm, wide ? Number::Bf16 : number, scale), 1, job);
  }
  if (kernel.attention_flops > 0)
    add_attention(kernel.attention_flops * scale * scale * scale, sixteen_bits(options.precision),
                  job);
  const auto half = std::llround(kernel.memory_bytes / 2 * scale * scale);  // read, and written
  job->copied_bytes = rounded_up(half, kUnit);
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
    const auto [at, is_new] = own.jobs_.try_emplace(op.kernel);
    if (is_new) own.add(program.kernels[op.kernel], options, &at->second);
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
  // c is NaN before a product runs, so that check() finds entries that it never wrote.
  constexpr int kNaN = 0xff;  // in all types
  for (const ProductShape& shape : shapes_) {
    // If it may use all of the device's SMs, it has no limit (0).
    ASSIGN_OR_RETURN(Product product,
                     Product::open(cublas_.get(), shape, sms_ < device_sms_ ? sms_ : 0));
    RETURN_IF_CUDA_FAILS(cudaMemsetAsync, c_.get(), kNaN, static_cast<std::size_t>(shape.c_bytes()),
                         stream);
    RETURN_IF_ERROR(product.run(cublas_.get(), memory(shape), stream));
    RETURN_IF_ERROR(product.check(memory(shape), scatter(key), stream));
    products_.push_back(std::move(product));
  }
  RETURN_IF_CUDA_FAILS(cudaStreamSynchronize, stream);
  return Done{};
}

std::int64_t Multiplier::launches(std::int32_t kernel) const {
  constexpr std::int64_t kOfProduct = 2;  // the second adds up the parts of a split product
  std::int64_t all = 1;                   // the copy
  for (const Task& task : jobs_.at(kernel).tasks) all += kOfProduct * task.times;
  return all;
}

Status Multiplier::run(std::int32_t kernel, cudaStream_t stream) const {
  const auto at = jobs_.find(kernel);
  CHECK(at != jobs_.end());
  for (const Task& task : at->second.tasks) {
    const Product& product = products_[task.product];
    for (std::int64_t i = 0; i < task.times; ++i)
      RETURN_IF_ERROR(product.run(cublas_.get(), memory(product.shape()), stream));
  }
  constexpr int kBlocksAnSm = 2;  // of 512 threads: half of an SM's, to leave room for others
  if (at->second.copied_bytes > 0)
    RETURN_IF_CUDA_FAILS(copy_bytes, stream, kBlocksAnSm * sms_, from_.get(), to_.get(),
                         at->second.copied_bytes, window_bytes_);
  return Done{};
}

}  // namespace tandem
