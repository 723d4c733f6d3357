// A line of a training log without what launchers and terminals put around it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

// A line as it stands in a text. Lines also end with \r, as a progress bar's do; `number` counts
// \n.
struct RawLine {
  std::string_view text;
  int number = 1;
};

// Returns the lines of a text. A number that the text ends with may be cut, and is taken away.
std::vector<RawLine> raw_lines(std::string_view text);

// "3: [default5]:\x1b[32m iteration 7/ 10 |" has the label "3 default5" and this text:
// " iteration 7/ 10 |".
struct LogLine {
  std::string label;  // who wrote it: by srun --label, torchrun or mpirun; "" if nobody says
  std::string text;
};

// Takes away colours, times (as Kubernetes and containers prefix them) and labels of ranks.
LogLine log_line(std::string_view raw);

// Returns the number from 0 on that follows the word in the text, "1,234.5" too; nothing: none
// does. A comma that does not stand before exactly three digits, as in "3000,0", makes it no
// number.
std::optional<double> count_behind(std::string_view text, std::string_view word);
// The same for numbers above 0.
std::optional<double> number_behind(std::string_view text, std::string_view word);

}  // namespace tandem
