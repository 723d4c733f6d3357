// A line of a training log without what launchers and terminals put around it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tandem {

// "3: [default5]:\x1b[32m iteration 7/ 10 |" has the label "3 default5" and this text:
// " iteration 7/ 10 |".
struct LogLine {
  std::string label;  // who wrote it: by srun --label, torchrun or Kubernetes; "" if nobody says
  std::string text;
};

// Takes away colours, times (as Kubernetes and containers prefix them) and labels of ranks.
LogLine log_line(std::string_view raw);

// Returns the number above 0 that follows the word in the text, "1,234.5" too; nothing: none does.
std::optional<double> number_behind(std::string_view text, std::string_view word);

}  // namespace tandem
