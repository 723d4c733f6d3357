// Reads torchtitan's overrides of its command line, which it takes in place of TOML since February
// 2026, as `tune --emit torchtitan` writes them: "--parallelism.tensor_parallel_degree 8". They
// become the fields of a TOML file, from which import_torchtitan() makes the plan. If a TOML file
// is given with the script, they replace fields of it, as in earlier versions of torchtitan. Names
// are of pytorch/torchtitan b5bcd76c (2026-08-21). Declared in interop/trainers/trainers.h.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/split.h"
#include "interop/document/fields.h"
#include "interop/trainers/trainers.h"

namespace tandem {
namespace {

// An override whose field had another name in the TOML files. `toml_value`: what a switch sets the
// field to; empty: the override's own value.
struct TitanRow {
  std::string_view name, toml_name, toml_value;
};
constexpr TitanRow kRenamed[] = {
    {"parallelism.no_enable_sequence_parallel", "parallelism.enable_sequence_parallel", "false"},
    {"compile.enable_async_tensor_parallel", "parallelism.enable_async_tensor_parallel", ""},
    {"training.max_context_length", "training.seq_len", ""}};

bool is_toml(const ImportSource& source) { return source.path.ends_with(".toml"); }

// Returns the TOML file that is given with a script; null: none is.
Result<const ImportSource*> given_toml(const ImportContext& context) {
  const ImportSource* file = nullptr;
  for (const ImportSource& source : context.beside) {
    if (!is_toml(source)) continue;
    if (file != nullptr)
      return Error::at(context.path,
                       fmt::format("found overrides beside {} and {}, expected one TOML file",
                                   file->path, source.path));
    file = &source;
  }
  return file;
}

// Returns the tables of a TOML file, if there is one (null: none).
Result<DocumentNode::Map> tables_of(const ImportSource* file) {
  if (file == nullptr) return DocumentNode::Map{};
  ASSIGN_OR_RETURN(const DocumentNode document, parse_toml(file->text, file->path));
  for (const DocumentField& table : *document.map()) {
    if (table.value.map() == nullptr)
      return Error::at(table.value.place(file->path),
                       fmt::format("found {}, expected a table of that name", table.key));
  }
  return *document.map();
}

class TitanOverrides {
 public:
  // `path`: of the script. `tables`: of the TOML file whose fields overrides replace; empty: none.
  TitanOverrides(const std::string& path, DocumentNode::Map tables)
      : path_(path), has_file_(!tables.empty()), root_{std::move(tables), 1} {}

  // Adds the overrides among a command's words: "--table.field=value", "--table.field value", or
  // "--table.field" for true.
  void add(const std::vector<std::string>& words, int line) {
    constexpr std::string_view kMode = "activation-checkpoint:";
    for (std::size_t i = 0; i < words.size(); ++i) {
      const std::string& word = words[i];
      if (word.starts_with(kMode))
        set("activation_checkpoint.mode", word.substr(kMode.size()), line);
      const std::size_t equals = std::min(word.find('='), word.size());
      std::string name = word.substr(0, equals);
      if (!name.starts_with("--") || name.find('.') == std::string::npos) continue;
      name.erase(0, 2);
      std::ranges::replace(name, '-', '_');
      std::string value = "true";
      if (equals < word.size()) {
        value = word.substr(equals + 1);
      } else if (i + 1 < words.size() && !words[i + 1].starts_with("--") &&
                 !words[i + 1].starts_with(kMode)) {
        value = words[i + 1];
      }
      if (const auto row = std::ranges::find(kRenamed, name, &TitanRow::name);
          row != std::end(kRenamed)) {
        name = row->toml_name;
        if (!row->toml_value.empty()) value = row->toml_value;
      }
      set(name, value, line);
    }
  }

  // Returns the overrides as a TOML file has them. Batch sizes are in sequences there, in tokens
  // here: 8192 tokens of a microbatch are 2 sequences of 4096. A pipeline's local batch has
  // num_pp_microbatches of these.
  Result<DocumentNode> document() {
    const auto seq = whole("training.seq_len");
    const auto micro = take("training.num_tokens_per_microbatch_per_dp_rank");
    const auto step = take("training.num_tokens_per_train_step");
    const auto microbatches = take("parallelism.num_pp_microbatches");
    const bool has_pipeline = whole("parallelism.pipeline_parallel_degree").value_or(1) > 1;
    for (const auto& tokens : {micro, step}) {
      if (tokens && (!seq || *tokens % *seq != 0))
        return Error::at(path_, fmt::format("found {} tokens, expected a multiple of "
                                            "--training.max_context_length",
                                            *tokens));
    }
    states_micro_ = has_file_ || micro || whole("training.local_batch_size");
    if (micro || !states_micro_) {
      const std::int64_t sequences = micro ? *micro / *seq : 1;
      const std::int64_t in_local = has_pipeline ? microbatches.value_or(1) : 1;
      set("training.local_batch_size", fmt::format("{}", product_of({sequences, in_local})), line_);
      set("parallelism.pipeline_parallel_microbatch_size", fmt::format("{}", sequences), line_);
    }
    if (step) set("training.global_batch_size", fmt::format("{}", *step / *seq), line_);
    return root_;
  }
  // Returns whether the overrides of document() state the size of a microbatch.
  bool states_micro() const { return states_micro_; }

 private:
  // Removes a field. Returns its table and its name there. "training.seq_len" is of the table
  // training, which is added if there is none; "quantize.linear.float8.recipe_name" of the
  // innermost table that there is.
  std::pair<DocumentNode::Map*, std::string> clear(std::string name) {
    auto& tables = std::get<DocumentNode::Map>(root_.value);
    DocumentNode::Map* fields = &tables;
    for (std::size_t dot; (dot = name.find('.')) != std::string::npos; name.erase(0, dot + 1)) {
      const std::string key = name.substr(0, dot);
      auto table = std::ranges::find(*fields, key, &DocumentField::key);
      if (fields == &tables && table == tables.end())
        table = tables.insert(table, DocumentField{key, {DocumentNode::Map{}, line_, &path_}});
      if (table == fields->end() || table->value.map() == nullptr) break;
      fields = std::get_if<DocumentNode::Map>(&table->value.value);
    }
    std::erase_if(*fields, [&](const DocumentField& field) { return field.key == name; });
    return {fields, std::move(name)};
  }
  void set(const std::string& name, const std::string& value, int line) {
    line_ = line;
    const auto [fields, field] = clear(name);
    DocumentNode scalar = plain_scalar(value, line);
    scalar.file = &path_;
    fields->push_back({field, std::move(scalar)});
  }
  // Returns a field's value if it is an integer above 0.
  std::optional<std::int64_t> whole(std::string_view name) const {
    const DocumentNode* value = root_.at(name);
    const auto found = value == nullptr ? std::nullopt : whole_number(*value);
    return found && *found > 0 ? found : std::nullopt;
  }
  // Does the same, and removes the field.
  std::optional<std::int64_t> take(const std::string& name) {
    const auto found = whole(name);
    clear(name);
    return found;
  }

  const std::string& path_;
  bool has_file_;
  DocumentNode root_;  // the tables
  int line_ = 1;       // of the last override
  bool states_micro_ = true;
};

// Returns the GPUs that WORLD_SIZE states; 0: it states none.
std::int64_t world_size(const ShellScript& script) {
  const auto world = script.variables.find("WORLD_SIZE");
  if (world == script.variables.end() || world->second.words.empty()) return 0;
  const auto gpus = whole_number(plain_scalar(world->second.words[0], world->second.line));
  return std::clamp<std::int64_t>(gpus.value_or(0), 0, kMostWhole);
}

// Notes the TOML file that the script names, where another one or none is given.
void note_named_file(const DocumentNode& document, const std::string& path,
                     const ImportSource* given, ImportedPlan* plan) {
  const DocumentNode* named = document.at("job.config_file");
  const auto* name = named == nullptr ? nullptr : std::get_if<std::string>(&named->value);
  if (name == nullptr) return;
  const std::string file = name->substr(name->rfind('/') + 1);
  const std::string where = named->place(path);
  if (given == nullptr)
    plan->wanted.push_back({file, where});
  else if (!given->path.ends_with(file))
    plan->assumed.push_back(fmt::format("{}: {} is read in place of {}", where, given->path, file));
}

}  // namespace

bool has_torchtitan_overrides(const std::string& text, const std::vector<ImportSource>& beside) {
  const auto has = [&](const char* option) { return text.find(option) != std::string::npos; };
  const bool names_file = has("--job.config_file") || has("--job.config-file");
  return has("--parallelism.") || has("--training.num_tokens_per_train_step") ||
         (names_file && std::ranges::any_of(beside, is_toml));
}

Result<ImportedPlan> import_torchtitan_overrides(const ShellScript& script,
                                                 const ImportContext& context) {
  ASSIGN_OR_RETURN(const ImportSource* file, given_toml(context));
  ASSIGN_OR_RETURN(DocumentNode::Map tables, tables_of(file));
  TitanOverrides overrides(context.path, std::move(tables));
  // A word may be a whole command, for bash -c.
  const auto add = [&](const auto& words, int line) {
    overrides.add(split_words(fmt::format("{}", fmt::join(words, " "))), line);
  };
  for (const auto& [name, variable] : script.variables) add(variable.words, variable.line);
  for (const ShellCommand& command : script.commands) {
    if (!command.empty()) add(word_texts(command, 0), command.front().line);
  }
  ASSIGN_OR_RETURN(const DocumentNode document, overrides.document());
  const std::int64_t world = world_size(script);
  const ImportContext inner = {file == nullptr ? context.path : file->path, context.before,
                               context.gpus == 0 ? world : context.gpus, context.beside};
  ASSIGN_OR_RETURN(ImportedPlan plan, import_torchtitan(document, inner, file != nullptr));
  if (file == nullptr) {
    plan.sources.clear();
    // Whole replicas are FSDP2's, too, which reduces layer by layer, no longer DDP's.
    std::erase_if(plan.keys, [](const ImportedKey& key) { return key.key == "overlap.bucket_MB"; });
  }
  plan.sources.push_back(context.path + " (torchtitan's overrides)");
  if (!overrides.states_micro())
    plan.assumed.push_back(
        "parallel.micro_batch = 1: no --training.num_tokens_per_microbatch_per_dp_rank states it");
  note_named_file(document, context.path, file, &plan);
  if (world > 0) {
    plan.set("cluster.gpus", world, "WORLD_SIZE");
    plan.keys.back().where =
        fmt::format("{}:{}", context.path, script.variables.at("WORLD_SIZE").line);
  }
  // CUDA graphs are on by default since the TOML files are gone.
  if (file == nullptr && document.at("training.disable_cuda_graphs") == nullptr)
    plan.set("train.cuda_graphs", true, "default of --training.disable_cuda_graphs");
  return plan;
}

}  // namespace tandem
