// Reads measured times of collectives from the output of nccl-tests and all_reduce_bench.py.
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

// The rows of one operation. Rows of zero bytes and rows with wrong values are left out. A table
// with no row left has neither times nor an operation.
struct LoggedTable {
  std::string path;
  int line = 0;    // of the column names
  std::string op;  // nccl-tests' name: "all_reduce"
  int ranks = 0;
  std::vector<int> ranks_of_host;  // hosts in the order of their first ranks; empty: unknown
  std::vector<LoggedTime> times;   // of the out-of-place operation
  std::vector<std::string> notes;  // which rows were left out, and overhead within the times
};

// The operation and ranks of tables that do not state theirs.
struct CommLogHints {
  std::string op;  // "": not given
  int ranks = 0;   // 0: not given
};

// Returns the tables of a file, and ignores the labels that launchers add to lines. Errors name
// file and line: a malformed row; a bus bandwidth that contradicts the operation and its ranks; no
// table; ranks or an operation that neither the file nor the hints state.
Result<std::vector<LoggedTable>> read_comm_log(const ImportSource& source,
                                               const CommLogHints& hints);

}  // namespace tandem
