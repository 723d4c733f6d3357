// The zero-bubble orders zb1p, zb2p, zbv, v-half and v-min. Each is list scheduling for given costs
// under its own limit of activations.
#pragma once

#include <vector>

#include "schedule/order/named_orders.h"

namespace tandem {

// The most activations of a stage that a rank may hold: from F to W, and from F to I.
struct HeldLimits {
  int held = 0;
  int in_flight = held;
};
using LimitsOf = HeldLimits (*)(int pp);

// Return the limits of the orders, which a spec's memory_limit replaces. zb1p: as 1F1B. zb2p and
// zbv: 2 pp, which for zbv's half stages is as much memory as 1F1B. v-half and v-min: about half
// and about a third of it ("Controllable Memory", Qi et al. 2024).
HeldLimits zb1p_limits(int pp);
HeldLimits twice_pp(int pp);
HeldLimits v_half_limits(int pp);
HeldLimits v_min_limits(int pp);

// Returns the times of each stage. REQUIRES, here and below: the spec is checked.
std::vector<OrderCosts> stage_costs(const OrderSpec& spec);

// Makes the order's actions, or returns its rounds (OrderTraits::rounds).
std::vector<std::vector<Action>> make_greedy(const OrderSpec& spec, LimitsOf limits);
OrderRounds rounds_of_greedy(const OrderSpec& spec, LimitsOf limits);

}  // namespace tandem
