#include "results/run_result.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;

// The names of the two ways to count the FLOPs of attention's products.
constexpr const char *kWholeFlops = "whole attention", *kCausalFlops = "causal attention";

Json by_group_kind(const std::array<double, kGroupKinds>& values) {
  Json json;
  for (int i = 0; i < kGroupKinds; ++i)
    json[std::string(group_kind_name(static_cast<GroupKind>(i)))] = values[i];
  return json;
}

void by_group_kind(const Json& json, std::array<double, kGroupKinds>* values) {
  for (int i = 0; i < kGroupKinds; ++i)
    (*values)[i] = json.at(std::string(group_kind_name(static_cast<GroupKind>(i)))).get<double>();
}

template <class T>
Json optional_json(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

template <class T>
std::optional<T> optional_from(const Json& json) {
  if (json.is_null()) return std::nullopt;
  return json.get<T>();
}

void add_training(const Training& training, Json* json) {
  (*json)["tokens_per_s"] = training.tokens_per_s;
  (*json)["tokens_per_s_per_gpu"] = training.tokens_per_s_per_gpu;
  (*json)["model_tflops_per_gpu"] = training.model_tflops_per_gpu;
  (*json)["hardware_tflops_per_gpu"] = training.hardware_tflops_per_gpu;
  (*json)["mfu"] = training.mfu;
  (*json)["hfu"] = training.hfu;
  (*json)["flops_convention"] = training.causal_flops ? kCausalFlops : kWholeFlops;
  (*json)["memory_bytes"] = {{"weights", training.weights},
                             {"gradients", training.gradients},
                             {"optimizer", training.optimizer},
                             {"activations", training.activations},
                             {"communication", training.communication},
                             {"workspace", training.workspace},
                             {"total", training.total},
                             {"by_pipeline_rank", training.by_pipeline_rank},
                             {"reserve", training.reserve},
                             {"capacity", training.capacity}};
  (*json)["fits"] = training.fits;
  (*json)["peak"] = {{"pipeline_rank", training.peak.pipeline_rank},
                     {"at_s", training.peak.at_s},
                     {"action", training.peak.action}};
}

Json to_json(const OrderFinding& found) {
  Json json = {{"name", found.name.empty() ? Json() : Json(found.name)},
               {"placement", found.in_a_v ? "in a V" : "in order"},
               {"ideal_iteration_s", found.iteration_s},
               {"named", nullptr},
               {"named_vpp", nullptr},
               {"named_iteration_s", nullptr},
               {"gain", nullptr}};
  if (found.named.empty()) return json;
  json["named"] = found.named;
  json["named_vpp"] = found.named_vpp;
  json["named_iteration_s"] = found.named_s;
  json["gain"] = found.gain();
  return json;
}

OrderFinding finding_from_json(const Json& json) {
  OrderFinding found;
  if (const Json& name = json.at("name"); !name.is_null()) name.get_to(found.name);
  found.in_a_v = json.at("placement") == "in a V";
  json.at("ideal_iteration_s").get_to(found.iteration_s);
  if (json.at("named").is_null()) return found;
  json.at("named").get_to(found.named);
  json.at("named_vpp").get_to(found.named_vpp);
  json.at("named_iteration_s").get_to(found.named_s);
  return found;
}

void add_no_training(Json* json) {
  for (const char* key :
       {"tokens_per_s", "tokens_per_s_per_gpu", "model_tflops_per_gpu", "hardware_tflops_per_gpu",
        "mfu", "hfu", "flops_convention", "memory_bytes", "fits", "peak"})
    (*json)[key] = nullptr;
}

Training training_from(const Json& json) {
  const Json &memory = json.at("memory_bytes"), &peak = json.at("peak");
  return {.tokens_per_s = json.at("tokens_per_s"),
          .tokens_per_s_per_gpu = json.at("tokens_per_s_per_gpu"),
          .model_tflops_per_gpu = json.at("model_tflops_per_gpu"),
          .hardware_tflops_per_gpu = json.at("hardware_tflops_per_gpu"),
          .mfu = json.at("mfu"),
          .hfu = json.at("hfu"),
          .causal_flops = json.at("flops_convention") == kCausalFlops,
          .weights = memory.at("weights"),
          .gradients = memory.at("gradients"),
          .optimizer = memory.at("optimizer"),
          .activations = memory.at("activations"),
          .communication = memory.at("communication"),
          .workspace = memory.at("workspace"),
          .total = memory.at("total"),
          .reserve = memory.at("reserve"),
          .capacity = memory.at("capacity"),
          .by_pipeline_rank = memory.at("by_pipeline_rank"),
          .fits = json.at("fits"),
          .peak = {peak.at("pipeline_rank"), peak.at("at_s"), peak.at("action")}};
}

void add_saving(const std::optional<Saving>& saving, Json* json) {
  for (const char* key : {"baseline", "saved_s", "saved_of_iteration", "saved_kind",
                          "saved_communication_s", "saved_of_communication"})
    (*json)[key] = nullptr;
  if (!saving) return;
  (*json)["baseline"] = saving->baseline;
  (*json)["saved_s"] = saving->seconds;
  (*json)["saved_of_iteration"] = saving->of_iteration;
  (*json)["saved_kind"] = saving->kind;
  (*json)["saved_communication_s"] = saving->communication_s;
  (*json)["saved_of_communication"] = optional_json(saving->of_communication);
}

std::optional<Saving> saving_from(const Json& json) {
  if (json.at("baseline").is_null()) return std::nullopt;
  return Saving{json.at("baseline"),
                json.at("saved_s"),
                json.at("saved_of_iteration"),
                json.at("saved_kind"),
                json.at("saved_communication_s"),
                optional_from<double>(json.at("saved_of_communication"))};
}

void add_lower_bound(const std::optional<LowerBound>& bound, Json* json) {
  for (const char* key : {"lower_bound_s", "lower_bound_kind", "lower_bound_rank"})
    (*json)[key] = nullptr;
  if (!bound) return;
  (*json)["lower_bound_s"] = bound->makespan;
  (*json)["lower_bound_kind"] = bound_kind_name(bound->kind);
  if (bound->rank >= 0) (*json)["lower_bound_rank"] = bound->rank;
}

std::optional<LowerBound> lower_bound_from(const Json& json) {
  if (json.at("lower_bound_s").is_null()) return std::nullopt;
  const Json& rank = json.at("lower_bound_rank");
  return LowerBound{json.at("lower_bound_s"),
                    bound_kind(json.at("lower_bound_kind").get<std::string>()).value(),
                    rank.is_null() ? -1 : rank.get<int>()};
}

Json repeats_json(const std::optional<Repeats>& repeats) {
  if (!repeats) return nullptr;
  const Spread& spread = repeats->iteration_s;
  Json each = Json::array();
  for (const RepeatedRun& run : repeats->each) each.push_back(to_json(run));
  return {{"runs", repeats->runs},
          {"first_seed", repeats->first_seed},
          {"iteration_s", {{"p5", spread.p5}, {"p50", spread.p50}, {"p95", spread.p95}}},
          {"each", each}};
}

std::optional<Repeats> repeats_from(const Json& json) {
  if (json.is_null()) return std::nullopt;
  const Json& spread = json.at("iteration_s");
  Repeats repeats{json.at("runs"),
                  json.at("first_seed"),
                  {spread.at("p5"), spread.at("p50"), spread.at("p95")},
                  {}};
  for (const Json& run : json.at("each")) repeats.each.push_back(repeated_run_from_json(run));
  return repeats;
}

Json sensitivity_json(const std::vector<Sensitivity>& sensitivity) {
  if (sensitivity.empty()) return nullptr;
  Json json = Json::array();
  for (const Sensitivity& each : sensitivity)
    json.push_back(
        {{"part", each.part}, {"seconds", each.seconds}, {"of_iteration", each.of_iteration}});
  return json;
}

std::vector<Sensitivity> sensitivity_from(const Json& json) {
  std::vector<Sensitivity> sensitivity;
  for (const Json& each : json)
    sensitivity.push_back({each.at("part"), each.at("seconds"), each.at("of_iteration")});
  return sensitivity;
}

}  // namespace

std::optional<double> above_bound(const RunResult& result) {
  if (!result.lower_bound || result.lower_bound->makespan <= 0) return std::nullopt;
  // The ratio may be a little below 1: SimGrid's ops may end a nanosecond early.
  return std::max(0.0, result.iteration_s / result.lower_bound->makespan - 1);
}

Json to_json(const RunResult& o) {
  Json json;
  json["name"] = o.name;
  json["axes"] = o.axes;
  json["points"] = o.points;
  json["cluster"] = o.cluster;
  json["engine"] = o.engine;
  json["costs"] = o.costs;
  json["gpus"] = o.gpus;
  json["plan"] = nullptr;
  if (o.plan)
    json["plan"] = {{"tp", o.plan->tp},
                    {"pp", o.plan->pp},
                    {"vpp", o.plan->vpp},
                    {"cp", o.plan->cp},
                    {"ep", o.plan->ep},
                    {"dp", o.plan->dp},
                    {"microbatches", o.plan->microbatches}};
  json["layout"] = o.layout.empty() ? Json() : Json(o.layout);
  json["found_order"] = o.found_order ? to_json(*o.found_order) : Json();
  json["iteration_s"] = o.iteration_s;
  json["iteration_low_s"] = o.interval_s ? Json(o.interval_s->first) : Json();
  json["iteration_high_s"] = o.interval_s ? Json(o.interval_s->second) : Json();
  json["calibrated"] = optional_json(o.calibrated);
  json["cost_model"] = o.cost_model.empty() ? Json() : Json(o.cost_model);
  if (o.training) {
    add_training(*o.training, &json);
  } else {
    add_no_training(&json);
  }
  json["bubble_ratio"] = o.bubble_ratio;
  json["bubble_fraction"] = o.bubble_fraction;
  json["bubble_window_fraction"] = o.bubble_window_fraction;
  json["bubble_window_fraction_max"] = o.bubble_window_fraction_max;
  json["compute_s"] = o.compute_s;
  json["exposed_s"] = by_group_kind(o.exposed_s);
  json["comm_s"] = by_group_kind(o.comm_s);
  for (int i = 0; i < kGroupKinds; ++i)
    json["overlap_fraction"][std::string(group_kind_name(static_cast<GroupKind>(i)))] =
        optional_json(o.overlap_fraction[i]);
  json["exposed_between_nodes_s"] = o.exposed_between_nodes_s;
  json["sent_bytes"] = by_group_kind(o.sent_bytes);
  add_saving(o.saving, &json);
  json["published_tflops_per_gpu"] = optional_json(o.published_tflops_per_gpu);
  json["least_internode_Gbitps"] = optional_json(o.least_internode_Gbitps);
  json["looked_for_bandwidth"] = o.looked_for_bandwidth;
  add_lower_bound(o.lower_bound, &json);
  json["repeats"] = repeats_json(o.repeats);
  json["sensitivity"] = sensitivity_json(o.sensitivity);
  json["warnings"] = o.warnings;
  json["ranks_simulated"] = o.ranks_simulated;
  json["ops"] = o.ops;
  json["engine_wall_s"] = o.engine_wall_s;
  return json;
}

RunResult run_result_from_json(const Json& json) {
  RunResult o;
  json.at("name").get_to(o.name);
  json.at("axes").get_to(o.axes);
  json.at("points").get_to(o.points);
  json.at("cluster").get_to(o.cluster);
  json.at("engine").get_to(o.engine);
  json.at("costs").get_to(o.costs);
  json.at("gpus").get_to(o.gpus);
  if (const Json& plan = json.at("plan"); !plan.is_null())
    o.plan = ParallelSizes{plan.at("tp"), plan.at("pp"), plan.at("vpp"),         plan.at("cp"),
                           plan.at("ep"), plan.at("dp"), plan.at("microbatches")};
  if (const Json& layout = json.at("layout"); !layout.is_null()) layout.get_to(o.layout);
  if (const Json& found = json.at("found_order"); !found.is_null())
    o.found_order = finding_from_json(found);
  json.at("iteration_s").get_to(o.iteration_s);
  if (const Json& low = json.at("iteration_low_s"); !low.is_null())
    o.interval_s.emplace(low, json.at("iteration_high_s"));
  o.calibrated = optional_from<bool>(json.at("calibrated"));
  if (const Json& model = json.at("cost_model"); !model.is_null()) model.get_to(o.cost_model);
  if (!json.at("memory_bytes").is_null()) o.training = training_from(json);
  json.at("bubble_ratio").get_to(o.bubble_ratio);
  json.at("bubble_fraction").get_to(o.bubble_fraction);
  json.at("bubble_window_fraction").get_to(o.bubble_window_fraction);
  json.at("bubble_window_fraction_max").get_to(o.bubble_window_fraction_max);
  json.at("compute_s").get_to(o.compute_s);
  by_group_kind(json.at("exposed_s"), &o.exposed_s);
  by_group_kind(json.at("comm_s"), &o.comm_s);
  for (int i = 0; i < kGroupKinds; ++i)
    o.overlap_fraction[i] = optional_from<double>(
        json.at("overlap_fraction").at(std::string(group_kind_name(static_cast<GroupKind>(i)))));
  json.at("exposed_between_nodes_s").get_to(o.exposed_between_nodes_s);
  by_group_kind(json.at("sent_bytes"), &o.sent_bytes);
  o.saving = saving_from(json);
  o.published_tflops_per_gpu = optional_from<double>(json.at("published_tflops_per_gpu"));
  o.least_internode_Gbitps = optional_from<double>(json.at("least_internode_Gbitps"));
  json.at("looked_for_bandwidth").get_to(o.looked_for_bandwidth);
  o.lower_bound = lower_bound_from(json);
  o.repeats = repeats_from(json.at("repeats"));
  o.sensitivity = sensitivity_from(json.at("sensitivity"));
  json.at("warnings").get_to(o.warnings);
  json.at("ranks_simulated").get_to(o.ranks_simulated);
  json.at("ops").get_to(o.ops);
  json.at("engine_wall_s").get_to(o.engine_wall_s);
  return o;
}

Json to_json(const RepeatedRun& run) {
  Json json = {{"seed", run.seed}, {"iteration_s", run.iteration_s}, {"last", nullptr}};
  if (run.last)
    json["last"] = {{"replica", run.last->replica},
                    {"rank", run.last->rank},
                    {"slow_nodes", run.last->slow_nodes}};
  return json;
}

RepeatedRun repeated_run_from_json(const Json& json) {
  RepeatedRun run{json.at("seed"), json.at("iteration_s"), std::nullopt};
  if (const Json& last = json.at("last"); !last.is_null())
    run.last = LastReplica{last.at("replica"), last.at("rank"), last.at("slow_nodes")};
  return run;
}

}  // namespace tandem
