// Trace files: the CSV's rows, its inverse and its errors; the JSON for Perfetto.
#include "traces/trace_files.h"

#include <catch2/catch.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "tests/folder.h"
#include "tests/made_program.h"
#include "tests/text.h"
#include "traces/event_records.h"
#include "traces/perfetto_file.h"

using namespace tandem;

namespace {

struct Job {
  Program program;
  Trace trace;
};

// Two stages, the second folded from 48 ranks:
//   rank 0  F3 0-10, send F3 10-15 on 0>1, all-reduce 2 of 2 10-12
//   rank 1  receive F3 0, 10-15, F3 15-25 (of stage 1)
// Rank 1 comes first in the trace. The tensor lane of rank 1 has no events.
Job small_job() {
  Job job;
  job.program = made_program(R"(
    communicators: tensor, 0>1
    rank 0: F3, send3 0>1 4096B, all-reduce tensor 1000GB 2/2 stage-1
    rank 1: recv3 0>1 4096B, F3
  )");
  job.program.communicators[1].between_nodes = true;
  job.trace.meta = {{"program", "1234abcd"}, {"real", "nothing: \"simulated\""}, {"seed", ""}};
  job.trace.ranks = {{Rank{1}, 1, 48, 0}, {Rank{0}, 0, 1, 2}};
  job.trace.events = {{0, 10, 15}, {15, 15, 25}, {0, 0, 10}, {10, 10, 15}, {10, 10, 12}};
  return job;
}

constexpr const char* kColumns =
    "rank,lane,op,kind,stage,microbatch,part,bytes,arrive_ns,start_ns,end_ns\n";

// The error of reading `text` as a trace, without the folder's name.
std::string error_of(const Folder& folder, const std::string& text) {
  std::ofstream(folder / "t.csv", std::ios::binary) << text;
  const Result<TraceTable> table = read_trace_csv(folder / "t.csv");
  REQUIRE(!table.ok());
  CHECK(table.error().kind == Error::BadInput);
  return table.error().text().substr(folder.path().string().size() + 1);
}

}  // namespace

TEST_CASE("trace CSV rows are ordered by start, rank, lane, op") {
  const Folder folder;
  const Job job = small_job();
  REQUIRE(write_trace_csv(job.program, job.trace, folder / "t.csv").ok());
  // At 10 rank 0 comes before rank 1, and its lane 1 (op 2) before its lane 2 (op 1). Rank 1's body
  // counts on from 3. Of the 25, rank 0 computes 10; then its end waits for the send until 15 (the
  // all-reduce ends sooner), and nothing explains the rest. Rank 1's op waits for no receive.
  CHECK(contents(folder / "t.csv") == std::string("# program: 1234abcd\n"
                                                  "# real: nothing: \"simulated\"\n"
                                                  "# seed: \n"
                                                  "# split 0: compute_ns=10 bubble_ns=10 "
                                                  "tensor_exposed_ns=0 tensor_comm_ns=2 "
                                                  "tensor_overlap_ns=0 pipeline_exposed_ns=5 "
                                                  "pipeline_comm_ns=5 pipeline_overlap_ns=0\n"
                                                  "# split 1: ranks=48 compute_ns=10 bubble_ns=15 "
                                                  "pipeline_exposed_ns=0 pipeline_comm_ns=5 "
                                                  "pipeline_overlap_ns=0\n") +
                                          kColumns +
                                          "0,compute,0,forward,0,3,0,0,0,0,10\n"
                                          "0,tensor,2,all-reduce,-1,-1,1,1000000000000,10,10,12\n"
                                          "0,0>1,1,send,0,3,0,4096,10,10,15\n"
                                          "1,0>1,3,recv,1,3,0,4096,0,10,15\n"
                                          "1,compute,4,forward,1,3,0,0,15,15,25\n");
}

TEST_CASE("a trace written and read is the same trace") {
  const Folder folder;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    std::mt19937_64 random(seed);
    Job job = small_job();
    job.program.bodies[0].lanes[1].name = "odd, \"quoted\" lane";
    for (EventTimes& event : job.trace.events) {
      event.arrive_ns = static_cast<Nanoseconds>(random() % 1'000'000'000'000);
      event.start_ns = event.arrive_ns + static_cast<Nanoseconds>(random() % 3);
      event.end_ns = event.start_ns + static_cast<Nanoseconds>(random() % 1000);
    }
    REQUIRE(write_trace_csv(job.program, job.trace, folder / "t.csv").ok());
    const Result<TraceTable> table = read_trace_csv(folder / "t.csv");
    REQUIRE(table.ok());
    CHECK(table->path == folder / "t.csv");
    CHECK(table->meta == job.trace.meta);
    const Metrics metrics = measure(job.program, job.trace);
    REQUIRE(table->splits.size() == 2);
    for (const RankSplit& split : table->splits) {
      const RankSplit& measured = metrics.ranks[1 - index(split.rank)];
      CHECK(split.rank == measured.rank);
      CHECK(split.multiplicity == (split.rank == Rank{1} ? 48 : 1));
      CHECK(split.compute_ns == measured.compute_ns);
      CHECK(split.bubble_ns == measured.bubble_ns);
      CHECK(split.exposed_ns == measured.exposed_ns);
      CHECK(split.comm_ns == measured.comm_ns);
      CHECK(split.overlap_ns == measured.overlap_ns);
    }
    std::set<std::int64_t> ops;
    for (const TraceRow& row : table->rows) {
      ops.insert(row.op);
      const RankTrace& rank = job.trace.ranks[1 - index(row.rank)];
      const Body& body = job.program.bodies[rank.body];
      const std::size_t number = row.op - job.program.first_op(rank.body);
      const Op& op = body.ops[number];
      const EventTimes& event = job.trace.events[rank.first + number];
      CHECK(row == TraceRow{rank.rank, body.lanes[op.lane].name, row.op, op.kind, op.stage,
                            op.microbatch, op.part, op.bytes, event.arrive_ns, event.start_ns,
                            event.end_ns});
    }
    CHECK(ops == std::set<std::int64_t>{0, 1, 2, 3, 4});
  }
}

TEST_CASE("event records are the trace CSV's rows, names as numbers") {
  const Folder folder;
  const Job job = small_job();
  REQUIRE(write_trace_csv(job.program, job.trace, folder / "t.csv").ok());
  const auto table = read_trace_csv(folder / "t.csv");
  REQUIRE(table.ok());
  const std::vector<std::string> lanes = lane_names(job.program);
  CHECK(lanes == std::vector<std::string>{"compute", "tensor", "0>1"});
  std::vector<EventRecord> records;
  stream_records(job.program, job.trace, [&](std::span<const EventRecord> some) {
    records.insert(records.end(), some.begin(), some.end());
  });
  std::vector<TraceRow> rows;
  for (const EventRecord& record : records)
    rows.push_back({Rank{record.rank}, lanes[record.lane], record.op,
                    static_cast<OpKind>(record.kind), record.stage, record.microbatch, record.part,
                    record.bytes, record.arrive_ns, record.start_ns, record.end_ns});
  CHECK(rows == table->rows);
  // Compute is of no group; the transfer is of the pipeline, the all-reduce of the tensor group.
  std::vector<int> groups;
  for (const EventRecord& record : records) groups.push_back(record.group);
  CHECK(groups == std::vector<int>{-1, static_cast<int>(GroupKind::Tensor),
                                   static_cast<int>(GroupKind::Pipeline),
                                   static_cast<int>(GroupKind::Pipeline), -1});
}

TEST_CASE("events that never ended are no rows of a partial trace") {
  const Folder folder;
  Job job = small_job();
  job.trace.events[1] = {};
  job.trace.events[0] = {0, 10, -1};
  REQUIRE(write_trace_csv(job.program, job.trace, folder / "t.csv").ok());
  const Result<TraceTable> table = read_trace_csv(folder / "t.csv");
  REQUIRE(table.ok());
  CHECK(table->rows.size() == 3);
  CHECK(table->splits.empty());
  REQUIRE(write_perfetto(job.program, job.trace, folder / "t.json").ok());
  CHECK(nlohmann::json::parse(contents(folder / "t.json"))["traceEvents"].is_array());
}

TEST_CASE("trace files are the same bytes each time") {
  const Folder folder;
  const Job job = small_job();
  for (const char* name : {"a.csv", "b.csv"})
    REQUIRE(write_trace_csv(job.program, job.trace, folder / name).ok());
  for (const char* name : {"a.json", "b.json"})
    REQUIRE(write_perfetto(job.program, job.trace, folder / name).ok());
  CHECK(contents(folder / "a.csv") == contents(folder / "b.csv"));
  CHECK(contents(folder / "a.json") == contents(folder / "b.json"));
}

TEST_CASE("a bad trace file is an error with file and line") {
  const Folder folder;
  const std::string row = "0,compute,0,forward,0,3,0,0,0,0,10\n";
  const std::string columns = kColumns;
  const std::string expected =
      " expected column 1 to be 'rank' of " + columns.substr(0, columns.size() - 1);
  CHECK(error_of(folder, "") ==
        "t.csv:1: found no rows, expected the columns " + columns.substr(0, columns.size() - 1));
  CHECK(error_of(folder, row) == "t.csv:1: found '0'," + expected);
  CHECK(error_of(folder, "# a: b\nop,rank\n" + row) == "t.csv:2: found 'op'," + expected);
  CHECK_THAT(error_of(folder, "rank,lane,op\n"),
             Catch::StartsWith("t.csv:1: found 'no more cells', expected column 4 to be 'kind'"));
  CHECK_THAT(error_of(folder, columns.substr(0, columns.size() - 1) + ",colour\n"),
             Catch::StartsWith("t.csv:1: found the unknown column 'colour', expected rank,"));
  CHECK(error_of(folder, columns + row + "0,compute,1,forw") ==
        "t.csv:3: found 4 cells, expected 11");
  CHECK(error_of(folder, columns + row + "\n0,compute,1,forward,0,4,0,0,20,20,19\n") ==
        "t.csv:4: found an arrival at 20, a start at 20 and an end at 19, expected them in this "
        "order");
  CHECK(error_of(folder, columns + "0,compute,1,sideways,0,4,0,0,20,20,21\n") ==
        "t.csv:2: column 'kind': found 'sideways', expected an op's kind, as 'forward' or 'send'");
  CHECK(error_of(folder, columns + "0,compute,1,forward,0,4,0,0,20,2x,21\n") ==
        "t.csv:2: column 'start_ns': found '2x', expected an integer");
  CHECK(error_of(folder, columns + "-1,compute,1,forward,0,4,0,0,20,20,21\n") ==
        "t.csv:2: column 'rank': found -1, expected 0 to 2147483647");
  CHECK(error_of(folder, columns + "0,compute,1,forward,99999,4,0,0,20,20,21\n") ==
        "t.csv:2: column 'stage': found 99999, expected -1 to 32767");
  CHECK(error_of(folder, "# split 0: compute_ns=5 bubble_ns=x\n" + columns + row) ==
        "t.csv: '# split 0': found 'bubble_ns=x', expected as in 'compute_ns=60 bubble_ns=30'");
  for (const char* word : {"bubble_ns", "bubble_ns=", "idle_ns=5", "=5", "compute_ns=-1", "ranks=0",
                           "ranks=2147483648"})
    CHECK_THAT(
        error_of(folder, std::string("# split 0: ") + word + "\n" + columns + row),
        Catch::StartsWith(std::string("t.csv: '# split 0': found '") + word + "', expected"));
  CHECK(error_of(folder, "# split x: compute_ns=5\n" + columns + row) ==
        "t.csv: found '# split x', expected '# split ' and a rank");
  CHECK(!read_trace_csv(folder / "absent.csv").ok());
}

TEST_CASE("Perfetto has a process a rank and a thread a lane that has events") {
  const Folder folder;
  Job job = small_job();
  job.trace.events[4].end_ns = 10;  // the all-reduce: of no length, so not shown, nor its lane
  REQUIRE(write_perfetto(job.program, job.trace, folder / "t.json").ok());
  const auto json = nlohmann::json::parse(contents(folder / "t.json"));
  CHECK(json["otherData"]["real"] == "nothing: \"simulated\"");
  std::set<std::string> processes, threads, names;
  for (const auto& event : json["traceEvents"]) {
    const std::string name = event["name"], at = event["pid"].dump() + " ";
    if (name == "process_name") processes.insert(at + std::string(event["args"]["name"]));
    if (name == "process_sort_index") CHECK(event["args"]["sort_index"] == event["pid"]);
    if (name == "thread_name")
      threads.insert(at + event["tid"].dump() + " " + std::string(event["args"]["name"]));
    if (event["ph"] == "X") names.insert(at + event["tid"].dump() + " " + name);
  }
  CHECK(processes == std::set<std::string>{"0 rank 0 (stage 0)", "1 rank 1 (stage 1, x48 ranks)"});
  CHECK(threads == std::set<std::string>{"0 0 compute", "0 2 0>1", "1 0 compute", "1 2 0>1"});
  CHECK(names == std::set<std::string>{"0 0 F3", "0 2 send F3 0>1", "1 2 recv F3 0>1", "1 0 F3"});
}

TEST_CASE("Perfetto times are microseconds to the nanosecond") {
  const Folder folder;
  Job job = small_job();
  job.trace.events[0] = {1'000'000, 1'234'056, 1'235'057};
  REQUIRE(write_perfetto(job.program, job.trace, folder / "t.json").ok());
  const std::string text = contents(folder / "t.json");
  CHECK_THAT(
      text, Catch::Contains(R"({"ph":"X","pid":1,"tid":2,"ts":1234.056,"dur":1.001,)"
                            R"("name":"recv F3 0>1","cat":"pipeline",)"
                            R"("args":{"stage":1,"microbatch":3,"bytes":4096,"wait_ns":234056}})"));
  CHECK_THAT(text, Catch::Contains(R"("name":"all-reduce 2/2","cat":"tensor")"));
}

TEST_CASE("a Perfetto file of too many events is refused, and none is left behind") {
  const Folder folder;
  Job job = small_job();
  job.program.bodies[0].ops.assign(kPerfettoEventsMax + 1, Op{});
  job.program.bodies.pop_back();
  job.trace.ranks = {{Rank{0}, 0, 1, 0}};
  job.trace.events.assign(kPerfettoEventsMax + 1, {0, 0, 1});
  const Status status = write_perfetto(job.program, job.trace, folder / "t.json");
  REQUIRE(!status.ok());
  CHECK(status.error().kind == Error::BadInput);
  CHECK_THAT(status.error().text(), Catch::Contains("found 2000001 events"));
  CHECK_THAT(status.error().text(), Catch::Contains("CSV"));
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("a file that cannot be written is an error") {
  const Job job = small_job();
  CHECK(!write_trace_csv(job.program, job.trace, "/no/such/folder/t.csv").ok());
  CHECK(!write_perfetto(job.program, job.trace, "/no/such/folder/t.json").ok());
}

TEST_CASE("Perfetto shows two traces side by side, a rank's one below the other, both from 0") {
  const Folder folder;
  Job job = small_job();
  REQUIRE(write_trace_csv(job.program, job.trace, folder / "s.csv").ok());
  for (EventTimes& event : job.trace.events)  // twice as long, and 100 later
    event = {100 + 2 * event.arrive_ns, 100 + 2 * event.start_ns, 100 + 2 * event.end_ns};
  REQUIRE(write_trace_csv(job.program, job.trace, folder / "m.csv").ok());
  const auto simulated = read_trace_csv(folder / "s.csv"),
             measured = read_trace_csv(folder / "m.csv");
  REQUIRE((simulated.ok() && measured.ok()));
  REQUIRE(write_perfetto_pair(*simulated, *measured, folder / "t.json").ok());
  const auto json = nlohmann::json::parse(contents(folder / "t.json"));
  CHECK(json["otherData"]["measured program"] == "1234abcd");
  std::vector<std::string> processes(4);
  std::set<std::string> threads, events;
  for (const auto& event : json["traceEvents"]) {
    const std::string name = event["name"], at = event["pid"].dump() + " " + event["tid"].dump();
    if (name == "process_name") processes.at(event["pid"]) = event["args"]["name"];
    if (name == "process_sort_index") CHECK(event["args"]["sort_index"] == event["pid"]);
    if (name == "thread_name") threads.insert(at + " " + std::string(event["args"]["name"]));
    if (event["ph"] == "X")
      events.insert(at + " " + name + " " + event["ts"].dump() + " " + event["dur"].dump());
  }
  CHECK(processes == std::vector<std::string>{"rank 0 simulated", "rank 0 measured",
                                              "rank 1 simulated", "rank 1 measured"});
  // By first op: rank 0 sends (op 1) before it reduces (op 2).
  CHECK(threads == std::set<std::string>{"0 0 compute", "0 1 0>1", "0 2 tensor", "1 0 compute",
                                         "1 1 0>1", "1 2 tensor", "2 0 compute", "2 1 0>1",
                                         "3 0 compute", "3 1 0>1"});
  CHECK(events == std::set<std::string>{"0 0 F3 0.0 0.01", "0 1 send F3 0>1 0.01 0.005",
                                        "0 2 all-reduce 0.01 0.002", "1 0 F3 0.0 0.02",
                                        "1 1 send F3 0>1 0.02 0.01", "1 2 all-reduce 0.02 0.004",
                                        "2 0 F3 0.015 0.01", "2 1 recv F3 0>1 0.01 0.005",
                                        "3 0 F3 0.03 0.02", "3 1 recv F3 0>1 0.02 0.01"});
  CHECK_THAT(contents(folder / "t.json"),
             Catch::Contains(R"("cat":"tensor","args":{"op":2,"stage":-1,"microbatch":-1,"part":1,)"
                             R"("bytes":1000000000000,"wait_ns":0}})"));
}
