// Reads each file with the importer of its kind, and merges the plans in order; an importer gets
// the plan of --set (or of a scenario's [model]), --gpus and earlier files as
// ImportContext::before. A kind is recognised by marks in the text, else by the name's ending. A
// file that another given file reads (a base YAML, a script that is sourced) is left to that file's
// importer.
#include "interop/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/split.h"
#include "interop/document/document.h"
#include "interop/document/fields.h"
#include "interop/document/known_files.h"
#include "interop/log/run_meter.h"
#include "interop/megatron/files.h"
#include "interop/model/hugging_face.h"
#include "interop/rl/rl.h"
#include "interop/rl/settings.h"
#include "interop/shell/shell.h"
#include "interop/trainers/trainers.h"

namespace tandem {
namespace {

Error unknown_kind(const ImportContext& context, std::string_view form) {
  return Error::at(context.path,
                   fmt::format("found {} of no known kind, expected {}", form, importable_kinds()));
}

Result<ImportedPlan> import_json(const std::string& text, const ImportContext& context) {
  ASSIGN_OR_RETURN(const DocumentNode document, parse_json(text, context.path));
  if (is_deepspeed(document)) return import_deepspeed(document, context);
  if (is_hugging_face(document)) return import_hugging_face(document, context.path, context.before);
  if (const auto error = known_but_not_read(document, context.path)) return *error;
  return unknown_kind(context, "JSON");
}

Result<ImportedPlan> import_toml(const std::string& text, const ImportContext& context) {
  ASSIGN_OR_RETURN(const DocumentNode document, parse_toml(text, context.path));
  if (is_torchtitan(document)) return import_torchtitan(document, context);
  return unknown_kind(context, "TOML");
}

Result<ImportedPlan> import_yaml(const std::string& text, const ImportContext& context) {
  ASSIGN_OR_RETURN(const DocumentNode document, parse_yaml(text, context.path));
  if (const auto error = known_but_not_read(document, context.path)) return *error;
  if (is_verl(document)) return import_verl(document, context);
  if (is_nemo_rl(document)) return import_nemo_rl(document, context);
  if (is_primus(document)) return import_primus(document, context);
  if (is_megatron_test(document)) return import_megatron_test(document, context);
  if (is_chatlearn(document)) return import_chatlearn(document, context);
  if (is_training_arguments(document)) return import_training_arguments(document, context);
  if (is_accelerate(document)) return import_accelerate(document, context);
  if (is_nemo1(document)) return import_nemo1(document, context);
  if (is_bridge(document)) return import_bridge(document, context);
  return unknown_kind(context, "YAML");
}

// Chooses the importer: by marks in the text, else by the name's ending. Any other text is taken
// for a launch script.
Result<ImportedPlan> import_one(const std::string& text, const ImportContext& context) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos)
    return Error::at(context.path, fmt::format("is empty, expected {}", importable_kinds()));
  // A script may have a line of a log as a comment.
  if (!text.starts_with("#!") && is_log(text)) return import_log(text, context);
  const std::string extension = std::filesystem::path(context.path).extension().string();
  if (text[first] == '{' || extension == ".json") return import_json(text, context);
  if (extension == ".toml") return import_toml(text, context);
  if (extension == ".yaml" || extension == ".yml") return import_yaml(text, context);
  if (extension == ".py")
    return Error::at(context.path,
                     "found a program in Python, which import does not run: give what its run "
                     "writes, such as Megatron-Bridge's run_config.yaml or a log");
  if (is_mlperf(text, context.path)) return import_mlperf(text, context);
  ASSIGN_OR_RETURN(const ShellScript script, parse_shell(text, context.path, context.beside));
  const auto with_branches = [&](Result<ImportedPlan> plan) {
    if (!plan.ok()) return plan;
    list_branches(script, context.path, &*plan);
    for (const std::string& file : script.sourced)
      plan->sources.push_back(fmt::format("{} (read by {})", file, context.path));
    return plan;
  };
  if (const auto commands = commands_of(script, context.path, kVerlPrograms); !commands.empty()) {
    RETURN_IF_ERROR(check_alike(commands));
    return with_branches(import_verl(commands, context));
  }
  if (const auto commands = commands_of(script, context.path, kOpenRlhfPrograms);
      !commands.empty()) {
    RETURN_IF_ERROR(check_alike(commands));
    return with_branches(import_openrlhf(commands, context));
  }
  if (has_torchtitan_overrides(text, context.beside))
    return with_branches(import_torchtitan_overrides(script, context));
  return with_branches(import_shell_script(script, context));
}

// Returns the sources in the order in which they need each other: models first, as other importers
// ask for their layers, ds_config.json behind the others, as it may leave precision and batch to
// them, and logs without arguments last, as they measured the batch of the others.
std::vector<ImportSource> in_order_of_need(std::vector<ImportSource> sources) {
  const auto has = [](const ImportSource& source, const char* word) {
    return source.text.find(word) != std::string::npos;
  };
  std::stable_partition(sources.begin(), sources.end(), [&](const ImportSource& source) {
    return has(source, "\"num_hidden_layers\"") || has(source, "\"model_type\"");
  });
  std::stable_partition(sources.begin(), sources.end(), [&](const ImportSource& source) {
    return !has(source, "\"zero_optimization\"");
  });
  std::stable_partition(sources.begin(), sources.end(), [&](const ImportSource& source) {
    return has(source, "-- arguments --") || source.text.starts_with("#!") || !is_log(source.text);
  });
  return sources;
}

// Returns whether some line of the text begins with `begin`.
bool has_line(const std::string& text, const std::string& begin) {
  return text.starts_with(begin) || text.find('\n' + begin) != std::string::npos;
}

// Returns whether a script starts Hydra with the YAML of this stem, "grpo": by --config-name=grpo,
// or by --config-name=$NAME if the script has some word grpo or X=grpo, whatever X is.
bool names_config(const std::string& text, const std::string& stem) {
  if (text.find("--config-name") == std::string::npos && text.find("-cn") == std::string::npos)
    return false;
  ShellCommand words;
  for (std::string& word : split_words(text)) words.push_back({std::move(word), 0});
  const auto config = hydra_config(words);
  if (!config || !config->text.starts_with('$')) return config && config->text == stem;
  return std::ranges::any_of(words, [&](const ShellWord& word) {
    const std::string& written = word.text;
    return written.substr(written.find('=') + 1) == stem;  // without "=": the whole word
  });
}

// Returns whether a file is a launch script, and not one of MLPerf's.
bool is_launch_script(const ImportSource& source) {
  const std::string extension = std::filesystem::path(source.path).extension().string();
  return !matches_word(extension, ".json .toml .yaml .yml .py") &&
         (source.text.starts_with("#!") || !is_log(source.text)) &&
         !is_mlperf(source.text, source.path);
}

// Returns whether a file is a script of torchtitan's, which reads the TOML file beside it.
bool is_titan_script(const ImportSource& source, const std::vector<ImportSource>& sources) {
  return is_launch_script(source) && has_torchtitan_overrides(source.text, sources);
}

// Returns whether the text has the name as a word or as the last part of a path.
bool has_file_name(const std::string& text, const std::string& name) {
  for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
    if (at > 0 && std::string_view(" \t\"'/:[,").find(text[at - 1]) != std::string::npos)
      return true;
  }
  return false;
}

// Returns whether a script or YAML reads the YAML `file`: by Hydra's "defaults:" or --config-name,
// or by its name, as in "extends: [llama_base.yaml]" and "model: ${MODEL:llama3_8B}.yaml".
bool reads_yaml(const std::string& text, const std::filesystem::path& file) {
  const std::string stem = file.stem().string();
  const bool is_hydra_default =
      has_line(text, "defaults:") && text.find("- " + stem + '\n') != std::string::npos;
  if (is_hydra_default || names_config(text, stem)) return true;
  const bool reads_named_files = has_line(text, "modules:") || has_line(text, "extends:") ||
                                 has_line(text, "defaults:") || has_line(text, "bases:") ||
                                 has_line(text, "includes:");
  return reads_named_files && (has_file_name(text, file.string()) ||
                               has_file_name(text, stem + "}" + file.extension().string()));
}

// Returns whether another source reads this one, so that it is not read by itself.
bool is_read_by_another(const ImportSource& source, const std::vector<ImportSource>& sources) {
  const std::filesystem::path file = std::filesystem::path(source.path).filename();
  const std::string extension = file.extension().string();
  return std::ranges::any_of(sources, [&](const ImportSource& other) {
    if (other.path == source.path) return false;
    if (extension == ".toml") return is_titan_script(other, sources);
    if (extension == ".sh")
      return is_mlperf(other.text, other.path) && has_file_name(other.text, file.string());
    return (extension == ".yaml" || extension == ".yml") && reads_yaml(other.text, file);
  });
}

// Returns the paths of the files that launch scripts source, which are read in the scripts' place.
std::set<std::string> sourced_paths(const std::vector<ImportSource>& sources) {
  std::set<std::string> paths;
  for (const ImportSource& source : sources) {
    if (paths.contains(source.path) || !is_launch_script(source)) continue;
    const auto script = parse_shell(source.text, source.path, sources);
    if (!script.ok()) continue;  // the importer of the script says why
    for (const std::string& file : script->sourced) {
      if (file != source.path) paths.insert(file);
    }
  }
  return paths;
}

// Checks the sizes that options set, before any file's reader divides by them.
Status check_sets(const ImportOptions& options) {
  constexpr std::string_view kSizes[] = {
      "parallel.tp",           "parallel.pp",  "parallel.vpp",       "parallel.cp",
      "parallel.ep",           "parallel.dp",  "parallel.expert_tp", "parallel.micro_batch",
      "parallel.global_batch", "cluster.gpus", "model.layers"};
  for (const auto& [key, value] : options.sets) {
    if (std::ranges::find(kSizes, key) == std::end(kSizes)) continue;
    const auto* whole = std::get_if<std::int64_t>(&value);
    if (whole == nullptr || *whole < 1 || *whole > kMostWhole)
      return Error::at(options.sets_from,
                       fmt::format("found {} = {}, expected an integer from 1 to {}", key,
                                   toml_value(value), kMostWhole));
  }
  return Done{};
}

// Switches flash attention off, as precision is fp32. If a file asks for it, a line says so.
void leave_flash_attention(ImportedPlan* plan) {
  constexpr std::string_view kWhy = "its kernels take 16 bits, and precision is fp32";
  const auto key = std::ranges::find(plan->keys, "train.flash_attention", &ImportedKey::key);
  if (key->source == ImportedKey::Stated)
    plan->not_expressed.push_back(
        fmt::format("{}: {}: flash attention is off: {}", key->where, key->comment, kWhy));
  plan->set("train.flash_attention", false, kWhy);
}

// Removes how tokens go to experts where each GPU has all experts: nothing is sent.
void leave_out_dispatch(ImportedPlan* plan) {
  if (plan->whole_of("parallel.ep").value_or(1) > 1) return;
  const auto is_idle = [](const std::string& key) {
    return matches_word(key, "parallel.dispatcher overlap.expert_sms overlap.shared_experts");
  };
  std::erase_if(plan->conflicts, [&](const auto& conflict) { return is_idle(conflict.key); });
  std::erase_if(plan->keys, [&](const ImportedKey& key) {
    return key.source != ImportedKey::Set && is_idle(key.key);
  });
}

// Assumes sequence parallelism where an option puts tensor ranks and experts together, which need
// it.
void assume_sequence_parallel(ImportedPlan* plan) {
  const auto is_set = [](const ImportedKey& key) { return key.source == ImportedKey::Set; };
  const auto tp = std::ranges::find(plan->keys, "parallel.tp", &ImportedKey::key);
  const auto experts = std::ranges::find_if(plan->keys, [](const ImportedKey& key) {
    return key.key.starts_with("model.") && key.key.ends_with(".experts") &&
           key.value != KeyValue(std::int64_t{0});
  });
  const bool are_together = plan->whole_of("parallel.tp").value_or(1) > 1 &&
                            experts != plan->keys.end() && (is_set(*tp) || is_set(*experts));
  if (!are_together || plan->has("train.sequence_parallel")) return;
  plan->assumed.push_back(
      fmt::format("train.sequence_parallel = true: experts need it with parallel.tp = {} ({})",
                  toml_value(tp->value), is_set(*tp) ? tp->comment : tp->where));
  plan->set("train.sequence_parallel", true, "experts need it with parallel.tp > 1");
}

// Lists the files that given files read and that were not given. Errors: a missing file that states
// the plan, or one that may state the model where no given file does.
Status check_wanted(const std::vector<ImportSource>& sources, ImportedPlan* plan) {
  for (const WantedFile& wanted : plan->wanted) {
    const bool given = std::ranges::any_of(sources, [&](const ImportSource& source) {
      return std::filesystem::path(source.path).filename() == wanted.name;
    });
    if (given) continue;
    if (wanted.states_plan)
      return Error::at(wanted.where,
                       fmt::format("found {}, which is not given: give it too", wanted.name));
    if (!plan->states_model())
      return Error::at(wanted.where,
                       fmt::format("found no model, and {}, which is read here, is not given: give "
                                   "{} too, before this file",
                                   wanted.name, wanted.name));
    plan->not_expressed.push_back(fmt::format("{}: {} is read here and was not given: give it too",
                                              wanted.where, wanted.name));
  }
  plan->wanted.clear();
  return Done{};
}

// Checks that stages divide the layers evenly, unless the plan states the layers of each stage.
Status check_stages(const ImportedPlan& plan) {
  const auto layers = plan.whole_of("model.layers");
  const std::int64_t pp = plan.whole_of("parallel.pp").value_or(1);
  const std::int64_t stages = product_of({pp, plan.whole_of("parallel.vpp").value_or(1)});
  if (!layers || *layers % stages == 0 || plan.has("parallel.layers_per_stage") ||
      plan.has("parallel.layout"))
    return Done{};
  const auto key =
      std::ranges::find(plan.keys, pp == 1 ? "parallel.vpp" : "parallel.pp", &ImportedKey::key);
  return Error::at(key->where, fmt::format("found {} stages for {} layers, expected a divisor, or "
                                           "the layers of each stage",
                                           stages, *layers));
}

}  // namespace

std::string importable_kinds() {
  return "a config.json, ds_config.json, log, launch script of Megatron-LM, slime, verl or "
         "OpenRLHF, run_config.yaml, torchtitan TOML or overrides, YAML of Megatron-LM's tests, "
         "NeMo 1, NeMo-RL, verl, Primus, ChatLearn, Accelerate or TrainingArguments, or MLPerf "
         "config";
}

Result<ImportedPlan> import_sources(const std::vector<ImportSource>& sources,
                                    const ImportOptions& options) {
  RETURN_IF_ERROR(check_sets(options));
  ImportedPlan plan;
  std::string timed;  // the log that has told of iterations
  for (const auto& [key, value] : options.sets) plan.set_by_option(key, value, options.sets_from);
  if (options.gpus > 0) plan.set_by_option("cluster.gpus", options.gpus, "--gpus");
  const std::set<std::string> sourced = sourced_paths(sources);
  for (const ImportSource& source : in_order_of_need(sources)) {
    if (sourced.contains(source.path) || is_read_by_another(source, sources)) continue;
    const ImportContext context = {
        .path = source.path, .before = plan, .gpus = options.gpus, .beside = sources};
    ASSIGN_OR_RETURN(ImportedPlan file_plan, import_one(source.text, context));
    for (ImportedKey& key : file_plan.keys) {
      key.source = key.where.empty() ? ImportedKey::Assumed : ImportedKey::Stated;
      if (key.where.empty()) key.where = source.path;
    }
    if (plan.measured.has_times() && file_plan.measured.has_times())
      return Error::at(source.path, fmt::format("found a second log with iterations, beside {}, "
                                                "expected one: join the logs of one run",
                                                timed));
    if (file_plan.measured.has_times()) timed = source.path;
    RETURN_IF_ERROR(plan.add(file_plan));
  }
  if (plan.text_of("train.precision") == "fp32" && plan.flag_of("train.flash_attention") &&
      !options.sets.contains("train.flash_attention"))
    leave_flash_attention(&plan);
  leave_out_dispatch(&plan);
  if (!plan.conflicts.empty() && !options.keeps_conflicts) return plan.conflicts.front().error;
  complete_measured(&plan);  // turns a log's tokens a second into seconds of an iteration
  RETURN_IF_ERROR(check_wanted(sources, &plan));
  // A scenario may cut the layers in its own way, and says itself what it needs.
  if (options.keeps_conflicts) return plan;
  assume_sequence_parallel(&plan);
  RETURN_IF_ERROR(check_stages(plan));
  return plan;
}

Result<ImportedPlan> import_files(const std::vector<std::string>& paths,
                                  const ImportOptions& options) {
  ASSIGN_OR_RETURN(const std::vector<ImportSource> sources,
                   read_sources(paths, importable_kinds()));
  return import_sources(sources, options);
}

}  // namespace tandem
