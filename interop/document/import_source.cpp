#include "interop/document/import_source.h"

#include <utility>

#include "base/gzip.h"

namespace tandem {

Result<std::vector<ImportSource>> read_sources(const std::vector<std::string>& paths,
                                               const std::string& expected) {
  std::vector<ImportSource> sources;
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(std::string text, read_maybe_gzip(path, expected));
    sources.push_back({path, std::move(text)});
  }
  return sources;
}

}  // namespace tandem
