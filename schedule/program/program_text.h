// A Program's file: CSV rows whose first cell says what the row is: kernel, body, lane, slot, op,
// rank, communicator. Printing and reading are inverse.
#pragma once

#include <string>

#include "base/result.h"
#include "schedule/program/program.h"

namespace tandem {

std::string to_text(const Program& program);

// Reads and validates; errors name file and line.
Result<Program> read_program(const std::string& path);

}  // namespace tandem
