// Reads the file of a sizing: each of its runs is a job on an offer. Declared in
// planning/size/size.h.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "base/split.h"
#include "planning/size/size.h"
#include "planning/tune/refinement.h"
#include "planning/tune/rules.h"

namespace tandem {
namespace {

// The keys of a plan that make_scenario needs; the search replaces all of them.
const std::vector<std::pair<const char*, std::int64_t>> kPlaceholderKeys = {
    {"parallel.tp", 1}, {"parallel.pp", 1}, {"parallel.dp", 1}, {"cluster.gpus", 1}};

// Whether the key describes an offer's hardware. --set refuses such keys: it would change the
// hardware of all offers, but not their names and prices.
bool is_bought(std::string_view key) {
  static const std::vector<std::string> kBought = split_words(
      "preset name gpus_per_node intra_GBps nics_per_node nic_Gbitps fabric nodes_per_leaf "
      "oversubscription nics_on_switch nvlinks in_network_reduction gpus_of_node links_file hosts "
      "hostfile from gpu gpu_name memory_GiB memory_GBps host_link_GBps host_memory_GBps sms "
      "tflops");
  constexpr std::string_view kCluster = "cluster.";
  return key.starts_with(kCluster) &&
         std::ranges::find(kBought, key.substr(kCluster.size())) != kBought.end();
}

// Whether the --among of a sizing takes the value.
bool is_for_among(const std::string& key, const Setting& setting) {
  const auto space = Space::among({key + "=" + setting.text()});
  const std::vector<Refinement> unrefined_alone = {{}};
  return space.ok() && refinements_in(*space) == unrefined_alone;
}

Status check_sets(const std::vector<std::pair<std::string, Setting>>& sets) {
  const std::vector<std::string> chosen = Space::own_keys();
  for (const auto& [key, setting] : sets) {
    if (key == "cluster.gpus") return setting.error(key, "size.gpus: a list of GPUs to try");
    if (std::ranges::find(chosen, key) != chosen.end())
      return setting.error(
          key, is_for_among(key, setting)
                   ? fmt::format("--among {}={}: the search chooses the plan", key, setting.text())
                   : "none: the search chooses the plan, and compares plans that are not refined");
    if (is_bought(key))
      return setting.error(key,
                           "it in a candidate's own lines, beside its price: here it would change "
                           "all candidates, and neither their names nor their prices; "
                           "variability.background takes bandwidth between nodes from all");
  }
  return Done{};
}

// Takes the keys of a plan out of the settings; returns those that were there.
std::vector<std::string> take_plan_keys(const std::string& path, Settings* settings) {
  std::vector<std::string> taken;
  for (const std::string& key : Space::own_keys()) {
    if (settings->erase(key) > 0) taken.push_back(key);
  }
  if (settings->contains("cluster.gpus")) taken.emplace_back("cluster.gpus");
  for (const auto& [key, value] : kPlaceholderKeys) (*settings)[key] = {value, path};
  return taken;
}

// Returns the settings that describe an offer's hardware.
std::map<std::string, KeyValue> hardware_of(const SizeCase& c) {
  std::map<std::string, KeyValue> hardware;
  for (const auto& [key, setting] : c.scenario.settings) {
    if (is_bought(key)) hardware[key] = setting.value;
  }
  return hardware;
}

// Checks that a node's power is known where a kWh has a price or grams of CO2.
Status check_energy(const std::string& path, const SizeCase& c) {
  const OfferPrice& price = c.inputs.price;
  if (price.node_kW > 0 || (price.kWh == 0 && price.gCO2_kWh == 0)) return Done{};
  return Error::at(path, fmt::format("found no price.node_kW of '{}', expected it beside {}{}",
                                     c.offer, price.kWh > 0 ? "price.kWh" : "price.gCO2_kWh",
                                     price.bought() ? "" : ", or 0 of that if the rent has all"));
}

// Returns the error with the run's name, if it is of a key that one of several runs leaves out, and
// so has no line.
Error of_run(Error error, const ScenarioFile& file, const std::string& run) {
  if (!file.axes.empty() && error.place.source == file.path)
    error.message += fmt::format(" (run '{}')", run);
  return error;
}

// Returns what [size] says of a machine, whichever jobs run on it.
auto limits_of(const SizeInputs& inputs) {
  return std::tuple(inputs.purchase_budget, inputs.rent_per_month, inputs.power_MW, inputs.gpus_max,
                    inputs.delivery_days, inputs.years);
}

// Checks that two jobs of an offer run on one machine.
Status check_one_machine(const std::string& path, const SizeCase& a, const SizeCase& b) {
  const char* different = nullptr;
  if (limits_of(a.inputs) != limits_of(b.inputs)) different = "limits of [size]";
  if (a.inputs.price != b.inputs.price || a.inputs.gpus != b.inputs.gpus)
    different = "size.gpus or prices";
  if (hardware_of(a) != hardware_of(b)) different = "clusters";
  if (different == nullptr) return Done{};
  return Error::at(path, fmt::format("found {} of '{}' that differ from job to job ('{}', '{}'), "
                                     "expected one machine for all jobs (they are the first axis)",
                                     different, a.offer, a.job, b.job));
}

std::string years_text(const SizeInputs& inputs) {
  const std::optional<double> years = inputs.years_of_total();
  return years ? fmt::format("{:g} years", *years) : "the trainings' own time";
}

// Checks that the totals of two cases can be compared.
Status check_comparable(const std::string& path, const SizeCase& a, const SizeCase& b) {
  const auto refused = [&](const std::string& of_a, const std::string& of_b, const char* key) {
    return Error::at(path, fmt::format("found {} of '{}' and {} of '{}', expected one {} for all "
                                       "candidates",
                                       of_a, a.offer, of_b, b.offer, key));
  };
  const std::string &currency_a = a.inputs.price.currency, &currency_b = b.inputs.price.currency;
  if (currency_a != currency_b)
    return refused("price.currency " + currency_a, currency_b, "price.currency");
  if (a.inputs.years_of_total() != b.inputs.years_of_total())
    return refused("a total over " + years_text(a.inputs), "over " + years_text(b.inputs),
                   "size.years");
  return Done{};
}

// Makes days of delivery 0 for all jobs of an offer but the first: the others find the machine
// there.
void deliver_first_jobs(std::vector<SizeCase>* cases) {
  std::vector<std::string> delivered;
  for (SizeCase& c : *cases) {
    if (std::ranges::find(delivered, c.offer) != delivered.end()) {
      c.inputs.delivery_days = 0;
    } else {
      delivered.push_back(c.offer);
    }
  }
}

// Returns the offers, or the jobs, of which all cases are taken, each once; nothing: of one of them
// only a part is taken.
std::optional<std::vector<std::string>> whole_groups(const std::vector<SizeCase>& cases,
                                                     const std::vector<bool>& taken,
                                                     std::string SizeCase::*group) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    for (std::size_t j = 0; j < cases.size(); ++j) {
      if (cases[i].*group == cases[j].*group && taken[i] != taken[j]) return std::nullopt;
    }
    if (taken[i] && std::ranges::find(names, cases[i].*group) == names.end())
      names.push_back(cases[i].*group);
  }
  return names;
}

// Names those that take a default, if not all do: offers ("; of B200"), else jobs, else cases.
std::string takers_text(const std::vector<SizeCase>& cases, const std::vector<bool>& taken) {
  if (std::ranges::find(taken, false) == taken.end()) return "";
  auto names = whole_groups(cases, taken, &SizeCase::offer);
  if (!names) names = whole_groups(cases, taken, &SizeCase::job);
  if (!names) {
    names.emplace();
    for (std::size_t i = 0; i < cases.size(); ++i) {
      if (taken[i]) names->push_back(cases[i].job + " on " + cases[i].offer);
    }
  }
  return fmt::format("; of {}", fmt::join(*names, ", "));
}

}  // namespace

std::vector<Assumption> assumptions_of(const std::vector<SizeCase>& cases) {
  std::vector<Assumption> all;
  for (const auto& [key, help] : size_keys()) {
    std::vector<bool> taken;
    std::string value;
    for (const SizeCase& c : cases) {
      const auto one = std::ranges::find(c.assumptions, key, &Assumption::key);
      taken.push_back(one != c.assumptions.end());
      if (taken.back()) value = one->value;
    }
    if (!value.empty()) all.push_back({key, value + takers_text(cases, taken)});
  }
  return all;
}

std::vector<std::string> unused_keys_of(const std::vector<SizeCase>& cases) {
  std::vector<std::string> all;
  for (const SizeCase& c : cases) {
    for (const std::string& key : c.unused_keys) {
      if (std::ranges::find(all, key) == all.end()) all.push_back(key);
    }
  }
  return all;
}

Result<std::vector<SizeCase>> load_size_cases(
    const std::string& path, const std::vector<std::pair<std::string, Setting>>& sets,
    const std::string& only) {
  ASSIGN_OR_RETURN(const ScenarioFile file, read_scenario_file(path));
  return load_size_cases(file, sets, only);
}

Result<std::vector<SizeCase>> load_size_cases(
    const ScenarioFile& file, const std::vector<std::pair<std::string, Setting>>& sets,
    const std::string& only) {
  const std::string& path = file.path;
  RETURN_IF_ERROR(check_sets(sets));
  ASSIGN_OR_RETURN(std::vector<RunSettings> runs, runs_of(file, sets, only));
  std::vector<SizeCase> cases;
  for (RunSettings& run : runs) {
    std::vector<Assumption> assumptions;
    for (const auto& [key, value] : defaults_taken(run.settings))
      assumptions.push_back({key, value});
    Result<SizeInputs> taken = take_size_inputs(path, &run.settings);
    if (!taken.ok()) return of_run(taken.error(), file, run.name);
    SizeInputs& inputs = *taken;
    std::vector<std::string> unused = take_plan_keys(path, &run.settings);
    ASSIGN_OR_RETURN(Scenario scenario, make_scenario(file, run));
    if (scenario.costs.uniform)
      return Error::at(path, "found costs.source = uniform, expected a model");
    if (scenario.cluster.spec.cables)
      return Error::at(
          path,
          "found cluster.links_file, expected a cluster of any size: what its NICs and "
          "its fabric are");
    if (inputs.ramp_from >= scenario.job.plan.global_batch)
      return Error::at(
          path, fmt::format("found size.ramp_from = {:.0f}, expected less than the whole batch, "
                            "parallel.global_batch = {}",
                            inputs.ramp_from, scenario.job.plan.global_batch));
    inputs.failures.checkpoint_bytes = checkpoint_bytes(parameters(scenario.job.model));
    inputs.failures.host_link_bytes_per_s = scenario.cluster.spec.device.host_link_bytes_per_s;
    const std::vector<std::string>& points = run.points;
    const std::string job = points.size() > 1 ? points.front() : scenario.job.model_name;
    const std::string offer =
        points.size() > 1 ? fmt::format("{}", fmt::join(points.begin() + 1, points.end(), ", "))
                          : run.name;
    const SizeCase now{
        job, offer, std::move(scenario), inputs, std::move(assumptions), std::move(unused)};
    RETURN_IF_ERROR(check_energy(path, now));
    for (const SizeCase& before : cases) {
      RETURN_IF_ERROR(before.offer == offer ? check_one_machine(path, before, now)
                                            : check_comparable(path, before, now));
    }
    cases.push_back(now);
  }
  deliver_first_jobs(&cases);
  return cases;
}

std::vector<std::string> usual_space(const Scenario& scenario, bool any_numerics) {
  std::vector<std::string> among = {"schedule.order=none,1f1b,interleaved",
                                    "parallel.micro_batch=1,2,4",
                                    "parallel.scatter_gather=false",
                                    "parallel.tp=1,2,4,8,16",
                                    "parallel.vpp=1,2,3,4,5,6,7,8",
                                    "overlap.tensor=off,ring",
                                    "train.zero=0,1,3"};
  among.emplace_back(scenario.job.model.seq < kLongSequence ? "parallel.cp=1"
                                                            : "parallel.cp=1,2,4,8");
  if (!any_numerics) return among;
  const DeviceSpec& gpu = scenario.cluster.spec.device;
  const std::string stated = scenario.job.plan.precision;
  if (gpu.flops_per_s.contains("fp8")) {
    among.push_back("train.precision=bf16,fp8" +
                    (stated == "bf16" || stated == "fp8" ? "" : "," + stated));
    // Transformer Engine's recipes: mxfp8 if tensor cores have it (Blackwell), else scales that
    // software computes.
    among.emplace_back(gpu.flops_per_s.contains("mxfp8") ? "train.fp8_recipe=mxfp8"
                                                         : "train.fp8_recipe=current,blockwise");
  }
  // DeepEP runs on GPUs of NVIDIA from Hopper on, for which its copies are measured.
  if (scenario.job.model.is_moe() && gpu.deepep_sm_bytes_per_s > 0)
    among.emplace_back("parallel.dispatcher=alltoall,deepep");
  return among;
}

}  // namespace tandem
