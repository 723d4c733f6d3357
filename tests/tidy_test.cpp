// Checks the project's rules that no compiler checks: which module includes which, where a library
// may be included, how long files and lines are, that no file is unused.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "exec/backends/backends.h"
#include "schedule/order/named_orders.h"
#include "schedule/program/execution.h"
#include "tests/sources.h"

using namespace tandem;

namespace {

// Lists the files that include a header whose name begins so, in either form.
std::set<std::string> including(const Lines& prefixes) {
  std::set<std::string> files;
  for (const Source& source : all_sources()) {
    for (const char open : {'<', '"'}) {
      for (const std::string& header : includes_of(source, open)) {
        if (std::any_of(prefixes.begin(), prefixes.end(),
                        [&](const std::string& prefix) { return header.starts_with(prefix); }))
          files.insert(source.path);
      }
    }
  }
  return files;
}

// Reports "path:line" for every line for which `bad` is true.
template <class Bad>
void check_lines(const std::vector<Source>& sources, const Bad& bad) {
  for (const Source& source : sources) {
    for (std::size_t i = 0; i < source.lines.size(); ++i) {
      if (bad(source.lines[i])) FAIL_CHECK(source.path << ":" << i + 1 << ": " << source.lines[i]);
    }
  }
}

// Counts characters, not bytes: all but UTF-8's continuation bytes.
std::size_t columns(const std::string& line) {
  return static_cast<std::size_t>(std::count_if(line.begin(), line.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

// Lists the words and signs of a source, without comments, literals and preprocessor lines.
Lines words_of(const Source& source) {
  std::string code;
  for (const std::string& line : source.lines) code += line + '\n';
  Lines words;
  const auto after = [&](std::string_view sign, std::size_t from) {
    return std::min(code.find(sign, from), code.size() - sign.size()) + sign.size();
  };
  const auto is_word = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
  for (std::size_t i = 0; i < code.size();) {
    const std::string_view rest = std::string_view(code).substr(i);
    std::size_t end = i + 1;
    if (rest.starts_with("//")) {
      end = after("\n", i);
    } else if (rest.starts_with('#')) {
      while (code[(end = after("\n", end)) - 2] == '\\') continue;
    } else if (rest.starts_with("/*")) {
      end = after("*/", i + 2);
    } else if (rest.starts_with("R\"")) {
      const std::size_t open = code.find('(', i);
      end = after(')' + code.substr(i + 2, open - i - 2) + '"', open);
    } else if (rest[0] == '"' || rest[0] == '\'') {
      while (end < code.size() && code[end] != rest[0]) end += code[end] == '\\' ? 2 : 1;
      ++end;
    } else if (is_word(rest[0])) {
      const bool number = std::isdigit(static_cast<unsigned char>(rest[0])) != 0;
      while (is_word(code[end]) || (number && code[end] == '\'')) ++end;
      words.push_back(code.substr(i, end - i));
    } else if (rest[0] != ' ' && rest[0] != '\n') {
      words.emplace_back(1, rest[0]);
    }
    i = end;
  }
  return words;
}

// Gives the type that a statement before its "{" begins to define. Empty: it defines none, or a
// template's specialization, or a type nested in another (struct Box::Part).
std::string type_of(Lines statement) {
  if (!statement.empty() && statement[0] == "template") {
    int open = 0;
    std::size_t i = 1;
    do {
      open += statement[i] == "<" ? 1 : statement[i] == ">" ? -1 : 0;
    } while (++i < statement.size() && open > 0);
    statement.erase(statement.begin(), statement.begin() + static_cast<std::ptrdiff_t>(i));
  }
  const std::set<std::string> keywords = {"struct", "class", "union", "enum"};
  std::size_t i = 0;
  while (i < statement.size() && keywords.count(statement[i]) == 1) ++i;
  if (i == 0 || i == statement.size()) return "";
  const std::string next = i + 1 < statement.size() ? statement[i + 1] : "";
  const bool part = next == ":" && i + 2 < statement.size() && statement[i + 2] == ":";
  return (next.empty() || next == ":" || next == "final") && !part ? statement[i] : "";
}

// Lists the types that a source defines at the scope of a namespace that has a name, or of none:
// "tandem::Order". `with_local`: those of namespaces without a name as well, as if it were outside.
Lines types_of(const Source& source, bool with_local = false) {
  Lines types, statement;
  std::vector<std::string> group_kinds;  // of the open "{"; "-": no namespace that counts
  for (const std::string& word : words_of(source)) {
    if (word == "{") {
      const bool visible =
          std::find(group_kinds.begin(), group_kinds.end(), "-") == group_kinds.end();
      const bool is_space = !statement.empty() && statement[0] == "namespace";
      std::string group_kind = "-";
      if (is_space && (with_local || statement.size() > 1)) {
        group_kind.clear();
        for (const std::string& part : Lines(statement.begin() + 1, statement.end()))
          group_kind += part;
        if (!group_kind.empty()) group_kind += "::";
      }
      if (const std::string type = type_of(statement); visible && !type.empty()) {
        types.emplace_back();
        for (const std::string& outer : group_kinds) types.back() += outer;
        types.back() += type;
      }
      group_kinds.push_back(group_kind);
    }
    if (word == "}" && !group_kinds.empty()) group_kinds.pop_back();
    if (word == "{" || word == "}" || word == ";") {
      statement.clear();
    } else {
      statement.push_back(word);
    }
  }
  CHECK(group_kinds.empty());
  return types;
}

}  // namespace

TEST_CASE("SimGrid is included by two files of sim, and by nothing else") {
  const std::set<std::string> files = including({"simgrid/", "xbt/"});
  CHECK(files.size() <= 2);
  for (const std::string& file : files) {
    INFO(file);
    CHECK(file.starts_with("sim/simgrid_"));
  }
}

TEST_CASE("Boost's graphs are included by topology only, the CSV package by base/csv.cpp only") {
  const std::set<std::string> graph = including({"boost/"}),
                              vectors = including({"boost/container"});
  CHECK(!graph.empty());
  for (const std::string& file : graph) {
    INFO(file);
    CHECK((file.starts_with("topology/") || vectors.contains(file)));
  }
  CHECK(vectors == std::set<std::string>{"workload/model/model.h", "workload/model/pass.h"});
  CHECK(including({"libfccp"}) == std::set<std::string>{"base/csv.cpp"});
}

TEST_CASE("simdjson and SQLite are included by one file of traces/profile each") {
  const std::pair<const char*, const char*> libraries[] = {{"simdjson", "kineto_reader"},
                                                           {"sqlite3", "nsight_reader"}};
  for (const auto& [header, file] : libraries) {
    std::set<std::string> files = including({header});
    std::erase_if(files, [](const std::string& path) { return path.starts_with("tests/"); });
    CHECK(files == std::set{"traces/profile/" + std::string(file) + ".cpp"});
  }
}

TEST_CASE("YAML and XML are named in one file each, JSON and TOML in one file of interop each") {
  CHECK(including({"yaml-cpp"}) == std::set<std::string>{"interop/document/yaml_document.cpp"});
  CHECK(including({"pugixml"}) == std::set<std::string>{"interop/document/xml_document.cpp"});
  for (const char* library : {"nlohmann", "toml++"}) {
    int files = 0;
    for (const std::string& file : including({library}))
      files += file.starts_with("interop/") ? 1 : 0;
    INFO(library);
    CHECK(files == 1);
  }
}

TEST_CASE("TOML is parsed in one place, which limits how deep it nests") {
  check_lines(module_sources(), [](const std::string& line) {
    return line.find("toml::parse(") != std::string::npos &&
           line != "    return toml::parse(text);";  // in base/toml/parse_toml.cpp
  });
}

TEST_CASE("zlib is included by base/gzip.cpp only") {
  std::set<std::string> with_zlib = including({"zlib.h"});
  std::erase_if(with_zlib, [](const std::string& path) { return path.starts_with("tests/"); });
  CHECK(with_zlib == std::set<std::string>{"base/gzip.cpp", "traces/profile/json_rows.cpp"});
}

// The folder of the declarations that the mocks use in place of CUDA's headers. As the begin of a
// path it also stands for the test that compares the two, api_test.cpp and api_values.cpp.
const std::string kCudaApi = "tests/exec/cuda/api";

TEST_CASE("CUDA and NCCL are included only in exec/cuda/ and by their mocks, MPI below exec only") {
  for (const std::string& file : including({"cuda", "nccl", "cublas", "nvtx3"})) {
    INFO(file);
    CHECK((file.starts_with("exec/cuda/") || file.starts_with("tests/exec/cuda/mock_") ||
           file.starts_with(kCudaApi)));
  }
  for (const std::string& file : including({"mpi"})) {
    INFO(file);
    CHECK(file.starts_with("exec/mpi/"));
  }
}

TEST_CASE("CLI11 is included by the command line, its help and its completions, by no command") {
  CHECK(including({"CLI/"}) == std::set<std::string>{"cli/command_line/command_line.cpp",
                                                     "cli/command_line/help_text.cpp",
                                                     "cli/command_line/shell_files.cpp"});
}

TEST_CASE("pybind11 and Python are included by the module python only") {
  const std::set<std::string> files = including({"pybind11/", "Python.h"});
  CHECK(!files.empty());
  for (const std::string& file : files) {
    INFO(file);
    CHECK(file.starts_with("python/"));
  }
}

TEST_CASE("no file of a module is longer than 500 lines, no test than 600") {
  for (const Source& source : all_sources()) {
    INFO(source.path);
    const std::size_t most = source.module_name() == "tests" ? 600 : 500;
    CHECK(source.lines.size() <= most);
  }
}

TEST_CASE("no folder holds more than 22 units, a unit being a source with its header") {
  std::map<std::string, std::set<std::string>> units;
  for (const Source& source : all_sources()) {
    const fs::path path = source.path;
    units[path.parent_path().string()].insert(path.stem().string());
  }
  CHECK(units.size() > 30);
  for (const auto& [folder, of] : units) {
    INFO(folder);
    CHECK(of.size() <= 22);
  }
}

TEST_CASE("no line is longer than 100 columns, none has a tab or blanks at its end") {
  check_lines(all_sources(), [](const std::string& line) {
    return columns(line) > 100 || line.find('\t') != std::string::npos || line.ends_with(' ') ||
           line.ends_with('\r');
  });
}

TEST_CASE("Python's lines are no longer either") {
  int files = 0;
  for (const char* folder : {"python/tandem", "tests/python"}) {
    for (const auto& entry : fs::directory_iterator(kSource / folder)) {
      const std::string extension = entry.path().extension().string();
      if (extension != ".py" && extension != ".pyi") continue;
      check_lines(
          {{fs::relative(entry.path(), kSource).string(), lines_of(contents(entry.path()))}},
          [](const std::string& line) {
            return columns(line) > 100 || line.find('\t') != std::string::npos ||
                   line.ends_with(' ');
          });
      ++files;
    }
  }
  CHECK(files > 10);
}

TEST_CASE("the backends that a scenario may name are those of the table of backends") {
  CHECK(backend_names() == std::vector<std::string>(kBackendNames.begin(), kBackendNames.end()));
}

TEST_CASE("no order and no backend is told apart by its name: their tables know them") {
  std::string names;
  for (const std::string& order : order_names()) names += order + "|";
  for (const std::string& backend : backend_names()) names += backend + "|";
  names.pop_back();
  const std::regex compares("[=!]= \"(" + names + ")\"");
  check_lines(module_sources(),
              [&](const std::string& line) { return std::regex_search(line, compares); });
}

TEST_CASE("nothing is left to do later") {
  const std::regex later(
      "\\b(TO"
      "DO|FIX"
      "ME|XX"
      "X)\\b");  // in two parts, so that this test does not find itself
  check_lines(all_sources(),
              [&](const std::string& line) { return std::regex_search(line, later); });
}

TEST_CASE("every file of a module says first what it is for, a .cpp perhaps in its header") {
  for (const Source& source : module_sources()) {
    INFO(source.path);
    REQUIRE(!source.lines.empty());
    const bool comment = source.lines[0].starts_with("// ");
    const std::string own_header = fs::path(source.path).replace_extension(".h").string();
    const bool includes_own = source.lines[0] == "#include \"" + own_header + "\"";
    CHECK((comment || (!source.is_header() && includes_own && exists(own_header))));
  }
}

TEST_CASE("every header is included once at most") {
  for (const Source& source : all_sources()) {
    if (!source.is_header()) continue;
    INFO(source.path);
    CHECK(std::count(source.lines.begin(), source.lines.end(), "#pragma once") == 1);
  }
}

TEST_CASE(
    "no file is dead: each .cpp and .cu stands in its folder's CMakeLists.txt, each .h is "
    "included") {
  std::set<std::string> included;
  for (const Source& source : all_sources()) {
    for (const std::string& header : includes_of(source, '"')) included.insert(header);
    for (const std::string& header : includes_of(source, '<'))
      included.insert(kCudaApi + '/' + header);
  }
  std::map<std::string, std::set<std::string>> listed;  // the words of a CMakeLists.txt
  for (const Source& source : all_sources()) {
    INFO(source.path);
    if (source.path == "wasm/libcxx13.h") continue;  // the compiler is told to include it
    if (source.is_header()) {
      CHECK(included.count(source.path) == 1);
      continue;
    }
    // The list may be in the file's folder, or in one above it.
    bool found = false;
    for (fs::path folder = fs::path(source.path).parent_path(); !folder.empty() && !found;
         folder = folder.parent_path()) {
      const fs::path list = folder / "CMakeLists.txt";
      if (!exists(list.string())) continue;
      auto& words = listed[list.string()];
      if (words.empty()) {
        std::string text = contents(kSource / list);
        std::replace_if(
            text.begin(), text.end(), [](char c) { return c == '(' || c == ')'; }, ' ');
        std::istringstream in(text);
        for (std::string word; in >> word;) words.insert(word);
      }
      found = words.count(fs::path(source.path).lexically_relative(folder).string()) == 1;
    }
    CHECK(found);
  }
}

TEST_CASE("no test has a name that ctest cuts or takes for an option, and passes without a run") {
  const std::regex name("(TEST_CASE\\(|    )\"(-|[^\"]*;)[^\"]*\"\\) \\{");
  check_lines(sources_of({"tests"}),
              [&](const std::string& line) { return std::regex_match(line, name); });
}

TEST_CASE("a test asks for what it needs in tests/needs.h, and ends where it is missing") {
  std::vector<Source> others = sources_of({"tests"});
  std::erase_if(others, [](const Source& source) { return source.path == "tests/needs.h"; });
  const std::regex asks(
      "\\bsimgrid_avail"
      "able\\(|open_open"
      "blas\\(\\)\\.ok");  // in two parts, so that this test does not find itself
  check_lines(others, [&](const std::string& line) { return std::regex_search(line, asks); });
}

TEST_CASE("library code never prints and never exits") {
  std::vector<std::string> libraries = kModules;
  std::erase(libraries, "cli");
  const std::regex words(
      "std::(cout|cerr|clog)|\\b(printf|puts|putchar|fmt::print|exit|quick_exit|terminate)\\s*\\(");
  check_lines(sources_of(libraries), [&](const std::string& line) {
    return std::regex_search(line.substr(0, line.find("//")), words);
  });
}

// A stream's buffer throws where a read fails, as of /proc when the process has ended since. The
// stream itself catches that, and read_file() returns an Error.
TEST_CASE("no file is read through its stream's buffer, which throws where a read fails") {
  std::vector<std::string> all = kModules;
  all.push_back("tests");
  const std::regex words("istreambuf_iterator[<]|[.]rdbuf[(]");
  check_lines(sources_of(all),
              [&](const std::string& line) { return std::regex_search(line, words); });
}

TEST_CASE("results are printed to standard_output(), which no library's own words reach") {
  const std::regex words("\\bfmt::print\\(\"|\\bprintf\\(|\\bputs\\(|std::cout|\\bstdout\\b");
  check_lines(sources_of({"cli"}), [&](const std::string& line) {
    return std::regex_search(line.substr(0, line.find("//")), words);
  });
}

// Two types of one name in one program are undefined behaviour (C++20, basic.def.odr): of inline
// functions that both have, the linker keeps one.
TEST_CASE("no two types have one name, but in namespaces without a name") {
  std::map<std::string, std::string> defined_in;
  for (const Source& source : all_sources()) {
    for (const std::string& type : types_of(source)) {
      const auto [at, is_new] = defined_in.try_emplace(type, source.path);
      INFO(type << " is defined in " << at->second << " and in " << source.path);
      CHECK(is_new);
    }
  }
  CHECK(defined_in.size() > 200);
}

// A reader who searches for a type of a module finds one.
TEST_CASE("no two types of the program share a name, those of one file included") {
  std::map<std::string, std::string> defined_in;
  for (const Source& source : module_sources()) {
    for (const std::string& type : types_of(source, true)) {
      const auto [at, is_new] = defined_in.try_emplace(type, source.path);
      INFO(type << " is defined in " << at->second << " and in " << source.path);
      CHECK(is_new);
    }
  }
}

TEST_CASE("types are found where they stand: not in functions, other types and literals") {
  const Source source = {"a.h", lines_of(R"(
#define OPEN \
  struct Macro {
namespace tandem {
struct Declared;
template <class T> class Box final { struct Inner {}; };
template <> struct Box<int> {};
enum class Kind : char { A = '{', B = '"' };  // struct Comment {
struct Box<int>::Part {};
int million() { struct Local {}; return 1'000'000; }
struct flock lock {};
const char* text = "struct Text {";
namespace { struct Hidden {}; }
namespace inner { union Value { int i; }; }
}
struct Global : tandem::Declared {};
)")};
  CHECK(types_of(source) == Lines{"tandem::Box", "tandem::Kind", "tandem::inner::Value", "Global"});
  CHECK(types_of(source, true) ==
        Lines{"tandem::Box", "tandem::Kind", "tandem::Hidden", "tandem::inner::Value", "Global"});
}

TEST_CASE("no name is a stage metaphor: a type or function says what it is in the field's words") {
  std::map<std::string, std::string> used_in;
  for (const Source& source : all_sources()) {
    for (const std::string& word : words_of(source)) used_in.try_emplace(word, source.path);
  }
  const std::regex hump("([a-z0-9])([A-Z])");
  const std::regex metaphor("(^|_)(door|greet|guest|reception|seat|stranger|welcome)s?(_|$)",
                            std::regex::icase);
  for (const auto& [word, path] : used_in) {
    INFO(word << " in " << path);
    CHECK_FALSE(std::regex_search(std::regex_replace(word, hump, "$1_$2"), metaphor));
  }
}

TEST_CASE("a comment begins with its subject or a verb") {
  const std::regex headless(" *//+ (What|Of|Those|Where|Whose|That|Which) .*");
  for (const Source& source : module_sources()) {
    bool in_comment = false;
    for (std::size_t i = 0; i < source.lines.size(); ++i) {
      const std::string& line = source.lines[i];
      if (!in_comment && std::regex_match(line, headless))
        FAIL_CHECK(source.path << ":" << i + 1 << ": " << line);
      in_comment = line.find_first_not_of(' ') == line.find("//") && !line.empty();
    }
  }
}

TEST_CASE("the pages of docs/ hold no more words of prose than their limit") {
  constexpr int kMostWords = 29'800;
  int words = 0;
  for (const auto& entry : fs::directory_iterator(kSource / "docs")) {
    if (entry.path().extension() != ".md") continue;
    bool is_example = false;
    for (const std::string& line : lines_of(contents(entry.path()))) {
      const bool is_fence = line.starts_with("```");
      is_example ^= is_fence;
      if (is_fence || is_example || line.starts_with('|') || line.starts_with("    ")) continue;
      std::istringstream in(line);
      for (std::string word; in >> word;) ++words;
    }
  }
  INFO("Cut words elsewhere. A change that needs more raises the limit, in a commit of its own.");
  CHECK(words > 10'000);
  CHECK(words <= kMostWords);
}
