// Calls zlib; no other file does. In a build without it (TANDEM_ZLIB is not set), gunzip() returns
// an Error.
#include "base/gzip.h"

#include <fmt/format.h>

#include <utility>

#include "base/file.h"

#ifdef TANDEM_ZLIB
#include <zlib.h>

#include <algorithm>
#include <limits>
#include <memory>
#endif

namespace tandem {

bool is_gzip(std::string_view bytes) { return bytes.starts_with("\x1f\x8b"); }

#ifdef TANDEM_ZLIB
namespace {

constexpr int kGzipAlone = 16;  // added to the window's bits: accept a gzip header only

struct EndInflate {
  void operator()(z_stream* stream) const { inflateEnd(stream); }
};

}  // namespace

Result<std::string> gunzip(std::string_view bytes, const std::string& path, std::size_t most) {
  z_stream stream{};
  if (inflateInit2(&stream, MAX_WBITS + kGzipAlone) != Z_OK)
    return Error::at(path, "cannot be unpacked: no memory left");
  const std::unique_ptr<z_stream, EndInflate> end(&stream);
  std::string text, buffer(std::size_t{1} << 18, '\0');
  std::string_view left = bytes;
  int state = Z_OK;
  while (state == Z_OK) {
    const std::size_t given =
        std::min<std::size_t>(left.size(), std::numeric_limits<uInt>::max() / 2);
    // zlib's type for the input is not const, but zlib does not change it.
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(left.data()));
    stream.avail_in = static_cast<uInt>(given);
    stream.next_out = reinterpret_cast<Bytef*>(buffer.data());
    stream.avail_out = static_cast<uInt>(buffer.size());
    state = inflate(&stream, Z_NO_FLUSH);
    left.remove_prefix(given - stream.avail_in);
    text.append(buffer, 0, buffer.size() - stream.avail_out);
    if (text.size() > most)
      return Error::at(path, fmt::format("found more than {} bytes of packed text", most));
    // Goes on with the next member (`cat a.gz b.gz` makes a file of two), or accepts zeros at the
    // end, with which some tools fill up the last block.
    if (state != Z_STREAM_END) continue;
    if (is_gzip(left))
      state = inflateReset(&stream);
    else if (left.find_first_not_of('\0') != left.npos)
      return Error::at(path, fmt::format("found {} bytes behind its gzip data that are none, "
                                         "expected its end",
                                         left.size()));
  }
  if (state == Z_BUF_ERROR)
    return Error::at(path, fmt::format("ends inside its gzip data, behind {} bytes of text, "
                                       "expected the whole file",
                                       text.size()));
  if (state != Z_STREAM_END)
    return Error::at(
        path, fmt::format("found damaged gzip data ({}) behind {} bytes of text",
                          stream.msg != nullptr ? stream.msg : "no reason given", text.size()));
  return text;
}

#else

Result<std::string> gunzip(std::string_view, const std::string& path, std::size_t) {
  return Error{fmt::format("{}: found gzip, expected a plain file: this build has no zlib", path),
               Error::Missing};
}

#endif

Result<std::string> unpacked_text(std::string bytes, const std::string& path) {
  constexpr std::pair<std::string_view, std::string_view> kPrograms[] = {
      {"\xFD\x37zXZ", "xz"}, {"BZh91AY&SY", "bzip2"}, {"\x28\xB5\x2F\xFD", "zstd"}};
  for (const auto& [begin, program] : kPrograms) {
    if (bytes.starts_with(begin))
      return Error::at(path, fmt::format("found {} data, expected gzip or a plain file: {} -d "
                                         "unpacks it",
                                         program, program));
  }
  if (is_gzip(bytes)) return gunzip(bytes, path);
  return bytes;
}

Result<std::string> read_maybe_gzip(const std::string& path, std::string_view expected) {
  ASSIGN_OR_RETURN(std::string bytes, read_file(path, expected));
  return unpacked_text(std::move(bytes), path);
}

}  // namespace tandem
