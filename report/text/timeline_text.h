// Pictures of runs for a terminal: an iteration's timeline in blocks, and bars of where its time
// goes. Colour adds to them: without it they are the same text.
#pragma once

#include <string>
#include <vector>

#include "results/run_result.h"
#include "traces/timeline_strip.h"

namespace tandem {

// Returns how many columns a strip may have, so that its lines fit the width (100 if that is any).
int strip_columns(int width);

// Returns a line of times, a row for each of the strip's ranks, and what the signs mean. A block is
// as high as compute's share of its column's time; "-" is exposed communication, "." bubble.
std::string timeline_text(const TimelineStrip& strip, bool colour);

// Returns a bar for each run's iteration: compute, exposed communication by the first letter of its
// kind, bubble.
std::string bars_text(const std::vector<RunResult>& results, int width, bool colour);

}  // namespace tandem
