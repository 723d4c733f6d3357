// Reads torchtitan's overrides of its command line, which it takes in place of TOML since February
// 2026, as `tune --emit torchtitan` writes them: "--parallelism.tensor_parallel_degree 8". They
// become the fields of a TOML file, from which import_torchtitan() makes the plan. Earlier versions
// put them over the fields of a TOML file, as is done here where one is given with the script.
// Names are of pytorch/torchtitan b5bcd76c (2026-08-21). Declared in interop/trainers/trainers.h.
#include <fmt/format.h>

#include <algorithm>

#include "base/split.h"
#include "interop/document/fields.h"
#include "interop/trainers/trainers.h"

namespace tandem {
namespace {

// An override whose field had another name in the TOML files. `value` is the field's; empty: the
// override's own.
struct TitanRow {
  std::string_view name, toml_name, value;
};
constexpr TitanRow kRenamed[] = {
    {"parallelism.no_enable_sequence_parallel", "parallelism.enable_sequence_parallel", "false"},
    {"compile.enable_async_tensor_parallel", "parallelism.enable_async_tensor_parallel", ""},
    {"training.max_context_length", "training.seq_len", ""}};

bool is_toml(const ImportSource& source) { return source.path.ends_with(".toml"); }

// Returns the given TOML file, over which a script's overrides go; null: none is given.
Result<const ImportSource*> file_below(const ImportContext& context) {
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

class TitanOverrides {
 public:
  // `path`: of the script. `sections`: of the TOML file that the overrides go over; empty: none.
  TitanOverrides(const std::string& path, DocumentNode::Map sections)
      : path_(path), has_file_(!sections.empty()), sections_(std::move(sections)) {}

  // Adds the overrides among a command's words: "--section.field=value", or "--section.field
  // value". Without a value it is a switch.
  void add(const std::vector<std::string>& words, int line) {
    for (std::size_t i = 0; i < words.size(); ++i) {
      constexpr std::string_view kMode = "activation-checkpoint:";
      if (words[i].starts_with(kMode))
        set("activation_checkpoint.mode", words[i].substr(kMode.size()), line);
      if (!words[i].starts_with("--") || words[i].find('.') == std::string::npos) continue;
      const std::size_t equals = words[i].find('=');
      std::string name = words[i].substr(2, equals == std::string::npos ? equals : equals - 2);
      std::ranges::replace(name, '-', '_');
      if (name.find('.') == std::string::npos) continue;
      const bool is_switch = i + 1 == words.size() || words[i + 1].starts_with("--") ||
                             words[i + 1].starts_with(kMode);
      std::string value = equals != std::string::npos ? words[i].substr(equals + 1)
                          : is_switch                 ? "true"
                                                      : words[i + 1];
      for (const TitanRow& row : kRenamed) {
        if (row.name != name) continue;
        name = row.toml_name;
        if (!row.value.empty()) value = row.value;
      }
      set(name, value, line);
    }
  }

  // Returns the overrides as a TOML file has them. Batch sizes are in sequences there, in tokens
  // here. Only a pipeline takes num_pp_microbatches of them at a time.
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
      const std::int64_t of_pass = has_pipeline ? microbatches.value_or(1) : 1;
      set("training.local_batch_size", fmt::format("{}", product_of({sequences, of_pass})), 0);
      set("parallelism.pipeline_parallel_microbatch_size", fmt::format("{}", sequences), 0);
    }
    if (step) set("training.global_batch_size", fmt::format("{}", *step / *seq), 0);
    return DocumentNode{sections_, 1};
  }
  // Returns whether the overrides of document() state the size of a microbatch.
  bool states_micro() const { return states_micro_; }

 private:
  DocumentNode::Map* section(std::string_view name) {
    const auto found = std::ranges::find(sections_, name, &DocumentField::key);
    if (found != sections_.end()) return std::get_if<DocumentNode::Map>(&found->value.value);
    sections_.push_back({std::string(name), {DocumentNode::Map{}, line_, &path_}});
    return std::get_if<DocumentNode::Map>(&sections_.back().value.value);
  }
  // Sets "section.field". Line 0 stands for the line of the last override.
  void set(const std::string& name, const std::string& value, int line) {
    const std::size_t dot = name.find('.');
    if (line > 0) line_ = line;
    DocumentNode scalar = plain_scalar(value, line > 0 ? line : line_);
    scalar.file = &path_;
    put(name.substr(dot + 1), std::move(scalar), section(name.substr(0, dot)));
  }
  // Puts a value in place of the field's; "linear.float8.recipe_name" lies in tables of a table.
  static void put(const std::string& name, DocumentNode value, DocumentNode::Map* fields) {
    const std::size_t dot = name.find('.');
    const auto table = std::ranges::find(*fields, name.substr(0, dot), &DocumentField::key);
    if (dot != std::string::npos && table != fields->end() && table->value.map() != nullptr)
      return put(name.substr(dot + 1), std::move(value),
                 std::get_if<DocumentNode::Map>(&table->value.value));
    std::erase_if(*fields, [&](const auto& field) { return field.key == name; });
    fields->push_back({name, std::move(value)});
  }
  std::optional<std::int64_t> whole(const std::string& name) {
    const std::size_t dot = name.find('.');
    for (const DocumentField& field : *section(name.substr(0, dot))) {
      const auto found = whole_number(field.value);
      if (field.key == name.substr(dot + 1) && found && *found > 0) return found;
    }
    return std::nullopt;
  }
  // Returns the field's value, and removes the field.
  std::optional<std::int64_t> take(const std::string& name) {
    const auto found = whole(name);
    const std::size_t dot = name.find('.');
    std::erase_if(*section(name.substr(0, dot)),
                  [&](const DocumentField& field) { return field.key == name.substr(dot + 1); });
    return found;
  }

  const std::string& path_;
  bool has_file_;
  DocumentNode::Map sections_;
  int line_ = 1;
  bool states_micro_ = true;
};

}  // namespace

bool has_torchtitan_overrides(const std::string& text, const std::vector<ImportSource>& beside) {
  const auto has = [&](const char* option) { return text.find(option) != std::string::npos; };
  const bool names_file = has("--job.config_file") || has("--job.config-file");
  return has("--parallelism.") || has("--training.num_tokens_per_train_step") ||
         (names_file && std::ranges::any_of(beside, is_toml));
}

Result<ImportedPlan> import_torchtitan_overrides(const ShellScript& script,
                                                 const ImportContext& context) {
  ASSIGN_OR_RETURN(const ImportSource* file, file_below(context));
  DocumentNode below;
  if (file != nullptr) {
    ASSIGN_OR_RETURN(below, parse_toml(file->text, file->path));
  }
  DocumentNode::Map sections = below.map() == nullptr ? DocumentNode::Map{} : *below.map();
  for (const DocumentField& section : sections) {
    if (section.value.map() == nullptr)
      return Error::at(section.value.place(file->path),
                       fmt::format("found {}, expected a table of that name", section.key));
  }
  TitanOverrides overrides(context.path, std::move(sections));
  // A word may be a whole command, for bash -c.
  const auto add = [&](const auto& words, int line) {
    overrides.add(split_words(fmt::format("{}", fmt::join(words, " "))), line);
  };
  for (const auto& [name, variable] : script.variables) add(variable.words, variable.line);
  for (const ShellCommand& command : script.commands) {
    if (!command.empty()) add(word_texts(command, 0), command.front().line);
  }
  ASSIGN_OR_RETURN(const DocumentNode document, overrides.document());
  const auto world = script.variables.find("WORLD_SIZE");
  const DocumentNode world_size = world == script.variables.end() || world->second.words.empty()
                                      ? DocumentNode{}
                                      : plain_scalar(world->second.words[0], world->second.line);
  const auto stated_gpus = whole_number(world_size);
  std::int64_t gpus = context.gpus;
  if (gpus == 0 && stated_gpus && *stated_gpus > 0) gpus = std::min(*stated_gpus, kMostWhole);
  const ImportContext inner = {.path = file == nullptr ? context.path : file->path,
                               .before = context.before,
                               .gpus = gpus,
                               .beside = context.beside};
  ASSIGN_OR_RETURN(ImportedPlan plan, import_torchtitan(document, inner, file != nullptr));
  if (file == nullptr) plan.sources.clear();
  plan.sources.push_back(context.path + " (torchtitan's overrides)");
  // Without TOML whole replicas are FSDP2's, too, which reduces layer by layer, no longer DDP's.
  if (file == nullptr)
    std::erase_if(plan.keys, [](const ImportedKey& key) { return key.key == "overlap.bucket_MB"; });
  if (!overrides.states_micro())
    plan.assumed.push_back(
        "parallel.micro_batch = 1: no --training.num_tokens_per_microbatch_per_dp_rank states it");
  const DocumentNode* named = document.at("job.config_file");
  if (const auto* name = named == nullptr ? nullptr : std::get_if<std::string>(&named->value)) {
    const std::string stem = name->substr(name->rfind('/') + 1);
    const std::string where = named->place(context.path);
    if (file == nullptr)
      plan.wanted.push_back({stem, where});
    else if (!file->path.ends_with(stem))
      plan.assumed.push_back(fmt::format("{}: {} is read in place of {}", where, file->path, stem));
  }
  if (stated_gpus && *stated_gpus > 0) {
    plan.set("cluster.gpus", std::min(*stated_gpus, kMostWhole), "WORLD_SIZE");
    plan.keys.back().where = fmt::format("{}:{}", context.path, world_size.line);
  }
  // CUDA graphs are on by default since the TOML files are gone.
  if (file == nullptr && document.at("training.disable_cuda_graphs") == nullptr)
    plan.set("train.cuda_graphs", true, "default of --training.disable_cuda_graphs");
  return plan;
}

}  // namespace tandem
