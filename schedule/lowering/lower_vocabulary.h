// Lowers vocabulary parallelism: the communication between the passes of the pipeline ranks.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "schedule/lowering/body_builder.h"
#include "schedule/lowering/lower_context.h"
#include "schedule/order/order.h"

namespace tandem {

// Adds the collectives over all pipeline ranks to the body of one rank. lower_rank.cpp calls
// before() and after() for each action of the rank, in order. Without vocabulary passes they do
// nothing.
class VocabularyLanes {
 public:
  VocabularyLanes(const Context& context, BodyBuilder* builder, Slots* slots);

  // Adds to `waits` the op that the action must wait for, if there is one.
  void before(const Action& action, std::vector<std::uint32_t>* waits);
  // Issues the communication that follows the action. `output`: the op that gives its result.
  void after(const Action& action, std::uint32_t output);

 private:
  bool is_first(const Action& action) const { return index(action.stage) == 0; }
  bool is_last(const Action& action) const {
    return index(action.stage) == context_.order.stages - 1;
  }
  std::uint32_t& op_of(VocabularyComm comm, const Action& action);
  void issue(VocabularyComm comm, const Action& action, std::vector<std::uint32_t> waits);

  const Context& context_;
  BodyBuilder& builder_;
  Slots& slots_;
  std::array<std::vector<std::uint32_t>, kVocabularyComms> ops_;  // by microbatch
};

}  // namespace tandem
