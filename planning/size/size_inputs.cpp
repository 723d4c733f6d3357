// The table of keys below [size], [price] and [failures]: help, range, and the member that it sets.
// take_size_inputs() takes them out of a run's settings and checks them.
#include "planning/size/size_inputs.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <optional>

#include "base/csv.h"
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

// Returns the offer's network prices, which it creates if there are none.
NetworkPrices* network_of(SizeInputs* inputs) {
  if (!inputs->price.network) inputs->price.network.emplace();
  return &*inputs->price.network;
}

// A function that sets `member`, converting from the key's unit.
#define SET(member, unit) [](SizeInputs* s, double value) { s->member = value * (unit); }

const std::vector<SizeKey>& number_keys() {
  static const std::vector<SizeKey> kKeys = {
      {"size.tokens_T", "number: trillions (1e12) of tokens to train on", 1e-6, 1e4,
       SET(tokens, trillion)},
      {"size.days", "number: days that the training may take, of the first job from the order on",
       1e-3, 1e5, SET(days, 1)},
      {"size.certainty",
       "number: probability with which size.days and size.budget are kept; default 0.95", 0.5, 0.99,
       SET(certainty, 1)},
      {"size.purchase_budget", "number: most that all bought nodes may cost, spares too", 0, 1e15,
       SET(purchase_budget, 1)},
      {"size.rent_per_month",
       "number: most that all rented nodes may cost a month with energy, spares too", 0, 1e15,
       SET(rent_per_month, 1)},
      {"size.power_MW", "number: most MW that the site may draw", 0, 1e5, SET(power_MW, 1)},
      {"size.gpus_max", "integer: most GPUs that may be bought or rented, spares too", 1, 1e6,
       SET(gpus_max, 1)},
      {"size.budget",
       "number: most that the training may cost: rent, or its share of price.years of what is "
       "bought, and energy; default no limit",
       0, 1e15, SET(budget, 1)},
      {"size.years",
       "number: years that the total cost counts, the same for all candidates; default price.years "
       "of what is bought, and the trainings' own time of what is rented",
       0.01, 100, SET(years, 1)},
      {"size.weight", "number: how often this job is trained on the machine; default 1", 0.001, 1e6,
       SET(weight, 1)},
      {"size.batch_tolerance",
       "number: share by which the batch may differ from parallel.global_batch where GPUs do not "
       "divide it; default 0.1",
       0, 0.9, SET(batch_tolerance, 1)},
      {"size.ramp_from",
       "integer: sequences of the first iterations' batch, doubled up to "
       "parallel.global_batch; default none",
       1, 1e9, SET(ramp_from, 1)},
      {"size.ramp_tokens_T", "number: trillions of tokens until the whole batch; default 0", 0, 1e4,
       SET(ramp_tokens, trillion)},
      {"size.delivery_days", "number: days from the order to the first job; default 0", 0, 1e4,
       SET(delivery_days, 1)},
      {"size.seed", "integer: of the draws; default 1", 0, 1e9, SET(seed, 1)},
      {"price.node_hour", "number: price of a node for an hour, all but energy", 0, 1e9,
       SET(price.node_hour, 1)},
      {"price.node", "number: or price of a node with its share of network and building", 0, 1e12,
       SET(price.node, 1)},
      {"price.node_without_network",
       "number: or price of a node alone; price.switch and price.optic then say what joins them", 0,
       1e12,
       [](SizeInputs* s, double value) {
         s->price.node = value;
         network_of(s);  // the network has prices of its own
       }},
      {"price.switch", "number: price of a switch", 0, 1e12,
       [](SizeInputs* s, double value) { network_of(s)->node_switch = value; }},
      {"price.optic", "number: price of a transceiver's port, of which a cable has one at each end",
       0, 1e12, [](SizeInputs* s, double value) { network_of(s)->optic = value; }},
      {"price.cable", "number: price of a cable; default 0", 0, 1e12,
       [](SizeInputs* s, double value) { network_of(s)->cable = value; }},
      {"price.years", "number: years that it is used for, and bought again after; default 4", 0.01,
       100, SET(price.years, 1)},
      {"price.node_kW", "number: most kW that a node draws, as its data sheet says", 0, 1e4,
       SET(price.node_kW, 1)},
      {"price.load",
       "number: mean power in training over price.node_kW; default 0.76, measured on nodes of 8 "
       "H100 of 10.2 kW (Newkirk et al. 2025, arXiv 2506.14551)",
       0, 1, SET(price.load, 1)},
      {"price.pue", "number: the site's power over the nodes'; default 1.2*", 1, 10,
       SET(price.pue, 1)},
      {"price.kWh", "number: price of a kWh; default 0: in the node's price", 0, 1e6,
       SET(price.kWh, 1)},
      {"price.gCO2_kWh", "number: grams of CO2 a kWh; default 0: not counted", 0, 1e5,
       SET(price.gCO2_kWh, 1)},
      {"failures.gpu_mtbf_hours",
       "number: hours of a GPU between failures that stop the job; "
       "default 50700 (Llama 3)",
       1, 1e12, SET(failures.gpu_mtbf_h, 1)},
      {"failures.checkpoint_s",
       "number: seconds that training stands still for a checkpoint, or as long as its copy to the "
       "hosts takes; default 5 (MegaScale, NSDI 2024)",
       0, 1e6, SET(failures.checkpoint_s, 1)},
      {"failures.storage_GBps",
       "number: GB/s at which storage takes checkpoints of 14 bytes a parameter; default 0.0124 a "
       "GPU (ByteCheckpoint, NSDI 2025)",
       0, 1e9, SET(failures.storage_bytes_per_s, GB)},
      {"failures.restart_s", "number: seconds from a failure to the next iteration; default 600", 0,
       1e7, SET(failures.restart_s, 1)},
      {"failures.repair_hours", "number: hours until what failed is back; default 24*", 0, 1e6,
       SET(failures.repair_h, 1)},
      {"failures.repair_gpus",
       "integer: GPUs that a repair takes out of work, if a node has as many idle ones; default a "
       "node, of a rack of more than 16 a tray of 4",
       1, 1e6, SET(failures.repair_gpus, 1)},
      {"failures.spare_nodes",
       "integer: nodes that stand by, and are paid; default as many as "
       "keep the job running 99 % of the time",
       0, 1e6, SET(spare_nodes, 1)},
  };
  return kKeys;
}
#undef SET

// A key whose value is a range, as "0.9 to 1.1".
struct RangeKey {
  const char* key;
  const char* help;
  std::pair<double, double> SizeInputs::*range;
};
constexpr RangeKey kRangeKeys[] = {
    {"size.range_price", "text: factors of the prices of nodes and network; default 0.9 to 1.1*",
     &SizeInputs::range_price},
    {"size.range_kWh", "text: factors of price.kWh; default 0.5 to 2*", &SizeInputs::range_kWh},
    {"size.range_tokens", "text: factors of size.tokens_T; default 0.9 to 1.1*",
     &SizeInputs::range_tokens},
    {"size.range_MFU", "text: factors of the MFU; default 0.9 to 1.1*", &SizeInputs::range_MFU},
    {"size.range_network", "text: factors of the NICs' bandwidth; default 0.9 to 1.1*",
     &SizeInputs::range_network},
    {"size.range_failures",
     "text: factors of the rate of failures, and of each of their times; default 0.5 to 2*",
     &SizeInputs::range_failures},
    {"size.range_delivery", "text: factors of size.delivery_days; default 0.5 to 2*",
     &SizeInputs::range_delivery}};

Status set_range(const std::string& key, const Setting& setting, std::pair<double, double>* range) {
  const std::vector<std::string> words = setting.texts();
  const std::string text = words.size() == 1 ? words.front() : "";
  constexpr std::string_view kTo = " to ";
  const auto to = text.find(kTo);
  const auto low = parse_number(text.substr(0, to));
  const auto high = parse_number(to == text.npos ? "" : text.substr(to + kTo.size()));
  if (!low.ok() || !high.ok() || !(*low > 0 && *low <= 1 && *high >= 1 && *high <= 1000))
    return setting.error(key, "two factors around 1, as \"0.9 to 1.1\"");
  *range = {*low, *high};
  return Done{};
}

constexpr const char* kGpus = "size.gpus";
constexpr const char* kGpusHelp =
    "list of integers: GPUs to try; default the numbers that answer the question";
constexpr const char* kCurrency = "price.currency";
constexpr const char* kCurrencyHelp = "text: what prices are in; default $";
constexpr const char* kNumerics = "size.numerics";
constexpr const char* kNumericsHelp =
    "text: any (precision bf16 or fp8, with the recipes of the GPU, and the experts' dispatcher "
    "are searched) or as stated; default any";

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
  if (key == kNumerics) {
    const std::vector<std::string> words = setting.texts();
    if (words.size() != 1 || (words[0] != "any" && words[0] != "as stated"))
      return setting.error(key, "any or as stated");
    inputs->any_numerics = words[0] == "any";
    return Done{};
  }
  if (key == kCurrency) {
    const std::vector<std::string> words = setting.texts();
    if (words.size() != 1 || words[0].empty()) return setting.error(key, "a text, as EUR");
    inputs->price.currency = words[0];
    return Done{};
  }
  for (const RangeKey& known : kRangeKeys) {
    if (key == known.key) return set_range(key, setting, &(inputs->*known.range));
  }
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

Error missing(const std::string& path, const char* what) {
  return Error::at(path, fmt::format("found no {}; tandem size needs it", what));
}

// The keys of prices that a file states.
struct StatedPrices {
  bool node, bare_node, node_switch, optic, cable;
};

Status check_prices(const std::string& path, const StatedPrices& stated, const OfferPrice& price) {
  if (price.node_hour == 0 && price.node == 0)
    return missing(path, "price.node_hour or price.node");
  if (stated.node && (stated.bare_node || stated.node_switch || stated.optic || stated.cable))
    return Error::at(path,
                     "found price.node beside prices of a network, expected "
                     "price.node_without_network: price.node includes the network");
  if (stated.bare_node && !(stated.node_switch && stated.optic))
    return missing(path, "price.switch and price.optic beside price.node_without_network");
  if (price.network && !stated.bare_node)
    return missing(path, "price.node_without_network beside prices of a network");
  if (price.node_hour > 0 && price.node > 0)
    return Error::at(
        path, "found price.node_hour and price.node, expected one of them: rented, or bought");
  return Done{};
}

Status check_limits(const std::string& path, const SizeInputs& inputs) {
  const OfferPrice& price = inputs.price;
  const bool is_limited = inputs.purchase_budget > 0 || inputs.rent_per_month > 0 ||
                          inputs.power_MW > 0 || inputs.gpus_max > 0;
  // Listed GPUs are compared as they are. To find GPUs, or to keep a budget, takes another limit.
  const bool needs_limit = inputs.gpus.empty() || inputs.budget > 0;
  if (needs_limit && inputs.days == 0 && !is_limited)
    return missing(path, "size.days, or another limit of [size]");
  if (inputs.purchase_budget > 0 && !price.bought())
    return missing(path, "price.node: size.purchase_budget is for what is bought");
  if (inputs.rent_per_month > 0 && price.bought())
    return missing(path, "price.node_hour: size.rent_per_month is for what is rented");
  if (inputs.power_MW > 0 && price.node_kW == 0)
    return missing(path, "price.node_kW for size.power_MW");
  if ((inputs.ramp_from > 0) != (inputs.ramp_tokens > 0))
    return Error::at(path, "found one of size.ramp_from and size.ramp_tokens_T, expected both");
  if (inputs.ramp_tokens > inputs.tokens)
    return Error::at(
        path, fmt::format("found size.ramp_tokens_T = {:g}, expected at most size.tokens_T = {:g}",
                          inputs.ramp_tokens / trillion, inputs.tokens / trillion));
  return Done{};
}

}  // namespace

Result<SizeInputs> take_size_inputs(const std::string& path, Settings* settings) {
  SizeInputs inputs;
  const auto has = [&](const char* key) { return settings->contains(key); };
  const StatedPrices stated = {.node = has("price.node"),
                               .bare_node = has("price.node_without_network"),
                               .node_switch = has("price.switch"),
                               .optic = has("price.optic"),
                               .cable = has("price.cable")};
  for (auto it = settings->begin(); it != settings->end();) {
    if (!is_size_key(it->first)) {
      ++it;
      continue;
    }
    RETURN_IF_ERROR(set_key(it->first, it->second, &inputs));
    it = settings->erase(it);
  }
  if (inputs.tokens == 0) return missing(path, "size.tokens_T");
  RETURN_IF_ERROR(check_prices(path, stated, inputs.price));
  RETURN_IF_ERROR(check_limits(path, inputs));
  return inputs;
}

std::vector<std::pair<std::string, std::string>> defaults_taken(const Settings& settings) {
  std::vector<std::pair<std::string, std::string>> taken;
  // The help states a default behind this text. A default that begins with "no" is no value.
  constexpr std::string_view kDefault = "; default ";
  for (const SizeKey& known : number_keys()) {
    const std::string_view help = known.help;
    const auto at = help.find(kDefault);
    const std::string_view value = at == help.npos ? "" : help.substr(at + kDefault.size());
    if (value.empty() || value.starts_with("no") || settings.contains(known.key)) continue;
    taken.emplace_back(known.key, value);
  }
  return taken;
}

std::vector<std::pair<std::string, std::string>> size_keys() {
  std::vector<std::pair<std::string, std::string>> keys = {
      {kGpus, kGpusHelp}, {kCurrency, kCurrencyHelp}, {kNumerics, kNumericsHelp}};
  for (const SizeKey& key : number_keys()) keys.emplace_back(key.key, key.help);
  for (const RangeKey& key : kRangeKeys) keys.emplace_back(key.key, key.help);
  return keys;
}

}  // namespace tandem
