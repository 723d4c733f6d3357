#include "report/text/comm_table.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

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

// Writes a row as nccl-tests does, out of place. Root -1: the operation has no root.
std::string line(const CommTable& table, const CommRow& row, bool checked) {
  return fmt::format("{:12}  {:12}  {:>8}  {:>6}  {:>6}  {}  {:6.2f}  {:6.2f}  {:>5}\n",
                     row.size.bytes, row.size.count, "float",
                     reduces(table.test.kind) ? "sum" : "none", -1, microseconds(row.seconds),
                     table.algbw(row) / GB, table.busbw(row) / GB, checked ? "0" : "N/A");
}

std::string text(const CommTable& table, bool checked) {
  constexpr const char* kHead =
      "# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}  {:>7}  {:>6}  {:>6}  {:>5}\n";
  std::string text = fmt::format("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}           out-of-place\n",
                                 "", "", "", "", "");
  text += fmt::format("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}  {:>7}  {:>6}  {:>6} {:>6}\n", "size",
                      "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong");
  text += fmt::format(fmt::runtime(kHead), "(B)", "(elements)", "", "", "", "(us)", "(GB/s)",
                      "(GB/s)", "");
  for (const CommRow& row : table.rows) text += line(table, row, checked);
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
    all += text(table, result.checked);
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

}  // namespace tandem
