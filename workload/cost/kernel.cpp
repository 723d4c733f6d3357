// The analytic model of kernel times. A GEMM is cut into output tiles, which the SMs compute in
// waves (tile and wave quantization); attention and memory-bound passes have a rate. The tiles were
// fitted to 183 GEMM shapes measured on an A100-PCIe (SimuMax's table;
// tests/workload/kernel_test.cpp checks that a sample is within 5 %). A GPU's constants are in
// DeviceSpec (topology/cluster.h), a framework's in FrameworkProfile.
#include "workload/cost/kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/csv.h"
#include "workload/cost/cost_table.h"

namespace tandem {
namespace {

// An output tile that one SM computes, and its rate relative to the largest one's: small tiles read
// their operands from shared memory more often.
struct Tile {
  int rows, columns;
  double efficiency;
};
constexpr Tile kTiles[] = {{256, 128, 1.0}, {128, 128, 0.95}, {128, 64, 0.80}, {64, 64, 0.62}};

// K may be cut into parts, so that a GEMM with few output tiles fills the SMs.
constexpr int kSplits[] = {1, 2, 4};

// Returns the constants of GEMMs in a precision. Without constants of its own, fp8 has twice the
// ramp_k: a tile's prologue and epilogue take as long as in 16 bits, while its products are twice
// as fast.
OwnGemms gemms_in(const DeviceSpec& device, const std::string& precision) {
  if (const auto own = device.own_gemms.find(precision); own != device.own_gemms.end())
    return own->second;
  const int number_bytes = std::max(1, bytes_of(precision));
  return {.efficiency = device.gemm_efficiency,
          .ramp_k = device.gemm_ramp_k * std::max(1, kSixteenBits / number_bytes),
          .training_clock = device.training_clock};
}

// DeviceSpec::attention_efficiency is that of heads of this size.
constexpr double kHeadSize = 128;

// Rate of fused attention's backward relative to its forward: 0.85 with heads of 128, 0.77 with
// latent attention on a B200 (MooreThreads/SimuMax), 0.86 on an A100 (arXiv 2307.08691).
constexpr double kAttentionBackward = 0.8;

// Time of fused attention's forward in fp8 relative to bf16, with heads of 128: 0.71 to 0.86 on
// H100 to GB300 (TensorRT-LLM's table in ai-dynamo/aiconfigurator). No table has a backward, so it
// is priced as in bf16.
constexpr double kFp8Attention = 0.77;

// Transformer Engine runs the linear layers in fp8 and attention's batched products in bf16.
std::string_view gemm_precision(const CostModel& model, const Gemm& gemm) {
  const bool runs_in_bf16 =
      is_quantized(model.precision) && gemm.in_16_bits && model.device.flops_per_s.contains("bf16");
  return runs_in_bf16 ? std::string_view("bf16") : std::string_view(model.precision);
}

// Returns the peak FLOP/s of fused attention, which runs in 16 bits: in the model's precision, or
// under fp8 in bf16, Transformer Engine's default.
double attention_peak(const CostModel& model) {
  const auto& peaks = model.device.flops_per_s;
  for (const std::string& precision : {model.precision, std::string("bf16"), std::string("fp16")}) {
    if (bytes_of(precision) == 2 && peaks.contains(precision)) return peaks.at(precision);
  }
  CHECK(peaks.contains(model.precision));
  return peaks.at(model.precision);
}

// Says whether all rows are multiples of kAlignedBytes. If not, cuBLAS uses slower kernels.
// Quantized operands are always cast into aligned rows.
bool aligned(const Gemm& gemm, int number_bytes) {
  if (number_bytes == 1) return true;
  return gemm.n * number_bytes % kAlignedBytes == 0 && gemm.k * number_bytes % kAlignedBytes == 0;
}

// Says whether the GEMM is a grouped product of experts. Batches in attention have in_16_bits.
bool is_of_experts(const Gemm& gemm) { return gemm.batch > 1 && !gemm.in_16_bits; }

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Returns the time of a GEMM's waves of tiles, with the tile and the split of K that are fastest.
double waves_s(const DeviceSpec& device, const Gemm& gemm, double ramp_k, double rate) {
  double best_s = std::numeric_limits<double>::infinity();
  for (const Tile& tile : kTiles) {
    const double tiles = static_cast<double>(gemm.batch) * ceil_div(gemm.m, tile.rows) *
                         ceil_div(gemm.n, tile.columns);
    for (const int split : kSplits) {
      // Example, with gemm_whole_wave = 0.6: 2.25 waves cost as much as 0.6 x 3 + 0.4 x 2.25 = 2.7.
      const double waves = tiles * split / device.sms;
      const double charged = device.gemm_whole_wave * std::ceil(waves) +
                             (1 - device.gemm_whole_wave) * std::max(waves, 1.0);
      const double wave_flops = device.sms * 2.0 * tile.rows * tile.columns *
                                (static_cast<double>(gemm.k) / split + ramp_k);
      best_s = std::min(best_s, charged * wave_flops / (tile.efficiency * rate));
    }
  }
  return best_s;
}

// Returns the factor of short rows: 1 + ramp_keys / keys. A window cuts each row at two ends, where
// a causal mask cuts one, but it takes no longer than the same rows without it. These have
// 1 / window_share times the FLOPs, at the factor of their own keys.
double short_rows(const AttentionShape& shape, double ramp_keys) {
  const auto factor = [&](std::int64_t keys) { return 1 + ramp_keys / static_cast<double>(keys); };
  if (shape.window_share == 1) return factor(shape.keys);
  return std::min(factor(shape.keys), factor(shape.keys_without_window) / shape.window_share);
}

// Returns the time of fused attention: FLOPs / rate, times a factor for each of
//   the backward, which has a lower rate; or a forward in fp8
//   short rows:   short_rows()
//   small heads:  1 + softmax_size / head size, relative to heads of kHeadSize
double attention_s(const CostModel& model, const Kernel& kernel) {
  const DeviceSpec& device = model.device;
  const double rate =
      device.attention_efficiency * model.profile.attention_share * attention_peak(model);
  CHECK(rate > 0);
  const AttentionShape& shape = kernel.attention;
  double slower = 1;
  if (shape.backward)
    slower = 1 / kAttentionBackward;
  else if (shape.in_fp8)
    slower = kFp8Attention;
  if (shape.keys > 0) {
    const double softmax = device.attention_softmax_size;
    slower *= short_rows(shape, device.attention_ramp_keys);
    slower *= (1 + softmax / static_cast<double>(shape.head_size)) / (1 + softmax / kHeadSize);
  }
  return slower * kernel.attention_flops / rate + device.attention_launch_s;
}

double passes_s(const CostModel& model, const Kernel& kernel) {
  CHECK(model.device.memory_bytes_per_s > 0);
  return kernel.memory_bytes / (model.profile.memory_efficiency * model.device.memory_bytes_per_s);
}

double host_s(const DeviceSpec& device, const Kernel::HostBytes& bytes) {
  if (bytes.moved == 0) return 0;
  CHECK(device.host_link_bytes_per_s > 0 && device.host_memory_bytes_per_s > 0);
  return bytes.moved / device.host_link_bytes_per_s +
         bytes.updated / device.host_memory_bytes_per_s;
}

// Returns the longest of three times: the device's, the CPU's to launch the kernel, and that of the
// CPU's own work.
double kernel_s(const CostModel& model, const Kernel& kernel) {
  double device_s = passes_s(model, kernel);
  for (const Gemm& gemm : kernel.gemms) device_s += gemm_s(model, gemm);
  if (kernel.attention_flops > 0) device_s += attention_s(model, kernel);
  return std::max({model.profile.compute_stretch * device_s, kernel.launch_s,
                   host_s(model.device, kernel.host_bytes)});
}

KernelPrice table_price(const CostModel& model, const Kernel& kernel) {
  const auto price = kernel_price(*model.table, kernel);
  CHECK(price.ok());
  return *price;
}

// Removes "4096x" or the last "4096" from the text's front, and returns the number.
std::optional<std::int64_t> take_side(std::string_view* text) {
  const std::size_t end = std::min(text->find('x'), text->size());
  const auto side = parse_integer(text->substr(0, end));
  text->remove_prefix(std::min(end + 1, text->size()));
  if (!side.ok()) return std::nullopt;
  return *side;
}

}  // namespace

std::string gemms_text(const std::vector<Gemm>& gemms) {
  std::string text;
  for (const Gemm& g : gemms) {
    const char* const bits = g.in_16_bits ? "a" : "";
    text += fmt::format("{}{}x{}x{}x{}{}", text.empty() ? "" : " ", g.batch, g.m, g.n, g.k,
                        g.scan ? "s" : bits);
  }
  return text;
}

std::optional<std::vector<Gemm>> parse_gemms(std::string_view text) {
  std::vector<Gemm> gemms;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    Gemm& gemm = gemms.emplace_back();
    gemm.scan = word.ends_with('s');
    gemm.in_16_bits = gemm.scan || word.ends_with('a');
    if (gemm.in_16_bits) word.remove_suffix(1);
    if (std::ranges::count(word, 'x') != 3 || word.ends_with('x')) return std::nullopt;
    for (std::int64_t* side : {&gemm.batch, &gemm.m, &gemm.n, &gemm.k}) {
      const auto length = take_side(&word);
      if (!length) return std::nullopt;
      *side = *length;
    }
  }
  return gemms;
}

double Kernel::flops() const {
  double sum = attention_flops;
  for (const Gemm& gemm : gemms) sum += gemm.flops();
  return sum;
}

Status check_cost_model(const CostModel& model) {
  const DeviceSpec& device = model.device;
  const auto rate = device.flops_per_s.find(model.precision);
  if (rate == device.flops_per_s.end()) {
    std::string known;
    for (const auto& [precision, _] : device.flops_per_s) {
      known += (known.empty() ? "" : ", ") + precision;
    }
    return Error::of({"train.precision"},
                     fmt::format("train.precision: found {}, expected one that {} has a rate for: "
                                 "{}",
                                 model.precision, device.name, known.empty() ? "none" : known));
  }
  const auto positive = [](double x) { return std::isfinite(x) && x > 0; };
  if (!positive(rate->second) || !positive(device.memory_bytes_per_s) || device.sms <= 0) {
    return Error::of(
        {"cluster.preset", "cluster.gpu"},
        fmt::format("device {}: found {} SMs, {} FLOP/s ({}) and {} bytes/s of memory bandwidth, "
                    "expected positive numbers",
                    device.name, device.sms, rate->second, model.precision,
                    device.memory_bytes_per_s));
  }
  return Done{};
}

int bytes_of(std::string_view dtype) {
  if (dtype == "fp32") return 4;
  if (dtype == "fp16" || dtype == "bf16") return 2;
  return is_quantized(dtype) ? 1 : 0;
}

bool is_quantized(std::string_view precision) { return precision == "fp8" || precision == "nvfp4"; }

double gemm_s(const CostModel& model, const Gemm& gemm) {
  CHECK(gemm.batch > 0 && gemm.m > 0 && gemm.n > 0 && gemm.k > 0);
  const DeviceSpec& device = model.device;
  const std::string precision(gemm_precision(model, gemm));
  const auto peak = device.flops_per_s.find(precision);
  CHECK(peak != device.flops_per_s.end() && peak->second > 0);
  CHECK(device.sms > 0 && device.memory_bytes_per_s > 0);

  const OwnGemms own = gemms_in(device, precision);
  const double rate = own.efficiency * own.training_clock * peak->second *
                      (is_quantized(precision) ? model.quantized_rate : 1);
  const int number_bytes = std::max(1, bytes_of(precision));
  double tiles_s = waves_s(device, gemm, own.ramp_k, rate);
  if (!aligned(gemm, number_bytes)) tiles_s *= model.profile.unaligned_gemm;
  if (gemm.scan && model.profile.scan_flops_per_s > 0)
    tiles_s = std::max(tiles_s, gemm.flops() / model.profile.scan_flops_per_s);
  const double numbers = static_cast<double>(gemm.batch) * (static_cast<double>(gemm.m) * gemm.k +
                                                            static_cast<double>(gemm.k) * gemm.n +
                                                            static_cast<double>(gemm.m) * gemm.n);
  const double bytes_s = number_bytes * numbers / device.memory_bytes_per_s;
  const double alone_s = std::max(tiles_s + device.gemm_launch_s, bytes_s);
  if (!is_of_experts(gemm)) return alone_s;
  const FrameworkProfile& profile = model.profile;
  return std::max(alone_s, profile.grouped_launch_s + profile.grouped_compute * tiles_s +
                               profile.grouped_operands * bytes_s +
                               static_cast<double>(gemm.batch) * profile.expert_gemm_s);
}

Nanoseconds kernel_ns(const CostModel& model, const Kernel& kernel) {
  if (model.table != nullptr) return table_price(model, kernel).ns;
  return to_ns(kernel_s(model, kernel));
}

double memory_share(const CostModel& model, const Kernel& kernel) {
  if (model.table != nullptr) return table_price(model, kernel).memory_share;
  const double whole_s = kernel_s(model, kernel);
  return whole_s > 0 ? model.profile.compute_stretch * passes_s(model, kernel) / whole_s : 0;
}

}  // namespace tandem
