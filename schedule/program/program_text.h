// Writes and reads a Program's file: CSV rows whose first cell is their kind: program, device,
// kernel, lane, slot, op, communicator, rank. Reading undoes writing.
#pragma once

#include <string>

#include "base/result.h"
#include "schedule/program/program.h"

namespace tandem {

std::string to_text(const Program& program);

// Reads and validates. The Errors name file and line.
Result<Program> read_program(const std::string& path);

}  // namespace tandem
