// A playback's compute beside communication that takes SMs. An op's end is scheduled once all that
// happens at an instant is known, and again whenever its slowdown changes. Declared in
// sim/playback.h.
#include "sim/playback.h"

namespace tandem {

void Playback::begin_shared(std::int32_t folded_rank, const Op& op, Nanoseconds duration_ns) {
  const double memory_share = op.kernel < 0 ? 0 : program_.kernels[op.kernel].memory_share;
  SharedCompute& shared = shared_[folded_rank];
  shared.op = SlowedOp(now_, duration_ns, memory_share);
  shared.end_ns = -1;
  shared.running = true;
  mark_changed(folded_rank);
}

void Playback::take_sms(std::int32_t comm_class) {
  for (const auto& [folded_rank, lane] : replayer_.members(comm_class)) {
    const Op& op = *replayer_.op_at(folded_rank, lane);
    if (op.sms == 0) continue;
    shared_[folded_rank].taken += taken_from(comm_class, op);
    mark_changed(folded_rank);
  }
}

void Playback::give_sms_back(std::int32_t comm_class) {
  for (const auto& [folded_rank, lane] : replayer_.members(comm_class)) {
    const Op& op = *replayer_.op_at(folded_rank, lane);
    if (op.sms == 0) continue;
    shared_[folded_rank].taken -= taken_from(comm_class, op);
    mark_changed(folded_rank);
  }
}

Taken Playback::taken_from(std::int32_t comm_class, const Op& op) const {
  const CommunicatorClass& all = folding_.comm_classes[comm_class];
  const Communicator& communicator = program_.communicators[all.communicators.front()];
  return taken_by(op, static_cast<int>(communicator.members.size()), program_.device);
}

void Playback::mark_changed(std::int32_t folded_rank) {
  if (shared_[folded_rank].changed) return;
  shared_[folded_rank].changed = true;
  changed_.push_back(folded_rank);
}

void Playback::restretch() {
  for (const std::int32_t folded_rank : changed_) {
    SharedCompute& shared = shared_[folded_rank];
    shared.changed = false;
    if (!shared.running) continue;
    shared.op.set_slowdown(now_, slowdown(program_.device, shared.taken, shared.op.memory_share()));
    if (shared.op.end_ns() == shared.end_ns) continue;
    shared.end_ns = shared.op.end_ns();
    schedule(shared.end_ns, folded_rank, ++shared.generation);
  }
  changed_.clear();
}

}  // namespace tandem
