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

Playback::Playback(const Program& program, const Cast& cast, const PlaybackOptions& options)
    : program_(program),
      cast_(cast),
      options_(options),
      queues_(lane_queues(program)),
      stretches_(takes_sms(program)),
      first_pattern_(cast.channels.size() * kCommKinds, kNoLinks),
      transfers_(cast.channels.size()),
      shared_(stretches_ ? cast.players.size() : 0) {
  std::size_t events = 0;
  for (const Player& player : cast.players) {
    const Body& ops = program.bodies[player.body];
    out_.first.push_back(events);
    events += ops.ops.size();
    players_.emplace_back(ops);
  }
  out_.events.resize(events);
}

Playback::Playback(const Program& program, const Cast& cast, const TrafficOf& traffic_of,
                   std::span<const double> link_bytes_per_s, const PlaybackOptions& options)
    : Playback(program, cast, options) {
  link_users_.resize(link_bytes_per_s.size());
  link_alone_.resize(link_bytes_per_s.size(), -1);
  add_patterns(traffic_of, link_bytes_per_s);
  mark_private();
}

void Playback::add_patterns(const TrafficOf& traffic_of, std::span<const double> link_bytes_per_s) {
  network_.bytes_per_s.assign(link_bytes_per_s.begin(), link_bytes_per_s.end());
  std::vector<std::vector<std::vector<CommUse>>> uses;
  for (const Body& body : program_.bodies) uses.push_back(comm_uses(body));
  for (std::size_t c = 0; c < cast_.channels.size(); ++c) {
    const Seat& seat = cast_.channels[c].seats.front();  // all issue the same
    for (const CommUse& use : uses[cast_.players[seat.player].body][seat.slot]) {
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
    pattern.streams.push_back({it->second, flow.share, alone_s, flow.multiplicity});
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
    const auto channel = static_cast<std::int32_t>(i / kCommKinds);
    const auto first = patterns_.begin() + first_pattern_[i];
    for (auto way = first; way != first + first->ways; ++way) {
      for (const std::int32_t link : way->links)
        user[link] = user[link] == kNobody || user[link] == channel ? channel : kMany;
    }
  }
  for (Pattern& pattern : patterns_)
    pattern.is_private = std::none_of(pattern.links.begin(), pattern.links.end(),
                                      [&](std::int32_t link) { return user[link] == kMany; });
}

Result<Replay> Playback::run(FlowSolver* solver) {
  solver_ = solver;
  for (std::size_t p = 0; p < players_.size(); ++p) start_ready(static_cast<std::int32_t>(p));
  pump();
  if (solver_ != nullptr) solver_->run(this);
  if (ended_ == out_.events.size()) return std::move(out_);
  for (std::size_t p = 0; p < players_.size(); ++p) {
    const Body& ops = body(static_cast<std::int32_t>(p));
    for (std::size_t i = 0; i < ops.ops.size(); ++i) {
      if (out_.events[out_.first[p] + i].end_ns < 0)
        return Error{
            fmt::format("the simulation ended with {} of {} ops played; the first that never "
                        "ended: {} on rank {}",
                        ended_, out_.events.size(), describe(ops, ops.ops[i]),
                        index(cast_.players[p].rank)),
            Error::Failed};
    }
  }
  CHECK(false && "an op was counted twice");
}

// The clock. Our events go first as long as no flow is in the solver; else the solver says what is
// next. Before time goes on, compute whose stretch changed gets its new end.

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
    now_ = std::max(now_, event.time);  // the solver rounds its times to ns
    if (event.subject >= 0) {
      end_op(event.subject, 0);
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
  const std::int32_t channel = channel_of_flow_[flow];
  free_flows_.push_back(flow);
  --flows_in_solver_;
  if (--transfers_[channel].flows == 0) end_transfer(channel);
  pump();
}

void Playback::start_pending() {
  for (const PendingFlow& flow : pending_) {
    if (free_flows_.empty()) {
      free_flows_.push_back(static_cast<std::int32_t>(channel_of_flow_.size()));
      channel_of_flow_.push_back(-1);
    }
    const std::int32_t number = free_flows_.back();
    free_flows_.pop_back();
    channel_of_flow_[number] = flow.channel;
    ++flows_in_solver_;
    solver_->start(number, flow.route, flow.bytes);
  }
  pending_.clear();
}

// Players: what an op waits for, as DESIGN section 3 has it.

void Playback::start_ready(std::int32_t player) {
  players_[player].start_ready(body(player), queues_[cast_.players[player].body],
                               [&](std::uint32_t op) { start(player, op); });
}

void Playback::start(std::int32_t player, std::uint32_t i) {
  const Op& op = body(player).ops[i];
  EventTimes& times = out_.events[out_.first[player] + i];
  times.arrive_ns = now_;
  if (is_compute(op.kind)) {
    times.start_ns = now_;
    const int rank = index(cast_.players[player].rank);
    const Nanoseconds duration_ns = options_.jitter.apply(op.duration_ns, rank, i);
    if (stretches_) {
      begin_shared(player, op, duration_ns);
    } else {
      schedule(now_ + duration_ns, player, 0);
    }
    return;
  }
  const std::int32_t channel = cast_.players[player].channels[op.slot];
  Transfer& transfer = transfers_[channel];
  transfer.bytes = op.bytes;
  transfer.duration_ns = op.duration_ns;
  transfer.pattern = pattern_by(channel, op);
  arrive(channel);
}

void Playback::end_op(std::int32_t player, std::uint8_t lane) {
  const std::uint32_t op = players_[player].end(queues_[cast_.players[player].body], lane);
  out_.events[out_.first[player] + op].end_ns = now_;
  if (stretches_) leave_device(player, op);
  if (++ended_ % kProgressStep == 0) options_.on_progress(kProgressStep);
}

// Operations of a channel: arrival of all, latency, then bytes: alone or sharing.

void Playback::arrive(std::int32_t channel) {
  Transfer& transfer = transfers_[channel];
  const std::vector<Seat>& seats = cast_.channels[channel].seats;
  if (++transfer.arrived < static_cast<std::int32_t>(seats.size())) return;
  transfer.arrived = 0;
  for (const Seat& seat : seats) {
    const std::uint8_t lane = body(seat.player).slots[seat.slot].lane;
    const std::uint32_t op =
        queues_[cast_.players[seat.player].body].lanes[lane][players_[seat.player].done[lane]];
    out_.events[out_.first[seat.player] + op].start_ns = now_;
    if (stretches_) enter_device(seat.player, op);
  }
  if (never_shares(transfer)) {
    transfer.phase = Phase::Alone;
    schedule(now_ + alone_ns(transfer), ~channel, ++transfer.generation);
  } else {
    transfer.phase = Phase::Latency;
    schedule(now_ + patterns_[transfer.pattern].latency_ns, ~channel, ++transfer.generation);
  }
}

std::int32_t Playback::pattern_by(std::int32_t channel, const Op& op) const {
  std::int32_t found = first_pattern_[channel * kCommKinds + static_cast<int>(comm_kind(op.kind))];
  if (found == kNoLinks) return kNoLinks;
  while (patterns_[found].way != op.way) ++found;
  return found;
}

Nanoseconds Playback::alone_ns(const Transfer& transfer) const {
  if (transfer.pattern == kNoLinks) return transfer.duration_ns;
  const Pattern& pattern = patterns_[transfer.pattern];
  return pattern.latency_ns + to_ns(static_cast<double>(transfer.bytes) * pattern.seconds_per_byte);
}

void Playback::advance(std::int32_t channel) {
  const Transfer& transfer = transfers_[channel];
  if (transfer.phase == Phase::Latency && transfer.bytes > 0 &&
      !patterns_[transfer.pattern].streams.empty()) {
    begin_flows(channel);
    return;
  }
  end_transfer(channel);
}

void Playback::begin_flows(std::int32_t channel) {
  Transfer& transfer = transfers_[channel];
  const Pattern& pattern = patterns_[transfer.pattern];
  transfer.flow_begin_ns = now_;
  bool contended = !options_.closed_forms || pattern.shares_with_itself;
  for (const std::int32_t link : pattern.links) {
    if (link_alone_[link] >= 0) leave_alone(link_alone_[link]);
    contended |= link_users_[link] > 0;
  }
  for (const std::int32_t link : pattern.links) {
    ++link_users_[link];
    link_alone_[link] = contended ? -1 : channel;
  }
  if (contended) {
    share(channel, 0);
    return;
  }
  transfer.phase = Phase::Alone;
  schedule(now_ + to_ns(static_cast<double>(transfer.bytes) * pattern.seconds_per_byte), ~channel,
           ++transfer.generation);
}

// Hands the operation's flows to the solver; `elapsed_s` of each have run alone.
void Playback::share(std::int32_t channel, double elapsed_s) {
  Transfer& transfer = transfers_[channel];
  const Pattern& pattern = patterns_[transfer.pattern];
  transfer.phase = Phase::Shared;
  ++transfer.generation;
  for (const Pattern::Stream& stream : pattern.streams) {
    const double alone_s = stream.alone_s * static_cast<double>(transfer.bytes);
    const double left = 1 - elapsed_s / alone_s;
    if (left <= 0) continue;
    for (int i = 0; i < stream.multiplicity; ++i) {
      pending_.push_back(
          {channel, stream.route, stream.share * static_cast<double>(transfer.bytes) * left});
      ++transfer.flows;
    }
  }
  if (transfer.flows == 0) schedule(now_, ~channel, transfer.generation);
}

void Playback::leave_alone(std::int32_t channel) {
  for (const std::int32_t link : patterns_[transfers_[channel].pattern].links)
    link_alone_[link] = -1;
  share(channel, to_seconds(now_ - transfers_[channel].flow_begin_ns));
}

void Playback::end_transfer(std::int32_t channel) {
  Transfer& transfer = transfers_[channel];
  if (transfer.phase != Phase::Latency && !never_shares(transfer)) {
    for (const std::int32_t link : patterns_[transfer.pattern].links) {
      --link_users_[link];
      link_alone_[link] = -1;
    }
  }
  transfer.phase = Phase::Idle;
  for (const Seat& seat : cast_.channels[channel].seats)
    end_op(seat.player, body(seat.player).slots[seat.slot].lane);
  for (const Seat& seat : cast_.channels[channel].seats) start_ready(seat.player);
}

}  // namespace tandem
