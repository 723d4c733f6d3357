// Makes scenarios from a file in three steps. runs_of() lists the runs, the product of the file's
// axes, each as keys and values. apply_settings() sets the members of a Scenario that the keys
// stand for. complete() sets defaults that depend on several keys, and checks rules between keys.
#include "scenarios/scenario.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <set>

#include "base/file.h"
#include "base/nearest.h"
#include "scenarios/checks.h"
#include "scenarios/costs.h"
#include "scenarios/fields.h"
#include "scenarios/hostfile.h"
#include "scenarios/imported_files.h"
#include "scenarios/layer_kinds.h"
#include "scenarios/layout.h"
#include "scenarios/nodes.h"
#include "scenarios/routing_file.h"
#include "schedule/lowering/lower.h"

namespace tandem {

VariabilitySettings VariabilitySettings::without_disturbances() const {
  VariabilitySettings undisturbed = *this;
  undisturbed.jitter = 0;
  undisturbed.stragglers = stragglers.stages_alone();
  if (!slow_link.fails_for_good()) undisturbed.slow_link = {};
  undisturbed.repeats = 1;
  return undisturbed;
}

namespace {

// Tables that a scenario file may have for tandem size alone.
constexpr std::string_view kSizeTables[] = {"failures.", "price.", "size."};

// Drops the keys of these tables, and notes it.
void drop_size_tables(Scenario* scenario) {
  std::vector<std::string> dropped;
  for (const std::string_view table : kSizeTables) {
    const auto is_in_table = [&](const auto& setting) { return setting.first.starts_with(table); };
    if (std::erase_if(scenario->settings, is_in_table) > 0)
      dropped.push_back(fmt::format("[{}]", table.substr(0, table.size() - 1)));
  }
  if (!dropped.empty())
    scenario->notes.push_back(fmt::format("only tandem size reads {}", fmt::join(dropped, ", ")));
}

Status check_known(const Settings& settings) {
  std::set<std::string> known;
  for (const Field& field : fields()) known.insert(field.key);
  for (const auto& [key, setting] : settings) {
    if (known.contains(key) || is_kind_key(key)) continue;
    return Error{fmt::format("found unknown key '{}', expected a known one; the nearest is '{}'",
                             key, nearest(key, {known.begin(), known.end()})),
                 Error::BadInput,
                 {.keys = {key}, .source = setting.where}};
  }
  return Done{};
}

// Applies the settings in the order of the fields, whatever their order in the file.
Status apply_settings(const Settings& settings, Scenario* scenario) {
  RETURN_IF_ERROR(check_known(settings));
  for (const Field& field : fields()) {
    const auto setting = settings.find(field.key);
    if (setting != settings.end()) RETURN_IF_ERROR(field.set(setting->second, scenario));
  }
  return apply_layer_kinds(settings, scenario);
}

// Sets the number of GPUs from the parallel sizes, or dp from the number of GPUs. If both are set,
// they must agree.
Status complete_gpus(Scenario* s) {
  Plan& plan = s->job.plan;
  constexpr std::int64_t kMost = 1'000'000;
  const std::int64_t model_parallel = std::int64_t{plan.tp} * plan.pp * plan.cp;
  if (s->cluster.gpus > 0 && !s->places.contains("parallel.dp")) {
    if (s->cluster.gpus % model_parallel != 0)
      return Error::of(
          {"cluster.gpus"},
          fmt::format("found cluster.gpus = {}, expected a multiple of {}", s->cluster.gpus,
                      plan.cp > 1
                          ? fmt::format("tp x pp x cp = {} x {} x {}", plan.tp, plan.pp, plan.cp)
                          : fmt::format("tp x pp = {} x {}", plan.tp, plan.pp)));
    plan.dp = static_cast<int>(s->cluster.gpus / model_parallel);
  }
  const std::string cp = plan.cp > 1 ? fmt::format(" x {}", plan.cp) : "";
  const std::string product = fmt::format(
      "tp x pp{} x dp = {} x {}{} x {}", plan.cp > 1 ? " x cp" : "", plan.tp, plan.pp, cp, plan.dp);
  if (model_parallel > kMost || model_parallel * plan.dp > kMost)
    return Error::of({"parallel.dp", "parallel.tp", "parallel.pp", "parallel.cp"},
                     fmt::format("found {}, expected at most {} GPUs", product, kMost));
  if (s->cluster.gpus == 0) s->cluster.gpus = plan.gpus();
  if (s->cluster.gpus != plan.gpus())
    return Error::of({"cluster.gpus"}, fmt::format("found cluster.gpus = {}, expected {} = {}",
                                                   s->cluster.gpus, product, plan.gpus()));
  return Done{};
}

Status complete_batch(Scenario* s) {
  Plan& plan = s->job.plan;
  constexpr std::int64_t kMost = 1'000'000'000;
  const std::int64_t step = std::int64_t{plan.micro_batch} * plan.dp;
  if (step > kMost)
    return Error::of({"parallel.micro_batch", "parallel.dp"},
                     fmt::format("found micro_batch x dp = {} x {}, expected at most {} sequences",
                                 plan.micro_batch, plan.dp, kMost));
  if (plan.global_batch == 0) plan.global_batch = static_cast<int>(step);
  if (plan.global_batch % step != 0)
    return Error::of({"parallel.global_batch", "parallel.micro_batch"},
                     fmt::format("found parallel.global_batch = {}, expected a multiple of "
                                 "micro_batch x dp = {} x {}",
                                 plan.global_batch, plan.micro_batch, plan.dp));
  return Done{};
}

Status complete_vocabulary(Scenario* s) {
  if (s->job.vocabulary_parallel) s->job.plan.vocabulary = s->job.vocabulary_algorithm;
  if (s->job.vocabulary_parallel || !s->places.contains("schedule.vocabulary_algorithm"))
    return Done{};
  return Error::of({"schedule.vocabulary_algorithm"},
                   "found schedule.vocabulary_algorithm without schedule.vocabulary = parallel, "
                   "expected both");
}

// Reads the file of model.routing, and sets each layer's load of the busiest rank.
Status complete_routing(Scenario* s) {
  JobSettings& job = s->job;
  if (job.routing.empty() || job.routing == "forced") return Done{};
  if (!job.model.is_moe())
    return Error::of({"model.routing"},
                     "found model.routing and no experts, expected a mixture of experts");
  for (const LayersOfKind& layers : kinds_in(job.model, 0, job.model.layers)) {
    if (layers.kind->expert_imbalance != 1)
      return Error::of({"model.routing", "model.expert_imbalance"},
                       "found model.routing beside model.expert_imbalance, expected one of them: "
                       "both say what the busiest rank gets");
  }
  const std::string path = (std::filesystem::path(s->path).parent_path() / job.routing).string();
  Result<Routing> routing = read_routing(path);
  if (!routing.ok()) return routing.error().or_of({"model.routing"});
  if (Status status = route(*routing, &job.model); !status.ok())
    return Error::at(path, path.ends_with(".jsonl")
                               ? status.error().message +
                                     "; a router trace must be of a run without a pipeline, whose "
                                     "stages each number their layers from 0"
                               : status.error().message);
  return Done{};
}

Status complete_order(Scenario* s) {
  s->job.order.pp = s->job.plan.pp;
  s->job.order.vpp = s->job.plan.vpp;
  s->job.order.microbatches = s->job.plan.microbatches();
  if (!s->places.contains("schedule.order")) s->job.order.name = default_order(s->job.plan.vpp);
  if (s->job.order.name.find('.') == std::string::npos) return Done{};  // no file
  s->job.order_file = (std::filesystem::path(s->path).parent_path() / s->job.order.name).string();
  const std::string why = why_unreadable(s->job.order_file);
  if (why.empty()) return Done{};
  return Error::of({"schedule.order"},
                   fmt::format("found schedule.order = {}: {}, expected a file in PyTorch's or "
                               "Primus's form beside the scenario",
                               s->job.order.name, why));
}

// Completes and checks the settings of [overlap]; those of tensor overlap may come from a file.
Status complete_overlap(Scenario* s) {
  s->job.data.zero = s->job.plan.zero;
  // FSDP and DeepSpeed gather the next layer ahead unless they are told not to.
  if (s->job.plan.zero == 3 && !s->places.contains("overlap.param_gather"))
    s->job.data.param_gather = true;
  s->job.data.bucket_bytes = std::llround(s->job.bucket_bytes);
  if (s->places.contains("overlap.align_param_gather") && s->job.data.align_param_gather &&
      !s->job.data.param_gather)
    return Error::of(
        {"overlap.align_param_gather"},
        "found overlap.align_param_gather = true without overlap.param_gather, expected both");
  if (s->job.expert_overlap && !s->job.model.is_moe())
    return Error::of(
        {"overlap.expert"},
        "found overlap.expert = true with a dense model, expected model.experts: there is "
        "no expert communication");
  const std::string folder = std::filesystem::path(s->path).parent_path().string();
  auto overlap = tensor_overlap(s->job.tensor, s->job.model, folder);
  if (!overlap.ok()) return overlap.error().or_of({"overlap.tensor_file"});
  s->job.plan.tensor_overlap = *overlap;
  return Done{};
}

Status check_cluster(const Scenario& s) {
  const int node = s.cluster.spec.gpus_per_node;
  if (node == 0)
    return Error::of({"cluster.gpus_per_node"},
                     "found no cluster, expected [cluster] with a preset or with its numbers");
  if (s.cluster.cyclic && s.cluster.hostfile.empty() && s.cluster.gpus % node != 0)
    return Error::of(
        {"cluster.placement"},
        fmt::format("found cluster.placement = cyclic with {} GPUs, expected whole nodes: a "
                    "multiple of cluster.gpus_per_node = {}",
                    s.cluster.gpus, node));
  const DeviceSpec& device = s.cluster.spec.device;
  const double reserve = device.own_memory_reserve_bytes.value_or(0);
  if (device.memory_bytes > 0 && reserve >= device.memory_bytes)
    return Error::of(
        {"cluster.memory_reserve_GiB"},
        fmt::format("found cluster.memory_reserve_GiB = {:g}, expected less than the GPU's "
                    "memory, {:g} GiB",
                    reserve / GiB, device.memory_bytes / GiB));
  if (s.report.least_bandwidth && !s.cluster.spec.calibration.empty())
    return Error::of(
        {"report.least_bandwidth", "cluster.calibration"},
        "found report.least_bandwidth with cluster.calibration, expected one of them: a "
        "measured time holds at every bandwidth");
  if (!s.cluster.spec.cables) return Done{};
  if (s.report.least_bandwidth)
    return Error::of({"report.least_bandwidth", "cluster.links_file"},
                     "found report.least_bandwidth with cluster.links_file, expected one of them: "
                     "its links have a bandwidth each");
  // A file that --set gives replaces these keys of the scenario, but those of --set contradict it.
  const bool file_is_set = s.place_of({"cluster.links_file"}) == "--set";
  for (const char* key :
       {"cluster.intra_GBps", "cluster.intra_latency_us", "cluster.nics_per_node",
        "cluster.nic_Gbitps", "cluster.inter_latency_us", "cluster.fabric",
        "cluster.nodes_per_leaf", "cluster.oversubscription", "cluster.nics_on_switch"}) {
    const bool is_replaced = file_is_set && s.place_of({key}) != "--set";
    if (s.places.contains(key) && !is_replaced)
      return Error::of({key}, fmt::format("found {} with cluster.links_file, expected one of them: "
                                          "the file has the links, their rates and latencies",
                                          key));
  }
  return Done{};
}

// Checks that communication leaves at least one SM to compute.
Status check_sms(const Scenario& s) {
  std::vector<std::pair<std::vector<std::string>, int>> taken = {
      {{"overlap.data_sms"}, s.job.data.sms},
      {{"overlap.p2p_sms"}, s.job.p2p_sms},
      {{"overlap.context_sms"}, s.job.plan.context_sms},
      {{"overlap.expert_sms"}, s.job.plan.expert_sms}};
  for (int i = 0; i < kTensorGemms; ++i)
    taken.emplace_back(keys_of(static_cast<TensorGemm>(i)), s.job.plan.tensor_overlap[i].sms);
  for (const auto& [keys, sms] : taken) {
    if (sms > 0 && sms >= s.cluster.spec.device.sms)
      return Error::of(keys, fmt::format("{}: found {} SMs, expected fewer than the GPU's {}",
                                         keys.front(), sms, s.cluster.spec.device.sms));
  }
  return Done{};
}

Status check_slow_link(const Scenario& s) {
  const SlowLink& slow = s.variability.slow_link;
  const bool has_link = !slow.name.empty();
  const bool has_rate = s.places.contains("variability.slow_link_rate");
  if (has_link != has_rate)
    return Error::of(
        {"variability.slow_link", "variability.slow_link_rate"},
        "found one of variability.slow_link and variability.slow_link_rate, expected both: "
        "which link has what share of its bandwidth");
  if (slow.fails_for_good() && slow.from_s > 0)
    return Error::of(
        {"variability.slow_link_from_s"},
        fmt::format("found that {} fails for good from {} s on, expected "
                    "variability.slow_link_to_s, or a failure from the beginning: routes "
                    "do not change in an iteration",
                    slow.name, slow.from_s));
  if (slow.to_s && *slow.to_s <= slow.from_s)
    return Error::of(
        {"variability.slow_link_to_s"},
        fmt::format("found variability.slow_link_to_s = {}, expected more than slow_link_"
                    "from_s = {}",
                    *slow.to_s, slow.from_s));
  return Done{};
}

// Sets the cross entropy that train.fused_cross_entropy stands for.
Status complete_cross_entropy(Scenario* s) {
  if (!s->job.fused_cross_entropy) return Done{};
  if (s->places.contains("train.cross_entropy"))
    return Error::of({"train.fused_cross_entropy"},
                     "found train.fused_cross_entropy beside train.cross_entropy, expected one of "
                     "them: true stands for native, false for unfused");
  s->job.plan.cross_entropy =
      *s->job.fused_cross_entropy ? CrossEntropy::Native : CrossEntropy::Unfused;
  return Done{};
}

// Sets defaults that depend on several keys, then checks rules between keys. Later steps use what
// earlier ones set. Scenario::places has the keys that the run sets.
Status complete(Scenario* s) {
  if (!s->places.contains("parallel.vpp")) s->job.plan.vpp = traits_of(s->job.order).default_vpp();
  RETURN_IF_ERROR(complete_routing(s));
  RETURN_IF_ERROR(complete_layout(s));
  RETURN_IF_ERROR(complete_gpus(s));
  RETURN_IF_ERROR(take_part_of_nodes(&s->cluster));
  RETURN_IF_ERROR(place_by_hostfile(&s->cluster));
  RETURN_IF_ERROR(complete_batch(s));
  RETURN_IF_ERROR(complete_order(s));
  RETURN_IF_ERROR(complete_vocabulary(s));
  RETURN_IF_ERROR(complete_overlap(s));
  RETURN_IF_ERROR(complete_cross_entropy(s));
  RETURN_IF_ERROR(complete_costs(s));
  if (s->costs.need_cluster()) RETURN_IF_ERROR(check_cluster(*s));
  RETURN_IF_ERROR(check_stragglers(*s));
  RETURN_IF_ERROR(check_slow_link(*s));
  RETURN_IF_ERROR(check_expert_keys(*s));
  RETURN_IF_ERROR(check_exchange_sms(*s));
  RETURN_IF_ERROR(check_offload(*s));
  RETURN_IF_ERROR(check_stages(std::int64_t{traits_of(s->job.order).chains} * s->job.plan.pp *
                               s->job.plan.vpp));
  if (s->costs.uniform) {
    const Status status = check_stated(s->job.model, s->job.plan);
    if (!status.ok()) return status.error().or_of({"model.layers"});
    return Done{};
  }
  RETURN_IF_ERROR(complete_framework_profile(s));
  if (!sets_tensor_overlap(s->places))
    s->job.plan.tensor_overlap = unasked_overlap(s->job.model, s->job.plan, s->costs.profile);
  if (!s->places.contains("train.gradient_dtype"))
    s->job.plan.gradient_dtype = s->job.plan.precision == "fp16" ? "fp16" : "fp32";
  if (const Status status = check_model(s->job.model, s->job.plan); !status.ok())
    return status.error().or_of({"model.layers"});
  if (const Status status = check_cost_model(s->cost_model()); !status.ok())
    return status.error().or_of({"cluster.preset", "cluster.gpu"});
  return check_sms(*s);
}

Status check_baseline(const Scenario& scenario, const ScenarioFile& file) {
  if (scenario.report.baseline.empty()) return Done{};
  std::vector<std::string> names;
  for (const Axis& axis : file.axes) {
    for (const Point& point : axis.points)
      names.insert(names.end(), point.names.begin(), point.names.end());
  }
  if (std::ranges::find(names, scenario.report.baseline) != names.end()) return Done{};
  return Error::of(
      {"report.baseline"},
      fmt::format("found report.baseline = {}, expected a point's name on an axis; {}",
                  scenario.report.baseline,
                  names.empty() ? "the file has none"
                                : fmt::format("the nearest is '{}'",
                                              nearest(scenario.report.baseline, names))));
}

}  // namespace

std::string Scenario::place_of(const std::vector<std::string>& keys) const {
  for (const std::string& key : keys) {
    if (const auto place = places.find(key); place != places.end()) return place->second;
    // If the key is a table, take its first key.
    const auto inside = places.lower_bound(key + '.');
    if (inside != places.end() && inside->first.starts_with(key + '.')) return inside->second;
  }
  for (const std::string& key : keys) {
    const std::string table = key.substr(0, key.find('.') + 1);
    for (const auto& [other, place] : places) {
      if (!table.empty() && other.starts_with(table) && place.starts_with(path)) return place;
    }
  }
  return path;
}

Error Scenario::placed(const Error& error) const {
  if (error.place.keys.empty()) return error;
  return {
      error.text(), error.kind, {.keys = error.place.keys, .source = place_of(error.place.keys)}};
}

Result<Scenario> make_scenario(const ScenarioFile& file, const RunSettings& run) {
  Scenario scenario;
  scenario.name = run.name;
  scenario.axes = run.axes;
  scenario.points = run.points;
  scenario.path = file.path;
  scenario.notes = run.notes;
  scenario.settings = run.settings;
  drop_size_tables(&scenario);
  for (const auto& [key, setting] : scenario.settings) scenario.places[key] = setting.where;
  RETURN_IF_ERROR(apply_settings(scenario.settings, &scenario));
  if (const Status status = complete(&scenario); !status.ok())
    return scenario.placed(status.error());
  if (const Status status = check_baseline(scenario, file); !status.ok())
    return scenario.placed(status.error());
  return scenario;
}

Result<std::vector<Scenario>> load_scenarios(
    const std::string& path, const std::vector<std::pair<std::string, Setting>>& sets,
    const std::string& only) {
  ASSIGN_OR_RETURN(const ScenarioFile file, read_scenario_file(path));
  return load_scenarios(file, sets, only);
}

Result<std::vector<Scenario>> load_scenarios(
    const ScenarioFile& file, const std::vector<std::pair<std::string, Setting>>& sets,
    const std::string& only) {
  ASSIGN_OR_RETURN(const std::vector<RunSettings> runs, runs_of(file, sets, only));
  std::vector<Scenario> scenarios;
  for (const RunSettings& run : runs) {
    auto scenario = make_scenario(file, run);
    if (!scenario.ok() && !file.axes.empty())
      return Error{fmt::format("{} (run '{}')", scenario.error().message, run.name),
                   scenario.error().kind, scenario.error().place};
    if (!scenario.ok()) return scenario.error();
    scenarios.push_back(*std::move(scenario));
  }
  return scenarios;
}

Result<Scenario> only_run(const std::vector<Scenario>& scenarios, const std::string& path,
                          std::string_view by) {
  if (scenarios.size() == 1) return scenarios.front();
  return Error::at(path, fmt::format("found {} runs, expected one: choose it with {}, such as '{}'",
                                     scenarios.size(), by, scenarios.front().name));
}

Result<Scenario> make_scenario(const std::string& path, const std::string& name,
                               const Settings& settings,
                               const std::vector<std::pair<std::string, Setting>>& sets) {
  const ScenarioFile file{path, settings, {}};
  RunSettings run{name, {}, {}, settings};
  for (const auto& [key, setting] : sets) run.settings[key] = setting;
  RETURN_IF_ERROR(ImportedFiles(path).complete(&run));
  return make_scenario(file, run);
}

Result<Scenario> with_sets(const Scenario& scenario,
                           const std::vector<std::pair<std::string, Setting>>& sets) {
  RunSettings run{scenario.name, scenario.axes, scenario.points, scenario.settings, scenario.notes};
  run.settings.erase("report.baseline");  // it names a point of the file's axes
  for (const auto& [key, setting] : sets) run.settings[key] = setting;
  ASSIGN_OR_RETURN(Scenario changed, make_scenario({scenario.path, {}, {}}, run));
  changed.fold = scenario.fold;
  return changed;
}

std::vector<std::pair<std::string, std::string>> scenario_keys() {
  std::vector<std::pair<std::string, std::string>> keys;
  for (const Field& field : fields()) keys.emplace_back(field.key, field.help);
  return keys;
}

}  // namespace tandem
