// tandem explain: causes that were put into a run come back, first and with their size.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>

#include "tests/interop/small_log.h"
#include "tests/sandbox.h"

using namespace tandem;

namespace {

using Json = nlohmann::json;

const std::string kJob = R"([model]
layers = 8
hidden = 2048
heads = 16
seq = 2048
vocab = 32000
[parallel]
tp = 2
pp = 2
dp = 2
global_batch = 8
[cluster]
preset = "dgx-h100"
gpus = 8
)";

const std::string kTraces = TANDEM_SOURCE_DIR "/validation/gpu/results/h100/traces/";

// The explanation of a run that was simulated with more settings and written as a profile.
Json explained(const Sandbox& box, const std::string& injected, const std::string& own = "") {
  box.file("job.toml", kJob);
  std::filesystem::remove_all(box.path("p"));
  const Ran written = box.tandem(
      fmt::format("simulate job.toml --engine ideal --unfolded --kineto p {} {}", own, injected));
  INFO(written.err);
  REQUIRE(written.status == 0);
  const Ran ran = box.tandem(fmt::format("explain job.toml p --engine ideal --json {}", own));
  INFO(ran.err);
  REQUIRE(ran.status == 0);
  return Json::parse(ran.out);
}

// Writes the profiles in p as torch.profiler would write those of plain DDP and stages: no member
// of Tandem's, of a transfer the other end alone, the whole pipeline as its group, and
// "default_pg".
void rewrite_as_torch(const Sandbox& box) {
  const std::pair<const char*, const char*> changes[] = {
      {R"("tandem": [^\n]*\n)", ""},
      {R"(DATA_PARALLEL_GROUP)", "default_pg"},
      {R"re("(send|recv)", ([^\n]*)"Group size": 2)re", R"("$1", $2"Group size": 4)"},
      {R"re("(send|recv)", ([^\n]*)Group Name": "\d+")re", R"("$1", $2Group Name": "90")"},
      {R"re("(send|recv)", ([^\n]*)Ranks": "[^"]*")re", R"("$1", $2Ranks": "[0, 2, 4, 6]")"},
      {R"re(("send"[^\n]*), "Src Rank": \d+)re", "$1"},
      {R"re(("recv"[^\n]*), "Dst Rank": \d+)re", "$1"},
      {R"re((" Rank": \d+), "Seq": \d+)re", "$1"}};
  for (int rank = 0; rank < 8; ++rank) {
    const std::string path = fmt::format("p/rank-{}.json", rank);
    std::string text = box.read(path.c_str());
    for (const auto& [from, to] : changes)
      text = std::regex_replace(text, std::regex(from, std::regex::multiline), to);
    box.file(path.c_str(), text);
  }
}

double gap_of(const Json& explanation) {
  return explanation.at("measured_s").get<double>() - explanation.at("simulated_s").get<double>();
}

std::string first_cause(const Json& explanation) {
  const Json& causes = explanation.at("causes");
  return causes.empty() ? "" : causes.at(0).at("what").get<std::string>();
}

// The parts add up to the measured iteration.
void check_sum(const Json& explanation) {
  double sum = explanation.at("simulated_s");
  for (const Json& cause : explanation.at("causes")) sum += cause.at("alone_s").get<double>();
  for (const char* part : {"smaller_causes_s", "interactions_s", "not_explained_s"})
    sum += explanation.at(part).get<double>();
  CHECK(sum == Approx(explanation.at("measured_s").get<double>()).epsilon(1e-9));
}

// The first cause holds the text and makes the gap to a tenth.
void check_first(const Json& explanation, const std::string& text) {
  INFO(explanation.dump(1));
  check_sum(explanation);
  CHECK(first_cause(explanation).find(text) == 0);
  CHECK(gap_of(explanation) > 0);
  REQUIRE(!explanation.at("causes").empty());
  CHECK(explanation.at("causes").at(0).at("alone_s").get<double>() ==
        Approx(gap_of(explanation)).epsilon(0.1));
  CHECK(std::abs(explanation.at("not_explained_s").get<double>()) <
        1e-6 * explanation.at("measured_s").get<double>());
}

}  // namespace

TEST_CASE("a run as simulated has no cause, whatever its schedule") {
  const Sandbox box;
  for (const char* own :
       {"", "--set parallel.pp=4 --set parallel.tp=1",
        "--set parallel.vpp=2 --set overlap.grad_reduce=true", "--set schedule.order=zb1p",
        "--set parallel.pp=1 --set parallel.dp=4 --set train.zero=1"}) {
    INFO(own);
    const Json explanation = explained(box, "", own);
    CHECK(explanation.at("causes") == Json::array());
    CHECK(gap_of(explanation) == 0);
    check_sum(explanation);
  }
}

TEST_CASE("a slow rank, a slow stage, slow links and jitter are told apart") {
  const Sandbox box;
  const std::string straggler = "--set variability.straggler_factor=1.25 --set ";
  for (const char* rank : {"0", "3", "6"})
    check_first(explained(box, fmt::format("{}variability.straggler_ranks=[{}]", straggler, rank)),
                fmt::format("rank {}: its kernels take 1.25 times as long", rank));
  for (const char* stage : {"0", "1"})
    check_first(
        explained(box, fmt::format("{}variability.straggler_stages=[{}]", straggler, stage)),
        fmt::format("stage {}: its kernels take 1.25 times as long", stage));
  const Json jitter = explained(box, "--set variability.jitter=0.1");
  CHECK(first_cause(jitter) == "single ops differ from others of their kind, stage and rank");
  check_sum(jitter);
  const Json links = explained(box, "--set cluster.intra_GBps=100");
  CHECK(first_cause(links).find("tensor communication inside nodes: operations take") == 0);
  check_sum(links);
}

TEST_CASE("a profile as torch.profiler writes it is explained like one that Tandem wrote") {
  const Sandbox box;
  const std::string own = "--set parallel.pp=4 --set parallel.tp=1";
  const Json plain = explained(box, "--set cluster.intra_GBps=100", own);
  REQUIRE(plain.at("causes").size() >= 2);  // of transfers, and of the sum of gradients
  rewrite_as_torch(box);
  const Ran ran = box.tandem("explain job.toml p --engine ideal --json " + own);
  INFO(ran.out << ran.err);
  REQUIRE(ran.status == 0);
  CHECK(Json::parse(ran.out) == plain);
}

TEST_CASE("communication of a profile that the scenario does not have is counted in a note") {
  const Sandbox box;
  explained(box, "");
  const std::string text = box.read("p/rank-0.json");
  box.file("p/rank-0.json", std::regex_replace(text, std::regex("\"allreduce\""), "\"broadcast\""));
  for (const char* command : {"explain job.toml p --engine ideal", "calibrate run job.toml p"}) {
    const std::string out = box.tandem(command).out;
    INFO(out);
    CHECK(has(out, "Communication that is not matched"));
    CHECK(has(out, "of the profile's"));
    CHECK(has(out, "data broadcast"));
  }
}

TEST_CASE("two causes at once are both told, and what they add together apart") {
  const Sandbox box;
  const Json both = explained(box,
                              "--set variability.straggler_factor=1.15 --set "
                              "variability.straggler_ranks=[5] --set cluster.intra_GBps=100");
  INFO(both.dump(1));
  check_sum(both);
  REQUIRE(both.at("causes").size() >= 2);
  std::string told;
  for (const Json& cause : both.at("causes")) told += cause.at("what").get<std::string>() + '\n';
  CHECK(told.find("rank 5: its kernels take 1.15 times as long") != std::string::npos);
  CHECK(told.find("tensor communication inside nodes") != std::string::npos);
}

TEST_CASE(
    "of some ranks' profiles the others are inferred, and waiting for them is not explained") {
  const Sandbox box;
  explained(box, "--set variability.straggler_factor=1.3 --set variability.straggler_ranks=[7]");
  std::filesystem::create_directory(box.path("few"));
  for (const char* rank : {"rank-0.json", "rank-4.json"})
    std::filesystem::copy_file(box.path("p") + '/' + rank, box.path("few") + '/' + rank);
  const Ran ran = box.tandem("explain job.toml few --engine ideal --json");
  CHECK(ran.status == 1);
  CHECK(ran.err.find("% of the measured iteration is not explained, expected at most 2 %") !=
        std::string::npos);
  const Json few = Json::parse(ran.out);
  CHECK(few.at("ranks_measured").size() == 2);
  CHECK(few.at("ranks") == 8);
  CHECK(few.at("explained") == false);
  CHECK(few.at("notes").at(0).get<std::string>().find("2 of 8 ranks") != std::string::npos);
  check_sum(few);
  // A profile that does not tell its rank is taken as the first one, with a note.
  std::string unnamed = box.read("p/rank-7.json");
  unnamed.replace(unnamed.find("distributedInfo"), 15, "notDistributed_");
  box.file("some.json", unnamed);
  const Json taken =
      Json::parse(box.tandem("explain job.toml some.json --engine ideal --json").out);
  CHECK(taken.at("notes").at(1) == "some.json does not tell its rank: it is taken as rank 0.");
  // With the slow rank's own profile nothing is left.
  std::filesystem::copy_file(box.path("p/rank-7.json"), box.path("few/rank-7.json"));
  const Ran more = box.tandem("explain job.toml few --engine ideal --json");
  CHECK(more.status == 0);
  CHECK(first_cause(Json::parse(more.out)).find("rank 7") == 0);
}

TEST_CASE("a profile of another job is refused with what does not match") {
  const Sandbox box;
  explained(box, "");
  check_refused(box.tandem("explain job.toml p --engine ideal --set parallel.global_batch=16"),
                "p/rank-0.json: found another job than job.toml (8 forwards a rank and step "
                "against 4), expected a profile of it");
  check_refused(
      box.tandem("explain job.toml p --engine ideal --set parallel.dp=4 --set cluster.gpus=16"),
      "p/rank-0.json: found another job than job.toml (16 ranks against 8");
  check_refused(box.tandem("explain job.toml nothing"), "nothing: no such file");
}

TEST_CASE("a profile of another GPU than the scenario's is told wherever one is compared") {
  const Sandbox box;
  explained(box, "");
  for (int rank = 0; rank < 8; ++rank) {
    const std::string file = fmt::format("p/rank-{}.json", rank);
    std::string text = box.read(file.c_str());
    const std::string none = "\"deviceProperties\": []";
    REQUIRE(has(text, none));
    text.replace(text.find(none), none.size(),
                 R"("deviceProperties": [{"id": 0, "name": "NVIDIA A100-SXM4-80GB"}])");
    box.file(file.c_str(), text);
  }
  const std::string note =
      "\"Measured on NVIDIA A100-SXM4-80GB, where the simulated GPU is H100-SXM5-80GB: they "
      "differ.\"";
  for (const std::string command : {"explain", "compare", "calibrate run"}) {
    INFO(command);
    const Ran ran = box.tandem(command + " job.toml p --engine ideal --json");
    CHECK(ran.status == 0);
    CHECK(has(ran.out, note));
  }
}

TEST_CASE("causes that were put into real runs on an H100 are found") {
  const Sandbox box;
  struct Case {
    const char* trace;
    const char* cause;
    double least_s, most_s;
  };
  // What was put in: 30 ms of loading before the first microbatch; 20 ms of late launches; a
  // checkpoint, which copies for 0.25 s; a lower clock.
  for (const Case& each :
       {Case{"data", "the step's first op waits for its data", 0.029, 0.033},
        Case{"slowhost", "pauses in which a rank computes nothing", 0.018, 0.023},
        Case{"checkpoint", "copies between GPU and host hold compute up", 0.25, 0.30},
        Case{"clock", "single ops differ", 0.05, 0.08}}) {
    INFO(each.trace);
    const Ran ran = box.tandem(fmt::format(
        "explain {0}job.toml {0}{1}.json.gz --engine ideal --json", kTraces, each.trace));
    INFO(ran.out << ran.err);
    REQUIRE(ran.status == 0);
    const Json explanation = Json::parse(ran.out);
    check_sum(explanation);
    CHECK(first_cause(explanation).find(each.cause) == 0);
    const double first_s = explanation.at("causes").at(0).at("alone_s");
    CHECK(first_s > each.least_s);
    CHECK(first_s < each.most_s);
    // The clock fell within the step.
    if (each.trace == std::string("clock"))
      CHECK(explanation.at("causes")
                .at(0)
                .at("evidence")
                .get<std::string>()
                .find("most on rank 0 from forward ") == 0);
  }
  const Json none = Json::parse(
      box.tandem(fmt::format("explain {0}job.toml {0}none.json.gz --engine ideal --json", kTraces))
          .out);
  for (const Json& cause : none.at("causes")) CHECK(cause.at("alone_s").get<double>() < 0.006);
}

namespace {

// A log of Megatron-LM: 200 iterations of `ms`, or those from `first` to `last`, the one behind
// each checkpoint (every 50) and each evaluation (every 80) 900 and 500 ms longer, and a drift by
// `drift` from first to last.
std::string log_text(double ms, bool slow, double drift, int first = 1, int last = 200) {
  std::string text;
  for (int i = first; i <= last; ++i) {
    double own = ms * (1 + drift * i / 200) + 0.2 * (i % 3);
    if (slow && i > 1 && i % 50 == 1) {
      text += fmt::format("saving checkpoint at iteration {} to c in torch format\n", i - 1);
      own += 900;
    } else if (slow && i > 1 && i % 80 == 1) {
      text += fmt::format("validation loss at iteration {} | lm loss value: 2.0\n", i - 1);
      own += 500;
    }
    text += fmt::format(
        " iteration {}/ 500 | consumed samples: 8 | elapsed time per iteration (ms): {:.1f} |\n", i,
        own);
  }
  return text;
}

Json of_log(const Sandbox& box, const std::string& text, int status) {
  box.file("train.log", text);
  const Ran ran = box.tandem("explain job.toml train.log --engine ideal --json");
  INFO(ran.err);
  REQUIRE(ran.status == status);
  return Json::parse(ran.out);
}

}  // namespace

TEST_CASE("a log alone tells checkpoints, evaluations and a drift, and not why all are slower") {
  const Sandbox box;
  const double ms = 1e3 * explained(box, "").at("simulated_s").get<double>();
  const Json steady = of_log(box, log_text(ms, false, 0), 0);
  CHECK(steady.at("causes") == Json::array());
  CHECK(steady.at("steps") == 197);
  check_sum(steady);

  const Json slow = of_log(box, log_text(ms, true, 0), 0);
  INFO(slow.dump(1));
  check_sum(slow);
  REQUIRE(slow.at("causes").size() == 2);
  CHECK(slow.at("causes").at(0).at("what") == "iterations behind a checkpoint take longer");
  CHECK(slow.at("causes").at(0).at("alone_s").get<double>() == Approx(3 * 0.9 / 197).epsilon(0.01));
  CHECK(slow.at("causes").at(0).at("evidence").get<std::string>().find("3 of them, in lines 52") ==
        0);
  CHECK(slow.at("causes").at(1).at("what") == "iterations behind an evaluation take longer");
  CHECK(slow.at("causes").at(1).at("alone_s").get<double>() == Approx(2 * 0.5 / 197).epsilon(0.01));

  // Iterations of another batch, as in a ramp-up, do not count; a progress bar's lines do.
  std::string ramp = log_text(ms, false, 0);
  std::ranges::replace(ramp, '\n', '\r');
  const Json ramped = of_log(box, iteration_line(0, "100", "1") + ramp, 0);
  CHECK(ramped.at("measured_s") == steady.at("measured_s"));
  CHECK(ramped.at("notes").at(0) ==
        "1 iterations of the log with another global batch, sequence or world size do not count.");

  const Json drift = of_log(box, log_text(ms, false, 0.2), 0);
  CHECK(first_cause(drift) == "iterations drift");
  check_sum(drift);
  // A step is no line: the run begins as its first iterations, which are as simulated.
  const Json step =
      of_log(box, log_text(ms, false, 0, 1, 66) + log_text(5 * ms, false, 0, 67, 200), 0);
  CHECK(first_cause(step) == "iterations drift");
  CHECK(step.at("not_explained_s").get<double>() == Approx(0).margin(0.01e-3 * ms));
  check_sum(step);

  const Json slower = of_log(box, log_text(1.3 * ms, false, 0), 1);
  CHECK(slower.at("causes") == Json::array());
  CHECK(slower.at("not_explained_s").get<double>() == Approx(0.3e-3 * ms).epsilon(0.02));
  CHECK(slower.at("notes").at(0).get<std::string>().find("A log does not tell why") == 0);

  box.file("train.log", iteration_line(1, "100", "1"));
  check_refused(box.tandem("explain job.toml train.log --engine ideal"),
                "train.log:1: found 'global batch size: 128', expected 8, the job's");
  check_refused(box.tandem("explain job.toml train.log --engine ideal --set "
                           "parallel.global_batch=128"),
                "train.log: found 1 iterations, expected at least 13");
  // Beside profiles a log's causes are notes.
  box.file("train.log", log_text(ms, true, 0));
  const Ran both = box.tandem("explain job.toml p train.log --engine ideal --json");
  REQUIRE(both.status == 0);
  CHECK(Json::parse(both.out).at("causes") == Json::array());
  CHECK(Json::parse(both.out).at("notes").size() == 3);
  // The engine that a process may use once plays both.
  const Ran simgrid = box.tandem("explain job.toml p train.log --engine simgrid --json");
  INFO(simgrid.err);
  REQUIRE(simgrid.status <= 1);
  CHECK(Json::parse(simgrid.out).at("notes").size() == 3);
}

TEST_CASE("of a log the last run that measured is explained, and what it leaves out is said") {
  const Sandbox box;
  const double ms = 1e3 * explained(box, "").at("simulated_s").get<double>();
  const Json steady = of_log(box, log_text(ms, false, 0), 0);
  // 200 lines of a slower run, and one behind that crashed.
  const Json last =
      of_log(box, log_text(3 * ms, false, 0) + log_text(ms, false, 0) + "using world size: 4\n", 0);
  CHECK(last.at("measured_s") == steady.at("measured_s"));
  CHECK(last.at("steps") == 197);
  CHECK(last.at("notes").at(0) == "left out: train.log:1 to 200: an earlier run in this log");
  CHECK(last.at("notes").at(1) ==
        "left out: train.log:401 to 401: a later run in this log, which measured nothing");
  // Runs of 5 iterations and of none behind it do not count.
  const Json brief = of_log(
      box, log_text(ms, false, 0) + log_text(3 * ms, false, 0, 190, 194) + "using world size: 4\n",
      0);
  CHECK(brief.at("measured_s") == steady.at("measured_s"));
  CHECK(
      brief.at("notes").at(0) ==
      "left out: train.log:201 to 206: a later run in this log, which measured 5 iterations only");
  // Megatron-LM may stop its clock for checkpoints, unless iterations behind them are slow.
  const std::string clock = "Recent releases of Megatron-LM stop the clock of 'elapsed time per ";
  const Json saved =
      of_log(box,
             log_text(ms, false, 0, 1, 100) + "saving checkpoint at iteration 100\n" +
                 log_text(ms, false, 0, 101, 200),
             0);
  CHECK(saved.at("notes").at(0).get<std::string>().starts_with(clock));
  CHECK(!has(of_log(box, log_text(ms, true, 0), 0).dump(), clock));
  const Json names =
      of_log(box, "> building train, validation, and test datasets\n" + log_text(ms, false, 0), 0);
  CHECK(names.at("notes") == steady.at("notes"));
}

TEST_CASE("a log whose arguments are another job's is refused") {
  const Sandbox box;
  const double ms = 1e3 * explained(box, "").at("simulated_s").get<double>();
  const auto with = [&](const std::string& name, int value) {
    return "-- arguments --\n  vocab_size ...... 7\n  " + name + " ...... " +
           std::to_string(value) + "\n-- end of arguments --\n" + log_text(ms, false, 0);
  };
  struct Size {
    std::string name;
    int own;
  };
  for (const auto& [name, own] : std::vector<Size>{{"tensor_model_parallel_size", 2},
                                                   {"pipeline_model_parallel_size", 2},
                                                   {"context_parallel_size", 1},
                                                   {"expert_model_parallel_size", 1},
                                                   {"micro_batch_size", 1},
                                                   {"num_layers", 8},
                                                   {"hidden_size", 2048},
                                                   {"seq_length", 2048}}) {
    INFO(name);
    of_log(box, with(name, own), 0);
    box.file("train.log", with(name, 64));
    check_refused(
        box.tandem("explain job.toml train.log --engine ideal"),
        "train.log:3: found " + name + " = 64, expected the scenario's " + std::to_string(own));
  }
  // Iterations of a shorter sequence do not count.
  std::string warmup = log_text(ms / 2, false, 0, 1, 50);
  const std::string end = " | actual seqlen: 512 |";
  for (std::size_t at = 0; (at = warmup.find(" |\n", at)) != std::string::npos; at += end.size())
    warmup.replace(at, 2, end);
  const Json rest = of_log(box, warmup + log_text(ms, false, 0, 51, 200), 0);
  CHECK(rest.at("steps") == 147);
  CHECK(rest.at("notes").at(0) ==
        "50 iterations of the log with another global batch, sequence or world size do not count.");
}

TEST_CASE("passes without the rest of their step are explained part by part, and add up") {
  // Simulated, a forward of 10 ms and its backward of 20. Measured, 15 ms of forward, 3 of nothing,
  // and 24 of backward, with 2 more beside it.
  const auto row = [](const char* category, const char* name, int thread, int ms, int length) {
    return fmt::format(R"({{"ph": "X", "cat": "{}", "name": "{}", "pid": 0, "tid": {}, "ts": {}, )"
                       R"("dur": {}, "args": {{"stream": {}}}}})",
                       category, name, thread, 1000 * ms, 1000 * length, thread);
  };
  const auto profile = [&](const std::string& more) {
    return R"({"schemaVersion": 1, "traceEvents": [)" +
           fmt::format(
               "{}, {}, {}, {}, {}, {}{}", row("gpu_user_annotation", "attn(F)", 7, 0, 15),
               row("kernel", "f", 7, 0, 15), row("gpu_user_annotation", "attn(B)", 7, 18, 24),
               row("kernel", "b", 7, 18, 24), row("gpu_user_annotation", "mlp(W)", 8, 20, 2),
               row("kernel", "w", 8, 20, 2), more) +
           "]}";
  };
  const Sandbox box;
  box.file("pair.json", profile(""));
  const std::string job = "explain " TANDEM_SOURCE_DIR
                          "/bench/pp64.toml --engine ideal --set parallel.pp=4 --set "
                          "parallel.global_batch=8 --json ";
  const Ran ran = box.tandem(job + "pair.json --only-passes 3F0,3B0");
  INFO(ran.err);
  REQUIRE(ran.status == 0);
  const Json explanation = Json::parse(ran.out);
  CHECK(explanation.at("simulated_s").get<double>() == Approx(0.030));
  CHECK(explanation.at("measured_s").get<double>() == Approx(0.042));
  check_sum(explanation);
  const Json& causes = explanation.at("causes");
  REQUIRE(causes.size() == 4);
  const auto check = [&](std::size_t at, const std::string& what, double seconds) {
    CHECK(causes.at(at).at("what") == what);
    CHECK(causes.at(at).at("alone_s").get<double>() == Approx(seconds));
  };
  check(0, "backward kernels take 1.3 times as long", 0.006);
  check(1, "forward kernels take 1.5 times as long", 0.005);
  check(2, "nothing runs", 0.003);
  check(3, "kernels of compute beside one another", -0.002);
  // Without the option it is another job's.
  const Ran whole = box.tandem(job + "pair.json");
  check_refused(whole, "pair.json: found another job than ");
  CHECK(whole.err.find("expected a profile of it") != std::string::npos);
  box.file("other.json", profile(", " + row("kernel", "ncclDevKernel_AllReduce_Sum", 9, 5, 5)));
  check_refused(box.tandem(job + "other.json --only-passes 3F0,3B0"),
                "other.json: found communication of other kinds than the passes' (all-reduce "
                "against none), expected the same");
  box.file("plain.json",
           R"({"schemaVersion": 1, "traceEvents": [)" + row("kernel", "gemm", 7, 0, 30) + "]}");
  check_refused(box.tandem(job + "plain.json --only-passes 3F0,3B0"),
                "plain.json: found neither forward nor backward told");
}

TEST_CASE("DeepSeek's pair of chunks is explained by its parts") {
  const Sandbox box;
  const std::string profile =
      TANDEM_SOURCE_DIR "/../shared/samples/interop/traces/deepseek_v3_train_dualpipe.json.gz";
  if (!std::filesystem::exists(profile)) FAIL("skipped: " << profile << " is not there");
  const Ran ran =
      box.tandem(fmt::format("explain {}/validation/dualpipe/chunk-pair.toml {} "
                             "--engine ideal --only-passes 6F3,1B1 --json",
                             TANDEM_SOURCE_DIR, profile));
  INFO(ran.err);
  REQUIRE(ran.status == 0);
  const Json explanation = Json::parse(ran.out);
  check_sum(explanation);
  // From the rows of the file: 113.44 ms of exchange, 4.19 of them without compute beside.
  bool is_told = false;
  for (const Json& cause : explanation.at("causes"))
    is_told |= cause.at("what") == "expert communication without compute beside it" &&
               cause.at("evidence").get<std::string>().find("4.19 of its 113.44 ms") == 0;
  CHECK(is_told);
}

TEST_CASE("iterations that nobody marked are not explained as one") {
  // Twice 10 ms of forward, 20 of backward by autograd's thread, and an optimizer.
  std::string rows =
      R"({"ph": "X", "cat": "cpu_op", "name": "autograd::engine::evaluate_function: Mm", )"
      R"("pid": 9, "tid": 5, "ts": 0, "dur": 1, "args": {}})";
  int launch = 0;
  const auto add = [&](const char* name, int thread, int ms, int length) {
    rows += fmt::format(R"(, {{"ph": "X", "cat": "cuda_runtime", "name": "launch", "pid": 9, )"
                        R"("tid": {}, "ts": {}, "dur": 1, "args": {{"correlation": {}}}}})",
                        thread, 1000 * ms, ++launch);
    rows += fmt::format(R"(, {{"ph": "X", "cat": "kernel", "name": "{}", "pid": 0, "tid": 7, )"
                        R"("ts": {}, "dur": {}, "args": {{"stream": 7, "correlation": {}}}}})",
                        name, 1000 * ms, 1000 * length, launch);
  };
  for (const int begin : {0, 40}) {
    add("forward", 1, begin, 10);
    add(begin == 0 ? "first" : "second", 5, begin + 10, 20);
    add("clip", 1, begin + 30, 1);  // of no pass, and no forward of its own
    rows += fmt::format(R"(, {{"ph": "X", "cat": "user_annotation", "name": )"
                        R"("Optimizer.step#SGD.step", "pid": 9, "tid": 1, "ts": {}, "dur": 900, )"
                        R"("args": {{}}}})",
                        1000 * (begin + 31));
    add("sgd", 1, begin + 31, 1);
  }
  const Sandbox box;
  box.file("two.json", R"({"schemaVersion": 1, "traceEvents": [)" + rows + "]}");
  check_refused(box.tandem("explain " TANDEM_SOURCE_DIR
                           "/bench/pp64.toml two.json --engine ideal --set parallel.pp=1 --set "
                           "parallel.global_batch=1"),
                "two.json: found 2 runs of the optimizer, each behind a backward, without steps "
                "told apart, expected ProfilerStep annotations");
  // Marked, they are two steps of one forward each, and no job of two microbatches.
  for (const int begin : {0, 40})
    rows += fmt::format(R"(, {{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#{}", )"
                        R"("pid": 9, "tid": 1, "ts": {}, "dur": 40000, "args": {{}}}})",
                        begin, 1000 * begin);
  box.file("steps.json", R"({"schemaVersion": 1, "traceEvents": [)" + rows + "]}");
  const std::string steps = "explain " TANDEM_SOURCE_DIR
                            "/bench/pp64.toml steps.json --engine ideal --set parallel.pp=1 --set "
                            "parallel.global_batch=";
  CHECK(box.tandem(steps + "1").status != 2);
  check_refused(box.tandem(steps + "2"),
                "steps.json: found 1 turns from forward to backward in a step, expected the job's "
                "2 forwards");
  // Of unlike steps the mean is told, and that it is one.
  for (const int begin : {80, 180}) {
    const int times = begin == 80 ? 3 : 1;
    add("forward", 1, begin, 10 * times);
    add("second", 5, begin + 10 * times, 20 * times);
    rows += fmt::format(R"(, {{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#{}", )"
                        R"("pid": 9, "tid": 1, "ts": {}, "dur": 40000, "args": {{}}}})",
                        begin, 1000 * begin);
  }
  box.file("steps.json", R"({"schemaVersion": 1, "traceEvents": [)" + rows + "]}");
  const Ran unlike = box.tandem(steps + "1 --json");
  CHECK(has(unlike.out, "\"Steps take 40 to 100 ms: what is said of a step is their mean.\""));
  CHECK(has(unlike.out, "the median of means over steps that differ (ops: 1, ranks: 1)"));
  const Ran trace = box.tandem("trace two.json");
  CHECK(trace.out.find("The optimizer ran 2 times, each time behind a backward") !=
        std::string::npos);
}
