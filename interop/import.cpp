#include "interop/import.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/file.h"
#include "interop/document/document.h"
#include "interop/model/hugging_face.h"

namespace tandem {
namespace {

Result<ImportedPlan> import_json(const ImportSource& source) {
  ASSIGN_OR_RETURN(const DocumentNode document, parse_json(source.text, source.path));
  if (is_hugging_face(document)) return import_hugging_face(document, source.path);
  return Error::at(source.path,
                   fmt::format("found JSON of no known kind, expected {}", importable_kinds()));
}

Result<ImportedPlan> import_one(const ImportSource& source) {
  const std::size_t first = source.text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos)
    return Error::at(source.path, fmt::format("is empty, expected {}", importable_kinds()));
  return import_json(source);
}

}  // namespace

std::string importable_kinds() {
  return "a config.json, ds_config.json, Megatron log, launch script or test's YAML, "
         "run_config.yaml, torchtitan TOML, ChatLearn YAML or MLPerf config";
}

Result<ImportedPlan> import_sources(const std::vector<ImportSource>& sources,
                                    const ImportOptions& options) {
  ImportedPlan plan;
  for (const ImportSource& source : sources) {
    ASSIGN_OR_RETURN(const ImportedPlan one, import_one(source));
    plan.add(one);
  }
  if (options.gpus > 0) plan.set("cluster.gpus", options.gpus, "--gpus");
  return plan;
}

Result<ImportedPlan> import_files(const std::vector<std::string>& paths,
                                  const ImportOptions& options) {
  std::vector<ImportSource> sources;
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(std::string text, read_file(path, importable_kinds()));
    sources.push_back({path, std::move(text)});
  }
  return import_sources(sources, options);
}

}  // namespace tandem
