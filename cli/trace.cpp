// tandem trace: where the time of a profile goes.
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/progress.h"
#include "cli/commands.h"
#include "cli/text_width.h"
#include "report/text/profile_table.h"
#include "traces/profile/read_profile.h"

namespace tandem {
namespace {

struct TraceOptions {
  std::vector<std::string> files;
  std::size_t top = 15;
  bool as_hta = false;
  bool json = false;
  bool wide = false;
};

Status run(const TraceOptions& options) {
  std::optional<Waiting> waiting("reading the profile");
  ASSIGN_OR_RETURN(const Profile profile, read_profile(options.files));
  ProfileReport report{.profile = &profile,
                       .window = window_of(profile),
                       .view = {.as_hta = options.as_hta},
                       .splits = {}};
  ASSIGN_OR_RETURN(report.splits, splits_of(profile, report.window, report.view));
  waiting.reset();
  if (options.json) {
    fmt::print("{}\n", to_json(report, options.top)
                           .dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    fmt::print("{}", profile_table(report, options.top, text_width(options.wide)));
  }
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
  command.option("--top", &options->top, "so many of the longest kernels; default 15")
      .not_negative();
  command.flag("--hta", &options->as_hta,
               "in whole microseconds and by kernel names, as Holistic Trace Analysis does: to "
               "hold its numbers against these");
  command.flag("--json", &options->json, "print one JSON object and nothing else");
  add_wide(command, &options->wide);
  command.footer("Example: tandem trace rank-0.pt.trace.json.gz\n"
                 "         tandem trace profiles/ --json");
  command.run([options] { return run(*options); });
}

}  // namespace tandem
