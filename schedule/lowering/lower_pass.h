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

// The compute lane of one pipeline rank, and the communication inside its passes.
class PassLowering {
 public:
  PassLowering(const Context& context, const std::vector<Action>& actions, BodyBuilder* builder,
               const Slots& slots, DataLane* data);

  // Lowers the actions of one cell, after `inputs` and after the communication that the cell before
  // left open. With LowerOptions::expert_overlap, several actions take turns: one goes on while
  // another has expert communication in flight, and the one that exchanges soonest begins.
  // Otherwise one follows the other.
  void run(std::span<const Action> cell, std::span<const std::uint32_t> inputs);

  // Returns the op that gives the action's output. REQUIRES: the action has run.
  const std::uint32_t& output(const Action& action) { return output_of(action); }
  // Returns communication of the last cell that nothing waits for yet.
  const std::vector<std::uint32_t>& open() const { return open_; }
  std::uint32_t last_compute() const { return last_computes_[0]; }

 private:
  // An action that is being lowered.
  struct Running {
    const Action* action = nullptr;
    const Pass* pass = nullptr;
    std::vector<std::uint32_t> ops;  // of the steps so far
    std::vector<bool> awaited;       // by step: whether a later one waits for it
    bool computed = false;
    bool gives_gradients = false, is_last = false;

    bool ended() const { return ops.size() == pass->steps.size(); }
  };

  const Pass& pass_of(const Action& action) const;
  void start(const Action& action, Running* running);
  std::size_t first_to_run(std::span<const Running> cell) const;
  // Adds the next step. The first step that computes, and communication that waits for no step,
  // come after `entry`. Returns true for expert communication.
  bool advance(Running* running, std::span<const std::uint32_t> entry);
  void compute(Running* running, const Step& step, std::vector<std::uint32_t>* waits);
  void end(const Running& running);
  // Reduces the largest numbers (amax) after a pass with quantized products: all that the rank
  // holds in one all-reduce, as Transformer Engine does when it leaves an autocast region. Returns
  // the op after which the pass's output is sent.
  std::uint32_t reduce_amax(const Running& running);
  Op op_of(const Step& step, const Action& action) const;
  std::int16_t slot_of(GroupKind group_kind) const;

  // Returns the op whose output the action reads on this same rank: the neighbouring stage's, or
  // its own forward. Null if there is none.
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
  std::uint32_t own_output_ = kNoOp;                          // of the last W or vocabulary pass
  std::array<std::uint32_t, 2> last_computes_{kNoOp, kNoOp};  // the latest, and the one before
  std::vector<std::uint32_t> open_;
  // For the current cell. They are kept, so that passes cost no allocations.
  std::vector<Running> running_;
  std::vector<std::uint32_t> entry_, waits_;
  Bytes forward_amax_ = 0, backward_amax_ = 0;  // of all stages of the rank
};

}  // namespace tandem
