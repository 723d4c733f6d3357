// Lowers one pipeline rank for a whole iteration: its actions (lower_pass.h) with their pipeline
// transfers, then the remaining gradient reductions, the optimizer, and the gathers of updated
// parameters (lower_data.h). A cell is one action, or several that run together.
#include "schedule/lowering/lower_rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "schedule/lowering/lower_data.h"
#include "schedule/lowering/lower_pass.h"
#include "schedule/lowering/lower_vocabulary.h"
#include "schedule/order/order_replay.h"

namespace tandem {
namespace {

using Actions = std::vector<Action>;
using Ops = std::vector<std::uint32_t>;

bool is_forward(const Action& action) { return action.kind == ActionKind::Forward; }

// Returns the end of each cell: the index after its last action. With `pairs`, an F and the B after
// it are also a cell, as Megatron-LM's interleaved schedule exchanges after such pairs in its
// steady state: F F (F B) (F B) B B. If all forwards come before the first B, there is no steady
// state, and there are no pairs.
std::vector<int> cell_ends(const Actions& actions, bool pairs) {
  const auto first_backward = std::find_if_not(actions.begin(), actions.end(), is_forward);
  pairs &= std::any_of(first_backward, actions.end(), is_forward);
  std::vector<int> ends;
  const int size = static_cast<int>(actions.size());
  for (int begin = 0; begin < size; begin = ends.back()) {
    int end = end_of_cell(actions, begin);
    const bool is_single_forward = end == begin + 1 && is_forward(actions[begin]);
    const bool backward_follows = end < size && !is_forward(actions[end]);
    if (pairs && is_single_forward && backward_follows) ++end;
    ends.push_back(end);
  }
  return ends;
}

// Lowers the actions of one pipeline rank.
class RankLowering {
 public:
  RankLowering(const Context& context, int rank)
      : context_(context),
        rank_(rank),
        actions_(compute_actions(context.order.ranks[rank])),
        stages_(stages_by_first_use(actions_)),
        builder_(),
        slots_(make_slots()),
        data_(context, stages_, &builder_, &slots_),
        vocabulary_(context, &builder_, &slots_),
        passes_(context, actions_, &builder_, slots_, &data_),
        end_number_(std::size_t{2} * context.order.stages, -1) {
    for (const auto& [edge, slot] : slots_.edges) add_edge_end(edge, slot);
  }

  LoweredRank run() {
    builder_.reserve(4 * actions_.size());
    if (context_.options.overlap_p2p) {
      lower_overlapped();
    } else {
      lower_exchanges();
    }
    finish();
    return {builder_.take(), slots_};
  }

 private:
  static std::vector<int> stages_by_first_use(const Actions& actions) {
    std::vector<int> stages;
    for (const Action& action : actions) {
      const int stage = index(action.stage);
      if (std::find(stages.begin(), stages.end(), stage) == stages.end()) stages.push_back(stage);
    }
    return stages;
  }

  Slots make_slots() {
    Slots slots;
    if (context_.options.tp > 1) slots.tensor = builder_.slot(GroupKind::Tensor, "tensor");
    if (context_.options.cp > 1) slots.context = builder_.slot(GroupKind::Context, "context");
    if (context_.options.ep > 1) slots.expert = builder_.slot(GroupKind::Expert, "expert");
    slots.expert_tensor = slots.tensor;
    if (context_.options.expert_tp != context_.options.tp && shares_experts())
      slots.expert_tensor = builder_.slot(GroupKind::Tensor, "expert tensor");
    if (context_.options.amax_ranks() > 1 && reduces_amax())
      slots.amax = builder_.slot(context_.amax_kind(), "amax");
    for (const auto& [edge, microbatches] : context_.produced) {
      if (context_.rank_of_stage[edge.first] == rank_ ||
          context_.rank_of_stage[edge.second] == rank_)
        slots.edges[edge] =
            builder_.slot(GroupKind::Pipeline, fmt::format("{}>{}", edge.first, edge.second));
    }
    return slots;
  }

  // Returns whether a pass of the rank communicates with GPUs that share its experts.
  bool shares_experts() const {
    return std::ranges::any_of(stages_, [this](int stage) {
      return std::ranges::any_of(context_.work.stages[stage].forward.steps, &Step::among_experts);
    });
  }

  bool reduces_amax() const {
    return std::ranges::any_of(
        stages_, [this](int stage) { return context_.work.stages[stage].forward_amax_bytes > 0; });
  }

  bool has_pairs() const { return context_.order.exchanges == BatchedP2p::Pairs; }

  // Lowers the actions with transfers that overlap compute: an action waits only for its own
  // receive, which is posted ahead, and never for a send.
  void lower_overlapped() {
    int begin = 0;
    Ops received;
    for (const int end : cell_ends(actions_, context_.options.expert_overlap && has_pairs())) {
      const std::span<const Action> cell{actions_.data() + begin, actions_.data() + end};
      received.clear();
      for (const Action& action : cell) {
        received.push_back(receive_until(action));
        vocabulary_.before(action, &received);
      }
      passes_.run(cell, received);
      for (const Action& action : cell) {
        send(action, {&passes_.output(action), 1});
        vocabulary_.after(action, passes_.output(action));
      }
      begin = end;
    }
  }

  // Lowers the actions with transfers that do not overlap compute. Between two cells is an exchange
  // of sends and receives, which waits for the cell before it and delays the cell after it.
  void lower_exchanges() {
    const std::vector<int> ends = cell_ends(actions_, has_pairs());
    const auto cell = [&](std::size_t i) {  // the one after the last is empty
      const int begin = i == 0 ? 0 : ends[i - 1];
      const int end = i < ends.size() ? ends[i] : begin;
      return std::span<const Action>{actions_.data() + begin, actions_.data() + end};
    };
    Ops before;  // ops that the next cell waits for
    Ops ended;   // ops that end the current cell's actions
    receive_for(cell(0), {}, &before);
    ++p2p_batch_;
    for (std::size_t i = 0; i < ends.size(); ++i) {
      passes_.run(cell(i), before);
      ended.clear();
      for (const Action& action : cell(i)) ended.push_back(passes_.output(action));
      before.clear();
      for (const Action& action : cell(i)) {
        const std::uint32_t sent = send(action, ended);
        if (sent != kNoOp) before.push_back(sent);
      }
      receive_for(cell(i + 1), ended, &before);
      ++p2p_batch_;
    }
    last_p2p_batch_ = before;
  }

  // The rank's end of a pipeline edge.
  struct EdgeEnd {
    Edge edge;
    std::int16_t slot = -1;
    int arrays = 1;                           // arrays in a transfer
    const std::vector<int>* order = nullptr;  // microbatches in the sender's order
    std::size_t posted = 0;                   // receiving end: receives posted, in that order
    Ops received;                             // receiving end, by microbatch: its receive
  };

  void add_edge_end(const Edge& edge, std::int16_t slot) {
    const Order& order = context_.order;
    const bool receives = context_.rank_of_stage[edge.second] == rank_;
    end_number_[number_of(edge)] = static_cast<std::int32_t>(edge_ends_.size());
    edge_ends_.push_back(
        {edge, slot,
         context_.work.arrays_between(edge.first, edge.second, order.stages / order.chains),
         &context_.produced.at(edge), 0, Ops(receives ? order.microbatches : 0, kNoOp)});
  }

  // Returns the edge's index in end_number_. An edge leads to the next stage or to the one before.
  static std::size_t number_of(const Edge& edge) {
    return std::size_t{2} * edge.first + (edge.first < edge.second ? 1 : 0);
  }

  // Returns the rank's end of the edge, or null if both stages are on one rank or one is missing.
  EdgeEnd* edge_end(const Edge& edge) {
    if (!context_.remote(edge.first, edge.second)) return nullptr;
    const std::int32_t end = end_number_[number_of(edge)];
    CHECK(end >= 0);
    return &edge_ends_[end];
  }
  EdgeEnd* incoming(const Action& action) {
    return edge_end({source(context_.order, action), index(action.stage)});
  }
  EdgeEnd* outgoing(const Action& action) {
    return edge_end({index(action.stage), sink(context_.order, action)});
  }

  void receive_for(std::span<const Action> cell, std::span<const std::uint32_t> waits,
                   Ops* received) {
    for (const Action& action : cell) {
      if (const EdgeEnd* from = incoming(action))
        received->push_back(receive(*from, index(action.microbatch), waits));
    }
  }

  // Posts the edge's receives, in the sender's order, up to the action's own receive. Returns the
  // action's receive, or kNoOp if it needs none.
  std::uint32_t receive_until(const Action& action) {
    EdgeEnd* from = incoming(action);
    if (from == nullptr) return kNoOp;
    std::uint32_t& received = from->received[index(action.microbatch)];
    while (received == kNoOp && from->posted < from->order->size()) {
      const int next = (*from->order)[from->posted++];
      from->received[next] = receive(*from, next, {});
    }
    return received;
  }

  std::uint32_t receive(const EdgeEnd& from, int microbatch, std::span<const std::uint32_t> waits) {
    const int stage = from.edge.second;
    const std::uint32_t received =
        builder_.add(transfer(OpKind::Recv, from, stage, microbatch), waits);
    // If each tensor rank receives only a part of the array, they gather the parts.
    if (context_.work.pipeline_gather_bytes == 0 || slots_.tensor < 0) return received;
    const Op gather =
        communication(OpKind::AllGather, slots_.tensor,
                      from.arrays * context_.work.pipeline_gather_bytes, stage, microbatch);
    return builder_.add(gather, {&received, 1});
  }

  std::uint32_t send(const Action& action, std::span<const std::uint32_t> waits) {
    const EdgeEnd* to = outgoing(action);
    if (to == nullptr) return kNoOp;
    return builder_.add(transfer(OpKind::Send, *to, to->edge.first, index(action.microbatch)),
                        waits);
  }

  Op transfer(OpKind kind, const EdgeEnd& end, int stage, int microbatch) const {
    Op op =
        communication(kind, end.slot, end.arrays * context_.work.pipeline_bytes, stage, microbatch);
    op.sms = static_cast<std::int16_t>(context_.options.p2p_sms);
    if (context_.options.batch_p2p) op.exchange = p2p_batch_;
    return op;
  }

  // Lowers the end of the iteration, after the last microbatch: the remaining gradient reductions,
  // the shared embedding's gradient over first and last stage, the gradient norm over all GPUs of a
  // replica, the optimizer, and the gathers of updated parameters.
  void finish() {
    const Workload& work = context_.work;
    Ops before = last_p2p_batch_;
    const Ops& open = passes_.open();
    before.insert(before.end(), open.begin(), open.end());
    before.push_back(passes_.last_compute());
    data_.reduce_rest(&before);
    const auto all_reduce = [&](std::int16_t* slot, Bytes bytes) {
      *slot = builder_.slot(GroupKind::Data, "data");
      const Op op = communication(OpKind::AllReduce, *slot, bytes, -1, -1);
      before.assign(1, builder_.add(op, before));
    };
    if (shares_embedding()) all_reduce(&slots_.embedding, work.embedding_gradient_bytes);
    data_.reduce_norm(&before);
    if (work.gradient_norm_bytes > 0 && context_.options.tp * context_.order.pp() > 1)
      all_reduce(&slots_.norm, work.gradient_norm_bytes);
    optimize(&before);
    data_.reduce_weight_amax(&before);
    data_.gather_rest(before);
  }

  // Adds the optimizer's ops, one stage after another. The first stage's op includes the
  // iteration's overhead. A rank that updates nothing has an op for the overhead alone.
  void optimize(Ops* before) {
    Nanoseconds overhead_ns = context_.work.iteration_overhead_ns;
    const auto add = [&](int stage, const Step& step) {
      Op op;
      op.kind = OpKind::Optimizer;
      op.stage = static_cast<std::int16_t>(stage);
      op.kernel = step.kernel;
      op.duration_ns = step.duration_ns + std::exchange(overhead_ns, 0);
      before->assign(1, builder_.add(op, *before));
    };
    for (const int stage : stages_) {
      const std::optional<Step>& optimizer = context_.work.stages[stage].optimizer;
      if (optimizer) add(stage, *optimizer);
    }
    if (overhead_ns > 0) add(stages_.front(), Step{});
  }

  bool shares_embedding() const {
    const int first = context_.rank_of_stage.front();
    const int last = context_.rank_of_stage[context_.order.stages / context_.order.chains - 1];
    const bool is_end = rank_ == first || rank_ == last;
    return context_.work.embedding_gradient_bytes > 0 && first != last && is_end;
  }

  const Context& context_;
  const int rank_;
  const Actions actions_;
  const std::vector<int> stages_;
  BodyBuilder builder_;
  Slots slots_;
  DataLane data_;
  VocabularyLanes vocabulary_;
  PassLowering passes_;
  std::int32_t p2p_batch_ = 0;  // the number of the exchange that comes next (Op::exchange)
  Ops last_p2p_batch_;
  std::vector<std::int32_t> end_number_;  // by number_of(): index in edge_ends_; -1: none
  std::vector<EdgeEnd> edge_ends_;
};

}  // namespace

LoweredRank lower_rank(const Context& context, int rank) {
  return RankLowering(context, rank).run();
}

}  // namespace tandem
