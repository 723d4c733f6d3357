// tandem calibrate run: fits constants of a scenario's framework profile ("software") to a measured
// run of it. In: the scenario; profiles, a log, or the time of an iteration. Out: a table of the
// constants, and with -o a new framework profile.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/file.h"
#include "base/gzip.h"
#include "base/json_text.h"
#include "base/parallel/progress.h"
#include "cli/command_line/commands.h"
#include "cli/command_line/files.h"
#include "cli/command_line/text_width.h"
#include "cli/profile/profile_side.h"
#include "launch/standard_output.h"
#include "report/text/text_table.h"
#include "validation/calibrate/calibrate_run.h"
#include "validation/explain/explain_files.h"

namespace tandem {
namespace {

struct CalibrateRunOptions {
  std::string scenario;
  std::vector<std::string> inputs;  // profiles, a log
  double iteration_s = 0;
  std::vector<std::string> sets;
  std::string only;
  std::string engine;
  std::string output;
  bool json = false;
  bool wide = false;
};

// Names the evidence of the constants, in characters that a TOML string may have.
std::string source_of(const CalibrateRunOptions& options, const RunEvidence& evidence) {
  std::vector<std::string> parts;
  if (evidence.profile)
    parts.push_back(fmt::format("profiles (ranks: {})", evidence.profile->ranks.size()));
  if (evidence.iteration_s > 0)
    parts.push_back(fmt::format("an iteration of {:.4g} s", evidence.iteration_s));
  std::string text = fmt::format("{} of {}", fmt::join(parts, " and "),
                                 std::filesystem::path(options.scenario).filename().string());
  for (char& c : text) {
    if (c == '"' || c == '\\' || static_cast<unsigned char>(c) < ' ') c = '_';
  }
  return text;
}

// Reads what was measured. The constants are fitted on the ideal engine; engine_ratio corrects its
// iteration for the engine that the user chose.
Result<RunEvidence> read_evidence(const CalibrateRunOptions& options, const Scenario& scenario) {
  RunEvidence evidence{.iteration_s = options.iteration_s};
  ASSIGN_OR_RETURN(const MeasuredFiles files, measured_files(options.inputs));
  const Engine engine = engine_of(options.engine);
  ASSIGN_OR_RETURN(const SimulatedIteration asked, simulated_iteration(scenario, engine));
  if (engine != Engine::Ideal) {
    ASSIGN_OR_RETURN(const SimulatedIteration ideal, simulated_iteration(scenario, Engine::Ideal));
    evidence.engine = engine;
    evidence.engine_ratio = asked.seconds / ideal.seconds;
  }
  if (!files.log.empty()) {
    if (options.iteration_s > 0)
      return Error::at(files.log, "found a log beside --iteration, expected one of them");
    ASSIGN_OR_RETURN(const std::string text, read_maybe_gzip(files.log));
    ASSIGN_OR_RETURN(UsualIteration usual, usual_iteration(files.log, text, asked));
    evidence.iteration_s = usual.seconds;
    evidence.left_out = std::move(usual.left_out);
  }
  if (!files.profiles.empty()) {
    ASSIGN_OR_RETURN(ComparedProfiles matched,
                     matched_profiles(files.profiles, scenario, Engine::Ideal));
    evidence.profile = std::move(matched.measured);
  }
  return evidence;
}

std::string calibration_table(const RunCalibration& found, int width) {
  using Row = const ToldConstant&;
  const std::vector<Column<ToldConstant>> columns = {
      {"constant", [](Row row) { return row.key; }, Place::Name},
      {"before", [](Row row) { return fmt::format("{:.4g}", row.before); }, Place::First},
      {"after", [](Row row) { return fmt::format("{:.4g}", row.after); }, Place::First},
      {"still unknown %", [](Row row) { return fmt::format("{:.0f}", 100 * row.spread_left); },
       Place::First},
      {"", [](Row row) { return row.is_determined() ? "" : "uncertain"; }, Place::First}};
  std::string text = found.told.empty() ? "" : text_table(columns, found.told, width) + '\n';
  std::string lines;
  if (!found.told.empty())
    lines +=
        "Still unknown: 0, the run fixes the constant; 100, it says nothing. Uncertain: only the "
        "sum of several effects was measured; it was split by how much each varies between "
        "sites.\n";
  if (!found.left.empty())
    lines += fmt::format("Kept, as the run says next to nothing of them: {}.\n",
                         fmt::join(found.left, ", "));
  lines += fmt::format("Simulated iteration: {:.4g} s before, {:.4g} s now; measured {:.4g} s.\n",
                       found.before_s, found.after_s, found.measured_s);
  for (const std::string& note : found.notes) lines += note + '\n';
  return text + wrapped(lines, width);
}

nlohmann::ordered_json to_json(const RunCalibration& found) {
  nlohmann::ordered_json told = nlohmann::ordered_json::array();
  for (const ToldConstant& constant : found.told)
    told.push_back({{"key", constant.key},
                    {"before", constant.before},
                    {"after", constant.after},
                    {"spread_left", constant.spread_left},
                    {"determined", constant.is_determined()}});
  nlohmann::ordered_json classes = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < found.classes_after.size(); ++i)
    classes.push_back({{"ops", found.classes_after[i].name},
                       {"count", found.classes_after[i].ops},
                       {"share", found.classes_after[i].share},
                       {"measured_over_simulated_before", found.classes_before[i].ratio},
                       {"measured_over_simulated", found.classes_after[i].ratio}});
  // A run that is too far from its simulation is no evidence for other runs.
  return {{"constants", std::move(told)},         {"left", found.left},
          {"simulated_before_s", found.before_s}, {"simulated_s", found.after_s},
          {"measured_s", found.measured_s},       {"is_evidence", !found.is_far},
          {"classes", std::move(classes)},        {"notes", found.notes}};
}

// Returns the name of the framework profile that the written file is based on. A path is relative
// to the folder of that file.
std::string base_from(const std::string& name, const std::string& output) {
  if (!name.ends_with(".toml")) return name;
  return std::filesystem::proximate(std::filesystem::absolute(name),
                                    std::filesystem::absolute(output).parent_path())
      .string();
}

// Lists the measured files, those in folders included, none of which may be overwritten.
std::vector<NamedFile> measured_inputs(const CalibrateRunOptions& options) {
  std::vector<NamedFile> inputs;
  for (const std::string& file : options.inputs) {
    inputs.push_back({"the measured input", file});
    std::error_code none;
    for (const auto& inside : std::filesystem::directory_iterator(file, none))
      inputs.push_back({"the measured input", inside.path().string()});
  }
  return inputs;
}

Status check_options(const CalibrateRunOptions& options) {
  if (!options.output.empty() && !options.output.ends_with(".toml"))
    return Error::at(options.output,
                     "found no ending .toml, expected one: costs.software names a file by it");
  return check_files(options.scenario, options.sets, {{"-o", options.output}},
                     measured_inputs(options));
}

Status run(const CalibrateRunOptions& options) {
  RETURN_IF_ERROR(check_options(options));
  ASSIGN_OR_RETURN(const Scenario scenario,
                   load_resolved(options.scenario, options.sets, options.only));
  ASSIGN_OR_RETURN(const std::vector<std::string> bases,
                   framework_profile_files(scenario.costs.profile.name));
  std::vector<NamedFile> based_on;
  for (const std::string& file : bases) based_on.push_back({"costs.software", file});
  RETURN_IF_ERROR(check_outputs({{"-o", options.output}}, based_on));
  std::optional<Waiting> waiting("fitting constants to the run");
  ASSIGN_OR_RETURN(const RunEvidence evidence, read_evidence(options, scenario));
  ASSIGN_OR_RETURN(RunCalibration found, calibrate_run(scenario, evidence));
  found.notes.insert(found.notes.end(), evidence.left_out.begin(), evidence.left_out.end());
  waiting.reset();
  if (!options.output.empty()) {
    ASSIGN_OR_RETURN(const std::string text,
                     calibrated_text(scenario, found, base_from(found.profile.name, options.output),
                                     source_of(options, evidence)));
    RETURN_IF_ERROR(write_file(options.output, text));
  }
  fmt::print(standard_output(), "{}",
             options.json ? json_document(to_json(found))
                          : calibration_table(found, text_width(options.wide)));
  return Done{};
}

}  // namespace

void add_calibrate_run(const Command& calibrate) {
  auto options = std::make_shared<CalibrateRunOptions>();
  const Command command = calibrate.subcommand(
      "run",
      "Fits a software's constants to a real run of the scenario's job, by profiles or an "
      "iteration's time, and writes them for costs.software. Constants of which the run says "
      "nothing keep their values.");
  command.option("scenario", &options->scenario, "SCENARIO.toml of the job that was run")
      .required();
  command.option("measured", &options->inputs,
                 "profiles of some ranks or all, a log, or both, as tandem explain reads them");
  command
      .option("--iteration", &options->iteration_s,
              "seconds of the usual iteration, where there is no log")
      .range(1e-9, 1e9);
  command.option("-o,--output", &options->output, "write the software, SOFTWARE.toml");
  add_sets(command, &options->sets, "the scenario's settings");
  command.option("--only", &options->only, "the scenario's run whose name holds this text");
  add_engine(command, &options->engine,
             "simgrid (default) or ideal: the engine whose iteration is fitted");
  command.flag("--json", &options->json, "print one JSON object and nothing else");
  add_wide(command, &options->wide);
  command.footer(
      "Example: tandem calibrate run job.toml train.log -o mine.toml\n"
      "         tandem simulate next.toml --set costs.software=mine.toml");
  command.run([options] { return run(*options); });
}

}  // namespace tandem
