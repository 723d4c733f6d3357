// Nsight Systems' SQLite, written here through SQLite itself: no export lies at hand.
#include <sqlite3.h>

#include <catch2/catch.hpp>

#include "tests/traces/profile/kineto_text.h"
#include "traces/profile/profile_notes.h"

using namespace tandem;

namespace {

constexpr std::int64_t kProcess = std::int64_t{42} << 24, kThread = kProcess + 42;

// The tables that nsys 2024 and later write, with the columns that are read.
const std::string kTables =
    "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL);"
    "INSERT INTO StringIds VALUES (1, 'nvjet_tst_128x64'), "
    "(2, 'ncclDevKernel_AllReduce_Sum_bf16_RING_LL'), (3, 'iteration 1'), (4, 'cudaLaunchKernel');"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, "
    "deviceId INTEGER, contextId INTEGER, streamId INTEGER, correlationId INTEGER, "
    "globalPid INTEGER, demangledName INTEGER, shortName INTEGER);"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER, "
    "correlationId INTEGER, nameId INTEGER);"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, deviceId INTEGER, "
    "streamId INTEGER, correlationId INTEGER, globalPid INTEGER, bytes INTEGER, copyKind INTEGER);"
    "CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT, "
    "textId INTEGER, globalTid INTEGER);"
    "CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER);"
    "INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1700000000000000000);"
    "CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT);"
    "INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA H100 80GB HBM3');";

std::string kernel(std::int64_t start, std::int64_t end, int stream, int correlation, int name,
                   int device = 0) {
  return fmt::format("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({},{},{},1,{},{},{},{},{});",
                     start, end, device, stream, correlation, kProcess, name, name);
}
std::string launch(std::int64_t start, int correlation) {
  return fmt::format("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES ({},{},{},{},4);", start,
                     start + 5, kThread, correlation);
}
std::string range(std::int64_t start, std::int64_t end, const std::string& text) {
  return fmt::format("INSERT INTO NVTX_EVENTS VALUES ({},{},59,{},{});", start, end, text, kThread);
}

std::string database(const Folder& folder, const std::string& name, const std::string& sql) {
  std::string path = folder / name;
  sqlite3* made = nullptr;
  REQUIRE(sqlite3_open(path.c_str(), &made) == SQLITE_OK);
  char* error = nullptr;
  const int code = sqlite3_exec(made, sql.c_str(), nullptr, nullptr, &error);
  INFO((error == nullptr ? "" : error));
  REQUIRE(code == SQLITE_OK);
  sqlite3_close(made);
  return path;
}

}  // namespace

TEST_CASE("Nsight's kernels, copies and NVTX ranges are read as torch.profiler's rows are") {
  const Folder folder;
  const std::string path =
      database(folder, "rank-5.sqlite",
               kTables + range(0, 1000, "NULL,3") + range(1000, 2000, "'iteration 2',NULL") +
                   range(0, 400, "'forward_step',NULL") + range(400, 900, "'backward_step',NULL") +
                   launch(100, 1) + launch(500, 2) + launch(600, 3) + launch(1100, 4) +
                   kernel(200, 10'200, 7, 1, 1) + kernel(10'200, 30'200, 7, 2, 1) +
                   kernel(25'200, 40'200, 20, 3, 2) + kernel(50'000, 60'000, 7, 4, 1) +
                   fmt::format("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES "
                               "(40200,41200,0,8,3,{},1024,1);",
                               kProcess));
  const Profile profile = read_all({path});
  REQUIRE(profile.ranks.size() == 1);
  CHECK(profile.ranks[0].rank == 5);
  CHECK(profile.ranks[0].device == "NVIDIA H100 80GB HBM3");
  CHECK(profile.ranks[0].profiler == "Nsight Systems");
  CHECK(window_of(profile).by == StepsBy::ProfilerStep);
  const ProfileSplit split = splits_in(profile).front();
  CHECK(split.kernels == 3);  // without those of the last iteration
  CHECK(split.span_ns == 41'000);
  CHECK(split.compute_ns == 30'000);
  CHECK(split.communication_ns == 15'000);
  CHECK(split.overlap_ns == 5'000);
  CHECK(split.memory_alone_ns == 1'000);
  REQUIRE(split.phases.size() == 2);
  CHECK(split.phases[0].phase == PassPhase::Forward);
  CHECK(split.phases[0].time_ns == 10'000);
  CHECK(split.phases[1].phase == PassPhase::Backward);
  CHECK(split.phases[1].time_ns == 20'000);
}

TEST_CASE("of steps within steps the outer ones count") {
  const Folder folder;
  std::string sql = kTables;
  for (int i = 0; i < 4; ++i) {
    const int begin = 1000 * i;
    sql += range(begin, begin + 1000, fmt::format("'iteration {}',NULL", i)) +
           range(begin, begin + 500, "'step 0',NULL") +
           range(begin + 500, begin + 1000, "'step 1',NULL") + launch(begin + 600, i + 1) +
           kernel(begin + 700, begin + 900, 7, i + 1, 1);
  }
  CHECK(window_of(read_all({database(folder, "node.sqlite", sql)})).steps == 3);
}

TEST_CASE("of a file with kernels of several GPUs each is a rank") {
  const Folder folder;
  const std::string path =
      database(folder, "node.sqlite",
               kTables + kernel(0, 10'000, 7, 1, 1, 0) + kernel(0, 30'000, 7, 2, 1, 1));
  const auto splits = splits_in(read_all({path}));
  REQUIRE(splits.size() == 2);
  CHECK(splits[0].span_ns == 10'000);
  CHECK(splits[1].span_ns == 30'000);
  CHECK(splits[1].rank == 1);
}

TEST_CASE("launches of whole CUDA graphs are compute, and a note says that they tell no kernels") {
  const Folder folder;
  const std::string path = database(
      folder, "graph.sqlite",
      kTables + kernel(0, 10'000, 20, 1, 2) +
          "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER NOT NULL, end INTEGER NOT "
          "NULL, deviceId INTEGER, graphId INTEGER, streamId INTEGER, correlationId INTEGER, "
          "globalPid INTEGER);" +
          fmt::format(
              "INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (10000,40000,0,1,7,2,{});",
              kProcess));
  const Profile profile = read_all({path});
  const ProfileSplit split = splits_in(profile).front();
  CHECK(split.compute_ns == 30'000);
  CHECK(split.idle_ns == 0);
  REQUIRE(split.categories.size() == 1);
  CHECK(split.categories[0].name == "CUDA graph");
  REQUIRE(profile_notes(profile).size() == 1);
  CHECK(profile_notes(profile)[0].find("1 launches of CUDA graphs count as compute") !=
        std::string::npos);
}

TEST_CASE("ranks of one file go by GPU, whatever the numbers of their processes") {
  const Folder folder;
  const auto of_process = [](std::int64_t process, int device, int end) {
    return fmt::format("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (0,{},{},1,7,1,{},1,1);", end,
                       device, process << 24);
  };
  const std::string path = database(folder, "node.sqlite",
                                    kTables + of_process(9, 0, 10'000) + of_process(5, 1, 30'000));
  const auto splits = splits_in(read_all({path}));
  REQUIRE(splits.size() == 2);
  CHECK(splits[0].span_ns == 10'000);
}

TEST_CASE("SQLite that is no export of Nsight is refused in one line") {
  const Folder folder;
  const auto refused = [&](const char* name, const std::string& sql) {
    const std::string path = database(folder, name, sql);
    return profile_refusal({path}).substr(path.size());
  };
  CHECK(refused("other.sqlite", "CREATE TABLE a (b INTEGER);") ==
        ": found no table CUPTI_ACTIVITY_KIND_KERNEL, expected SQLite of nsys export with CUDA "
        "kernels (nsys profile --trace=cuda,nvtx)");
  CHECK(refused("columns.sqlite", "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER);") ==
        ": found SQLite that cannot be read (no such column: end), expected what nsys export "
        "writes");
  CHECK(refused("empty.sqlite", kTables) ==
        ": found no kernel in CUPTI_ACTIVITY_KIND_KERNEL, expected some");
  CHECK(refused("back.sqlite", kTables + kernel(10, 5, 7, 1, 1)) ==
        ": found a kernel that ends 5 ns before it starts, expected the end behind the start");
  const auto of_values = [&](const char* name, const std::string& values) {
    return refused(name,
                   kTables + "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (" + values + ");");
  };
  const std::string no_start =
      ": found in CUPTI_ACTIVITY_KIND_KERNEL a start that is no time, expected nanoseconds";
  CHECK(of_values("text.sqlite", "'abc',10,0,1,7,1,0,1,1") == no_start);
  CHECK(of_values("real.sqlite", "1e300,10,0,1,7,1,0,1,1") == no_start);
  CHECK(of_values("far.sqlite", "-9223372036854775808,9223372036854775807,0,1,7,1,0,1,1") ==
        no_start);
  CHECK(of_values("stream.sqlite", "0,10,0,1,4294967296,1,0,1,1") ==
        ": found in CUPTI_ACTIVITY_KIND_KERNEL a streamId beyond 32 bits, expected less");
  CHECK(of_values("id.sqlite", "0,10,0,1,7,'one',0,1,1") ==
        ": found in CUPTI_ACTIVITY_KIND_KERNEL a correlationId that is no integer, expected one");
  CHECK(of_values("day.sqlite", "0,86400000000001,0,1,7,1,0,1,1") ==
        ": found a kernel of 86400000000001 ns, expected a day at most");
  CHECK(of_values("late.sqlite", "3000000000000000000,3000000000000000010,0,1,7,1,0,1,1") ==
        ": found a time more than 126 years from the clock's beginning, expected the times of one "
        "run");
  CHECK(refused("launch.sqlite", kTables + kernel(0, 10, 7, 1, 1) +
                                     "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES "
                                     "(0.5,1,0,1,4);") ==
        ": found in CUPTI_ACTIVITY_KIND_RUNTIME a start that is no time, expected nanoseconds");
  // A view may have no end.
  CHECK(refused("view.sqlite",
                "CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS WITH RECURSIVE n(start) AS (SELECT 1 "
                "UNION ALL SELECT start + 1 FROM n) SELECT start, start AS end FROM n;")
            .starts_with(": found no table CUPTI_ACTIVITY_KIND_KERNEL"));
  const std::string whole = database(folder, "whole.sqlite", kTables + kernel(0, 10'000, 7, 1, 1));
  const auto bytes = read_file(whole);
  REQUIRE(bytes.ok());
  const std::string half = folder.with("half.sqlite", bytes->substr(0, 5000));
  CHECK(profile_refusal({half}).starts_with(half + ": found SQLite that cannot be read ("));
}
