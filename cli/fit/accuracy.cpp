// tandem-fit accuracy: predicts runs that others measured, and writes the errors as the tables of a
// page.
#include <memory>

#include "cli/command_line/text_width.h"
#include "cli/fit/fit_commands.h"
#include "cli/predict_cases.h"

namespace tandem {

void add_accuracy(const Command& app) {
  auto options = std::make_shared<CaseOptions>();
  const Command command = app.subcommand(
      "accuracy",
      "Predicts runs that others measured, and writes what a page about accuracy shows of them.");
  command.option("cases", &options->cases, "CASES.csv").required();
  command.option("--rivals", &options->rivals,
                 "what other tools reach on them, a CSV, beside them in --page and --update");
  command.option("--update", &options->update,
                 "write the tables into this page, between its lines <!-- made by ./dev accuracy: "
                 "PART --> and <!-- end -->; where it has lines <!-- made by ./dev accuracy of "
                 "CASES: PART -->, between those");
  command.option("--plot", &options->plot, "draw predicted against measured, an SVG picture");
  command.option("--csv", &options->csv, "write all numbers as CSV");
  command.option("--page", &options->page, "write the table as Markdown");
  command.option("--jobs", &options->jobs, "runs at once; default one a core").at_least_one();
  add_wide(command, &options->wide);
  command.footer(
      "Example: tandem-fit accuracy validation/published/cases.csv --rivals "
      "validation/published/rivals.csv --update docs/accuracy.md");
  command.run([options] { return predict_cases(*options); });
}

}  // namespace tandem
