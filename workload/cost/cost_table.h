// CostTable: measured times of GEMMs, passes over memory, whole kernels and communication on a
// device.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "topology/comm_kind.h"
#include "workload/cost/kernel.h"

namespace tandem {

enum class CostKind : std::uint8_t {
  Gemm,       // one product
  Attention,  // fused attention, by its FLOPs
  Memory,     // a memory-bound pass, by its bytes
  Kernel,     // a whole Kernel
  Send,       // a transfer
  AllReduce,
  ReduceScatter,
  AllGather,
  AllToAll,
  RingShift,
  Copy,      // a transfer by the copy engine
  Slowdown,  // a GEMM beside communication
};
constexpr int kCostKinds = 12;

// Returns the first column of a row: "gemm", "all_reduce".
std::string_view cost_kind_name(CostKind what);
CostKind cost_kind(CommKind kind);

// One measured thing and its time.
struct CostRow {
  CostKind what = CostKind::Gemm;
  std::string name;         // of the Kernel; for a Slowdown, of the communication beside the GEMM
  std::vector<Gemm> gemms;  // Gemm and Slowdown: one; Kernel: all of it
  double attention_flops = 0;
  double bytes = 0;  // of memory-bound passes; of a communication as its op counts them
  int ranks = 0;     // of the communication
  bool between_nodes = false;
  int sms = 0;             // taken by the communication
  std::int64_t count = 0;  // times measured
  Nanoseconds p5_ns = 0, p50_ns = 0, p95_ns = 0;

  double flops() const;
  // Says whether both rows measure the same thing.
  bool same_as(const CostRow& other) const;
  bool operator==(const CostRow&) const = default;
};

struct CostTable {
  std::string path;                                       // of its file, for Errors
  std::vector<std::pair<std::string, std::string>> meta;  // the file's "# key: value" lines
  std::vector<CostRow> rows;                              // no two measure the same

  // Returns the value of a meta line, or "" if there is none.
  std::string_view meta_value(std::string_view key) const;
  // Returns the row that measures the same thing, or nullptr.
  const CostRow* find(const CostRow& like) const;
};

// Returns a row's rate, for people to read, and its unit: "flop/s", "byte/s", or "ratio" for a
// Slowdown: its time divided by the time of the GEMM alone (0 if the table has no such GEMM).
std::pair<double, std::string_view> rate_of(const CostTable& table, const CostRow& row);

struct KernelPrice {
  Nanoseconds ns = 0;
  double memory_share = 0;  // as Kernel::memory_share
  int interpolated = 0;     // GEMMs and attention of shapes that the table does not have
};

// Returns a Kernel's price: its own row's time if it was measured whole; else the sum over its
// GEMMs, attention and passes. It is never less than the Kernel's launch.
//
// A GEMM whose shape is in the table takes its row's time. For another shape the rate is
// interpolated between the rows with the next fewer and the next more FLOPs, linearly in the
// logarithm of FLOPs; beyond the ends it is constant. GEMMs of activations use rows of such GEMMs
// if there are any, and other GEMMs use the other rows. Attention is priced by its FLOPs in the
// same way. The time of passes is linear in bytes between two sizes; it is constant below the
// smallest size, and proportional to bytes above the largest.
//
// An Error names the shape for which there are no rows.
Result<KernelPrice> kernel_price(const CostTable& table, const Kernel& kernel);

// Returns a communication's time, interpolated by bytes as for passes. It uses the rows of its kind
// with the same number of ranks, inside a node or between nodes. Transfers use rows of Copy if
// there is no Send. nullopt: the table has no such rows.
std::optional<Nanoseconds> comm_ns(const CostTable& table, CommKind kind, int ranks,
                                   bool between_nodes, double bytes);

// Returns an Error if the table cannot price every kernel of GEMMs and passes and, where
// `attention` is set, of fused attention.
Status check_covers(const CostTable& table, bool attention);

// Reads what to_text writes (docs/formats.md). Errors name file and line. Tables measured with
// gemm_scale other than 1 are an Error: their matrices are not those of a job.
Result<CostTable> read_cost_table(const std::string& path);
std::string to_text(const CostTable& table);

}  // namespace tandem
