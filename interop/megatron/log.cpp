// Reads a log: Megatron-LM's arguments where it has them, and the run's times and memory. Declared
// in interop/megatron/files.h.
#include <fmt/format.h>

#include <optional>
#include <sstream>
#include <utility>

#include "interop/log/log_line.h"
#include "interop/log/run_meter.h"
#include "interop/megatron/files.h"
#include "interop/megatron/megatron.h"

namespace tandem {
namespace {

constexpr std::string_view kBegin = "-- arguments --", kEnd = "-- end of arguments --";
// Reads "  name ....... value".
void read_argument(const std::string& line, const std::string& where, MegatronArguments* to) {
  std::istringstream in(line);
  std::string name, dots, value;
  in >> name >> dots;
  const auto is_dots = [](const std::string& word) {
    return !word.empty() && word.find_first_not_of('.') == std::string::npos;
  };
  // A long name leaves no room for dots.
  if (!is_dots(dots)) value = dots;
  std::string rest;
  std::getline(in, rest);
  rest.erase(0, rest.find_first_not_of(' '));
  while (!rest.empty() && (rest.back() == '\r' || rest.back() == ' ')) rest.pop_back();
  value += (value.empty() || rest.empty() ? "" : " ") + rest;
  if (!name.empty()) to->add_field(name, value, where);
}

}  // namespace

bool is_log(const std::string& text) {
  return text.find(kEnd) != std::string::npos || text.find(":::MLLOG") != std::string::npos ||
         has_measurement(text);
}

Result<ImportedPlan> import_log(const std::string& text, const ImportContext& context) {
  const LogRun run = last_run(text);
  MegatronArguments arguments(context.path);
  RunMeter meter;
  StatedJob stated;   // by earlier lines than the iterations'
  std::string label;  // who writes the arguments: lines of other ranks may come between
  bool inside = false, any = false;
  for (const auto& [line, number, figures] : run.lines) {
    const std::string where = fmt::format("{}:{}", context.path, number);
    if (line.text.find(kEnd) != std::string::npos) {
      inside = false;
    } else if (line.text.find(kBegin) != std::string::npos) {
      inside = any = true;
      label = line.label;
    } else if (inside) {
      if (line.label == label) read_argument(line.text, where, &arguments);
    } else if (const auto padded = number_behind(line.text, "dummy tokens (new size:")) {
      arguments.add_field("padded_vocab_size", fmt::format("{:.0f}", *padded), where);
    } else if (figures) {
      LineFigures taken = *figures;
      if (!taken.batch) taken.batch = stated.batch;
      if (!taken.seq) taken.seq = stated.seq;
      meter.take(taken);
    } else {
      stated.take(line.text);
    }
  }
  ImportedPlan plan;
  if (any) {
    ASSIGN_OR_RETURN(plan, import_megatron(&arguments, context.path + " (Megatron-LM log)",
                                           MegatronStyle::Megatron, context.before, context.gpus));
  } else {
    plan.sources.push_back(context.path + " (log)");
    plan.assumed.push_back(context.path +
                           " has no arguments block: only what was measured is read");
  }
  StatedJob job;
  const auto take = [](const std::optional<std::int64_t>& value, std::optional<double>* to) {
    if (value && !*to) *to = static_cast<double>(*value);
  };
  for (const ImportedPlan* states : {&context.before, &std::as_const(plan)}) {
    take(states->whole_of("parallel.global_batch"), &job.batch);
    take(states->whole_of("model.seq"), &job.seq);
  }
  std::optional<double>& gpus = stated.gpus;
  take(plan.whole_of("cluster.gpus"), &gpus);
  if (const auto of_job = static_cast<double>(context.job_gpus());
      of_job > 0 && gpus && *gpus != of_job)
    plan.left_out.push_back(fmt::format(
        "{}: its world size of {:.0f}, with which it measured, beside the job's {:.0f} GPUs",
        context.path, *gpus, of_job));
  plan.measured = meter.run(job);
  plan.measured.gpus = gpus;
  for (const std::string& lines : run.left_out(context.path)) plan.left_out.push_back(lines);
  for (const std::string& others : meter.not_counted(job))
    plan.left_out.push_back(fmt::format("{}: {}", context.path, others));
  return plan;
}

}  // namespace tandem
