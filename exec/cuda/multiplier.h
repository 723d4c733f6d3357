// Multiplier: carries out compute ops as real matrix products on a local rank's SMs.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/result.h"
#include "exec/cuda/handles.h"
#include "exec/cuda/product.h"
#include "exec/execute.h"
#include "schedule/program/program.h"

namespace tandem {

// Does the work of a body's kernels on random matrices. GEMMs keep their shapes, with each side
// times options.gemm_scale. A fused attention becomes products of (1024 x 1024) by (1024 x 128), or
// smaller ones, with as many FLOPs, in 16 bits. Memory-bound kernels copy their bytes.
class Multiplier {
 public:
  // Plans the products and copies of each kernel. `sms`: the local rank's SMs; `device_sms`: all of
  // the device's. Error(BadInput) if a compute op that takes time has no kernel.
  static Result<Multiplier> plan(const Program& program, const Body& body,
                                 const ExecOptions& options, int sms, int device_sms);

  double bytes() const;  // device memory that open() allocates
  // Returns whether a side was rounded up to a multiple of 16, which FP8 needs.
  bool rounded() const { return rounded_; }
  // Allocates memory, chooses algorithms, and multiplies each shape once. Error::Failed if a result
  // is wrong. Waits for the stream.
  Status open(cudaStream_t stream, std::uint64_t seed);
  // Returns how many kernels run() launches at most. REQUIRES: as for run().
  std::int64_t launches(std::int32_t kernel) const;
  // Puts a kernel's work into the stream. REQUIRES: the kernel is one of the body's ops that take
  // time.
  Status run(std::int32_t kernel, cudaStream_t stream) const;

 private:
  // A product that a kernel's work includes, `times` times.
  struct Task {
    std::size_t product = 0;  // into shapes_ and products_
    std::int64_t times = 1;
  };
  // The work that stands for a kernel.
  struct Job {
    std::vector<Task> tasks;
    std::int64_t copied_bytes = 0;
  };
  // The matrices a and b of all products in one number type, as large as the largest needs.
  struct Operands {
    double a = 0, b = 0;  // how many numbers each has
    DeviceArray<std::byte> a_memory, b_memory;
  };

  Multiplier() = default;
  void add(const Kernel& kernel, const ExecOptions& options, Job* job);
  void add_product(ProductShape shape, std::int64_t times, Job* job);
  void add_attention(double flops, Number number, Job* job);
  Status open_products(cudaStream_t stream, std::uint64_t seed);
  ProductMemory memory(const ProductShape& shape) const;

  int sms_ = 0;
  int device_sms_ = 0;
  bool rounded_ = false;
  std::map<ProductShape, std::size_t> shape_indices_;  // into shapes_
  std::vector<ProductShape> shapes_;
  std::map<std::int32_t, Job> jobs_;  // by kernel
  std::map<Number, Operands> operands_;
  double c_bytes_ = 0;
  std::int64_t window_bytes_ = 0;  // size of from_ and to_; longer copies go over them repeatedly
  CublasLt cublas_;
  std::vector<Product> products_;
  DeviceArray<std::byte> c_, from_, to_, workspace_;
};

}  // namespace tandem
