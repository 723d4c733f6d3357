// Measures the host executor against theory: 1F1B of p stages and m microbatches without
// communication takes (m + p - 1)(F + B), for m microbatches and p - 1 slots to fill and drain; and
// each order against the ideal engine. The figures are medians over iterations, so that a single
// late one does not count.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "exec/host/host.h"
#include "schedule/lowering/lower.h"
#include "schedule/lowering/price.h"
#include "schedule/order/named_orders.h"
#include "sim/engines.h"
#include "traces/metrics.h"

namespace {

using namespace tandem;

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// Lowers the order with uniform costs; each transfer takes p2p_s.
Program lowered(const OrderSpec& spec, const UniformCosts& costs, double p2p_s) {
  const auto order = make_order(spec);
  CHECK(order.ok());
  LowerOptions options;
  options.overlap_p2p = overlaps_p2p_by_default(*order);
  auto program = lower(*order, uniform_workload(costs, order->stages), options);
  CHECK(program.ok());
  for (Body& body : program->bodies) {
    for (Op& op : body.ops) {
      if (!is_compute(op.kind)) op.duration_ns = to_ns(p2p_s);
    }
  }
  return *std::move(program);
}

// Medians over the iterations.
struct Figures {
  double iteration_s = 0, bubble_fraction = 0;
};

Figures host(const Program& program, int iterations) {
  ExecOptions options;
  options.iterations = iterations;
  const auto execution = execute_host(program, options);
  CHECK(execution.ok() && execution->failure.empty());
  std::vector<double> iterations_s, bubbles;
  for (const Trace& trace : execution->iterations) {
    const Metrics metrics = measure(program, trace);
    iterations_s.push_back(metrics.iteration_s);
    bubbles.push_back(metrics.bubble_fraction);
  }
  return {median(iterations_s), median(bubbles)};
}

void against_theory(int p, int m, double forward_s, int iterations, double bound) {
  const double backward_s = 2 * forward_s;
  OrderSpec spec;
  spec.name = "1f1b";
  spec.pp = p;
  spec.microbatches = m;
  const Program program = lowered(spec, {forward_s, backward_s, backward_s / 2, backward_s / 2}, 0);
  const double theory_s = (m + p - 1) * (forward_s + backward_s);
  const double error = host(program, iterations).iteration_s / theory_s - 1;
  fmt::print("1F1B, p {:2}, m {:3}, {:g}/{:g} ms{:<12} {:8.3f} s  {:+.3f} % of {:g}{}\n", p, m,
             1e3 * forward_s, 1e3 * backward_s, "", theory_s, 100 * error, 100 * bound,
             error > bound ? ", OVER" : "");
  std::fflush(stdout);
}

void against_ideal(const OrderTraits& order) {
  OrderSpec spec;
  spec.name = order.name;
  spec.pp = 4;
  spec.vpp = 2;
  spec.microbatches = 8;
  if (!check_order(spec).ok()) spec.vpp = 1;
  const Program program = lowered(spec, {5e-3, 10e-3, 5e-3, 5e-3}, 0.5e-3);
  const auto trace = ideal(program);
  CHECK(trace.ok());
  const Metrics theory = measure(program, *trace);
  const Figures real = host(program, 10);
  const double error = real.iteration_s / theory.iteration_s - 1;
  const double points = real.bubble_fraction - theory.bubble_fraction;
  fmt::print(
      "{:<14} p 4, m 8, 5/10/0.5 ms    {:8.3f} s  {:+.3f} % of 1  bubble {:+.3f} points of "
      "0.5{}\n",
      order.name, theory.iteration_s, 100 * error, 100 * points,
      error > 0.01 || std::abs(points) > 0.005 ? ", OVER" : "");
  std::fflush(stdout);
}

}  // namespace

int main() {
  fmt::print("the host executor (medians): theory or ideal, and what it takes longer\n");
  against_theory(4, 8, 5e-3, 10, 0.002);
  against_theory(4, 8, 0.5e-3, 10, 0.015);
  against_theory(64, 128, 5e-3, 3, 0.01);
  for (const OrderTraits& order : named_orders()) {
    if (order.pipelines) against_ideal(order);
  }
  return 0;
}
