// Programs as text: what is written is read, and what is none is refused at its line. The rows are
// typed here alone, as they are what is tested; other tests call made_program().
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "tests/schedule/program/programs.h"

using namespace tandem;

namespace {

// One rank that computes for 5 ns.
const std::string kOneForward = "lane,0,compute\nop,0,forward,0,-1,0,0,0,1,0,0,5,-1,-1,\nrank,0,\n";

}  // namespace

TEST_CASE("printing and reading a program are inverse") {
  Workload work = seconds(1, 2, 4);
  for (StageWork& stage : work.stages) stage.units = {{.gradient_bytes = 8}};
  work.kernels = {{.name = "layer",
                   .gemms = {{1, 2, 3, 4}, {5, 6, 7, 8, true}},
                   .attention_flops = 99.5,
                   .attention = {.keys = 4096, .head_size = 128, .backward = true},
                   .memory_bytes = 1234.5,
                   .launch_s = 1e-6,
                   .memory_share = 0.3}};
  auto program = lower(order_of("interleaved", 2, 4, 2), work, {2, 3, true});
  REQUIRE(program.ok());
  program->device = {108, 2.039e12};
  for (Body& body : program->bodies) {
    for (Op& op : body.ops) op.sms = is_compute(op.kind) ? 0 : 24;
  }
  const std::string text = to_text(*program);
  const auto read = read_text(text);
  REQUIRE(read.ok());
  CHECK(to_text(*read) == text);
  CHECK(hash(*read) == hash(*program));
  CHECK(read->device == program->device);
  CHECK(read->kernels == program->kernels);
}

TEST_CASE(
    "a program without a device, or with kernels that do not say what memory bounds, is read") {
  const auto read = read_text("program,old\nkernel,layer,1234.5,1e-06,1x2x3x4\n" + kOneForward);
  REQUIRE(read.ok());
  CHECK(read->device == SharedDevice{});
  CHECK(read->kernels[0].memory_share == 0);
}

TEST_CASE("a communicator may have one rank, but not none") {
  const std::string alone =
      "program,x\nlane,0,compute\nlane,0,data\nslot,0,data,1\n"
      "op,0,all-gather,1,0,0,-1,0,1,8,0,0,-1,-1,\n";
  CHECK(read_text(alone + "communicator,data,0,0\nrank,0,0\n").ok());
  CHECK(!read_text(alone + "communicator,data,0,\nrank,0,0\n").ok());
}

TEST_CASE("a program has one device") {
  const auto read = read_text("program,two\ndevice,108,2e12\ndevice,132,3e12\n" + kOneForward);
  REQUIRE_FALSE(read.ok());
  CHECK(read.error().text().find(":3: ") != std::string::npos);
}

TEST_CASE("an op that no Program may have is refused at its line") {
  const std::string before =
      "program,bad\nlane,0,compute\nop,0,forward,0,-1,0,0,0,1,0,0,5,-1,-1,\n";
  const auto refused = [&](const char* op) {
    return read_text(before + op + "rank,0,\n").error().text();
  };
  // The fourth line of the file, the second op of its body.
  const std::string lane = refused("op,0,forward,3,-1,0,1,0,1,0,0,5,-1,-1,\n");
  CHECK(lane.ends_with(":4: body 0: found op 1 on lane 3, expected a lane below 1"));
  const std::string wait = refused("op,0,forward,0,-1,0,1,0,1,0,0,5,-1,-1,1\n");
  CHECK(
      wait.ends_with(":4: body 0: found forward 1 of stage 0 (lane compute), expected waits for "
                     "ops before it, not 1"));
}

TEST_CASE("a Program file that is none is refused at its line") {
  // One transfer from rank 0 to rank 1; `change` replaces a line of it.
  const auto refused = [](const std::string& line, const std::string& other) {
    std::string text =
        "program,x\n"
        "lane,0,compute\n"
        "lane,0,0>1\n"
        "slot,0,pipeline,1\n"
        "op,0,send,1,0,0,0,0,1,1000,0,50,-1,-1,\n"
        "lane,1,compute\n"
        "lane,1,0>1\n"
        "slot,1,pipeline,1\n"
        "op,1,recv,1,0,1,0,0,1,1000,0,50,-1,-1,\n"
        "communicator,pipeline,1,0 1\n"
        "rank,0,0\n"
        "rank,1,0\n";
    REQUIRE(read_text(text).ok());
    text.replace(text.find(line), line.size(), other);
    const auto read = read_text(text);
    REQUIRE_FALSE(read.ok());
    const std::string why = read.error().text();
    return why.substr(why.find(".csv") + 4);
  };
  CHECK(refused("program,x\n", "") == ":1: found no program row, expected one");
  CHECK(refused("program,x\n", "program,x\nprogram,y\n") ==
        ":2: found a second program row, expected one");
  CHECK(
      refused("op,0,send,1,0,0,0,0,1,", "op,0,send,1,0,0,0,0,0,") ==
      ":5: body 0: found send 0 of stage 0 (lane 0>1), expected a part from 0 to parts - 1, not 0 "
      "of 0");
  CHECK(refused("communicator,pipeline", "communicator,tensor") ==
        ":11: rank 0: found the tensor communicator 0 in slot 0 of its body, expected a pipeline "
        "one");
  CHECK(refused("0 1\nrank,0,0\n", "0 1 2\nrank,0,0\nrank,1,0\n") ==
        ":10: communicator 0: found 3 ranks, expected 2 that send and receive");
  CHECK(refused("rank,1,0\n", "rank,7,0\n") ==
        ":12: found a rank with body 7, expected only what the file defines");
}

TEST_CASE("a body has at most 255 lanes") {
  const auto read_with = [](int lanes) {
    std::string text = "program,wide\n";
    for (int lane = 0; lane < lanes; ++lane) text += fmt::format("lane,0,{}\n", lane);
    return read_text(text + "op,0,forward,0,-1,0,0,0,1,0,0,5,-1,-1,\nrank,0,\n");
  };
  CHECK(read_with(255).ok());
  for (const int lanes : {256, 300, 5000}) {
    const auto read = read_with(lanes);
    REQUIRE_FALSE(read.ok());
    CHECK(read.error().text().ends_with(
        fmt::format("body 0: found {} lanes, expected at most 255", lanes)));
  }
}

TEST_CASE("a truncated program file is one clear line") {
  const Folder folder;
  const std::string text = to_text(lowered(order_of("1f1b", 2, 2), {}));
  const std::string path = folder.with("cut.csv", text.substr(0, text.rfind("op,") + 9));
  const auto read = read_program(path);
  REQUIRE_FALSE(read.ok());
  CHECK(read.error().text().rfind(path + ":", 0) == 0);
  CHECK(read.error().text().find('\n') == std::string::npos);
}
