// KernelFit: fits the costs of a GPU's GEMMs, fused attention and collectives inside a node to
// times that others measured of each alone.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "topology/cluster.h"
#include "topology/comm_kind.h"
#include "validation/kernels/constant_fit.h"
#include "validation/published/published_checks.h"
#include "workload/cost/kernel_shape.h"

namespace tandem {

struct TimedKernel {
  Kernel kernel;
  double measured_s = 0;
};
using TimedKernels = std::map<std::string, std::vector<TimedKernel>>;  // by the GPU's file

// A collective between the first GPUs of a node.
struct TimedCollective {
  CommKind kind = CommKind::AllReduce;
  int gpus = 0;
  Bytes bytes = 0;  // as nccl-tests counts them
  double measured_s = 0;
};
using TimedCollectives = std::map<std::string, std::vector<TimedCollective>>;  // by preset

// A dispatch or combine of DeepEP between the first GPUs of a node.
struct TimedExchange {
  int gpus = 0, sms = 0;
  // Copies of tokens that a GPU sends: a token that goes to three GPUs counts three times.
  double copies = 0, copy_bytes = 0;
  double measured_s = 0;
};
using TimedExchanges = std::map<std::string, std::vector<TimedExchange>>;  // by preset

// Read the tables of validation/kernels. gemm.csv (gpu, m, n, k, time_us) and attention.csv (gpu,
// batch, seq, heads, kv_heads, head_size, time_us: causal, forward) are in bf16. collectives.csv
// has preset, op, gpus, bytes, time_us. deepep.csv has preset, gpus, op, hidden, tokens, top_k,
// experts, sms, time_us: dispatch in fp8, combine in bf16. Errors name file and line.
Result<TimedKernels> read_gemms(const std::string& path);
Result<TimedKernels> read_attentions(const std::string& path);
Result<TimedCollectives> read_collectives(const std::string& path);
Result<TimedExchanges> read_exchanges(const std::string& path);

using DeviceConstant = FittedConstant<DeviceSpec>;
using ClusterConstant = FittedConstant<ClusterSpec>;
const std::vector<DeviceConstant>& gemm_constants();
const std::vector<DeviceConstant>& attention_constants();
const std::vector<ClusterConstant>& collective_constants();
const std::vector<ClusterConstant>& exchange_constants();  // of the preset's GPU

// The constants that fit all rows best. `unseen`: the errors of a fit to a random half of the rows
// on the other half.
template <class Spec>
struct Fitted {
  Spec spec;
  Errors unseen;
};
Fitted<DeviceSpec> fit_kernels(const DeviceSpec& device, const std::vector<TimedKernel>& kernels,
                               const std::vector<DeviceConstant>& constants);
Fitted<ClusterSpec> fit_collectives(const ClusterSpec& spec,
                                    const std::vector<TimedCollective>& timed);

Fitted<ClusterSpec> fit_exchanges(const ClusterSpec& spec, const std::vector<TimedExchange>& timed);

// Returns the errors of a preset's present constants.
Errors collective_errors(const ClusterSpec& spec, const std::vector<TimedCollective>& timed);

}  // namespace tandem
