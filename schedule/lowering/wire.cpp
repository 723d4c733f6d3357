// Makes the communicators of a job from its sizes. Ranks are numbered as in Megatron-LM, tensor
// fastest and pipeline slowest: rank = tensor + tp (context + cp (data + dp pipeline)). So most
// groups are ranks at equal strides.
#include "schedule/lowering/wire.h"

namespace tandem {
namespace {

// A rank of the job, and the slot of its body through which it takes part in a communicator.
struct RankSlot {
  int rank = 0;
  std::int16_t slot = -1;
};

class Wiring {
 public:
  Wiring(const Context& context, const std::vector<Slots>& slots, Program* program)
      : context_(context), options_(context.options), slots_(slots), program_(program) {
    for (int pipeline = 0; pipeline < context.order.pp(); ++pipeline) {
      for (int i = 0; i < stage_ranks(); ++i)
        program->ranks.push_back(
            {pipeline, std::vector<std::int32_t>(program->bodies[pipeline].slots.size(), -1)});
    }
  }

  void run() {
    for (int p = 0; p < context_.order.pp(); ++p) {
      connect_strided(GroupKind::Tensor, p, &Slots::tensor, options_.tp, 1);
      if (slots_[p].expert_tensor != slots_[p].tensor)
        connect_strided(GroupKind::Tensor, p, &Slots::expert_tensor, options_.expert_tp, 1);
      connect_strided(GroupKind::Context, p, &Slots::context, options_.cp, options_.tp);
      connect_strided(GroupKind::Expert, p, &Slots::expert, options_.ep, options_.expert_tp);
      connect_strided(context_.amax_kind(), p, &Slots::amax, options_.amax_ranks(), 1);
      const int dense = options_.tp, expert = options_.expert_tp * options_.ep;
      connect_holders(p, &Slots::data, &Slots::replicas, dense, context_.shard_ranks());
      connect_strided(GroupKind::Data, p, &Slots::secondary, options_.data.secondary, dense);
      connect_strided(GroupKind::Data, p, &Slots::expert_secondary, options_.data.secondary,
                      expert);
      connect_holders(p, &Slots::expert_data, &Slots::expert_replicas, expert,
                      context_.expert_shard_ranks());
    }
    for (const auto& [edge, microbatches] : context_.produced) {
      const int from = context_.rank_of_stage[edge.first], to = context_.rank_of_stage[edge.second];
      pair_up(GroupKind::Pipeline, from, slots_[from].edges.at(edge), to,
              slots_[to].edges.at(edge));
    }
    connect_embedding();
    connect_norm();
    connect_vocabulary();
  }

 private:
  // The ranks of one stage are numbered tensor + tp (context + cp data).
  int stage_ranks() const { return options_.tp * options_.cp * options_.dp; }
  int rank(int within_stage, int pipeline) const { return within_stage + stage_ranks() * pipeline; }

  // Connects groups of `size` ranks of a stage that are `stride` apart. Of ranks 0 to 3, size 2 and
  // stride 1 give {0, 1} and {2, 3}; stride 2 gives {0, 2} and {1, 3}.
  void connect_strided(GroupKind group_kind, int pipeline, std::int16_t Slots::*slot, int size,
                       int stride) {
    if (slots_[pipeline].*slot < 0) return;
    for (int block = 0; block < stage_ranks(); block += size * stride) {
      for (int first = block; first < block + stride; ++first)
        connect(group_kind, size, [&](int i) {
          return RankSlot{rank(first + i * stride, pipeline), slots_[pipeline].*slot};
        });
    }
  }

  // Connects the ranks that hold the same parameters: ranks `stride` apart within a stage, on all
  // pipeline ranks that hold the stage. Each `shard` neighbours among them shard the parameters;
  // ranks with the same shard are replicas. Of ranks 0 to 3 with shard 2, {0, 1} and {2, 3} shard,
  // and {0, 2} and {1, 3} are replicas.
  void connect_holders(int pipeline, std::int16_t Slots::*slot, std::int16_t Slots::*replicas,
                       int stride, int shard) {
    const std::vector<int> holders = context_.holders(pipeline);
    if (holders.front() != pipeline) return;    // the first of them connects all
    const int copies = stage_ranks() / stride;  // of a parameter, on each holder
    const int all = copies * static_cast<int>(holders.size());
    for (int first = 0; first < stride; ++first) {
      // Connects `size` of these ranks that are `step` apart in the list of all of them: the copies
      // on the first holder, then those on the next one.
      const auto connect_group = [&](std::int16_t Slots::*group, int begin, int size, int step) {
        if (slots_[pipeline].*group < 0) return;
        connect(GroupKind::Data, size, [&](int i) {
          const int copy = begin + i * step, holder = holders[copy / copies];
          return RankSlot{rank(first + copy % copies * stride, holder), slots_[holder].*group};
        });
      };
      for (int begin = 0; begin < all; begin += shard) connect_group(slot, begin, shard, 1);
      for (int begin = 0; begin < shard; ++begin)
        connect_group(replicas, begin, all / shard, shard);
    }
  }

  void connect_embedding() {
    const int first = context_.rank_of_stage.front();
    const int last = context_.rank_of_stage[context_.order.stages / context_.order.chains - 1];
    if (slots_[first].embedding >= 0)
      pair_up(GroupKind::Data, first, slots_[first].embedding, last, slots_[last].embedding);
  }

  // Connects the ranks that add up the gradient norm: the tensor ranks of all stages.
  void connect_norm() {
    const int tp = options_.tp, pp = context_.order.pp();
    for (int first = 0; first < stage_ranks() && slots_[0].norm >= 0; first += tp)
      connect(GroupKind::Data, tp * pp, [&](int i) {
        return RankSlot{rank(first + i % tp, i / tp), slots_[i / tp].norm};
      });
  }

  // Connects the pipeline ranks, for each position within a stage.
  void connect_vocabulary() {
    for (int comm = 0; comm < kVocabularyComms; ++comm) {
      for (int i = 0; i < stage_ranks() && slots_[0].vocabulary[comm] >= 0; ++i)
        connect(GroupKind::Pipeline, context_.order.pp(), [&](int p) {
          return RankSlot{rank(i, p), slots_[p].vocabulary[comm]};
        });
    }
  }

  // Adds a communicator of `size` members. member_at(i) gives the i-th rank, and its slot.
  template <class MemberOf>
  void connect(GroupKind group_kind, int size, const MemberOf& member_at) {
    Communicator communicator{group_kind, false, {}};
    for (int i = 0; i < size; ++i) {
      const auto [member, slot] = member_at(i);
      communicator.members.push_back(static_cast<Rank>(member));
      program_->ranks[member].communicators[slot] =
          static_cast<std::int32_t>(program_->communicators.size());
    }
    program_->communicators.push_back(std::move(communicator));
  }

  // Connects each rank of pipeline rank `from` with its counterpart of pipeline rank `to`.
  void pair_up(GroupKind group_kind, int from, std::int16_t from_slot, int to,
               std::int16_t to_slot) {
    for (int i = 0; i < stage_ranks(); ++i)
      connect(group_kind, 2, [&](int end) {
        return end == 0 ? RankSlot{rank(i, from), from_slot} : RankSlot{rank(i, to), to_slot};
      });
  }

  const Context& context_;
  const LowerOptions& options_;
  const std::vector<Slots>& slots_;
  Program* program_;
};

}  // namespace

void wire(const Context& context, const std::vector<Slots>& slots, Program* program) {
  Wiring(context, slots, program).run();
}

}  // namespace tandem
