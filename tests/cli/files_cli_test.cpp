// The files that command lines name: no output is an input or another output, and what is wrong
// with an input is said as it is.
#include <filesystem>

#include "tests/sandbox.h"

using namespace tandem;
using Catch::Contains;

namespace {

namespace fs = std::filesystem;

const std::string kSource = TANDEM_SOURCE_DIR;

// A row that is predicted in no time.
const std::string kCases =
    "id,family,system,layers,hidden,heads,seq,vocab,tp,dp,global_batch,gpus,iteration_s\n"
    "a,dense,selene,4,2048,16,1024,51200,1,8,64,8,1\n";

// A model that has plans, and two stages.
const std::string kModel = R"([model]
layers = 4
hidden = 1024
heads = 16
seq = 512
vocab = 32000
[parallel]
pp = 2
global_batch = 2
[cluster]
preset = "selene"
gpus = 2
)";

// base.toml, model.toml, p.csv (a Program), t.csv (its trace), c.csv (cases), list.csv, and two
// links to base.toml: hard.toml and soft.toml.
void write_inputs(const Sandbox& box) {
  box.file("base.toml", kTwoStages);
  box.file("model.toml", kModel);
  box.file("c.csv", kCases);
  box.file("list.csv", "parallel.pp\n2\n");
  check_done(box.tandem("simulate base.toml --engine ideal --unfolded --trace t.csv"));
  const Ran program = box.tandem("schedule base.toml --format program");
  check_done(program);
  box.file("p.csv", program.out);
  fs::create_hard_link(box.path("base.toml"), box.path("hard.toml"));
  fs::create_symlink("base.toml", box.path("soft.toml"));
}

// "fit ...": of tandem-fit.
Ran run(const Sandbox& box, const std::string& arguments) {
  const std::string fit = "fit ";
  return arguments.starts_with(fit) ? box.tandem_fit(arguments.substr(fit.size()))
                                    : box.tandem(arguments);
}

struct Refused {
  std::string arguments;
  std::string begin;  // of what is said
};

// Each is refused, and no file has changed or come.
void check_untouched(const Sandbox& box, const std::vector<Refused>& cases) {
  const Names before = box.files();
  std::vector<std::string> contents;
  for (const std::string& name : before) contents.push_back(box.read(name.c_str()));
  for (const Refused& refused : cases) {
    INFO(refused.arguments);
    check_refused(run(box, refused.arguments), refused.begin);
    CHECK(box.files() == before);
    for (std::size_t i = 0; i < before.size(); ++i)
      CHECK(box.read(before[i].c_str()) == contents[i]);
  }
}

}  // namespace

TEST_CASE("no output is an input, by whatever path or link, whatever the command") {
  const Sandbox box;
  write_inputs(box);
  const auto same = [](const std::string& option, const std::string& path,
                       const std::string& input) {
    return option + ": found " + path + ", the same file as " + input + ", expected another one\n";
  };
  const std::string validate = "fit accuracy c.csv --rivals list.csv";
  check_untouched(
      box,
      {{"simulate base.toml --trace base.toml", same("--trace", "base.toml", "the input")},
       {"simulate base.toml --trace ./base.toml",
        same("--trace", "./base.toml", "the input base.toml")},
       {"simulate base.toml --perfetto hard.toml",
        same("--perfetto", "hard.toml", "the input base.toml")},
       {"simulate soft.toml --plot base.toml", same("--plot", "base.toml", "the input soft.toml")},
       {"simulate base.toml --report soft.toml",
        same("--report", "soft.toml", "the input base.toml")},
       {"simulate p.csv --trace p.csv", same("--trace", "p.csv", "the input")},
       {"simulate p.csv --op-times t.csv --trace t.csv", same("--trace", "t.csv", "--op-times")},
       {"simulate p.csv --costs t.csv --trace t.csv", same("--trace", "t.csv", "--costs")},
       {"simulate model.toml --set costs.table=t.csv --trace t.csv",
        same("--trace", "t.csv", "costs.table")},
       {"run base.toml --trace base.toml", same("--trace", "base.toml", "the input")},
       {"run p.csv --plot p.csv", same("--plot", "p.csv", "the input")},
       {"compare t.csv t.csv --perfetto t.csv", same("--perfetto", "t.csv", "the measured input")},
       {"compare t.csv t.csv --report t.csv", same("--report", "t.csv", "the measured input")},
       {"validate base.toml --csv base.toml", same("--csv", "base.toml", "the input")},
       {"validate base.toml --page base.toml", same("--page", "base.toml", "the input")},
       {"validate c.csv --csv c.csv", same("--csv", "c.csv", "the input")},
       {"validate c.csv --plot c.csv", same("--plot", "c.csv", "the input")},
       {"fit accuracy c.csv --update c.csv", same("--update", "c.csv", "the input")},
       {"bench comm --cluster model.toml --fit model.toml",
        same("--fit", "model.toml", "the input")},
       {"calibrate device p.csv -o p.csv", same("-o", "p.csv", "the input")},
       {"fit published c.csv --update c.csv", same("--update", "c.csv", "the input")},
       {"tune model.toml --report model.toml", same("--report", "model.toml", "the input")},
       {"size model.toml --report model.toml", same("--report", "model.toml", "the input")},
       {"sweep base.toml -o base.toml", same("-o", "base.toml", "the input")},
       {"sweep base.toml --list list.csv -o list.csv", same("-o", "list.csv", "--list")},
       {"sweep base.toml -o o.csv --report base.toml", same("--report", "base.toml", "the input")},
       // A file of tandem's own: the preset that the model names.
       {"simulate model.toml --trace " + kSource + "/topology/presets/selene.toml",
        "--trace: found " + kSource + "/topology/presets/selene.toml, the same file as tandem's"}});
}

TEST_CASE("no output is another output, whether it is there or not") {
  const Sandbox box;
  write_inputs(box);
  box.file("there.csv", "");
  fs::create_hard_link(box.path("there.csv"), box.path("too.csv"));
  fs::create_symlink("new.csv", box.path("dangling"));
  fs::create_directory_symlink(".", box.path("here"));
  fs::create_directory(box.path("folder"));
  const std::vector<Refused> cases = {
      {"simulate base.toml --trace a.csv --perfetto a.csv",
       "--perfetto: found a.csv, the same file as --trace, expected another one"},
      {"simulate base.toml --trace a.csv --plot ./folder/../a.csv",
       "--plot: found ./folder/../a.csv, the same file as --trace a.csv, expected another one"},
      {"simulate base.toml --trace a.csv --report here/a.csv",
       "--report: found here/a.csv, the same file as --trace a.csv, expected another one"},
      {"simulate base.toml --trace there.csv --perfetto too.csv",
       "--perfetto: found too.csv, the same file as --trace there.csv, expected another one"},
      {"simulate base.toml --trace dangling --perfetto new.csv",
       "--perfetto: found new.csv, the same file as --trace dangling, expected another one"},
      {"simulate base.toml --plot a.png",
       "--plot: found a.png, expected another ending: pictures are written as SVG"},
      {"run base.toml --trace a --plot a", "--plot: found a, the same file as --trace, expected"},
      {"compare t.csv t.csv --perfetto a --report a", "--report: found a, the same file as --pe"},
      {"validate base.toml --csv a --page a", "--page: found a, the same file as --csv, expected"},
      {"fit accuracy c.csv --plot a --update a",
       "--update: found a, the same file as --plot, expect"},
      {"sweep base.toml -o a --report a", "--report: found a, the same file as -o, expected"},
      {"sweep base.toml -o a --report a.lock",
       "the lock of -o: found a.lock, the same file as --report, expected another one"},
      // The sandbox sends what is printed there.
      {"simulate base.toml --trace ../out",
       "--trace: found ../out, the same file as standard output, expected another one"},
      {"simulate base.toml --trace /dev/stdout",
       "--trace: found /dev/stdout, the same file as standard output, expected another one"}};
  for (const Refused& refused : cases) {
    INFO(refused.arguments);
    check_refused(run(box, refused.arguments), refused.begin);
    CHECK(!fs::exists(box.path("a.csv")));
    CHECK(!fs::exists(box.path("a")));
  }
  // A pipe as well.
  const std::string piped = "bash -c '\"$0\" \"$@\" | cat; exit ${PIPESTATUS[0]}'";
  check_refused(box.tandem("simulate base.toml --json --trace /dev/stdout", piped),
                "--trace: found /dev/stdout, the same file as standard output, expected another");
  // A device takes all.
  check_done(box.tandem("simulate base.toml --engine ideal --trace /dev/null --plot /dev/null"));
}

TEST_CASE("an input that is no file is said to be what it is, whoever reads it") {
  const Sandbox box;
  write_inputs(box);
  for (const char* type : {".toml", ".csv", ".json"}) {
    fs::create_directory(box.path("dir") + type);
    fs::create_symlink("/dev/null", box.path("null") + type);
    fs::create_symlink("no", box.path("gone") + type);
    box.file((std::string("empty") + type).c_str(), "");
  }
  struct Reader {
    std::string before, after;  // the input's name
    const char* folder = ": is a directory, expected ";
  };
  // A folder may hold profiles.
  constexpr const char* no_profile = ": found no profile in the folder, expected ";
  const std::vector<Reader> readers = {
      {"simulate ", ".toml"},
      {"simulate ", ".csv"},
      {"simulate p.csv --costs ", ".csv"},
      {"simulate p.csv --op-times ", ".csv", no_profile},
      {"simulate model.toml --set costs.source=table --set costs.table=", ".csv"},
      {"simulate model.toml --set cluster.calibration=", ".toml"},
      {"simulate model.toml --set costs.software=", ".toml"},
      {"simulate model.toml --set overlap.tensor_file=", ".json"},
      {"simulate base.toml --set schedule.order=", ".csv"},
      {"run ", ".toml"},
      {"run ", ".csv"},
      {"compare t.csv ", ".csv", no_profile},
      {"validate ", ".toml"},
      {"validate ", ".csv"},
      {"fit accuracy c.csv --page page.md --rivals ", ".csv"},
      {"bench comm --cluster ", ".toml"},
      {"calibrate device ", ".csv"},
      {"fit published ", ".csv"},
      {"schedule ", ".toml"},
      {"schedule ", ".csv"},
      {"topology ", ".toml"},
      {"tune ", ".toml"},
      {"size ", ".toml"},
      {"pack ", ".toml list.csv --tokens 512"},
      {"pack model.toml --tokens 512 ", ".csv"},
      {"sweep -o o.csv ", ".toml"},
      {"sweep base.toml -o o.csv --list ", ".csv"},
  };
  for (const auto& [before, after, folder] : readers) {
    for (const auto& [name, what] :
         {std::pair{"dir", folder}, std::pair{"null", ": is a device, expected "},
          std::pair{"gone", ": no such file, expected "}}) {
      INFO(before << name << after);
      const Ran ran = run(box, before + name + after);
      check_refused(ran, "");
      CHECK_THAT(ran.err, Contains(name + after.substr(0, after.find(' ')) + what));
    }
    INFO(before << "empty" << after);
    const Ran ran = run(box, before + "empty" + after);
    check_refused(ran, "");
    // Empty, without rows, or without what must stand there; it is there, and line 0 is none.
    CHECK_THAT(ran.err, Contains(": is empty, expected ") || Contains("found no ") ||
                            Contains("found a header"));
    CHECK_THAT(ran.err, !Contains("no such file") && !Contains(":0:"));
  }
}

TEST_CASE("an output that is a folder or a full disk is said to be what it is") {
  const Sandbox box;
  write_inputs(box);
  fs::create_directory(box.path("dir"));
  for (const char* arguments :
       {"sweep base.toml -o ", "simulate base.toml --trace ", "run base.toml --plot ",
        "compare t.csv t.csv --perfetto ", "validate base.toml --csv ", "validate c.csv --page ",
        "bench comm --cluster selene --fit ", "calibrate device p.csv -o ",
        "fit published c.csv --update "}) {
    INFO(arguments);
    const Ran ran = run(box, std::string(arguments) + "dir");
    check_refused(ran, "dir: ");
    CHECK_THAT(ran.err, Contains("s a directory"));  // is, or Is
  }
  // A sweep reads its rows again, so it wants a file; others find the disk full when they write.
  check_refused(box.tandem("sweep base.toml -o /dev/full"), "/dev/full: is a device, expected ");
  for (const char* option : {"--trace", "--perfetto", "--plot"}) {
    const Ran ran =
        box.tandem(fmt::format("simulate base.toml --engine ideal {} /dev/full", option));
    INFO(option << ": " << ran.err);
    CHECK(ran.status != 0);
    CHECK_THAT(ran.err, Contains("/dev/full: cannot be written: No space left on device"));
  }
}

TEST_CASE("a name that is wrong is answered with those that are right") {
  const Sandbox box;
  write_inputs(box);
  check_refused(box.tandem("simulat base.toml"), "found the command 'simulat', expected one of ");
  CHECK_THAT(box.tandem("simulat base.toml").err, Contains("; the nearest is 'simulate'\n"));
  CHECK_THAT(box.tandem("bench com").err, Contains("expected one of comm; the nearest is 'comm'"));
  CHECK_THAT(box.tandem("calibrate devices p.csv").err, Contains("the nearest is 'device'\n"));
  const Ran preset = box.tandem("simulate model.toml --set cluster.preset=h800");
  check_refused(preset, "--set: found preset 'h800', expected a known one; the nearest is '");
  for (const char* known : {"aws-p5", "dgx-2", "dgx-h100", "selene"})
    CHECK_THAT(preset.err, Contains(std::string(known)));
  check_refused(box.tandem("simulate model.toml --set cluster.intra_GBps=1e300"),
                "--set: found cluster.intra_GBps = 1e+300, expected a number above 0 and at most "
                "1e+30\n");
}
