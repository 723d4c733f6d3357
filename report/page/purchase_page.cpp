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

// The price of machines in the picture: the purchase price if all are bought; the rent a month if
// that is limited; else the total.
struct ShownPrice {
  const char* priced = "in total";
  double (*price_of)(const Machine&) = [](const Machine& machine) { return machine.total; };
  Json limit = nullptr;  // of that price; null: none is stated
};

Json limit_json(double most, const char* as) {
  return most > 0 ? Json({{"most", most}, {"as", as}}) : Json();
}

ShownPrice shown_price(const SizeResult& result) {
  const auto all = [&](auto holds) { return std::ranges::all_of(result.machines, holds); };
  const SizeInputs& asked = result.asked.front();
  const auto is_bought = [&](const Machine& m) { return asked_of(result, m).price.bought(); };
  if (all(is_bought))
    return {"to buy", [](const Machine& machine) { return machine.costs.purchase; },
            limit_json(asked.purchase_budget, "purchase budget")};
  if (asked.rent_per_month > 0 && std::ranges::none_of(result.machines, is_bought))
    return {"a month", [](const Machine& machine) { return machine.costs.monthly; },
            limit_json(asked.rent_per_month, "rent limit")};
  // size.budget limits the cost of one training, which the total is if a machine has one rented job
  // that is done once.
  const bool is_of_training = all([&](const Machine& m) {
    const SizeInputs& inputs = asked_of(result, m);
    return m.jobs.size() == 1 && inputs.weight == 1 && inputs.years == 0 && !inputs.price.bought();
  });
  ShownPrice total;
  if (is_of_training) total.limit = limit_json(asked.budget, "budget");
  return total;
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
