// Base: CSV, numbers, files that appear whole, names, progress, jitter, Result.
#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>

#include "base/csv.h"
#include "base/file.h"
#include "base/nearest.h"
#include "base/parallel/parallel.h"
#include "base/parallel/progress.h"
#include "base/plugin.h"
#include "base/random.h"
#include "base/result.h"
#include "base/split.h"
#include "base/toml/sourced_file.h"
#include "base/xml.h"
#include "tests/folder.h"
#include "tests/seed.h"
#include "tests/text.h"
#include "tests/variable.h"

using namespace tandem;

namespace {

using Cells = std::vector<std::string>;

// The rows of a file with that text.
std::vector<Cells> rows_of(const std::string& text) {
  const Folder folder;
  const auto file = read_csv(folder.with("file.csv", text));
  INFO((file.ok() ? "" : file.error().text()));
  REQUIRE(file.ok());
  std::vector<Cells> rows;
  for (const CsvRow& row : file->rows) rows.push_back(row.cells);
  return rows;
}

// The message of reading that text as CSV, without the folder's name.
template <class Read>
std::string error_of(const Read& read, const std::string& text) {
  const Folder folder;
  const auto result = read(folder.with("file.csv", text));
  REQUIRE(!result.ok());
  CHECK(result.error().kind == Error::BadInput);
  REQUIRE(result.error().text().starts_with(folder / ""));
  return result.error().text().substr((folder / "").size());
}

}  // namespace

TEST_CASE("a quoted cell may hold commas, doubled quotes and blanks at its ends") {
  CHECK(rows_of("a,\"b,c\",\"say \"\"hi\"\"\",\"\"\n") ==
        std::vector<Cells>{{"a", "b,c", "say \"hi\"", ""}});
  CHECK(rows_of(" a ,\" b \"\t, \"c\" ,,\n") == std::vector<Cells>{{"a", " b ", "c", "", ""}});
}

TEST_CASE("line ends of DOS, a last line without one, and a byte order mark do not count") {
  CHECK(rows_of("\xEF\xBB\xBF"
                "a,b\r\n\r\n1,2\r\n3,4") == std::vector<Cells>{{"a", "b"}, {"1", "2"}, {"3", "4"}});
}

TEST_CASE("the last line counts without an end, whatever blocks the file is read in") {
  constexpr std::size_t kBlock = std::size_t{1} << 24;  // LineReader's
  // Lines of up to a mebibyte; one ends where the last block but one does.
  for (const std::size_t size : {std::size_t{1}, 2 * kBlock - 1, 2 * kBlock, 2 * kBlock + 1,
                                 3 * kBlock, 3 * kBlock + 100'003}) {
    std::string text(size, 'x');
    for (std::size_t at = 1 << 20; at + 1 < size; at += 1 << 20) text[at] = '\n';
    if (size > kBlock) text[size - kBlock] = '\n';
    const std::vector<Cells> without = rows_of(text);
    INFO(size);
    CHECK(without == rows_of(text + '\n'));
    std::size_t cells = 0;
    for (const Cells& row : without) cells += row.front().size();
    CHECK(cells == static_cast<std::size_t>(std::ranges::count(text, 'x')));
  }
}

TEST_CASE("what users wrote is printed in one line that no terminal takes for a command") {
  CHECK(printable("a b") == "a b");
  CHECK(printable("uni\nform\x1b[31m\r\t\x7f") == "uni\\nform\\x1b[31m\\r\\t\\x7f");
  CHECK(printable("\xC2\x9B"
                  "31m") == "\\xc2\\x9b31m");  // C1's own sequence introducer
  CHECK(printable("M\xC3\xBCnchen \xE2\x82\xAC \xF0\x9F\x9A\x80") ==
        "M\xC3\xBCnchen \xE2\x82\xAC \xF0\x9F\x9A\x80");
  CHECK(printable("\xFF"
                  "a\xC3") == "\\xffa\\xc3");
  // Unicode's ends of lines, and what turns the direction of a text; quotes of its block are text.
  CHECK(printable("a\u2028b\u2029c") == "a\\xe2\\x80\\xa8b\\xe2\\x80\\xa9c");
  for (const char* mark : {"\u061c", "\u200e", "\u200f", "\u202a", "\u202e", "\u2066", "\u2069"}) {
    INFO(printable(mark));
    CHECK(printable(mark).starts_with("\\x"));
  }
  CHECK(printable("\u201c\u2026\u201d \u2030 \u2065 \u206a") ==
        "\u201c\u2026\u201d \u2030 \u2065 \u206a");
}

TEST_CASE("a cell that was written reads back as it will be written again") {
  const Folder folder;
  for (const std::string text : {"a\n", "\na", "\r", " a", "a ", "a\tb", "\t", "'", "=a\n", "\n=a",
                                 "'=a", "#a", "a,b", "\"", "+1", "-1\n", ""}) {
    const std::string cell = csv_cell(text);
    const auto table = CsvTable::read(folder.with("one.csv", "a,b\n" + cell + ",1\n"));
    INFO(cell);
    REQUIRE(table.ok());
    CHECK(csv_cell(table->text(0, "a")) == cell);
  }
}

TEST_CASE("of what is shown and has any length the ends are kept, and characters whole") {
  CHECK(kept_short(std::string(2000, 'x')) == std::string(2000, 'x'));
  CHECK(kept_short(std::string(8'000'000, 'x')) ==
        std::string(1593, 'x') + " [...] " + std::string(397, 'x'));
  std::string umlauts = "x";
  for (int i = 0; i < 1200; ++i) umlauts += "\u00fc";
  CHECK(printable(kept_short(umlauts)).find("\\x") == std::string::npos);
  for (const char* text : {"\x80", "\u00fc", "\u20ac", "\U0001f680"}) {
    std::string all;
    while (all.size() < 5000) all += text;
    const std::string once = kept_short(all);
    CHECK(once.size() <= 2000);
    CHECK(kept_short(once) == once);
  }
  const Error error = Error::at("file:1", "found " + std::string(40'000, 'y') + ", expected z");
  CHECK(error.text().size() <= 2000);
  CHECK(error.text().starts_with("file:1: found yyy"));
  CHECK(error.text().ends_with("yyy, expected z"));
}

TEST_CASE("a TOML file nests 200 tables at most, by keys, by headers and by brackets") {
  const Folder folder;
  const auto repeated = [](const std::string& text, int times) {
    std::string all;
    for (int i = 0; i < times; ++i) all += text;
    return all;
  };
  const auto why = [&](const std::string& text) {
    const auto file = SourcedFile::read(folder.with("data.toml", text));
    return file.ok() ? "" : file.error().text().substr((folder / "data.toml").size());
  };
  const std::string error =
      ":2: found tables and lists nested more than 200 deep, expected at most 200";
  const std::string deep = repeated(".a", 100'000), some = repeated(".a", 90);
  const std::string apostrophes(3, '\''), quotes(3, '"');
  CHECK(why("x = 1\na" + deep + " = 1\n") == error);
  CHECK(why("x = 1\n[a" + deep + "]\n") == error);
  CHECK(why("x = 1\n[[a" + deep + "]]\n") == error);
  CHECK(why("x = 1\n'a'" + repeated(" . \"a\"", 100'000) + " = 1\n") == error);
  CHECK(why("[a" + some + "]\na" + some + " = {a" + some + " = 1}\n") == error);
  CHECK(
      why("x = " + apostrophes + "\n''" + apostrophes + "\na" + deep + " = 1\n").starts_with(":3"));
  CHECK(why("x = " + repeated("{a = [", 300)).starts_with(":1: found tables and lists nested"));
  CHECK(why("[a" + some + "]\na" + some + " = 1\n").empty());
  // Dots that part no keys: of numbers, in texts and behind a '#'.
  CHECK(why("x = [" + repeated("1.5, ", 300) + "]\n# " + deep + "\n").empty());
  CHECK(why("y = \"\\\"" + deep + "\"\nz = '" + deep + "'\n").empty());
  CHECK(why("v = " + quotes + "\n[\"" + deep + "\\\"\"" + quotes + "\n").empty());
  CHECK(why("w = " + apostrophes + "[" + deep + "\n" + apostrophes + "\n").empty());
  CHECK(why(repeated("[[c.d]]\ne.f = 1.5\n", 300)).empty());
}

TEST_CASE("what stands in XML is well formed, whatever bytes a name has") {
  CHECK(xml_escaped("<a & \"b\">\n") == "&lt;a &amp; &quot;b&quot;&gt; ");
  CHECK(xml_escaped("\xC3\xBC") == "\xC3\xBC");
  const std::string replaced = "\xEF\xBF\xBD";
  // A byte that begins nothing, a slash in two bytes, half of a UTF-16 pair, a character that XML
  // has not, and one cut short.
  CHECK(xml_escaped("\xFF") == replaced);
  CHECK(xml_escaped("\xC0\xAF") == replaced + replaced);
  CHECK(xml_escaped("\xED\xA0\x80") == replaced + replaced + replaced);
  CHECK(xml_escaped("\xEF\xBF\xBF") == replaced);
  CHECK(xml_escaped("a\xE2\x82") == "a" + replaced + replaced);
}

TEST_CASE("a plugin comes from a folder that is named in full, never from the working folder") {
  const Folder folder;
  Dl_info maths;
  REQUIRE(dladdr(reinterpret_cast<const void*>(static_cast<double (*)(double)>(&std::cos)),
                 &maths) != 0);
  std::filesystem::copy_file(std::filesystem::canonical(maths.dli_fname), folder / "libown.so");
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  CHECK(plugin_symbol("libown.so", "cos").error().kind == Error::Missing);
  for (const char* named : {".", "", "../"}) {
    const Variable plugins("TANDEM_PLUGINS", named);
    CHECK(!plugin_symbol("libown.so", "cos").ok());
  }
  {
    const Variable plugins("TANDEM_PLUGINS", ".");
    CHECK(plugin_symbol("libown.so", "cos").error().text() ==
          "TANDEM_PLUGINS: found ., expected an absolute path");
  }
  const Variable plugins("TANDEM_PLUGINS", folder.path().string());
  CHECK(plugin_symbol("libown.so", "cos").ok());
  std::filesystem::current_path(before);
}

TEST_CASE("comments are read apart, and rows keep their line numbers") {
  const Folder folder;
  const auto file = read_csv(
      folder.with("file.csv", "# chains: 2\n#bare\n\na,b\n  # late\n\"# no comment\",d\n"));
  REQUIRE(file.ok());
  CHECK(file->comments == Cells{"chains: 2", "bare", "late"});
  REQUIRE(file->rows.size() == 2);
  CHECK(file->rows[0].line == 4);
  CHECK(file->rows[1].line == 6);
  CHECK(file->rows[1].cells == Cells{"# no comment", "d"});
}

TEST_CASE("a quote that is never closed is an error with its line") {
  CHECK(error_of(read_csv, "a\n1,\"2\n3\n") ==
        "file.csv:2: found a quote that is never closed, expected a closing \"");
}

TEST_CASE("a byte 0 is an error with its line, as what follows it in the line would be lost") {
  CHECK(error_of(read_csv, std::string("a\n0B0\0,1\nb\n", 11)) ==
        "file.csv:2: found a byte 0, expected text");
  const std::string many(3'000'000, '\n');
  CHECK(error_of(read_csv, many + std::string("\0", 1)) ==
        "file.csv:3000001: found a byte 0, expected text");
}

TEST_CASE("a missing file, a folder and a name that is too long are errors, not crashes") {
  const Folder folder;
  CHECK(read_csv(folder / "no.csv").error().text() ==
        (folder / "no.csv") + ": no such file, expected a CSV file");
  for (const std::string& path :
       {folder / "no.csv", folder / "", folder / std::string(5000, 'x').c_str()}) {
    CHECK(!read_csv(path).ok());
    CHECK(!read_file(path).ok());
  }
}

TEST_CASE("a file that must not be read, a folder, a device and a pipe are said to be that") {
  const Folder folder;
  const std::string path = folder.with("secret", "text"), pipe = folder / "pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(read_file(folder / "").error().text() ==
        (folder / "") + ": is a directory, expected a readable file");
  CHECK(read_file("/dev/null", "a table").error().text() ==
        "/dev/null: is a device, expected a table");
  CHECK(read_csv(pipe).error().text() == pipe + ": is a pipe, expected a CSV file");
  // Its memory from the first byte on: there is none.
  CHECK(read_file("/proc/self/mem").error().text() ==
        "/proc/self/mem: cannot be read: Input/output error");
  std::filesystem::permissions(folder.path(), std::filesystem::perms(0755));
  std::filesystem::permissions(path, std::filesystem::perms::none);
  const auto results = fork_map(1, 1, [&](int) -> Result<std::string> {
    constexpr uid_t kNobody = 65534;
    if (geteuid() == 0 && seteuid(kNobody) != 0) return Error{"cannot become nobody"};
    return read_file(path);
  });
  REQUIRE(!results[0].ok());
  CHECK(results[0].error().text() == path + ": Permission denied, expected a readable file");
}

TEST_CASE("a table has a cell for every column in every row") {
  CHECK(error_of(CsvTable::read, "a,b\n1,2\n# comment\n3\n") ==
        "file.csv:4: found 1 cells, expected 2 as in the header");
  CHECK(error_of(CsvTable::read, "a,b\n1,2,3\n") ==
        "file.csv:2: found 3 cells, expected 2 as in the header");
  CHECK(error_of(CsvTable::read, "# only a comment\n") ==
        "file.csv:1: found no rows, expected a header row of column names");
}

TEST_CASE("a table's cells are found by column, numbers are checked") {
  const Folder folder;
  const auto table =
      CsvTable::read(folder.with("file.csv", "# first\nname,n,x\n\nring,-12,0.5\ntree,7b,\n"));
  REQUIRE(table.ok());
  CHECK(table->size() == 2);
  CHECK(table->has("n"));
  CHECK(!table->has("m"));
  CHECK(table->text(0, "name") == "ring");
  CHECK(table->text(0, "m").empty());
  CHECK(table->integer(0, "n").value() == -12);
  CHECK(table->number(0, "x").value() == 0.5);
  const std::string at = (folder / "file.csv") + ":5: ";
  CHECK(table->integer(1, "n").error().text() ==
        at + "column 'n': found '7b', expected an integer");
  CHECK(table->number(1, "x").error().text() ==
        at + "column 'x': found '', expected a finite number");
  CHECK(table->integer(1, "m").error().text() == at + "column 'm': found '', expected an integer");
}

TEST_CASE("the whole text must be the number") {
  CHECK(parse_integer("-9223372036854775808").value() == std::numeric_limits<std::int64_t>::min());
  CHECK(parse_integer("007").value() == 7);
  for (const char* text :
       {"", "-", "+1", " 1", "1 ", "1.0", "0x10", "1e3", "9223372036854775808"}) {
    INFO("'" << text << "'");
    CHECK(!parse_integer(text).ok());
  }
  CHECK(parse_number("-1.5e-3").value() == -1.5e-3);
  CHECK(parse_number("7").value() == 7);
  for (const char* text :
       {"", ".", " 1", "1 ", "1,5", "0x1p3", "nan", "-nan", "inf", "-infinity", "1e400"}) {
    INFO("'" << text << "'");
    CHECK(!parse_number(text).ok());
  }
}

TEST_CASE("what csv_cell writes is read back, line ends as blanks") {
  CHECK(csv_cell("plain text") == "plain text");
  CHECK(csv_cell("a,b") == "\"a,b\"");
  CHECK(csv_cell("say \"hi\"") == "\"say \"\"hi\"\"\"");
  CHECK(csv_cell("two\nlines\r") == "\"two lines \"");
  CHECK(csv_cell("\x1b[31m\u202e") == "\\x1b[31m\\xe2\\x80\\xae");
  const unsigned seed = test_seed();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  std::vector<Cells> rows(200, Cells(3));
  std::string text;
  for (Cells& row : rows) {
    for (std::string& cell : row) {
      for (auto left = random() % 6; left > 0; --left) cell += "a,\" \t#'=+-@1"[random() % 12];
      text += csv_cell(cell) + (&cell == &row.back() ? '\n' : ',');
    }
  }
  CHECK(rows_of(text) == rows);
}

TEST_CASE("no text in a cell is a formula to a spreadsheet, and numbers stay as they are") {
  for (const char* text :
       {"=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(A1)", "'=1", "\t=1", " -x"}) {
    INFO(text);
    const std::string cell = csv_cell(text);
    CHECK((cell.starts_with('\'') || cell.starts_with("\"'")));
    CHECK(rows_of(cell + ",x\n") == std::vector<Cells>{{text, "x"}});
  }
  for (const char* text : {"-1.5e-3", "+7", "1f1b", "a=b", "'tis"}) CHECK(csv_cell(text) == text);
}

TEST_CASE("through a symbolic link what it leads to is written, and a file's mode stays") {
  const Folder folder;
  const std::string target = folder.with("target", "old");
  const auto mode = [&](const std::string& path) {
    return std::filesystem::status(path).permissions();
  };
  std::filesystem::permissions(target, std::filesystem::perms{0600});
  std::filesystem::create_directory(folder / "in");
  std::filesystem::create_symlink("../target", folder / "in/link");
  std::filesystem::create_symlink("in/link", folder / "link");
  REQUIRE(check_writable(folder / "link").ok());
  REQUIRE(write_file(folder / "link", "new").ok());
  CHECK(contents(target) == "new");
  CHECK(mode(target) == std::filesystem::perms{0600});
  CHECK(std::filesystem::is_symlink(folder / "link"));
  CHECK(std::filesystem::is_symlink(folder / "in/link"));
  // To a file that is not there yet, and to itself.
  std::filesystem::create_symlink("none", folder / "to none");
  REQUIRE(write_file(folder / "to none", "made").ok());
  CHECK(contents(folder / "none") == "made");
  std::filesystem::create_symlink("self", folder / "self");
  CHECK(write_file(folder / "self", "x").error().text() ==
        (folder / "self") + ": cannot be written: Too many levels of symbolic links");
  // What somebody has put where the file is called for a moment is not written to.
  const std::string moment = fmt::format("{}.{}.tmp", folder / "file", getpid());
  std::filesystem::create_symlink(target, moment);
  REQUIRE(write_file(folder / "file", "own").ok());
  CHECK(contents(folder / "file") == "own");
  CHECK(contents(target) == "new");
  CHECK(!std::filesystem::is_symlink(folder / "file"));
  CHECK(!std::filesystem::is_symlink(moment));
}

TEST_CASE("a file appears whole, at commit, in place of the old one") {
  const Folder folder;
  const std::string path = folder.with("file.csv", "old");
  {
    auto writer = FileWriter::open(path);
    REQUIRE(writer.ok());
    FileWriter moved = std::move(writer).value();
    moved.write("ne");
    moved.write("w\n");
    CHECK(contents(path) == "old");
    CHECK(folder.files().size() <= 2);  // the new one beside it, where it cannot be without a name
    REQUIRE(moved.commit().ok());
    CHECK(contents(path) == "new\n");
  }
  CHECK(contents(path) == "new\n");
  CHECK(folder.files() == Cells{"file.csv"});
}

TEST_CASE("without commit the old file stays, and nothing else") {
  const Folder folder;
  const std::string path = folder.with("file.csv", "old");
  {
    auto writer = FileWriter::open(path);
    REQUIRE(writer.ok());
    writer->write("new");
    auto other = FileWriter::open(folder / "other");
    REQUIRE(other.ok());
    other->write("other");
  }
  CHECK(contents(path) == "old");
  CHECK(folder.files() == Cells{"file.csv"});
}

TEST_CASE("where a file cannot be written there is an Error, and nothing left") {
  const Folder folder;
  const auto nowhere = FileWriter::open(folder / "no such folder/file");
  REQUIRE(!nowhere.ok());
  CHECK(nowhere.error().text() ==
        (folder / "no such folder/file") + ": cannot be written: No such file or directory");
  // A folder of the file's name, at once, and while the file is written: renaming fails.
  auto writer = FileWriter::open(folder / "taken");
  REQUIRE(writer.ok());
  writer->write("text");
  std::filesystem::create_directory(folder / "taken");
  const std::string expected = (folder / "taken") + ": cannot be written: Is a directory";
  CHECK(FileWriter::open(folder / "taken").error().text() == expected);
  CHECK(check_writable(folder / "taken").error().text() == expected);
  const Status renamed = writer->commit();
  REQUIRE(!renamed.ok());
  CHECK(renamed.error().text() == expected);
  CHECK(folder.files() == Cells{"taken"});
}

TEST_CASE("a full disk is an Error of commit") {
  if (!std::filesystem::exists("/dev/full")) FAIL("skipped: no /dev/full");
  auto writer = FileWriter::open("/dev/full");  // a device: written to directly, not replaced
  REQUIRE(writer.ok());
  writer->write("text");
  const Status status = writer->commit();
  REQUIRE(!status.ok());
  CHECK(status.error().text() == "/dev/full: cannot be written: No space left on device");
  CHECK(std::filesystem::is_character_file("/dev/full"));
}

TEST_CASE("a pipe is written to, not replaced by a file") {
  const Folder folder;
  const std::string path = folder / "pipe";
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> reader(std::fopen(path.c_str(), "r+"),
                                                               std::fclose);
  REQUIRE(reader != nullptr);
  auto writer = FileWriter::open(path);
  REQUIRE(writer.ok());
  writer->write("through\n");
  REQUIRE(writer->commit().ok());
  char line[16] = "";
  REQUIRE(std::fgets(line, sizeof line, reader.get()) != nullptr);
  CHECK(std::string(line) == "through\n");
  CHECK(std::filesystem::is_fifo(path));
  CHECK(folder.files() == Cells{"pipe"});
}

TEST_CASE("the progress line shows the share done, the rate and the time left") {
  // 12 of 30: 24 x 12/30 = 9.6 of 24 marks; 12 in 4 s: 3 a second, 18 left take 6 s.
  CHECK(progress_line("runs", 12, 30, 4) ==
        "[#########...............] 12/30 runs, 3.0/s, 6 s left");
  CHECK(progress_line("runs", 30, 30, 10) ==
        "[########################] 30/30 runs, 3.0/s, 0 s left");
  // Nothing done: no rate, so no time left.
  CHECK(progress_line("runs", 0, 30, 4) == "[........................] 0/30 runs, 0.0/s, ");
  CHECK(progress_line("runs", 0, 0, 0) == "[........................] 0/0 runs, 0.0/s, ");
}

TEST_CASE("a list falls into its parts, and what stands at its end begins no further one") {
  CHECK(split("a,,b", ",") == Cells{"a", "", "b"});
  CHECK(split("a, b c, ", ", ") == Cells{"a", "b c"});
  CHECK(split("", ",").empty());
  CHECK(split_words(" a\tb  c\r\n") == Cells{"a", "b", "c"});
  CHECK(split_words(" \n").empty());
}

TEST_CASE("the nearest name is that of the fewest edits, of equals the first") {
  const Cells names = {"model.layers", "model.heads", "parallel.tp", "parallel.pp"};
  CHECK(nearest("model.layer", names) == "model.layers");  // one letter more
  CHECK(nearest("modle.heads", names) == "model.heads");   // two letters changed
  CHECK(nearest("paralel.pp", names) == "parallel.pp");    // one letter more
  CHECK(nearest("parallel.xp", names) == "parallel.tp");   // one changed, for either
  CHECK(nearest("", Cells{"abc", "ab"}) == "ab");
  CHECK(nearest("parallel.pp", names) == "parallel.pp");
}

TEST_CASE("jitter has mean 1 and the stated spread, and depends on seed, rank and op alone") {
  const std::uint64_t seed = test_seed();
  INFO("seed " << seed);
  const Jitter jitter{0.2, seed};
  constexpr Nanoseconds kDuration = 1'000'000'000;
  double sum = 0, logs = 0, squares = 0;
  constexpr int kRanks = 100, kOps = 1000, kDraws = kRanks * kOps;
  for (int rank = 0; rank < kRanks; ++rank) {
    for (std::uint32_t op = 0; op < kOps; ++op) {
      const double factor = static_cast<double>(jitter.apply(kDuration, rank, op)) / kDuration;
      sum += factor;
      logs += std::log(factor);
      squares += std::log(factor) * std::log(factor);
    }
  }
  // The mean of n draws of a log-normal of sigma 0.2 lies within 0.2/sqrt(n) = 0.0006 of 1; six of
  // those. Its logarithm is normal: mean -sigma^2 / 2 = -0.02; the standard deviation's own is
  // sigma / sqrt(2n) = 0.00045.
  CHECK(sum / kDraws == Approx(1).margin(0.004));
  CHECK(logs / kDraws == Approx(-0.02).margin(0.004));
  CHECK(std::sqrt(squares / kDraws - logs / kDraws * (logs / kDraws)) == Approx(0.2).margin(0.003));

  CHECK(jitter.apply(kDuration, 3, 14) == Jitter{0.2, seed}.apply(kDuration, 3, 14));
  CHECK(jitter.apply(kDuration, 3, 14) != Jitter{0.2, seed + 1}.apply(kDuration, 3, 14));
  CHECK(jitter.apply(kDuration, 3, 14) != jitter.apply(kDuration, 4, 14));
  CHECK(jitter.apply(kDuration, 3, 14) != jitter.apply(kDuration, 3, 15));
  CHECK(jitter.apply(0, 3, 14) == 0);
  CHECK(Jitter{0, seed}.apply(kDuration, 3, 14) == kDuration);
}

TEST_CASE("a draw stays the same from version to version") {
  // SplitMix64's first outputs for the seed 0, as its authors' splitmix64.c gives them.
  CHECK(scatter(0) == 0xe220a8397b1dcdafu);
  CHECK(scatter(0x9e3779b97f4a7c15u) == 0x6e789e6aa1b965f4u);
  CHECK(uniform(0) == Approx(0xe220a8397b1dcdafp-64).epsilon(1e-12));
}

namespace {

Result<std::unique_ptr<int>> positive(int value) {
  if (value <= 0) return Error{fmt::format("found {}, expected a positive number", value)};
  return std::make_unique<int>(value);
}

Result<int> sum_of(int a, int b) {
  ASSIGN_OR_RETURN(const auto first, positive(a));
  ASSIGN_OR_RETURN(const auto second, positive(b));
  return *first + *second;
}

Status check_both(int a, int b, int* checked) {
  RETURN_IF_ERROR(positive(a));
  ++*checked;
  RETURN_IF_ERROR(positive(b));
  ++*checked;
  return Done{};
}

}  // namespace

TEST_CASE("ASSIGN_OR_RETURN gives the value, or leaves with the Error") {
  CHECK(sum_of(2, 3).value() == 5);
  CHECK(sum_of(-1, 3).error().text() == "found -1, expected a positive number");
  CHECK(sum_of(2, -3).error().text() == "found -3, expected a positive number");
  CHECK(sum_of(2, -3).error().kind == Error::BadInput);
}

TEST_CASE("RETURN_IF_ERROR goes on, or leaves with the Error") {
  int checked = 0;
  CHECK(check_both(1, 1, &checked).ok());
  CHECK(checked == 2);
  CHECK(check_both(1, 0, &checked).error().text() == "found 0, expected a positive number");
  CHECK(checked == 3);
}
