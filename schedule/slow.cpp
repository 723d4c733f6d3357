#include "schedule/slow.h"

#include <cmath>
#include <map>
#include <utility>

#include "base/check.h"

namespace tandem {
namespace {

void slow(Op* op, double factor) {
  if (factor != 1) op->duration_ns = std::llround(static_cast<double>(op->duration_ns) * factor);
}

}  // namespace

bool slow_ranks(Program* program, std::span<const double> factors) {
  CHECK(factors.size() == program->ranks.size());
  const std::vector<Body> before = program->bodies;
  std::map<std::pair<std::int32_t, double>, std::int32_t> body_of;  // by its old one and the factor
  std::vector<bool> taken(before.size());
  bool split = false;
  for (std::size_t rank = 0; rank < factors.size(); ++rank) {
    std::int32_t& body = program->ranks[rank].body;
    const auto [at, is_new] = body_of.try_emplace({body, factors[rank]}, body);
    if (is_new) {
      if (taken[body]) {
        split = true;
        at->second = static_cast<std::int32_t>(program->bodies.size());
        program->bodies.push_back(before[body]);
      }
      taken[body] = true;
      for (Op& op : program->bodies[at->second].ops) {
        if (is_compute(op.kind)) slow(&op, factors[rank]);
      }
    }
    body = at->second;
  }
  return split;
}

void slow_stage(Program* program, int stage, double factor) {
  for (Body& body : program->bodies) {
    for (Op& op : body.ops) {
      if (is_compute(op.kind) && op.stage == stage) slow(&op, factor);
    }
  }
}

void slow_kind(Program* program, Scope kind, double factor) {
  for (Body& body : program->bodies) {
    for (Op& op : body.ops) {
      if (!is_compute(op.kind) && body.slots[op.slot].scope == kind)
        op.bytes = std::llround(static_cast<double>(op.bytes) * factor);
    }
  }
}

}  // namespace tandem
