// tandem export --chakra, and Chakra traces given to simulate and import; what is written is read
// by protobuf's own compiler.
#include <fmt/format.h>
#include <catch2/catch.hpp>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>

#include "schedule/program/program_text.h"
#include "tests/made_program.h"
#include "tests/needs.h"
#include "tests/sandbox.h"

using namespace tandem;

namespace {

// et_def.proto's messages by its field numbers; All holds nodes behind a field's key instead of
// their lengths alone.
const std::string kProto = R"(syntax = "proto3";
message Attribute {
  string name = 1;
  oneof value {
    double double_val = 3;
    int32 int32_val = 7;
    int64 int64_val = 9;
    uint32 uint32_val = 11;
    uint64 uint64_val = 13;
    sint64 sint64_val = 17;
    bool bool_val = 27;
    string string_val = 29;
  }
}
message Metadata { string version = 1; repeated Attribute attr = 2; }
message Node {
  uint64 id = 1;
  string name = 2;
  int32 type = 3;
  repeated uint64 ctrl_deps = 4;
  repeated uint64 data_deps = 5;
  uint64 start_time_micros = 6;
  uint64 duration_micros = 7;
  repeated Attribute attr = 10;
}
message All { Metadata metadata = 1; repeated Node node = 2; }
)";

// Rank 0 computes 1.5 us and 0.4 us, sends 100 bytes to rank 1 beside the second, which takes 2 us,
// and both reduce 64 bytes in 3 us.
const std::string kProgram = to_text(made_program(R"(
  rank 0: F0 1500ns, send0 0>1 100B 2us after F0, B0 400ns, all-reduce data 64B 3us after send0 B0
  rank 1: recv0 0>1 100B 2us, all-reduce data 64B 3us after recv0
)"));

// 300 -> AC 02.
std::string varint(std::size_t value) {
  std::string bytes;
  for (; value > 127; value >>= 7) bytes += static_cast<char>(value % 128 + 128);
  return bytes + static_cast<char>(value);
}

// What varint() wrote at `at`, and over it.
std::size_t number_at(const std::string& bytes, std::size_t* at) {
  std::size_t value = 0;
  int shift = 0;
  for (unsigned char byte = 0x80; byte >= 0x80; shift += 7) {
    byte = static_cast<unsigned char>(bytes.at((*at)++));
    value |= static_cast<std::size_t>(byte % 128) << shift;
  }
  return value;
}

// The text behind its length.
std::string text_at(const std::string& bytes, std::size_t* at) {
  const std::size_t size = number_at(bytes, at);
  REQUIRE(*at + size <= bytes.size());
  *at += size;
  return bytes.substr(*at - size, size);
}

// The messages of a file, each behind its length.
std::vector<std::string> messages_of(const std::string& file) {
  std::vector<std::string> messages;
  for (std::size_t at = 0; at < file.size();) messages.push_back(text_at(file, &at));
  return messages;
}

class Protoc {
 public:
  explicit Protoc(const Sandbox& box) : box_(box) {
    need_program("protoc");
    box.file("et.proto", kProto);
  }

  // A trace as protobuf's text.
  std::string decoded(const char* trace) const {
    std::string all;
    for (const std::string& message : messages_of(box_.read(trace)))
      all += (all.empty() ? "\x0A" : "\x12") + varint(message.size()) + message;
    box_.file("all.bin", all);
    run("--decode=All");
    return box_.read("all.out");
  }

  // A trace of protobuf's text.
  void encode(const char* trace, const std::string& text) const {
    box_.file("all.bin", text);
    run("--encode=All");
    std::string bytes;
    for (const std::string& field : fields_of(box_.read("all.out")))
      bytes += varint(field.size()) + field;
    box_.file(trace, bytes);
  }

 private:
  void run(const std::string& what) const {
    const std::string folder = box_.path("");
    REQUIRE(
        std::system(fmt::format("cd '{}' && protoc {} et.proto < all.bin > all.out", folder, what)
                        .c_str()) == 0);
  }
  // The values of All's fields: without their keys, they are as in a trace.
  static std::vector<std::string> fields_of(const std::string& all) {
    std::vector<std::string> fields;
    for (std::size_t at = 0; at < all.size();) {
      const std::size_t key = number_at(all, &at);
      REQUIRE((key == 0x0A || key == 0x12));
      fields.push_back(text_at(all, &at));
    }
    return fields;
  }

  const Sandbox& box_;
};

double iteration_s(const Sandbox& box, const std::string& arguments) {
  const Ran ran = box.tandem("simulate --json " + arguments);
  INFO(ran.err);
  REQUIRE(ran.status == 0);
  return nlohmann::json::parse(ran.out).at(0).at("iteration_s");
}

// A model with tensor, pipeline and data parallel ranks.
const std::string kEightRanks = R"([model]
layers = 4
hidden = 1024
heads = 16
seq = 1024
vocab = 32000
[parallel]
tp = 2
pp = 2
dp = 2
global_batch = 16
[overlap]
p2p = true
[cluster]
preset = "dgx-h100"
)";

}  // namespace

TEST_CASE("protobuf's own decoder reads what is written, field by field") {
  const Sandbox box;
  const Protoc protoc(box);
  box.file("small.csv", kProgram);
  const Ran ran = box.tandem("export small.csv --chakra small");
  check_done(ran);
  CHECK(box.read("small.groups.json") == "{\n  \"1\": [0, 1]\n}\n");
  // Ends at 1.5, 1.9, 3.5 and 6.5 us are 2, 2, 4 and 7 us.
  const std::string node0 = R"(node {
  name: "forward 0 of stage 0"
  type: 4
  duration_micros: 2
  attr { name: "is_cpu_op" bool_val: false }
  attr { name: "num_ops" int64_val: 0 }
  attr { name: "tensor_size" uint64_val: 0 }
  attr { name: "tandem_stage" int32_val: 0 }
  attr { name: "tandem_microbatch" int32_val: 0 }
  attr { name: "tandem_kind" string_val: "forward" }
} )";
  const std::string send = R"(node {
  id: 2
  name: "send 0 of stage 0"
  type: 5
  data_deps: 0
  duration_micros: 2
  attr { name: "is_cpu_op" bool_val: false }
  attr { name: "comm_size" int64_val: 100 }
  attr { name: "comm_src" int32_val: 0 }
  attr { name: "comm_dst" int32_val: 1 }
  attr { name: "comm_tag" int32_val: 0 }
  attr { name: "tandem_stage" int32_val: 0 }
  attr { name: "tandem_microbatch" int32_val: 0 }
  attr { name: "tandem_group" string_val: "pipeline" }
} )";
  const std::string reduce = R"(node {
  id: 3
  name: "all-reduce of stage 0"
  type: 7
  data_deps: 2
  data_deps: 1
  duration_micros: 3
  attr { name: "is_cpu_op" bool_val: false }
  attr { name: "comm_type" int64_val: 0 }
  attr { name: "comm_size" int64_val: 64 }
  attr { name: "tandem_stage" int32_val: 0 }
  attr { name: "pg_name" string_val: "1" }
  attr { name: "tandem_group" string_val: "data" }
} )";
  const auto words = [](const std::string& text) {
    return std::regex_replace(text, std::regex("\\s+"), " ");
  };
  const std::string text = words(protoc.decoded("small.0.et"));
  INFO(text);
  CHECK(
      text.starts_with(words("metadata { version: \"0.0.4\" attr { name: \"tandem_sends\" "
                             "string_val: \"rendezvous\" } } ")));
  for (const std::string& node : {node0, send, reduce}) {
    INFO(words(node));
    CHECK(text.find(words(node)) != std::string::npos);
  }
}

// FeederV3 reads attributes by name and type; what it misses ends ASTRA-sim. It takes no node that
// names a dependency it has not.
TEST_CASE("every node has the attributes that ASTRA-sim's feeder reads, in the types it reads") {
  const Sandbox box;
  const Protoc protoc(box);
  box.file("eight.toml", kEightRanks);
  check_done(box.tandem("export eight.toml --chakra eight"));
  const std::map<std::string, std::vector<std::string>> needed = {
      {"4", {"\"num_ops\"int64_val", "\"tensor_size\"uint64_val"}},
      {"5",
       {"\"comm_size\"int64_val", "\"comm_src\"int32_val", "\"comm_dst\"int32_val",
        "\"comm_tag\"int32_val"}},
      {"6",
       {"\"comm_size\"int64_val", "\"comm_src\"int32_val", "\"comm_dst\"int32_val",
        "\"comm_tag\"int32_val"}},
      {"7", {"\"comm_type\"int64_val", "\"comm_size\"int64_val", "\"pg_name\"string_val"}}};
  std::map<std::string, int> seen;
  const auto groups = nlohmann::json::parse(box.read("eight.groups.json"));
  for (const char* trace : {"eight.0.et", "eight.7.et"}) {
    const std::string text = protoc.decoded(trace);
    const std::regex node("\nnode \\{([\\s\\S]*?)\n\\}");
    for (std::sregex_iterator at(text.begin(), text.end(), node), end; at != end; ++at) {
      const std::string body = (*at)[1];
      std::smatch match;
      REQUIRE(std::regex_search(body, match, std::regex("\n  type: (\\d+)")));
      const std::string type = match[1];
      REQUIRE(needed.contains(type));
      ++seen[type];
      const std::string tight = std::regex_replace(body, std::regex("[\\s:]+"), "");
      CHECK(tight.find("\"is_cpu_op\"bool_valfalse") != std::string::npos);
      for (const std::string& attribute : needed.at(type)) {
        INFO(body << attribute);
        CHECK(tight.find(attribute) != std::string::npos);
      }
      long id = 0;  // proto3 leaves 0 out
      if (std::regex_search(body, match, std::regex("\n  id: (\\d+)"))) id = std::stol(match[1]);
      const std::regex dependency("\n  (ctrl|data)_deps: (\\d+)");
      for (std::sregex_iterator d(body.begin(), body.end(), dependency); d != end; ++d)
        CHECK(std::stol((*d)[2]) < id);
      if (std::regex_search(body, match, std::regex("pg_name\"\\s+string_val: \"(\\d+)\"")))
        CHECK(groups.contains(match[1].str()));
    }
  }
  CHECK(seen.size() == 4);
}

TEST_CASE("what protobuf's own encoder writes is simulated") {
  const Sandbox box;
  const Protoc protoc(box);
  const std::string rank = R"(metadata {{ version: "1.0.0" }}
node {{ id: 7 name: "gemm" type: 4 duration_micros: 30 }}
node {{ id: 9 name: "sum" type: 7 data_deps: 7 ctrl_deps: 7 duration_micros: {} start_time_micros: 5
  attr {{ name: "comm_type" sint64_val: 0 }} attr {{ name: "comm_size" uint64_val: 4096 }}
  attr {{ name: "other" double_val: 0.5 }} }}
)";
  protoc.encode("py.0.et", fmt::format(fmt::runtime(rank), 12));
  protoc.encode("py.1.et", fmt::format(fmt::runtime(rank), 10));
  CHECK(iteration_s(box, "py.0.et") == Approx(40e-6).epsilon(1e-12));
}

TEST_CASE("a scenario that was exported takes as long as before, to the microsecond") {
  const Sandbox box;
  box.file("two.toml", kTwoStages);
  for (const char* p2p : {"true", "false"}) {
    const std::string set = fmt::format("two.toml --set overlap.p2p={}", p2p);
    check_done(box.tandem(fmt::format("export {} --chakra two", set)));
    CHECK(std::abs(iteration_s(box, "two.0.et") - iteration_s(box, set + " --engine ideal")) <=
          1e-6);
  }
  // Its Program as well, which other commands take.
  check_done(box.tandem("import two.1.et -o two.csv"));
  CHECK(iteration_s(box, "two.csv") == iteration_s(box, "two.0.et"));
}

TEST_CASE("an export names its files and what ASTRA-sim cannot say, the same bytes each time") {
  const Sandbox box;
  box.file("eight.toml", kEightRanks);
  const Ran ran = box.tandem("export eight.toml --chakra eight");
  check_done(ran);
  CHECK(ran.out.starts_with("eight.{0..7}.et: "));
  CHECK(ran.out.find("lanes of communication of a rank become one") != std::string::npos);
  CHECK(ran.out.find("a send waits for its receive here") != std::string::npos);
  CHECK(box.tandem("export eight.toml --chakra again").status == 0);
  for (const char* ending : {".0.et", ".5.et", ".groups.json"})
    CHECK(box.read(("eight" + std::string(ending)).c_str()) ==
          box.read(("again" + std::string(ending)).c_str()));
}

TEST_CASE("a cluster prices communication that says no duration") {
  const Sandbox box;
  const std::string rank = R"({"workload_graph": [
{"Id": 0, "Name": "sum", "NodeType": 7, "is_cpu_op": false, "data_deps": [], "comm_type": 0,
 "comm_size": 1073741824}]})";
  for (const char* name : {"sum.0.json", "sum.1.json", "sum.2.json", "sum.3.json"})
    box.file(name, rank);
  check_refused(box.tandem("simulate sum.0.json"),
                "sum.0.json: node 0 'sum': found communication without duration_micros");
  const double one = iteration_s(box, "sum.0.json --cluster dgx-h100 --engine ideal");
  CHECK(one > 1e-3);  // 1 GiB at no more than 450 GB/s, 1.5 times
  CHECK(iteration_s(box, "sum.0.json --cluster jz-v100 --engine ideal") > one);
}

TEST_CASE("a cluster plays traces with contention too") {
  need_simgrid();
  const Sandbox box;
  box.file("eight.toml", kEightRanks);
  check_done(box.tandem("export eight.toml --chakra eight"));
  const double ideal = iteration_s(box, "eight.0.et --cluster dgx-h100 --engine ideal");
  const double contended = iteration_s(box, "eight.0.et --cluster dgx-h100");
  CHECK(contended >= ideal * 0.999);
}

TEST_CASE("what goes with no traces is refused, and nothing is left behind") {
  const Sandbox box;
  box.file("two.toml", kTwoStages);
  box.file("small.csv", kProgram);
  check_refused(box.tandem("simulate two.toml --cluster dgx-h100"),
                "two.toml: found --cluster, expected it with Chakra traces (PREFIX.0.et) only");
  check_refused(box.tandem("export small.csv --only x --chakra x"), "small.csv: found --only, ");
  check_refused(box.tandem("export small.csv --chakra none/x"), "none/x.0.et: ");
  std::filesystem::create_directory(box.path("y.1.et"));
  check_refused(box.tandem("export small.csv --chakra y"), "y.1.et: ");
  std::filesystem::remove(box.path("y.1.et"));
  std::filesystem::create_directory(box.path("y.groups.json"));
  check_refused(box.tandem("export small.csv --chakra y"), "");
  std::filesystem::remove(box.path("y.groups.json"));
  check_refused(box.tandem("export missing.toml --chakra x"), "missing.toml: ");
  check_refused(box.tandem("simulate missing.0.et"), "missing.0.et: no such file");
  CHECK(box.files() == Names{"small.csv", "two.toml"});
  check_done(box.tandem("export small.csv --chakra small"));
  check_refused(box.tandem("simulate small.0.et --engine simgrid"),
                "small.0.et: found Chakra traces with --engine simgrid, expected --cluster");
  check_refused(box.tandem("simulate small.0.et --set a.b=1"), "small.0.et: found --set, ");
  check_refused(box.tandem("simulate small.0.et --repeat 3"), "small.0.et: found --repeat, ");
  check_refused(box.tandem("simulate small.0.et --cluster nowhere"), "");
  check_refused(box.tandem("import small.0.et two.toml"), "small.0.et: found Chakra traces");
  box.file("small.2.et", "x");
  check_refused(box.tandem("export small.csv --chakra small"),
                "small.2.et: found a trace of another job, expected none beyond rank 1");
  check_refused(box.tandem("simulate small.0.et"), "small.2.et: ");
}
