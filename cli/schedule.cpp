// tandem schedule: shows an order, or the Program of a scenario. The order is one by name
// (--order), one of a file, or that of a scenario, which may have to be searched for first.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <cstdio>
#include <optional>
#include <utility>

#include "base/csv.h"
#include "base/parallel/progress.h"
#include "base/split.h"
#include "cli/command_line/commands.h"
#include "cli/command_line/text_width.h"
#include "job/order_job.h"
#include "job/price_job.h"
#include "launch/standard_output.h"
#include "planning/choose/measured_costs.h"
#include "planning/choose/resolve.h"
#include "planning/play/play_job.h"
#include "planning/simulate/simulate.h"
#include "report/text/bubble_text.h"
#include "report/text/text_table.h"
#include "schedule/order/bubble.h"
#include "schedule/order/lower_bound.h"
#include "schedule/order/order_replay.h"
#include "schedule/order/order_text.h"
#include "schedule/order/primus_table.h"
#include "schedule/program/program_text.h"

namespace tandem {
namespace {

struct ScheduleOptions {
  std::string input;
  std::vector<std::string> sets;
  std::string only;
  OrderSpec order;
  int vpp = 0;  // 0: not given
  std::string costs;
  std::string format = "grid";
  std::string colour = "auto";
  bool explain = false;
  bool wide = false;
  double budget_s = 0;
  std::string op_times;
};

// Reads "F,I,W" or "F,I,W,C", in any one unit.
Result<OrderCosts> parse_costs(const std::string& text) {
  if (text.empty()) return OrderCosts{};
  std::vector<double> values;
  for (const std::string& part : split(text + ",", ",")) {  // "1," has an empty part
    const auto value = parse_number(part);
    if (!value.ok() || *value < 0)
      return Error{
          fmt::format("--costs: found '{}', expected F,I,W: three numbers, not negative", text)};
    values.push_back(*value);
  }
  return order_costs(values);
}

// Reads the order in a file. The grid of a wrong one goes to stderr, with the fault marked.
Result<Order> read_order(const std::string& path) {
  std::string fault;
  auto order = read_order_file(path, &fault);
  fmt::print(stderr, "{}", fault);
  return order;
}

// Checks that an order will not be too large for a grid, before it is made.
Status check_shown(const OrderSpec& spec, const ScheduleOptions& options) {
  if (options.explain || options.format != "grid") return Done{};
  return check_grid(spec.pp, static_cast<double>(spec.pp) * spec.vpp, spec.microbatches);
}

Status print_order(const Order& order, const ScheduleOptions& options) {
  ASSIGN_OR_RETURN(const OrderCosts costs, parse_costs(options.costs));
  const GridCosts grid_costs = {costs.forward, costs.input + costs.weight, costs.input,
                                costs.weight};
  if (options.format == "grid") RETURN_IF_ERROR(check_grid(order, grid_costs));
  std::optional<Waiting> waiting("drawing the order");
  std::string text;
  if (options.format == "grid") text = to_grid(order, grid_costs, in_colour(options.colour));
  if (options.format == "pytorch") text = to_pytorch(order);
  if (options.format == "pytorch-comms") text = to_pytorch(with_communication(order));
  if (options.format == "primus") {
    ASSIGN_OR_RETURN(text, to_primus(order));
  }
  waiting.reset();
  fmt::print(standard_output(), "{}", text);
  return Done{};
}

// Says where the bubble comes from. `seconds_a_unit`: the length of a unit of time in the text; 0:
// not known, as the costs are in units of --costs.
void print_explained(const Order& order, const std::vector<OrderCosts>& stages,
                     double seconds_a_unit, const ScheduleOptions& options) {
  fmt::print(
      standard_output(), "{}",
      bubble_text(order, explain_bubble(order, stages), lower_bound(bound_problem(order, stages)),
                  seconds_a_unit, text_width(options.wide)));
}

double mean_optimizer_s(const Program& program) {
  double sum = 0;
  for (const RankRow& rank : program.ranks) {
    for (const Op& op : program.bodies[rank.body].ops)
      sum += op.kind == OpKind::Optimizer ? to_seconds(op.duration_ns) : 0;
  }
  return sum / static_cast<double>(program.ranks.size());
}

// Returns "+0.3 s"; what is less than a millionth of the iteration comes from rounding.
std::string more_or_less(double seconds, double iteration_s) {
  return fmt::format("{:+.4g} s", std::abs(seconds) < 1e-6 * iteration_s ? 0 : seconds);
}

// Plays the iteration, and says how much of it is not passes of stages: data parallelism, the
// optimizer, transfers in line with compute. `stages_s`: what these passes take by themselves.
Status explain_iteration(const Scenario& scenario, const OrderedJob& job, double stages_s,
                         const ScheduleOptions& options) {
  ASSIGN_OR_RETURN(const PlayedJob played, play_once(scenario, Engine::Ideal));
  const RunResult result = result_of(scenario, played.job, played.trace);
  const double data_s = result.exposed_s[static_cast<std::size_t>(GroupKind::Data)];
  const double optimizer_s = mean_optimizer_s(played.job.program);
  const double beside_s = result.iteration_s - stages_s;
  const bool overlaps = lower_options(scenario.job, job.order, {}).overlap_p2p;
  const bool is_longer = beside_s >= 1e-6 * result.iteration_s;
  const bool in_line = job.plan.pp > 1 && !overlaps && is_longer;
  const std::string text = fmt::format(
      "The whole iteration takes {:.4g} s on the ideal engine, {} beside its stages' passes: "
      "communication of gradients and parameters that nothing hides {:.4g} s of the mean rank, its "
      "optimizer {:.4g} s; the rest, {}, is what stages by themselves do not tell.{}\n",
      result.iteration_s, more_or_less(beside_s, result.iteration_s), data_s, optimizer_s,
      more_or_less(beside_s - data_s - optimizer_s, result.iteration_s),
      in_line ? " Compute waits for transfers there (overlap.p2p = false); above they go beside it."
              : "");
  fmt::print(standard_output(), "{}", wrapped(text, text_width(options.wide)));
  return Done{};
}

// Explains a scenario's order in seconds, and in units of a stage's mean forward. The stages of a
// second chain (DualPipe) cost what those of the first do. Nothing plays an iteration of measured
// times (--op-times).
Status explain_seconds(const Scenario& scenario, const OrderedJob& job,
                       const ScheduleOptions& options) {
  std::vector<OrderCosts> stages =
      stage_costs(job.chain, scenario.job.model, job.plan, scenario.costs, job.site);
  if (!options.op_times.empty()) {
    ASSIGN_OR_RETURN(stages, measured_costs(options.op_times, std::move(stages)));
  }
  const std::vector<OrderCosts> chain = stages;
  for (int copy = 1; copy < job.order.chains; ++copy)
    stages.insert(stages.end(), chain.begin(), chain.end());
  double forwards = 0;
  for (const OrderCosts& stage : stages) forwards += stage.forward;
  print_explained(job.order, stages, forwards / static_cast<double>(stages.size()), options);
  if (!options.op_times.empty()) {
    const std::string text =
        fmt::format("Its stages take what they took in {}.\n", options.op_times);
    fmt::print(standard_output(), "{}", wrapped(text, text_width(options.wide)));
    return Done{};
  }
  return explain_iteration(scenario, job, replay_queued(job.order, stages).makespan, options);
}

// Loads the scenario's first run.
Result<Scenario> load_first_run(const ScheduleOptions& options) {
  ASSIGN_OR_RETURN(const auto sets, parse_sets(options.sets));
  ASSIGN_OR_RETURN(const std::vector<Scenario> scenarios,
                   load_scenarios(options.input, sets, options.only));
  Scenario scenario = scenarios.front();
  RETURN_IF_ERROR(check_budget({scenario}, options.budget_s));
  scenario.job.order_seconds = options.budget_s;
  if (!options.op_times.empty() && !scenario.job.order_is_open())
    return Error::at(options.input,
                     "found --op-times with an order that is given, expected schedule.order = "
                     "auto");
  scenario.job.order_trace = options.op_times;
  return scenario;
}

Status print_program(const Scenario& scenario) {
  std::optional<Waiting> waiting("making the program");
  ASSIGN_OR_RETURN(const Scenario found, resolved(scenario));
  ASSIGN_OR_RETURN(const CompiledJob job, compile(found));
  const std::string text = to_text(job.program);
  waiting.reset();
  fmt::print(standard_output(), "{}", text);
  return Done{};
}

// Shows the order of a scenario. resolved() searches for an order or a layout that the scenario
// leaves open, which may take long: the checks come before it.
Status show_scenario(const ScheduleOptions& options) {
  ASSIGN_OR_RETURN(Scenario scenario, load_first_run(options));
  if (options.format == "program") return print_program(scenario);
  if (const Status shown = check_shown(scenario.job.order, options); !shown.ok()) {
    // If the order itself is wrong, that is the Error, and not its size.
    if (!scenario.job.is_open()) RETURN_IF_ERROR(named_order(scenario));
    return shown;
  }
  // If the file is wrong, read_order() shows its grid, which order_job() would not.
  if (!scenario.job.order_file.empty()) RETURN_IF_ERROR(read_order(scenario.job.order_file));
  ASSIGN_OR_RETURN(scenario, resolved(scenario));
  ASSIGN_OR_RETURN(const OrderedJob job, order_job(scenario));
  if (!options.explain) return print_order(job.order, options);
  return explain_seconds(scenario, job, options);
}

// Traits of the orders that some options are for, for help and errors.
bool in_groups(const OrderTraits& order) { return order.groups; }
bool pairs_experts(const OrderTraits& order) { return order.expert_pairs; }
bool shares_vocabulary(const OrderTraits& order) { return order.takes_vocabulary(); }
bool two_stages_a_rank(const OrderTraits& order) { return order.default_vpp() == 2; }

// Returns the help of --memory-limit: the orders that take it, and their defaults.
std::string memory_limit_help() {
  std::vector<std::string_view> names, rules;
  for (const OrderTraits& order : named_orders()) {
    if (!order.made_for_costs()) continue;
    names.push_back(order.name);
    rules.push_back(order.memory_rule);
  }
  return fmt::format("{}: activations of a stage that a rank may hold, from F to W; default: {}",
                     fmt::join(names, ", "), fmt::join(rules, ", "));
}

bool is_scenario(const std::string& path) {
  return path.ends_with(".toml") || scenario_path(path) != path;
}

Status show_order(const Order& order, const ScheduleOptions& options) {
  if (!options.explain) return print_order(order, options);
  ASSIGN_OR_RETURN(const OrderCosts costs, parse_costs(options.costs));
  print_explained(order, std::vector(order.stages, costs), 0, options);
  return Done{};
}

// Makes and shows the order that --order names.
Status show_named_order(const ScheduleOptions& options) {
  if (options.order.name.empty())
    return Error{"found neither a file nor --order, expected one of them"};
  if (options.order.group > 0 && !traits_of(options.order).groups)
    return Error{
        fmt::format("--group: found {} with --order {}, expected --order {}: no other one goes in "
                    "groups",
                    options.order.group, options.order.name, order_list(in_groups))};
  OrderSpec spec = options.order;
  spec.vpp = options.vpp > 0 ? options.vpp : traits_of(spec).default_vpp();
  const bool depends_on_costs = traits_of(spec).made_for_costs() || spec.vocabulary != 0;
  if (!options.costs.empty() && options.format != "grid" && !depends_on_costs)
    return Error{
        fmt::format("found --costs with --order {} and --format {}, expected --format grid "
                    "or an order that is made for costs",
                    spec.name, options.format)};
  ASSIGN_OR_RETURN(spec.costs, parse_costs(options.costs));
  RETURN_IF_ERROR(check_order(spec));
  RETURN_IF_ERROR(check_shown(spec, options));
  std::optional<Waiting> waiting("making the order");
  ASSIGN_OR_RETURN(const Order order, make_order(spec));
  waiting.reset();
  return show_order(order, options);
}

Status show(const ScheduleOptions& options) {
  if (is_scenario(options.input)) return show_scenario(options);
  if (options.format == "program")
    return Error{
        "found --format program without a scenario, expected SCENARIO.toml: a Program is priced"};
  if (options.input.empty()) return show_named_order(options);
  ASSIGN_OR_RETURN(const Order order, read_order(options.input));
  return show_order(order, options);
}

}  // namespace

void add_schedule(const Command& app) {
  auto options = std::make_shared<ScheduleOptions>();
  const Command command = app.subcommand(
      "schedule",
      "Shows an order: by name, from a file in PyTorch's or Primus's form, or a scenario's.");
  command.option(
      "input", &options->input,
      "SCENARIO.toml (its first run), ORDER.csv, or a log or module with a table of Primus");
  add_sets(command, &options->sets, "the scenario's settings");
  command.option("--only", &options->only, "the scenario's first run whose name holds this");
  command.option("--order", &options->order.name,
                 fmt::format("{}", fmt::join(order_names(), ", ")));
  command.option("--pp", &options->order.pp, "pipeline ranks").at_least_one();
  command
      .option("--vpp", &options->vpp,
              fmt::format("stages a rank; default 2 for {}, else 1", order_list(two_stages_a_rank)))
      .at_least_one();
  command.option("--microbatches", &options->order.microbatches, "microbatches").at_least_one();
  command
      .option("--group", &options->order.group,
              fmt::format("{}: microbatches a group and stage; default pp (or all, where fewer)",
                          order_list(in_groups)))
      .at_least_one();
  command.option("--costs", &options->costs,
                 "F,I,W[,C]: times of a forward, an input gradient, a weight gradient and a "
                 "transfer; zero-bubble orders are made for them, and the grid is drawn with "
                 "them (without transfers); default 1,1,1");
  command.option("--memory-limit", &options->order.memory_limit, memory_limit_help()).positive();
  command.flag("--expert-overlap", &options->order.expert_overlap,
               fmt::format("{}, with --pp 1 or --vpp: one more warm-up and pairs of F and B, as "
                           "Megatron-LM where experts overlap",
                           order_list(pairs_experts)));
  command
      .option("--vocabulary", &options->order.vocabulary,
              fmt::format("{}: vocabulary parallelism by algorithm 1 or 2, its passes S and T as "
                          "long as a forward of 1",
                          order_list(shares_vocabulary)))
      .at_least_one();
  command
      .option("--format", &options->format,
              "grid: a picture; pytorch: one cell an action; pytorch-comms: with communication; "
              "primus: a Python module for AMD's Primus; program: lowered and priced")
      .one_of({"grid", "pytorch", "pytorch-comms", "primus", "program"})
      .show_default();
  command.flag("--explain", &options->explain,
               "say in words where the bubble comes from (fill, drain, imbalance, memory, "
               "transfers), in units of --costs, of a scenario in seconds too; and how far at most "
               "the order is from the best possible");
  command.option("--op-times", &options->op_times,
                 "of a scenario with schedule.order = auto: a trace of one of its runs (tandem run "
                 "--trace); the order is made for what its stages took there");
  add_budget(command, &options->budget_s);
  add_colour(command, &options->colour);
  add_wide(command, &options->wide);
  command.footer(
      "Example: tandem schedule --order interleaved --pp 4 --vpp 2 --microbatches 8\n"
      "         tandem schedule --order 1f1b --pp 4 --microbatches 8 --costs 1,1,1,0.1 --explain");
  const auto input = [options]() -> Result<CommandInput> {
    if (options->input.empty()) return CommandInput{"", "n"};
    return CommandInput{options->input, is_scenario(options->input) ? "s" : "o"};
  };
  command.run([options] { return show(*options); }, input);
}

}  // namespace tandem
