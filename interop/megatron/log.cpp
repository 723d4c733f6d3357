// Reads a log: Megatron-LM's arguments where it has them, and the run's times and memory. Declared
// in interop/megatron/files.h.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <sstream>

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

Result<ImportedPlan> import_log(const std::string& whole, const ImportContext& context) {
  const auto [text, first_line] = last_run(whole);
  MegatronArguments arguments(context.path);
  RunMeter meter;
  std::optional<double> batch_ahead;  // that MLPerf stated in an earlier line
  std::string label;  // who writes the arguments: lines of other ranks may come between
  bool inside = false, any = false;
  std::size_t begin = 0;
  int number = first_line;
  while (begin < text.size()) {
    // A progress bar ends its lines with \r.
    const std::size_t end = std::min(text.find_first_of("\r\n", begin), text.size());
    const LogLine line = log_line(text.substr(begin, end - begin));
    begin = end + 1;
    const std::string where = fmt::format("{}:{}", context.path, number);
    number += end < text.size() && text[end] == '\n' ? 1 : 0;
    if (line.text.find(kEnd) != std::string::npos) {
      inside = false;
    } else if (line.text.find(kBegin) != std::string::npos) {
      inside = any = true;
      label = line.label;
    } else if (inside) {
      if (line.label == label) read_argument(line.text, where, &arguments);
    } else if (const auto padded = number_behind(line.text, "dummy tokens (new size:")) {
      arguments.add_field("padded_vocab_size", fmt::format("{:.0f}", *padded), where);
    } else if (const auto stated = mlperf_batch(line.text)) {
      batch_ahead = stated;
    } else if (auto figures = figures_in(line.text)) {
      if (!figures->batch) figures->batch = batch_ahead;
      meter.take(*figures);
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
  std::optional<double> batch;
  for (const ImportedPlan* states : {&context.before, &std::as_const(plan)}) {
    if (const auto stated = states->whole_of("parallel.global_batch"); stated && !batch)
      batch = static_cast<double>(*stated);
  }
  plan.measured = meter.run(batch);
  if (first_line > 1)
    plan.left_out.push_back(
        fmt::format("{}:1 to {}: an earlier run in this log", context.path, first_line - 1));
  if (const std::string others = meter.other_batches(batch); !others.empty())
    plan.left_out.push_back(fmt::format("{}: {}", context.path, others));
  return plan;
}

}  // namespace tandem
