// Makes the JSON that the page of `tandem size` draws: a price for each machine, its jobs and its
// network, the text of the answers, and the tornado chart's bars.
#include "report/page/purchase_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "planning/size/answer_text.h"
#include "report/text/size_table.h"
#include "report/text/table.h"

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;

std::vector<std::string> lines_in(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    if (!line.empty()) lines.push_back(line);
  }
  return lines;
}

// Returns what the run of the machine's first job states. `of` is that run's index.
const SizeInputs& asked_of(const SizeResult& result, const Machine& machine) {
  return result.asked[result.sized[machine.jobs.front()].of];
}

// The price of machines that the picture shows.
struct ShownPrice {
  const char* priced;
  double (*price_of)(const Machine&);
  Json limit;  // of that price; null: none is stated
};

Json limit_json(double most, const char* as) {
  return most > 0 ? Json({{"most", most}, {"as", as}}) : Json();
}

// Says whether the machine's total is the cost of one training, which is what size.budget limits:
// its GPUs are rented for one job that is done once.
bool is_one_training(const SizeResult& result, const Machine& machine) {
  const SizeInputs& inputs = asked_of(result, machine);
  const bool is_rented_for_its_time = !inputs.price.bought() && inputs.years == 0;
  const bool is_done_once = machine.jobs.size() == 1 && inputs.weight == 1;
  return is_rented_for_its_time && is_done_once;
}

// Returns the purchase price if all machines are bought; the rent a month if that is limited and
// none is bought; else the total.
ShownPrice shown_price(const SizeResult& result) {
  const SizeInputs& asked = result.asked.front();
  const auto is_bought = [&](const Machine& m) { return asked_of(result, m).price.bought(); };
  if (std::ranges::all_of(result.machines, is_bought))
    return {"to buy", [](const Machine& machine) { return machine.costs.purchase; },
            limit_json(asked.purchase_budget, "purchase budget")};
  if (asked.rent_per_month > 0 && std::ranges::none_of(result.machines, is_bought))
    return {"a month", [](const Machine& machine) { return machine.costs.monthly; },
            limit_json(asked.rent_per_month, "rent limit")};
  const bool is_of_training = std::ranges::all_of(
      result.machines, [&](const Machine& machine) { return is_one_training(result, machine); });
  return {"in total", [](const Machine& machine) { return machine.total; },
          is_of_training ? limit_json(asked.budget, "budget") : Json()};
}

Json jobs_json(const SizeResult& result) {
  Json jobs = Json::array();
  if (result.machines.empty()) return jobs;
  for (const std::size_t place : result.machines.front().jobs) {
    const SizedJob& job = result.sized[place];
    const double days = result.asked[job.of].days;
    jobs.push_back({{"name", job.job}, {"days", days > 0 ? Json(days) : Json()}});
  }
  return jobs;
}

Json plan_json(const SizedJob& job, std::size_t index) {
  Json json = {{"job", index}, {"gpus", job.gpus}, {"out", job.reason}};
  if (!job.result) return json;
  json["days_p50"] = job.economics.days_p50();
  json["days_late"] = job.economics.days_late();
  json["guess"] = is_guess(job.result->calibrated);
  json["plan"] = plan_text(job.plan->candidate);
  json["batch"] = job.batch();
  json["oversubscribed"] = {job.oversubscribed_2, job.oversubscribed_4};
  return json;
}

Json network_json(const Machine& machine) {
  if (!machine.network) return nullptr;
  const NetworkBill& bill = *machine.network;
  return {{"switch", bill.model.name},     {"source", bill.model.source}, {"tiers", bill.tiers},
          {"switches", bill.switches()},   {"cables", bill.cables()},     {"optics", bill.optics()},
          {"price", machine.network_price}};
}

Json machine_json(const SizeResult& result, const Machine& machine, const ShownPrice& prices) {
  Json jobs = Json::array();
  for (std::size_t job = 0; job < machine.jobs.size(); ++job)
    jobs.push_back(plan_json(result.sized[machine.jobs[job]], job));
  return {{"candidate", machine.offer},
          {"nodes", machine.nodes},
          {"spare_nodes", machine.spares},
          {"gpus", machine.gpus},
          {"price", prices.price_of(machine)},
          {"node_price", asked_of(result, machine).price.node},
          {"purchase", machine.costs.purchase},
          {"monthly", machine.costs.monthly},
          {"total", machine.total},
          {"peak_MW", machine.costs.peak_MW},
          {"days_late", machine.days_late},
          {"out", machine.reason},
          {"recommended", machine.recommended},
          {"network", network_json(machine)},
          {"jobs", std::move(jobs)}};
}

}  // namespace

Json purchase_json(const SizeResult& result) {
  const SizeInputs& asked = result.asked.front();
  const ShownPrice prices = shown_price(result);
  Json machines = Json::array();
  for (const Machine& machine : result.machines)
    machines.push_back(machine_json(result, machine, prices));
  const Json whole = to_json(result);
  return {{"late", late_word(asked.certainty)},
          {"currency", asked.price.currency},
          {"answers", lines_in(size_answers(result))},
          {"warnings", lines_in(size_warnings(result))},
          {"notes", lines_in(size_notes(result))},
          {"priced", prices.priced},
          {"limit", prices.limit},
          {"delivery_days", asked.delivery_days},
          {"jobs", jobs_json(result)},
          {"machines", std::move(machines)},
          {"tornado", whole.at("tornado")},
          {"tiers", whole.at("tiers")},
          {"assumptions", whole.at("assumptions")},
          {"seed", result.seed}};
}

}  // namespace tandem
