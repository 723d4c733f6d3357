// Random Programs as others read them: Chakra traces that come back, and a trace's three files,
// which tell the same events.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/file.h"
#include "interop/chakra/chakra_file.h"
#include "schedule/chakra/export_chakra.h"
#include "schedule/chakra/import_chakra.h"
#include "schedule/program/validate.h"
#include "sim/engines.h"
#include "tests/folder.h"
#include "tests/sim/random_cases.h"
#include "traces/timeline_json.h"
#include "traces/trace_files.h"

using namespace tandem;

namespace {

using Json = nlohmann::json;

constexpr Nanoseconds kMicro = 1000;

Nanoseconds makespan(const Program& program) {
  const auto trace = ideal(program);
  if (!trace.ok()) return -1;
  Nanoseconds end = 0;
  for (const EventTimes& times : trace->events) end = std::max(end, times.end_ns);
  return end;
}

// How many ops of each kind all ranks have; a ring shift is a transfer and its end.
std::vector<int> counts(const Program& program) {
  std::vector<int> ops(kOpKinds);
  for (const RankRow& rank : program.ranks)
    for (const Op& op : program.bodies[rank.body].ops) {
      if (op.kind != OpKind::RingShift) {
        ++ops[static_cast<std::size_t>(op.kind)];
        continue;
      }
      ++ops[static_cast<std::size_t>(OpKind::Send)];
      ++ops[static_cast<std::size_t>(OpKind::Recv)];
    }
  return ops;
}

bool goes_round(const Program& program) {
  return std::ranges::any_of(program.ranks, [&](const RankRow& rank) {
    return std::ranges::any_of(program.bodies[rank.body].ops, [&](const Op& op) {
      return op.kind == OpKind::RingShift &&
             program.communicators[rank.communicators[op.slot]].members.size() > 2;
    });
  });
}

std::string fault_of_chakra(const RandomJob& job, std::uint64_t seed, int* exact) {
  // An all-gather says what a rank puts in: the whole is a multiple of that.
  Program program = with_bytes(program_of(job), seed, 20'000);
  for (Body& body : program.bodies)
    for (Op& op : body.ops) op.bytes *= 60;
  program = times_as_long(std::move(program), 137);
  const auto made = ChakraExport::of(program);
  if (!made.ok()) return "cannot be exported: " + made.error().text();
  ChakraJob read{.prefix = "a"};
  for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
    auto trace = decode_chakra(encode_chakra(made->rank(static_cast<Rank>(rank))), "a");
    if (!trace.ok()) return "cannot be read: " + trace.error().text();
    read.ranks.push_back(*std::move(trace));
  }
  read.groups = made->groups();
  read.groups_path = "groups.json";
  const auto back = import_chakra(read, false);
  if (!back.ok()) {
    // Nothing but what is shorter than half a microsecond.
    const bool is_short = back.error().text().find("without duration_micros") != std::string::npos;
    return is_short ? "" : "cannot be imported: " + back.error().text();
  }
  if (const Status valid = validate(back->program); !valid.ok())
    return "comes back as one that is refused: " + valid.error().text();
  if (counts(back->program) != counts(program)) return "comes back with other ops";
  const Nanoseconds difference = makespan(back->program) - makespan(program);
  // What goes round three ranks or more comes back as transfers, which wait for neighbours alone.
  if (goes_round(program)) return "";
  if (difference < -kMicro) return fmt::format("comes back {} ns shorter", -difference);
  const bool loses_lanes = std::ranges::any_of(made->lost(), [](const std::string& line) {
    return line.find("become one") != std::string::npos;
  });
  if (loses_lanes) return "";
  if (difference > kMicro) return fmt::format("comes back {} ns longer", difference);
  ++*exact;
  return "";
}

// An event as all files tell it. Compute has no bytes in Perfetto's.
using Shown = std::tuple<int, std::string, Nanoseconds, Nanoseconds, std::string, int, int, Bytes>;

void show(int rank, const std::string& lane, Nanoseconds start_ns, Nanoseconds length_ns,
          const std::string& kind, int stage, int microbatch, Bytes bytes,
          std::vector<Shown>* shown) {
  if (length_ns > 0)
    shown->emplace_back(rank, lane, start_ns, length_ns, kind, stage, microbatch, bytes);
}

std::vector<Shown> by_csv(const TraceTable& table) {
  std::vector<Shown> shown;
  for (const TraceRow& row : table.rows)
    show(index(row.rank), row.lane, row.start_ns, row.end_ns - row.start_ns,
         std::string(op_kind_name(row.kind)), row.stage, row.microbatch, row.bytes, &shown);
  return shown;
}

// Its name tells the kind in words of its own: compute or not is what can be compared.
std::vector<Shown> by_perfetto(const Json& json) {
  std::map<std::pair<int, int>, std::string> lanes;
  for (const Json& event : json["traceEvents"])
    if (event["name"] == "thread_name") lanes[{event["pid"], event["tid"]}] = event["args"]["name"];
  const auto ns = [](const Json& us) {
    return static_cast<Nanoseconds>(std::llround(us.get<double>() * 1000));
  };
  std::vector<Shown> shown;
  for (const Json& event : json["traceEvents"]) {
    if (event["ph"] != "X") continue;
    const Json& args = event["args"];
    show(event["pid"], lanes.at({event["pid"], event["tid"]}), ns(event["ts"]), ns(event["dur"]),
         event["cat"] == "compute" ? "compute" : "", args["stage"], args["microbatch"],
         args.value("bytes", Bytes{0}), &shown);
  }
  return shown;
}

// A column of the page's: one value for all, or one each.
std::int64_t cell(const Json& lane, const char* column, std::size_t i) {
  return lane[column].is_array() ? lane[column][i] : lane[column];
}

std::vector<Shown> by_page(const Json& json) {
  std::vector<Shown> shown;
  for (const Json& rank : json["ranks"])
    for (const Json& lane : rank["lanes"])
      for (std::size_t i = 0; i < lane["events"]; ++i)
        show(rank["rank"], lane["name"], cell(lane, "start_ns", i), cell(lane, "length_ns", i),
             json["kinds"][static_cast<std::size_t>(cell(lane, "kind", i))],
             static_cast<int>(cell(lane, "stage", i)),
             static_cast<int>(cell(lane, "microbatch", i)), cell(lane, "bytes", i), &shown);
  return shown;
}

bool same(std::vector<Shown> one, std::vector<Shown> other) {
  std::ranges::sort(one);
  std::ranges::sort(other);
  return one == other;
}

std::vector<Shown> with_kinds_as_in_perfetto(std::vector<Shown> shown) {
  for (Shown& each : shown) {
    std::string& kind = std::get<4>(each);
    bool computes = false;
    for (int i = 0; i < kOpKinds; ++i) {
      const auto known = static_cast<OpKind>(i);
      computes |= is_compute(known) && kind == op_kind_name(known);
    }
    kind = computes ? "compute" : "";
  }
  return shown;
}

std::string fault_of_files(const RandomJob& job) {
  const Program program = program_of(job);
  SimOptions unfolded;
  unfolded.fold = false;
  const auto trace = ideal(program, unfolded);
  if (!trace.ok()) return "does not end";
  const Folder folder;
  if (!write_trace_csv(program, *trace, folder / "t.csv").ok()) return "has no CSV";
  if (!write_perfetto(program, *trace, folder / "t.json").ok()) return "has no JSON";
  const auto table = read_trace_csv(folder / "t.csv");
  if (!table.ok()) return "has a CSV that is refused: " + table.error().text();
  const auto perfetto = read_file(folder / "t.json");
  if (!perfetto.ok()) return "has a JSON that cannot be read";
  const std::vector<Shown> rows = by_csv(*table);
  if (!same(rows, by_page(Json::parse(timeline_json(program, *trace)))))
    return "has other events on its page than in its CSV";
  if (!same(rows, by_page(Json::parse(timeline_json(*table)))))
    return "has other events on the page of its CSV than in that";
  if (!same(with_kinds_as_in_perfetto(rows), by_perfetto(Json::parse(*perfetto))))
    return "has other events in its JSON than in its CSV";
  return "";
}

}  // namespace

TEST_CASE("random Programs come back from Chakra as long as they were, or longer by lost lanes") {
  int exact = 0;
  const int count = random_programs_or(500);
  check_random_programs(count, [&](const RandomJob& job, std::uint64_t seed) {
    return fault_of_chakra(job, seed, &exact);
  });
  CHECK(exact > count / 10);
}

TEST_CASE(
    "random Programs: a trace's CSV, its JSON for Perfetto and its page tell the same events") {
  check_random_programs(random_programs_or(500),
                        [](const RandomJob& job, std::uint64_t) { return fault_of_files(job); });
}
