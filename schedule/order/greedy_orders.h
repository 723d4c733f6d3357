// The zero-bubble orders. Each is made for costs under its own limit of activations.
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

// The limits unless the spec has one. With one stage a rank: 1F1B's, and twice that. In a V, as
// "Controllable Memory" (Qi et al. 2024) has it: 1F1B's, about half of it, and about a third, which
// is less than 1F1B's on two ranks, too.
HeldLimits zb1p_limits(int pp);
HeldLimits twice_pp(int pp);
HeldLimits v_half_limits(int pp);
HeldLimits v_min_limits(int pp);

// Returns the times of each stage. REQUIRES: the spec is checked, here and below.
std::vector<OrderCosts> stage_costs(const OrderSpec& spec);

std::vector<std::vector<Action>> make_greedy(const OrderSpec& spec, LimitsOf limits);
OrderRounds rounds_of_greedy(const OrderSpec& spec, LimitsOf limits);

}  // namespace tandem
