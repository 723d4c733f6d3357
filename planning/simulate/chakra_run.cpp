// Loads Chakra traces (MLCommons' format of execution graphs, one file a rank) as a Program and
// plays it. Compute takes as long as traced. With a cluster, communication is priced anew.
#include "planning/simulate/chakra_run.h"

#include <fmt/format.h>

#include "interop/chakra/chakra_file.h"
#include "job/site.h"
#include "scenarios/scenario.h"
#include "schedule/chakra/import_chakra.h"
#include "schedule/program/validate.h"
#include "topology/preset.h"

namespace tandem {
namespace {

// Builds the cluster of a preset or of a scenario file's first run, with at least `gpus` GPUs.
// Several nodes are always whole.
Result<Cluster> cluster_for(const std::string& named, int gpus) {
  Scenario scenario;
  if (named.ends_with(".toml")) {
    ASSIGN_OR_RETURN(std::vector<Scenario> scenarios, load_scenarios(named));
    scenario = std::move(scenarios.front());
    if (!scenario.costs.need_cluster())
      return Error::at(named, "found uniform costs, which know no cluster; expected [cluster]");
  } else {
    ASSIGN_OR_RETURN(scenario.cluster.spec, load_preset(named));
    scenario.cluster.preset = scenario.path = named;
  }
  scenario.cluster.gpus = gpus;
  return make_cluster(scenario);
}

}  // namespace

Result<ChakraRun> load_chakra(const ChakraSource& source) {
  ASSIGN_OR_RETURN(const ChakraJob job, read_chakra_job(source.path, source.groups));
  ChakraRun run;
  ASSIGN_OR_RETURN(ImportedProgram imported,
                   import_chakra(job, /*to_be_priced=*/!source.cluster.empty()));
  run.program = std::move(imported.program);
  run.left_out = std::move(imported.left_out);
  if (!source.cluster.empty()) {
    const auto ranks = static_cast<int>(run.program.ranks.size());
    ASSIGN_OR_RETURN(run.cluster, cluster_for(source.cluster, ranks));
    run.placement = in_order(ranks);
    price(&run.program, *run.cluster, run.placement);
  }
  RETURN_IF_ERROR(check_durations(run.program));
  return run;
}

Result<RunResult> simulate_chakra(const ChakraRun& run, Engine engine, const OutputFiles& files,
                                  bool fold) {
  const SimOptions options{.fold = fold};
  ASSIGN_OR_RETURN(Trace trace, engine == Engine::Ideal
                                    ? ideal(run.program, options)
                                    : simgrid(run.program, *run.cluster, run.placement, options));
  RunResult result = result_of(run.program, trace);
  if (result.iteration_s == 0)
    return Error{fmt::format("{}: found an iteration that takes no time, expected nodes that do",
                             run.program.name)};
  if (run.cluster) result.cluster = run.cluster->spec().name;
  result.engine = engine_name(engine);
  result.costs = run.cluster ? "compute as traced" : "as traced";
  for (const std::string& line : run.left_out)
    result.warnings.push_back(fmt::format("{}: {}", run.program.name, line));
  result.detail = detail_of(run.program, trace, files.detail, files.strip_columns);
  RETURN_IF_ERROR(write_files(run.program, &trace, files, &result.warnings));
  return result;
}

}  // namespace tandem
