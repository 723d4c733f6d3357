// --pipeline-model-parallel-layout: read as far as its stages and layers are counted.
#include <cctype>

#include "interop/megatron/megatron.h"

namespace tandem {
namespace {

class LayoutCounter {
 public:
  explicit LayoutCounter(std::string_view text) : text_(text) {}

  std::optional<LayoutShape> count() {
    const LayoutShape all = sequence(0);
    if (failed_ || at_ != text_.size()) return std::nullopt;
    return LayoutShape{all.stages + 1, all.layers};
  }

 private:
  static constexpr std::int64_t kMost = 100'000;

  // Bars and layers of what stands here, up to the closing bracket or the end.
  LayoutShape sequence(int depth) {
    LayoutShape sum{0, 0};
    if (depth > 20) failed_ = true;
    while (!failed_ && at_ < text_.size() && text_[at_] != ')') {
      const char c = text_[at_++];
      LayoutShape part{0, 0};
      if (c == '(') {
        part = sequence(depth + 1);
        failed_ = failed_ || at_ >= text_.size();
        ++at_;
      } else if (c == '|') {
        part.stages = 1;
      } else if (c == 't') {
        part.layers = 1;
      } else if (c != 'E' && c != 'm' && c != 'L' && c != ',' && c != ' ') {
        failed_ = true;
      }
      const std::int64_t times = repeats();
      sum.stages += part.stages * times;
      sum.layers += part.layers * times;
      if (sum.stages > kMost || sum.layers > kMost) {
        failed_ = true;
        return {0, 0};  // so that no bracket round this one multiplies it further
      }
    }
    return sum;
  }
  std::int64_t repeats() {
    if (at_ >= text_.size() || text_[at_] != '*') return 1;
    std::int64_t times = 0;
    for (++at_; at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0;
         ++at_)
      times = std::min(kMost, times * 10 + (text_[at_] - '0'));
    if (times == 0) failed_ = true;
    return times;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  bool failed_ = false;
};

}  // namespace

std::optional<LayoutShape> layout_shape(std::string_view layout) {
  return LayoutCounter(layout).count();
}

}  // namespace tandem
