#include "schedule/program/split.h"

#include <map>
#include <utility>
#include <vector>

#include "base/check.h"

namespace tandem {
namespace {

// Returns the body's original if the body is a copy, else the body.
std::int32_t original_body(const Program& program, std::int32_t body) {
  const std::size_t whole = program.bodies.size() - program.split_from.size();
  const auto number = static_cast<std::size_t>(body);
  return number < whole ? body : program.split_from[number - whole];
}

}  // namespace

bool split_bodies(Program* program, std::span<const std::int32_t> keys) {
  CHECK(keys.size() == program->ranks.size());
  std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t> body_of;  // by old body and key
  std::vector<bool> taken(program->bodies.size());
  bool split = false;
  for (std::size_t rank = 0; rank < keys.size(); ++rank) {
    std::int32_t& body = program->ranks[rank].body;
    const auto [at, is_new] = body_of.try_emplace({body, keys[rank]}, body);
    if (is_new && taken[body]) {
      split = true;
      at->second = static_cast<std::int32_t>(program->bodies.size());
      program->split_from.push_back(original_body(*program, body));
      program->bodies.push_back(Body(program->bodies[body]));
    }
    taken[body] = true;
    body = at->second;
  }
  return split;
}

Program before_splits(const Program& program) {
  Program whole;
  whole.ranks = program.ranks;
  whole.communicators = program.communicators;
  for (RankRow& rank : whole.ranks) rank.body = original_body(program, rank.body);
  return whole;
}

}  // namespace tandem
