// Reads cases, column by column as the tables below say, turns each into a scenario, simulates it,
// and adds up the errors.
#include "validation/published/cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/csv.h"
#include "base/quantile.h"
#include "base/split.h"
#include "keys/key.h"
#include "sim/engines.h"
#include "topology/preset.h"
#include "validation/published/family_defaults.h"

namespace tandem {
namespace {

constexpr int kMost = 1'000'000'000;  // of any whole number in a cases file
constexpr std::int64_t kMostStages = 1'000'000;

// Columns of a cases file, by type. `key` is the scenario's key that takes the cell's value as it
// is; nullptr: none does.
struct TextColumn {
  const char* name;
  std::string Case::*field;
  const char* key;
  bool required = false;
};
struct WholeColumn {
  const char* name;
  int Case::*field;
  const char* key;
  bool required = false;
  int least = 1, most = kMost;
};
struct FlagColumn {
  const char* name;
  bool Case::*field;
  const char* key;
};
struct SecondsColumn {
  const char* key;  // also the column's name
  std::optional<double> Case::*field;
};

constexpr TextColumn kTexts[] = {{"id", &Case::id, nullptr, true},
                                 {"family", &Case::family, nullptr, true},
                                 {"system", &Case::system, "cluster.preset", true},
                                 {"gpu", &Case::gpu, nullptr},
                                 {"model", &Case::model, "model.name"},
                                 {"source", &Case::source, nullptr},
                                 {"schedule", &Case::schedule, "schedule.order"},
                                 {"precision", &Case::precision, "train.precision"},
                                 {"recompute", &Case::recompute, "train.recompute"}};

constexpr WholeColumn kWholes[] = {{"layers", &Case::layers, "model.layers", true},
                                   {"hidden", &Case::hidden, "model.hidden", true},
                                   {"ffn_hidden", &Case::ffn_hidden, "model.ffn_hidden"},
                                   {"heads", &Case::heads, "model.heads", true},
                                   {"kv_heads", &Case::kv_heads, "model.kv_heads"},
                                   {"seq", &Case::seq, "model.seq", true},
                                   {"vocab", &Case::vocab, "model.vocab", true},
                                   {"tp", &Case::tp, "parallel.tp"},
                                   {"pp", &Case::pp, "parallel.pp"},
                                   {"vpp", &Case::vpp, "parallel.vpp"},
                                   {"cp", &Case::cp, "parallel.cp"},
                                   {"ep", &Case::ep, "parallel.ep"},
                                   {"dp", &Case::dp, "parallel.dp"},
                                   {"micro_batch", &Case::micro_batch, "parallel.micro_batch"},
                                   {"global_batch", &Case::global_batch, "parallel.global_batch"},
                                   {"gpus", &Case::gpus, "cluster.gpus"},
                                   {"gpus_per_node", &Case::gpus_per_node, "cluster.gpus_per_node"},
                                   {"zero_stage", &Case::zero_stage, "train.zero", false, 0, 3},
                                   // Other names of the same columns.
                                   {"mbs", &Case::micro_batch, "parallel.micro_batch"},
                                   {"gbs", &Case::global_batch, "parallel.global_batch"}};

constexpr FlagColumn kFlags[] = {
    {"gated_mlp", &Case::gated_mlp, "model.gated_mlp"},
    {"sequence_parallel", &Case::sequence_parallel, "train.sequence_parallel"}};

constexpr SecondsColumn kSeconds[] = {{"costs.forward_s", &Case::forward_s},
                                      {"costs.input_s", &Case::input_s},
                                      {"costs.weight_s", &Case::weight_s},
                                      {"costs.p2p_s", &Case::p2p_s}};

// Columns of the fullest GPU's peak, as PyTorch's max_memory_allocated counts it.
struct MemoryColumn {
  const char* name;
  double unit;
};
constexpr MemoryColumn kMemory[] = {{"peak_alloc_GiB", GiB}, {"max_alloc_bytes", 1}};

// Two columns for one number. `factor` turns the other one's unit into the first one's, of which it
// may differ by the share `rounding`.
struct OtherName {
  const char *name, *other;
  double factor = 1, rounding = 0;
};
constexpr OtherName kOtherNames[] = {{"iteration_s", "s_per_step"},
                                     {"micro_batch", "mbs"},
                                     {"global_batch", "gbs"},
                                     {"peak_alloc_GiB", "max_alloc_bytes", 1 / GiB, 0.01}};

// Names of GPUs in cases files that no preset uses, and the scenario's names for them.
struct GpuName {
  std::string_view name;
  const char* key;
  double memory_GiB;  // 0: as the GPU has
};
constexpr GpuName kGpus[] = {{"A100-80GB", "a100-80gb", 0},
                             {"V100-SXM2-32GB", "v100-32gb", 0},
                             {"V100-SXM2-16GB", "v100-32gb", 16},
                             {"H100-80GB", "h100-80gb", 0},
                             {"V100", "v100-32gb", 0},
                             {"A100", "a100-80gb", 0},
                             {"H100", "h100-80gb", 0},
                             {"H200", "h200-141gb", 0},
                             {"H800", "h800-80gb", 0},
                             {"B200", "b200-180gb", 0},
                             {"B300", "b300-288gb", 0},
                             {"GB200", "gb200-186gb", 0},
                             {"GB300", "gb300-288gb", 0}};

Result<int> whole_cell(const CsvTable& table, int row, const char* column, int least, int most) {
  ASSIGN_OR_RETURN(const std::int64_t value, table.integer(row, column));
  if (value < least || value > most)
    return table.error(
        row, fmt::format("column '{}': found {}, expected {} to {}", column, value, least, most));
  return static_cast<int>(value);
}

// Adds a row's "KEY=VALUE" to `sets`. An Error, for other text or an unknown key, names the row.
Status add_set(const std::string& text, const CsvTable& table, int row, Sets* sets) {
  const std::string place = table.error(row, "").place.source;  // "file:line"
  auto set = parse_set(text, place);
  if (!set.ok()) return table.error(row, set.error().message);
  if (!is_scenario_key(set->first))
    return table.error(row, fmt::format("found the key '{}', expected a scenario's", set->first));
  sets->push_back(*std::move(set));
  return Done{};
}

// Returns what a row's columns with a scenario's key as their name set, then what its column `set`
// sets.
Result<Sets> sets_of(const CsvTable& table, int row) {
  Sets sets;
  for (const std::string& column : table.columns()) {
    const bool has_field =
        std::ranges::find(kSeconds, column, &SecondsColumn::key) != std::end(kSeconds);
    if (has_field || !is_scenario_key(column)) continue;
    const std::string value(table.text(row, column));
    if (!value.empty()) RETURN_IF_ERROR(add_set(column + '=' + value, table, row, &sets));
  }
  for (const std::string& each : split(table.text(row, "set"), ";")) {
    if (each.find_first_not_of(' ') != std::string::npos)
      RETURN_IF_ERROR(add_set(each, table, row, &sets));
  }
  return sets;
}

// Error: the row has a number under both of its names, and they differ.
Status check_other_names(const CsvTable& table, int row) {
  for (const OtherName& column : kOtherNames) {
    if (table.text(row, column.name).empty() || table.text(row, column.other).empty()) continue;
    ASSIGN_OR_RETURN(const double value, table.number(row, column.name));
    ASSIGN_OR_RETURN(const double other, table.number(row, column.other));
    if (std::abs(value - column.factor * other) <= column.rounding * std::abs(value)) continue;
    return table.error(row, fmt::format("column '{}': found {:g} beside {} = {:g}, expected the "
                                        "same: they are two names of one number",
                                        column.name, value, column.other, other));
  }
  return Done{};
}

// The columns that may have the measured time.
constexpr const char* kMeasured[] = {"iteration_s", "s_per_step"};

// Returns the measured time. Without one: an Error if the row must be whole, else 0.
Result<double> measured_s(const CsvTable& table, int row, bool whole) {
  for (const char* column : kMeasured) {
    if (table.text(row, column).empty()) continue;
    ASSIGN_OR_RETURN(const double seconds, table.number(row, column));
    if (seconds > 0) return seconds;
    return table.error(
        row, fmt::format("column '{}': found {:g}, expected seconds above 0", column, seconds));
  }
  if (!whole) return 0.0;
  return table.number(row, kMeasured[0]);  // an Error, as the cell is empty
}

// Reads a row. `whole`: a row without a required cell is an Error.
Result<Case> read_case(const CsvTable& table, int row, const std::string& path, bool whole) {
  Case run;
  run.path = path;
  run.line = table.line(row);
  for (const TextColumn& column : kTexts) {
    run.*column.field = table.text(row, column.name);
    if (whole && column.required && (run.*column.field).empty())
      return table.error(row,
                         fmt::format("column '{}': found nothing, expected a text", column.name));
  }
  for (const WholeColumn& column : kWholes) {
    const bool may_be_empty = !whole || !column.required;
    if (may_be_empty && table.text(row, column.name).empty()) continue;
    ASSIGN_OR_RETURN(run.*column.field,
                     whole_cell(table, row, column.name, column.least, column.most));
  }
  for (const FlagColumn& column : kFlags) {
    if (table.text(row, column.name).empty()) continue;
    ASSIGN_OR_RETURN(const int value, whole_cell(table, row, column.name, 0, 1));
    run.*column.field = value == 1;
  }
  for (const SecondsColumn& column : kSeconds) {
    if (table.text(row, column.key).empty()) continue;
    ASSIGN_OR_RETURN(run.*column.field, table.number(row, column.key));
  }
  RETURN_IF_ERROR(check_other_names(table, row));
  ASSIGN_OR_RETURN(run.sets, sets_of(table, row));
  ASSIGN_OR_RETURN(run.measured_s, measured_s(table, row, whole));
  for (const MemoryColumn& column : kMemory) {
    if (table.text(row, column.name).empty()) continue;
    ASSIGN_OR_RETURN(const double value, table.number(row, column.name));
    if (value <= 0)
      return table.error(row, fmt::format("column '{}': found {:g}, expected a number above 0",
                                          column.name, value));
    run.measured_memory_bytes = value * column.unit;
  }
  return run;
}

Result<std::vector<Case>> read_all(const CsvTable& table, const std::string& path, bool whole) {
  std::vector<Case> cases;
  for (int row = 0; row < table.size(); ++row) {
    ASSIGN_OR_RETURN(Case run, read_case(table, row, path, whole));
    cases.push_back(std::move(run));
  }
  return cases;
}

// Sets the GPU. The case names it as in kGpus, by its device file, or as that file names the GPU.
Status set_gpu(const Case& run, Settings* settings) {
  if (run.gpu.empty()) return Done{};
  if (const auto* known = std::ranges::find(kGpus, run.gpu, &GpuName::name);
      known != std::end(kGpus)) {
    (*settings)["cluster.gpu"] = {std::string(known->key), run.place()};
    if (known->memory_GiB > 0) (*settings)["cluster.memory_GiB"] = {known->memory_GiB, run.place()};
    return Done{};
  }
  const std::vector<std::string> files = device_names();
  for (const std::string& file : files) {
    const auto device = load_device(file);
    const bool has_its_name = device.ok() && device->name == run.gpu;
    if (file == run.gpu || has_its_name) {
      (*settings)["cluster.gpu"] = {file, run.place()};
      return Done{};
    }
  }
  return Error::at(run.place(), fmt::format("found the GPU {}, expected one of {}", run.gpu,
                                            fmt::join(files, ", ")));
}

bool row_sets(const Case& run, std::string_view key) {
  return std::ranges::any_of(run.sets, [&](const auto& set) { return set.first == key; });
}

// Lets a job take a part of each node, such as 4 of a rack's 72 GPUs. Requires a NIC for each GPU;
// otherwise a smaller gpus_per_node means smaller nodes.
void set_node(const Case& run, Settings* settings) {
  if (run.gpus_per_node == 0) return;
  const auto preset = load_preset(run.system);
  if (!preset.ok()) return;
  const bool is_part = run.gpus_per_node < preset->gpus_per_node;
  const bool has_nic_each =
      preset->nics_per_node == preset->gpus_per_node && !row_sets(run, "cluster.nics_per_node");
  if (!is_part || !has_nic_each) return;
  settings->erase("cluster.gpus_per_node");
  (*settings)["cluster.gpus_of_node"] = {std::int64_t{run.gpus_per_node}, run.place()};
}

// Sets the layers of each stage where the stages do not divide them and the row does not say how.
// A row with stated seconds has those of its stages.
Status set_stage_layers(const Case& run, Settings* settings) {
  const std::int64_t stages = std::int64_t{std::max(run.pp, 1)} * std::max(run.vpp, 1);
  if (run.layers % stages == 0 || run.forward_s) return Done{};
  if (row_sets(run, "parallel.layout") || row_sets(run, "parallel.layers_per_stage")) return Done{};
  std::vector<std::int64_t> layers;
  if (stages <= kMostStages) layers = uneven_layers(run.layers, static_cast<int>(stages));
  if (layers.empty())
    return Error::at(run.place(),
                     fmt::format("found {} layers on {} stages, expected a multiple, two less, "
                                 "or so many that the last stage alone has fewer",
                                 run.layers, stages));
  (*settings)["parallel.layers_per_stage"] = {layers, run.place()};
  return Done{};
}

// Returns a scenario's Error without its place, which the row has already.
std::string reason_of(const Case& run, const Error& error) {
  return error.place.source == run.place() ? error.message : error.text();
}

CaseRow row_of(const Case& run, const Result<RunResult>& result) {
  if (!result.ok()) return {run, std::nullopt, reason_of(run, result.error())};
  Prediction prediction{.predicted_s = result->iteration_s,
                        .compute_s = result->compute_s,
                        .bubble_s = result->bubble_fraction * result->iteration_s,
                        .interval_s = result->interval_s,
                        .calibrated = result->calibrated};
  for (const double seconds : result->exposed_s) prediction.exposed_s += seconds;
  if (const auto& training = result->training) {
    prediction.memory_bytes = training->memory.total;
    prediction.verdict = training->verdict;
    prediction.spare_bytes = training->spare_bytes;
  }
  return {run, prediction, ""};
}

}  // namespace

std::string Case::place() const { return fmt::format("{}:{}", path, line); }

Result<std::vector<Case>> read_cases(const std::string& path) {
  ASSIGN_OR_RETURN(const CsvTable table, CsvTable::read(path));
  std::vector<const char*> required = {"iteration_s"};
  for (const TextColumn& column : kTexts) {
    if (column.required) required.push_back(column.name);
  }
  for (const WholeColumn& column : kWholes) {
    if (column.required) required.push_back(column.name);
  }
  for (const char* column : required) {
    if (!table.has(column))
      return Error::at(fmt::format("{}:1", path),
                       fmt::format("found no column '{}', expected the columns {}", column,
                                   fmt::join(required, ", ")));
  }
  if (table.size() == 0)
    return Error::at(fmt::format("{}:1", path), "found a header alone, expected a line a run");
  return read_all(table, path, /*whole=*/true);
}

Result<std::vector<Case>> read_partial_cases(const std::string& path) {
  ASSIGN_OR_RETURN(const CsvTable table, CsvTable::read(path));
  return read_all(table, path, /*whole=*/false);
}

std::vector<std::int64_t> uneven_layers(int layers, int stages) {
  if ((layers + 2) % stages == 0) {
    std::vector<std::int64_t> counts(stages, (layers + 2) / stages);
    --counts.front();
    --counts.back();
    return counts;
  }
  const int most = (layers + stages - 1) / stages;
  const int rest = layers - (stages - 1) * most;
  if (rest < 1) return {};
  std::vector<std::int64_t> counts(stages, most);
  counts.back() = rest;
  return counts;
}

Result<Settings> settings_of(const Case& run) {
  Settings settings;
  const auto set = [&](const char* key, auto value) { settings[key] = {value, run.place()}; };
  for (const TextColumn& column : kTexts) {
    if (column.key != nullptr && !(run.*column.field).empty()) set(column.key, run.*column.field);
  }
  for (const WholeColumn& column : kWholes) {
    if (run.*column.field > 0) set(column.key, std::int64_t{run.*column.field});
  }
  for (const FlagColumn& column : kFlags) set(column.key, run.*column.field);
  for (const SecondsColumn& column : kSeconds) {
    if (run.*column.field) set(column.key, *(run.*column.field));
  }
  RETURN_IF_ERROR(set_gpu(run, &settings));
  set_node(run, &settings);
  for (auto& [key, value] : family_defaults(run)) settings[key] = {std::move(value), run.place()};
  RETURN_IF_ERROR(set_stage_layers(run, &settings));
  for (const auto& [key, setting] : run.sets) settings[key] = setting;
  return settings;
}

Result<Scenario> scenario_of(const Case& run, const Sets& sets) {
  ASSIGN_OR_RETURN(const Settings settings, settings_of(run));
  return make_scenario(run.path, run.id, settings, sets);
}

Result<std::vector<CaseRow>> predict(const std::vector<Case>& cases, Engine engine, int jobs,
                                     const Sets& sets) {
  if (engine == Engine::SimGrid) RETURN_IF_ERROR(simgrid_available());
  std::vector<CaseRow> rows;
  std::vector<Scenario> scenarios;
  std::vector<std::size_t> row_of_scenario;
  for (const Case& run : cases) {
    auto scenario = scenario_of(run, sets);
    if (scenario.ok()) {
      row_of_scenario.push_back(rows.size());
      scenarios.push_back(*std::move(scenario));
      rows.push_back({run, std::nullopt, ""});
    } else {
      rows.push_back({run, std::nullopt, reason_of(run, scenario.error())});
    }
  }
  const std::vector<Result<RunResult>> results = simulate_all(scenarios, engine, jobs);
  for (std::size_t i = 0; i < results.size(); ++i) {
    CaseRow& row = rows[row_of_scenario[i]];
    row = row_of(row.run, results[i]);
  }
  return rows;
}

Errors error_statistics(const std::vector<double>& errors) {
  Errors sum{.n = static_cast<int>(errors.size())};
  if (errors.empty()) return sum;
  std::vector<double> sizes;
  for (const double error : errors) {
    sizes.push_back(std::abs(error));
    sum.bias += error;
    sum.mape += sizes.back();
    if (sizes.back() > std::abs(sum.worst)) sum.worst = error;
  }
  sum.bias /= sum.n;
  sum.mape /= sum.n;
  sum.median = median(std::move(sizes));
  return sum;
}

Accuracy accuracy_of(const std::vector<CaseRow>& rows, std::string_view family) {
  Accuracy sum;
  sum.family = family;
  std::vector<double> errors, memory_errors;
  for (const CaseRow& row : rows) {
    if (!family.empty() && row.run.family != family) continue;
    if (!row.prediction) {
      ++sum.without;
      continue;
    }
    errors.push_back(row.error());
    if (row.run.measured_memory_bytes != 0) memory_errors.push_back(row.memory_error());
    if (errors.size() == 1 || std::abs(row.error()) > std::abs(sum.worst)) {
      sum.worst = row.error();
      sum.worst_id = row.run.id;
    }
  }
  static_cast<Errors&>(sum) = error_statistics(errors);
  sum.memory = error_statistics(memory_errors);
  return sum;
}

std::vector<Accuracy> accuracy_by_family(const std::vector<CaseRow>& rows) {
  std::vector<Accuracy> families;
  for (const CaseRow& row : rows) {
    if (std::ranges::find(families, row.run.family, &Accuracy::family) == families.end())
      families.push_back(accuracy_of(rows, row.run.family));
  }
  return families;
}

}  // namespace tandem
