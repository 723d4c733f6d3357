// What orders do again and again: an order of more microbatches is one of fewer with rounds put in.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <optional>
#include <random>
#include <vector>

#include "schedule/order/named_orders.h"
#include "tests/made_order.h"
#include "tests/seed.h"

using namespace tandem;

namespace {

using Actions = std::vector<Action>;

Action later(Action action, int microbatches) {
  action.microbatch = Microbatch{index(action.microbatch) + microbatches};
  return action;
}

// One rank's actions with `more` rounds put in, each so many microbatches later than the one
// before. The longer list, of one round more, shows where; nothing where it is no such list.
std::optional<Actions> with_rounds(const Actions& few, const Actions& many, int microbatches,
                                   int more) {
  const std::size_t round = many.size() - few.size();
  std::size_t front = 0;
  while (front < few.size() && few[front] == many[front]) ++front;
  if (front < round) return std::nullopt;
  for (std::size_t i = front; i < many.size(); ++i)
    if (many[i] != later(few[i - round], microbatches)) return std::nullopt;
  Actions made(few.begin(), few.begin() + static_cast<std::ptrdiff_t>(front));
  for (std::size_t i = front; i < few.size() + round * more; ++i)
    made.push_back(later(i < front + round * more ? made[i - round] : few[i - round * more],
                         i < front + round * more ? microbatches : microbatches * more));
  return made;
}

}  // namespace

TEST_CASE("orders made for costs repeat rounds, whatever the number of microbatches") {
  const unsigned seed = test_seed();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  int found = 0, looked = 0;
  for (const char* name : {"zb1p", "zb2p", "zbv", "v-half", "v-min"}) {
    for (int i = 0; i < 10; ++i) {
      OrderSpec spec;
      spec.name = name;
      spec.pp = 1 + static_cast<int>(random() % 16);
      spec.vpp = traits_of(spec).default_vpp();
      const auto cost = [&] { return static_cast<double>(1 + random() % 20); };
      const double transfer = i % 3 == 0 ? 0 : static_cast<double>(random() % 5);
      for (int stage = 0; i % 2 == 0 && stage < spec.pp * spec.vpp; ++stage)
        spec.stage_costs.push_back({cost(), cost(), cost(), transfer});
      spec.costs = {cost(), cost(), cost(), transfer};
      if (i % 4 == 3) spec.memory_limit = spec.vpp + static_cast<int>(random() % 20);
      spec.microbatches = 2000;
      const auto [round, fill] = traits_of(spec).rounds(spec);
      ++looked;
      if (round == 0) continue;
      ++found;
      INFO(name << " pp " << spec.pp << ", case " << i << ": rounds of " << round << " from "
                << fill);
      spec.microbatches = fill + static_cast<int>(random() % 7);
      const Order few = made_order(spec);
      spec.microbatches += round;
      const Order many = made_order(spec);
      const int more = 2 + static_cast<int>(random() % 20);
      spec.microbatches += (more - 1) * round;
      const Order all = made_order(spec);
      for (int rank = 0; rank < spec.pp; ++rank) {
        const auto with = with_rounds(few.ranks[rank], many.ranks[rank], round, more);
        REQUIRE(with);
        REQUIRE(*with == all.ranks[rank]);
      }
    }
  }
  INFO(found << " of " << looked);
  CHECK(found > looked / 2);
}
