#include "report/text/cost_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;

// Says which operation the row measured: a kernel's name, the sizes of GEMMs, attention's FLOPs, or
// bytes; and the ranks of a collective.
std::string operation_text(const CostRow& row) {
  if (row.what == CostKind::Kernel) return row.name;
  if (row.what == CostKind::Slowdown) return gemms_text(row.gemms) + " beside " + row.name;
  std::string text = gemms_text(row.gemms);
  if (row.gemms.empty()) text = fmt::format("{:.0f} bytes", row.bytes);
  if (row.attention_flops > 0) text = fmt::format("{:.4g} GFLOP", 1e-9 * row.attention_flops);
  if (row.ranks > 0)
    text += fmt::format(", {} ranks{}", row.ranks, row.between_nodes ? " between nodes" : "");
  return text;
}

std::string rate_text(const CostTable& table, const CostRow& row) {
  const auto [rate, unit] = rate_of(table, row);
  if (unit == "ratio") return fmt::format("{:.3f} x alone", rate);
  return unit == "flop/s" ? fmt::format("{:.3f} TFLOP/s", 1e-12 * rate)
                          : fmt::format("{:.3f} GB/s", 1e-9 * rate);
}

}  // namespace

std::string cost_text(const CostTable& table, int width) {
  std::string text;
  for (const auto& [key, value] : table.meta) text += fmt::format("# {}: {}\n", key, value);
  using Row = const CostRow&;
  const auto us = [](Nanoseconds ns) {
    return fmt::format("{:.1f}", 1e-3 * static_cast<double>(ns));
  };
  const std::vector<Column<CostRow>> columns = {
      {"what", [](Row row) { return std::string(cost_kind_name(row.what)); }, Place::Name},
      {"of", operation_text, Place::Name},
      {"count", [](Row row) { return fmt::format("{}", row.count); }},
      {"p5 us", [=](Row row) { return us(row.p5_ns); }},
      {"p50 us", [=](Row row) { return us(row.p50_ns); }, Place::First},
      {"p95 us", [=](Row row) { return us(row.p95_ns); }},
      {"rate", [&](Row row) { return rate_text(table, row); }, Place::First}};
  return wrapped(text, width) + text_table(columns, table.rows, width);
}

Json to_json(const CostTable& table) {
  Json json = {{"meta", Json::object()}, {"rows", Json::array()}};
  for (const auto& [key, value] : table.meta) json["meta"][key] = value;
  for (const CostRow& row : table.rows) {
    const auto [rate, unit] = rate_of(table, row);
    json["rows"].push_back({{"what", cost_kind_name(row.what)},
                            {"name", row.name},
                            {"gemms", gemms_text(row.gemms)},
                            {"attention_flops", row.attention_flops},
                            {"bytes", row.bytes},
                            {"ranks", row.ranks},
                            {"between_nodes", row.between_nodes},
                            {"sms", row.sms},
                            {"count", row.count},
                            {"p5_ns", row.p5_ns},
                            {"p50_ns", row.p50_ns},
                            {"p95_ns", row.p95_ns},
                            {"rate", rate},
                            {"unit", unit}});
  }
  return json;
}

}  // namespace tandem
