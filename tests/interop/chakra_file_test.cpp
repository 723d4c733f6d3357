// Chakra's files: their bytes, both forms, ASTRA-sim's own samples, and what is none.
#include <fmt/format.h>
#include <catch2/catch.hpp>

#include <cstdlib>
#include <random>

#include "base/file.h"
#include "interop/chakra/chakra_file.h"
#include "interop/chakra/wire.h"
#include "tests/folder.h"
#include "tests/interop/imported.h"
#include "tests/seed.h"

using namespace tandem;

namespace {

std::string bytes_of(std::initializer_list<int> bytes) {
  std::string text;
  for (const int byte : bytes) text += static_cast<char>(byte);
  return text;
}

// A message behind its length.
std::string delimited(const std::string& message) {
  WireWriter writer;
  writer.varint(message.size());
  writer.raw(message);
  return writer.text();
}

std::string metadata(const std::string& version) {
  WireWriter writer;
  writer.bytes(1, version);
  return delimited(writer.text());
}

const std::string kMetadata = metadata("0.0.4");

ChakraTrace decoded(const std::string& bytes) {
  const auto trace = decode_chakra(bytes, "a.0.et");
  if (!trace.ok()) FAIL(trace.error().text());
  return *trace;
}

std::string why(const std::string& bytes) {
  const auto trace = decode_chakra(bytes, "a.0.et");
  return trace.ok() ? std::string() : trace.error().text();
}

// One collective of 1 MiB, rank 0's of an all-reduce over four.
ChakraNode all_reduce() {
  ChakraNode node{.id = 1, .name = "all_reduce_4npus_1MB", .type = ChakraType::Collective};
  node.comm_type = 0;
  node.comm_size = 1 << 20;
  return node;
}

// A node with one attribute and the bytes of its value.
std::string with_attribute(const std::string& name, const std::string& value) {
  WireWriter attribute, node;
  attribute.bytes(1, name);
  attribute.raw(value);
  node.number(3, 7);
  node.bytes(10, attribute.text());
  return kMetadata + delimited(node.text());
}

class Files {
 public:
  void file(const std::string& name, const std::string& text) const {
    REQUIRE(write_file(path(name), text).ok());
  }
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  // The Error of reading the job, without the folder's path.
  std::string why(const std::string& name, const std::string& groups = "") const {
    const auto job = read_chakra_job(path(name), groups.empty() ? "" : path(groups));
    std::string text = job.ok() ? "" : job.error().text();
    const std::string folder = folder_.path().string() + "/";
    for (std::size_t at; (at = text.find(folder)) != std::string::npos;)
      text.erase(at, folder.size());
    return text;
  }

 private:
  Folder folder_;
};

}  // namespace

// et_def.proto: GlobalMetadata.version is field 1; Node's id 1, name 2, type 3, attr 10;
// AttributeProto's name 1, int64_val 9, bool_val 27. A key is field * 8 + wire type.
TEST_CASE("a trace is its metadata and its nodes, each behind its length") {
  ChakraTrace trace;
  trace.nodes = {all_reduce()};
  CHECK(encode_chakra(trace) ==
        bytes_of({7, 0x0A, 5}) + "0.0.4" + bytes_of({0x4A}) +  // 74 bytes of node
            bytes_of({0x08, 1, 0x12, 20}) + "all_reduce_4npus_1MB" + bytes_of({0x18, 7}) +
            bytes_of({0x52, 14, 0x0A, 9}) + "is_cpu_op" + bytes_of({0xD8, 0x01, 0}) +
            bytes_of({0x52, 13, 0x0A, 9}) + "comm_type" + bytes_of({0x48, 0}) +
            bytes_of({0x52, 15, 0x0A, 9}) + "comm_size" + bytes_of({0x48, 0x80, 0x80, 0x40}));
}

TEST_CASE("ASTRA-sim's all-reduce is read, and written again byte for byte") {
  for (int rank = 0; rank < 4; ++rank) {
    const std::string bytes = sample(fmt::format("chakra/all_reduce.{}.et", rank));
    const ChakraTrace trace = decoded(bytes);
    REQUIRE(trace.nodes.size() == 1);
    CHECK(trace.nodes[0].id == static_cast<std::uint64_t>(rank));
    CHECK(trace.nodes[0].type == ChakraType::Collective);
    CHECK(trace.nodes[0].comm_type == 0);
    CHECK(trace.nodes[0].comm_size == 1 << 20);
    CHECK(encode_chakra(trace) == bytes);
  }
}

TEST_CASE("ASTRA-sim's own ring is read: sends, receives and dependencies") {
  const ChakraTrace trace = decoded(sample("chakra/custom_allreduce.0.et"));
  CHECK(trace.version == "0.0.4");  // of its attribute "schema"
  REQUIRE(trace.nodes.size() == 35);
  CHECK(trace.nodes[0].type == ChakraType::Send);
  CHECK(trace.nodes[0].comm_dst == 1);
  CHECK(trace.nodes[0].comm_size == 131072);
  CHECK(trace.nodes[1].type == ChakraType::Recv);
  CHECK(trace.nodes[1].comm_src == 7);
  CHECK(trace.nodes[1].data_deps == std::vector<std::uint64_t>{0});
  CHECK(trace.nodes[2].type == ChakraType::Compute);
  CHECK(trace.nodes[2].duration_us == 7);
}

TEST_CASE("what is written is read again, whatever is in it") {
  std::mt19937 random(test_seed());
  INFO("seed " << test_seed());
  const auto number = [&] { return static_cast<std::int64_t>(random()) << (random() % 30); };
  for (int i = 0; i < 50; ++i) {
    ChakraTrace trace;
    trace.rendezvous = i % 2 == 0;
    for (int n = 0; n < 20; ++n) {
      ChakraNode& node = trace.nodes.emplace_back();
      node.id = static_cast<std::uint64_t>(number());
      node.name = std::string(random() % 200, 'x');
      node.type = static_cast<ChakraType>(1 + random() % 7);
      for (unsigned d = random() % 4; d > 0; --d)
        node.data_deps.push_back(static_cast<std::uint64_t>(number()));
      for (unsigned d = random() % 4; d > 0; --d) node.ctrl_deps.push_back(random());
      node.duration_us = random();
      node.is_cpu_op = random() % 2 == 0;
      if (random() % 2 == 0) node.comm_size = number();
      if (random() % 2 == 0) node.comm_dst = static_cast<std::int64_t>(random() % 4096);
      if (random() % 2 == 0) node.num_ops = number();
      if (random() % 2 == 0) node.pg_name = "7";
      if (random() % 2 == 0) node.kind = "forward";
    }
    const ChakraTrace read = decoded(encode_chakra(trace));
    CHECK(read.rendezvous == trace.rendezvous);
    REQUIRE(read.nodes.size() == trace.nodes.size());
    for (std::size_t n = 0; n < read.nodes.size(); ++n) {
      const ChakraNode &a = read.nodes[n], &b = trace.nodes[n];
      CHECK(std::tie(a.id, a.name, a.type, a.data_deps, a.ctrl_deps, a.duration_us, a.is_cpu_op) ==
            std::tie(b.id, b.name, b.type, b.data_deps, b.ctrl_deps, b.duration_us, b.is_cpu_op));
      CHECK(std::tie(a.comm_size, a.comm_dst, a.num_ops, a.pg_name, a.kind) ==
            std::tie(b.comm_size, b.comm_dst, b.num_ops, b.pg_name, b.kind));
    }
    CHECK(encode_chakra(read) == encode_chakra(trace));
  }
}

// A writer in Python may choose any of protobuf's integers for an attribute.
TEST_CASE("an attribute is read from whichever integer type it was written as") {
  const auto size = [](const std::string& value) {
    return decoded(with_attribute("comm_size", value)).nodes[0].comm_size;
  };
  CHECK(size(bytes_of({7 << 3, 5})) == 5);                            // int32
  CHECK(size(bytes_of({9 << 3, 5})) == 5);                            // int64
  CHECK(size(bytes_of({11 << 3, 5})) == 5);                           // uint32
  CHECK(size(bytes_of({13 << 3, 5})) == 5);                           // uint64
  CHECK(size(bytes_of({15 << 3, 10})) == 5);                          // sint32: zigzag
  CHECK(size(bytes_of({0x88, 0x01, 9})) == -5);                       // sint64
  CHECK(size(bytes_of({0x9D, 0x01, 5, 0, 0, 0})) == 5);               // fixed32
  CHECK(size(bytes_of({0xA9, 0x01, 5, 0, 0, 0, 0, 0, 0, 0})) == 5);   // fixed64
  CHECK(size(bytes_of({0xBD, 0x01, 0xFB, 0xFF, 0xFF, 0xFF})) == -5);  // sfixed32
  CHECK(size(bytes_of({0xC9, 0x01, 5, 0, 0, 0, 0, 0, 0, 0})) == 5);   // sfixed64
  CHECK_FALSE(size(bytes_of({0x52, 1, 5})).has_value());              // a list is none
}

// bool_list is field 28: a message of values in field 1, packed or one by one.
TEST_CASE("dimensions that involved_dim leaves out are noted") {
  const auto some = [](const std::string& list) {
    const std::string value = bytes_of({0xE2, 0x01, static_cast<int>(list.size())}) + list;
    return decoded(with_attribute("involved_dim", value)).nodes[0].some_dimensions;
  };
  CHECK_FALSE(some(bytes_of({0x0A, 2, 1, 1})));
  CHECK(some(bytes_of({0x0A, 2, 1, 0})));
  CHECK(some(bytes_of({0x08, 1, 0x08, 0})));
}

TEST_CASE("dependencies are read packed and one by one") {
  WireWriter node;
  node.number(3, 4);
  node.number(5, 300);
  node.number(5, 2);
  node.bytes(4, bytes_of({0xAC, 0x02, 1}));
  const ChakraTrace trace = decoded(kMetadata + delimited(node.text()));
  CHECK(trace.nodes[0].data_deps == std::vector<std::uint64_t>{300, 2});
  CHECK(trace.nodes[0].ctrl_deps == std::vector<std::uint64_t>{300, 1});
}

TEST_CASE("what is no Chakra trace is refused in a line that says where") {
  CHECK(why("") == "a.0.et: found an empty file, expected a Chakra trace");
  CHECK(why(metadata("0.0.3")) == "a.0.et: found schema version '0.0.3', expected 0.0.4 or 1.*");
  CHECK(why(metadata("1.0.0")).empty());
  CHECK(why("{\"workload_graph\": []}")
            .find("a.0.et: message 0 at byte 0: found 21 bytes, "
                  "expected 123") == 0);
  WireWriter store;
  store.number(1, 4);
  store.bytes(2, "x");
  store.number(3, 9);
  CHECK(why(kMetadata + delimited(store.text())) ==
        "a.0.et: node 4 'x': found node type 9, expected one from 1 to 7");
  CHECK(why(kMetadata + delimited("")) ==
        "a.0.et: node 0 '': found node type 0, expected one from 1 to 7");
  WireWriter text_id;
  text_id.bytes(1, "four");
  CHECK(why(kMetadata + delimited(text_id.text())) ==
        "a.0.et: message 1: found field 1 of another type, expected a Node of schema 0.0.4");
}

TEST_CASE("a file that is cut anywhere is refused, or ends behind a whole message") {
  ChakraTrace trace;
  trace.nodes = {all_reduce(), all_reduce()};
  const std::string whole = encode_chakra(trace);
  const std::size_t one = (whole.size() - kMetadata.size()) / 2;
  for (std::size_t size = 1; size < whole.size(); ++size) {
    const auto read = decode_chakra(whole.substr(0, size), "a.0.et");
    const bool between = size == kMetadata.size() || size == kMetadata.size() + one;
    INFO(size);
    CHECK(read.ok() == between);
    if (!read.ok()) CHECK(read.error().text().starts_with("a.0.et: message "));
  }
}

TEST_CASE("bytes at random are refused or read, and never more than that") {
  std::mt19937 random(test_seed());
  INFO("seed " << test_seed());
  ChakraTrace trace;
  trace.nodes = {all_reduce(), all_reduce(), all_reduce()};
  const std::string whole = encode_chakra(trace);
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string changed = whole;
    for (int k = 0; k < 3; ++k) changed[random() % changed.size()] = static_cast<char>(random());
    refused += decode_chakra(changed, "a.0.et").ok() ? 0 : 1;
  }
  CHECK(refused > 500);
}

TEST_CASE("the JSON form of Chakra's feeder is read") {
  const auto trace = parse_chakra_json(R"({"workload_graph": [
{"Id": 0, "Name": "gemm", "NodeType": 4, "is_cpu_op": false, "runtime": 12, "data_deps": []},
{"Id": 1, "Name": "sum", "NodeType": 7, "is_cpu_op": false, "data_deps": [0], "comm_type": 0,
 "comm_size": 4096, "comm_priority": 0}]})",
                                       "a.0.json");
  REQUIRE(trace.ok());
  REQUIRE(trace->nodes.size() == 2);
  CHECK(trace->nodes[0].type == ChakraType::Compute);
  CHECK(trace->nodes[0].duration_us == 12);
  CHECK(trace->nodes[1].data_deps == std::vector<std::uint64_t>{0});
  CHECK(trace->nodes[1].comm_size == 4096);

  const auto refusal = [](const std::string& text) {
    const auto read = parse_chakra_json(text, "a.0.json");
    return read.ok() ? std::string() : read.error().text();
  };
  const auto some = parse_chakra_json(R"({"workload_graph": [
{"Id": 0, "NodeType": 7, "involved_dim": [true, false]},
{"Id": 1, "NodeType": 7, "involved_dim": [true, true]}]})",
                                      "a.0.json");
  REQUIRE(some.ok());
  CHECK(some->nodes[0].some_dimensions);
  CHECK(!some->nodes[1].some_dimensions);
  CHECK(refusal("{}") == "a.0.json: found no list 'workload_graph', expected Chakra's JSON form");
  CHECK(refusal("{\"workload_graph\": [\n{\"Id\": 3, \"NodeType\": 8}]}") ==
        "a.0.json:2: node 3: found NodeType 8, expected a NodeType from 1 to 7");
  CHECK(refusal("{\"workload_graph\": [\n{\"NodeType\": 4}]}") ==
        "a.0.json:2: found a node without an Id, expected one");
  CHECK(refusal("{\"workload_graph\": [\n{\"Id\": 3, \"NodeType\": 4, \"data_deps\": 2}]}") ==
        "a.0.json:2: data_deps: found 2, expected a list");
}

TEST_CASE("all ranks of a prefix are read by the path of any, and one that is missing is named") {
  const Files files;
  ChakraTrace trace;
  trace.nodes = {all_reduce()};
  const std::string bytes = encode_chakra(trace);
  for (const int rank : {0, 1, 2, 10}) files.file(fmt::format("a.{}.et", rank), bytes);
  files.file("a.b.1.et", bytes);  // of another prefix
  CHECK(files.why("a.1.et") ==
        "a.3.et: found no such file beside a.10.et, expected one for every rank");
  for (int rank = 3; rank < 10; ++rank) files.file(fmt::format("a.{}.et", rank), bytes);
  const auto job = read_chakra_job(files.path("a.7.et"), "");
  REQUIRE(job.ok());
  CHECK(job->ranks.size() == 11);
  CHECK(job->groups.empty());
  CHECK(files.why("b.0.et") == "b.0.et: no such file, expected a rank's Chakra trace");
  CHECK(files.why("a.et") ==
        "a.et: found a name without a rank, expected PREFIX.0.et or PREFIX.0.json");
}

TEST_CASE("traces that gzip packed are read as plain ones") {
  const Files files;
  // The metadata of kMetadata, packed.
  const std::string packed(
      "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\x63\xe7\x62\x35\xd0\x33\xd0\x33\x01\x00"
      "\x0f\x60\x4e\x74\x08\x00\x00\x00",
      28);
  files.file("z.0.et", packed);
  const auto job = read_chakra_job(files.path("z.0.et"), "");
  INFO((job.ok() ? "" : job.error().text()));
  REQUIRE(job.ok());
  CHECK(job->ranks[0].version == "0.0.4");
}

TEST_CASE("process groups are read, beside the traces or by name, and written again") {
  const Files files;
  files.file("a.0.et", encode_chakra({}));
  const ChakraGroups groups = {{"1", {0, 1}}, {"2", {2, 3}}};
  files.file("a.groups.json", groups_json(groups));
  files.file("other.json", R"({"1": [0, 1], "2": [2, 3], "3": [0, 2], "4": [1, 3]})");
  const auto beside = read_chakra_job(files.path("a.0.et"), "");
  REQUIRE(beside.ok());
  CHECK(beside->groups == groups);
  const auto named = read_chakra_job(files.path("a.0.et"), files.path("other.json"));
  REQUIRE(named.ok());
  CHECK(named->groups.size() == 4);
  CHECK(named->groups.at("4") == std::vector<std::int32_t>{1, 3});

  files.file("twice.json", "{\"1\":\n[0, 0]}");
  CHECK(files.why("a.0.et", "twice.json") ==
        "twice.json:2: group '1': found 0, expected ranks, each once");
  files.file("word.json", "{\"1\": \"all\"}");
  CHECK(files.why("a.0.et", "word.json") ==
        "word.json:1: group '1': found all, expected a list of ranks");
  files.file("list.json", "[1]");
  CHECK(files.why("a.0.et", "list.json") ==
        "list.json: found no object, expected process groups: {\"1\": [0, 1]}");
}
