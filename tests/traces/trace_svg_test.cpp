// The SVG timeline: well-formed, a band a rank, everything inside the plot, small, refused where
// there are too many rows.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <random>
#include <regex>
#include <vector>

#include "tests/folder.h"
#include "tests/made_program.h"
#include "tests/text.h"
#include "traces/trace_files.h"

using namespace tandem;

namespace {

struct Job {
  Program program;
  Trace trace;
};

// Ranks of a body each: forwards and backwards by turns, and a send after each on a lane of its
// own. `length` gives an event's nanoseconds.
template <class Length>
Job job_of(int ranks, int ops, const Length& length) {
  Job job;
  std::string text = "communicators: tensor, pipeline on 0>1\n";
  for (int rank = 0; rank < ranks; ++rank) {
    job.trace.ranks.push_back({Rank{rank}, rank, rank + 1, job.trace.events.size()});
    Nanoseconds now = 0;
    for (int i = 0; i < ops; ++i) {
      text += fmt::format("rank {}: {}{}, send{} pipeline on 0>1\n", rank, i % 2 ? 'B' : 'F', i / 2,
                          i / 2);
      const Nanoseconds end = now + length();
      job.trace.events.push_back({now, now, end});
      job.trace.events.push_back({end, end, end + 1});
      now = end + 1;
    }
  }
  job.program = made_program(text, "a < b & \"c\"");
  return job;
}

std::string svg_of(const Job& job) {
  const Folder folder;
  REQUIRE(write_svg(job.program, job.trace, folder / "t.svg").ok());
  return contents(folder / "t.svg");
}

// The ends of all strokes of blocks, in hundredths of a pixel of the plot.
std::vector<long> block_ends(const std::string& text) {
  const std::regex path("scale\\(\\.01 1\\)\"[^>]* d=\"M0 [0-9.]+([^\"]*)\"");
  const std::regex step("([mh])(-?[0-9]+)");
  std::vector<long> ends;
  for (std::sregex_iterator it(text.begin(), text.end(), path), end; it != end; ++it) {
    const std::string steps = (*it)[1];
    long at = 0;
    for (std::sregex_iterator move(steps.begin(), steps.end(), step); move != end; ++move) {
      at += std::stol((*move)[2]);
      if ((*move)[1] == "h") ends.push_back(at);
    }
  }
  return ends;
}

}  // namespace

TEST_CASE("a timeline's tags are balanced, its text escaped, its background its own") {
  const std::string text = svg_of(job_of(3, 8, [] { return 1000; }));
  const std::regex tag("<(/?)([a-z]+)((?: [a-zA-Z-]+=\"[^\"<]*\")*)(/?)>");
  std::vector<std::string> open;
  std::size_t tags = 0;
  for (std::sregex_iterator it(text.begin(), text.end(), tag), end; it != end; ++it, ++tags) {
    if ((*it)[1].length() > 0) {
      REQUIRE(!open.empty());
      CHECK(open.back() == (*it)[2]);
      open.pop_back();
    } else if ((*it)[4].length() == 0) {
      open.push_back((*it)[2]);
    }
  }
  CHECK(open.empty());
  CHECK(tags == static_cast<std::size_t>(count(text, "<")));
  CHECK_THAT(text, Catch::Contains("<title>a &lt; b &amp; &quot;c&quot;</title>"));
  CHECK_THAT(text, Catch::Contains(">0&gt;1</text>"));
  CHECK_THAT(text, Catch::Contains("fill=\"#ffffff\""));
}

TEST_CASE("a timeline has a band a rank and a row a lane that has events, in order of rank") {
  Job job = job_of(3, 8, [] { return 1000; });
  std::swap(job.trace.ranks[0], job.trace.ranks[2]);
  const std::string text = svg_of(job);
  CHECK(count(text, "class=\"band\"") == 3);
  CHECK(count(text, ">compute</text>") == 3);
  CHECK(count(text, ">0&gt;1</text>") == 3);
  CHECK(count(text, ">tensor</text>") == 0);  // nor in the legend
  const auto first = text.find(">rank 0, stage 0<"), last = text.find(">rank 2, stage 2, x3<");
  REQUIRE(last != std::string::npos);
  CHECK(first < last);
  CHECK(svg_of(job) == text);
}

TEST_CASE("blocks have their place and their microbatch") {
  // Two parts of F0 from 0 to 50, B0 to 100: of the plot's 1060 pixels a half each.
  Job job = job_of(1, 2, [] { return 1; });
  job.program.bodies[0].ops = {{.kind = OpKind::Forward, .stage = 0, .microbatch = 7},
                               {.kind = OpKind::Forward, .stage = 0, .microbatch = 7},
                               {.kind = OpKind::Backward, .stage = 0, .microbatch = 8}};
  job.trace.events = {{0, 0, 20}, {20, 20, 50}, {50, 50, 100}};
  const std::string text = svg_of(job);
  CHECK(block_ends(text) == std::vector<long>{53000, 106000});
  CHECK(count(text, ">7</text>") == 1);
  CHECK(count(text, ">8</text>") == 1);
  CHECK(count(text, " ms</text>") == 11);
  CHECK_THAT(text, Catch::Contains(">0.00010 ms</text>"));
}

TEST_CASE("events after the last tick are inside the plot") {
  const std::string text = svg_of(job_of(1, 7, [] { return 157'123'456; }));
  CHECK_THAT(text, Catch::Contains(">1.0 s</text>"));
  const std::vector<long> ends = block_ends(text);
  REQUIRE(!ends.empty());
  CHECK(*std::max_element(ends.begin(), ends.end()) == 106000);
}

TEST_CASE("a timeline of 100,000 events is smaller than a megabyte") {
  std::mt19937 random(1);
  for (const int ranks : {1, 16, 64}) {
    INFO(ranks << " ranks");
    const Job job = job_of(ranks, 50'000 / ranks, [&] { return 1 + random() % 1000; });
    CHECK(svg_of(job).size() < 1'000'000);
  }
}

TEST_CASE("a timeline of nothing is a picture, one of events that never ended too") {
  Job job = job_of(1, 1, [] { return 10; });
  job.trace.events.assign(2, {});
  CHECK(count(svg_of(job), "class=\"band\"") == 1);
  CHECK(count(svg_of({}), "</svg>") == 1);
}

TEST_CASE("a timeline of too many rows is refused, and none is left behind") {
  const Folder folder;
  const auto refusal = [&](const Job& job) {
    const Status status = write_svg(job.program, job.trace, folder / "t.svg");
    REQUIRE(!status.ok());
    CHECK(status.error().kind == Error::BadInput);
    return status.error().text();
  };
  CHECK_THAT(refusal(job_of(65, 1, [] { return 10; })),
             Catch::Contains("found 65 ranks with 130 rows") &&
                 Catch::Contains("expected at most 64 ranks and 400 rows"));
  Job job = job_of(2, 201, [] { return 10; });
  for (Body& body : job.program.bodies) {
    body.lanes.assign(201, {"lane"});
    for (std::size_t i = 0; i < body.ops.size(); i += 2)
      body.ops[i].lane = static_cast<std::uint8_t>(i / 2);
  }
  CHECK_THAT(refusal(job), Catch::Contains("found 2 ranks with 402 rows"));
  CHECK(std::filesystem::is_empty(folder.path()));
  CHECK(!write_svg(Program{}, Trace{}, "/no/such/folder/t.svg").ok());
}
