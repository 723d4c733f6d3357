#include "interop/rl/settings.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/split.h"
#include "interop/document/fields.h"
#include "interop/megatron/yaml_text.h"

namespace tandem {
namespace {

// Fields of config.json that change neither time nor memory.
constexpr std::string_view kQuietModelFields =
    "attn_implementation max_position_embeddings rope_* *dropout* use_cache initializer_range "
    "*_token_id *dtype *aux_loss* output_* moe_config.* num_nextn_predict_layers ";

}  // namespace

void add_document(const DocumentNode& map, const std::string& path, const std::string& prefix,
                  MegatronArguments* to) {
  for (const DocumentField& field : *map.map()) {
    const std::string name = prefix + field.key;
    if (field.value.map() != nullptr) {
      add_document(field.value, path, name + '.', to);
    } else {
      to->add_field(name, written_value(field.value), fmt::format("{}:{}", path, field.value.line));
    }
  }
}

void add_overrides(const StartedCommand& command, const std::string& path, MegatronArguments* to) {
  for (const ShellWord& word : command.behind) {
    const std::size_t first = std::min(word.text.find_first_not_of("+'\""), word.text.size());
    const std::size_t equals = word.text.find('=', first);
    if (equals == std::string::npos || word.text[first] == '-') continue;
    to->add_field(word.text.substr(first, equals - first), word.text.substr(equals + 1),
                  fmt::format("{}:{}", path, word.line));
  }
}

std::optional<ShellWord> hydra_config(const ShellCommand& words) {
  std::optional<ShellWord> found;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& text = words[i].text;
    const std::size_t equals = text.find('=');
    if (!matches_word(text.substr(0, equals), "--config-name -cn")) continue;
    if (equals != std::string::npos)
      found = {text.substr(equals + 1), words[i].line};
    else if (i + 1 < words.size())
      found = words[i + 1];
  }
  if (!found) return found;
  std::erase_if(found->text, [](char c) { return c == '\'' || c == '"'; });
  found->text.erase(0, found->text.rfind('/') + 1);
  if (found->text.ends_with(".yaml")) found->text.resize(found->text.size() - 5);
  return found;
}

void add_torchrun(const StartedCommand& command, const std::string& path, MegatronArguments* to) {
  const ShellCommand& words = command.before;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::size_t equals = words[i].text.find('=');
    std::string name = words[i].text.substr(0, equals);
    std::ranges::replace(name, '-', '_');
    const bool nodes = name == "__nnodes";
    if (!nodes && name != "__nproc_per_node") continue;
    const std::string value = equals != std::string::npos ? words[i].text.substr(equals + 1)
                              : i + 1 < words.size()      ? words[i + 1].text
                                                          : "";
    to->add_field(nodes ? "nnodes" : "gpus_per_node", value,
                  fmt::format("{}:{}", path, words[i].line));
  }
}

void note_settings(std::string_view prefix, std::span<const SettingNote> rows,
                   MegatronArguments* settings, ImportedPlan* plan) {
  for (const SettingNote& row : rows) {
    for (const std::string& part : split(row.names, " ")) {
      const std::string name = std::string(prefix) + part;
      const std::string value = lower_case(settings->text(name).value_or(std::string(row.usual)));
      if (value != row.usual)
        plan->not_expressed.push_back(
            fmt::format("{}: {} = {}: {}", settings->place_of(name), name, value, row.what));
    }
  }
}

void note_model(std::string_view setting, MegatronArguments* settings, ImportedPlan* plan) {
  if (const auto model = settings->text(setting))
    plan->assumed.push_back(fmt::format("{}: the model is {}, whose config.json states it",
                                        settings->place_of(setting), *model));
}

void check_model_overrides(const std::string& prefix, const ImportContext& context,
                           MegatronArguments* settings) {
  for (const std::string& name : settings->names(prefix)) {
    std::string field = name.substr(prefix.size());
    if (field.starts_with("model_config.")) field.erase(0, field.find('.') + 1);
    const std::string value = lower_case(settings->text(name).value_or("none"));
    if (matches_word(field, kQuietModelFields)) continue;
    const bool is_stated = std::ranges::any_of(context.beside, [&](const ImportSource& source) {
      const auto document = parse_json(source.text, source.path);
      const DocumentNode* stated = document.ok() ? document->find(field) : nullptr;
      return stated != nullptr && lower_case(written_value(*stated)) == value;
    });
    if (!is_stated)
      settings->fail(name, fmt::format("the same {} in the model's config.json, which is read as "
                                       "it is: write it there",
                                       field));
  }
}

void assume_longest(std::int64_t seq, ImportedPlan* plan) {
  plan->assumed.push_back(
      fmt::format("model.seq = {}: every sequence is as long as it may be", seq));
}

}  // namespace tandem
