// Refuses profiles in a build without zlib, simdjson and SQLite. Declared in
// traces/profile/kineto_reader.h and nsight_reader.h.
#include "traces/profile/kineto_reader.h"
#include "traces/profile/nsight_reader.h"

namespace tandem {

Result<std::vector<ProfileRank>> read_kineto(const std::string& path) {
  return Error{path +
                   ": found a profile, expected a build with zlib and simdjson, which this one "
                   "is not",
               Error::Missing};
}

Result<std::vector<ProfileRank>> read_nsight(const std::string& path) {
  return Error{path +
                   ": found SQLite of Nsight Systems, expected a build with SQLite, which this "
                   "one is not",
               Error::Missing};
}

}  // namespace tandem
