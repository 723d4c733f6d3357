// Readers of profiles: forms that occur, what is refused, and samples of real runs against what
// their rules give.
#include <catch2/catch.hpp>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/traces/profile/kineto_text.h"
#include "traces/profile/kineto_writer.h"
#include "traces/profile/profile_notes.h"

using namespace tandem;

namespace {

using Json = nlohmann::json;

std::string gunzipped(const std::string& path) {
  const gzFile file = gzopen(path.c_str(), "rb");
  REQUIRE(file != nullptr);
  std::string text(1 << 16, '\0'), all;
  for (int read; (read = gzread(file, text.data(), static_cast<unsigned>(text.size()))) > 0;)
    all.append(text, 0, static_cast<std::size_t>(read));
  REQUIRE(gzclose(file) == Z_OK);
  return all;
}

// Holistic Trace Analysis' temporal breakdown and overlap, in us, by painting every microsecond of
// a file: of the kernels that were launched before the last ProfilerStep of several.
struct Painted {
  std::int64_t span = 0, idle = 0, compute = 0, communication = 0, overlap = 0;
};

bool is_hta_communication(const std::string& name) {
  return name.rfind("nccl", 0) == 0 || name.find("ncclKernel") != std::string::npos;
}

Painted painted(const std::string& path) {
  std::vector<Json> rows;
  std::int64_t last_step = -1;
  std::set<std::string> steps;
  const Json file = Json::parse(gunzipped(path));
  for (const Json& row : file.at("traceEvents")) {
    if (!row.contains("dur") || !row.contains("cat") || row.at("cat") == "Trace") continue;
    const std::string name = row.at("name");
    if (name.rfind("ProfilerStep", 0) == 0) {
      steps.insert(name);
      last_step = std::max(last_step, row.at("ts").get<std::int64_t>());
    }
    rows.push_back(row);
  }
  std::set<std::int64_t> launched;
  for (const Json& row : rows) {
    const Json& args = row.at("args");
    if (!args.contains("stream") && args.contains("correlation") && row.at("ts") < last_step)
      launched.insert(args.at("correlation").get<std::int64_t>());
  }
  std::int64_t first = std::numeric_limits<std::int64_t>::max(), last = 0;
  std::vector<std::tuple<std::int64_t, std::int64_t, int>> spans;
  for (const Json& row : rows) {
    const Json& args = row.at("args");
    if (!args.contains("stream")) continue;
    if (steps.size() > 1 && !launched.contains(args.at("correlation").get<std::int64_t>()))
      continue;
    const std::string name = row.at("name");
    const bool memory = name.rfind("Mem", 0) == 0;
    const auto start = static_cast<std::int64_t>(std::ceil(row.at("ts").get<double>()));
    const auto end = static_cast<std::int64_t>(
        std::floor(row.at("ts").get<double>() + row.at("dur").get<double>()));
    spans.emplace_back(start, end, is_hta_communication(name) ? 2 : memory ? 4 : 1);
    first = std::min(first, start);
    last = std::max(last, end);
  }
  std::vector<int> us(static_cast<std::size_t>(last - first));
  for (const auto& [start, end, what] : spans) {
    for (std::int64_t at = start; at < end; ++at) us[static_cast<std::size_t>(at - first)] |= what;
  }
  Painted sums{.span = last - first};
  for (const int what : us) {
    sums.idle += what == 0;
    sums.compute += (what & 1) != 0;
    sums.communication += (what & 2) != 0;
    sums.overlap += (what & 3) == 3;
  }
  return sums;
}

}  // namespace

TEST_CASE("of a file with kernels of two GPUs each is a rank, but not where the file is one rank") {
  const auto on_second = [](const std::string& row) {
    std::string second = row;
    return second.replace(second.find("\"device\": 0"), 11, "\"device\": 1");
  };
  const KinetoRows rows = {kernel_row("gemm", 7, "0", "10"), copy_row(8, "10", "1"),
                           on_second(kernel_row("gemm", 7, "5", "20"))};
  const Folder folder;
  const std::string whole =
      folder.with("two.json", fmt::format("{{\"traceEvents\": [{}]}}", fmt::join(rows, ",")));
  const auto splits = splits_in(read_all({whole}));
  REQUIRE(splits.size() == 2);
  CHECK(splits[0].compute_ns == 10'000);
  CHECK(splits[0].copies == 1);
  CHECK(splits[1].compute_ns == 20'000);
  CHECK(splits[1].rank == 1);
  const std::string one = folder.with("one.json", kineto_text(rows, 1));
  CHECK(profile_refusal({one}) ==
        one + ": found kernels of 2 GPUs (0, 1) on rank 1 of 2, expected a GPU a rank");
}

TEST_CASE("files of jobs with other numbers of ranks are refused") {
  const Folder folder;
  const std::string two = kineto_text({kernel_row("gemm", 7, "0", "10")}, 0);
  std::string four = kineto_text({kernel_row("gemm", 7, "0", "10")}, 1);
  four.replace(four.find("\"world_size\": 2"), 15, "\"world_size\": 4");
  const std::string a = folder.with("a.json", two), b = folder.with("b.json", four);
  CHECK(profile_refusal({a, b}) ==
        b + ": found a rank of 4, where " + a + " is of 2, expected files of one job");
}

TEST_CASE("plain and gzip files, in one line or many, with members in any order, read alike") {
  const Folder folder;
  const std::string row = kernel_row("gemm", 7, "4458676522690.655", "1.5");
  const std::string plain = kineto_text({row});
  const std::string a = folder.with("a.json", plain);
  const std::string b = folder / "b.json.gz";
  write_gzip(b, plain);
  const std::string c =
      folder.with("c.json",
                  "{\"traceEvents\":[{\"args\":{\"stream\":7},\"dur\":1.5,\"ts\":4458676522690.655,"
                  "\"tid\":7,\"name\":\"gemm\",\"cat\":\"kernel\",\"ph\":\"X\"}],"
                  "\"distributedInfo\":{\"rank\":0},\"schemaVersion\":1}");
  const std::string d = folder.with("d.json", "[" + row + "]");  // Chrome's form without an object
  for (const std::string& path : {a, b, c, d}) {
    INFO(path);
    const Profile profile = read_all({path});
    REQUIRE(profile.ranks.size() == 1);
    REQUIRE(profile.ranks[0].kernels.size() == 1);
    CHECK(profile.ranks[0].name_of(profile.ranks[0].kernels[0]) == "gemm");
    CHECK(profile.ranks[0].kernels[0].end_ns - profile.ranks[0].kernels[0].start_ns == 1500);
    // Counted from the whole microsecond that the first kernel starts in.
    CHECK(profile.ranks[0].kernels[0].start_ns == 655);
  }
}

TEST_CASE("a byte order mark before the JSON is skipped, and a report of nsys is named") {
  const Folder folder;
  const std::string text = kineto_text({kernel_row("gemm", 7, "0", "10")});
  const std::string marked = folder.with("marked.json", "\xEF\xBB\xBF" + text);
  CHECK(splits_in(read_all({marked})).front().compute_ns == 10'000);
  const std::string report = folder.with("x.nsys-rep", "NVTX");
  CHECK(profile_refusal({report}) ==
        report +
            ": found a report of Nsight Systems, expected its SQLite: nsys export --type "
            "sqlite makes it");
}

TEST_CASE("files are counted as ranks in the natural order of their names") {
  const Folder folder;
  for (const int host : {1, 2, 10})
    folder.with(
        fmt::format("node_{}.json", host),
        fmt::format("{{\"traceEvents\": [{}]}}", kernel_row("gemm", 7, "0", std::to_string(host))));
  const Profile profile = read_all({folder.path().string()});
  REQUIRE(profile.ranks.size() == 3);
  CHECK(profile.ranks[2].kernels[0].end_ns == 10'000);
  CHECK(profile_notes(profile)[0].starts_with("Ranks are numbered by the order of files' names"));
}

TEST_CASE("a name with quotes, braces and backslashes does not end its row") {
  const Profile profile =
      read_rows({kernel_row(R"(a\"}]{\\)", 7, "1", "2"), kernel_row("b", 7, "5", "2")});
  REQUIRE(profile.ranks[0].kernels.size() == 2);
  CHECK(profile.ranks[0].name_of(profile.ranks[0].kernels[0]) == "a\"}]{\\");
}

TEST_CASE("times are exact to the nanosecond, from 1970 or from the file's base") {
  // In doubles a quarter of a microsecond would be lost.
  const Profile profile = read_rows({kernel_row("a", 7, "1682725898236567.123", "0.001"),
                                     kernel_row("b", 7, "1682725898236568.001", "0.999")});
  const auto& kernels = profile.ranks[0].kernels;
  CHECK(kernels[1].start_ns - kernels[0].start_ns == 878);
  CHECK(kernels[0].end_ns - kernels[0].start_ns == 1);
  CHECK(kernels[1].end_ns - kernels[1].start_ns == 999);
}

TEST_CASE("ranks are what files say, else the number in the name, and two of one are refused") {
  const Folder folder;
  const KinetoRows rows = {kernel_row("gemm", 7, "1", "2")};
  folder.with("x-rank-12.json", "{\"traceEvents\": [" + rows[0] + "]}");
  folder.with("y.json", kineto_text(rows, 3));
  const Profile profile = read_all({folder.path().string()});
  REQUIRE(profile.ranks.size() == 2);
  CHECK(profile.ranks[0].rank == 3);
  CHECK(profile.ranks[1].rank == 12);
  folder.with("z.json", kineto_text(rows, 3));
  const std::string error = profile_refusal({folder.path().string()});
  CHECK(error == fmt::format("{}: found rank 3, which {} is of, expected a file a rank",
                             folder / "z.json", folder / "y.json"));
}

TEST_CASE("what is no profile is refused in one line that says where and why") {
  const Folder folder;
  const std::string whole = kineto_text({kernel_row("gemm", 7, "1", "2")});
  const auto refused = [&](const std::string& name, const std::string& text) {
    const std::string path = folder.with(name, text);
    const std::string error = profile_refusal({path});
    CHECK(error.starts_with(path));
    return error.substr(path.size());
  };
  CHECK(refused("text.json", "hello") ==
        ":1: found 'h', expected '{', the JSON of a torch.profiler trace");
  CHECK(refused("empty.json", "") ==
        ":1: found an empty file, expected '{', the JSON of a torch.profiler trace");
  CHECK(refused("none.json", "{}") ==
        ": found no kernel of a GPU among 0 rows, expected a profile of torch.profiler with GPU "
        "activity (rows of category kernel)");
  CHECK(refused("cut.json", whole.substr(0, whole.size() - 30)) ==
        ":4: found a value that the file's end cuts off, expected the rest of its JSON");
  CHECK(refused("rest.json", whole + "{") == ":6: found '{', expected nothing behind the JSON");
  CHECK(refused("version.json", "{\"schemaVersion\": 2, \"traceEvents\": []}") ==
        ": found schemaVersion 2, expected 1");
  CHECK(refused("cpu.json", kineto_text({launch_row(1, "1")}))
            .starts_with(": found no kernel of a GPU among 1 rows"));
  CHECK(refused("dur.json",
                "{\"traceEvents\": [\n{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"a\", "
                "\"ts\": 1, \"args\": {\"stream\": 7}}]}") ==
        ":2: found a kernel without its length (dur), expected a row of a profile");
  for (const std::string dur : {"-5", "1e300", "NaN", "\"long\"", "\"3 ms\""})
    CHECK(refused("dur.json", kineto_text({kernel_row("gemm", 7, "1", dur)})) ==
          fmt::format(":4: found a kernel with a length (dur) of {}{}, expected a row of a profile",
                      dur, dur == "-5" || dur == "1e300" ? " us" : ""));
  CHECK(refused("broken.json", "{\"traceEvents\": [{\"ph\": \"X\", \"cat\" \"kernel\"}]}")
            .starts_with(":1: found what is no JSON"));
  const std::string zipped = folder / "whole.json.gz";
  write_gzip(zipped, whole);
  const auto bytes = read_file(zipped);
  REQUIRE(bytes.ok());
  CHECK(refused("half.json.gz", bytes->substr(0, bytes->size() / 2))
            .find("found gzip that ends early, expected a whole file") != std::string::npos);
  std::string damaged = *bytes;
  damaged[damaged.size() / 2] = static_cast<char>(damaged[damaged.size() / 2] ^ 0x55);
  CHECK(refused("damaged.json.gz", damaged).find(": found ") != std::string::npos);
  CHECK(profile_refusal({folder / "no.json"}).starts_with(folder / "no.json: no such file"));
  const Folder none;
  CHECK(profile_refusal({none.path().string()}) ==
        none.path().string() +
            ": found no profile in the folder, expected *.json, *.json.gz or *.sqlite");
}

TEST_CASE("a profile that was read can be written, and reads the same again") {
  const Folder folder;
  const Profile read =
      read_rows({kernel_row("gemm", 7, "1.001", "2.5", 1), copy_row(8, "2", "0.25"),
                 kernel_row("ncclKernel_AllReduce", 20, "3", "4", 2,
                            collective("allreduce", 10, "[0, 1]", 2, "mesh_tp", ", \"Seq\": 4"))});
  const std::string path = folder / "again.json";
  REQUIRE(write_kineto_rank(read.ranks[0], path).ok());
  const Profile again = read_all({path});
  REQUIRE(again.ranks[0].kernels.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    const ProfileKernel &a = read.ranks[0].kernels[i], &b = again.ranks[0].kernels[i];
    CHECK(read.ranks[0].name_of(a) == again.ranks[0].name_of(b));
    CHECK(a.end_ns - a.start_ns == b.end_ns - b.start_ns);
    CHECK(a.start_ns == b.start_ns);
    CHECK(a.activity == b.activity);
  }
  CHECK(again.ranks[0].collectives[0].sequence == 4);
  CHECK(splits_in(read)[0].overlap_ns == splits_in(again)[0].overlap_ns);
}

TEST_CASE("the sampled ranks have HTA's own numbers for idle time and overlap") {
  for (const char* name : {"sampled_rank-0.json.gz", "sampled_rank-1.json.gz"}) {
    const std::string path = profile_sample(std::string("interop/traces/") + name);
    const Painted hta = painted(path);
    const Profile profile = read_all({path});
    for (const bool as_hta : {false, true}) {
      INFO(name << " " << as_hta);
      const ProfileSplit split = splits_in(profile, {.as_hta = as_hta}).front();
      CHECK(split.span_ns == 1000 * hta.span);
      CHECK(split.idle_ns == 1000 * hta.idle);
      CHECK(split.compute_ns == 1000 * hta.compute);
      CHECK(split.communication_ns == 1000 * hta.communication);
      CHECK(split.overlap_ns == 1000 * hta.overlap);
    }
  }
}

TEST_CASE("DeepSeek-V3's DualPipe profile: almost all of its communication is beside compute") {
  const Profile profile =
      read_all({profile_sample("interop/traces/deepseek_v3_train_dualpipe.json.gz")});
  CHECK(profile.ranks[0].device == "NVIDIA H800");
  const ProfileSplit split = splits_in(profile).front();
  CHECK(split.kernels == 963);
  CHECK(split.span_ns == Approx(129.0e6).epsilon(1e-3));
  CHECK(split.communication_ns == Approx(113.4e6).epsilon(1e-3));
  CHECK(split.compute_ns == Approx(124.3e6).epsilon(1e-3));
  CHECK(*split.overlap_fraction() == Approx(0.963).margin(0.0005));
  CHECK(split.idle_ns == Approx(0.5e6).epsilon(0.01));
  REQUIRE(split.comms.size() == 1);
  CHECK(split.comms[0].label.text() == "expert all-to-all");
  // Its annotations name attention, MLP, dispatch and combine of F, B and W.
  std::set<PassPhase> phases;
  for (const PhaseTotal& phase : split.phases) phases.insert(phase.phase);
  CHECK(phases == std::set{PassPhase::Forward, PassPhase::Backward, PassPhase::BackwardWeight});
}

TEST_CASE("samples of other versions and vendors are read, and one without a GPU is refused") {
  const std::pair<const char*, std::size_t> kernels[] = {
      {"interop/traces/base.json.gz", 18},
      {"interop/traces/event_sync_trace.json.gz", 6},
      {"interop/traces/triton_example.json.gz", 1},
      {"interop/traces/mi250_minitoy_train_ROCm6_2_kineto.json.gz", 16},
      {"kineto_nccl_sample.json", 4}};
  for (const auto& [name, count] : kernels) {
    INFO(name);
    CHECK(read_all({profile_sample(name)}).ranks.at(0).kernels.size() == count);
  }
  const Profile nccl = read_all({profile_sample("kineto_nccl_sample.json")});
  const ProfileSplit split = splits_in(nccl).front();
  REQUIRE(split.comms.size() == 1);
  // 6,637,568 floats over 2 ranks in 2636.669 us: the bus carries them once.
  CHECK(split.comms[0].label.text() == "all-reduce");
  CHECK(split.comms[0].bus_bytes_per_s() == Approx(6'637'568 * 4 / 2636.669e-6));
  CHECK(profile_refusal(
            {profile_sample("interop/traces/rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz")})
            .find("found no kernel of a GPU among 30 rows") != std::string::npos);
}
