// Playback's compute beside communication that takes SMs. An op's end is scheduled when all
// beginnings and ends of an instant are known, and again whenever its slowdown changes. Declared in
// sim/playback.h.
#include "sim/playback.h"

namespace tandem {

void Playback::begin_slowed(std::int32_t folded_rank, const Op& op, Nanoseconds duration_ns) {
  const double memory_share = op.kernel < 0 ? 0 : program_.kernels[op.kernel].memory_share;
  SlowedCompute& compute = computes_[folded_rank];
  compute.op = SlowedOp(now_, duration_ns, memory_share);
  compute.end_ns = -1;
  compute.running = true;
  mark_changed(folded_rank);
}

// Notes on all members that the communication takes its SMs, or gives them back.
void Playback::note_sms(std::int32_t comm_class, Sms sms) {
  for (const auto& [folded_rank, lane] : replayer_.members(comm_class)) {
    const Op& op = *replayer_.op_at(folded_rank, lane);
    if (op.sms == 0) continue;
    Taken& taken = computes_[folded_rank].taken;
    if (sms == Sms::Taken) taken += taken_from(comm_class, op);
    if (sms == Sms::GivenBack) taken -= taken_from(comm_class, op);
    mark_changed(folded_rank);
  }
}

Taken Playback::taken_from(std::int32_t comm_class, const Op& op) const {
  const std::int32_t first = folding_.comm_classes[comm_class].communicators.front();
  const Communicator& communicator = program_.communicators[first];
  return taken_by(op, static_cast<int>(communicator.members.size()), program_.device);
}

void Playback::mark_changed(std::int32_t folded_rank) {
  if (computes_[folded_rank].changed) return;
  computes_[folded_rank].changed = true;
  changed_.push_back(folded_rank);
}

void Playback::reschedule_changed() {
  for (const std::int32_t folded_rank : changed_) {
    SlowedCompute& compute = computes_[folded_rank];
    compute.changed = false;
    if (!compute.running) continue;
    compute.op.set_slowdown(now_,
                            slowdown(program_.device, compute.taken, compute.op.memory_share()));
    if (compute.op.end_ns() == compute.end_ns) continue;
    compute.end_ns = compute.op.end_ns();
    schedule(compute.end_ns, folded_rank, ++compute.generation);
  }
  changed_.clear();
}

}  // namespace tandem
