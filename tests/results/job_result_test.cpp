// The files of a run: all of them, or none.
#include "results/job_result.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "tests/folder.h"
#include "tests/made_program.h"
#include "traces/perfetto_file.h"

using namespace tandem;

namespace {

OutputFiles all_files(const Folder& folder) {
  return {.trace_csv = folder / "t.csv",
          .perfetto = folder / "t.json",
          .svg = folder / "t.svg",
          .kineto = folder / "profiles"};
}

// Plays an op of a nanosecond on each of so many ranks.
Trace trace_of(int ranks) {
  Trace trace;
  for (int rank = 0; rank < ranks; ++rank) {
    trace.ranks.push_back({Rank{rank}, 0, 1, trace.events.size()});
    trace.events.push_back({0, 0, 1});
  }
  return trace;
}

// Returns why no file is written.
std::string refusal(const Program& program, Trace trace, const OutputFiles& files) {
  std::vector<std::string> warnings;
  const Status written = write_files(program, &trace, files, &warnings);
  REQUIRE(!written.ok());
  for (const std::string& path : {files.trace_csv, files.perfetto, files.svg}) {
    INFO(path);
    CHECK(!std::filesystem::exists(path));
  }
  CHECK(!std::filesystem::exists(std::filesystem::path(files.kineto) / "rank-0.json"));
  return written.error().text();
}

}  // namespace

TEST_CASE("a run whose files are all fine has them all") {
  const Folder folder;
  const OutputFiles files = all_files(folder);
  Trace trace = trace_of(1);
  std::vector<std::string> warnings;
  REQUIRE(write_files(made_program("rank 0: F0"), &trace, files, &warnings).ok());
  for (const std::string& path : {files.trace_csv, files.perfetto, files.svg, files.kineto})
    CHECK(std::filesystem::exists(path));
}

TEST_CASE("a run of which one file is refused has none") {
  const Folder folder;
  const OutputFiles files = all_files(folder);
  const Program one = made_program("rank 0: F0");

  std::string ranks;
  for (int rank = 0; rank < 65; ++rank) ranks += "rank " + std::to_string(rank) + ": F0\n";
  const Program many = made_program(ranks);
  Trace of_many = trace_of(65);
  for (std::size_t i = 0; i < of_many.ranks.size(); ++i) of_many.ranks[i].body = many.ranks[i].body;
  CHECK(refusal(many, of_many, files).find("t.svg: found 65 ranks") != std::string::npos);

  Program long_one = one;
  long_one.bodies[0].ops.assign(kPerfettoEventsMax + 1, one.bodies[0].ops[0]);
  Trace of_long = trace_of(1);
  of_long.events.assign(kPerfettoEventsMax + 1, {0, 0, 1});
  CHECK(refusal(long_one, of_long, files).find("t.json: found 2000001 events") !=
        std::string::npos);

  std::filesystem::create_directory(files.kineto);
  std::ofstream(std::filesystem::path(files.kineto) / "rank-7.json") << "{}";
  CHECK(refusal(one, trace_of(1), files).find("found rank-7.json in it") != std::string::npos);
}
