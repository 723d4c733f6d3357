#include "validation/compare/measure.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/file.h"
#include "exec/backends/backends.h"
#include "launch/exit_status.h"
#include "planning/simulate/simulate.h"
#include "schedule/program/program_text.h"
#include "traces/op_times.h"
#include "traces/trace_files.h"

namespace tandem {
namespace {

constexpr const char* kTrace = "trace.csv";

// A temporary folder that is removed with this object.
class TemporaryFolder {
 public:
  static Result<TemporaryFolder> make(const std::string& where) {
    std::error_code failed;
    std::filesystem::path in = where;
    if (where.empty()) in = std::filesystem::temp_directory_path(failed);
    std::string name = (in / "tandem-XXXXXX").string();
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
  std::string file(std::string_view name) const { return fmt::format("{}/{}", path_, name); }

 private:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}

  std::string path_;
};

// Runs a shell command and returns its exit status; -1: it was killed. The command ends if this
// process does.
int run_shell(const std::string& command) {
  const pid_t parent = getpid(), shell = fork();
  if (shell == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() == parent) execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    _exit(exit_status(Error::Failed));
  }
  int status = -1;
  while (shell > 0 && waitpid(shell, &status, 0) < 0 && errno == EINTR) continue;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Returns the text in single quotes, for a shell.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// Returns validate.launch with its placeholders filled in.
Result<std::string> launch_of(const Scenario& scenario, int ranks) {
  const std::vector<std::pair<std::string, std::string>> names = {
      {"{preset}", scenario.cluster.preset},
      {"{placement}", scenario.cluster.cyclic ? "cyclic" : "block"},
      {"{ranks}", fmt::format("{}", ranks)},
      {"{folder}", std::filesystem::path(scenario.path).parent_path().string()}};
  std::string words = scenario.measurement.launch;
  for (std::size_t at = words.find('{'); at != std::string::npos; at = words.find('{', at)) {
    const auto known = std::ranges::find_if(names, [&](const auto& pair) {
      return words.compare(at, pair.first.size(), pair.first) == 0;
    });
    if (known == names.end())
      return Error::at(scenario.place_of({"validate.launch"}),
                       fmt::format("validate.launch: found '{}', expected {{preset}}, "
                                   "{{placement}}, {{ranks}} or {{folder}}",
                                   words.substr(at)));
    // The folder of a file in the current folder is empty.
    const std::string value = known->second.empty() ? "." : known->second;
    words.replace(at, known->first.size(), value);
    at += value.size();
  }
  return words;
}

Result<RealRunResult> read_result(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, read_file(path));
  const auto json = nlohmann::ordered_json::parse(text, nullptr, false);
  if (!json.is_array() || json.size() != 1 || !json[0].contains("spread"))
    return Error{"found no results of tandem run --json, expected one object", Error::Failed};
  return real_run_result_from_json(json[0]);
}

ExecOptions exec_options(const MeasurementSettings& measurement, const MeasureOptions& options) {
  ExecOptions exec;
  exec.compute = measurement.compute;
  exec.share_gpu = measurement.share_gpu;
  exec.transfers = measurement.transfers;
  exec.iterations = options.iterations;
  exec.timeout_ns = to_ns(options.timeout_s);
  return exec;
}

// Returns the options of tandem run that follow from [validate].
std::string words_of(const MeasurementSettings& measurement, const std::string& precision,
                     const MeasureOptions& options) {
  std::string words =
      fmt::format("--backend {} --compute {} --iterations {} --timeout {}", measurement.backend,
                  measurement.compute == Compute::Gemm ? "gemm" : "timed", options.iterations,
                  options.timeout_s);
  if (!backend_named(measurement.backend)->on_gpus) return words;
  if (measurement.compute == Compute::Gemm) words += " --precision " + precision;
  if (measurement.share_gpu)
    words += fmt::format(" --share-gpu --transfers {}",
                         kGpuTransferNames[static_cast<std::size_t>(measurement.transfers)]);
  return words;
}

// Runs `tandem run` on the Program's file as another process, as launchers such as mpirun require.
// So a GPU that a run leaves in a bad state affects no other run.
Result<RealRunResult> measure_outside(const Scenario& scenario, const CompiledJob& job,
                                      const MeasureOptions& options,
                                      const TemporaryFolder& folder) {
  const Program& program = job.program;
  constexpr int kCannot = 77;  // a launcher's exit status if the machine cannot run it
  ASSIGN_OR_RETURN(FileWriter file, FileWriter::open(folder.file("program.csv")));
  file.write(to_text(program));
  RETURN_IF_ERROR(file.commit());
  ASSIGN_OR_RETURN(const std::string launch,
                   launch_of(scenario, static_cast<int>(program.ranks.size())));
  const std::string command =
      fmt::format("{} {} run {} {} --json --trace {} >{}", launch, quoted(options.program),
                  quoted(folder.file("program.csv")),
                  words_of(scenario.measurement, job.plan.precision, options),
                  quoted(folder.file(kTrace)), quoted(folder.file("out.json")));
  const int status = run_shell(command);
  if (status == kCannot) return Error{"this machine cannot run it", Error::Missing};
  if (status != 0)
    return Error{fmt::format("{}: exit status {}, expected 0", command, status),
                 status == exit_status(Error::Missing) ? Error::Missing : Error::Failed};
  auto result = read_result(folder.file("out.json"));
  if (!result.ok())
    return Error{fmt::format("{}: {}", command, result.error().text()), Error::Failed};
  return result;
}

Result<RealRunResult> measure_here(const Scenario& scenario, const CompiledJob& job,
                                   const MeasureOptions& options, const TemporaryFolder& folder) {
  RealOptions real;
  real.exec = exec_options(scenario.measurement, options);
  real.files.trace_csv = folder.file(kTrace);
  ASSIGN_OR_RETURN(std::optional<RealRunResult> result, run_for_real(scenario, job, real));
  return *std::move(result);
}

}  // namespace

Result<Measured> measure(const Scenario& scenario, const CompiledJob& job,
                         const MeasureOptions& options) {
  ASSIGN_OR_RETURN(const TemporaryFolder folder, TemporaryFolder::make(options.folder));
  Measured measured;
  if (!backend_named(scenario.measurement.backend)->own_processes) {
    ASSIGN_OR_RETURN(measured.real, measure_here(scenario, job, options, folder));
  } else {
    ASSIGN_OR_RETURN(measured.real, measure_outside(scenario, job, options, folder));
  }
  ASSIGN_OR_RETURN(const TraceTable trace, read_trace_csv(folder.file(kTrace)));
  Program own = job.program;
  RETURN_IF_ERROR(reprice_by_trace(&own, trace));
  ASSIGN_OR_RETURN(measured.own, simulate_program(own));
  return measured;
}

}  // namespace tandem
