#include "scenarios/imported_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <functional>
#include <iterator>

#include "base/xml.h"
#include "interop/document/fields.h"
#include "interop/import.h"

namespace tandem {
namespace {

constexpr const char *kModelFrom = "model.from", *kPlanFrom = "parallel.from";
constexpr std::string_view kCluster = "cluster.";
constexpr const char *kGpus = "cluster.gpus", *kClusterFrom = "cluster.from";

// The most notes of one setting that are shown, and the most characters of a note. Without limits a
// log's note could list all arguments of a program.
constexpr std::size_t kMostNotes = 8, kLongestNote = 200;

bool is_model_key(const std::string& key) { return key.starts_with("model."); }

bool names_file(const std::string& key) {
  return key == "cluster.links_file" || key == "cluster.calibration" || key == "cluster.hostfile";
}

bool has_cluster(const Settings& settings) {
  return std::ranges::any_of(settings, [](const auto& setting) {
    return setting.first.starts_with(kCluster) && setting.first != kGpus;
  });
}

// Whether this key is taken from the files of parallel.from, unless the run sets it (the header has
// the cases). `own`: the run's settings. `has_model`: the run sets model.from.
bool plan_gives_key(const std::string& key, const Settings& own, bool has_model) {
  if (is_model_key(key)) {
    const bool states_layers = own.contains("model.layers") || own.contains("model.pattern");
    const bool is_trainers = key == "model.seq" || key == "model.mtp_layers";
    return has_model ? is_trainers : !states_layers;
  }
  // The number of GPUs follows from that of replicas and the other way round: one is enough.
  if (key == kGpus) return !own.contains("parallel.dp");
  if (key == "parallel.dp") return !own.contains(kGpus);
  return !key.starts_with(kCluster) || !has_cluster(own);
}

std::int64_t gpus_of(const Settings& settings) {
  const auto found = settings.find(kGpus);
  const auto* whole =
      found == settings.end() ? nullptr : std::get_if<std::int64_t>(&found->second.value);
  return whole == nullptr ? 0 : std::max<std::int64_t>(0, *whole);
}

// Returns a note as one line, even if a value in the file has several lines.
std::string note_text(std::string_view key, std::string_view title, const std::string& line) {
  return one_line(fmt::format("{}: {}: {}", key, title, shortened(line, kLongestNote)));
}

constexpr std::string_view kEquals = " = ";

// Returns the key that a note begins with, as "model.seq = 4096, of at most 131072: why" does;
// empty: the note begins otherwise.
std::string key_of_note(std::string_view line) {
  const std::size_t equals = line.find(kEquals);
  const std::string_view key = line.substr(0, equals);
  const bool is_key =
      key.find('.') != key.npos && key.find_first_of(" :") == key.npos && equals != line.npos;
  return is_key ? std::string(key) : "";
}

bool begins_with_word(std::string_view text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  return text.size() == word.size() ||
         std::isalnum(static_cast<unsigned char>(text[word.size()])) == 0;
}

// The notes for one run on the files of one setting, such as parallel.from: what importing them
// assumed or left out.
class Notes {
 public:
  // Whether a key is taken from those files.
  using Gives = std::function<bool(const std::string&)>;

  Notes(std::string setting, Gives gives, const Settings& own, const Settings& imported)
      : setting_(std::move(setting)), gives_(std::move(gives)), own_(own), imported_(imported) {}

  // Adds the plan's notes, without those that `before`, another plan or null, has as well.
  void add(const ImportedPlan& plan, const ImportedPlan* before) {
    add("assumed", &ImportedPlan::assumed, plan, before);
    add("not expressed", &ImportedPlan::not_expressed, plan, before);
    add("not understood", &ImportedPlan::not_understood, plan, before);
  }

  void append_to(std::vector<std::string>* notes) const {
    const std::size_t shown = lines_.size() > kMostNotes ? kMostNotes - 1 : lines_.size();
    notes->insert(notes->end(), lines_.begin(),
                  lines_.begin() + static_cast<std::ptrdiff_t>(shown));
    if (shown < lines_.size())
      notes->push_back(
          fmt::format("{}: {} more that were assumed, not expressed or not "
                      "understood: tandem import lists them",
                      setting_, lines_.size() - shown));
  }

 private:
  using Lines = std::vector<std::string> ImportedPlan::*;

  void add(std::string_view title, Lines lines, const ImportedPlan& plan,
           const ImportedPlan* before) {
    for (const std::string& line : plan.*lines) {
      const bool is_known =
          before != nullptr && std::ranges::find(before->*lines, line) != (before->*lines).end();
      if (!is_known && has_effect(line)) lines_.push_back(note_text(setting_, title, line));
    }
  }

  // Returns whether a note is about something that this run uses. The note "model.seq = 4096: why"
  // has no effect if the run sets model.seq, takes it from other files, or took another value.
  bool has_effect(std::string_view line) const {
    const std::string key = key_of_note(line);
    if (key.empty()) return true;
    if (own_.contains(key) || !gives_(key)) return false;
    const auto found = imported_.find(key);
    if (found == imported_.end()) return true;
    return begins_with_word(line.substr(key.size() + kEquals.size()), found->second.text());
  }

  std::string setting_;
  Gives gives_;
  const Settings &own_, &imported_;
  std::vector<std::string> lines_;
};

// Returns the keys of [model] that the run itself sets. Error: layers that no reader can divide by.
Result<std::map<std::string, KeyValue>> model_keys_of(const Settings& own) {
  std::map<std::string, KeyValue> keys;
  for (const auto& [key, setting] : own) {
    if (!is_model_key(key) || key == kModelFrom) continue;
    const auto whole = whole_number(setting.value);  // 64.0 is an integer, too
    if (key == "model.layers" && (!whole || *whole < 1 || *whole > kMostWhole))
      return setting.error(key, fmt::format("an integer from 1 to {}", kMostWhole));
    keys[key] = whole ? KeyValue(*whole) : setting.value;
  }
  return keys;
}

// Removes the layers of each stage from the files' keys if the run sets other stages, which then
// have an even share, and notes that.
void remove_stage_layers(const Settings& own, Settings* imported, std::vector<std::string>* notes) {
  constexpr const char* kStageLayers = "parallel.layers_per_stage";
  const auto layers = imported->find(kStageLayers);
  if (layers == imported->end() || own.contains(kStageLayers)) return;
  const auto differs = [&](const char* key) {
    const auto set = own.find(key);
    const auto given = imported->find(key);
    return set != own.end() &&
           whole_number(set->second.value) !=
               (given == imported->end() ? 1 : whole_number(given->second.value));
  };
  if (!own.contains("parallel.layout") && !differs("parallel.pp") && !differs("parallel.vpp"))
    return;
  notes->push_back(note_text(
      kPlanFrom, "not expressed",
      fmt::format("{} = {}: the scenario sets other stages", kStageLayers, layers->second.text())));
  imported->erase(layers);
}

// Returns the paths of model.from, and behind them those of parallel.from that are not among them.
std::vector<std::string> paths_together(const std::vector<std::string>& of_model,
                                        const std::vector<std::string>& of_plan) {
  std::vector<std::string> paths = of_model;
  std::ranges::copy_if(of_plan, std::back_inserter(paths), [&](const auto& path) {
    return std::ranges::find(of_model, path) == of_model.end();
  });
  return paths;
}

// Checks that the run itself sets each key for which two files state different values.
Status check_agreed(const ImportedPlan& plan, const std::string& where, const Settings& own) {
  for (const KeyConflict& conflict : plan.conflicts) {
    if (!own.contains(conflict.key)) return Error::at(where, conflict.error.text());
  }
  return Done{};
}

// Checks that the run sets the keys that its plan's files leave open, and a batch and parallel
// sizes if the files have none.
Status check_complete(const ImportedPlan& plan, const std::string& where, const Settings& own,
                      const Settings& imported) {
  const auto is_known = [&](const std::string& key) {
    return own.contains(key) || imported.contains(key);
  };
  const bool lacks_sizes =
      plan.has("model.hidden") && !is_known("model.hidden") && !own.contains("costs.source");
  for (const char* key : {"model.layers", "model.pattern"}) {
    const auto layers = own.find(key);
    if (layers != own.end() && lacks_sizes)
      return layers->second.error(key,
                                  "model.hidden and the model's other sizes too: beside it the "
                                  "imported model does not count");
  }
  for (const OpenKey& open : plan.open) {
    if (!is_known(open.key))
      return Error::at(where, fmt::format("found {} in {}, expected {} in this scenario too",
                                          open.field, open.where, open.key));
  }
  if (!is_known("parallel.global_batch"))
    return Error::at(where, fmt::format("found no batch in the files of {}, expected "
                                        "parallel.global_batch in this scenario too",
                                        kPlanFrom));
  const auto is_size = [](const std::string& key) {
    return key == "train.zero" ||
           (key.starts_with("parallel.") && key != "parallel.global_batch" && key != kPlanFrom);
  };
  const auto has_size = [&](const Settings& settings) {
    return std::ranges::any_of(settings,
                               [&](const auto& setting) { return is_size(setting.first); });
  };
  if (!has_size(own) && !has_size(imported))
    return Error::at(where, fmt::format("found no parallel sizes in the files of {}, expected "
                                        "parallel.tp or the like in this scenario too",
                                        kPlanFrom));
  return Done{};
}

}  // namespace

ImportedFiles::ImportedFiles(const std::string& path)
    : folder_(std::filesystem::path(path).parent_path().string()) {}

Result<ImportedFiles::NamedFiles> ImportedFiles::files_of(const Settings& settings,
                                                          const char* key) const {
  const auto found = settings.find(key);
  if (found == settings.end()) return NamedFiles{};
  const Setting& setting = found->second;
  const std::vector<std::string> names = setting.texts();
  if (names.empty()) return setting.error(key, "a file or a list of files, " + importable_kinds());
  NamedFiles files{key, setting.where, {}};
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(files.paths.emplace_back(),
                     (Setting{name, setting.where}.file(key, folder_, importable_kinds())));
  }
  return files;
}

Result<const ImportedFiles::Imported*> ImportedFiles::read(const NamedFiles& files,
                                                           std::int64_t gpus,
                                                           const ModelKeys& model) {
  const auto [known, is_new] = read_.try_emplace({files.where, files.paths, gpus, model});
  Imported& imported = known->second;
  if (!is_new) return &imported;
  auto plan = import_files(
      files.paths, {.gpus = gpus, .sets = model, .sets_from = "[model]", .keeps_conflicts = true});
  if (!plan.ok())
    return files.where.empty() ? plan.error() : Error::at(files.where, plan.error().text());
  imported.plan = *std::move(plan);
  leave_out_future_keys(&imported.plan);
  for (const ImportedKey& key : imported.plan.keys) {
    const std::string where =
        files.where.empty() ? key.where : fmt::format("{}: {}", files.where, key.where);
    imported.settings[key.key] = {key.value, where};
  }
  return &imported;
}

Status ImportedFiles::take_cluster(Settings* settings) const {
  const auto from = settings->find(kClusterFrom);
  if (from == settings->end()) return Done{};
  const Setting named = from->second;
  ASSIGN_OR_RETURN(const std::string path,
                   named.file(kClusterFrom, folder_, "a scenario with a [cluster] (TOML)"));
  ASSIGN_OR_RETURN(const ScenarioFile file, read_scenario_file(path));
  bool found = false;
  for (const auto& [key, setting] : file.base) {
    if (!key.starts_with(kCluster)) continue;
    if (key == kClusterFrom)
      return setting.error(key, "none in a file that another one takes its cluster from");
    found = true;
    if (key == kGpus) continue;  // the job's, not the cluster's
    Setting taken = setting;
    // Paths are relative to the file that names them.
    if (auto* text = std::get_if<std::string>(&taken.value); text != nullptr && names_file(key))
      *text = std::filesystem::absolute(std::filesystem::path(path).parent_path() / *text);
    settings->emplace(key, std::move(taken));
  }
  return found ? Status(Done{}) : Error::at(path, "found no [cluster], expected one");
}

Status ImportedFiles::complete(RunSettings* run) {
  RETURN_IF_ERROR(take_cluster(&run->settings));
  const Settings& own = run->settings;
  ASSIGN_OR_RETURN(const NamedFiles model_files, files_of(own, kModelFrom));
  ASSIGN_OR_RETURN(NamedFiles plan_files, files_of(own, kPlanFrom));
  const bool has_model = !model_files.paths.empty();
  const Imported *model = nullptr, *plan = nullptr;
  Settings imported;
  if (has_model) {
    ASSIGN_OR_RETURN(model, read(model_files, gpus_of(own)));
    for (const auto& [key, setting] : model->settings) {
      if (is_model_key(key)) imported[key] = setting;
    }
  }
  const auto plan_gives = [&](const std::string& key) {
    return plan_gives_key(key, own, has_model);
  };
  if (!plan_files.paths.empty()) {
    plan_files.paths = paths_together(model_files.paths, plan_files.paths);
    ASSIGN_OR_RETURN(const ModelKeys own_model, model_keys_of(own));
    ASSIGN_OR_RETURN(plan, read(plan_files, gpus_of(own), own_model));
    for (const auto& [key, setting] : plan->settings) {
      // If both give the same value, its place stays in the model's files.
      const auto known = imported.find(key);
      if (plan_gives(key) && (known == imported.end() || known->second.value != setting.value))
        imported[key] = setting;
    }
  }
  if (model != nullptr) RETURN_IF_ERROR(check_agreed(model->plan, model_files.where, own));
  if (plan != nullptr) RETURN_IF_ERROR(check_agreed(plan->plan, plan_files.where, own));
  if (plan != nullptr) RETURN_IF_ERROR(check_complete(plan->plan, plan_files.where, own, imported));
  // A model.pattern of the run itself says how many layers there are.
  if (own.contains("model.pattern")) imported.erase("model.layers");
  remove_stage_layers(own, &imported, &run->notes);

  if (model != nullptr) {
    Notes notes(model_files.key, is_model_key, own, imported);
    notes.add(model->plan, /*before=*/nullptr);
    notes.append_to(&run->notes);
  }
  if (plan != nullptr) {
    Notes notes(plan_files.key, plan_gives, own, imported);
    notes.add(plan->plan, model == nullptr ? nullptr : &model->plan);
    notes.append_to(&run->notes);
  }
  run->settings.insert(imported.begin(), imported.end());
  return Done{};
}

}  // namespace tandem
