// Sums up a plan in rows, from its keys and the defaults of a scenario.
#include "interop/plan/understood.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "interop/document/fields.h"

namespace tandem {
namespace {

const ImportedKey* find(const ImportedPlan& plan, std::string_view name) {
  const auto key = std::ranges::find(plan.keys, name, &ImportedKey::key);
  return key == plan.keys.end() ? nullptr : &*key;
}

// Returns the key's value as a scenario writes it, but without quotes; `otherwise`: it is not set.
std::string value_of(const ImportedPlan& plan, std::string_view name, std::string_view otherwise) {
  const ImportedKey* key = find(plan, name);
  if (key == nullptr) return std::string(otherwise);
  std::string value = toml_value(key->value);
  std::erase(value, '"');
  return value;
}

// Returns the places of those keys that a file or an option states, each once; "assumed": none is.
std::string places_of(const ImportedPlan& plan, std::initializer_list<std::string_view> names) {
  std::vector<std::string> places;
  for (const std::string_view name : names) {
    const ImportedKey* key = find(plan, name);
    if (key == nullptr || key->source == ImportedKey::Assumed) continue;
    if (std::ranges::find(places, key->where) == places.end()) places.push_back(key->where);
  }
  return places.empty() ? "assumed" : fmt::format("{}", fmt::join(places, ", "));
}

std::string replicas_of(const ImportedPlan& plan) {
  if (const auto dp = plan.whole_of("parallel.dp")) return fmt::format("{}", *dp);
  const auto gpus = plan.whole_of("cluster.gpus");
  const auto one = [&](IntegerKey key) { return plan.whole_of(key).value_or(1); };
  const std::int64_t replica_gpus =
      product_of({one("parallel.tp"), one("parallel.pp"), one("parallel.cp")});
  return gpus ? fmt::format("{}", *gpus / replica_gpus) : "?";
}

}  // namespace

std::vector<UnderstoodRow> understood(const ImportedPlan& plan) {
  std::string sizes_from =
      places_of(plan, {"parallel.tp", "parallel.pp", "parallel.vpp", "parallel.cp", "parallel.ep",
                       "parallel.dp", "cluster.gpus"});
  const bool has_sizes =
      find(plan, "parallel.tp") != nullptr && find(plan, "parallel.pp") != nullptr;
  if (!has_sizes && sizes_from != "assumed") sizes_from += "; the rest assumed";
  const auto value = [&](std::string_view name, std::string_view otherwise) {
    return value_of(plan, name, otherwise);
  };
  return {{"model", plan.size.empty() ? "?" : plan.size,
           places_of(plan, {"model.layers", "model.pattern", "model.hidden"})},
          {"parallel",
           fmt::format("tp {} x pp {} x vpp {} x cp {} x ep {} x dp {}", value("parallel.tp", "1"),
                       value("parallel.pp", "1"), value("parallel.vpp", "1"),
                       value("parallel.cp", "1"), value("parallel.ep", "1"), replicas_of(plan)),
           sizes_from},
          {"batch",
           fmt::format("{} sequences, {} a microbatch", value("parallel.global_batch", "?"),
                       value("parallel.micro_batch", "1")),
           places_of(plan, {"parallel.global_batch", "parallel.micro_batch"})},
          {"sequence", value("model.seq", "?") + " tokens", places_of(plan, {"model.seq"})},
          {"precision", value("train.precision", "bf16"), places_of(plan, {"train.precision"})},
          {"recompute", value("train.recompute", "none"), places_of(plan, {"train.recompute"})},
          {"optimizer",
           fmt::format("{}, ZeRO {}", value("train.optimizer", "adam"), value("train.zero", "0")),
           places_of(plan, {"train.optimizer", "train.zero"})}};
}

std::string understood_text(const ImportedPlan& plan, std::string_view margin) {
  const bool is_job = std::ranges::any_of(
      plan.keys, [](const ImportedKey& key) { return !key.key.starts_with("cluster."); });
  if (!is_job) return "";
  std::string text;
  for (const UnderstoodRow& row : understood(plan))
    text += fmt::format("{}{:<9}  {:<44}  {}\n", margin, row.what, row.value, row.from);
  return text;
}

std::vector<std::string> unknown_parts(const ImportedPlan& plan) {
  std::vector<std::string> unknown;
  if (!plan.states_model()) unknown.emplace_back("the model: give its config.json");
  // A batch that an option sets is no plan yet.
  const bool has_plan = std::ranges::any_of(plan.keys, [](const ImportedKey& key) {
    const bool is_batch = key.key == "parallel.global_batch" || key.key == "parallel.micro_batch";
    return (key.key.starts_with("parallel.") && !(is_batch && key.source == ImportedKey::Set)) ||
           key.key == "train.zero";
  });
  if (!has_plan) unknown.emplace_back("the parallel sizes: --set parallel.tp=N, parallel.pp=N");
  if (!plan.has("parallel.global_batch"))
    unknown.emplace_back("the batch: --set parallel.global_batch=N");
  for (const OpenKey& open : plan.open) {
    if (find(plan, open.key) == nullptr)
      unknown.push_back(
          fmt::format("{}, which {} leaves open as {}", open.key, open.where, open.field));
  }
  return unknown;
}

}  // namespace tandem
