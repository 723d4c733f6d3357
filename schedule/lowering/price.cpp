// Prices communication by classes of equal communicators (rank_folding.h), each class once. The
// cluster gives a time for each way in which an operation can go (an algorithm and a protocol, such
// as a ring with LL128). An op's price is the fastest way for its bytes.
#include "schedule/lowering/price.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "schedule/program/rank_folding.h"
#include "schedule/program/split.h"

namespace tandem {

Placement in_order(int ranks) {
  Placement placement(ranks);
  for (int i = 0; i < ranks; ++i) placement[i] = static_cast<DeviceId>(i);
  return placement;
}

Placement round_robin(int ranks, int gpus_per_node) {
  CHECK(ranks % gpus_per_node == 0);
  const int nodes = ranks / gpus_per_node;
  Placement placement(ranks);
  for (int i = 0; i < ranks; ++i)
    placement[i] = static_cast<DeviceId>(i % nodes * gpus_per_node + i / nodes);
  return placement;
}

namespace {

// Limits an operation to a rate: each of its flows takes at least (the operation's bytes) / rate.
// Example: at 10 GB/s a flow with 1/4 of the bytes (its `share`) runs at 2.5 GB/s at most.
void limit(Traffic* way, double bytes_per_s) {
  if (bytes_per_s == 0) return;
  way->seconds_per_byte = std::max(way->seconds_per_byte, 1 / bytes_per_s);
  for (Flow& flow : way->flows) {
    // Seconds for each byte of the operation, by the flow's own limit or by this rate.
    const double slowest_s = std::max(limited_s(flow), 1 / bytes_per_s);
    flow.limit_bytes_per_s = flow.share / slowest_s;
  }
}

}  // namespace

Choices at_training_cost(Choices choices, GroupKind group_kind, const CommCost& cost) {
  for (Traffic& way : choices) {
    if (way.seconds_per_byte == 0) continue;  // fewer than two devices
    if (cost.posts_at_once) way.latency_ns = 0;
    way.latency_ns += to_ns(cost.overhead_s);
    // The slowdown is of tensor groups inside a node, and of all others between nodes.
    if (way.between_nodes != (group_kind == GroupKind::Tensor)) {
      for (Flow& flow : way.flows) flow.share *= cost.slowdown;
      way.seconds_per_byte *= cost.slowdown;
    }
    limit(&way, cost.limit_bytes_per_s);
  }
  return choices;
}

namespace {

std::vector<DeviceId> devices_of(const Communicator& communicator, const Placement& placement) {
  std::vector<DeviceId> devices;
  devices.reserve(communicator.members.size());
  for (const Rank member : communicator.members) devices.push_back(placement[index(member)]);
  return devices;
}

// The prices of the operations of all communicators of some programs, which have the same ranks and
// communicators. Communicators of one class communicate at the same time, so they share links.
class Prices {
 public:
  Prices(std::span<Program* const> alike, const Cluster& cluster, const Placement& placement)
      : Prices(*alike.front()) {
    for (const Program* program : alike) add_kinds(*program, cluster, placement);
  }

  const Choices& of(std::int32_t communicator, CommKind kind) const {
    const std::vector<Choices>& choices = choices_[slot(class_of_[communicator], kind)];
    return choices.size() == 1 ? choices[0] : choices[place_of_[communicator]];
  }

  // Returns a key for each rank. Two ranks of a body have equal keys if their communicators take
  // equal times, so that they can keep sharing the body.
  std::vector<std::int32_t> keys() const {
    std::vector<std::int32_t> keys(program_.ranks.size());
    if (!differ_) return keys;
    std::map<std::vector<Times>, std::int32_t> key_of;
    for (std::size_t rank = 0; rank < keys.size(); ++rank) {
      std::vector<Times> own;
      for (const std::int32_t communicator : program_.ranks[rank].communicators) {
        for (int kind = 0; kind < kCommKinds; ++kind) {
          if (choices_[slot(class_of_[communicator], static_cast<CommKind>(kind))].empty())
            continue;
          Times& times = own.emplace_back();
          for (const Traffic& way : of(communicator, static_cast<CommKind>(kind)))
            times.emplace_back(way.way, way.latency_ns, way.seconds_per_byte);
        }
      }
      keys[rank] = key_of.try_emplace(std::move(own), static_cast<std::int32_t>(key_of.size()))
                       .first->second;
    }
    return keys;
  }

 private:
  using Times = std::vector<std::tuple<int, Nanoseconds, double>>;  // for each way

  explicit Prices(const Program& program)
      : program_(program),
        folding_(program.split_from.empty() ? fold(program) : fold(before_splits(program))),
        class_of_(program.communicators.size()),
        place_of_(program.communicators.size()),
        choices_(folding_.comm_classes.size() * kCommKinds) {
    for (std::size_t c = 0; c < folding_.comm_classes.size(); ++c) {
      const CommunicatorClass& comm_class = folding_.comm_classes[c];
      for (std::size_t i = 0; i < comm_class.communicators.size(); ++i) {
        class_of_[comm_class.communicators[i]] = static_cast<std::int32_t>(c);
        place_of_[comm_class.communicators[i]] = static_cast<std::int32_t>(i);
      }
    }
  }

  void add_kinds(const Program& program, const Cluster& cluster, const Placement& placement) {
    for (const FoldedRank& folded_rank : folding_.folded_ranks) {
      for (const Op& op : program.bodies[program.ranks[index(folded_rank.rank)].body].ops) {
        if (is_compute(op.kind)) continue;
        const std::int32_t comm_class = folded_rank.comm_classes[op.slot];
        const CommKind kind = comm_kind(op.kind);
        std::vector<Choices>& choices = choices_[slot(comm_class, kind)];
        if (!choices.empty()) continue;
        choices = choices_of(folding_.comm_classes[comm_class], kind, cluster, placement);
        differ_ |= choices.size() > 1;
      }
    }
  }

  static std::size_t slot(std::int32_t comm_class, CommKind kind) {
    return static_cast<std::size_t>(comm_class) * kCommKinds + static_cast<std::size_t>(kind);
  }

  std::vector<Choices> choices_of(const CommunicatorClass& comm_class, CommKind kind,
                                  const Cluster& cluster, const Placement& placement) const {
    std::vector<std::vector<DeviceId>> instances;
    instances.reserve(comm_class.communicators.size());
    for (const std::int32_t c : comm_class.communicators)
      instances.push_back(devices_of(program_.communicators[c], placement));
    std::vector<Choices> choices = lockstep_choices(cluster, kind, instances);
    const CommCost& cost = program_.comm_costs[static_cast<std::size_t>(comm_class.group_kind)];
    for (Choices& ways : choices)
      ways = at_training_cost(std::move(ways), comm_class.group_kind, cost);
    return choices;
  }

  const Program& program_;
  const RankFolding folding_;
  // By communicator: its class, and its index in the class.
  std::vector<std::int32_t> class_of_, place_of_;
  // By slot(class, kind): one entry for all communicators of the class, or one for each.
  std::vector<std::vector<Choices>> choices_;
  bool differ_ = false;  // whether some class has an entry for each communicator
};

void price_ops(const Prices& prices, Program* program) {
  std::vector<bool> priced(program->bodies.size());
  for (const RankRow& rank : program->ranks) {
    if (priced[rank.body]) continue;
    priced[rank.body] = true;
    Body& body = program->bodies[rank.body];
    std::vector<const Op*> latest(body.slots.size());  // by slot: an equal op has the same price
    for (Op& op : body.ops) {
      if (is_compute(op.kind)) continue;
      const Op* known = std::exchange(latest[op.slot], &op);
      if (known != nullptr && known->kind == op.kind && known->bytes == op.bytes) {
        op.duration_ns = known->duration_ns;
        op.way = known->way;
        continue;
      }
      const Choices& choices = prices.of(rank.communicators[op.slot], comm_kind(op.kind));
      const Traffic& way = choices[fastest(choices, op.bytes)];
      op.duration_ns = duration_ns(way, op.bytes);
      op.way = way.way;
    }
  }
}

void mark_between_nodes(const Cluster& cluster, const Placement& placement, Program* program) {
  for (Communicator& communicator : program->communicators) {
    const NodeId first = cluster.node_of(placement[index(communicator.members.front())]);
    communicator.between_nodes = std::ranges::any_of(communicator.members, [&](Rank member) {
      return cluster.node_of(placement[index(member)]) != first;
    });
  }
}

}  // namespace

void price(Program* program, const Cluster& cluster, const Placement& placement) {
  price(std::span<Program* const>(&program, 1), cluster, placement);
}

void price(std::span<Program* const> alike, const Cluster& cluster, const Placement& placement) {
  const Prices prices(alike, cluster, placement);
  const std::vector<std::int32_t> keys = prices.keys();
  for (Program* program : alike) {
    CHECK(program->ranks.size() == alike.front()->ranks.size());
    split_bodies(program, keys);
    price_ops(prices, program);
    mark_between_nodes(cluster, placement, program);
  }
}

std::vector<std::vector<CommUse>> comm_uses(const Body& body) {
  std::vector<std::vector<CommUse>> uses(body.slots.size());
  for (const Op& op : body.ops) {
    if (op.slot < 0) continue;
    const CommUse use{comm_kind(op.kind), op.way, op.bytes};
    std::vector<CommUse>& known = uses[op.slot];
    const auto place = std::lower_bound(known.begin(), known.end(), use);
    if (place == known.end() || *place != use) {
      known.insert(place, use);
    } else {
      place->bytes = std::max(place->bytes, use.bytes);
    }
  }
  return uses;
}

Traffic traffic_of(const Program& program, std::int32_t communicator, const CommUse& use,
                   const Cluster& cluster, const Placement& placement) {
  const Communicator& group = program.communicators[communicator];
  Choices ways;
  ways.push_back(traffic_by(cluster, use.kind, devices_of(group, placement), use.way));
  ways = at_training_cost(std::move(ways), group.group_kind,
                          program.comm_costs[static_cast<std::size_t>(group.group_kind)]);
  Traffic traffic = std::move(ways[0]);
  constexpr Nanoseconds kNoFlow_ns = 10;
  const Nanoseconds bytes_ns = to_ns(static_cast<double>(use.bytes) * traffic.seconds_per_byte);
  if (bytes_ns >= kNoFlow_ns) return traffic;
  traffic.flows.clear();
  traffic.latency_ns += bytes_ns;
  traffic.seconds_per_byte = 0;
  return traffic;
}

}  // namespace tandem
