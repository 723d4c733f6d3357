// A measured log beside its simulation, for a terminal.
#pragma once

#include <string>

#include "report/text/text_table.h"
#include "validation/published/measured_log.h"

namespace tandem {

// Returns a row for each quantity that the log measured, and below them what the numbers mean.
std::string log_table(const LogComparison& comparison, int width = kAnyWidth);

}  // namespace tandem
