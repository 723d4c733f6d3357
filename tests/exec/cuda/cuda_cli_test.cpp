// tandem on GPUs, by a fake one in virtual time: all but the device itself.
#include <cstdlib>
#include <list>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/sandbox.h"
#include "tests/variable.h"

using namespace tandem;

namespace {

using Json = nlohmann::json;

std::string said(const Ran& ran) {
  CHECK(ran.out.empty());
  return ran.err;
}

}  // namespace

TEST_CASE("ranks that share a GPU play what ideal simulates") {
  const Variable plugins("TANDEM_PLUGINS", TANDEM_FAKE_PLUGINS);
  const Sandbox sandbox;
  sandbox.file("two.toml", kTwoStages);
  const Ran ran = sandbox.tandem(
      "run two.toml --backend cuda --share-gpu --transfers priced --trace m.csv --json");
  check_done(ran);
  const Ran simulated = sandbox.tandem("simulate two.toml --engine ideal --trace s.csv --json");
  check_done(simulated);
  const Json real = Json::parse(ran.out)[0], ideal = Json::parse(simulated.out)[0];
  CHECK(real["backend"] == "cuda");
  CHECK(real["iteration_s"] == ideal["iteration_s"]);
  CHECK(real["bubble_fraction"] == ideal["bubble_fraction"]);
  CHECK(real["payloads_checked"] == 8);  // four activations, four gradients
  const std::string what = real["real"];
  CHECK(what.find("not validated on one GPU") != std::string::npos);
  CHECK(what.find("fake GPU (virtual time)") != std::string::npos);
  const Ran compared = sandbox.tandem("compare s.csv m.csv --json");
  check_done(compared);
  CHECK(Json::parse(compared.out)["iteration_error"] == 0);
}

TEST_CASE("every way to launch and to transfer plays a Program to its end") {
  const Variable plugins("TANDEM_PLUGINS", TANDEM_FAKE_PLUGINS);
  const Sandbox sandbox;
  sandbox.file("two.toml", kTwoStages);
  for (const char* options : {"--launch gated", "--launch direct", "--launch graph",
                              "--transfers nccl", "--transfers copy", "--warmup 0"}) {
    INFO(options);
    const Ran ran =
        sandbox.tandem(std::string("run two.toml --backend cuda --share-gpu --json ") + options);
    check_done(ran);
    CHECK(Json::parse(ran.out)[0]["iterations"] == 5);
  }
}

TEST_CASE("ranks on GPUs of their own are started here where there are as many") {
  const Variable plugins("TANDEM_PLUGINS", TANDEM_FAKE_PLUGINS);
  const Variable gpus("TANDEM_FAKE_GPUS", "2");
  const Sandbox sandbox;
  sandbox.file("two.toml", kTwoStages);
  const Ran ran = sandbox.tandem("run two.toml --backend cuda --json");
  check_done(ran);
  const Json real = Json::parse(ran.out)[0];
  CHECK(real["backend"] == "cuda");
  CHECK(real["ranks_simulated"] == 2);
  CHECK(real["payloads_checked"] == 8);
}

TEST_CASE("what NCCL prints to standard output goes to standard error, results alone stand there") {
  const Variable plugins("TANDEM_PLUGINS", TANDEM_FAKE_PLUGINS);
  const Variable gpus("TANDEM_FAKE_GPUS", "2");
  const Variable prints("TANDEM_FAKE_PRINTS", "1");
  const std::string kAnything =
      "iteration_percent = 1000\nbubble_points = 100\noverlap_points = 100\n"
      "communicating_percent = 1000\n";
  const Sandbox sandbox;
  sandbox.file("two.toml", kTwoStages);
  sandbox.file("suite.toml",
               kTwoStages + "[validate]\nbackend = \"cuda\"\nshare_gpu = true\n" + kAnything);
  sandbox.file("gpus.toml", kTwoStages + "[validate]\nbackend = \"cuda\"\n" + kAnything);
  sandbox.file("tiny.toml", kTinyModel);
  sandbox.file("two.csv", sandbox.tandem("schedule tiny.toml --format program").out);
  const std::string bench =
      "bench comm --cluster dgx-h100 --ranks 2 --backend cuda --share-gpu --op p2p -b 1M -e 1M";
  for (const std::string& arguments : std::vector<std::string>{
           "run two.toml --backend cuda --share-gpu --json", "run two.toml --backend cuda --json",
           bench + " --json",
           "calibrate device two.csv --backend cuda --share-gpu --iterations 2 --json",
           "validate suite.toml --iterations 2 --json",
           "validate gpus.toml --iterations 2 --json"}) {
    const Ran ran = sandbox.tandem(arguments);
    INFO(arguments << "\n" << ran.out << ran.err);
    CHECK(ran.status == 0);
    CHECK(Json::accept(ran.out));
    CHECK(ran.err.find("fake NCCL: issue\n") != std::string::npos);
    CHECK(ran.err.find("fake NCCL: gone\n") != std::string::npos);
  }
  const Ran table = sandbox.tandem("run two.toml --backend cuda --share-gpu");
  CHECK(table.out.find("fake NCCL") == std::string::npos);
  CHECK(table.out.find("payloads checked") != std::string::npos);
  const Ran doctor = sandbox.tandem("doctor");
  CHECK(doctor.out.find("fake NCCL") == std::string::npos);
  CHECK(doctor.out.find("ready: 2 GPUs") != std::string::npos);
  CHECK(doctor.out.find("built with 2.28.9, found none") != std::string::npos);
  CHECK(doctor.out.find("\nGPU 1 ") != std::string::npos);
}

TEST_CASE("one launched process is no job: it starts its ranks itself, as a shell of srun does") {
  const Variable plugins("TANDEM_PLUGINS", TANDEM_FAKE_PLUGINS);
  const Variable gpus("TANDEM_FAKE_GPUS", "2");
  const Sandbox sandbox;
  sandbox.file("two.toml", kTwoStages);
  using Names = std::map<std::string, std::string>;
  const Names task = {{"SLURM_JOB_ID", "7"}, {"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}};
  Names batch = task, shell = task, step = task;
  batch["SLURM_NTASKS"] = "2";          // sbatch, without srun
  shell["SLURM_STEP_NUM_TASKS"] = "1";  // srun --pty bash
  step["SLURM_STEP_NUM_TASKS"] = "3";
  const Names one_of_mpi = {{"OMPI_COMM_WORLD_RANK", "0"},
                            {"OMPI_COMM_WORLD_SIZE", "1"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}};
  const Names one_of_torchrun = {{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"LOCAL_RANK", "0"}};
  for (const Names& names : {batch, shell, one_of_mpi, one_of_torchrun}) {
    std::list<Variable> variables;
    for (const auto& [name, value] : names) variables.emplace_back(name.c_str(), value);
    INFO(names.begin()->first);
    const Ran ran = sandbox.tandem("run two.toml --backend cuda --json");
    check_done(ran);
    CHECK(Json::parse(ran.out)[0]["payloads_checked"] == 8);
    check_done(sandbox.tandem("run two.toml --backend cuda --share-gpu"));
    check_done(sandbox.tandem(
        "bench comm --cluster dgx-h100 --ranks 2 --backend cuda --op p2p -b 1M -e 1M"));
  }
  std::list<Variable> variables;
  for (const auto& [name, value] : step) variables.emplace_back(name.c_str(), value);
  const Ran three = sandbox.tandem("run two.toml --backend cuda");
  CHECK(three.status == 2);
  CHECK(said(three).find("found 3 processes (Slurm), expected 2, one a rank") != std::string::npos);
}

TEST_CASE("what GPUs cannot do is one line: 3 for what is missing, 2 for wrong use") {
  const Sandbox sandbox;
  sandbox.file("two.toml", kTwoStages);
  {
    const Variable none("CUDA_VISIBLE_DEVICES", "");
    const Ran ran = sandbox.tandem("run two.toml --backend cuda --share-gpu");
    CHECK(ran.status == 3);
    CHECK(said(ran).starts_with("cuda backend unavailable: "));
  }
  const Variable plugins("TANDEM_PLUGINS", TANDEM_FAKE_PLUGINS);
  const Ran few = sandbox.tandem("run two.toml --backend cuda");
  CHECK(few.status == 3);
  CHECK(said(few).starts_with("found 1 GPU, expected 2, one a rank: --share-gpu plays all"));
  const Variable world("WORLD_SIZE", "2"), rank("RANK", "0"), local("LOCAL_RANK", "0");
  check_refused(sandbox.tandem("run two.toml --backend cuda --share-gpu"),
                "two.toml:5: found 2 processes (torchrun) and --share-gpu, expected one");
}

TEST_CASE("launches that block are refused, few queues are made many, and the trace says so") {
  const Variable plugins("TANDEM_PLUGINS", TANDEM_FAKE_PLUGINS);
  const Sandbox sandbox;
  sandbox.file("two.toml", kTwoStages);
  {
    const Variable blocking("CUDA_LAUNCH_BLOCKING", "1");
    const Ran ran = sandbox.tandem("run two.toml --backend cuda --share-gpu");
    CHECK(ran.status == 2);
    CHECK(said(ran).find("found CUDA_LAUNCH_BLOCKING=1, expected it unset") != std::string::npos);
  }
  const Variable one("CUDA_DEVICE_MAX_CONNECTIONS", "1");
  const Ran ran = sandbox.tandem("run two.toml --backend cuda --share-gpu --gate-calls 10 --json");
  check_done(ran);
  const std::string real = Json::parse(ran.out)[0]["real"];
  CHECK(real.find("CUDA_DEVICE_MAX_CONNECTIONS was 1, and is 32 here") != std::string::npos);
  CHECK(real.find("launched directly: its queues hold 10 calls") != std::string::npos);
}

TEST_CASE("an option of GPUs that is given in vain is refused, by every command that has it") {
  const Sandbox sandbox;
  sandbox.file("two.toml", kTwoStages);
  const auto refused = [&](const std::string& arguments, const std::string& begin) {
    INFO(arguments);
    check_refused(sandbox.tandem(arguments), begin);
  };
  const std::string comm = "bench comm --cluster dgx-h100 --ranks 2 ";
  refused("run two.toml --share-gpu", "found --share-gpu, expected --backend cuda with it");
  refused("run two.toml --backend mpi --launch graph",
          "found --launch, expected --backend cuda with it");
  refused("run two.toml --backend cuda --precision fp8", "found --precision, expected --compute ");
  refused(comm + "--share-gpu", "found --share-gpu, expected --backend cuda with it");
  refused(comm + "--backend cuda --transfers copy", "found --transfers, expected --share-gpu");
  refused("calibrate device none.csv --precision fp8",
          "found --precision, expected --backend cuda ");
  refused("run two.toml --backend cuda --share-gpu --transfers 1", "--transfers: 1 not in ");
  refused("run two.toml --gate-calls 10", "found --gate-calls, expected --backend cuda ");
  refused("run two.toml --gradients bf16", "found --gradients, expected --backend cuda ");
  refused("run two.toml --backend cuda --launch queued", "--launch: queued not in ");
}

TEST_CASE("a GPU that hangs is found by the time-out, and what is known is kept") {
  const Variable plugins("TANDEM_PLUGINS", TANDEM_FAKE_PLUGINS);
  const Variable hang("TANDEM_FAKE_HANG", "1");
  const Sandbox sandbox;
  sandbox.file("two.toml", kTwoStages);
  const Ran shared =
      sandbox.tandem("run two.toml --backend cuda --share-gpu --timeout 0.3 --trace part.csv");
  CHECK(shared.status == 1);
  CHECK(said(shared).starts_with("no op ended within 0.3 s: rank "));
  CHECK(sandbox.read("part.csv").find("# complete: no\n") != std::string::npos);
  const Variable gpus("TANDEM_FAKE_GPUS", "2");
  const Ran many = sandbox.tandem("run two.toml --backend cuda --timeout 4");
  CHECK(many.status == 1);
  CHECK(said(many).starts_with("no op ended within 4 s: rank 1 is still in "));
}

TEST_CASE("a payload that is not what was sent fails the run") {
  const Variable plugins("TANDEM_PLUGINS", TANDEM_FAKE_PLUGINS);
  const Variable fault("TANDEM_FAKE_FAULT", "1:1");
  const Sandbox sandbox;
  sandbox.file("two.toml", kTwoStages);
  const Ran ran = sandbox.tandem("run two.toml --backend cuda --share-gpu");
  CHECK(ran.status == 1);
  CHECK(said(ran).starts_with("received other bytes in "));
}

TEST_CASE("a table calibrated on a GPU prices the Program that it was measured for") {
  const Variable plugins("TANDEM_PLUGINS", TANDEM_FAKE_PLUGINS);
  const Sandbox sandbox;
  sandbox.file("small.toml", R"([model]
layers = 4
hidden = 4096
heads = 32
seq = 2048
vocab = 51200
[parallel]
pp = 2
global_batch = 4
micro_batch = 1
[cluster]
preset = "dgx-h100"
gpus = 2
)");
  const Ran lowered = sandbox.tandem("schedule small.toml --format program");
  check_done(lowered);
  sandbox.file("small.csv", lowered.out);
  check_done(sandbox.tandem(
      "calibrate device small.csv --backend cuda --share-gpu --iterations 3 -o costs.csv"));
  const std::string table = sandbox.read("costs.csv");
  CHECK(table.find("fake GPU") != std::string::npos);
  CHECK(table.find("bf16") != std::string::npos);
  const Ran measured = sandbox.tandem(
      "run small.csv --backend cuda --share-gpu --compute gemm --trace m.csv --json");
  check_done(measured);
  const Ran priced = sandbox.tandem("simulate small.csv --engine ideal --costs costs.csv --json");
  CHECK(priced.status == 0);  // a GPU that ranks share measures no all-reduce of the embedding
  CHECK(priced.err.find("as the Program was priced: all-reduce of 2 ranks") != std::string::npos);
  // The fake takes the same time for a kernel, alone or in the Program.
  const double real = Json::parse(measured.out)[0]["iteration_s"];
  const double simulated = Json::parse(priced.out)[0]["iteration_s"];
  CHECK(simulated == Approx(real).epsilon(0.02));
  const Ran own = sandbox.tandem("simulate small.csv --engine ideal --op-times m.csv --json");
  check_done(own);
  CHECK(double{Json::parse(own.out)[0]["iteration_s"]} == Approx(real).epsilon(1e-6));
}
