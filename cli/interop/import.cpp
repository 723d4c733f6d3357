// tandem import: makes a scenario from other tools' files. Files of a job (configurations, launch
// scripts) give the model and the plan, files of a cluster give [cluster] and a CSV of links, and
// Chakra traces give a Program instead.
#include "interop/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "base/file.h"
#include "base/outputs.h"
#include "base/split.h"
#include "cli/command_line/commands.h"
#include "cli/interop/cluster_import.h"
#include "interop/chakra/chakra_file.h"
#include "interop/plan/understood.h"
#include "interop/topology/topologies.h"
#include "launch/standard_output.h"
#include "planning/simulate/chakra_run.h"
#include "scenarios/scenario.h"
#include "scenarios/setting.h"
#include "schedule/order/named_orders.h"
#include "schedule/program/program_text.h"
#include "topology/preset.h"

namespace tandem {
namespace {

struct ImportCommand {
  std::vector<std::string> inputs, sets;
  std::string output, cluster, comm_groups, hosts;
  int gpus = 0;
  bool partial = false;
  std::vector<ImportSource> sources;  // the inputs' texts, by input_of(); none of Chakra's
};

// Returns "671.0 B parameters (671026419200)".
std::string count_text(double count, std::string_view noun) {
  const bool billions = count >= 1e9;
  return fmt::format("{:.1f} {} {} ({:.0f})", count / (billions ? 1e9 : 1e6), billions ? "B" : "M",
                     noun, count);
}

// Counts the rows of a CSV, without its comments and its header.
std::int64_t rows_in(const std::string& csv) {
  const auto is_comment = [](const std::string& line) { return line.starts_with('#'); };
  const std::vector<std::string> lines = split(csv, "\n");
  return std::ssize(lines) - std::ranges::count_if(lines, is_comment) - 1;
}

// Returns the text of the model's number of parameters. Error: the keys make no model. A scenario
// needs a cluster, so any one is taken.
Result<std::string> size_of(const ImportedPlan& plan) {
  Settings settings;
  for (const ImportedKey& key : plan.keys) {
    if (!key.key.starts_with("model.")) continue;
    settings[key.key] = {key.value, key.where};
  }
  settings.try_emplace("model.seq", Setting{std::int64_t{1}, ""});  // of no effect on the number
  settings["cluster.preset"] = {std::string("dgx-h100"), ""};
  settings["cluster.gpus"] = {std::int64_t{1}, ""};
  ASSIGN_OR_RETURN(const Scenario scenario, make_scenario("", "model", settings));
  const Model& model = scenario.job.model;
  const double all = card_parameters(model), active = active_parameters(model);
  return count_text(all, "parameters") + (active < all ? ", " + count_text(active, "active") : "");
}

// Writes Chakra traces as a Program.
Status import_traces(const ImportCommand& options) {
  if (options.inputs.size() > 1)
    return Error::at(options.inputs[0],
                     "found Chakra traces with other files, expected one file of them: the other "
                     "ranks' stand beside it");
  RETURN_IF_ERROR(
      check_outputs({{"-o", options.output}},
                    {{"the input", options.inputs[0]}, {"--comm-groups", options.comm_groups}}));
  ASSIGN_OR_RETURN(const ChakraRun run,
                   load_chakra({options.inputs[0], options.comm_groups, options.cluster}));
  for (const std::string& line : run.left_out) say("warning: " + line);
  const std::string text = to_text(run.program);
  if (options.output.empty()) {
    fmt::print(standard_output(), "{}", text);
    return Done{};
  }
  RETURN_IF_ERROR(write_file(options.output, text));
  std::size_t ops = 0;
  for (const RankRow& rank : run.program.ranks) ops += run.program.bodies[rank.body].ops.size();
  fmt::print(standard_output(), "{}: {} ranks, {} ops\n", options.output, run.program.ranks.size(),
             ops);
  return Done{};
}

// Returns the GPUs that the plan takes at least: pp stages, each of a multiple of tp * cp GPUs
// (outside the experts) and of ep * expert_tp (inside them).
std::int64_t least_gpus(const ImportedPlan& plan) {
  constexpr std::int64_t kMost = 4096;  // keeps the product of sizes within 64 bits
  const auto size = [&](IntegerKey key, std::int64_t otherwise) {
    return std::clamp<std::int64_t>(plan.whole_of(key).value_or(otherwise), 1, kMost);
  };
  const std::int64_t tp = size("parallel.tp", 1);
  return size("parallel.pp", 1) * std::lcm(tp * size("parallel.cp", 1),
                                           size("parallel.ep", 1) * size("parallel.expert_tp", tp));
}

// Checks that the job's GPUs make whole pipelines. Without this check a launch script that has 1
// node where its user fills in a number would give a job that cannot run.
Status check_gpus(const ImportedPlan& plan) {
  const auto gpus = plan.whole_of("cluster.gpus");
  if (!gpus) return Done{};
  const std::int64_t least = least_gpus(plan);
  if (*gpus % least == 0) return Done{};
  const auto key = std::ranges::find(plan.keys, "cluster.gpus", &ImportedKey::key);
  // If --gpus gave the number, it has no place in a file. Its comment then names the option.
  return Error::at(key->where.empty() ? key->comment : key->where,
                   fmt::format("found {} GPUs ({}), expected a multiple of {}, which its tp, pp, "
                               "cp, ep and expert_tp take: give --gpus {}",
                               *gpus, key->comment, least, least));
}

// Returns the line by which simulate refuses the plan; empty: it takes it. Where no file says which
// GPUs or how many, and where `has_links` says that their links are not written yet, others stand
// for them, and faults of theirs do not count.
std::string refusal_of(const ImportedPlan& plan, bool has_links) {
  const bool has_number = plan.has("cluster.gpus");
  const bool is_known = !has_links && (plan.has("cluster.preset") || plan.has("cluster.gpu"));
  Settings settings;
  for (const ImportedKey& key : plan.keys) {
    if (is_known || !key.key.starts_with("cluster.") || key.key == "cluster.gpus")
      settings[key.key] = {key.value, key.where.empty() ? key.comment : key.where};
  }
  if (!is_known) settings["cluster.preset"] = {std::string("dgx-b200"), ""};
  if (!has_number) {
    settings["cluster.gpus"] = {least_gpus(plan), ""};
    settings.erase("parallel.dp");
  }
  const auto scenario = make_scenario("", "plan", settings);
  if (scenario.ok()) {
    // The order's own rules, on numbers of microbatches, wait for a run.
    const JobSettings& job = scenario->job;
    const bool can_check = has_number && !job.is_open() && job.order_file.empty();
    const Status ordered = can_check ? check_order(job.order) : Done{};
    if (ordered.ok()) return "";
    return scenario->placed(ordered.error().or_of({"schedule.order", "parallel.vpp"})).text();
  }
  const bool is_of_others =
      std::ranges::any_of(scenario.error().place.keys, [&](const std::string& key) {
        const bool is_of_number = key == "cluster.gpus" || key == "parallel.dp" ||
                                  key.ends_with("_batch") || key == "parallel.hsdp_shard" ||
                                  key == "parallel.zero_hpz";
        return is_of_number ? !has_number : key.starts_with("cluster.") && !is_known;
      });
  return is_of_others ? "" : scenario.error().text();
}

// Refuses files that leave parts of a job unknown. A source is "config.json (Hugging Face
// config.json, llama)", of which the Error names the file.
Status check_known(const ImportedPlan& plan) {
  const std::vector<std::string> unknown = unknown_parts(plan);
  if (unknown.empty()) return Done{};
  return Error::at(
      plan.sources.empty() ? "" : plan.sources.back().substr(0, plan.sources.back().find(" (")),
      fmt::format("found all but {}; --partial writes what there is", fmt::join(unknown, "; ")));
}

std::string all_kinds() { return importable_kinds() + "; " + topology_kinds(); }

// Makes one plan of the files of a job and those of a cluster. `links` gets the cluster's CSV.
Result<ImportedPlan> import_all(const ImportCommand& options,
                                const std::map<std::string, KeyValue>& sets, std::string* links) {
  std::vector<ImportSource> of_job, of_cluster;
  for (const ImportSource& source : options.sources)
    (is_topology(source.text) ? of_cluster : of_job).push_back(source);
  ASSIGN_OR_RETURN(ImportedPlan plan, import_sources(of_job, {.gpus = options.gpus, .sets = sets}));
  if (of_cluster.empty()) return plan;
  if (options.output.empty())
    return Error{
        "-o: found none, expected a scenario's path: the cluster's links go into a CSV "
        "beside it"};
  ASSIGN_OR_RETURN(ImportedCluster cluster, import_cluster(of_cluster, {.preset = options.cluster,
                                                                        .hosts = options.hosts,
                                                                        .gpus = options.gpus,
                                                                        .output = options.output,
                                                                        .sets = sets}));
  // The cluster's files win over the job's files, and --set wins over both, but for numbers that
  // the links have. Both keep cluster.gpus: add() refuses two numbers that differ.
  std::erase_if(plan.keys, [](const ImportedKey& key) {
    return key.key.starts_with("cluster.") && key.key != "cluster.gpus" &&
           (key.source != ImportedKey::Set || is_for_links(key.key));
  });
  RETURN_IF_ERROR(plan.add(cluster.plan));
  *links = std::move(cluster.links);
  return plan;
}

// Reads the files into options->sources, before run_import() is called. Returns the kind of each as
// in option_table.cpp: c (Chakra traces), t (a file of a cluster), j (a file of a job).
Result<CommandInput> input_of(ImportCommand* options) {
  CommandInput input{options->inputs[0], ""};
  if (is_chakra_path(input.path)) return CommandInput{input.path, "c"};
  ASSIGN_OR_RETURN(options->sources, read_sources(options->inputs, all_kinds()));
  for (const ImportSource& source : options->sources)
    input.kinds += is_topology(source.text) ? 't' : 'j';
  return input;
}

Result<std::map<std::string, KeyValue>> values_to_set(const ImportCommand& options) {
  ASSIGN_OR_RETURN(const auto settings, parse_sets(options.sets));
  std::map<std::string, KeyValue> sets;
  for (const auto& [key, setting] : settings) {
    if (key.find('.') == std::string::npos)
      return Error{fmt::format("--set: found '{}', expected a key such as model.seq", key)};
    sets[key] = setting.value;
  }
  return sets;
}

// Writes the scenario, and the cluster's links if it has some. Prints how much was understood.
Status write_plan(const ImportCommand& options, const ImportedPlan& plan, const std::string& links,
                  bool is_job) {
  const std::string text = scenario_text(plan);
  if (options.output.empty()) {
    fmt::print(standard_output(), "{}", text);
    return Done{};
  }
  if (!links.empty()) {
    RETURN_IF_ERROR(write_file(links_path(options.output), links));
    fmt::print(standard_output(), "{}: {} links\n", links_path(options.output), rows_in(links));
  }
  RETURN_IF_ERROR(write_file(options.output, text));
  const std::string left_out =
      links.empty() ? "" : fmt::format(", {} left out", plan.left_out.size());
  fmt::print(standard_output(),
             "{}: {} keys; {} assumed{}, {} not expressed, {} not understood, {} without effect\n",
             options.output, plan.keys.size(), plan.assumed.size(), left_out,
             plan.not_expressed.size(), plan.not_understood.size(), plan.without_effect);
  if (is_job) fmt::print(standard_output(), "{}", understood_text(plan, ""));
  return Done{};
}

Status run_import(const ImportCommand& options) {
  if (is_chakra_path(options.inputs[0])) return import_traces(options);
  std::vector<NamedFile> inputs;
  for (const std::string& path : options.inputs) inputs.push_back({"the input", path});
  RETURN_IF_ERROR(check_outputs({{"-o", options.output}}, inputs));
  ASSIGN_OR_RETURN(const auto sets, values_to_set(options));
  std::string links;
  ASSIGN_OR_RETURN(ImportedPlan plan, import_all(options, sets, &links));
  if (!links.empty()) {  // import_all() read a cluster, and used --cluster for what it lacked
    RETURN_IF_ERROR(check_outputs({{"the links", links_path(options.output)}}, inputs));
  } else if (!options.cluster.empty()) {
    if (const auto preset = load_preset(options.cluster); !preset.ok()) return preset.error();
    plan.set_by_option("cluster.preset", options.cluster, "--cluster");
  }
  RETURN_IF_ERROR(check_gpus(plan));
  const bool is_job = std::ranges::any_of(
      options.sources, [](const ImportSource& source) { return !is_topology(source.text); });
  const bool must_be_whole = is_job && !options.partial;
  if (must_be_whole) RETURN_IF_ERROR(check_known(plan));
  leave_out_future_keys(&plan);
  if (const auto size = size_of(plan); size.ok()) {
    plan.size = *size;
    const std::string refusal = must_be_whole ? refusal_of(plan, !links.empty()) : "";
    if (!refusal.empty()) say("warning: simulate refuses this plan: " + refusal);
  } else if (must_be_whole) {
    say("warning: the model cannot be simulated as it is: " + size.error().text());
  }
  return write_plan(options, plan, links, is_job);
}

}  // namespace

void add_import(const Command& app) {
  auto options = std::make_shared<ImportCommand>();
  const Command command = app.subcommand(
      "import",
      "Writes a scenario from other tools' files: " + all_kinds() +
          ". What one file states goes over what another leaves to a default; two that state "
          "different values are refused. What was understood, assumed and not understood stands "
          "there as comments. Of Chakra traces (PREFIX.0.et, one a rank) it writes a "
          "Program.");
  command.option("input", &options->inputs, "FILE...").required();
  command.option("-o,--output", &options->output, "the scenario; default standard output");
  command.option("--set", &options->sets, "KEY=VALUE over what the files say; repeatable")
      .one_value_each();
  command.option("--cluster", &options->cluster,
                 "a preset, see tandem topology; of Chakra traces it prices the communication");
  command.option("--comm-groups", &options->comm_groups,
                 "of Chakra traces: their process groups; default PREFIX.groups.json");
  command.flag(
      "--partial", &options->partial,
      "write what there is where no file states the model, the parallel sizes or the batch");
  command.option("--gpus", &options->gpus, "GPUs of the job; default what the files say")
      .range(1, 1'000'000);
  command.option("--hosts", &options->hosts,
                 "of a fabric, those of a hostlist such as n[1-8]; default all that have as many "
                 "ports as most");
  command.footer(
      "Example: tandem import config.json train.sh -o train.toml --cluster dgx-h100 --gpus 64");
  command.run([options]() -> Status { return run_import(*options); },
              [options] { return input_of(options.get()); });
}

}  // namespace tandem
