#include "schedule/program/slowdown.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <vector>

#include "schedule/program/split.h"

namespace tandem {
namespace {

void slow(Op* op, double factor) {
  if (factor != 1) op->duration_ns = std::llround(static_cast<double>(op->duration_ns) * factor);
}

}  // namespace

bool slow_ranks(Program* program, std::span<const double> factors,
                std::span<const int> but_stages) {
  std::map<double, std::int32_t> key_of;
  std::vector<std::int32_t> keys;
  for (const double factor : factors)
    keys.push_back(
        key_of.try_emplace(factor, static_cast<std::int32_t>(key_of.size())).first->second);
  const bool split = split_bodies(program, keys);
  std::vector<bool> slowed(program->bodies.size());
  for (std::size_t rank = 0; rank < factors.size(); ++rank) {
    const std::int32_t body = program->ranks[rank].body;
    if (slowed[body]) continue;
    slowed[body] = true;
    for (Op& op : program->bodies[body].ops) {
      if (is_compute(op.kind) && std::ranges::count(but_stages, int{op.stage}) == 0)
        slow(&op, factors[rank]);
    }
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

void slow_kind(Program* program, GroupKind kind, double factor) {
  for (Body& body : program->bodies) {
    for (Op& op : body.ops) {
      if (!is_compute(op.kind) && body.slots[op.slot].group_kind == kind)
        op.bytes = std::llround(static_cast<double>(op.bytes) * factor);
    }
  }
}

}  // namespace tandem
