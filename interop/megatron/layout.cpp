// Reads a layout by recursive descent: letters, bars and groups in brackets, each of which may be
// repeated by "*N". "Et*2|(t*4|)*2tL" has stages of 2, 4, 4 and 1 layers.
#include "interop/megatron/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstddef>

namespace tandem {
namespace {

// A layout beyond these bounds is a typing error, or an attack.
constexpr std::size_t kMostStages = 10'000;
constexpr std::int64_t kMostInStage = 100'000;
constexpr int kDeepest = 20;

class LayoutReader {
 public:
  explicit LayoutReader(std::string_view text) : text_(text) {}

  std::optional<std::vector<LayoutStage>> read() {
    std::vector<LayoutStage> stages = sequence(0);
    if (failed_ || at_ != text_.size()) return std::nullopt;
    return stages;
  }

 private:
  // Reads up to the closing bracket or the end.
  std::vector<LayoutStage> sequence(int depth) {
    std::vector<LayoutStage> stages(1);
    if (depth > kDeepest) failed_ = true;
    while (!failed_ && at_ < text_.size() && text_[at_] != ')') {
      const std::vector<LayoutStage> part = word(depth);
      const std::int64_t times = repeats();
      for (std::int64_t i = 0; i < times && !failed_; ++i) append(part, &stages);
    }
    return stages;
  }

  // Reads a letter, a bar or a group, without its repeats.
  std::vector<LayoutStage> word(int depth) {
    switch (text_[at_++]) {
      case '(': {
        std::vector<LayoutStage> inner = sequence(depth + 1);
        failed_ = failed_ || at_ >= text_.size();
        ++at_;
        return inner;
      }
      case '|':  // ends a stage and begins another
        return {{}, {}};
      case 'E':
        return {{.embeddings = 1}};
      case 't':
        return {{.layers = 1}};
      case 'm':
        return {{.mtp_layers = 1}};
      case 'L':
        return {{.losses = 1}};
      case ',':
      case ' ':
        return {{}};
      default:
        failed_ = true;
        return {{}};
    }
  }

  // Appends stages. The first stage of `part` is added to the last one that is there.
  void append(const std::vector<LayoutStage>& part, std::vector<LayoutStage>* stages) {
    LayoutStage& last = stages->back();
    last.layers += part[0].layers;
    last.embeddings += part[0].embeddings;
    last.mtp_layers += part[0].mtp_layers;
    last.losses += part[0].losses;
    failed_ = failed_ || last.layers > kMostInStage;
    stages->insert(stages->end(), part.begin() + 1, part.end());
    failed_ = failed_ || stages->size() > kMostStages;
  }

  std::int64_t repeats() {
    if (at_ >= text_.size() || text_[at_] != '*') return 1;
    std::int64_t times = 0;
    for (++at_; at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0;
         ++at_)
      times = std::min(kMostInStage, times * 10 + (text_[at_] - '0'));
    if (times == 0) failed_ = true;
    return times;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  bool failed_ = false;
};

}  // namespace

std::string layout_text(const std::vector<int>& layers_per_stage, int mtp_layers,
                        bool mtp_before_loss) {
  const auto times = [](char letter, int count) {
    return count == 0   ? std::string()
           : count == 1 ? std::string(1, letter)
                        : fmt::format("{}*{}", letter, count);
  };
  std::string text = "E" + times('t', layers_per_stage.front());
  const std::size_t last = layers_per_stage.size() - 1;
  if (last == 0) return text + times('m', mtp_layers) + "L";
  if (mtp_before_loss && last == 1) return text + times('m', mtp_layers) + "|L";
  text += '|';
  // Stages 1 to alike - 1 have only layers; stage `alike` has the multi-token prediction, too.
  const std::size_t alike = mtp_before_loss ? last - 1 : last;
  for (std::size_t stage = 1, next = 1; stage < alike; stage = next) {
    while (next < alike && layers_per_stage[next] == layers_per_stage[stage]) ++next;
    const std::string own = times('t', layers_per_stage[stage]) + '|';
    text += next - stage == 1 ? own : fmt::format("({})*{}", own, next - stage);
  }
  text += times('t', layers_per_stage[alike]) + times('m', mtp_layers);
  return text + (mtp_before_loss ? "|L" : "L");
}

bool has_mtp_before_loss(const std::vector<LayoutStage>& stages) {
  if (stages.size() < 2) return false;
  const LayoutStage &loss = stages.back(), &before = stages[stages.size() - 2];
  return before.mtp_layers > 0 && loss.mtp_layers == 0 && loss.layers == 0;
}

std::string layout_arguments(const std::vector<int>& layers_per_stage, int vpp) {
  const std::size_t stages = layers_per_stage.size();
  if (stages < 3) return "";
  const int first = layers_per_stage.front(), last = layers_per_stage.back();
  const int middle = layers_per_stage[1];
  const auto is_middle = [&](int layers) { return layers == middle; };
  if (!std::all_of(layers_per_stage.begin() + 1, layers_per_stage.end() - 1, is_middle)) return "";
  const int less_first = middle - first, less_last = middle - last;
  // The two flags (--account-for-...) count embedding or loss as a layer: that stage has one layer
  // less. The two numbers (--decoder-first-...) are layers of a rank: they say a stage's layers
  // only if a rank has one stage.
  const auto is_flag = [](int less) { return less == 0 || less == 1; };
  std::string text;
  if (is_flag(less_first) && is_flag(less_last)) {
    if (less_first == 1) text += " --account-for-embedding-in-pipeline-split";
    if (less_last == 1) text += " --account-for-loss-in-pipeline-split";
  } else if (vpp == 1) {
    if (less_first != 0) text += fmt::format(" --decoder-first-pipeline-num-layers {}", first);
    if (less_last != 0) text += fmt::format(" --decoder-last-pipeline-num-layers {}", last);
  }
  return text.empty() ? "" : text.substr(1);
}

std::optional<std::vector<LayoutStage>> layout_stages(std::string_view layout) {
  return LayoutReader(layout).read();
}

}  // namespace tandem
