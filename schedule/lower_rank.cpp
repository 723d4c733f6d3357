#include "schedule/lower_rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>

#include "schedule/body_builder.h"

namespace tandem {
namespace {

// How many of a rank's actions run between two exchanges, one number a unit. Interleaved pairs each
// F with the B after it, from the first B to the last F (Megatron-LM's steady state); where a rank
// has all its forwards behind it by then, nothing pairs.
std::vector<std::size_t> units(const Order& order, const std::vector<Action>& actions) {
  std::vector<std::size_t> lengths;
  const bool paired = order.name == "interleaved";
  const auto is_forward = [](const Action& a) { return a.kind == ActionKind::Forward; };
  const auto first_backward = std::find_if_not(actions.begin(), actions.end(), is_forward);
  const bool steady = std::any_of(first_backward, actions.end(), is_forward);
  for (std::size_t i = 0; i < actions.size();) {
    const bool pair = paired && steady && i + 1 < actions.size() && is_forward(actions[i]) &&
                      !is_forward(actions[i + 1]);
    lengths.push_back(pair ? 2 : 1);
    i += lengths.back();
  }
  return lengths;
}

// Lowers one pipeline rank's actions.
class RankLowering {
 public:
  RankLowering(const Context& context, int rank)
      : context_(context),
        rank_(rank),
        actions_(compute_actions(context.order.ranks[rank])),
        outputs_(2 * context.order.stages * context.order.microbatches, kNoOp) {
    if (context.options.tp > 1) slots_.tensor = builder_.slot(Scope::Tensor, "tensor");
    for (const auto& [edge, microbatches] : context.produced) {
      if (context.rank_of_stage[edge.first] == rank || context.rank_of_stage[edge.second] == rank)
        slots_.edges[edge] =
            builder_.slot(Scope::Pipeline, fmt::format("{}>{}", edge.first, edge.second));
    }
  }

  LoweredRank run() {
    if (context_.options.overlap_p2p) {
      for (const Action& action : actions_) overlapped(action);
    } else {
      exchanging();
    }
    finish();
    return {builder_.take(), slots_};
  }

 private:
  // The action with its transfers on their own lanes: the receive posted ahead, the send let go.
  void overlapped(const Action& action) {
    std::vector<std::uint32_t> waits = {receive_until(action)};
    compute(action, waits);
    send(action, {&output(action), 1});
  }

  // Actions in units; between two units an exchange that both wait for.
  void exchanging() {
    std::vector<std::uint32_t> before;  // what the next unit waits for
    std::size_t next = 0;
    const std::vector<std::size_t> lengths = units(context_.order, actions_);
    receive_for({actions_.data(), lengths.empty() ? 0 : lengths[0]}, {}, &before);
    ++exchange_;
    for (std::size_t unit = 0; unit < lengths.size(); ++unit) {
      const std::span<const Action> now{actions_.data() + next, lengths[unit]};
      next += lengths[unit];
      const std::span<const Action> then{actions_.data() + next,
                                         unit + 1 < lengths.size() ? lengths[unit + 1] : 0};
      for (const Action& action : now) compute(action, before);
      std::vector<std::uint32_t> ended;
      for (const Action& action : now) ended.push_back(output(action));
      before.clear();
      for (const Action& action : now) {
        const std::uint32_t sent = send(action, ended);
        if (sent != kNoOp) before.push_back(sent);
      }
      receive_for(then, ended, &before);
      ++exchange_;
    }
    last_exchange_ = before;
  }

  void receive_for(std::span<const Action> unit, std::span<const std::uint32_t> waits,
                   std::vector<std::uint32_t>* received) {
    for (const Action& action : unit) {
      const int from = source(context_.order, action), to = index(action.stage);
      if (context_.remote(from, to))
        received->push_back(receive({from, to}, index(action.microbatch), waits));
    }
  }

  // Posts the edge's receives, in the sender's order, up to the one that the action needs.
  std::uint32_t receive_until(const Action& action) {
    const int from = source(context_.order, action), to = index(action.stage);
    if (!context_.remote(from, to)) return kNoOp;
    const Edge edge{from, to};
    const std::vector<int>& order = context_.produced.at(edge);
    const int microbatch = index(action.microbatch);
    auto& received = received_[edge];
    received.resize(context_.order.microbatches, kNoOp);
    for (std::size_t& next = posted_[edge]; received[microbatch] == kNoOp && next < order.size();
         ++next)
      received[order[next]] = receive(edge, order[next], {});
    return received[microbatch];
  }

  std::uint32_t receive(const Edge& edge, int microbatch, std::span<const std::uint32_t> waits) {
    const std::uint32_t received =
        builder_.add(transfer(OpKind::Recv, edge, edge.second, microbatch), waits);
    if (context_.work.pipeline_gather_bytes == 0 || slots_.tensor < 0) return received;
    const Op gather = collective(OpKind::AllGather, slots_.tensor,
                                 context_.work.pipeline_gather_bytes, edge.second, microbatch);
    return builder_.add(gather, {&received, 1});
  }

  std::uint32_t send(const Action& action, std::span<const std::uint32_t> waits) {
    const int from = index(action.stage), to = sink(context_.order, action);
    if (!context_.remote(from, to)) return kNoOp;
    return builder_.add(transfer(OpKind::Send, {from, to}, from, index(action.microbatch)), waits);
  }

  Op transfer(OpKind kind, const Edge& edge, int stage, int microbatch) const {
    Op op =
        collective(kind, slots_.edges.at(edge), context_.work.pipeline_bytes, stage, microbatch);
    if (context_.options.batch_p2p) op.exchange = exchange_;
    return op;
  }

  static Op collective(OpKind kind, std::int16_t slot, Bytes bytes, int stage, int microbatch) {
    Op op;
    op.kind = kind;
    op.slot = slot;
    op.bytes = bytes;
    op.stage = static_cast<std::int16_t>(stage);
    op.microbatch = microbatch;
    return op;
  }

  // The action's pieces: kernels on the compute lane, each tensor collective between two of them.
  void compute(const Action& action, std::span<const std::uint32_t> waits) {
    const StageWork& stage = context_.work.stages[index(action.stage)];
    std::vector<std::uint32_t> before(waits.begin(), waits.end());
    before.push_back(local_input(action));
    if (last_op_ != kNoOp && !is_compute(builder_.body().ops[last_op_].kind))
      before.push_back(last_op_);  // a tensor collective is exposed: what follows waits for it
    if (action.kind == ActionKind::BackwardWeight) {
      pieces(stage.backward_weight, OpKind::BackwardWeight, action, before);
    } else if (action.kind == ActionKind::BackwardInput) {
      pieces(stage.backward_input, OpKind::BackwardInput, action, before);
    } else if (action.kind == ActionKind::Backward) {
      pieces(stage.backward, OpKind::Backward, action, before);
    } else {
      pieces(stage.forward, OpKind::Forward, action, before);
    }
  }

  void pieces(const std::vector<Piece>& list, OpKind kind, const Action& action,
              std::vector<std::uint32_t> before) {
    std::uint32_t last = kNoOp;
    for (const Piece& piece : list) {
      if (piece.computes()) {
        Op op;
        op.kind = kind;
        op.stage = static_cast<std::int16_t>(index(action.stage));
        op.microbatch = index(action.microbatch);
        op.kernel = piece.kernel;
        op.duration_ns = piece.duration_ns;
        last = builder_.add(op, before);
        before.assign(1, kNoOp);  // the lane itself orders what computes next
      }
      if (piece.collective_bytes > 0 && slots_.tensor >= 0) {
        const Op op = collective(op_kind(piece.collective), slots_.tensor, piece.collective_bytes,
                                 index(action.stage), index(action.microbatch));
        before.push_back(last);
        last = builder_.add(op, before);
        before.assign(1, last);
      }
    }
    output(action) = last;
    last_op_ = last;
  }

  // What the action reads from this same rank: the neighbouring stage's output, or its own
  // forward's.
  std::uint32_t local_input(const Action& action) {
    const int stage = index(action.stage);
    if (action.kind == ActionKind::BackwardWeight)
      return outputs_[slot_of(stage, true, index(action.microbatch))];
    const int from = source(context_.order, action);
    if (from >= 0 && !context_.remote(from, stage))
      return outputs_[slot_of(from, action.kind != ActionKind::Forward, index(action.microbatch))];
    if (from < 0 && action.kind != ActionKind::Forward)
      return outputs_[slot_of(stage, false, index(action.microbatch))];
    return kNoOp;
  }

  std::size_t slot_of(int stage, bool gradient, int microbatch) const {
    return (static_cast<std::size_t>(2 * stage + (gradient ? 1 : 0)) *
            context_.order.microbatches) +
           microbatch;
  }

  std::uint32_t& output(const Action& action) {
    if (action.kind == ActionKind::BackwardWeight) return weight_output_;
    return outputs_[slot_of(index(action.stage), produces_gradient(action.kind),
                            index(action.microbatch))];
  }

  // After the last microbatch: gradients over the replicas, the shared embedding's over first and
  // last stage, the norm over the whole replica, the optimizer.
  void finish() {
    const Workload& work = context_.work;
    std::vector<std::uint32_t> before = last_exchange_;
    before.push_back(last_op_);
    Bytes gradient_bytes = 0;
    for (int stage = 0; stage < context_.order.stages; ++stage) {
      if (context_.rank_of_stage[stage] == rank_)
        gradient_bytes += work.stages[stage].gradient_bytes;
    }
    const auto reduce = [&](std::int16_t* slot, Bytes bytes) {
      *slot = builder_.slot(Scope::Data, "data");
      before.assign(1, builder_.add(collective(OpKind::AllReduce, *slot, bytes, -1, -1), before));
    };
    if (context_.options.dp > 1 && gradient_bytes > 0) reduce(&slots_.data, gradient_bytes);
    if (shares_embedding()) reduce(&slots_.embedding, work.embedding_gradient_bytes);
    if (work.gradient_norm_bytes > 0 && context_.options.tp * context_.order.pp() > 1)
      reduce(&slots_.norm, work.gradient_norm_bytes);
    if (rank_ >= static_cast<int>(work.optimizer.size())) return;
    Op op;
    op.kind = OpKind::Optimizer;
    op.kernel = work.optimizer[rank_].kernel;
    op.duration_ns = work.optimizer[rank_].duration_ns;
    builder_.add(op, before);
  }

  bool shares_embedding() const {
    const int first = context_.rank_of_stage.front(), last = context_.rank_of_stage.back();
    return context_.work.embedding_gradient_bytes > 0 && first != last &&
           (rank_ == first || rank_ == last);
  }

  const Context& context_;
  const int rank_;
  const std::vector<Action> actions_;
  BodyBuilder builder_;
  Slots slots_;
  std::vector<std::uint32_t> outputs_;  // the op that ends F (or B, I) of a stage and microbatch
  std::uint32_t weight_output_ = kNoOp;
  std::uint32_t last_op_ = kNoOp;
  std::int32_t exchange_ = 0;
  std::vector<std::uint32_t> last_exchange_;
  std::map<Edge, std::vector<std::uint32_t>> received_;  // by microbatch
  std::map<Edge, std::size_t> posted_;
};

}  // namespace

LoweredRank lower_rank(const Context& context, int rank) {
  return RankLowering(context, rank).run();
}

}  // namespace tandem
