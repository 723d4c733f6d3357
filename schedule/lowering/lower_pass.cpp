// Lowers the actions of a pipeline rank to ops. An action (F, B, I or W of a microbatch) has a
// pass, a list of compute and communication steps; each step becomes an op that waits for the ops
// of the steps before it. A cell is one action or several that run together. These may take turns
// at their expert communication, step by step.
#include "schedule/lowering/lower_pass.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"

namespace tandem {
namespace {

// The op that computes an action, and the action's pass: a stage's, or the vocabulary's.
struct PassOfAction {
  ActionKind action;
  OpKind op;
  Pass StageWork::*of_stage;
  Pass VocabularyWork::*of_vocabulary = nullptr;
};
constexpr PassOfAction kPasses[] = {
    {ActionKind::Forward, OpKind::Forward, &StageWork::forward},
    {ActionKind::Backward, OpKind::Backward, &StageWork::backward},
    {ActionKind::BackwardInput, OpKind::BackwardInput, &StageWork::backward_input},
    {ActionKind::BackwardWeight, OpKind::BackwardWeight, &StageWork::backward_weight},
    {ActionKind::EmbeddingForward, OpKind::EmbeddingForward, nullptr, &VocabularyWork::embedding},
    {ActionKind::OutputS, OpKind::OutputS, nullptr, &VocabularyWork::s},
    {ActionKind::OutputT, OpKind::OutputT, nullptr, &VocabularyWork::t},
    {ActionKind::EmbeddingBackward, OpKind::EmbeddingBackward, nullptr,
     &VocabularyWork::embedding_gradient}};

const PassOfAction& row_of(ActionKind kind) {
  const auto* const row = std::ranges::find(kPasses, kind, &PassOfAction::action);
  CHECK(row != std::end(kPasses));
  return *row;
}

bool gives_weight_gradients(ActionKind kind) {
  return kind == ActionKind::Backward || kind == ActionKind::BackwardWeight ||
         kind == ActionKind::OutputT || kind == ActionKind::EmbeddingBackward;
}

bool uses_forward(ActionKind kind) {
  return kind == ActionKind::Forward || kind == ActionKind::EmbeddingForward ||
         kind == ActionKind::OutputS;
}

// Returns the parameter unit (a layer, the embedding or the head) that the next compute step after
// `step` uses, or -1.
int next_unit(const Pass& pass, std::size_t step) {
  for (std::size_t i = step + 1; i < pass.steps.size(); ++i) {
    if (pass.steps[i].computes && pass.steps[i].unit >= 0) return pass.steps[i].unit;
  }
  return -1;
}

// Returns the compute time of a pass before its first expert communication.
Nanoseconds before_exchange_ns(const Pass& pass) {
  Nanoseconds ns = 0;
  for (const Step& step : pass.steps) {
    if (!step.computes && step.group_kind == GroupKind::Expert) break;
    ns += step.duration_ns;
  }
  return ns;
}

}  // namespace

OpKind op_kind(ActionKind kind) { return row_of(kind).op; }

Op communication(OpKind kind, std::int16_t slot, Bytes bytes, int stage, int microbatch) {
  CHECK(slot >= 0);
  Op op;
  op.kind = kind;
  op.slot = slot;
  op.bytes = bytes;
  op.stage = static_cast<std::int16_t>(stage);
  op.microbatch = microbatch;
  return op;
}

PassLowering::PassLowering(const Context& context, const std::vector<Action>& actions,
                           BodyBuilder* builder, const Slots& slots, DataLane* data)
    : context_(context),
      builder_(*builder),
      slots_(slots),
      data_(*data),
      last_gradients_(context.order.stages),
      outputs_(context.order.stages) {
  for (const Action& action : actions) {
    const int stage = index(action.stage);
    if (outputs_[stage].empty()) {
      outputs_[stage].resize(std::size_t{2} * context.order.microbatches, kNoOp);
      forward_amax_ += context.work.stages[stage].forward_amax_bytes;
      backward_amax_ += context.work.stages[stage].backward_amax_bytes;
    }
    if (gives_weight_gradients(action.kind)) last_gradients_[stage] = &action;
  }
}

void PassLowering::run(std::span<const Action> cell, std::span<const std::uint32_t> inputs) {
  // If one action needs the output of another in the cell, they cannot run together.
  if (cell.size() > 1 && waits_for_itself(cell)) {
    for (const Action& action : cell) run({&action, 1}, inputs);
    return;
  }
  entry_.assign(inputs.begin(), inputs.end());
  if (running_.size() < cell.size()) running_.resize(cell.size());
  const std::span<Running> running{running_.data(), cell.size()};
  for (std::size_t i = 0; i < cell.size(); ++i) {
    start(cell[i], &running[i]);
    if (const std::uint32_t* input = local_input(cell[i])) entry_.push_back(*input);
  }
  entry_.insert(entry_.end(), open_.begin(), open_.end());
  open_.clear();
  for (std::size_t turn = first_to_run(running), left = running.size(); left > 0;) {
    Running& current = running[turn];
    const bool exchanges = advance(&current, entry_);
    if (current.ended()) {
      end(current);
      --left;
    }
    const bool ends_turn = current.ended() || (exchanges && context_.options.expert_overlap);
    if (left == 0 || !ends_turn) continue;
    do {
      turn = (turn + 1) % running.size();
    } while (running[turn].ended());
  }
}

// Returns the index of the action that begins. With expert_overlap it is the one that soonest sends
// tokens to experts, so that the others compute while the tokens are in flight. Otherwise it is 0.
std::size_t PassLowering::first_to_run(std::span<const Running> cell) const {
  if (!context_.options.expert_overlap) return 0;
  const auto soonest = std::ranges::min_element(
      cell, {}, [](const Running& running) { return before_exchange_ns(*running.pass); });
  return static_cast<std::size_t>(soonest - cell.begin());
}

void PassLowering::start(const Action& action, Running* running) {
  const Pass& pass = pass_of(action);
  CHECK(!pass.steps.empty() && pass.output >= 0);
  data_.begin_pass(index(action.stage), action.kind);
  running->action = &action;
  running->pass = &pass;
  running->ops.clear();
  running->awaited.assign(pass.steps.size(), false);
  running->computed = false;
  running->gives_gradients = gives_weight_gradients(action.kind);
  running->is_last = last_gradients_[index(action.stage)] == &action;
}

bool PassLowering::advance(Running* running, std::span<const std::uint32_t> entry) {
  const Step& step = running->pass->steps[running->ops.size()];
  std::vector<std::uint32_t>& waits = waits_;
  waits.clear();
  for (const int wait : step.waits) {
    waits.push_back(running->ops[wait]);
    running->awaited[wait] = true;
  }
  const bool is_first = step.computes ? !running->computed : step.waits.empty();
  if (is_first) waits.insert(waits.end(), entry.begin(), entry.end());
  if (step.computes) {
    compute(running, step, &waits);
    return false;
  }
  running->ops.push_back(builder_.add(op_of(step, *running->action), waits));
  return step.group_kind == GroupKind::Expert;
}

void PassLowering::compute(Running* running, const Step& step, std::vector<std::uint32_t>* waits) {
  const Action& action = *running->action;
  const int stage = index(action.stage);
  running->computed = true;
  for (const std::uint32_t op : data_.take_exposed_reductions()) waits->push_back(op);
  // W multiplies activations by gradients, and needs no parameters.
  const bool uses_parameters = step.unit >= 0 && action.kind != ActionKind::BackwardWeight;
  if (uses_parameters)
    data_.gather_before_use(stage, step.unit, uses_forward(action.kind), last_computes_, waits);
  const std::uint32_t op = builder_.add(op_of(step, action), *waits);
  last_computes_ = {op, last_computes_[0]};
  running->ops.push_back(op);
  const bool ends_unit =
      step.unit >= 0 && next_unit(*running->pass, running->ops.size() - 1) != step.unit;
  if (running->gives_gradients && ends_unit)
    data_.reduce_after_gradient(stage, step.unit, running->is_last, op);
}

void PassLowering::end(const Running& running) {
  for (std::size_t i = 0; i < running.ops.size(); ++i) {
    if (!running.pass->steps[i].computes && !running.awaited[i]) open_.push_back(running.ops[i]);
  }
  output_of(*running.action) = reduce_amax(running);
  if (running.gives_gradients)
    data_.reduce_rest_of_pass(index(running.action->stage), running.is_last, last_computes_[0]);
}

std::uint32_t PassLowering::reduce_amax(const Running& running) {
  const Action& action = *running.action;
  const std::uint32_t output = running.ops[running.pass->output];
  if (slots_.amax < 0 || action.kind == ActionKind::BackwardWeight || is_vocabulary(action.kind))
    return output;
  const bool forward = action.kind == ActionKind::Forward;
  const Op reduction =
      communication(OpKind::AllReduce, slots_.amax, forward ? forward_amax_ : backward_amax_,
                    index(action.stage), index(action.microbatch));
  const std::uint32_t op = builder_.add(reduction, std::array{output, last_computes_[0]});
  open_.push_back(op);
  return op;
}

const Pass& PassLowering::pass_of(const Action& action) const {
  const PassOfAction& row = row_of(action.kind);
  if (row.of_vocabulary != nullptr) return *context_.work.vocabulary.*row.of_vocabulary;
  return context_.work.stages[index(action.stage)].*row.of_stage;
}

Op PassLowering::op_of(const Step& step, const Action& action) const {
  if (!step.computes) {
    // among_experts: the tensor group that cuts one expert, not the group that exchanges tokens.
    const std::int16_t slot = step.among_experts ? slots_.expert_tensor : slot_of(step.group_kind);
    Op op = communication(op_kind(step.collective), slot, step.bytes, index(action.stage),
                          index(action.microbatch));
    op.part = step.settings.part;
    op.parts = step.settings.parts;
    op.sms = step.settings.sms;
    return op;
  }
  Op op;
  op.kind = op_kind(action.kind);
  op.stage = static_cast<std::int16_t>(index(action.stage));
  op.microbatch = index(action.microbatch);
  op.kernel = step.kernel;
  op.duration_ns = step.duration_ns;
  return op;
}

std::int16_t PassLowering::slot_of(GroupKind group_kind) const {
  if (group_kind == GroupKind::Tensor) return slots_.tensor;
  if (group_kind == GroupKind::Context) return slots_.context;
  CHECK(group_kind == GroupKind::Expert);
  return slots_.expert;
}

const std::uint32_t* PassLowering::local_input(const Action& action) {
  if (is_vocabulary(action.kind)) return nullptr;
  const int stage = index(action.stage), microbatch = index(action.microbatch);
  if (action.kind == ActionKind::BackwardWeight) return &output_of(stage, true, microbatch);
  const bool gradient = action.kind != ActionKind::Forward;
  const int from = source(context_.order, action);
  if (from >= 0)
    return context_.remote(from, stage) ? nullptr : &output_of(from, gradient, microbatch);
  // The last stage's backward reads its own forward; the first stage's forward reads tokens.
  return gradient ? &output_of(stage, false, microbatch) : nullptr;
}

bool PassLowering::waits_for_itself(std::span<const Action> cell) {
  for (const Action& action : cell) {
    const std::uint32_t* input = local_input(action);
    if (input != nullptr && *input == kNoOp) return true;
  }
  return false;
}

std::uint32_t& PassLowering::output_of(int stage, bool gradient, int microbatch) {
  return outputs_[stage][(gradient ? context_.order.microbatches : 0) + microbatch];
}

std::uint32_t& PassLowering::output_of(const Action& action) {
  if (action.kind == ActionKind::BackwardWeight || is_vocabulary(action.kind)) return own_output_;
  return output_of(index(action.stage), produces_gradient(action.kind), index(action.microbatch));
}

}  // namespace tandem
