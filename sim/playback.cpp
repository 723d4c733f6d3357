#include "sim/playback.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/check.h"
#include "schedule/program/validate.h"

namespace tandem {
namespace {

constexpr std::int64_t kProgressStep = 1 << 16;

}  // namespace

Playback::Queues::Queues(const Body& body) : of_lanes(body) {
  waits.reserve(body.waits.size());
  for (const std::uint32_t wait : body.waits)
    waits.push_back({of_lanes.place[wait], body.ops[wait].lane});
}

Playback::Playback(const Program& program, const RankFolding& folding,
                   const PlaybackOptions& options)
    : program_(program),
      folding_(folding),
      options_(options),
      queues_(program.bodies.begin(), program.bodies.end()),
      stretches_(takes_sms(program)),
      first_pattern_(folding.comm_classes.size() * kCommKinds, kNoLinks),
      transfers_(folding.comm_classes.size()),
      shared_(stretches_ ? folding.folded_ranks.size() : 0) {
  std::size_t events = 0;
  for (const FoldedRank& folded_rank : folding.folded_ranks) {
    const Body& ops = program.bodies[folded_rank.body];
    out_.first.push_back(events);
    events += ops.ops.size();
    folded_ranks_.push_back({&ops, &queues_[folded_rank.body], folded_rank.comm_classes.data(),
                             nullptr, folded_rank.rank});
    first_lane_.push_back(static_cast<std::uint32_t>(played_lanes_.size()));
    played_lanes_.resize(played_lanes_.size() + ops.lanes.size());
  }
  out_.events.resize(events);
  for (std::size_t p = 0; p < folded_ranks_.size(); ++p)
    folded_ranks_[p].events = out_.events.data() + out_.first[p];
  for (std::size_t c = 0; c < transfers_.size(); ++c) {
    transfers_[c].first_member = static_cast<std::uint32_t>(members_.size());
    for (const auto& [folded_rank, slot] : folding.comm_classes[c].members)
      members_.push_back({folded_rank, body(folded_rank).slots[slot].lane});
    transfers_[c].members =
        static_cast<std::uint32_t>(members_.size()) - transfers_[c].first_member;
  }
}

Playback::Playback(const Program& program, const RankFolding& folding, const TrafficOf& traffic_of,
                   std::span<const double> link_bytes_per_s, const PlaybackOptions& options)
    : Playback(program, folding, options) {
  link_users_.resize(link_bytes_per_s.size());
  link_alone_.resize(link_bytes_per_s.size(), -1);
  add_patterns(traffic_of, link_bytes_per_s);
  mark_private();
}

void Playback::add_patterns(const TrafficOf& traffic_of, std::span<const double> link_bytes_per_s) {
  network_.bytes_per_s.assign(link_bytes_per_s.begin(), link_bytes_per_s.end());
  std::vector<std::vector<std::vector<CommUse>>> uses;
  for (const Body& body : program_.bodies) uses.push_back(comm_uses(body));
  for (std::size_t c = 0; c < folding_.comm_classes.size(); ++c) {
    const ClassMember& class_member =
        folding_.comm_classes[c].members.front();  // all issue the same
    for (const CommUse& use :
         uses[folding_.folded_ranks[class_member.folded_rank].body][class_member.slot]) {
      std::int32_t& first = first_pattern_[c * kCommKinds + static_cast<std::size_t>(use.kind)];
      if (first < 0) first = static_cast<std::int32_t>(patterns_.size());
      patterns_.push_back(
          pattern_of(traffic_of(static_cast<std::int32_t>(c), use), link_bytes_per_s));
      ++patterns_[first].ways;
    }
  }
}

Playback::Pattern Playback::pattern_of(const Traffic& traffic,
                                       std::span<const double> link_bytes_per_s) {
  Pattern pattern;
  pattern.way = traffic.way;
  pattern.latency_ns = traffic.latency_ns;
  pattern.seconds_per_byte = traffic.seconds_per_byte;
  for (const Flow& flow : traffic.flows) {
    const auto [it, is_new] =
        route_numbers_.emplace(std::pair(flow.links, flow.limit_bytes_per_s),
                               static_cast<std::int32_t>(network_.routes.size()));
    double alone_s = limited_s(flow);
    if (is_new) network_.routes.emplace_back();
    if (is_new) network_.route_limits.push_back(flow.limit_bytes_per_s);
    for (const LinkId link : flow.links) {
      if (is_new) network_.routes.back().push_back(index(link));
      pattern.links.push_back(index(link));
      alone_s = std::max(alone_s, flow.share * flow.multiplicity / link_bytes_per_s[index(link)]);
    }
    pattern.flows.push_back({it->second, flow.share, alone_s, flow.multiplicity});
  }
  std::sort(pattern.links.begin(), pattern.links.end());
  const auto last = std::unique(pattern.links.begin(), pattern.links.end());
  pattern.shares_with_itself = last != pattern.links.end();
  pattern.links.erase(last, pattern.links.end());
  return pattern;
}

void Playback::mark_private() {
  constexpr std::int32_t kNobody = -1, kMany = -2;
  std::vector<std::int32_t> user(link_users_.size(), kNobody);
  for (std::size_t i = 0; i < first_pattern_.size(); ++i) {
    if (first_pattern_[i] < 0) continue;
    const auto comm_class = static_cast<std::int32_t>(i / kCommKinds);
    const auto first = patterns_.begin() + first_pattern_[i];
    for (auto way = first; way != first + first->ways; ++way) {
      for (const std::int32_t link : way->links)
        user[link] = user[link] == kNobody || user[link] == comm_class ? comm_class : kMany;
    }
  }
  for (Pattern& pattern : patterns_)
    pattern.is_private = std::none_of(pattern.links.begin(), pattern.links.end(),
                                      [&](std::int32_t link) { return user[link] == kMany; });
}

Result<Replay> Playback::run(FlowSolver* solver) {
  solver_ = solver;
  for (std::size_t p = 0; p < folded_ranks_.size(); ++p) start_ready(static_cast<std::int32_t>(p));
  pump();
  if (solver_ != nullptr) solver_->run(this);
  if (ended_ == out_.events.size()) return std::move(out_);
  for (std::size_t p = 0; p < folded_ranks_.size(); ++p) {
    const Body& ops = body(static_cast<std::int32_t>(p));
    for (std::size_t i = 0; i < ops.ops.size(); ++i) {
      if (out_.events[out_.first[p] + i].end_ns < 0)
        return Error{
            fmt::format("the simulation ended with {} of {} ops played; the first that never "
                        "ended: {} on rank {}",
                        ended_, out_.events.size(), describe(ops, ops.ops[i]),
                        index(folding_.folded_ranks[p].rank)),
            Error::Failed};
    }
  }
  CHECK(false && "an op was counted twice");
}

// The clock. Our events go first as long as no flow is in the solver; else the solver says what is
// next. Before time goes on, compute whose slowdown changed gets its new end.

void Playback::schedule(Nanoseconds time, std::int32_t subject, std::uint32_t generation) {
  events_.push({time, scheduled_++, subject, generation});
}

void Playback::pump() {
  start_pending();
  for (;;) {
    if (stretches_ && (events_.empty() || events_.top().time > now_)) restretch();
    if (events_.empty()) return;
    const Event event = events_.top();
    if (is_void(event)) {
      events_.pop();
      continue;
    }
    if (flows_in_solver_ > 0 && event.time > solver_now_) {
      solver_->wake_at(event.time);
      return;
    }
    events_.pop();
    if (!events_.empty()) fetch(events_.top());
    now_ = std::max(now_, event.time);  // the solver rounds its times to ns
    if (event.subject >= 0) {
      end_op(event.subject, 0, lanes_of(event.subject)[0].arrived_ns);
      start_ready(event.subject);
    } else {
      advance(~event.subject);
    }
    if (pending_.empty()) continue;
    if (solver_now_ != now_) {
      solver_->wake_at(now_);
      return;
    }
    start_pending();
  }
}

void Playback::on_wake(Nanoseconds now) {
  now_ = solver_now_ = now;
  pump();
}

void Playback::on_flow_end(std::int32_t flow, Nanoseconds now) {
  now_ = solver_now_ = std::max(now, now_);
  const std::int32_t comm_class = class_of_flow_[flow];
  free_flows_.push_back(flow);
  --flows_in_solver_;
  if (--transfers_[comm_class].flows == 0) end_transfer(comm_class);
  pump();
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

// Folded ranks: an op waits for what docs/design.md says ("What a schedule means").

void Playback::start_ready(std::int32_t folded_rank) {
  const Queues& queues = *folded_ranks_[folded_rank].queues;
  const std::vector<std::vector<std::uint32_t>>& lanes = queues.of_lanes.lanes;
  PlayedLane* const played = lanes_of(folded_rank);
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    if (played[lane].busy || played[lane].done == lanes[lane].size()) continue;
    const std::uint32_t i = lanes[lane][played[lane].done];
    const Op& op = body(folded_rank).ops[i];
    const auto* wait = queues.waits.data() + op.first_wait;
    if (!std::all_of(wait, wait + op.waits, [&](const Queues::Place& place) {
          return place.on_lane < played[place.lane].done;
        }))
      continue;
    played[lane].busy = true;
    start(folded_rank, i);
  }
}

void Playback::start(std::int32_t folded_rank, std::uint32_t i) {
  PlayedRank& played = folded_ranks_[folded_rank];
  const Op& op = played.body->ops[i];
  lanes_of(folded_rank)[op.lane].arrived_ns = now_;
  __builtin_prefetch(&played.events[i], 1);  // far away: its end is written there
  if (is_compute(op.kind)) {
    const Nanoseconds duration_ns = options_.jitter.apply(op.duration_ns, index(played.rank), i);
    if (stretches_) {
      begin_shared(folded_rank, op, duration_ns);
    } else {
      schedule(now_ + duration_ns, folded_rank, 0);
    }
    return;
  }
  const std::int32_t comm_class = played.comm_classes[op.slot];
  Transfer& transfer = transfers_[comm_class];
  transfer.bytes = op.bytes;
  transfer.duration_ns = op.duration_ns;
  transfer.pattern = pattern_by(comm_class, op);
  arrive(comm_class);
}

void Playback::end_op(std::int32_t folded_rank, std::uint8_t lane, Nanoseconds start_ns) {
  PlayedRank& played = folded_ranks_[folded_rank];
  const std::uint32_t op = op_of({folded_rank, lane});
  PlayedLane& ended = lanes_of(folded_rank)[lane];
  played.events[op] = {ended.arrived_ns, start_ns, now_};
  ended.busy = false;
  ++ended.done;
  if (stretches_) leave_device(folded_rank, op);
  if (++ended_ % kProgressStep == 0) options_.on_progress(kProgressStep);
}

// Operations of a communicator class: arrival of all, latency, then bytes: alone or sharing.

void Playback::arrive(std::int32_t comm_class) {
  Transfer& transfer = transfers_[comm_class];
  if (++transfer.arrived < static_cast<std::int32_t>(transfer.members)) return;
  transfer.arrived = 0;
  transfer.start_ns = now_;
  if (stretches_) {
    for (const LaneMember& member : members_of(transfer))
      enter_device(member.folded_rank, op_of(member));
  }
  if (never_shares(transfer)) {
    transfer.phase = Phase::Alone;
    schedule(now_ + alone_ns(transfer), ~comm_class, ++transfer.generation);
  } else {
    transfer.phase = Phase::Latency;
    schedule(now_ + patterns_[transfer.pattern].latency_ns, ~comm_class, ++transfer.generation);
  }
}

std::int32_t Playback::pattern_by(std::int32_t comm_class, const Op& op) const {
  std::int32_t found =
      first_pattern_[comm_class * kCommKinds + static_cast<int>(comm_kind(op.kind))];
  if (found == kNoLinks) return kNoLinks;
  while (patterns_[found].way != op.way) ++found;
  return found;
}

Nanoseconds Playback::alone_ns(const Transfer& transfer) const {
  if (transfer.pattern == kNoLinks) return transfer.duration_ns;
  const Pattern& pattern = patterns_[transfer.pattern];
  return pattern.latency_ns + to_ns(static_cast<double>(transfer.bytes) * pattern.seconds_per_byte);
}

void Playback::advance(std::int32_t comm_class) {
  const Transfer& transfer = transfers_[comm_class];
  if (transfer.phase == Phase::Latency && transfer.bytes > 0 &&
      !patterns_[transfer.pattern].flows.empty()) {
    begin_flows(comm_class);
    return;
  }
  end_transfer(comm_class);
}

void Playback::begin_flows(std::int32_t comm_class) {
  Transfer& transfer = transfers_[comm_class];
  const Pattern& pattern = patterns_[transfer.pattern];
  transfer.flow_begin_ns = now_;
  bool contended = !options_.closed_forms || pattern.shares_with_itself;
  for (const std::int32_t link : pattern.links) {
    if (link_alone_[link] >= 0) leave_alone(link_alone_[link]);
    contended |= link_users_[link] > 0;
  }
  for (const std::int32_t link : pattern.links) {
    ++link_users_[link];
    link_alone_[link] = contended ? -1 : comm_class;
  }
  if (contended) {
    share(comm_class, 0);
    return;
  }
  transfer.phase = Phase::Alone;
  schedule(now_ + to_ns(static_cast<double>(transfer.bytes) * pattern.seconds_per_byte),
           ~comm_class, ++transfer.generation);
}

// Hands the operation's flows to the solver; `elapsed_s` of each have run alone.
void Playback::share(std::int32_t comm_class, double elapsed_s) {
  Transfer& transfer = transfers_[comm_class];
  const Pattern& pattern = patterns_[transfer.pattern];
  transfer.phase = Phase::Shared;
  ++transfer.generation;
  for (const Pattern::PatternFlow& flow : pattern.flows) {
    const double alone_s = flow.alone_s * static_cast<double>(transfer.bytes);
    const double left = 1 - elapsed_s / alone_s;
    if (left <= 0) continue;
    for (int i = 0; i < flow.multiplicity; ++i) {
      pending_.push_back(
          {comm_class, flow.route, flow.share * static_cast<double>(transfer.bytes) * left});
      ++transfer.flows;
    }
  }
  if (transfer.flows == 0) schedule(now_, ~comm_class, transfer.generation);
}

void Playback::leave_alone(std::int32_t comm_class) {
  for (const std::int32_t link : patterns_[transfers_[comm_class].pattern].links)
    link_alone_[link] = -1;
  share(comm_class, to_seconds(now_ - transfers_[comm_class].flow_begin_ns));
}

void Playback::end_transfer(std::int32_t comm_class) {
  Transfer& transfer = transfers_[comm_class];
  if (transfer.phase != Phase::Latency && !never_shares(transfer)) {
    for (const std::int32_t link : patterns_[transfer.pattern].links) {
      --link_users_[link];
      link_alone_[link] = -1;
    }
  }
  transfer.phase = Phase::Idle;
  for (const auto& [folded_rank, lane] : members_of(transfer))
    end_op(folded_rank, lane, transfer.start_ns);
  for (const auto& [folded_rank, lane] : members_of(transfer)) start_ready(folded_rank);
}

}  // namespace tandem
