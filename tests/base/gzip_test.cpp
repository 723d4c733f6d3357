// Gzip: files that may be packed, whole, cut off or damaged.
#include <catch2/catch.hpp>

#include "base/file.h"
#include "base/gzip.h"
#include "tests/folder.h"

using namespace tandem;

namespace {

// "one\ntwo\n" as gzip packs it; its last eight bytes are the check sum and the length.
const std::string kPacked(
    "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xcb\xcf\x4b\xe5\x2a\x29\xcf\xe7\x02\x00\xe6\x0b\xba"
    "\x12\x08\x00\x00\x00",
    28);

std::string fault(const Result<std::string>& text) {
  REQUIRE(!text.ok());
  return text.error().text();
}

}  // namespace

TEST_CASE("a file is unpacked by what is in it, whatever its name") {
  const Folder folder;
  CHECK(read_maybe_gzip(folder.with("a.txt", kPacked)).value() == "one\ntwo\n");
  CHECK(read_maybe_gzip(folder.with("b.gz", "plain\n")).value() == "plain\n");
  CHECK(read_maybe_gzip(folder.with("c.gz", "")).value().empty());
}

TEST_CASE("gzip files that were joined are one text, and what fills a block up is none") {
  CHECK(gunzip(kPacked + kPacked, "f.gz").value() == "one\ntwo\none\ntwo\n");
  CHECK(gunzip(kPacked + std::string(512, '\0'), "f.gz").value() == "one\ntwo\n");
  CHECK(fault(gunzip(kPacked + "more", "f.gz")) ==
        "f.gz: found 4 bytes behind its gzip data that are none, expected its end");
  CHECK(fault(gunzip(kPacked + "\x1f", "f.gz")).starts_with("f.gz: found 1 bytes behind"));
}

TEST_CASE("gzip that is cut off anywhere is refused with the file's name") {
  for (std::size_t size = 2; size < kPacked.size(); ++size) {
    const std::string text = fault(gunzip(kPacked.substr(0, size), "f.gz"));
    INFO(size);
    CHECK(text.starts_with("f.gz: ends inside its gzip data"));
  }
}

TEST_CASE("damaged gzip, too much of it and what others packed are refused") {
  std::string damaged = kPacked;
  damaged[20] ^= 1;  // in the check sum
  CHECK(fault(gunzip(damaged, "f.gz")) ==
        "f.gz: found damaged gzip data (incorrect data check) behind 8 bytes of text");
  CHECK(fault(gunzip(kPacked, "f.gz", 7)) == "f.gz: found more than 7 bytes of packed text");
  const Folder folder;
  const std::string xz = folder.with("f.xz", "\xFD\x37zXZ and so on");
  CHECK(fault(read_maybe_gzip(xz)) ==
        xz + ": found xz data, expected gzip or a plain file: xz -d unpacks it");
  CHECK(fault(unpacked_text("BZh91AY&SY", "f")).starts_with("f: found bzip2 data"));
  CHECK(fault(unpacked_text("\x28\xB5\x2F\xFD", "f")).starts_with("f: found zstd data"));
  CHECK(fault(read_maybe_gzip("/nowhere/f.gz")) ==
        "/nowhere/f.gz: no such file, expected a readable file");
}
