#include "report/text/memory_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "base/units.h"
#include "base/xml.h"
#include "report/text/number_cells.h"
#include "report/text/text_table.h"

namespace tandem {
namespace {

constexpr std::size_t kLargest = 5;  // tensors that a line on a run that does not fit names

// A class of tensors: its name in MemoryPart::kind, and its name in a sentence.
struct TensorClass {
  std::string_view name, text;
  double MemoryBytes::*bytes;
};
constexpr TensorClass kClasses[] = {
    {"weights", "weights", &MemoryBytes::weights},
    {"gradients", "gradients", &MemoryBytes::gradients},
    {"optimizer", "the optimizer's state", &MemoryBytes::optimizer},
    {"activations", "activations", &MemoryBytes::activations},
    {"communication", "buffers of communication", &MemoryBytes::communication},
    {"workspace", "workspace", &MemoryBytes::workspace}};

struct MemoryRow {
  std::string kind, tensors;
  double bytes = 0;
};

// Returns the rows of a run: each class of tensors with its parts below it, then memory outside
// tensors, and the memory that is left or missing.
std::vector<MemoryRow> rows_of(const Training& training) {
  const MemoryBytes& memory = training.memory;
  std::vector<MemoryRow> rows;
  for (const auto& [name, text, bytes] : kClasses) {
    std::vector<MemoryRow> parts;
    for (const MemoryPart& part : training.parts) {
      if (part.kind == name) parts.push_back({"", part.name, part.bytes});
    }
    if (parts.size() == 1) {
      rows.push_back({std::string(name), parts.front().tensors, memory.*bytes});
    } else if (!parts.empty()) {
      rows.push_back({std::string(name), "", memory.*bytes});
      rows.insert(rows.end(), parts.begin(), parts.end());
    }
  }
  rows.push_back({"all tensors", "", memory.total});
  rows.push_back({"outside", "CUDA's context, libraries, NCCL's buffers", memory.outside});
  rows.push_back({"fragmentation", "what the allocator may waste, at worst", memory.fragmentation});
  rows.push_back({training.fits ? "spare" : "missing", "beside tensors and what is outside",
                  std::abs(training.spare_bytes)});
  return rows;
}

std::string fix_text(const MemoryFix& fix) {
  std::string text = fmt::format("{} (", fmt::join(fix.changes, " and "));
  if (fix.spare_bytes < 0) return text + fmt::format("over by {:.1f} GiB)", -fix.spare_bytes / GiB);
  text += fmt::format("{:.1f} GiB to spare", fix.spare_bytes / GiB);
  if (fix.verdict == Verdict::IfUnfragmented) text += " if unfragmented";
  if (fix.of_iteration) text += fmt::format(", {} %", signed_percent(*fix.of_iteration));
  return text + ")";
}

std::string fixes_line(const std::vector<MemoryFix>& fixes) {
  if (fixes.empty())
    return "No changes are tried where schedule.order or parallel.layout is looked for.\n";
  if (fixes.front().verdict == Verdict::No)
    return fmt::format("No change of one or two settings makes it fit; the nearest is {}.\n",
                       fix_text(fixes.front()));
  std::string texts;
  for (const MemoryFix& fix : fixes) texts += (texts.empty() ? "" : ", ") + fix_text(fix);
  const bool is_single = fixes.front().changes.size() == 1;
  return fmt::format("{} {}.\n",
                     is_single ? "It fits with" : "No single change makes it fit; two do:", texts);
}

}  // namespace

std::string memory_table(const std::vector<RunResult>& results, int width) {
  std::string text;
  for (const RunResult& result : results) {
    if (!text.empty()) text += '\n';
    const std::string name = printable(result.name);
    if (!result.training) {
      text += name + ": no memory is known without a model.\n";
      continue;
    }
    const Training& training = *result.training;
    const double capacity = training.memory.capacity;
    text +=
        wrapped(fmt::format("{}: the fullest GPU is of pipeline rank {}, at {} s, where {} ends.\n",
                            name, training.peak.pipeline_rank, seconds_text(training.peak.at_s),
                            training.peak.action),
                width);
    std::vector<Column<MemoryRow>> columns = {
        {"class", [](const MemoryRow& r) { return r.kind; }, Place::Name},
        {"tensors", [](const MemoryRow& r) { return r.tensors; }, Place::Name},
        {"GiB", [](const MemoryRow& r) { return fmt::format("{:.2f}", r.bytes / GiB); },
         Place::First}};
    if (capacity > 0)
      columns.push_back({fmt::format("% of {:.1f} GiB", capacity / GiB),
                         [capacity](const MemoryRow& r) { return percent(r.bytes / capacity); },
                         Place::First});
    text += text_table(columns, rows_of(training), width);
  }
  return text;
}

std::string unfit_lines(const RunResult& result) {
  if (!result.training || result.training->fits) return "";
  const Training& training = *result.training;
  const MemoryBytes& memory = training.memory;
  const TensorClass& most = *std::ranges::max_element(
      kClasses, {}, [&](const TensorClass& c) { return memory.*c.bytes; });
  std::string largest;
  for (std::size_t i = 0; i < std::min(kLargest, training.parts.size()); ++i)
    largest += fmt::format("{}{} {:.1f} GiB", i > 0 ? "; " : "", training.parts[i].name,
                           training.parts[i].bytes / GiB);
  const std::string text = fmt::format(
      "{}: over by {:.1f} GiB. Of {:.1f} GiB of tensors, {:.1f} are {}; the largest: {}.\n",
      printable(result.name), -training.spare_bytes / GiB, memory.total / GiB,
      memory.*most.bytes / GiB, most.text, largest);
  return text + (result.memory_fixes ? fixes_line(*result.memory_fixes) : "");
}

}  // namespace tandem
