#include "validation/suite.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/file.h"
#include "scenarios/run.h"
#include "scenarios/savings.h"
#include "schedule/program_text.h"

namespace tandem {
namespace {

// A folder that goes with it.
class TemporaryFolder {
 public:
  static Result<TemporaryFolder> make() {
    std::error_code failed;
    std::string name = (std::filesystem::temp_directory_path(failed) / "tandem-XXXXXX").string();
    if (failed || mkdtemp(name.data()) == nullptr)
      return Error{fmt::format("{}: found no place for a temporary folder, expected one", name),
                   Error::Failed};
    return TemporaryFolder(std::move(name));
  }
  TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::exchange(other.path_, "")) {}
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  std::string file(const char* name) const { return path_ + "/" + name; }

 private:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}

  std::string path_;
};

// A shell's exit status; -1: it was killed. The command ends with this process.
int run_shell(const std::string& command) {
  const pid_t parent = getpid(), shell = fork();
  if (shell == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() == parent) execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    _exit(Error::Failed);
  }
  int status = -1;
  while (shell > 0 && waitpid(shell, &status, 0) < 0 && errno == EINTR) continue;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// The text between single quotes, for a shell.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// The launch words with their names filled in.
Result<std::string> launch_of(const Scenario& scenario, int ranks) {
  const std::vector<std::pair<std::string, std::string>> names = {
      {"{preset}", scenario.preset},
      {"{placement}", scenario.cyclic ? "cyclic" : "block"},
      {"{ranks}", fmt::format("{}", ranks)},
      {"{folder}", std::filesystem::path(scenario.path).parent_path().string()}};
  std::string words = scenario.validation.launch;
  for (std::size_t at = words.find('{'); at != std::string::npos; at = words.find('{', at)) {
    const auto known = std::ranges::find_if(names, [&](const auto& pair) {
      return words.compare(at, pair.first.size(), pair.first) == 0;
    });
    if (known == names.end())
      return Error{
          fmt::format("{}: validate.launch: found '{}', expected {{preset}}, {{placement}}, "
                      "{{ranks}} or {{folder}}",
                      scenario.place_of({"validate.launch"}), words.substr(at))};
    const std::string value = known->second.empty() ? "." : known->second;
    words.replace(at, known->first.size(), value);
    at += value.size();
  }
  return words;
}

Result<RealOutcome> read_outcome(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, read_file(path));
  const auto json = nlohmann::ordered_json::parse(text, nullptr, false);
  if (!json.is_array() || json.size() != 1 || !json[0].contains("spread"))
    return Error{"found no results of tandem run --json, expected one object", Error::Failed};
  return real_outcome_from_json(json[0]);
}

// By ranks of their own, as `tandem run` of the Program's file.
Result<RealOutcome> measure_by_mpi(const Scenario& scenario, const Program& program,
                                   const SuiteOptions& options) {
  constexpr int kCannot = 77;  // what a launcher exits with where the machine cannot
  ASSIGN_OR_RETURN(const TemporaryFolder folder, TemporaryFolder::make());
  ASSIGN_OR_RETURN(FileWriter file, FileWriter::open(folder.file("program.csv")));
  file.write(to_text(program));
  RETURN_IF_ERROR(file.commit());
  ASSIGN_OR_RETURN(const std::string launch,
                   launch_of(scenario, static_cast<int>(program.ranks.size())));
  const std::string command =
      fmt::format("{} {} run {} --backend mpi --iterations {} --timeout {} --json >{}", launch,
                  quoted(options.program), quoted(folder.file("program.csv")), options.iterations,
                  options.timeout_s, quoted(folder.file("out.json")));
  const int exit_status = run_shell(command);
  if (exit_status == kCannot) return Error{"this machine cannot run it", Error::Missing};
  if (exit_status != 0)
    return Error{fmt::format("{}: exit status {}, expected 0", command, exit_status),
                 exit_status == Error::Missing ? Error::Missing : Error::Failed};
  auto outcome = read_outcome(folder.file("out.json"));
  if (!outcome.ok())
    return Error{fmt::format("{}: {}", command, outcome.error().message), Error::Failed};
  return outcome;
}

Result<RealOutcome> measure_one(const Scenario& scenario, const SuiteOptions& options) {
  ASSIGN_OR_RETURN(const Prepared prepared, prepare(scenario));
  if (scenario.validation.backend == "mpi")
    return measure_by_mpi(scenario, prepared.program, options);
  RealOptions real;
  real.exec.iterations = options.iterations;
  real.exec.timeout_ns = to_ns(options.timeout_s);
  ASSIGN_OR_RETURN(std::optional<RealOutcome> outcome, run_for_real(scenario, prepared, real));
  return *std::move(outcome);
}

// The iteration over the baseline's, where there is one.
std::optional<double> ratio(const Outcome& outcome) {
  if (!outcome.saving) return std::nullopt;
  return outcome.iteration_s / (outcome.iteration_s + outcome.saving->seconds);
}

void check(const Scenario& scenario, SuiteRow* row) {
  const Validation& may = scenario.validation;
  const double percent = row->communicates ? may.communicating_percent : may.iteration_percent;
  const auto check = [row](const char* what, std::optional<double> differs, double most,
                           const char* unit) {
    if (differs && !(std::abs(*differs) <= most))
      row->faults.push_back(fmt::format("{} differs by {:+.2f} {}, expected at most {:g}", what,
                                        *differs, unit, most));
  };
  const auto percent_of = [](std::optional<double> error) {
    return error ? std::optional(1e2 * *error) : std::nullopt;
  };
  check("iteration", 1e2 * row->iteration_error(), percent, "%");
  check("ratio", percent_of(row->ratio_error()), percent, "%");
  check("bubble", 1e2 * (row->simulated_bubble - row->measured_bubble), may.bubble_points,
        "points");
  if (row->simulated_overlap && row->measured_overlap)
    check("overlap", 1e2 * (*row->simulated_overlap - *row->measured_overlap), may.overlap_points,
          "points");
}

}  // namespace

SuiteRow suite_row(const Scenario& scenario, const Outcome& simulated,
                   const RealOutcome& measured) {
  const auto kind = static_cast<std::size_t>(scenario.kind.value_or(Scope::Pipeline));
  SuiteRow row;
  row.axes = scenario.axes.empty() ? std::vector<std::string>{"run"} : scenario.axes;
  row.points = scenario.points.empty() ? std::vector{scenario.name} : scenario.points;
  row.simulated_s = simulated.iteration_s;
  row.measured_s = measured.iteration_s.p50;
  row.measured_p5_s = measured.iteration_s.p5;
  row.measured_p95_s = measured.iteration_s.p95;
  row.simulated_bubble = simulated.bubble_fraction;
  row.measured_bubble = measured.bubble_fraction.p50;
  row.simulated_overlap = simulated.overlap_fraction[kind];
  row.measured_overlap = measured.outcome.overlap_fraction[kind];
  row.simulated_ratio = ratio(simulated);
  row.measured_ratio = ratio(measured.outcome);
  double exposed_s = 0;
  for (const double seconds : simulated.exposed_s) exposed_s += seconds;
  row.communicates = exposed_s > simulated.compute_s;
  check(scenario, &row);
  return row;
}

Result<std::vector<SuiteRow>> run_suite(const std::vector<Scenario>& scenarios,
                                        const SuiteOptions& options,
                                        const std::function<void()>& on_done) {
  std::vector<Result<Outcome>> simulated = simulate_all(scenarios, Engine::SimGrid, 1);
  std::vector<RealOutcome> measured;
  std::vector<Result<Outcome>> outcomes;
  for (std::size_t i = 0; i < scenarios.size(); ++i) {
    const auto named = [&](const Error& error) {
      return Error{fmt::format("{}: {}", scenarios[i].name, error.message), error.kind};
    };
    if (!simulated[i].ok()) return named(simulated[i].error());
    auto one = measure_one(scenarios[i], options);
    if (!one.ok()) return named(one.error());
    outcomes.emplace_back(one->outcome);
    measured.push_back(*std::move(one));
    on_done();
  }
  add_savings(scenarios, &outcomes);
  std::vector<SuiteRow> rows;
  for (std::size_t i = 0; i < scenarios.size(); ++i) {
    measured[i].outcome = *outcomes[i];
    rows.push_back(suite_row(scenarios[i], *simulated[i], measured[i]));
  }
  return rows;
}

nlohmann::ordered_json to_json(const SuiteRow& row) {
  const auto number = [](std::optional<double> value) {
    return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
  };
  return {{"axes", row.axes},
          {"points", row.points},
          {"simulated_s", row.simulated_s},
          {"measured_s", row.measured_s},
          {"measured_p5_s", row.measured_p5_s},
          {"measured_p95_s", row.measured_p95_s},
          {"iteration_error", row.iteration_error()},
          {"simulated_bubble", row.simulated_bubble},
          {"measured_bubble", row.measured_bubble},
          {"simulated_overlap", number(row.simulated_overlap)},
          {"measured_overlap", number(row.measured_overlap)},
          {"simulated_ratio", number(row.simulated_ratio)},
          {"measured_ratio", number(row.measured_ratio)},
          {"ratio_error", number(row.ratio_error())},
          {"communication_dominates", row.communicates},
          {"faults", row.faults}};
}

}  // namespace tandem
