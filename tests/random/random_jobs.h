// Random small jobs: every way to split a model over at most 32 GPUs, dense and with experts, on
// clusters of every shape. Most are valid; those that are not are for the caller to pass over.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/scenario.h"

namespace tandem {

// Keys of a scenario and their values, as TOML has them.
using JobKeys = std::map<std::string, std::string>;

JobKeys random_job(std::uint64_t seed);

// "parallel.tp = 2" lines: a scenario's file.
std::string text_of(const JobKeys& keys);

// Nothing where the rules refuse it.
std::optional<Scenario> scenario_of(const JobKeys& keys);

// How many random jobs a test draws: TANDEM_RANDOM_JOBS, or so many.
int random_jobs(int otherwise);

}  // namespace tandem
