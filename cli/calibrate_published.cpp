// tandem calibrate published: fits the constants of workload/software to runs that others measured.
#include <fmt/format.h>

#include <memory>
#include <thread>

#include "cli/commands.h"
#include "topology/preset.h"
#include "validation/published_fit.h"

namespace tandem {
namespace {

struct PublishedOptions {
  std::string cases;
  std::string folder;
  int steps = 6;
  int jobs = 0;
};

Status run(const PublishedOptions& options) {
  ASSIGN_OR_RETURN(const std::vector<Case> cases, read_cases(options.cases));
  const std::string folder =
      options.folder.empty() ? data_dir() + "/validation/published" : options.folder;
  ASSIGN_OR_RETURN(FitPlan plan, read_fit_plan(folder));
  const int jobs = options.jobs > 0
                       ? options.jobs
                       : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  ASSIGN_OR_RETURN(const FitData data, fit_data(cases, std::move(plan), jobs));
  ASSIGN_OR_RETURN(const Values start, current_values(data.plan));
  const auto say = [&](int step, const Fit& now) {
    fmt::print(stderr, "step {}: cost {:.2f}\n", step, now.cost);
  };
  ASSIGN_OR_RETURN(const Fit done,
                   fit(data, thinned(data, all_rows(data)), start, options.steps, nullptr, say));
  for (std::size_t k = 0; k < start.size(); ++k) {
    const Constant& c = data.plan.constants[k];
    fmt::print("{:<16} {:<22} {:9.4g} -> {:9.4g} +- {:.2g}   prior {:g} +- {:g}\n", c.software,
               c.key, start[k], done.values[k], done.sigma.empty() ? 0 : done.sigma[k], c.prior,
               c.sigma);
  }
  return Done{};
}

}  // namespace

void add_calibrate_published(CLI::App* calibrate, Command* chosen) {
  auto options = std::make_shared<PublishedOptions>();
  CLI::App* command = calibrate->add_subcommand(
      "published", "Fits the constants of workload/software to runs that others measured.");
  command->add_option("cases", options->cases, "CASES.csv")->required();
  command->add_option("--plan", options->folder,
                      "folder of constants.csv and weights.csv; default validation/published");
  command->add_option("--steps", options->steps, "of Gauss-Newton at most")
      ->check(CLI::Range(0, 100))
      ->capture_default_str();
  command->add_option("--jobs", options->jobs, "runs at once; default one a core")
      ->check(CLI::PositiveNumber);
  command->callback([options, chosen] { *chosen = [options] { return run(*options); }; });
}

}  // namespace tandem
