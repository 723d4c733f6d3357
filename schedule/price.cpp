#include "schedule/price.h"

#include "base/check.h"

namespace tandem {

Placement in_order(int ranks) {
  Placement placement(ranks);
  for (int i = 0; i < ranks; ++i) placement[i] = static_cast<DeviceId>(i);
  return placement;
}

Placement dealt_round(int ranks, int gpus_per_node) {
  CHECK(ranks % gpus_per_node == 0);
  const int nodes = ranks / gpus_per_node;
  Placement placement(ranks);
  for (int i = 0; i < ranks; ++i)
    placement[i] = static_cast<DeviceId>(i % nodes * gpus_per_node + i / nodes);
  return placement;
}

Choices channel_choices(const Program& program, const Channel& channel, CommKind kind,
                        const Cluster& cluster, const Placement& placement) {
  std::vector<std::vector<DeviceId>> instances;
  instances.reserve(channel.communicators.size());
  for (const std::int32_t c : channel.communicators) {
    std::vector<DeviceId>& devices = instances.emplace_back();
    for (const Rank member : program.communicators[c].members)
      devices.push_back(placement[index(member)]);
  }
  const Scope scope = program.communicators[channel.communicators.front()].scope;
  return at_cost(lockstep_choices(cluster, kind, instances), scope,
                 program.comm_costs[static_cast<std::size_t>(scope)]);
}

Choices at_cost(Choices choices, Scope scope, const CommCost& cost) {
  for (Traffic& way : choices) {
    if (way.flows.empty()) continue;
    way.latency_ns += to_ns(cost.overhead_s);
    if (way.between_nodes == (scope == Scope::Tensor)) continue;
    for (Flow& flow : way.flows) flow.share *= cost.stretch;
    way.seconds_per_byte *= cost.stretch;
  }
  return choices;
}

void price(Program* program, const Cluster& cluster, const Placement& placement) {
  const Cast cast = fold(*program);
  std::vector<Choices> cache(cast.channels.size() * kCommKinds);  // empty: not asked for yet
  for (const Player& player : cast.players) {
    for (Op& op : program->bodies[player.body].ops) {
      if (is_compute(op.kind)) continue;
      const std::int32_t channel = player.channels[op.slot];
      const CommKind kind = comm_kind(op.kind);
      Choices& cached = cache[channel * kCommKinds + static_cast<std::size_t>(kind)];
      if (cached.empty())
        cached = channel_choices(*program, cast.channels[channel], kind, cluster, placement);
      op.duration_ns = duration_ns(cached, op.bytes);
    }
  }
  for (Communicator& communicator : program->communicators) {
    const NodeId first = cluster.node_of(placement[index(communicator.members.front())]);
    communicator.between_nodes = false;
    for (const Rank member : communicator.members)
      communicator.between_nodes |= cluster.node_of(placement[index(member)]) != first;
  }
}

}  // namespace tandem
