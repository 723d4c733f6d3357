// Playback's operations on links that several communicators use. An operation that is alone on its
// links, or only beside others over exactly the same links, ends by a closed form (processor
// sharing). All others are in the solver.
// Declared in sim/playback.h.
#include <algorithm>

#include "sim/playback.h"

namespace tandem {

bool Playback::shares_links(const Transfer& transfer) const {
  if (transfer.pattern == Patterns::kNoLinks) return false;
  if (transfer.bytes == 0 || flows_of(transfer).flows.empty()) return false;
  return !patterns_[transfer.pattern].is_private || !options_.closed_forms;
}

Nanoseconds Playback::alone_ns(const Transfer& transfer) const {
  if (transfer.pattern == Patterns::kNoLinks) return transfer.duration_ns;
  return patterns_[transfer.pattern].latency_ns +
         to_ns(static_cast<double>(transfer.bytes) * flows_of(transfer).seconds_per_byte);
}

// Begins the operation in closed form if possible. Otherwise it and all operations in closed form
// on its links go to the solver.
void Playback::begin_flows(std::int32_t comm_class) {
  const Transfer& transfer = transfers_[comm_class];
  const FlowSet& flows = flows_of(transfer);
  const std::int32_t flow_set = patterns_[transfer.pattern].flow_set;
  if (may_join_closed_form(flow_set)) {
    enter_closed_form(flow_set, comm_class);
    return;
  }
  for (const std::int32_t link : flows.links) {
    if (link_uses_[link].in_closed_form()) leave_closed_form(link_uses_[link].flow_set);
  }
  move_to_solver(comm_class, 0);
}

// Returns whether an operation of this flow set can begin in closed form: its links are free, or
// are used only by operations of the same flow set, which share them evenly.
bool Playback::may_join_closed_form(std::int32_t flow_set) const {
  const FlowSet& flows = patterns_.flow_sets()[flow_set];
  if (!options_.closed_forms || !flows.has_closed_form) return false;
  if (!sharing_[flow_set].empty()) return flows.is_even;
  return std::ranges::all_of(flows.links,
                             [&](std::int32_t link) { return link_uses_[link].is_free(); });
}

void Playback::enter_closed_form(std::int32_t flow_set, std::int32_t comm_class) {
  Transfer& transfer = transfers_[comm_class];
  ProcessorSharing& sharing = sharing_[flow_set];
  transfer.phase = Phase::ClosedForm;
  if (sharing.empty()) {
    for (const std::int32_t link : patterns_.flow_sets()[flow_set].links)
      link_uses_[link].flow_set = flow_set;
  } else {
    ++transfers_[sharing.next()].generation;  // voids its scheduled end
  }
  sharing.enter(comm_class,
                static_cast<double>(transfer.bytes) * flows_of(transfer).seconds_per_byte, now_);
  schedule_next_end(flow_set);
}

void Playback::schedule_next_end(std::int32_t flow_set) {
  const ProcessorSharing& sharing = sharing_[flow_set];
  const std::int32_t comm_class = sharing.next();
  schedule(std::max(now_, sharing.next_end_ns()), ~comm_class, ++transfers_[comm_class].generation);
}

// Moves the flow set's operations from the closed form to the solver.
void Playback::leave_closed_form(std::int32_t flow_set) {
  for (const std::int32_t link : patterns_.flow_sets()[flow_set].links)
    link_uses_[link].flow_set = -1;
  sharing_[flow_set].leave(now_, [&](std::int32_t comm_class, double elapsed_s) {
    move_to_solver(comm_class, elapsed_s);
  });
}

// Hands the operation's flows to the solver with the bytes that they have left. They have moved the
// bytes that they would move in `elapsed_s` seconds alone.
void Playback::move_to_solver(std::int32_t comm_class, double elapsed_s) {
  Transfer& transfer = transfers_[comm_class];
  transfer.phase = Phase::Solved;
  ++transfer.generation;
  for (const std::int32_t link : flows_of(transfer).links) ++link_uses_[link].solved;
  const auto bytes = static_cast<double>(transfer.bytes);
  for (const FlowSet::Flow& flow : flows_of(transfer).flows) {
    const double left_share = 1 - elapsed_s / (flow.alone_s * bytes);
    if (left_share <= 0) continue;
    for (int i = 0; i < flow.multiplicity; ++i) {
      pending_.push_back({comm_class, flow.route, flow.share * bytes * left_share});
      ++transfer.flows;
    }
  }
  if (transfer.flows == 0) schedule(now_, ~comm_class, transfer.generation);
}

void Playback::start_pending() {
  for (const PendingFlow& flow : pending_) {
    if (free_flows_.empty()) {
      free_flows_.push_back(static_cast<std::int32_t>(class_of_flow_.size()));
      class_of_flow_.push_back(-1);
    }
    const std::int32_t number = free_flows_.back();
    free_flows_.pop_back();
    class_of_flow_[number] = flow.comm_class;
    ++flows_in_solver_;
    solver_->start(number, flow.route, flow.bytes);
  }
  pending_.clear();
}

void Playback::end_operation(std::int32_t comm_class) {
  Transfer& transfer = transfers_[comm_class];
  if (transfer.phase != Phase::Idle) free_links(transfer);
  transfer.phase = Phase::Idle;
  if (in_order_of_time_) note_sms(comm_class, Sms::GivenBack);
  replayer_.end_operation(comm_class, now_);
}

void Playback::free_links(const Transfer& transfer) {
  const FlowSet& flows = flows_of(transfer);
  if (transfer.phase == Phase::Solved) {
    for (const std::int32_t link : flows.links) --link_uses_[link].solved;
    return;
  }
  const std::int32_t flow_set = patterns_[transfer.pattern].flow_set;
  sharing_[flow_set].take_next();
  if (!sharing_[flow_set].empty()) {
    schedule_next_end(flow_set);
    return;
  }
  for (const std::int32_t link : flows.links) link_uses_[link].flow_set = -1;
}

}  // namespace tandem
