// Puts a report page together: page.html with its style sheet, scripts, D3 and the data put inline,
// line by line. So it is one file that opens offline.
#include "report/page/html_page.h"

#include <fmt/format.h>

#include <filesystem>
#include <vector>

#include "base/check.h"
#include "base/data_dir.h"
#include "base/file.h"
#include "base/own_folder.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr const char *kLibrary = "d3.min.js", *kGlue = "tandem.js", *kEngine = "tandem.wasm.txt";
// The scripts that the policy of a page allows, and beside them the engine of a live page.
constexpr std::string_view kScripts = "script-src 'unsafe-inline'",
                           kEngines = " 'wasm-unsafe-eval'; worker-src blob:";

// Returns the text between `before` and `after` if the line consists of these three; else nothing.
std::string_view between(std::string_view line, std::string_view before, std::string_view after) {
  if (line.size() < before.size() + after.size() || !line.starts_with(before) ||
      !line.ends_with(after))
    return {};
  return line.substr(before.size(), line.size() - before.size() - after.size());
}

// Escapes "<", which occurs in JSON only inside strings. So user text such as "</script>" cannot
// end the element that holds the data.
std::string escaped(std::string_view json) {
  std::string text;
  text.reserve(json.size());
  for (const char c : json) {
    if (c == '<') {
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  return text;
}

// Returns the places of a file that is built, not shipped.
std::vector<fs::path> built_places(const char* file) {
  std::error_code failed;
  const fs::path program = own_folder();
  std::vector<fs::path> places;
  for (const fs::path& folder : {program, program.parent_path()}) {
    for (const fs::path& place : {folder / file, folder / "wasm" / file}) {
      if (fs::is_regular_file(place, failed)) places.push_back(place);
    }
  }
  return places;
}

// Returns a script without the lines that are comments: 20 kB of a page. A library keeps them, as
// its licence is one.
std::string without_comments(const std::string& script) {
  std::string text;
  for (std::size_t begin = 0, end = 0; begin < script.size(); begin = end) {
    end = std::min(script.find('\n', begin), script.size() - 1) + 1;
    const std::string_view line(script.data() + begin, end - begin);
    const std::size_t first = std::min(line.find_first_not_of(' '), line.size());
    if (!line.substr(first).starts_with("//")) text += line;
  }
  return text;
}

const std::string& file_of(const PageFiles& files, std::string_view name) {
  const auto file = files.find(std::string(name));
  CHECK(file != files.end());
  return file->second;
}

}  // namespace

Result<PageFiles> load_page_files(bool live) {
  const fs::path folder = fs::path(data_dir()) / "report/page/web";
  std::error_code failed;
  PageFiles files;
  for (const auto& entry : fs::directory_iterator(folder, failed)) {
    ASSIGN_OR_RETURN(files[entry.path().filename().string()], read_file(entry.path().string()));
  }
  if (!files.contains("page.html"))
    return Error{fmt::format("found no page.html in {}, expected TANDEM_DATA_DIR to name the "
                             "folder that holds report/page/web",
                             folder.string()),
                 Error::Missing};
  const auto add = [&](const char* file) -> Status {
    const std::vector<fs::path> places = built_places(file);
    if (files.contains(file) || places.empty()) return Done{};
    ASSIGN_OR_RETURN(files[file], read_file(places.front().string()));
    return Done{};
  };
  RETURN_IF_ERROR(add(kLibrary));
  if (!files.contains(kLibrary))
    return Error{fmt::format("--report: found no {0} beside the program, expected D3 (Debian's "
                             "node-d3) when Tandem is built, or its {0} there",
                             kLibrary),
                 Error::Missing};
  if (!live) {
    files.erase(kEngine);
    return files;
  }
  for (const char* file : {kGlue, kEngine}) {
    RETURN_IF_ERROR(add(file));
    if (!files.contains(file))
      return Error{fmt::format("a live page: found no {} beside the program, expected ./dev wasm "
                               "to have built it",
                               file),
                   Error::Missing};
  }
  return files;
}

std::string html_page(const PageFiles& files, std::string_view data) {
  const bool live = files.contains(kEngine);
  std::string out;
  std::string_view page = file_of(files, "page.html");
  while (!page.empty()) {
    const std::size_t end = std::min(page.find('\n'), page.size() - 1) + 1;
    std::string_view line = page.substr(0, end);
    page.remove_prefix(end);
    while (line.ends_with('\n')) line.remove_suffix(1);
    if (const auto name = between(line, "<link rel=\"stylesheet\" href=\"", "\">"); !name.empty()) {
      out += fmt::format("<style>\n{}</style>\n", file_of(files, name));
    } else if (const auto script = between(line, "<script src=\"", "\"></script>");
               !script.empty()) {
      const std::string& own = file_of(files, script);
      const std::string text = script == kLibrary ? own : without_comments(own);
      CHECK(text.find("</script") == std::string::npos);
      out += fmt::format("<script>\n{}</script>\n", text);
    } else if (const auto held = between(line, "<script type=\"text/plain\" ", "\"></script>");
               !held.empty()) {
      if (!live) continue;
      const std::size_t src = held.find(" src=\"");
      const std::string& text = file_of(files, held.substr(src + 6));
      CHECK(text.find("</script") == std::string::npos);
      out +=
          fmt::format("<script type=\"text/plain\" {}>\n{}</script>\n", held.substr(0, src), text);
    } else if (const std::size_t policy = line.find(kScripts);
               live && policy != std::string_view::npos) {
      out += fmt::format("{}{}{}\n", line.substr(0, policy + kScripts.size()), kEngines,
                         line.substr(policy + kScripts.size()));
    } else if (line == "<script type=\"application/json\" id=\"data\"></script>") {
      out +=
          fmt::format("<script type=\"application/json\" id=\"data\">{}</script>\n", escaped(data));
    } else {
      out += fmt::format("{}\n", line);
    }
  }
  return out;
}

Status check_html_page(const std::string& path, bool live) {
  if (path.empty()) return Done{};
  ASSIGN_OR_RETURN([[maybe_unused]] const PageFiles files, load_page_files(live));
  return check_writable(path);
}

Status write_html_page(const PageData& data, const std::string& path, bool live) {
  ASSIGN_OR_RETURN(const PageFiles files, load_page_files(live));
  return write_file(path, html_page(files, to_text(data)));
}

}  // namespace tandem
