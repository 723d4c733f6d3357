// Files that may be gzip, as profiles and captures of fabrics often are.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tandem {

// By its first two bytes, whatever the file is called.
bool is_gzip(std::string_view bytes);

// What gzip packed, all members of it. Errors, which begin with the path: text that is cut off or
// damaged, other bytes behind it, more than `most` bytes (a few kilobytes can hold gigabytes), a
// build without zlib.
Result<std::string> gunzip(std::string_view bytes, const std::string& path,
                           std::size_t most = std::size_t{4} << 30);

// As read_file, unpacked where it is gzip.
Result<std::string> read_maybe_gzip(const std::string& path,
                                    std::string_view expected = "a readable file");

}  // namespace tandem
