#include "report/text/comm_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "report/text/number_cells.h"

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;

bool reduces(CommKind kind) {
  return kind == CommKind::AllReduce || kind == CommKind::ReduceScatter;
}

// Writes a time in seven characters: "  12.34", " 1234.5", "  12345".
std::string microseconds(double seconds) {
  const double us = 1e6 * seconds;
  if (us >= 10000) return fmt::format("{:7.0f}", us);
  return us >= 100 ? fmt::format("{:7.1f}", us) : fmt::format("{:7.2f}", us);
}

// Writes a row of nccl-tests' out-of-place columns. Root -1: the operation has no root.
std::string nccl_tests_line(const CommTable& table, const CommRow& row, bool checked) {
  return fmt::format("{:12}  {:12}  {:>8}  {:>6}  {:>6}  {}  {:6.2f}  {:6.2f}  {:>5}\n",
                     row.size.bytes, row.size.count, "float",
                     reduces(table.test.kind) ? "sum" : "none", -1, microseconds(row.seconds),
                     table.algbw(row) / GB, table.busbw(row) / GB, checked ? "0" : "N/A");
}

std::string nccl_tests_table(const CommTable& table, bool checked) {
  std::string text = fmt::format("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}           out-of-place\n",
                                 "", "", "", "", "");
  text += fmt::format("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}  {:>7}  {:>6}  {:>6} {:>6}\n", "size",
                      "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong");
  text += fmt::format("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}  {:>7}  {:>6}  {:>6}  {:>5}\n", "(B)",
                      "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "");
  for (const CommRow& row : table.rows) text += nccl_tests_line(table, row, checked);
  if (checked) text += "# Out of bounds values : 0 OK\n";
  return text + fmt::format("# Avg bus bandwidth    : {:g}\n#\n", table.mean_busbw() / GB);
}

}  // namespace

std::string title(const CommTest& test) {
  if (test.kind != CommKind::SendRecv) return std::string(comm_kind_name(test.kind));
  return fmt::format("p2p {} > {}", index(test.members[0]), index(test.members[1]));
}

std::string comm_text(const CommResult& result, const CommBench& bench, const std::string& step) {
  std::string all = fmt::format(
      "# nThread 1 nGpus 1 minBytes {} maxBytes {} step: {} warmup iters: {} iters: {} agg iters: "
      "1 validation: {} graph: 0\n#\n",
      bench.sizes.front(), bench.sizes.back(), step, bench.warmup, bench.iterations,
      result.checked ? 1 : 0);
  all += fmt::format("# {} on {}; {}\n#\n", result.backend, result.cluster, result.real);
  for (const CommTable& table : result.tables) {
    all += fmt::format("# {}: {} ranks on {} node{}\n", title(table.test), table.ranks(),
                       table.nodes, table.nodes > 1 ? "s" : "");
    all += nccl_tests_table(table, result.checked);
  }
  return all;
}

Json to_json(const CommResult& result, const CommBench& bench) {
  Json tables = Json::array();
  for (const CommTable& table : result.tables) {
    Json json = {{"op", comm_kind_name(table.test.kind)},
                 {"backend", result.backend},
                 {"cluster", result.cluster},
                 {"real", result.real},
                 {"ranks", table.ranks()},
                 {"nodes", table.nodes},
                 {"iters", bench.iterations},
                 {"warmup_iters", bench.warmup}};
    if (table.test.kind == CommKind::SendRecv)
      json["pair"] = {index(table.test.members[0]), index(table.test.members[1])};
    json["avg_busbw_GBps"] = table.mean_busbw() / GB;
    json["rows"] = Json::array();
    for (const CommRow& row : table.rows)
      json["rows"].push_back({{"size", row.size.bytes},
                              {"count", row.size.count},
                              {"time_us", 1e6 * row.seconds},
                              {"algbw_GBps", table.algbw(row) / GB},
                              {"busbw_GBps", table.busbw(row) / GB},
                              {"wrong", result.checked ? Json(0) : Json()}});
    tables.push_back(std::move(json));
  }
  return tables;
}

namespace {

// A row of the table of fits: the errors of one fit over a range of sizes.
struct FitRow {
  const CommFit* fit;
  SizeErrors errors;
};

// Returns "512 B", "64 KiB", "8 GiB".
std::string size_text(Bytes bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double size = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; size >= 1024 && unit + 1 < std::size(kUnits); ++unit) size /= 1024;
  return fmt::format("{:.4g} {}", size, kUnits[unit]);
}

// Returns the share of the latency in the time of so many bytes.
double latency_share(const CalibrationRow& row, Bytes bytes) {
  return row.latency_s / (row.latency_s + row.seconds_per_byte() * static_cast<double>(bytes));
}

// Returns lines on fits whose latency or bandwidth hardly changes the measured times, or that are
// farther off than the cluster's own numbers.
std::vector<std::string> doubtful_fits(const std::vector<JudgedFit>& fits,
                                       const std::string& cluster) {
  std::vector<std::string> lines;
  for (const auto& [fit, times] : fits) {
    const std::string group = group_text(fit.row);
    const Bytes least = fit.sizes.front(), most = fit.sizes.back();
    if (const double share = latency_share(fit.row, least); share < 0.1)
      lines.push_back(fmt::format(
          "{}: its latency is not determined: it is {:.1f} % of the time of the smallest size, {}",
          group, 100 * share, size_text(least)));
    if (const double share = latency_share(fit.row, most); share > 0.5)
      lines.push_back(fmt::format(
          "{}: its bandwidth is not determined: latency is {:.0f} % of the time of the largest "
          "size, {}",
          group, 100 * share, size_text(most)));
    const SizeErrors all = errors_by_size(fit, times).front();
    if (all.before_median < all.median)
      lines.push_back(fmt::format(
          "{}: {} alone is nearer, {:.1f} % off in the median against {:.1f}: its [[fit]] is worth "
          "having only for sizes that it is nearer at",
          group, cluster, 100 * all.before_median, 100 * all.median));
  }
  return lines;
}

}  // namespace

std::string group_text(const CalibrationRow& row) {
  return fmt::format("{} of {} ranks on {} node{}", comm_kind_name(row.kind), row.ranks, row.nodes,
                     row.nodes > 1 ? "s" : "");
}

std::string comm_fit_table(const std::vector<JudgedFit>& fits, const std::string& cluster,
                           int width) {
  std::vector<FitRow> rows;
  for (const JudgedFit& judged : fits) {
    for (SizeErrors& errors : errors_by_size(judged.fit, judged.times))
      rows.push_back({&judged.fit, std::move(errors)});
  }
  using Row = const FitRow&;
  // Returns the cell in the row of all sizes, and nothing in other rows.
  const auto once = [](Row row, const std::string& cell) {
    return row.errors.sizes == kAllSizes ? cell : std::string();
  };
  const std::vector<Column<FitRow>> columns = {
      {"operation", [](Row row) { return std::string(comm_kind_name(row.fit->row.kind)); },
       Place::Name},
      {"ranks", [](Row row) { return std::to_string(row.fit->row.ranks); }, Place::Name,
       Align::Right},
      {"nodes", [](Row row) { return std::to_string(row.fit->row.nodes); }, Place::Name,
       Align::Right},
      {"sizes",
       [](Row row) {
         return row.errors.sizes == kAllSizes
                    ? size_text(row.fit->sizes.front()) + " to " + size_text(row.fit->sizes.back())
                    : row.errors.sizes;
       },
       Place::Name},
      {"latency us",
       [=](Row row) { return once(row, fmt::format("{:.2f}", 1e6 * row.fit->row.latency_s)); }},
      {"bus GB/s",
       [=](Row row) {
         return once(row, fmt::format("{:.2f}", row.fit->row.bus_bytes_per_s / GB));
       }},
      {"rows", [](Row row) { return std::to_string(row.errors.times); }},
      {"fit off by %, median", [](Row row) { return percent(row.errors.median); }},
      {"worst", [](Row row) { return percent(row.errors.worst); }, Place::Beside},
      {cluster + " off by %, median", [](Row row) { return percent(row.errors.before_median); }},
      {"worst", [](Row row) { return percent(row.errors.before_worst); }, Place::Beside}};
  return text_table(columns, rows, width);
}

std::vector<std::string> undetermined(const std::vector<JudgedFit>& fits,
                                      const std::string& cluster) {
  std::vector<std::string> lines = doubtful_fits(fits, cluster);
  std::vector<std::string> unmeasured;
  const auto any_fit = [&](auto holds) { return std::ranges::any_of(fits, holds); };
  for (int i = 0; i < kCommKinds; ++i) {
    const CommKind kind = static_cast<CommKind>(i);
    if (!any_fit([&](const JudgedFit& judged) { return judged.fit.row.kind == kind; }))
      unmeasured.emplace_back(comm_kind_name(kind));
  }
  if (!unmeasured.empty())
    lines.push_back(
        fmt::format("no table of {}: {}'s numbers hold", fmt::join(unmeasured, ", "), cluster));
  if (!any_fit([](const JudgedFit& judged) { return judged.fit.row.nodes > 1; }))
    lines.push_back(fmt::format("no table between nodes: {}'s numbers hold there", cluster));
  if (!any_fit([](const JudgedFit& judged) { return judged.fit.row.nodes == 1; }))
    lines.push_back(fmt::format("no table inside a node: {}'s numbers hold there", cluster));
  lines.push_back(fmt::format(
      "groups of other numbers of ranks or nodes than these tables': {}'s numbers hold", cluster));
  return lines;
}

}  // namespace tandem
