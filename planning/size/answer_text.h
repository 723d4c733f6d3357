// AnswerText: says in sentences what to buy.
#pragma once

#include <string>

#include "planning/size/size.h"

namespace tandem {

// Returns "p95" for 0.95.
std::string late_word(double certainty);

// Returns "least", "budget" or "cheapest".
std::string question_word(SizeAnswer::Question question);

// Returns "46 nodes of B200 (368 GPUs; 2 of the nodes stand by) for 23.00 M $"; with ", if its
// network can be built" where no known switches make it.
std::string machine_text(const SizeResult& result, const Machine& machine);

// Returns the answer as one or two sentences. If no machine is in time and within the limits, the
// answer to Cheapest names the nearest machine, and the limit that it exceeds.
std::string answer_text(const SizeResult& result, const SizeAnswer& answer);

// Writes 1234567 as "1.23 M $", 0.00381 as "0.0038 $", and infinity as "-".
std::string money_text(double value, const std::string& currency);

}  // namespace tandem
