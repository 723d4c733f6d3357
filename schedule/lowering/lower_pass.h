// Lowers passes: an action's steps become ops.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "schedule/lowering/body_builder.h"
#include "schedule/lowering/lower_context.h"
#include "schedule/lowering/lower_data.h"

namespace tandem {

// Returns the kind of an action's compute ops. REQUIRES: is_compute(kind).
OpKind op_kind(ActionKind kind);

// Returns a communication op of the slot, a pipeline transfer or a collective.
Op communication(OpKind kind, std::int16_t slot, Bytes bytes, int stage, int microbatch);

// Lowers the passes of one pipeline rank: its compute lane, and the communication inside passes.
class PassLowering {
 public:
  PassLowering(const Context& context, const std::vector<Action>& actions, BodyBuilder* builder,
               const Slots& slots, DataLane* data);

  // Lowers the actions of one cell. They wait for `inputs` and for the open communication of the
  // cell before. Several actions run one after another. With LowerOptions::expert_overlap they take
  // turns instead: while one has expert communication in flight, another computes; the first turn
  // goes to the action that reaches its expert communication soonest.
  void run(std::span<const Action> cell, std::span<const std::uint32_t> inputs);

  // Returns the op that gives the action's output. REQUIRES: the action has run.
  const std::uint32_t& output(const Action& action) { return output_of(action); }
  // Returns the open communication of the last cell: ops that no other op waits for yet.
  const std::vector<std::uint32_t>& open() const { return open_; }
  std::uint32_t last_compute() const { return last_computes_[0]; }

 private:
  // An action that is being lowered.
  struct Running {
    const Action* action = nullptr;
    const Pass* pass = nullptr;
    std::vector<std::uint32_t> ops;  // of the steps so far
    std::vector<bool> awaited;       // by step: whether a later step waits for it
    bool computed = false;           // whether a step has computed
    bool gives_gradients = false;    // of weights
    bool is_last = false;            // whether it completes its stage's weight gradients

    bool ended() const { return ops.size() == pass->steps.size(); }
  };

  const Pass& pass_of(const Action& action) const;
  void start(const Action& action, Running* running);
  std::size_t first_to_run(std::span<const Running> cell) const;
  // Adds the action's next step. The first compute step, and communication steps that wait for no
  // other step, wait for `entry`. Returns whether the step is expert communication.
  bool advance(Running* running, std::span<const std::uint32_t> entry);
  // Adds a compute step. It waits for exposed reductions and for gathers of its unit's parameters.
  // Behind the last step of a unit that unit's gradient is reduced.
  void compute(Running* running, const Step& step, std::vector<std::uint32_t>* waits);
  void end(const Running& running);
  // Reduces amax after a pass with quantized products: all amax values of the rank in one
  // all-reduce, as Transformer Engine does when it leaves an autocast region. Returns the op after
  // which the pass's output is sent.
  std::uint32_t reduce_amax(const Running& running);
  Op op_of(const Step& step, const Action& action) const;
  std::int16_t slot_of(GroupKind group_kind) const;

  // Returns the op on this rank whose output the action reads: the neighbouring stage's, or the
  // stage's own forward. Null if the input comes from another rank.
  const std::uint32_t* local_input(const Action& action);
  // Returns whether an action of the cell reads the output of another that has not run.
  bool waits_for_itself(std::span<const Action> cell);
  std::uint32_t& output_of(const Action& action);
  std::uint32_t& output_of(int stage, bool gradient, int microbatch);

  const Context& context_;
  BodyBuilder& builder_;
  const Slots& slots_;
  DataLane& data_;
  std::vector<const Action*> last_gradients_;  // by stage: the action that ends its gradients
  // By stage of the rank: the ops that end its microbatches' F, then those that end their B or I.
  std::vector<std::vector<std::uint32_t>> outputs_;
  std::uint32_t own_output_ = kNoOp;                          // ends the last W or vocabulary pass
  std::array<std::uint32_t, 2> last_computes_{kNoOp, kNoOp};  // the latest, and the one before
  std::vector<std::uint32_t> open_;                           // see open()
  // Buffers for the current cell, reused so that passes cost no allocations.
  std::vector<Running> running_;
  std::vector<std::uint32_t> entry_, waits_;
  Bytes forward_amax_ = 0, backward_amax_ = 0;  // of all stages of the rank
};

}  // namespace tandem
