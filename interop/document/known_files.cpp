#include "interop/document/known_files.h"

#include <fmt/format.h>

#include "base/split.h"

namespace tandem {
namespace {

// A file is of this kind if it has all of `fields` ("a.b": b in the map a) and not `absent_field`.
struct RefusedFile {
  std::string_view fields, absent_field;
  std::string_view kind;     // "Axolotl's configuration"
  std::string_view instead;  // the files to give
};

constexpr std::string_view kModelAndSets =
    "the model's config.json, and the plan as --set parallel.tp=N and the like";
constexpr std::string_view kTrainer =
    "the model's config.json, and its ds_config.json or Accelerate's YAML";
constexpr RefusedFile kFiles[] = {
    {"pipe_parallel_size", "", "gpt-neox's configuration", kModelAndSets},
    {"pipe-parallel-size", "", "gpt-neox's configuration", kModelAndSets},
    {"parallelism.pp_engine", "", "nanotron's configuration", kModelAndSets},
    {"model.model_config parallelism", "", "nanotron's configuration", kModelAndSets},
    {"base_emb_dim", "", "MaxText's configuration", kModelAndSets},
    {"per_device_batch_size", "model_name_or_path", "MaxText's configuration", kModelAndSets},
    {"train_type per_device_train_batch_size", "", "ms-swift's configuration", kTrainer},
    {"tuner_type per_device_train_batch_size", "", "ms-swift's configuration", kTrainer},
    {"base_model datasets", "", "Axolotl's configuration", kTrainer},
    {"max_seq_len train_loader", "", "LLM-Foundry's configuration", kModelAndSets},
    {"variables.max_seq_len", "", "LLM-Foundry's configuration", kModelAndSets},
    {"fsdp_config train_loader", "", "LLM-Foundry's configuration", kModelAndSets},
    {"fsdp_config max_duration", "", "LLM-Foundry's configuration", kModelAndSets},
    {"trainer.train_batch_size", "", "Levanter's configuration", kModelAndSets},
    {"trainer.mp", "", "Levanter's configuration", kModelAndSets},
    {"tp_size pp_size micro_batch_num", "", "SimuMax's strategy", kModelAndSets},
    {"num_procs tensor_par pipeline_par", "", "Calculon's execution", kModelAndSets},
    {"peft_type", "", "an adapter's configuration",
     "the model's config.json alone: adapters are not covered"},
    {"attn_heads feedforward", "", "Calculon's model", "the model's config.json"},
    {"dim n_layers n_heads", "", "a params.json of Llama's or Mistral's own",
     "the model's config.json"}};

}  // namespace

std::optional<Error> known_but_not_read(const DocumentNode& document, const std::string& path) {
  for (const RefusedFile& row : kFiles) {
    const DocumentNode* last = nullptr;
    bool has_all = true;
    for (const std::string& field : split(row.fields, " ")) {
      last = document.at(field);
      has_all = has_all && last != nullptr;
    }
    const bool has_absent = !row.absent_field.empty() && document.at(row.absent_field) != nullptr;
    if (!has_all || has_absent) continue;
    return Error::at(fmt::format("{}:{}", path, last->line),
                     fmt::format("found {}, which is not read: give {}", row.kind, row.instead));
  }
  return std::nullopt;
}

}  // namespace tandem
