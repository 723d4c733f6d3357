// Reads measured times of communication: what nccl-tests and all_reduce_bench.py print.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "interop/document/import_source.h"

namespace tandem {

struct LoggedTime {
  Bytes bytes = 0;  // of the whole array, as nccl-tests counts
  double seconds = 0;
  int line = 0;
};

// A table of one operation. Rows without bytes and rows with wrong values are left out; without
// others it has no times and no operation.
struct LoggedTable {
  std::string path;
  int line = 0;    // of the head
  std::string op;  // nccl-tests' name: "all_reduce"
  int ranks = 0;
  std::vector<int> ranks_of_host;  // in the order of their first ranks; empty: not said
  std::vector<LoggedTime> times;   // out of place
  std::vector<std::string> notes;  // what was left out, and what the times hold besides
};

// Holds for tables that do not say it.
struct CommLogHints {
  std::string op;  // "": not given
  int ranks = 0;   // 0: not given
};

// Returns the tables of a file, with labels of launchers taken away. Errors, by file and line: a
// row that is none, or does not go with the operation and its ranks; no table; ranks or an
// operation that neither the file nor the hints say.
Result<std::vector<LoggedTable>> read_comm_log(const ImportSource& source,
                                               const CommLogHints& hints);

}  // namespace tandem
