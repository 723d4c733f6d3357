// LogArguments: tells whether the settings that a log's arguments state are those of a scenario's
// job.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/key_value.h"
#include "base/result.h"
#include "interop/log/run_meter.h"
#include "scenarios/scenario.h"

namespace tandem {

// A job's values by the scenario's keys, such as "train.zero".
struct JobValues {
  // The values that the scenario sets, and sizes and choices that count though no key sets them.
  std::map<std::string, KeyValue> values;
  // Megatron-LM's defaults: a block that states all arguments means them where it lacks a key.
  std::map<std::string, KeyValue> usual;
};

// REQUIRES: the scenario has a model.
JobValues job_values(const Scenario& scenario);

// Compares the arguments of a log's run with the job. Returns a sentence if they cannot be read, or
// if DeepSpeed names another stage of ZeRO; empty: they agree, or the run has none. Error: a value
// that is not the job's, with its line.
Result<std::string> compare_arguments(const std::string& path, std::string_view text,
                                      const LogRun& run, const JobValues& job);

}  // namespace tandem
