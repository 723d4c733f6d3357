// tandem trace, simulate --kineto and compare against profiles, and that a file written by one
// gives the other what was simulated.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <tuple>

#include "tests/sandbox.h"

using namespace tandem;

namespace {

using Json = nlohmann::json;

// Four stages, eight microbatches. Transfers take a tenth of a pass.
const std::string kFourStages = R"([parallel]
pp = 4
global_batch = 8
[costs]
source = "uniform"
forward_s = 0.0100001
backward_s = 0.0200003
p2p_s = 0.001
)";

const std::string kModel = R"([model]
layers = 8
hidden = 1024
heads = 16
seq = 1024
vocab = 32000
[parallel]
tp = 2
pp = 2
dp = 2
global_batch = 16
[train]
zero = 1
[overlap]
grad_reduce = true
param_gather = true
[cluster]
preset = "selene"
gpus = 8
)";

std::string first_sample(const char* name) {
  std::string path = TANDEM_SOURCE_DIR "/../shared/samples/interop/traces/" + std::string(name);
  if (!std::filesystem::exists(path)) FAIL("skipped: " << name << " is not there");
  return path;
}

// The mean over the ranks of a profile, each counted as the ranks that it stands for.
double mean_of(const Json& profile, const char* key) {
  double sum = 0, ranks = 0;
  for (const Json& rank : profile.at("ranks")) {
    const double count = rank.at("stands_for");
    sum += count * rank.at(key).get<double>();
    ranks += count;
  }
  return sum / ranks;
}

// By kind: exposed seconds, the mean of all ranks; and what is overlapped, of those that have it.
struct KindMeans {
  double exposed_s = 0, overlap = 0, ranks_with = 0;
};
std::map<std::string, KindMeans> kinds_of(const Json& profile) {
  std::map<std::string, KindMeans> kinds;
  double ranks = 0;
  for (const Json& rank : profile.at("ranks")) {
    const double count = rank.at("stands_for");
    ranks += count;
    for (const Json& kind : rank.at("kinds")) {
      KindMeans& means = kinds[kind.at("kind")];
      means.exposed_s += count * kind.at("exposed_s").get<double>();
      if (kind.at("s") == 0) continue;
      means.overlap += count * kind.at("overlapped_s").get<double>() / kind.at("s").get<double>();
      means.ranks_with += count;
    }
  }
  for (auto& [kind, means] : kinds) {
    means.exposed_s /= ranks;
    means.overlap /= means.ranks_with;
  }
  return kinds;
}

Json done(const Ran& ran) {
  INFO(ran.err);
  REQUIRE(ran.status == 0);
  return Json::parse(ran.out);
}

}  // namespace

TEST_CASE("a profile that was simulated gives back bubble, exposed communication and overlap") {
  const Sandbox box;
  box.file("stages.toml", kFourStages);
  box.file("model.toml", kModel);
  int folder = 0;
  for (const char* job :
       {"stages.toml", "stages.toml --set overlap.p2p=true", "stages.toml --set schedule.order=zbv",
        "stages.toml --set schedule.order=dualpipe", "model.toml", "model.toml --unfolded",
        "model.toml --set train.sequence_parallel=true --set overlap.tensor=ring"}) {
    INFO(job);
    const std::string profiles = fmt::format("p{}", ++folder);
    const Json run = done(box.tandem(fmt::format("simulate {} --engine ideal --json --kineto {}",
                                                 job, profiles)))
                         .at(0);
    const Json profile = done(box.tandem("trace " + profiles + " --json"));
    CHECK(profile.at("ranks").at(0).at("step_s").get<double>() ==
          Approx(run.at("iteration_s").get<double>()).margin(1e-9));
    CHECK(mean_of(profile, "compute_s") == Approx(run.at("compute_s").get<double>()).margin(1e-9));
    CHECK(mean_of(profile, "bubble_fraction") ==
          Approx(run.at("bubble_fraction").get<double>()).margin(1e-9));
    const auto kinds = kinds_of(profile);
    for (const char* kind : {"tensor", "pipeline", "data"}) {
      INFO(kind);
      const Json overlap = run.at("overlap_fraction").at(kind);
      CHECK(kinds.contains(kind) == !overlap.is_null());
      if (overlap.is_null()) continue;
      CHECK(kinds.at(kind).exposed_s ==
            Approx(run.at("exposed_s").at(kind).get<double>()).margin(1e-9));
      CHECK(kinds.at(kind).overlap == Approx(overlap.get<double>()).margin(1e-9));
    }
  }
}

TEST_CASE("op times come back as well: a Program priced by its own profile takes as long") {
  const Sandbox box;
  box.file("stages.toml", kFourStages);
  box.file("model.toml", kModel);
  int folder = 0;
  for (const char* job : {"stages.toml", "stages.toml --set schedule.order=zbv",
                          "stages.toml --set parallel.vpp=2", "model.toml"}) {
    INFO(job);
    const std::string profiles = fmt::format("p{}", ++folder);
    box.file("job.csv", box.tandem(fmt::format("schedule {} --format program", job)).out);
    const Json own = done(box.tandem("simulate job.csv --json --kineto " + profiles)).at(0);
    const Json again = done(box.tandem("simulate job.csv --json --op-times " + profiles)).at(0);
    CHECK(again.at("iteration_s") == own.at("iteration_s"));
    CHECK(again.at("compute_s") == own.at("compute_s"));
    CHECK(again.at("bubble_fraction") == own.at("bubble_fraction"));
  }
  for (const auto& [set, found] :
       {std::pair{"parallel.global_batch=4", "forwards a step, expected the 4 of rank 0 in "},
        std::pair{"parallel.dp=2", "found rank 0 of 4, expected a profile of the 8 ranks of "}}) {
    box.file("job.csv",
             box.tandem(fmt::format("schedule stages.toml --format program --set {}", set)).out);
    const Ran ran = box.tandem("simulate job.csv --op-times p1");
    INFO(ran.err);
    check_refused(ran, "p1/rank-0.json: found ");
    CHECK(has(ran.err, found));
  }
}

TEST_CASE("a profile's passes become a scenario that takes what they took") {
  const Sandbox box;
  box.file("stages.toml", kFourStages);
  for (const auto& [name, set, order] :
       {std::tuple{"p", "", ""},
        {"dual", " --set schedule.order=dualpipe", "[schedule]\norder = \"dualpipe\"\n"}}) {
    const Json run = done(box.tandem(fmt::format("simulate stages.toml --engine ideal --json "
                                                 "--kineto {}{}",
                                                 name, set)))
                         .at(0);
    check_done(box.tandem(fmt::format("trace {} --scenario measured.toml", name)));
    const std::string text = box.read("measured.toml");
    INFO(text);
    CHECK(has(text, std::string("pp = 4\nglobal_batch = 8\n") + order + "[costs]"));
    CHECK(has(text, "forward_s = 0.010000100\n"));
    CHECK(has(text, *order == 0 ? "backward_s = 0.020000300\n" : "input_s = 0.010000150\n"));
    const Json measured = done(box.tandem("simulate measured.toml --engine ideal --json")).at(0);
    CHECK(measured.at("iteration_s") == run.at("iteration_s"));
  }
}

TEST_CASE("a profile's matrix products become a cost table, and price another job") {
  const Sandbox box;
  box.file("model.toml", kModel);
  // Three calls and the kernel that each launched, which takes so many us.
  const auto compute_s = [&](int product_us, int scores_us, int sum_us) {
    std::string rows;
    int id = 0;
    const auto add = [&](const char* call, const char* shapes, const char* kernel, int us) {
      rows += fmt::format(
          R"({6} {{"ph": "X", "cat": "cpu_op", "name": "{0}", "pid": 9, "tid": 1, "ts": {4},
          "dur": 9, "args": {{"Input Dims": {1},
          "Input type": ["c10::BFloat16", "c10::BFloat16"]}}}},
          {{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 1,
          "ts": {4}, "dur": 1, "args": {{"correlation": {5}}}}},
          {{"ph": "X", "cat": "kernel", "name": "{2}", "pid": 0, "tid": 7, "ts": {4}, "dur": {3},
          "args": {{"stream": 7, "correlation": {5}}}}})",
          call, shapes, kernel, us, 1000 * id, id, id == 0 ? "" : ",");
      ++id;
    };
    add("aten::mm", "[[1024, 1024], [1024, 1024]]", "gemm", product_us);
    add("aten::bmm", "[[8, 1024, 64], [8, 64, 1024]]", "gemm", scores_us);
    add("aten::add", "[[1048576], [1048576]]", "elementwise", sum_us);
    box.file("p.json", R"({"schemaVersion": 1, "traceEvents": [)" + rows + "]}");
    check_done(box.tandem("trace p.json --costs costs.csv"));
    return done(box.tandem("simulate model.toml --json --engine ideal --set costs.source=table "
                           "--set costs.table=costs.csv"))
        .at(0)
        .at("compute_s")
        .get<double>();
  };
  const double slow_s = compute_s(2000, 1000, 500);
  const std::string table = box.read("costs.csv");
  CHECK(table.find("# precision: bf16\n") != std::string::npos);
  CHECK(table.find("gemm,,1x1024x1024x1024,0,0,0,0,0,1,2000000,2000000,2000000,") !=
        std::string::npos);
  // But for the launches of small kernels, which no table has.
  CHECK(slow_s == Approx(2 * compute_s(1000, 500, 250)).epsilon(0.002));
  CHECK(box.tandem("trace p.json --costs p.json").status == 2);
}

TEST_CASE("written profiles have the form that other tools ask for, and the same bytes each time") {
  const Sandbox box;
  box.file("model.toml", kModel);
  check_done(box.tandem("simulate model.toml --engine ideal --kineto p"));
  check_done(box.tandem("simulate model.toml --engine ideal --kineto q"));
  const std::string text = box.read("p/rank-0.json");
  CHECK(text == box.read("q/rank-0.json"));
  // HTA takes a file's rank from here, and counts it as 0 without the blank.
  std::smatch found;
  REQUIRE(std::regex_search(text, found, std::regex(R"("rank":\s+(\d+))")));
  CHECK(found[1] == "0");
  const Json json = Json::parse(text);
  CHECK(json.at("schemaVersion") == 1);
  CHECK(json.at("distributedInfo").at("world_size") == 8);
  int steps = 0;
  std::map<std::string, int> collectives;
  for (const Json& row : json.at("traceEvents")) {
    if (row.at("name") == "ProfilerStep#0" && row.at("cat") == "user_annotation") ++steps;
    if (row.value("cat", "") != "kernel") continue;
    CHECK(row.at("args").at("stream").is_number());
    const Json& args = row.at("args");
    if (!args.contains("Collective name")) continue;
    ++collectives[args.at("Collective name")];
    CHECK(row.at("name").get<std::string>().starts_with("nccl"));
    for (const char* key : {"In msg nelems", "Out msg nelems", "Group size", "dtype",
                            "In split size", "Out split size", "Process Group Name",
                            "Process Group Description", "Process Group Ranks", "Seq"})
      CHECK(args.contains(key));
    CHECK(args.at("Process Group Ranks").get<std::string>().starts_with("["));
  }
  CHECK(steps == 1);  // of two the last would be dropped
  CHECK(collectives.contains("allreduce"));
  CHECK(collectives.contains("_reduce_scatter_base"));
  CHECK(collectives.contains("send"));
}

TEST_CASE("a written profile names passes of the vocabulary by an order's letters") {
  const Sandbox box;
  box.file("model.toml", kModel);
  check_done(box.tandem(
      "simulate model.toml --engine ideal --kineto p --set schedule.vocabulary=parallel"));
  const Json profile = Json::parse(box.read("p/rank-0.json"));
  std::map<char, int> letters;
  for (const Json& row : profile.at("traceEvents")) {
    const std::string name = row.at("name");
    if (name.starts_with("PP:")) ++letters[name.at(name.find_first_not_of("0123456789", 3))];
  }
  for (const char letter : {'F', 'B', 'S', 'T'}) CHECK(letters.contains(letter));
  for (const auto& [letter, count] : letters)
    CHECK(std::string("FBIWESTG").find(letter) != std::string::npos);
}

TEST_CASE("kernels below a microsecond are told, since HTA may drop them") {
  const Sandbox box;
  box.file("short.toml",
           "[parallel]\npp = 2\nglobal_batch = 2\n[costs]\nsource = \"uniform\"\n"
           "forward_s = 0.0000005\nbackward_s = 0.001\np2p_s = 0.001\n");
  const Ran ran = box.tandem("simulate short.toml --engine ideal --kineto p");
  CHECK(ran.status == 0);
  // A forward of 500 ns for each of two microbatches on two ranks; 2 x 4 passes and 2 x 4 ends of
  // transfers in all.
  CHECK(ran.err ==
        "warning: p: 4 of 16 kernels are shorter than 1 us: Holistic Trace Analysis, "
        "which rounds to whole us, may drop them; tandem trace does not\n");
}

TEST_CASE(
    "a folder that is a file or has profiles is refused before the work, and nothing is left") {
  const Sandbox box;
  box.file("stages.toml", kFourStages);
  box.file("taken", "x");
  check_refused(box.tandem("simulate stages.toml --kineto taken"),
                "taken: found a file, expected a folder for a profile a rank");
  check_done(box.tandem("simulate stages.toml --engine ideal --kineto p"));
  check_refused(box.tandem("simulate stages.toml --kineto p"), "p: found rank-");
  CHECK(box.files() == Names{"p", "stages.toml", "taken"});
}

TEST_CASE("run writes the median iteration as profiles") {
  const Sandbox box;
  box.file("stages.toml", kTwoStages);
  const Ran ran = box.tandem("run stages.toml --iterations 1 --json --kineto p");
  INFO(ran.err);
  REQUIRE(ran.status == 0);
  const Json run = Json::parse(ran.out).at(0);
  const Json profile = done(box.tandem("trace p --json"));
  CHECK(profile.at("ranks").size() == 2);
  CHECK(mean_of(profile, "compute_s") == Approx(run.at("compute_s").get<double>()).margin(1e-9));
}

TEST_CASE("compare holds a scenario against profiles, rank against rank, in table, JSON and page") {
  const Sandbox box;
  box.file("stages.toml", kFourStages);
  // What runs is slower by half in its forwards.
  check_done(
      box.tandem("simulate stages.toml --engine ideal --set costs.forward_s=0.015 "
                 "--kineto p"));
  std::filesystem::remove(box.path("p/rank-0.json"));  // a few ranks of many suffice
  const Json json = done(box.tandem("compare stages.toml p --engine ideal --json"));
  std::map<std::string, Json> rows;
  for (const Json& row : json.at("rows"))
    rows[row.at("name").get<std::string>() + (row.at("unit") == "s" ? "" : " %")] = row;
  // Eight microbatches of 10.0001 + 20.0003 against 15 + 20.0003 ms.
  CHECK(rows.at("compute").at("simulated").get<double>() == Approx(8 * 0.0300004));
  CHECK(rows.at("compute").at("measured").get<double>() == Approx(8 * 0.0350003));
  CHECK(json.at("simulated").at("ranks").size() == 3);
  REQUIRE(json.at("passes").size() == 6);
  CHECK(json.at("passes").at(0).at("phase") == "forward");
  CHECK(json.at("passes").at(0).at("simulated_pass_s").get<double>() == Approx(0.0100001));
  CHECK(json.at("passes").at(0).at("measured_pass_s").get<double>() == Approx(0.015));
  const Ran table = box.tandem("compare stages.toml p --engine ideal --report both.html");
  if (table.status == 3) FAIL("skipped: " << table.err);
  check_done(table);
  CHECK(
      table.out.starts_with("simulated  stages.toml (ideal), 3 ranks\n"
                            "measured   p (Tandem), 3 ranks\n"));
  CHECK(table.out.find("\nexposed pipeline communication ms ") != std::string::npos);
  const std::string page = box.read("both.html");
  CHECK(page.find("\"rows\":[{\"name\":\"step\"") != std::string::npos);
  CHECK(page.find("\"ncclDevKernel_SendRecv\"") !=
        std::string::npos);  // both timelines name kernels
  // Of a profile that tells no waits neither side counts by them.
  const std::string waiting = " --set overlap.p2p=true";
  check_done(box.tandem("simulate stages.toml --engine ideal --kineto other" + waiting));
  for (int rank = 0; rank < 4; ++rank) {
    const std::string file = fmt::format("other/rank-{}.json", rank), text = box.read(file.c_str());
    REQUIRE(has(text, "Waits for"));
    box.file(file.c_str(),
             std::regex_replace(text, std::regex(R"re(\n"tandem": .*|, "Waits for": \[[^\]]*\])re"),
                                ""));
  }
  const Json alike =
      done(box.tandem("compare stages.toml other --engine ideal --json" + waiting)).at("rows");
  for (const Json& row : alike) {
    INFO(row.dump());
    CHECK(row.at("simulated").get<double>() == Approx(row.at("measured").get<double>()));
  }
  CHECK(has(alike.dump(), "exposed pipeline communication"));
  // A trace and a Program of the same job stand for the scenario.
  box.file("job.csv", box.tandem("schedule stages.toml --format program").out);
  CHECK(box.tandem("simulate job.csv --unfolded --trace t.csv").status == 0);
  for (const char* simulated : {"job.csv", "t.csv"}) {
    INFO(simulated);
    const Json other = done(box.tandem(fmt::format("compare {} p --json", simulated)));
    CHECK(other.at("rows").at(1) == json.at("rows").at(1));
  }
}

TEST_CASE("compare says first that a profile is of another job, and why") {
  const Sandbox box;
  box.file("stages.toml", kFourStages);
  check_done(box.tandem("simulate stages.toml --engine ideal --kineto p"));
  const auto compared = [&](const std::string& sets) {
    return box.tandem("compare stages.toml p --engine ideal" + sets);
  };
  // Off by less than any other job would be: nothing is said.
  for (const char* same : {"", " --set costs.forward_s=0.025", " --set overlap.p2p=true",
                           " --set schedule.order=gpipe", " --only-passes 0F3"}) {
    INFO(same);
    check_done(compared(same));
  }
  const Json none = done(compared(" --json"));
  CHECK(none.at("another_job").is_null());
  struct Other {
    std::string sets, why;
  };
  const std::vector<Other> others = {
      {" --set parallel.pp=8", "8 ranks against 4"},
      {" --set parallel.pp=1", "1 ranks against 4, pipeline communication measured alone"},
      {" --set parallel.global_batch=16", "16 forwards a rank and step against 8"},
      {" --set costs.forward_s=0.2", "1.76 s of compute a step against 0.24 s"}};
  for (const auto& [sets, why] : others) {
    INFO(sets);
    const Ran ran = compared(sets);
    INFO(ran.err);
    CHECK(ran.status == 0);
    CHECK(ran.err.starts_with("warning: The profile p is of another job than stages.toml (" + why));
    CHECK(std::ranges::count(ran.err, '\n') == 1);
    const Ran json = compared(sets + " --json");
    CHECK(Json::parse(json.out).at("another_job").get<std::string>().starts_with(why));
  }
}

TEST_CASE("compare on the sampled ranks prints HTA's own numbers for idle time and overlap") {
  const Sandbox box;
  box.file("stages.toml", kFourStages);
  first_sample("sampled_rank-0.json.gz");
  std::filesystem::create_directory(box.path("ranks"));
  for (const char* name : {"sampled_rank-0.json.gz", "sampled_rank-1.json.gz"})
    std::filesystem::copy_file(first_sample(name), box.path("ranks") + "/" + name);
  const Json json = Json::parse(box.tandem("compare stages.toml ranks --engine ideal --json").out);
  // In us, as profile_test works them out kernel by kernel: idle of the span, and communication
  // beside compute of all communication.
  const double idle[] = {321378.0 / 600058, 328671.0 / 600674};
  const double overlap[] = {23068.0 / 195327, 33691.0 / 168027};
  for (const int rank : {0, 1}) {
    const Json& measured = json.at("measured").at("ranks").at(static_cast<std::size_t>(rank));
    CHECK(measured.at("idle_fraction").get<double>() == Approx(idle[rank]));
    CHECK(measured.at("overlap_fraction").get<double>() == Approx(overlap[rank]));
  }
  const Ran table = box.tandem("compare stages.toml ranks --engine ideal");
  CHECK(table.status == 0);
  CHECK(table.err.starts_with("warning: The profile ranks is of another job than stages.toml ("));
  CHECK(table.out.find("\n0              600.058  321.378  53.6  195.327          11.8\n") !=
        std::string::npos);
  CHECK(table.out.find("\n1              600.674  328.671  54.7  168.027          20.1\n") !=
        std::string::npos);
}

TEST_CASE("DeepSeek-V3's pair of chunks takes what its profile says, within 10 %") {
  const Sandbox box;
  const std::string profile = first_sample("deepseek_v3_train_dualpipe.json.gz");
  const std::string pair = TANDEM_SOURCE_DIR "/validation/dualpipe/chunk-pair.toml";
  const std::string command =
      fmt::format("compare '{}' '{}' --only-passes 6F3,1B1 --json", pair, profile);
  const Ran ran = box.tandem(command);
  check_done(ran);
  const Json compared = Json::parse(ran.out);
  const Json &simulated = compared.at("simulated").at("ranks").at(0),
             &measured = compared.at("measured").at("ranks").at(0);
  CHECK(measured.at("span_s") == Approx(0.129012));
  CHECK(simulated.at("span_s").get<double>() ==
        Approx(measured.at("span_s").get<double>()).epsilon(0.10));
  CHECK(std::abs(simulated.at("overlap_fraction").get<double>() -
                 measured.at("overlap_fraction").get<double>()) <= 0.05);
  const Json& exchange = compared.at("communication").at(0);
  CHECK(exchange.at("name") == "expert all-to-all");
  CHECK(exchange.at("simulated").at("count") == 16);  // out and back, of 4 layers, both ways
  // The scenario's two ranks in the middle: the others hold neither pass.
  CHECK(compared.at("communication").size() == 1);
  check_refused(box.tandem(fmt::format("compare '{}' '{}' --only-passes 6F3,3B1", pair, profile)),
                "--only-passes: found no rank that ran all of them");
  check_refused(box.tandem(fmt::format("compare '{}' '{}' --only-passes 6G3", pair, profile)),
                "--only-passes: found '6G3', expected a stage");
}

TEST_CASE("trace and compare refuse what does not fit in one line, and leave no file") {
  const Sandbox box;
  box.file("stages.toml", kFourStages);
  box.file("no.txt", "x");
  box.file("bare.json",
           R"({"traceEvents": [{"ph": "X", "cat": "kernel", "name": "gemm", "tid": 7, )"
           R"("ts": 1, "dur": 2, "args": {"stream": 7}}]})");
  check_done(box.tandem("simulate stages.toml --engine ideal --kineto p"));
  CHECK(box.tandem("simulate stages.toml --engine ideal --trace t.csv").status == 0);
  const auto files = box.files();
  check_refused(box.tandem("trace stages.toml"),
                "stages.toml:1: found 'p', expected '{', a row of a profile");
  check_refused(box.tandem("trace no"), "no: no such file");
  check_refused(box.tandem("trace bare.json --scenario s.toml"),
                "bare.json: found no passes of microbatches told apart, expected annotations");
  check_refused(box.tandem("trace p --scenario stages.toml/x"), "stages.toml/x: ");
  check_refused(box.tandem("compare t.csv t.csv --set costs.p2p_s=0"), "t.csv: found --set, ");
  check_refused(box.tandem("compare p p --set costs.p2p_s=0"), "p: ");
  check_refused(box.tandem("compare t.csv p --perfetto both.json"),
                "p: found --perfetto, expected it with two traces only");
  check_refused(box.tandem("compare no.toml p"), "no.toml: no such file");
  for (const char* sets : {"", " --set costs.p2p_s=0"})
    check_refused(box.tandem(std::string("compare stages.toml wrong/") + sets),
                  "wrong/: no such file, expected a measured trace (CSV), or profiles");
  check_refused(box.tandem("compare stages.toml no.txt"), "no.txt:1: found 'x', expected ");
  CHECK(box.files() == files);
}
