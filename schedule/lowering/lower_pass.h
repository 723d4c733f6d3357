// Lowering of passes: an action's steps become ops.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "schedule/lowering/body_builder.h"
#include "schedule/lowering/lower_context.h"
#include "schedule/lowering/lower_data.h"

namespace tandem {

// A communication op of the slot; pipeline transfers and collectives alike.
Op communication(OpKind kind, std::int16_t slot, Bytes bytes, int stage, int microbatch);

// The compute lane of one pipeline rank, and the communication that its passes bring along.
class PassLowering {
 public:
  PassLowering(const Context& context, const std::vector<Action>& actions, BodyBuilder* builder,
               const Slots& slots, DataLane* data);

  // The actions of one cell, after `inputs` and after the communication that the cell before left
  // open. Of several actions, with LowerOptions::expert_overlap one goes on where another has
  // expert communication in flight, that which exchanges soonest first; else one follows the
  // other.
  void run(std::span<const Action> cell, std::span<const std::uint32_t> inputs);

  // The op that gives what the action sends on. REQUIRES: it has run.
  const std::uint32_t& output(const Action& action) { return output_of(action); }
  // Communication of the last cell that nothing waits for yet.
  const std::vector<std::uint32_t>& open() const { return open_; }
  std::uint32_t last_compute() const { return last_computes_[0]; }

 private:
  // An action on its way.
  struct Running {
    const Action* action = nullptr;
    const Pass* pass = nullptr;
    std::vector<std::uint32_t> ops;  // of the steps so far
    std::vector<bool> awaited;       // steps that a later one waits for
    bool computed = false;
    bool gives_gradients = false, is_last = false;

    bool ended() const { return ops.size() == pass->steps.size(); }
  };

  const Pass& pass_of(const Action& action) const;
  void start(const Action& action, Running* running);
  std::size_t first_to_run(std::span<const Running> cell) const;
  // Adds the next step; the first that computes, and communication that waits for no step, come
  // after `entry`. True for expert communication.
  bool advance(Running* running, std::span<const std::uint32_t> entry);
  void compute(Running* running, const Step& step, std::vector<std::uint32_t>* waits);
  void end(const Running& running);
  // Behind a pass with quantized products: the largest numbers of all that the rank holds, in one
  // all-reduce, as Transformer Engine leaves an autocast region. Gives what the pass sends on
  // after.
  std::uint32_t reduce_amax(const Running& running);
  Op op_of(const Step& step, const Action& action) const;
  std::int16_t slot_of(GroupKind group_kind) const;

  // What the action reads from this same rank: the neighbouring stage's output, or its own
  // forward's; null: nothing.
  const std::uint32_t* local_input(const Action& action);
  // Whether one action of the cell reads what another one is still to give.
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
  std::uint32_t own_output_ = kNoOp;  // of the last W, or pass of the vocabulary
  std::array<std::uint32_t, 2> last_computes_{kNoOp, kNoOp};  // the latest, and the one before
  std::vector<std::uint32_t> open_;
  // Of the cell at hand; kept, so that passes cost no allocations.
  std::vector<Running> running_;
  std::vector<std::uint32_t> entry_, waits_;
  Bytes forward_amax_ = 0, backward_amax_ = 0;  // of the rank's stages together
};

}  // namespace tandem
