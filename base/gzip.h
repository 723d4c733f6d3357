// Reads files that may be packed with gzip, as profiles and captures of fabrics often are.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tandem {

// Decides by the first two bytes, whatever the file is called.
bool is_gzip(std::string_view bytes);

// Unpacks all members of a gzip text. The Errors begin with the path. They are: text that is cut
// off or damaged, other bytes after it, more than `most` unpacked bytes (a few kilobytes can hold
// gigabytes), and a build without zlib.
Result<std::string> gunzip(std::string_view bytes, const std::string& path,
                           std::size_t most = std::size_t{4} << 30);

// Unpacks a file's bytes if they are gzip, and refuses those of xz, bzip2 and zstd.
Result<std::string> unpacked_text(std::string bytes, const std::string& path);

// Reads a file as read_file() does, and unpacks it.
Result<std::string> read_maybe_gzip(const std::string& path,
                                    std::string_view expected = "a readable file");

}  // namespace tandem
