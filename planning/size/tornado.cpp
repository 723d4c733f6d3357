// Computes the machines again with each input at both ends of its range, without a search or a run.
#include "planning/size/tornado.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <tuple>
#include <utility>

#include "planning/size/machines.h"

namespace tandem {
namespace {

// An input that is changed by a factor.
struct TornadoInput {
  const char* name;
  std::pair<double, double> SizeInputs::*range;  // null: the cost model's own interval
  void (*apply)(SizeInputs*, double factor);     // for the kinds that change SizeInputs
  enum {
    Inputs,      // changes SizeInputs of all offers
    OfBest,      // changes SizeInputs of the recommended machine's offer
    Iterations,  // divides the iterations' times
    Nics,        // changes the iterations' times as other NICs do
    Interval     // moves the iterations' times within the cost model's interval
  } kind = Inputs;
};

void scale_price(SizeInputs* s, double factor) {
  s->price.node *= factor;
  s->price.node_hour *= factor;
}

void scale_network_price(SizeInputs* s, double factor) {
  if (!s->price.network) return;
  NetworkPrices& network = *s->price.network;
  network = {network.node_switch * factor, network.optic * factor, network.cable * factor};
}

constexpr auto kNothing = [](SizeInputs*, double) {};

const TornadoInput kTornadoInputs[] = {
    {"price of the recommended nodes", &SizeInputs::range_price, scale_price, TornadoInput::OfBest},
    {"price of the network", &SizeInputs::range_price, scale_network_price},
    {"price of a kWh", &SizeInputs::range_kWh, [](SizeInputs* s, double f) { s->price.kWh *= f; }},
    {"tokens", &SizeInputs::range_tokens, [](SizeInputs* s, double f) { s->tokens *= f; }},
    {"MFU", &SizeInputs::range_MFU, kNothing, TornadoInput::Iterations},
    {"the model's time, p5 to p95", nullptr, kNothing, TornadoInput::Interval},
    {"bandwidth of NICs", &SizeInputs::range_network, kNothing, TornadoInput::Nics},
    {"failures", &SizeInputs::range_failures,
     [](SizeInputs* s, double f) { s->failures.gpu_mtbf_h /= f; }},
    {"time of a checkpoint", &SizeInputs::range_failures,
     [](SizeInputs* s, double f) { s->failures.checkpoint_s *= f; }},
    {"time of a restart", &SizeInputs::range_failures,
     [](SizeInputs* s, double f) { s->failures.restart_s *= f; }},
    {"time of a repair", &SizeInputs::range_failures,
     [](SizeInputs* s, double f) { s->failures.repair_h *= f; }},
    {"delivery", &SizeInputs::range_delivery,
     [](SizeInputs* s, double f) { s->delivery_days *= f; }}};

// Returns how many times as long the job's iterations take if NICs have `factor` times the
// bandwidth. Times with 0.9 and 1.1 of it were simulated; others are on the lines through these
// and 1.
double with_nics(const SizedJob& job, double factor) {
  constexpr double kPlayed = 0.1;
  const double share = (factor - 1) / kPlayed;
  return share < 0 ? 1 - share * (job.slower_nics - 1) : 1 + share * (job.faster_nics - 1);
}

// The machines with an input changed, and the one that is then recommended.
struct Remade {
  std::vector<Machine> machines;
  std::optional<std::size_t> chosen;
};

// Returns the machines with the input changed by `factor`. For Interval, factor 0 is the low end, 1
// the prediction, 2 the high end. REQUIRES: a machine is recommended.
Remade remade(const std::vector<SizeCase>& cases, const SizeResult& result,
              const TornadoInput& input, double factor) {
  std::vector<SizeCase> changed = cases;
  const std::string& best = result.machines[*result.recommended()].offer;
  for (SizeCase& c : changed) {
    if (input.kind != TornadoInput::OfBest || c.offer == best) input.apply(&c.inputs, factor);
  }
  std::vector<SizedJob> sized = result.sized;
  for (SizedJob& job : sized) {
    if (!job.result) continue;
    double times = 1;
    if (input.kind == TornadoInput::Iterations) times = 1 / factor;
    if (input.kind == TornadoInput::Nics) times = with_nics(job, factor);
    if (input.kind == TornadoInput::Interval && job.result->interval_s) {
      const auto [low, high] = *job.result->interval_s;
      const double predicted = job.result->iteration_s;
      times = factor < 1 ? 1 + (1 - factor) * (low / predicted - 1)
                         : 1 + (factor - 1) * (high / predicted - 1);
      job.result->interval_s.reset();  // this factor stands for the whole of its error
    }
    job.economics = economics_of(changed[job.of], job, times);
    make_endless_if_failing(changed[job.of].inputs, &job.economics);
  }
  Remade now;
  for (const Machine& machine : result.machines)
    now.machines.push_back(machine_of({changed, sized}, machine.jobs));
  now.chosen = answering(SizeAnswer::Cheapest, now.machines, {changed, sized});
  return now;
}

// Returns the chosen machine by its GPUs that work, by which jobs are named as well.
std::string chosen_text(const SizeResult& result, const Remade& now) {
  if (!now.chosen) return "";
  const Machine& machine = now.machines[*now.chosen];
  int gpus = 0;
  for (const std::size_t job : machine.jobs) gpus = std::max(gpus, result.sized[job].gpus);
  return fmt::format("{}, {} GPUs that work", machine.offer, gpus);
}

// Finds, by bisection, the factor between 1 and `end` from which another machine is recommended.
// Sets it in the bar if it is nearer to 1 than the bar's.
void find_flip(const SizeResult& result, const std::function<Remade(double)>& at,
               std::size_t chosen, double end, TornadoBar* bar) {
  if (at(end).chosen == chosen) return;
  constexpr int kHalvings = 12;
  double same = 1, other = end;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (same + other) / 2;
    (at(middle).chosen == chosen ? same : other) = middle;
  }
  if (bar->flips_at && std::abs(*bar->flips_at - 1) <= std::abs(other - 1)) return;
  bar->flips_at = other;
  bar->flips_to = chosen_text(result, at(other));
}

double length(const TornadoBar& bar) {
  return std::max({std::abs(bar.days_low), std::abs(bar.days_high), std::abs(bar.total_low),
                   std::abs(bar.total_high)});
}

}  // namespace

std::vector<TornadoBar> tornado(const std::vector<SizeCase>& cases, const SizeResult& result) {
  const std::optional<std::size_t> chosen = result.recommended();
  if (!chosen) return {};
  const Machine& before = result.machines[*chosen];
  std::vector<TornadoBar> bars;
  for (const TornadoInput& input : kTornadoInputs) {
    TornadoBar bar{.input = input.name, .low = 0, .high = 2};
    if (input.range != nullptr) std::tie(bar.low, bar.high) = cases.front().inputs.*input.range;
    const auto at = [&](double factor) { return remade(cases, result, input, factor); };
    const Machine low = at(bar.low).machines[*chosen], high = at(bar.high).machines[*chosen];
    bar.days_low = low.days_late / before.days_late - 1;
    bar.days_high = high.days_late / before.days_late - 1;
    bar.total_low = low.total / before.total - 1;
    bar.total_high = high.total / before.total - 1;
    for (const double end : {bar.low, bar.high}) find_flip(result, at, *chosen, end, &bar);
    constexpr double kLeastLength = 5e-4;  // 0.05 %
    if (length(bar) >= kLeastLength || bar.flips_at) bars.push_back(std::move(bar));
  }
  std::ranges::stable_sort(bars, std::ranges::greater(), length);
  return bars;
}

}  // namespace tandem
