// Reads a log of Megatron-LM: the arguments, and the run's times and memory. Declared in
// interop/megatron/files.h.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>

#include "base/quantile.h"
#include "interop/megatron/files.h"
#include "interop/megatron/megatron.h"

namespace tandem {
namespace {

constexpr std::string_view kBegin = "-- arguments --", kEnd = "-- end of arguments --";
constexpr std::string_view kIteration = "elapsed time per iteration (ms):";
// The first iterations compile and allocate.
constexpr std::size_t kWarmup = 3;

// Returns the number above 0 that follows a word in a line; nothing: there is none.
std::optional<double> number_behind(std::string_view line, std::string_view word) {
  const std::size_t at = line.find(word);
  if (at == std::string_view::npos) return std::nullopt;
  const std::size_t begin = line.find_first_not_of(' ', at + word.size());
  if (begin == std::string_view::npos) return std::nullopt;
  double value = 0;
  const auto read = std::from_chars(line.data() + begin, line.data() + line.size(), value);
  if (read.ec != std::errc() || !std::isfinite(value) || value <= 0) return std::nullopt;
  return value;
}

// Reads "  name ....... value", perhaps after the number of a rank: "0:   name ...".
void read_argument(const std::string& line, const std::string& where, MegatronArguments* to) {
  std::istringstream in(line);
  std::string name, dots, value;
  in >> name >> dots;
  const auto is_dots = [](const std::string& word) {
    return !word.empty() && word.find_first_not_of('.') == std::string::npos;
  };
  if (name.ends_with(':') || name.starts_with('[')) {
    name = dots;
    in >> dots;
  }
  // A long name leaves no room for dots.
  if (!is_dots(dots)) value = dots;
  std::string rest;
  std::getline(in, rest);
  rest.erase(0, rest.find_first_not_of(' '));
  while (!rest.empty() && (rest.back() == '\r' || rest.back() == ' ')) rest.pop_back();
  value += (value.empty() || rest.empty() ? "" : " ") + rest;
  if (!name.empty()) to->add_field(name, value, where);
}

// Returns the values without those of the warm-up, but at least one.
std::vector<double> behind_warmup(const std::vector<double>& values) {
  const std::size_t skipped = std::min(kWarmup, values.empty() ? 0 : values.size() - 1);
  return {values.begin() + static_cast<std::ptrdiff_t>(skipped), values.end()};
}

}  // namespace

bool is_megatron_log(const std::string& text) {
  return text.find(kEnd) != std::string::npos || text.find(kIteration) != std::string::npos;
}

Result<ImportedPlan> import_megatron_log(const std::string& text, const ImportContext& context) {
  MegatronArguments arguments(context.path);
  std::vector<double> times_ms, tflops;
  double allocated_MiB = 0;
  bool inside = false, any = false;
  std::istringstream in(text);
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    const std::string where = fmt::format("{}:{}", context.path, ++number);
    if (line.find(kEnd) != std::string::npos) {
      inside = false;
    } else if (line.find(kBegin) != std::string::npos) {
      inside = any = true;
    } else if (inside) {
      read_argument(line, where, &arguments);
    } else if (const auto ms = number_behind(line, kIteration)) {
      times_ms.push_back(*ms);
      if (const auto flops = number_behind(line, "throughput per GPU (TFLOP/s/GPU):"))
        tflops.push_back(*flops);
    } else if (const auto padded = number_behind(line, "dummy tokens (new size:")) {
      arguments.add_field("padded_vocab_size", fmt::format("{:.0f}", *padded), where);
    } else {
      for (const char* word : {"max allocated:", "max_allocated:", "max_allocated"}) {
        if (const auto most = number_behind(line, word)) {
          allocated_MiB = std::max(allocated_MiB, *most);
          break;
        }
      }
    }
  }
  ImportedPlan plan;
  const std::string source = context.path + " (Megatron-LM log)";
  plan.sources.push_back(source);
  if (any) {
    ASSIGN_OR_RETURN(plan, import_megatron(&arguments, source, MegatronStyle::Megatron,
                                           context.before, context.gpus));
  } else {
    plan.assumed.push_back(context.path +
                           " has no arguments block: only what was measured is read");
  }
  if (!times_ms.empty()) {
    const auto counted = behind_warmup(times_ms);
    plan.measured.iteration_s = median(counted) / 1e3;
    plan.measured.iterations = static_cast<int>(counted.size());
    plan.measured.warmup = static_cast<int>(times_ms.size() - counted.size());
  }
  if (!tflops.empty()) plan.measured.tflops_per_gpu = median(behind_warmup(tflops));
  if (allocated_MiB > 0) plan.measured.max_allocated_bytes = allocated_MiB * 1024 * 1024;
  return plan;
}

}  // namespace tandem
