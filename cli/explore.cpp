// tandem explore: writes a page that simulates and searches by itself, from a shipped scenario or a
// pasted model.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/data_dir.h"
#include "cli/command_line/commands.h"
#include "launch/standard_output.h"
#include "report/page/html_page.h"
#include "report/page/run_inputs.h"

namespace tandem {
namespace {

// Returns the runs of all scenarios that come with Tandem, a list of inputs a file.
Result<nlohmann::ordered_json> shipped_runs() {
  nlohmann::ordered_json files = nlohmann::ordered_json::array();
  for (const std::string& name : data_names("scenarios")) {
    ASSIGN_OR_RETURN(const std::vector<Scenario> scenarios,
                     load_scenarios(fmt::format("{}/scenarios/{}.toml", data_dir(), name)));
    nlohmann::ordered_json runs = nlohmann::ordered_json::array();
    for (const Scenario& scenario : scenarios) {
      ASSIGN_OR_RETURN(runs.emplace_back(), run_inputs(scenario));
    }
    files.push_back({{"file", name + ".toml"}, {"runs", std::move(runs)}});
  }
  return files;
}

Status write_explorer(const std::string& path) {
  RETURN_IF_ERROR(check_html_page(path, true));
  PageData page{.title = "Which plan fits my model and my GPUs?", .source = "explore.toml"};
  ASSIGN_OR_RETURN(page.starts, shipped_runs());
  RETURN_IF_ERROR(write_html_page(page, path, true));
  fmt::print(standard_output(), "{}: open it in a browser\n", path);
  return Done{};
}

}  // namespace

void add_explore(const Command& app) {
  auto path = std::make_shared<std::string>();
  const Command command = app.subcommand(
      "explore",
      "Writes a page in which a model, a cluster and a plan are chosen, and which simulates and "
      "searches by itself, offline: from a scenario that comes with Tandem, or from a pasted "
      "config.json. It needs the engine that ./dev wasm builds.");
  command.option("-o,--output", path.get(), "the page (HTML)").required();
  command.footer("Example: tandem explore -o explore.html");
  command.run([path]() -> Status { return write_explorer(*path); });
}

}  // namespace tandem
