// tandem trace: splits the time of a profile into compute, communication and idle time, and writes
// measured times as a scenario or a cost table.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json_text.h"
#include "base/outputs.h"
#include "base/parallel/progress.h"
#include "cli/command_line/commands.h"
#include "cli/command_line/text_width.h"
#include "launch/standard_output.h"
#include "report/text/profile_table.h"
#include "traces/profile/profile_costs.h"
#include "traces/profile/profile_op_times.h"
#include "traces/profile/read_profile.h"

namespace tandem {
namespace {

struct TraceOptions {
  std::vector<std::string> files;
  std::string scenario;
  std::string costs;
  int passes = 0;
  int gpus_per_node = 0;
  std::size_t top = 15;
  bool as_hta = false;
  bool json = false;
  bool wide = false;
};

std::vector<NamedFile> inputs_of(const TraceOptions& options) {
  std::vector<NamedFile> inputs;
  for (const std::string& file : options.files) inputs.push_back({"the profile", file});
  return inputs;
}

// Writes the measured times of passes as a scenario with uniform costs.
std::string stated_scenario(const PassSeconds& passes, const std::vector<std::string>& files) {
  std::string text = fmt::format(
      "# What tandem trace measured in {}.\n# A pass of one microbatch "
      "through a stage: its compute, the median.\n",
      fmt::join(files, ", "));
  if (passes.forward_by_stage.size() > 1) {
    text += "# Forward by stage, ms:";
    for (const double seconds : passes.forward_by_stage)
      text += fmt::format(" {:.3f}", 1e3 * seconds);
    text += '\n';
  }
  if (passes.has_two_chains) {
    text +=
        fmt::format("[parallel]\npp = {}\nglobal_batch = {}\n[schedule]\norder = \"dualpipe\"\n",
                    passes.stages / 2, 2 * passes.microbatches);
  } else if (const int vpp = passes.stages_a_rank; passes.stages > 1 && passes.stages % vpp == 0) {
    text += fmt::format("[parallel]\npp = {}\nglobal_batch = {}\n", passes.stages / vpp,
                        std::max(passes.microbatches, 1));
    if (vpp > 1) text += fmt::format("vpp = {}\n", vpp);
  }
  text += fmt::format("[costs]\nsource = \"uniform\"\nforward_s = {:.9f}\n", *passes.forward_s);
  if (passes.input_s && passes.weight_s) {
    text += fmt::format("input_s = {:.9f}\nweight_s = {:.9f}\n", *passes.input_s, *passes.weight_s);
  } else {
    text += fmt::format(
        "# Input and weight gradient are not told apart: half of it each.\n"
        "backward_s = {:.9f}\n",
        *passes.backward_s);
  }
  if (passes.p2p_s) text += fmt::format("p2p_s = {:.9f}\n", *passes.p2p_s);
  return text;
}

Status write_costs(const Profile& profile, const TraceOptions& options) {
  ASSIGN_OR_RETURN(const ProfileCosts costs, cost_table_of(profile, options.gpus_per_node));
  RETURN_IF_ERROR(write_file(options.costs, to_text(costs.table)));
  if (costs.other_dtype > 0)
    say(fmt::format("warning: {}: {} GEMMs of another precision are left out", options.costs,
                    costs.other_dtype));
  if (costs.unknown_calls > 0)
    say(fmt::format("warning: {}: of {} calls the arguments do not tell what they computed",
                    options.costs, costs.unknown_calls));
  return Done{};
}

Status run(const TraceOptions& options) {
  RETURN_IF_ERROR(check_outputs({{"--scenario", options.scenario}, {"--costs", options.costs}},
                                inputs_of(options)));
  std::optional<Waiting> waiting("reading the profile");
  ASSIGN_OR_RETURN(const Profile profile, read_profile(options.files));
  ProfileReport report{.profile = &profile,
                       .window = window_of(profile),
                       .view = {.as_hta = options.as_hta},
                       .splits = {}};
  ASSIGN_OR_RETURN(report.splits, splits_of(profile, report.window, report.view));
  waiting.reset();
  if (!options.scenario.empty()) {
    ASSIGN_OR_RETURN(const PassSeconds passes, pass_seconds(profile, options.passes));
    RETURN_IF_ERROR(write_file(options.scenario, stated_scenario(passes, options.files)));
  }
  if (!options.costs.empty()) RETURN_IF_ERROR(write_costs(profile, options));
  fmt::print(standard_output(), "{}",
             options.json ? json_document(to_json(report, options.top))
                          : profile_table(report, options.top, text_width(options.wide)));
  return Done{};
}

}  // namespace

void add_trace(const Command& app) {
  auto options = std::make_shared<TraceOptions>();
  const Command command =
      app.subcommand("trace", "Says where the time of a profile goes (torch.profiler, Nsight).");
  command
      .option("profiles", &options->files,
              "*.json or *.json.gz of torch.profiler, SQLite of nsys export, or folders of them; "
              "a file a rank")
      .required();
  command.option("--scenario", &options->scenario,
                 "write a scenario (TOML) of stated seconds: what a pass of a microbatch through "
                 "a stage took");
  command.option("--costs", &options->costs,
                 "write a cost table (CSV): what GEMMs, attention and elementwise passes of each "
                 "shape took; needs record_shapes=True");
  command
      .option("--gpus-per-node", &options->gpus_per_node,
              "with --costs: collectives too, and which of them cross nodes")
      .at_least_one();
  command
      .option(
          "--passes", &options->passes,
          "with --scenario, where no annotations tell passes apart: the forwards of a rank in a "
          "step")
      .at_least_one();
  command.option("--top", &options->top, "so many of the longest kernels; default 15")
      .not_negative();
  command.flag("--hta", &options->as_hta,
               "in whole microseconds and by kernel names, as Holistic Trace Analysis does: to "
               "hold its numbers against these");
  command.flag("--json", &options->json, "print one JSON object and nothing else");
  add_wide(command, &options->wide);
  command.footer(
      "Example: tandem trace rank-0.pt.trace.json.gz\n"
      "         tandem trace profiles/ --scenario measured.toml");
  command.run([options] { return run(*options); });
}

}  // namespace tandem
