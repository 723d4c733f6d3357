// Writes a Comparison as JSON, with the keys of `compare --json`. Declared in
// validation/compare/compare.h.
#include "results/field_table.h"
#include "validation/compare/compare.h"

namespace tandem {
namespace {

Json total(const TraceTotal& side) {
  Json json{{"file", side.path}};
  json["meta"] = Json::object();
  for (const auto& [key, text] : side.meta) json["meta"][key] = text;
  json["iteration_s"] = side.metrics.iteration_s;
  json["compute_s"] = side.metrics.compute_s;
  json["bubble_ratio"] = side.metrics.bubble_ratio;
  json["bubble_fraction"] = side.metrics.bubble_fraction;
  json["exposed_s"] = by_group_kind(side.metrics.exposed_s);
  json["comm_s"] = by_group_kind(side.metrics.comm_s);
  json["overlap_fraction"] = by_group_kind(side.metrics.overlap_fraction);
  return json;
}

Json summary(const OpsSummary& ops) {
  return {{"count", ops.count},
          {"with_error", ops.with_error},
          {"simulated_s", ops.simulated_s},
          {"measured_s", ops.measured_s},
          {"median_error", ops.median_error},
          {"worst_error", ops.worst_error}};
}

Json split(const RankSplit& split) {
  ByGroupKind exposed_s{};
  for (int i = 0; i < kGroupKinds; ++i) exposed_s[i] = to_seconds(split.exposed_ns[i]);
  return {{"compute_s", to_seconds(split.compute_ns)},
          {"bubble_s", to_seconds(split.bubble_ns)},
          {"exposed_s", by_group_kind(exposed_s)}};
}

Json op(const OpPair& pair) {
  return {{"rank", index(pair.rank)},
          {"lane", pair.lane},
          {"op", pair.op},
          {"kind", std::string(op_kind_name(pair.kind))},
          {"stage", pair.stage},
          {"microbatch", pair.microbatch},
          {"part", pair.part},
          {"simulated_s", to_seconds(pair.simulated_ns)},
          {"measured_s", to_seconds(pair.measured_ns)},
          {"error", pair.error()}};
}

}  // namespace

Json to_json(const Comparison& comparison) {
  Json json;
  json["iteration_error"] = comparison.iteration_error;
  json["bubble_difference"] = comparison.bubble_difference;
  json["overlap_difference"] = by_group_kind(comparison.overlap_difference);
  json["exposed_difference_s"] = by_group_kind(comparison.exposed_difference_s);
  json["ops"] = summary(comparison.ops);
  json["kinds"] = Json::object();
  for (const auto& [kind, ops] : comparison.kinds)
    json["kinds"][std::string(op_kind_name(kind))] = summary(ops);
  json["simulated"] = total(comparison.simulated);
  json["measured"] = total(comparison.measured);
  json["ranks"] = Json::array();
  for (std::size_t i = 0; i < comparison.simulated.metrics.ranks.size(); ++i) {
    const RankSplit& simulated = comparison.simulated.metrics.ranks[i];
    json["ranks"].push_back({{"rank", index(simulated.rank)},
                             {"stands_for", simulated.multiplicity},
                             {"simulated", split(simulated)},
                             {"measured", split(comparison.measured.metrics.ranks[i])}});
  }
  json["worst"] = Json::array();
  for (const OpPair& pair : comparison.worst) json["worst"].push_back(op(pair));
  return json;
}

}  // namespace tandem
