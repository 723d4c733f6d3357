#include "schedule/lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <span>
#include <utility>

#include "base/check.h"
#include "schedule/replay.h"
#include "schedule/validate.h"

namespace tandem {
namespace {

constexpr std::uint32_t kNoOp = UINT32_MAX;

// A directed pipeline edge: activations from a stage to the next, gradients from a stage to the one
// before.
using Edge = std::pair<int, int>;

// A body under construction.
class BodyBuilder {
 public:
  BodyBuilder() { body_.lanes.push_back({"compute"}); }

  std::int16_t slot(Scope scope, const std::string& lane_name) {
    const auto lane = std::find_if(body_.lanes.begin(), body_.lanes.end(),
                                   [&](const Lane& known) { return known.name == lane_name; });
    const auto number = static_cast<std::size_t>(lane - body_.lanes.begin());
    if (lane == body_.lanes.end()) body_.lanes.push_back({lane_name});
    CHECK(body_.lanes.size() <= UINT8_MAX);
    body_.slots.push_back({scope, static_cast<std::uint8_t>(number)});
    return static_cast<std::int16_t>(body_.slots.size() - 1);
  }

  std::uint32_t add(Op op, std::span<const std::uint32_t> waits) {
    if (op.slot >= 0) op.lane = body_.slots[op.slot].lane;
    op.first_wait = static_cast<std::uint32_t>(body_.waits.size());
    for (const std::uint32_t wait : waits) {
      if (wait != kNoOp) body_.waits.push_back(wait);
    }
    op.waits = static_cast<std::uint32_t>(body_.waits.size()) - op.first_wait;
    body_.ops.push_back(op);
    return static_cast<std::uint32_t>(body_.ops.size() - 1);
  }

  const Body& body() const { return body_; }
  Body take() { return std::move(body_); }

 private:
  Body body_;
};

// Where the communicators of a body stand; -1: none.
struct Slots {
  std::int16_t tensor = -1, data = -1, embedding = -1, norm = -1;
  std::map<Edge, std::int16_t> edges;
};

// What all ranks need to know of the order.
struct Context {
  const Order& order;
  const Workload& work;
  const LowerOptions& options;
  std::vector<int> rank_of_stage;
  std::map<Edge, std::vector<int>> produced;  // an edge's microbatches, in the sender's order

  bool remote(int from, int to) const {
    return from >= 0 && to >= 0 && rank_of_stage[from] != rank_of_stage[to];
  }
};

bool produces_gradient(ActionKind kind) {
  return kind == ActionKind::Backward || kind == ActionKind::BackwardInput;
}

// The stage that an action's input comes from, and the one that its output goes to; -1: none.
int source(const Order& order, const Action& action) {
  const int stage = index(action.stage);
  if (action.kind == ActionKind::Forward) return previous_stage(order, stage);
  return produces_gradient(action.kind) ? next_stage(order, stage) : -1;
}

int sink(const Order& order, const Action& action) {
  const int stage = index(action.stage);
  if (action.kind == ActionKind::Forward) return next_stage(order, stage);
  return produces_gradient(action.kind) ? previous_stage(order, stage) : -1;
}

std::vector<Action> compute_actions(const std::vector<Action>& actions) {
  std::vector<Action> kept;
  kept.reserve(actions.size());
  std::copy_if(actions.begin(), actions.end(), std::back_inserter(kept),
               [](const Action& action) { return is_compute(action.kind); });
  return kept;
}

Context make_context(const Order& order, const Workload& work, const LowerOptions& options) {
  Context context{order, work, options, stage_to_rank(order), {}};
  for (const std::vector<Action>& actions : order.ranks) {
    for (const Action& action : actions) {
      if (!is_compute(action.kind)) continue;
      const int from = index(action.stage), to = sink(order, action);
      if (context.remote(from, to))
        context.produced[{from, to}].push_back(index(action.microbatch));
    }
  }
  return context;
}

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

  void run() {
    if (context_.options.overlap_p2p) {
      for (const Action& action : actions_) overlapped(action);
    } else {
      exchanging();
    }
    finish();
  }

  const Slots& slots() const { return slots_; }
  Body take() { return builder_.take(); }

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
        const Op op =
            collective(op_kind(piece.collective), slots_.tensor, piece.collective_bytes,
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

// The communicators of all ranks, and each rank's row.
class Wiring {
 public:
  Wiring(const Context& context, const std::vector<Slots>& slots, Program* program)
      : context_(context), slots_(slots), program_(program) {
    for (int pipeline = 0; pipeline < context.order.pp(); ++pipeline) {
      for (int i = 0; i < context.options.dp * context.options.tp; ++i)
        program->ranks.push_back(
            {pipeline, std::vector<std::int32_t>(program->bodies[pipeline].slots.size(), -1)});
    }
  }

  void run() {
    const int tp = context_.options.tp, dp = context_.options.dp, pp = context_.order.pp();
    for (int p = 0; p < pp; ++p) {
      for (int d = 0; d < dp && slots_[p].tensor >= 0; ++d)
        connect(Scope::Tensor, tp, [&](int t) { return Seat{rank(t, d, p), slots_[p].tensor}; });
      for (int t = 0; t < tp && slots_[p].data >= 0; ++t)
        connect(Scope::Data, dp, [&](int d) { return Seat{rank(t, d, p), slots_[p].data}; });
    }
    for (const auto& [edge, microbatches] : context_.produced) {
      const int from = context_.rank_of_stage[edge.first], to = context_.rank_of_stage[edge.second];
      pair_up(Scope::Pipeline, from, slots_[from].edges.at(edge), to, slots_[to].edges.at(edge));
    }
    const int first = context_.rank_of_stage.front(), last = context_.rank_of_stage.back();
    if (slots_[first].embedding >= 0)
      pair_up(Scope::Data, first, slots_[first].embedding, last, slots_[last].embedding);
    for (int d = 0; d < dp && slots_[0].norm >= 0; ++d)
      connect(Scope::Data, tp * pp, [&](int i) {
        return Seat{rank(i % tp, d, i / tp), slots_[i / tp].norm};
      });
  }

 private:
  int rank(int tensor, int data, int pipeline) const {
    return tensor + context_.options.tp * (data + context_.options.dp * pipeline);
  }

  template <class SeatOf>
  void connect(Scope scope, int size, const SeatOf& seat_of) {
    Communicator communicator{scope, false, {}};
    for (int i = 0; i < size; ++i) {
      const auto [member, slot] = seat_of(i);
      communicator.members.push_back(static_cast<Rank>(member));
      program_->ranks[member].communicators[slot] =
          static_cast<std::int32_t>(program_->communicators.size());
    }
    program_->communicators.push_back(std::move(communicator));
  }

  void pair_up(Scope scope, int from, std::int16_t from_slot, int to, std::int16_t to_slot) {
    for (int d = 0; d < context_.options.dp; ++d) {
      for (int t = 0; t < context_.options.tp; ++t)
        connect(scope, 2, [&](int end) {
          return end == 0 ? Seat{rank(t, d, from), from_slot} : Seat{rank(t, d, to), to_slot};
        });
    }
  }

  const Context& context_;
  const std::vector<Slots>& slots_;
  Program* program_;
};

// Sorts each body's ops by when they start in a replay without communication times, so that the
// issue orders of all ranks follow one common order. Errors where the program waits for itself.
Status renumber(Program* program) {
  const Cast cast = fold(*program);
  ASSIGN_OR_RETURN(const Replay times, replay(*program, cast));
  for (std::size_t p = 0; p < cast.players.size(); ++p) {
    Body& body = program->bodies[cast.players[p].body];
    const std::size_t first = times.first[p];
    std::vector<std::uint32_t> order(body.ops.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
      const Nanoseconds at = times.events[first + a].start_ns,
                        bt = times.events[first + b].start_ns;
      return at != bt ? at < bt : times.settled[first + a] < times.settled[first + b];
    });
    std::vector<std::uint32_t> place(order.size());
    for (std::uint32_t i = 0; i < order.size(); ++i) place[order[i]] = i;
    std::vector<Op> ops;
    ops.reserve(order.size());
    for (const std::uint32_t op : order) ops.push_back(body.ops[op]);
    body.ops = std::move(ops);
    for (std::uint32_t& wait : body.waits) wait = place[wait];
  }
  return Done{};
}

}  // namespace

bool overlaps_p2p_by_default(const Order& order) {
  return order.name != "1f1b" && order.name != "gpipe" && order.name != "none";
}

Result<Program> lower(const Order& order, const Workload& work, const LowerOptions& options) {
  CHECK(static_cast<int>(work.stages.size()) == order.stages);
  if (options.overlap_p2p && options.batch_p2p)
    return Error{
        "found overlap.p2p and overlap.batch_p2p both on, expected one of them at most: a grouped "
        "exchange is waited for"};
  if (!options.overlap_p2p && overlaps_p2p_by_default(order) && order.name != "interleaved")
    return Error{
        fmt::format("found overlap.p2p = false with order '{}', expected it on: only 1f1b, gpipe "
                    "and interleaved have exchanges",
                    order.name)};
  const Context context = make_context(order, work, options);
  Program program;
  program.name = order.name;
  program.kernels = work.kernels;
  std::vector<Slots> slots;
  for (int rank = 0; rank < order.pp(); ++rank) {
    RankLowering lowering(context, rank);
    lowering.run();
    slots.push_back(lowering.slots());
    program.bodies.push_back(lowering.take());
  }
  Wiring(context, slots, &program).run();
  RETURN_IF_ERROR(renumber(&program));
  RETURN_IF_ERROR(validate(program));
  return program;
}

}  // namespace tandem
