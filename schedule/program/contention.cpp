// Computes the resources that communication takes from a device, and the factor by which this slows
// compute down. The factor is n / (n - S) x (1 + mu x M / (1 - M)), contention.h's formula
// rewritten.
#include "schedule/program/contention.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace tandem {
namespace {

constexpr double kMostMemoryShare = 0.9;  // compute keeps a tenth

// Returns the bytes that a rank reads and writes for each byte of the op. It reads what it sends
// and writes what it receives. In a ring of n members it sends (n - 1) / n of the bytes, in an
// all-reduce twice that, and receives as many.
double memory_passes(OpKind kind, int members) {
  const double others = static_cast<double>(members - 1) / members;
  switch (kind) {
    case OpKind::Send:
    case OpKind::Recv:
      return 1;
    case OpKind::RingShift:
      return 2;
    case OpKind::AllReduce:
      return 2 * 2 * others;
    case OpKind::ReduceScatter:
    case OpKind::AllGather:
    case OpKind::AllToAll:
      return 2 * others;
    default:
      CHECK(false && "compute moves its bytes as its kernel says");
  }
}

}  // namespace

Taken& Taken::operator+=(const Taken& other) {
  sms += other.sms;
  memory_bytes_per_s += other.memory_bytes_per_s;
  return *this;
}

Taken& Taken::operator-=(const Taken& other) {
  sms -= other.sms;
  memory_bytes_per_s -= other.memory_bytes_per_s;
  return *this;
}

Taken taken_by(const Op& op, int members, const SharedDevice& device) {
  if (op.sms == 0) return {};
  if (op.duration_ns == 0) return {op.sms, 0};
  const double bytes = memory_passes(op.kind, members) * static_cast<double>(op.bytes);
  const double bytes_per_s = bytes / to_seconds(op.duration_ns);
  return {op.sms, std::llround(std::min(bytes_per_s, device.memory_bytes_per_s))};
}

double slowdown(const SharedDevice& device, const Taken& taken, double memory_share) {
  if (taken.sms == 0) return 1;
  const int sms_left = std::max(1, device.sms - taken.sms);
  double memory_taken = 0;
  if (device.memory_bytes_per_s > 0)
    memory_taken = std::min(kMostMemoryShare, static_cast<double>(taken.memory_bytes_per_s) /
                                                  device.memory_bytes_per_s);
  const double memory_lost = memory_taken / (1 - memory_taken);  // 1 / (1 - M), minus 1
  return static_cast<double>(device.sms) / sms_left * (1 + memory_share * memory_lost);
}

SlowedOp::SlowedOp(Nanoseconds now, Nanoseconds duration_ns, double memory_share)
    : memory_share_(memory_share), left_ns_(static_cast<double>(duration_ns)), since_ns_(now) {}

void SlowedOp::set_slowdown(Nanoseconds now, double slowdown) {
  left_ns_ = std::max(0.0, left_ns_ - static_cast<double>(now - since_ns_) / slowdown_);
  slowdown_ = slowdown;
  since_ns_ = now;
}

Nanoseconds SlowedOp::end_ns() const { return since_ns_ + std::llround(left_ns_ * slowdown_); }

}  // namespace tandem
