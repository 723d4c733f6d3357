// tandem schedule: shows an order, or the Program of a scenario.
#include <fmt/format.h>

#include <cstdio>

#include "base/csv.h"
#include "cli/commands.h"
#include "scenarios/run.h"
#include "schedule/order_text.h"
#include "schedule/program_text.h"

namespace tandem {
namespace {

struct ScheduleOptions {
  std::string input;
  std::vector<std::string> sets;
  OrderSpec order;
  std::string costs;
  std::string format = "grid";
};

// "F,I,W" or "F,I,W,C" in any one unit.
Result<GridCosts> parse_costs(const std::string& text) {
  GridCosts costs;
  if (text.empty()) return costs;
  std::vector<double> values;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const auto value = parse_number(std::string_view(text).substr(begin, end - begin));
    if (!value.ok() || *value < 0)
      return Error{
          fmt::format("--costs: found '{}', expected F,I,W: three numbers, not negative", text)};
    values.push_back(*value);
    begin = end + 1;
  }
  if (values.size() != 3 && values.size() != 4)
    return Error{
        fmt::format("--costs: found {} numbers, expected F,I,W or F,I,W,C", values.size())};
  constexpr double kMostTimes = 1000;  // a column a slot: the grid would be too wide
  for (const double a : values) {
    for (const double b : values) {
      if (b > 0 && a > kMostTimes * b)
        return Error{fmt::format(
            "--costs: found {} beside {}, expected none above {} times another", a, b, kMostTimes)};
    }
  }
  costs.forward = values[0];
  costs.input = values[1];
  costs.weight = values[2];
  costs.backward = values[1] + values[2];
  return costs;
}

// The order in a file; where it is wrong, its grid goes to stderr, the fault marked.
Result<Order> read_order(const std::string& path) {
  std::string fault;
  auto order = read_pytorch(path, &fault);
  fmt::print(stderr, "{}", fault);
  return order;
}

Status print_order(const Order& order, const ScheduleOptions& options) {
  ASSIGN_OR_RETURN(const GridCosts costs, parse_costs(options.costs));
  if (options.format == "grid") fmt::print("{}", to_grid(order, costs));
  if (options.format == "pytorch") fmt::print("{}", to_pytorch(order));
  if (options.format == "pytorch-comms") fmt::print("{}", to_pytorch(with_communication(order)));
  return Done{};
}

Status show_scenario(const ScheduleOptions& options) {
  std::vector<std::pair<std::string, Setting>> sets;
  for (const std::string& text : options.sets) {
    ASSIGN_OR_RETURN(sets.emplace_back(), parse_set(text));
  }
  ASSIGN_OR_RETURN(const std::vector<Scenario> scenarios, load_scenarios(options.input, sets));
  if (options.format == "program") {
    ASSIGN_OR_RETURN(const Prepared prepared, prepare(scenarios.front()));
    fmt::print("{}", to_text(prepared.program));
    return Done{};
  }
  const Scenario& scenario = scenarios.front();
  if (!scenario.order_file.empty()) RETURN_IF_ERROR(read_order(scenario.order_file));
  ASSIGN_OR_RETURN(const Order order, make_order(scenario));
  return print_order(order, options);
}

Status show(const ScheduleOptions& options) {
  if (!options.input.empty() && options.input.ends_with(".toml")) return show_scenario(options);
  if (options.format == "program")
    return Error{
        "found --format program without a scenario, expected SCENARIO.toml: a Program is priced"};
  if (!options.input.empty()) {
    ASSIGN_OR_RETURN(const Order order, read_order(options.input));
    return print_order(order, options);
  }
  if (options.order.name.empty())
    return Error{"found neither a file nor --order, expected one of them"};
  ASSIGN_OR_RETURN(const Order order, make_order(options.order));
  return print_order(order, options);
}

}  // namespace

void add_schedule(CLI::App* app, Command* chosen) {
  auto options = std::make_shared<ScheduleOptions>();
  CLI::App* command = app->add_subcommand(
      "schedule", "Shows an order: by name, from a CSV in PyTorch's form, or a scenario's.");
  command->add_option("input", options->input, "SCENARIO.toml (its first run) or ORDER.csv");
  command->add_option("--set", options->sets, "KEY=VALUE over the scenario's settings; repeatable")
      ->allow_extra_args(false);
  command->add_option("--order", options->order.name, "none, gpipe, 1f1b, interleaved, looped-bfs");
  command->add_option("--pp", options->order.pp, "pipeline ranks")->check(CLI::PositiveNumber);
  command->add_option("--vpp", options->order.vpp, "stages a rank")->check(CLI::PositiveNumber);
  command->add_option("--microbatches", options->order.microbatches, "microbatches")
      ->check(CLI::PositiveNumber);
  command
      ->add_option("--group", options->order.group,
                   "interleaved: microbatches a group and stage; default pp (or all, where fewer)")
      ->check(CLI::PositiveNumber);
  command->add_option("--costs", options->costs, "F,I,W[,C] to draw the grid with; default 1,1,1");
  command
      ->add_option(
          "--format", options->format,
          "grid: a picture; pytorch: one cell an action; pytorch-comms: with communication; "
          "program: lowered and priced")
      ->check(CLI::IsMember({"grid", "pytorch", "pytorch-comms", "program"}))
      ->capture_default_str();
  command->footer("Example: tandem schedule --order interleaved --pp 4 --vpp 2 --microbatches 8");
  command->callback([options, chosen] { *chosen = [options] { return show(*options); }; });
}

}  // namespace tandem
