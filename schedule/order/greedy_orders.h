// The zero-bubble orders that are made for costs, under a limit of activations each.
#pragma once

#include <vector>

#include "schedule/order/named_orders.h"

namespace tandem {

// Activations of a stage that a rank may hold: from F to W, and of these from F to I.
struct HeldLimits {
  int held = 0;
  int in_flight = held;
};
using LimitsOf = HeldLimits (*)(int pp);

// Unless told otherwise, with one stage a rank: 1F1B's, or twice that. In a V, as "Controllable
// Memory" (Qi et al. 2024) has it: 1F1B's, about half and about a third; fewer than 1F1B's on two
// ranks as well.
HeldLimits zb1p_limits(int pp);
HeldLimits twice_pp(int pp);
HeldLimits v_half_limits(int pp);
HeldLimits v_min_limits(int pp);

// What each stage takes. REQUIRES: the spec is checked, here and below.
std::vector<OrderCosts> stage_costs(const OrderSpec& spec);

std::vector<std::vector<Action>> make_greedy(const OrderSpec& spec, LimitsOf limits);
OrderRounds rounds_of_greedy(const OrderSpec& spec, LimitsOf limits);

}  // namespace tandem
