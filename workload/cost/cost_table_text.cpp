// Reads and writes cost tables: CSV with `# key: value` lines above it. Declared in
// workload/cost/cost_table.h.
#include <fmt/format.h>

#include <array>
#include <limits>
#include <string_view>

#include "base/csv.h"
#include "workload/cost/cost_table.h"

namespace tandem {
namespace {

// The last two columns are derived from the others, for people to read.
constexpr std::array<std::string_view, 14> kColumns = {
    "what", "name",  "gemms", "attention_flops", "bytes",  "ranks", "between_nodes",
    "sms",  "count", "p5_ns", "p50_ns",          "p95_ns", "rate",  "unit"};

bool is_communication(CostKind what) { return what >= CostKind::Send && what <= CostKind::Copy; }

// Reads a row's cells and checks each.
class RowReader {
 public:
  RowReader(const CsvTable& file, int row) : file_(file), row_(row) {}

  Result<CostRow> read() const {
    CostRow row;
    ASSIGN_OR_RETURN(row.what, what());
    row.name = file_.text(row_, "name");
    ASSIGN_OR_RETURN(row.gemms, gemms());
    ASSIGN_OR_RETURN(row.attention_flops, size("attention_flops"));
    ASSIGN_OR_RETURN(row.bytes, size("bytes"));
    ASSIGN_OR_RETURN(const std::int64_t ranks, integer("ranks", 0, 1'000'000));
    ASSIGN_OR_RETURN(const std::int64_t between, integer("between_nodes", 0, 1));
    ASSIGN_OR_RETURN(const std::int64_t sms, integer("sms", 0, 1'000));
    row.ranks = static_cast<int>(ranks);
    row.between_nodes = between == 1;
    row.sms = static_cast<int>(sms);
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / 1024;
    ASSIGN_OR_RETURN(row.count, integer("count", 1, kMost));
    ASSIGN_OR_RETURN(row.p5_ns, integer("p5_ns", 0, kMost));
    ASSIGN_OR_RETURN(row.p50_ns, integer("p50_ns", 1, kMost));
    ASSIGN_OR_RETURN(row.p95_ns, integer("p95_ns", 1, kMost));
    if (row.p5_ns > row.p50_ns || row.p50_ns > row.p95_ns)
      return file_.error(row_, fmt::format("found {}, {} and {} ns, expected p5 <= p50 <= p95",
                                           row.p5_ns, row.p50_ns, row.p95_ns));
    RETURN_IF_ERROR(check_shape(row));
    return row;
  }

 private:
  Result<CostKind> what() const {
    const std::string_view word = file_.text(row_, "what");
    std::string known;
    for (int i = 0; i < kCostKinds; ++i) {
      const auto what = static_cast<CostKind>(i);
      if (cost_kind_name(what) == word) return what;
      known += fmt::format(" {}", cost_kind_name(what));
    }
    return file_.error(row_,
                       fmt::format("column 'what': found '{}', expected one of{}", word, known));
  }

  Result<std::vector<Gemm>> gemms() const {
    const std::string_view text = file_.text(row_, "gemms");
    auto gemms = parse_gemms(text);
    bool positive = gemms.has_value();
    if (gemms) {
      for (const Gemm& g : *gemms) positive &= g.batch > 0 && g.m > 0 && g.n > 0 && g.k > 0;
    }
    if (!positive)
      return file_.error(row_, fmt::format("column 'gemms': found '{}', expected shapes as "
                                           "1x4096x5120x1536, parted by blanks",
                                           text));
    return *std::move(gemms);
  }

  Result<std::int64_t> integer(std::string_view column, std::int64_t least,
                               std::int64_t most) const {
    ASSIGN_OR_RETURN(const std::int64_t value, file_.integer(row_, column));
    if (value < least || value > most)
      return file_.error(row_, fmt::format("column '{}': found {}, expected {} to {}", column,
                                           value, least, most));
    return value;
  }

  Result<double> size(std::string_view column) const {
    ASSIGN_OR_RETURN(const double value, file_.number(row_, column));
    if (value < 0)
      return file_.error(
          row_, fmt::format("column '{}': found {}, expected no negative number", column, value));
    return value;
  }

  // Checks that the row has what its kind needs.
  Status check_shape(const CostRow& row) const {
    const auto expect = [&](bool holds, std::string_view what) -> Status {
      if (holds) return Done{};
      return file_.error(
          row_, fmt::format("found '{}' without it, expected {}", cost_kind_name(row.what), what));
    };
    switch (row.what) {
      case CostKind::Gemm:
      case CostKind::Slowdown:
        return expect(row.gemms.size() == 1, "one shape in column 'gemms'");
      case CostKind::Attention:
        return expect(row.attention_flops > 0, "FLOPs in column 'attention_flops'");
      case CostKind::Memory:
        return expect(row.bytes > 0, "bytes in column 'bytes'");
      case CostKind::Kernel:
        return expect(row.flops() > 0 || row.bytes > 0, "shapes, FLOPs or bytes");
      default:
        return expect(row.ranks >= 2, "at least 2 in column 'ranks'");
    }
  }

  const CsvTable& file_;
  const int row_;
};

Status read_meta(const std::string& path, CostTable* table) {
  ASSIGN_OR_RETURN(const CsvFile file, read_csv(path));
  for (const std::string& comment : file.comments) {
    const std::size_t colon = comment.find(':');
    if (colon == 0 || colon == std::string::npos) continue;
    const std::size_t begin = comment.find_first_not_of(' ', colon + 1);
    table->meta.emplace_back(comment.substr(0, colon),
                             begin == std::string::npos ? "" : comment.substr(begin));
  }
  const std::string_view scale = table->meta_value("gemm_scale");
  if (scale.empty() || scale == "1") return Done{};
  return Error::at(
      path, fmt::format("found '# gemm_scale: {}', expected 1: its matrices are not those of a job",
                        scale));
}

std::string shape_text(const CostRow& row) {
  std::string text(cost_kind_name(row.what));
  if (!row.gemms.empty()) text += ' ' + gemms_text(row.gemms);
  if (row.attention_flops > 0) text += fmt::format(" of {:g} FLOPs", row.attention_flops);
  if (row.bytes > 0 || is_communication(row.what)) text += fmt::format(" of {} bytes", row.bytes);
  if (row.ranks > 0) text += fmt::format(" of {} ranks", row.ranks);
  return text;
}

}  // namespace

std::string to_text(const CostTable& table) {
  std::string text;
  for (const auto& [key, value] : table.meta) text += fmt::format("# {}: {}\n", key, value);
  text += fmt::format("{}\n", fmt::join(kColumns, ","));
  for (const CostRow& row : table.rows) {
    const auto [rate, unit] = rate_of(table, row);
    text += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{:.4g},{}\n", cost_kind_name(row.what),
                        csv_cell(row.name), gemms_text(row.gemms), row.attention_flops, row.bytes,
                        row.ranks, row.between_nodes ? 1 : 0, row.sms, row.count, row.p5_ns,
                        row.p50_ns, row.p95_ns, rate, unit);
  }
  return text;
}

Result<CostTable> read_cost_table(const std::string& path) {
  CostTable table{path, {}, {}};
  RETURN_IF_ERROR(read_meta(path, &table));
  ASSIGN_OR_RETURN(const CsvTable file, CsvTable::read(path));
  for (const std::string_view column : kColumns) {
    if (!file.has(column) && column != "rate" && column != "unit")
      return Error::at(path, fmt::format("found no column '{}', expected the columns {}", column,
                                         fmt::join(kColumns, ",")));
  }
  if (file.size() == 0)
    return Error::at(path, "found no rows, expected what tandem calibrate device measured");
  for (int i = 0; i < file.size(); ++i) {
    ASSIGN_OR_RETURN(CostRow row, RowReader(file, i).read());
    if (table.find(row) != nullptr)
      return file.error(i, fmt::format("found a second {}, expected one", shape_text(row)));
    table.rows.push_back(std::move(row));
  }
  return table;
}

}  // namespace tandem
