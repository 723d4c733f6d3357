// Groups the rows of a cases file by job, then by machine, and divides the tokens/s/GPU of each two
// machines.
#include "validation/published/ratios.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

namespace tandem {
namespace {

// Sets the numbers of GPUs and of an iteration's sequences that the run's scenario has; where it
// has none, those that follow from the columns.
void set_sizes(Case* run) {
  if (const auto scenario = scenario_of(*run); scenario.ok()) {
    run->gpus = scenario->cluster.gpus;
    run->global_batch = scenario->job.plan.global_batch;
    return;
  }
  const auto size = [](int n) { return std::max(1, n); };
  if (run->gpus == 0) run->gpus = size(run->tp) * size(run->pp) * size(run->cp) * size(run->dp);
  if (run->global_batch == 0) run->global_batch = size(run->micro_batch) * size(run->dp);
}

std::string machine_of(const Case& run) {
  return run.gpu.empty() ? run.system : fmt::format("{} ({})", run.system, run.gpu);
}

// Returns a text that all rows of one job share: the model, the sequence and the precision.
std::string job_of(const Case& run) {
  std::string job =
      fmt::format("{} {} {} {} {} {} {} {} {}", run.model, run.layers, run.hidden, run.ffn_hidden,
                  run.heads, run.kv_heads, run.seq, run.vocab, run.precision);
  for (const auto& [key, setting] : run.sets) {
    if (key.starts_with("model.") || key == "train.fp8_recipe")
      job += fmt::format(";{}={}", key, setting.text());
  }
  return job;
}

std::string name_of(const Case& run) {
  const std::string& model = run.model.empty() ? run.family : run.model;
  return run.precision.empty() ? model : fmt::format("{}, {}", model, run.precision);
}

using RowGroup = std::vector<const CaseRow*>;

// Returns the rows in groups with one key_of(row), such as job_of(), in the order of the rows.
template <class KeyOf>
std::vector<RowGroup> grouped(const RowGroup& rows, const KeyOf& key_of) {
  std::vector<RowGroup> groups;
  std::map<std::string, std::size_t> places;
  for (const CaseRow* row : rows) {
    const auto [place, is_new] = places.try_emplace(key_of(row->run), groups.size());
    if (is_new) groups.emplace_back();
    groups[place->second].push_back(row);
  }
  return groups;
}

// Returns the two rows whose numbers of GPUs are nearest.
std::pair<const CaseRow*, const CaseRow*> nearest_rows(const RowGroup& from, const RowGroup& to) {
  std::pair<const CaseRow*, const CaseRow*> nearest{from.front(), to.front()};
  const auto apart = [](const CaseRow* a, const CaseRow* b) {
    return std::abs(std::log(static_cast<double>(a->run.gpus) / b->run.gpus));
  };
  for (const CaseRow* a : from) {
    for (const CaseRow* b : to) {
      if (apart(a, b) < apart(nearest.first, nearest.second)) nearest = {a, b};
    }
  }
  return nearest;
}

MachineRatio ratio_of(const CaseRow& from, const CaseRow& to) {
  const auto named = [](const Case& run) {
    return fmt::format("{}, {} GPUs", machine_of(run), run.gpus);
  };
  const auto rate = [](const Case& run, double seconds) {
    return static_cast<double>(run.global_batch) / seconds / run.gpus;
  };
  MachineRatio ratio{.place = to.run.place(),
                     .job = name_of(to.run),
                     .from = named(from.run),
                     .to = named(to.run)};
  ratio.measured = rate(to.run, to.run.measured_s) / rate(from.run, from.run.measured_s);
  for (const CaseRow* row : {&from, &to}) {
    if (!row->prediction) ratio.reason = fmt::format("{}: {}", row->run.place(), row->reason);
  }
  if (from.prediction && to.prediction)
    ratio.predicted =
        rate(to.run, to.prediction->predicted_s) / rate(from.run, from.prediction->predicted_s);
  return ratio;
}

}  // namespace

Result<std::vector<MachineRatio>> machine_ratios(const std::string& path, Engine engine, int jobs,
                                                 const Sets& sets) {
  ASSIGN_OR_RETURN(const std::vector<Case> cases, read_cases(path));
  ASSIGN_OR_RETURN(std::vector<CaseRow> rows, predict(cases, engine, jobs, sets));
  for (CaseRow& row : rows) set_sizes(&row.run);
  std::vector<MachineRatio> ratios;
  RowGroup all;
  for (const CaseRow& row : rows) all.push_back(&row);
  for (const RowGroup& job : grouped(all, job_of)) {
    const std::vector<RowGroup> machines = grouped(job, machine_of);
    for (std::size_t to = 1; to < machines.size(); ++to) {
      for (std::size_t from = 0; from < to; ++from) {
        const auto [a, b] = nearest_rows(machines[from], machines[to]);
        ratios.push_back(ratio_of(*a, *b));
      }
    }
  }
  if (ratios.empty())
    return Error::at(path + ":1",
                     "found no two rows of one model, sequence and precision on two machines "
                     "(system, gpu), expected some");
  return ratios;
}

RatioErrors ratio_errors(const std::vector<MachineRatio>& ratios) {
  RatioErrors errors;
  for (const MachineRatio& ratio : ratios) {
    if (!ratio.predicted) continue;
    ++errors.n;
    errors.same_order += ratio.same_order() ? 1 : 0;
    errors.mean_absolute += std::abs(ratio.error());
    errors.bias += ratio.error();
  }
  if (errors.n > 0) {
    errors.mean_absolute /= errors.n;
    errors.bias /= errors.n;
  }
  return errors;
}

nlohmann::ordered_json ratios_json(const std::vector<MachineRatio>& ratios) {
  const auto optional = [](const std::optional<double>& value) {
    return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
  };
  nlohmann::ordered_json json = {{"ratios", nlohmann::ordered_json::array()}};
  for (const MachineRatio& ratio : ratios) {
    nlohmann::ordered_json& one = json["ratios"].emplace_back(
        nlohmann::ordered_json{{"place", ratio.place},
                               {"job", ratio.job},
                               {"from", ratio.from},
                               {"to", ratio.to},
                               {"measured_ratio", ratio.measured},
                               {"predicted_ratio", optional(ratio.predicted)}});
    if (!ratio.reason.empty()) one["reason"] = ratio.reason;
  }
  const RatioErrors errors = ratio_errors(ratios);
  const auto mean = [&](double value) {
    return optional(errors.n > 0 ? std::optional(value) : std::nullopt);
  };
  json["overall"] = {{"n", errors.n},
                     {"mean_absolute_error", mean(errors.mean_absolute)},
                     {"bias", mean(errors.bias)},
                     {"same_order", errors.same_order}};
  return json;
}

}  // namespace tandem
