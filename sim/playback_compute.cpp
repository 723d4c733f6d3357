// A playback's compute beside communication that takes SMs: an op's end is scheduled when all that
// happens at an instant is known, and anew when its stretch changes.
#include "sim/playback.h"

namespace tandem {

void Playback::begin_shared(std::int32_t player, const Op& op, Nanoseconds duration_ns) {
  const double memory_share = op.kernel < 0 ? 0 : program_.kernels[op.kernel].memory_share;
  SharedCompute& shared = shared_[player];
  shared.op = StretchedOp(now_, duration_ns, memory_share);
  shared.end_ns = -1;
  shared.running = true;
  mark_changed(player);
}

void Playback::enter_device(std::int32_t player, std::uint32_t i) {
  const Op& op = body(player).ops[i];
  if (op.sms == 0) return;
  shared_[player].taken += taken_from(player, op);
  mark_changed(player);
}

void Playback::leave_device(std::int32_t player, std::uint32_t i) {
  const Op& op = body(player).ops[i];
  if (is_compute(op.kind)) shared_[player].running = false;
  if (op.sms == 0) return;
  shared_[player].taken -= taken_from(player, op);
  mark_changed(player);
}

Taken Playback::taken_from(std::int32_t player, const Op& op) const {
  const Channel& channel = cast_.channels[cast_.players[player].channels[op.slot]];
  const Communicator& communicator = program_.communicators[channel.communicators.front()];
  return taken_by(op, static_cast<int>(communicator.members.size()), program_.device);
}

void Playback::mark_changed(std::int32_t player) {
  if (shared_[player].changed) return;
  shared_[player].changed = true;
  changed_.push_back(player);
}

void Playback::restretch() {
  for (const std::int32_t player : changed_) {
    SharedCompute& shared = shared_[player];
    shared.changed = false;
    if (!shared.running) continue;
    shared.op.set_stretch(now_, stretch(program_.device, shared.taken, shared.op.memory_share()));
    if (shared.op.end_ns() == shared.end_ns) continue;
    shared.end_ns = shared.op.end_ns();
    schedule(shared.end_ns, player, ++shared.generation);
  }
  changed_.clear();
}

}  // namespace tandem
