// Journals: what is left of a file after any interruption.
#include "planning/sweep/journal.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "base/file.h"
#include "tests/folder.h"
#include "tests/text.h"

using namespace tandem;

namespace {

// The file's text after the torn lines of `text` have been cut.
std::string cut(const Folder& folder, const std::string& text) {
  const std::string path = folder / "rows.csv";
  REQUIRE(write_file(path, text).ok());
  const auto bytes = cut_torn_lines(path);
  REQUIRE(bytes.ok());
  std::string left = contents(path);
  CHECK(*bytes == static_cast<std::int64_t>(text.size() - left.size()));
  return left;
}

}  // namespace

TEST_CASE("wherever a write is interrupted, the whole lines are kept and no other") {
  const Folder folder;
  const std::string text = "a,b\n1,2\n3,4\n";
  for (std::size_t bytes = 0; bytes <= text.size(); ++bytes) {
    const std::string written = text.substr(0, bytes);
    const std::size_t lines = bytes < 4 ? 0 : bytes < 8 ? 1 : bytes < 12 ? 2 : 3;
    CHECK(cut(folder, written) == text.substr(0, 4 * lines));
  }
}

TEST_CASE("blocks that never came to the disk are cut with all behind them") {
  const Folder folder;
  const std::string zeros(5, '\0');
  CHECK(cut(folder, "a,b\n1,2\n3," + zeros + "\n5,6\n") == "a,b\n1,2\n");
  CHECK(cut(folder, zeros + "a,b\n").empty());
}

TEST_CASE("a journal has its header once, however often it is opened") {
  const Folder folder;
  const std::string path = folder / "rows.csv";
  CHECK(cut_torn_lines(path).ok());  // no file, nothing to cut
  CHECK(!std::filesystem::exists(path));
  for (const char* row : {"1,2", "3,4"}) {
    auto journal = Journal::open(path, "a,b");
    REQUIRE(journal.ok());
    REQUIRE(journal->append(row).ok());
    REQUIRE(journal->sync().ok());
  }
  CHECK(contents(path) == "a,b\n1,2\n3,4\n");
}

TEST_CASE("a journal that cannot be opened says why") {
  const auto journal = Journal::open("/nowhere/rows.csv", "a");
  REQUIRE(!journal.ok());
  CHECK(journal.error().text() ==
        "/nowhere/rows.csv: cannot be written: No such file or directory");
}
