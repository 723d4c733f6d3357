#include "schedule/wire.h"

#include "schedule/cast.h"

namespace tandem {
namespace {

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

}  // namespace

void wire(const Context& context, const std::vector<Slots>& slots, Program* program) {
  Wiring(context, slots, program).run();
}

}  // namespace tandem
