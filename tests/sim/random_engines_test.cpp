// Random Programs on random clusters: simgrid's times are ideal's where no two communications meet
// on a node, never sooner where they do, and the same folded and unfolded. With and without the
// closed forms they are the same, whatever shares NICs and takes SMs.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/parallel/parallel.h"
#include "schedule/lowering/price.h"
#include "sim/engines.h"
#include "tests/needs.h"
#include "tests/sim/random_cases.h"

using namespace tandem;

namespace {

// Every GPU has a NIC of its own, so that what one GPU does leaves the links of the others alone;
// or up to four share one.
enum class Nics { Own, Shared };

ClusterSpec random_cluster(std::uint64_t seed, Nics nics = Nics::Own) {
  const auto draw = [&](std::uint64_t number, std::uint64_t below) {
    return scatter(scatter(seed) + number) % below;
  };
  ClusterSpec spec;
  spec.name = "random";
  spec.gpus_per_node = 1 << draw(1, 3);
  spec.nics_per_node = spec.gpus_per_node;
  if (nics == Nics::Shared) spec.nics_per_node = std::max<int>(1, spec.gpus_per_node >> draw(6, 3));
  spec.intra_bytes_per_s = 1e9 * static_cast<double>(1 + draw(2, 20));
  spec.nic_bytes_per_s = 1e9 * static_cast<double>(1 + draw(3, 5));
  spec.intra_latency_s = 1e-7 * static_cast<double>(draw(4, 5));
  spec.inter_latency_s = 1e-6 * static_cast<double>(draw(5, 3));
  return spec;
}

// Priced on it, and the cluster.
struct PricedCase {
  Program program;
  Cluster cluster;
};

PricedCase priced(const RandomJob& job, std::uint64_t seed, Nics nics = Nics::Own) {
  const ClusterSpec spec = random_cluster(seed, nics);
  Program program = with_bytes(program_of(job), seed, 20'000);
  const int gpus = static_cast<int>(program.ranks.size());
  const int nodes = (gpus + spec.gpus_per_node - 1) / spec.gpus_per_node;
  auto cluster = Cluster::build(spec, nodes > 1 ? nodes * spec.gpus_per_node : gpus);
  if (!cluster.ok()) FAIL(cluster.error().text());
  program = times_as_long(std::move(program), 40);  // compute, as long as messages take
  price(&program, *cluster, in_order(gpus));
  return {std::move(program), *std::move(cluster)};
}

// From a process of its own: SimGrid is used once in each. The events' ends.
Result<std::string> ends_by_simgrid(const PricedCase& made, bool fold, bool closed_forms = true) {
  SimOptions options;
  options.fold = fold;
  options.closed_forms = closed_forms;
  const int gpus = static_cast<int>(made.program.ranks.size());
  ASSIGN_OR_RETURN(const Trace trace, simgrid(made.program, made.cluster, in_order(gpus), options));
  std::string text;
  for (const EventTimes& event : trace.events) text += fmt::format("{} ", event.end_ns);
  return text;
}

std::vector<Nanoseconds> numbers(const std::string& text) {
  std::istringstream in(text);
  std::vector<Nanoseconds> read;
  for (Nanoseconds each = 0; in >> each;) read.push_back(each);
  return read;
}

// A communication in flight as ideal plays it, and the nodes that it is on.
struct Flight {
  Nanoseconds start_ns = 0, end_ns = 0;
  std::set<int> nodes;
};

// Whether two communications share a node at one time.
bool contends(const PricedCase& made, const Trace& trace, int gpus_per_node) {
  std::map<std::pair<std::int32_t, Nanoseconds>, Flight> flights;
  for (const RankTrace& rank : trace.ranks) {
    const auto events = trace.events_of(made.program, rank);
    const Body& body = made.program.bodies[rank.body];
    for (std::size_t i = 0; i < events.size(); ++i) {
      const Op& op = body.ops[i];
      if (op.slot < 0) continue;
      const auto through = made.program.ranks[index(rank.rank)].communicators[op.slot];
      Flight& flight = flights[{through, events[i].end_ns}];
      flight.start_ns = events[i].start_ns;
      flight.end_ns = events[i].end_ns;
      for (const Rank member : made.program.communicators[through].members)
        flight.nodes.insert(index(member) / gpus_per_node);
    }
  }
  for (auto one = flights.begin(); one != flights.end(); ++one)
    for (auto other = std::next(one); other != flights.end(); ++other) {
      const Flight &a = one->second, &b = other->second;
      if (a.start_ns >= b.end_ns || b.start_ns >= a.end_ns) continue;
      if (std::ranges::any_of(a.nodes, [&](int node) { return b.nodes.count(node) > 0; }))
        return true;
    }
  return false;
}

struct Seen {
  int alone = 0, contending = 0, longer = 0;
};

Nanoseconds last(const std::vector<Nanoseconds>& ends) {
  return ends.empty() ? 0 : *std::ranges::max_element(ends);
}

std::string fault(const RandomJob& job, std::uint64_t seed, Seen* seen) {
  const PricedCase made = priced(job, seed);
  SimOptions unfolded;
  unfolded.fold = false;
  const auto alone = ideal(made.program, unfolded);
  if (!alone.ok()) return "does not end: " + alone.error().text();
  const auto texts = fork_map(2, 2, [&](int folded) { return ends_by_simgrid(made, folded == 1); });
  for (const auto& text : texts)
    if (!text.ok()) return "does not end in simgrid: " + text.error().text();
  const std::vector<Nanoseconds> ends = numbers(*texts[0]), folded = numbers(*texts[1]);
  if (ends.size() != alone->events.size()) return "has other events in simgrid";
  // Times are rounded to the nanosecond op by op.
  const auto room = static_cast<Nanoseconds>(ends.size()) + last(ends) / 1'000'000;
  if (std::abs(last(ends) - last(folded)) > room)
    return fmt::format("takes {} ns in simgrid, {} folded", last(ends), last(folded));
  const bool meets = contends(made, *alone, random_cluster(seed).gpus_per_node);
  bool longer = false;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const Nanoseconds difference = ends[i] - alone->events[i].end_ns;
    longer |= difference > room;
    if (difference < -room) return fmt::format("event {} ends {} ns too soon", i, -difference);
    if (!meets && difference > room)
      return fmt::format("event {} ends {} ns too late: nothing contends", i, difference);
  }
  ++(meets ? seen->contending : seen->alone);
  seen->longer += longer ? 1 : 0;
  return "";
}

// Every third Program's communication takes SMs from the compute beside it.
Program with_sms(Program program, std::uint64_t seed) {
  if (seed % 3 != 0) return program;
  program.device = {.sms = 100, .memory_bytes_per_s = 1e12};
  for (Body& body : program.bodies)
    for (Op& op : body.ops)
      if (op.slot >= 0) op.sms = static_cast<std::int16_t>(scatter(seed) % 40);
  return program;
}

std::string solver_fault(const RandomJob& job, std::uint64_t seed) {
  PricedCase made = priced(job, seed, Nics::Shared);
  made.program = with_sms(std::move(made.program), seed);
  const auto texts = fork_map(
      2, 2, [&](int closed_forms) { return ends_by_simgrid(made, false, closed_forms == 1); });
  for (const auto& text : texts)
    if (!text.ok()) return "does not end in simgrid: " + text.error().text();
  const std::vector<Nanoseconds> solved = numbers(*texts[0]), closed = numbers(*texts[1]);
  const auto room = static_cast<Nanoseconds>(closed.size()) + last(closed) / 1'000'000;
  for (std::size_t i = 0; i < closed.size(); ++i) {
    if (std::abs(closed[i] - solved[i]) > room)
      return fmt::format("event {} ends at {} ns, at {} with every flow in the solver", i,
                         closed[i], solved[i]);
  }
  return "";
}

}  // namespace

TEST_CASE("random Programs: simgrid is ideal where nothing contends, else no sooner") {
  need_simgrid();
  Seen seen;
  const int count = random_programs_or(500);
  check_random_programs(
      count, [&](const RandomJob& job, std::uint64_t seed) { return fault(job, seed, &seen); });
  INFO(seen.alone << " alone, " << seen.contending << " contending, " << seen.longer << " longer");
  CHECK(seen.alone > count / 10);
  CHECK(seen.contending > count / 10);
  CHECK(seen.longer > count / 50);
}

TEST_CASE("random Programs: closed forms are what the solver gives, whatever shares NICs") {
  need_simgrid();
  check_random_programs(random_programs_or(500), solver_fault);
}
