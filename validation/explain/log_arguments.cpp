// Compares what a log's arguments state, read by the importer of launch scripts, with the job's
// settings, key by key.
#include "validation/explain/log_arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/split.h"
#include "interop/document/fields.h"
#include "interop/import.h"

namespace tandem {
namespace {

using KeyValues = std::map<std::string, KeyValue>;

std::string recompute_text(Recompute recompute) {
  if (recompute == Recompute::None) return "none";
  return recompute == Recompute::Full ? "full" : "selective";
}

// Returns the values of a model whose layers are alike.
KeyValues layer_values(const Model& model) {
  const auto whole = [](int value) { return KeyValue(std::int64_t{value}); };
  KeyValues values = {{"model.gated_mlp", model.gated_mlp},
                      {"model.experts", whole(model.experts)}};
  if (model.mixer == Mixer::Heads) {
    values["model.heads"] = whole(model.heads);
    values["model.kv_heads"] = whole(model.key_value_heads());
  }
  if (model.experts > 0) {
    values["model.top_k"] = whole(model.top_k);
    values["model.expert_ffn_hidden"] = whole(model.expert_ffn());
  } else {
    values["model.ffn_hidden"] = whole(model.ffn());
  }
  return values;
}

// Returns the values of a plan, without those that change nothing: sequence_parallel in a tensor
// group of one GPU, and ZeRO with its overlaps where nothing is data or context parallel.
KeyValues plan_values(const Plan& plan, const DataOptions& data, bool has_experts) {
  KeyValues values = {{"parallel.vpp", std::int64_t{plan.vpp}},
                      {"train.precision", plan.precision},
                      {"train.recompute", recompute_text(plan.recompute)}};
  if (plan.tp > 1) values["train.sequence_parallel"] = plan.sequence_parallel;
  if (has_experts) values["parallel.expert_tp"] = std::int64_t{plan.expert_tensor()};
  if (plan.dp * plan.cp > 1) {
    values["train.zero"] = std::int64_t{plan.zero};
    values["overlap.grad_reduce"] = data.grad_reduce;
    values["overlap.param_gather"] = data.param_gather;
  }
  return values;
}

// Returns the run's lines, with empty ones before them, so that each keeps its number.
std::string numbered_text(std::string_view text, const LogRun& run) {
  std::string lines(static_cast<std::size_t>(run.first - 1), '\n');
  std::size_t begin = 0;
  for (int number = 1; number <= run.last && begin < text.size(); ++number) {
    const std::size_t end = std::min(text.find('\n', begin), text.size() - 1) + 1;
    if (number >= run.first) lines += text.substr(begin, end - begin);
    begin = end;
  }
  return lines;
}

// Returns whether two values of a key are one. Texts may be words in any order. A vocabulary may be
// padded for the tensor ranks, or not yet.
bool is_same(const std::string& key, const KeyValue& a, const KeyValue& b, int tp) {
  const auto number = whole_number(a), other = whole_number(b);
  if (number && other && key == "model.vocab") {
    Model model;
    Plan plan;
    plan.tp = tp;
    const auto padded = [&](std::int64_t vocab) {
      model.vocab = static_cast<int>(vocab);
      return padded_vocab(model, plan);
    };
    return padded(*number) == padded(*other);
  }
  if (number && other) return *number == *other;
  const auto* text = std::get_if<std::string>(&a);
  const auto* other_text = std::get_if<std::string>(&b);
  if (text == nullptr || other_text == nullptr) return a == b;
  const auto words = [](std::string list) {
    std::erase(list, ' ');
    std::vector<std::string> sorted = split(list, ",");
    std::ranges::sort(sorted);
    return sorted;
  };
  return words(*text) == words(*other_text);
}

// Returns a sentence if DeepSpeed, which prints its configuration, ran in another stage of ZeRO;
// empty: it did not, or the run does not say.
std::string compare_zero(const std::string& path, const LogRun& run, const JobValues& job) {
  const auto own = job.values.find("train.zero");
  if (own == job.values.end()) return "";
  for (const RunLine& line : run.lines) {
    const auto stage = count_behind(line.line.text, " zero_optimization_stage ......");
    if (stage && whole_number(own->second) != static_cast<std::int64_t>(*stage))
      return fmt::format(
          "{}:{}: found zero_optimization_stage = {:g}, and the scenario's train.zero is {}: "
          "perhaps a log of another job.",
          path, line.number, *stage, toml_value(own->second));
  }
  return "";
}

}  // namespace

JobValues job_values(const Scenario& scenario) {
  JobValues job;
  for (const auto& [key, setting] : scenario.settings) {
    const std::string table = key.substr(0, key.find('.'));
    // A batch may be ramped up, and a layout has other words for layers_per_stage.
    if (matches_word(table, "model parallel train overlap") && key != "parallel.global_batch" &&
        key != "parallel.layout")
      job.values[key] = setting.value;
  }
  const Model& model = scenario.job.model;
  const Plan& plan = scenario.job.plan;
  Plan usual_plan;
  usual_plan.tp = plan.tp;
  usual_plan.dp = plan.dp;
  usual_plan.cp = plan.cp;
  DataOptions usual_data;
  usual_data.param_gather = plan.zero == 3;
  job.usual = plan_values(usual_plan, usual_data, model.is_moe());
  job.usual["model.tied_embeddings"] = true;
  KeyValues own = plan_values(plan, scenario.job.data, model.is_moe());
  own["cluster.gpus"] = std::int64_t{plan.gpus()};
  own["train.flash_attention"] = plan.flash_attention;
  own["model.vocab"] = std::int64_t{model.vocab};
  own["model.tied_embeddings"] = model.tied_embeddings;
  if (model.kinds.empty()) {
    own["model.pattern"] = std::string();
    own.merge(layer_values(model));
    Model usual_model;
    usual_model.hidden = model.hidden;
    usual_model.heads = model.heads;
    usual_model.mixer = model.mixer;
    job.usual.merge(layer_values(usual_model));
  }
  for (auto& [key, value] : own) job.values[key] = std::move(value);
  return job;
}

Result<std::string> compare_arguments(const std::string& path, std::string_view text,
                                      const LogRun& run, const JobValues& job) {
  const bool has_arguments = std::ranges::any_of(run.lines, [](const RunLine& line) {
    return line.line.text.find("-- end of arguments --") != std::string::npos;
  });
  if (!has_arguments || job.values.empty()) return compare_zero(path, run, job);
  const auto plan = import_sources({{path, numbered_text(text, run)}}, {.keeps_conflicts = true});
  if (!plan.ok())
    return fmt::format("Its arguments are not compared with the scenario: {}.",
                       plan.error().text());
  const bool is_whole = plan->states_model() && plan->has("cluster.gpus");
  const int tp = static_cast<int>(plan->whole_of("parallel.tp").value_or(1));
  for (const auto& [key, own] : job.values) {
    // A value counts if a line states it. One that the importer assumes, or Megatron-LM's usual
    // one, counts if the block of arguments is whole and the key has a usual value.
    const auto imported = std::ranges::find(plan->keys, key, &ImportedKey::key);
    const bool is_there = imported != plan->keys.end();
    const bool is_stated = is_there && imported->source == ImportedKey::Stated;
    const auto usual = job.usual.find(key);
    const bool may_be_usual = is_whole && usual != job.usual.end();
    if (!is_stated && !may_be_usual) continue;
    const KeyValue& found = is_there ? imported->value : usual->second;
    if (is_same(key, found, own, tp)) continue;
    return Error::at(
        is_there ? imported->where : path,
        fmt::format("found {}{} = {}, expected the scenario's {}: a log of another job",
                    is_there ? "" : "arguments that leave ", key, toml_value(found),
                    toml_value(own)));
  }
  return std::string();
}

}  // namespace tandem
