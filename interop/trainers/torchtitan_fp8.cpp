// Reads which layers torchtitan's converters have in fp8, from [model] and the converters' tables:
//
//   converters = ["quantize.linear.float8"]     linear layers, but those of filter_fqns
//   converters = ["quantize.grouped_mm.mx"]     the experts that its fqns names
//
// A scenario has all layers in fp8 but the head and routers. Where converters leave others in 16
// bits, that is noted. Declared in interop/trainers/trainers.h.
#include <fmt/format.h>

#include <algorithm>

#include "base/split.h"
#include "interop/document/fields.h"
#include "interop/trainers/trainers.h"

namespace tandem {
namespace {

// Returns the words of a table's field, a list or a text with commas; none: it has no such field.
std::vector<std::string> field_words(const DocumentNode* table, std::string_view field) {
  const DocumentNode* node = table == nullptr ? nullptr : table->find(field);
  if (node == nullptr) return {};
  if (node->list() == nullptr) return split(node->text(), ",");
  std::vector<std::string> words;
  for (const DocumentNode& word : *node->list()) words.push_back(word.text());
  return words;
}

// Sets the scales of linear layers. torchao gathers weights in float8 with tensorwise ones only.
void set_linear_recipe(const DocumentNode* table, ImportedPlan* plan) {
  const DocumentNode* stated = table == nullptr ? nullptr : table->find("recipe_name");
  const std::string recipe = stated == nullptr ? "" : stated->text();
  if (recipe == "rowwise" || recipe == "rowwise_with_gw_hp") {
    plan->set("train.fp8_recipe", "rowwise", "recipe_name");
    if (recipe != "rowwise")
      plan->not_expressed.push_back(
          "recipe_name = rowwise_with_gw_hp: taken as rowwise; its "
          "gradients of weights are multiplied in 16 bits");
    return;
  }
  const bool is_default = recipe.empty() || recipe == "tensorwise";
  plan->set("train.fp8_recipe", "current", is_default ? "tensorwise, the default" : "recipe_name");
  if (!is_default)
    plan->not_understood.push_back("recipe_name = " + recipe + ": taken as tensorwise");
  const DocumentNode* gathers =
      table == nullptr ? nullptr : table->find("enable_fsdp_float8_all_gather");
  if (gathers != nullptr && gathers->is_true())
    plan->set("train.fp8_param_gather", true, "enable_fsdp_float8_all_gather");
}

// Sets the recipe of experts if linear layers stay in 16 bits. Else all layers have that of linear
// ones, and another one of experts is noted.
void set_expert_recipe(const std::string& recipe, bool linear, ImportedPlan* plan) {
  if (!linear)
    plan->set("train.fp8_recipe", recipe,
              recipe == "mxfp8" ? "model.converters" : "torchao's grouped products");
  if (const std::string all = plan->text_of("train.fp8_recipe"); all != recipe)
    plan->not_expressed.push_back(
        fmt::format("model.converters: experts have the recipe {}; here all layers have {}, that "
                    "of linear layers",
                    recipe, all));
}

}  // namespace

void set_titan_fp8(const std::vector<std::string>& converters, const DocumentNode& document,
                   const ImportContext& context, ImportedPlan* plan) {
  const bool has_experts = std::ranges::any_of(context.before.keys, [](const ImportedKey& key) {
    return key.key.ends_with(".experts") && key.value != KeyValue(std::int64_t{0});
  });
  const bool is_dense = context.before.states_model() && !has_experts;
  const DocumentNode* float8 = document.at("quantize.linear.float8");
  if (float8 == nullptr) float8 = document.find("float8");  // until mid-2025
  bool linear = false;
  std::string expert_recipe;  // empty: experts stay in 16 bits
  for (const std::string& name : converters) {
    const bool is_float8 = name.find("float8") != std::string::npos;
    const bool is_grouped = name.find("grouped") != std::string::npos;
    if (!is_float8 && name.find("mx") == std::string::npos) {
      plan->not_understood.push_back("model.converters: " + name);
      continue;
    }
    const DocumentNode* table = is_float8 && !is_grouped ? float8 : document.at(name);
    const bool names_experts =
        !field_words(table, is_grouped ? "fqns" : "moe_fqns_prototype").empty();
    if (is_grouped && (is_dense || !names_experts)) {
      plan->not_expressed.push_back(fmt::format(
          "model.converters: {} converts nothing: {}", name,
          is_dense ? "the model has no experts" : "its table has no fqns = [\"experts\"]"));
      continue;
    }
    plan->set("train.precision", "fp8", "model.converters");
    if (!is_grouped && is_float8)
      set_linear_recipe(table, plan);
    else if (!is_grouped)
      plan->set("train.fp8_recipe", "mxfp8", "model.converters");
    linear |= !is_grouped;
    if (names_experts) expert_recipe = is_float8 ? "rowwise" : "mxfp8";
    for (const std::string& layer : field_words(table, "filter_fqns")) {
      if (!matches_word(layer, "output lm_head *router* gate"))
        plan->not_expressed.push_back(
            fmt::format("filter_fqns: {}: these layers are in fp8, too", layer));
    }
  }
  const bool experts = !expert_recipe.empty();
  if (experts && !is_dense) set_expert_recipe(expert_recipe, linear, plan);
  const bool leaves_experts = linear && !experts && has_experts;
  const bool leaves_others = experts && !linear && !is_dense;
  if (leaves_experts || leaves_others)
    plan->not_expressed.push_back(
        fmt::format("model.converters: {} stay in 16 bits; here all is in fp8",
                    leaves_experts ? "experts" : "layers other than experts"));
}

}  // namespace tandem
