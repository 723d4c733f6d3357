// The table of keys below [size], [price] and [failures]: help, range, and where the value goes.
// take_size_inputs() takes them out of a run's settings and checks them.
#include "planning/size/size_inputs.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <optional>

#include "base/nearest.h"
#include "base/units.h"

namespace tandem {
namespace {

struct SizeKey {
  const char* key;
  const char* help;  // begins with "integer" if the value must be whole
  double least, most;
  std::function<void(SizeInputs*, double)> set;
};

// A setter that converts from the key's unit to that of `member`.
#define TO(member, unit) [](SizeInputs* s, double value) { s->member = value * (unit); }

const std::vector<SizeKey>& number_keys() {
  static const std::vector<SizeKey> kKeys = {
      {"size.tokens_T", "number: trillions (1e12) of tokens to train on", 1e-6, 1e4,
       TO(tokens, trillion)},
      {"size.days", "number: days that the training may take, p95", 1e-3, 1e5, TO(days, 1)},
      {"size.budget", "number: most that it may cost, p95; default no limit", 0, 1e15,
       TO(budget, 1)},
      {"size.ramp_from",
       "integer: sequences of the first iterations' batch, doubled up to "
       "parallel.global_batch; default none",
       1, 1e9, TO(ramp_from, 1)},
      {"size.ramp_tokens_T", "number: trillions of tokens until the whole batch; default 0", 0, 1e4,
       TO(ramp_tokens, trillion)},
      {"size.seed", "integer: of the draws; default 1", 0, 1e9, TO(seed, 1)},
      {"price.node_hour", "number: price of a node for an hour, all but energy", 0, 1e9,
       TO(node_hour, 1)},
      {"price.node", "number: or price of a node with its share of network and building", 0, 1e12,
       TO(node, 1)},
      {"price.years", "number: years that it is used for; default 4", 0.01, 100, TO(years, 1)},
      {"price.node_kW", "number: kW that a node draws under load", 0, 1e4, TO(node_kW, 1)},
      {"price.pue", "number: the site's power over the nodes'; default 1.2", 1, 10, TO(pue, 1)},
      {"price.kWh", "number: price of a kWh; default 0: in the node's price", 0, 1e6, TO(kWh, 1)},
      {"failures.gpu_mtbf_hours",
       "number: hours of a GPU between failures that stop the job; "
       "default 50700 (Llama 3)",
       1, 1e12, TO(failures.gpu_mtbf_h, 1)},
      {"failures.checkpoint_s", "number: seconds that a checkpoint stops training; default 30", 0,
       1e6, TO(failures.checkpoint_s, 1)},
      {"failures.restart_s", "number: seconds from a failure to the next iteration; default 600", 0,
       1e7, TO(failures.restart_s, 1)},
      {"failures.repair_hours", "number: hours until a failed node is back; default 24", 0, 1e6,
       TO(failures.repair_h, 1)},
      {"failures.spare_nodes",
       "integer: nodes that stand by, and are paid; default as many as "
       "keep the job running 99 % of the time",
       0, 1e6, TO(spare_nodes, 1)},
  };
  return kKeys;
}
#undef TO

constexpr const char* kGpus = "size.gpus";
constexpr const char* kGpusHelp = "list of integers: GPUs to try";

bool is_size_key(const std::string& key) {
  return key.starts_with("size.") || key.starts_with("price.") || key.starts_with("failures.");
}

std::optional<double> number_of(const Setting& setting) {
  if (const auto* integer = std::get_if<std::int64_t>(&setting.value))
    return static_cast<double>(*integer);
  if (const auto* real = std::get_if<double>(&setting.value)) return *real;
  return std::nullopt;
}

Status set_gpus(const Setting& setting, SizeInputs* inputs) {
  std::vector<std::int64_t> list;
  if (const auto* one = std::get_if<std::int64_t>(&setting.value)) list = {*one};
  if (const auto* many = std::get_if<std::vector<std::int64_t>>(&setting.value)) list = *many;
  if (list.empty()) return setting.error(kGpus, "a list of integers");
  for (const std::int64_t gpus : list) {
    if (gpus < 1 || gpus > 1'000'000) return setting.error(kGpus, "integers from 1 to 1000000");
    inputs->gpus.push_back(static_cast<int>(gpus));
  }
  return Done{};
}

Status set_key(const std::string& key, const Setting& setting, SizeInputs* inputs) {
  if (key == kGpus) return set_gpus(setting, inputs);
  for (const SizeKey& known : number_keys()) {
    if (key != known.key) continue;
    const std::optional<double> value = number_of(setting);
    const bool whole = std::string_view(known.help).starts_with("integer");
    if (!value || !(*value >= known.least && *value <= known.most) ||
        (whole && *value != std::floor(*value)))
      return setting.error(key, fmt::format("{} from {} to {}", whole ? "an integer" : "a number",
                                            known.least, known.most));
    known.set(inputs, *value);
    return Done{};
  }
  std::vector<std::string> names;
  for (const auto& [name, help] : size_keys()) names.push_back(name);
  return Error{fmt::format("found unknown key '{}', expected a known one; nearest is '{}'", key,
                           nearest(key, names)),
               Error::BadInput,
               {.keys = {key}, .source = setting.where}};
}

}  // namespace

Result<SizeInputs> take_size_inputs(const std::string& path, Settings* settings) {
  SizeInputs inputs;
  for (auto it = settings->begin(); it != settings->end();) {
    if (!is_size_key(it->first)) {
      ++it;
      continue;
    }
    RETURN_IF_ERROR(set_key(it->first, it->second, &inputs));
    it = settings->erase(it);
  }
  const auto missing = [&](const char* what) {
    return Error::at(path, fmt::format("found no {}, expected one: tandem size needs it", what));
  };
  if (inputs.tokens == 0) return missing("size.tokens_T");
  if (inputs.days == 0) return missing("size.days");
  if (inputs.gpus.empty()) return missing(kGpus);
  if (inputs.node_hour == 0 && inputs.node == 0) return missing("price.node_hour or price.node");
  if (inputs.node_hour > 0 && inputs.node > 0)
    return Error::at(
        path, "found price.node_hour and price.node, expected one of them: rented, or bought");
  if ((inputs.ramp_from > 0) != (inputs.ramp_tokens > 0))
    return Error::at(path, "found one of size.ramp_from and size.ramp_tokens_T, expected both");
  if (inputs.ramp_tokens > inputs.tokens)
    return Error::at(
        path, fmt::format("found size.ramp_tokens_T = {:g}, expected at most size.tokens_T = {:g}",
                          inputs.ramp_tokens / trillion, inputs.tokens / trillion));
  return inputs;
}

std::vector<std::pair<std::string, std::string>> size_keys() {
  std::vector<std::pair<std::string, std::string>> keys = {{kGpus, kGpusHelp}};
  for (const SizeKey& key : number_keys()) keys.emplace_back(key.key, key.help);
  return keys;
}

}  // namespace tandem
