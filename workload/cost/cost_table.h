// CostTable: what GEMMs, passes, whole kernels and communication were measured to take on a device.
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
  Attention,  // fused attention of so many FLOPs
  Memory,     // a memory-bound pass over so many bytes
  Kernel,     // all of a Kernel, in place
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

// "gemm", "all_reduce": the first column of a row.
std::string_view name(CostKind what);
CostKind cost_kind(CommKind kind);

// One thing that was measured, and how long it took.
struct CostRow {
  CostKind what = CostKind::Gemm;
  std::string name;         // a Kernel's; of Slowdown the communication beside it
  std::vector<Gemm> gemms;  // Gemm and Slowdown: one; Kernel: its own
  double attention_flops = 0;
  double bytes = 0;  // of memory-bound passes; of a communication as its op counts them
  int ranks = 0;     // that communicate
  bool between_nodes = false;
  int sms = 0;             // that the communication states
  std::int64_t count = 0;  // times measured
  Nanoseconds p5_ns = 0, p50_ns = 0, p95_ns = 0;

  double flops() const;
  // Whether both rows measure the same.
  bool same_as(const CostRow& other) const;
  bool operator==(const CostRow&) const = default;
};

struct CostTable {
  std::string path;                                       // of its file, for Errors
  std::vector<std::pair<std::string, std::string>> meta;  // the file's "# key: value" lines
  std::vector<CostRow> rows;                              // no two measure the same

  // The value of a meta line; "" where there is none.
  std::string_view meta_value(std::string_view key) const;
  // The row that measures the same, or nullptr.
  const CostRow* find(const CostRow& like) const;
};

// What a row's time comes to, for the eye: FLOP/s, bytes/s, or of a Slowdown the time over that of
// the GEMM alone (0: the table does not have that). Its unit is "flop/s", "byte/s", "ratio".
std::pair<double, std::string_view> rate_of(const CostTable& table, const CostRow& row);

struct KernelPrice {
  Nanoseconds ns = 0;
  double memory_share = 0;  // what Kernel::memory_share says
  int interpolated = 0;     // GEMMs and attention whose shape the table does not have
};

// A Kernel that was measured whole takes that; else the sum of its GEMMs, attention and passes,
// each as below; never less than its launch.
//
// A GEMM of a shape in the table takes its time. Another one runs at a rate between those of the
// shapes with the next fewer and the next more FLOPs, linear in the FLOPs' logarithm; beyond the
// ends at the last one's. Where there are GEMMs of activations, those go by them, others by the
// others. Attention goes by its FLOPs alike. Passes go by their bytes: linear between two sizes,
// as long as the smallest below that, at the largest one's rate above.
//
// An Error names the shape that there are no rows for.
Result<KernelPrice> kernel_price(const CostTable& table, const Kernel& kernel);

// A communication's time, by bytes as for passes, from the rows of its kind, of as many ranks,
// inside a node or not; transfers where there is no Send from Copy. Nothing: the table has no such.
std::optional<Nanoseconds> comm_ns(const CostTable& table, CommKind kind, int ranks,
                                   bool between_nodes, double bytes);

// An Error where the table cannot price every kernel of GEMMs and passes, and, where asked, of
// fused attention.
Status check_covers(const CostTable& table, bool attention);

// A file as print writes it: docs/formats.md. Errors name file and line. The simulator's tables are
// of whole matrices: Error where gemm_scale is not 1.
Result<CostTable> read_cost_table(const std::string& path);
std::string to_text(const CostTable& table);

}  // namespace tandem
