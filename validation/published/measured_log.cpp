#include "validation/published/measured_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/gzip.h"
#include "interop/import.h"
#include "interop/log/run_meter.h"
#include "interop/megatron/files.h"
#include "topology/preset.h"

namespace tandem {
namespace {

constexpr const char *kGpusKey = "cluster.gpus", *kReplicasKey = "parallel.dp";

bool sets_key(const LogOptions& options, const std::string& key) {
  return std::ranges::any_of(options.sets, [&](const auto& set) { return set.first == key; });
}

bool names_cluster(const LogOptions& options) {
  return !options.cluster.empty() || std::ranges::any_of(options.sets, [](const auto& set) {
    return set.first.starts_with("cluster.") && set.first != kGpusKey;
  });
}

bool knows_gpus(const ImportedPlan& plan, const LogOptions& options) {
  return options.gpus > 0 || sets_key(options, kGpusKey) || sets_key(options, kReplicasKey) ||
         plan.has(kGpusKey) || plan.has(kReplicasKey);
}

Status check_log(const std::string& path, const ImportedPlan& plan, const LogOptions& options) {
  if (!plan.states_model())
    return Error::at(
        path,
        fmt::format("found no plan{}, expected Megatron-LM's block '-- arguments --', or the "
                    "script or configuration beside it, and the model's config.json: tandem "
                    "validate train.log run.sh config.json",
                    plan.left_out.empty() ? ""
                                          : fmt::format(" in the run that counts (left out: {})",
                                                        fmt::join(plan.left_out, "; "))));
  if (!plan.measured.any() && !plan.left_out.empty())
    return Error::at(path, fmt::format("found no iteration that counts, expected some of the job's "
                                       "batch; left out: {}",
                                       fmt::join(plan.left_out, "; ")));
  if (!plan.measured.any())
    return Error::at(path,
                     "found no measurement, expected lines such as 'elapsed time per iteration "
                     "(ms):', 'train_step_timing in s:', 'tps:', 'CurrSamplesPerSec=', 'max "
                     "allocated:' or MLPerf's '\"train_step_time\":'");
  if (!names_cluster(options) && !plan.has("cluster.preset"))
    return Error::at(path, fmt::format("found no cluster, expected --cluster PRESET, one of {}",
                                       fmt::join(preset_names(), ", ")));
  if (!options.cluster.empty()) {
    if (const auto preset = load_preset(options.cluster); !preset.ok()) return preset.error();
  }
  if (!knows_gpus(plan, options))
    return Error::at(path, "found no world_size among its arguments, expected --gpus N");
  return Done{};
}

// Returns the scenario that a TOML file beside the log would give whose only key is `parallel.from`
// = [the files beside, the log].
Result<Scenario> scenario_of_log(const std::string& path, const LogOptions& options) {
  const std::filesystem::path file(path);
  Settings settings;
  std::vector<std::string> files;
  for (const std::string& beside : options.beside)
    files.push_back(std::filesystem::absolute(beside).string());
  files.push_back(file.filename().string());
  settings["parallel.from"] = {files, ""};
  if (!options.cluster.empty()) settings["cluster.preset"] = {options.cluster, "--cluster"};
  if (options.gpus > 0) settings[kGpusKey] = {std::int64_t{options.gpus}, "--gpus"};
  return make_scenario(path, file.stem().string(), settings, options.sets);
}

// Returns simulated over measured, minus 1.
std::optional<double> share_off(double simulated, std::optional<double> measured) {
  if (!measured || *measured <= 0) return std::nullopt;
  return simulated / *measured - 1;
}

template <class T>
nlohmann::ordered_json json_or_null(const std::optional<T>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
}

}  // namespace

std::optional<double> LogComparison::iteration_error() const {
  return share_off(simulated.iteration_s, measured.iteration_s);
}

std::optional<double> LogComparison::memory_error() const {
  return share_off(simulated.training->memory.total, measured.max_allocated_bytes);
}

std::optional<bool> LogComparison::is_inside() const {
  if (!simulated.interval_s || !measured.iteration_s) return std::nullopt;
  return *measured.iteration_s >= simulated.interval_s->first &&
         *measured.iteration_s <= simulated.interval_s->second;
}

std::optional<double> LogComparison::log_flops() const {
  if (!measured.tflops_per_gpu || !measured.iteration_s) return std::nullopt;
  return *measured.tflops_per_gpu * 1e12 * *measured.iteration_s * simulated.gpus;
}

double LogComparison::own_flops() const {
  return simulated.training->model_tflops_per_gpu * 1e12 * simulated.iteration_s * simulated.gpus;
}

std::optional<double> LogComparison::simulated_tflops() const {
  const auto flops = log_flops();
  if (!flops) return std::nullopt;
  return *flops / 1e12 / simulated.gpus / simulated.iteration_s;
}

bool is_log_file(const std::string& path) {
  auto bytes = read_file(path);
  if (!bytes.ok()) return false;
  const auto text = unpacked_text(*std::move(bytes), path);
  return !text.ok() || is_log(*text);
}

Result<LogComparison> compare_log(const std::string& path, const LogOptions& options) {
  std::map<std::string, KeyValue> sets;
  for (const auto& [key, setting] : options.sets) sets[key] = setting.value;
  std::vector<std::string> files = options.beside;
  files.push_back(path);
  ASSIGN_OR_RETURN(const ImportedPlan plan,
                   import_files(files, {.gpus = options.gpus, .sets = sets}));
  RETURN_IF_ERROR(check_log(path, plan, options));
  ASSIGN_OR_RETURN(const Scenario scenario, scenario_of_log(path, options));
  const int gpus = scenario.job.plan.gpus();
  if (plan.measured.gpus.value_or(gpus) != gpus)
    return Error::at(path, fmt::format("found a world size of {:.0f} in the log, expected the "
                                       "job's {} GPUs: what it measured is of another job",
                                       *plan.measured.gpus, gpus));
  ASSIGN_OR_RETURN(RunResult result, simulate(scenario, options.engine));
  if (!result.training)
    return Error::at(path,
                     "found costs.source = uniform, expected a model's: nothing of the log would "
                     "be compared");
  for (const std::string& text : plan.left_out) result.warnings.push_back("left out: " + text);
  if (plan.measured.has_times() && plan.measured.warmup < RunMeter::kWarmup)
    result.warnings.push_back(fmt::format(
        "{}: found {} iterations, expected more than {}: the first ones compile and allocate, and "
        "take longer",
        path, plan.measured.warmup + plan.measured.iterations, RunMeter::kWarmup));
  return LogComparison{path, plan.measured, std::move(result), plan.left_out};
}

nlohmann::ordered_json to_json(const LogComparison& o) {
  const RunResult& run = o.simulated;
  nlohmann::ordered_json json = {{"log", o.log},
                                 {"cluster", run.cluster},
                                 {"engine", run.engine},
                                 {"gpus", run.gpus},
                                 {"iterations", o.measured.iterations},
                                 {"warmup", o.measured.warmup}};
  json["measured_s"] = json_or_null(o.measured.iteration_s);
  json["predicted_s"] = run.iteration_s;
  json["error"] = json_or_null(o.iteration_error());
  json["low_s"] = run.interval_s ? nlohmann::ordered_json(run.interval_s->first) : nullptr;
  json["high_s"] = run.interval_s ? nlohmann::ordered_json(run.interval_s->second) : nullptr;
  json["inside"] = json_or_null(o.is_inside());
  json["calibrated"] = json_or_null(run.calibrated);
  json["cost_model"] = run.cost_model;
  json["measured_bytes"] = json_or_null(o.measured.max_allocated_bytes);
  json["predicted_bytes"] = run.training->memory.total;
  json["bytes_error"] = json_or_null(o.memory_error());
  json["pipeline_rank"] = run.training->peak.pipeline_rank;
  json["fits"] = run.training->fits;
  json["measured_tflops_per_gpu"] = json_or_null(o.measured.tflops_per_gpu);
  json["predicted_tflops_per_gpu"] = json_or_null(o.simulated_tflops());
  json["log_flops"] = json_or_null(o.log_flops());
  json["model_flops"] = o.own_flops();
  json["warnings"] = run.warnings;
  return json;
}

}  // namespace tandem
