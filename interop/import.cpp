// Reads each file with the importer of its kind, and merges the results in order. What a file sets
// overrides earlier files; ImportContext::before gives an importer what they have set.
#include "interop/import.h"

#include <fmt/format.h>

#include <filesystem>

#include "interop/document/document.h"
#include "interop/megatron/files.h"
#include "interop/model/hugging_face.h"
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
  return unknown_kind(context, "JSON");
}

Result<ImportedPlan> import_toml(const std::string& text, const ImportContext& context) {
  ASSIGN_OR_RETURN(const DocumentNode document, parse_toml(text, context.path));
  if (is_torchtitan(document)) return import_torchtitan(document, context);
  return unknown_kind(context, "TOML");
}

Result<ImportedPlan> import_yaml(const std::string& text, const ImportContext& context) {
  ASSIGN_OR_RETURN(const DocumentNode document, parse_yaml(text, context.path));
  if (is_megatron_test(document)) return import_megatron_test(document, context);
  if (is_chatlearn(document)) return import_chatlearn(document, context);
  if (is_accelerate(document)) return import_accelerate(document, context);
  if (is_bridge(document)) return import_bridge(document, context);
  return unknown_kind(context, "YAML");
}

// Chooses the importer: by marks in the text, else by the name's ending. Any other text is taken
// for a launch script.
Result<ImportedPlan> import_one(const std::string& text, const ImportContext& context) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos)
    return Error::at(context.path, fmt::format("is empty, expected {}", importable_kinds()));
  if (is_megatron_log(text)) return import_megatron_log(text, context);
  const std::string extension = std::filesystem::path(context.path).extension().string();
  if (text[first] == '{' || extension == ".json") return import_json(text, context);
  if (extension == ".toml") return import_toml(text, context);
  if (extension == ".yaml" || extension == ".yml") return import_yaml(text, context);
  return import_shell_script(text, context);
}

}  // namespace

std::string importable_kinds() {
  return "a config.json, ds_config.json, Megatron log, launch script or test's YAML, "
         "run_config.yaml, torchtitan TOML, ChatLearn or Accelerate YAML, or MLPerf config";
}

Result<ImportedPlan> import_sources(const std::vector<ImportSource>& sources,
                                    const ImportOptions& options) {
  ImportedPlan plan;
  for (const ImportSource& source : sources) {
    const ImportContext context = {.path = source.path, .before = plan, .gpus = options.gpus};
    ASSIGN_OR_RETURN(ImportedPlan one, import_one(source.text, context));
    for (ImportedKey& key : one.keys) {
      if (key.where.empty()) key.where = source.path;
    }
    plan.add(one);
  }
  if (plan.text_of("train.precision") == "fp32" && plan.flag_of("train.flash_attention"))
    plan.set("train.flash_attention", false, "its kernels take 16 bits, and precision is fp32");
  if (options.gpus > 0) plan.set("cluster.gpus", options.gpus, "--gpus");
  return plan;
}

Result<ImportedPlan> import_files(const std::vector<std::string>& paths,
                                  const ImportOptions& options) {
  ASSIGN_OR_RETURN(const std::vector<ImportSource> sources,
                   read_sources(paths, importable_kinds()));
  return import_sources(sources, options);
}

}  // namespace tandem
