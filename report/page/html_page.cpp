// Makes a report page that is one file and opens offline: copies page.html line by line, with the
// style sheet, the scripts, D3 and the data in place of the lines that name them.
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
// The part of the page's Content-Security-Policy that allows its scripts, and the addition that
// allows the engine of a live page.
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
  for (const char& c : json)
    text += c == '<' ? std::string_view("\\u003c") : std::string_view(&c, 1);
  return text;
}

// Adds a file that is built, not shipped, unless the data folder had it. `missing`: the Error if it
// is found nowhere.
Status add_built_file(const char* file, const std::string& missing, PageFiles* files) {
  if (files->contains(file)) return Done{};
  std::error_code failed;
  const fs::path program = own_folder();
  for (const fs::path& folder : {program, program.parent_path()}) {
    for (const fs::path& place : {folder / file, folder / "wasm" / file}) {
      if (!fs::is_regular_file(place, failed)) continue;
      ASSIGN_OR_RETURN((*files)[file], read_file(place.string()));
      return Done{};
    }
  }
  return Error{missing, Error::Missing};
}

// Returns a script without the lines that are comments, which are 20 kB of a page. Not for a
// library, whose licence is a comment.
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

// Returns a script's element. REQUIRES: the text does not end the element.
std::string script_element(std::string_view attributes, const std::string& text) {
  CHECK(text.find("</script") == std::string::npos);
  return fmt::format("<script{}>\n{}</script>\n", attributes, text);
}

// Returns a line of page.html with the file that it names, or the data, put into it. Empty: only
// live pages have the line.
std::string filled_line(std::string_view line, const PageFiles& files, std::string_view data) {
  constexpr std::string_view kData = "<script type=\"application/json\" id=\"data\"></script>";
  const bool live = files.contains(kEngine);
  if (line == kData)
    return fmt::format("<script type=\"application/json\" id=\"data\">{}</script>\n",
                       escaped(data));
  if (const auto name = between(line, "<link rel=\"stylesheet\" href=\"", "\">"); !name.empty())
    return fmt::format("<style>\n{}</style>\n", file_of(files, name));
  if (const auto name = between(line, "<script src=\"", "\"></script>"); !name.empty()) {
    const std::string& script = file_of(files, name);
    return script_element("", name == kLibrary ? script : without_comments(script));
  }
  if (const auto attributes = between(line, "<script", "\"></script>");
      attributes.starts_with(" type=\"text/plain\" ")) {
    if (!live) return "";
    constexpr std::string_view kSource = " src=\"";
    const std::size_t source = attributes.find(kSource);
    return script_element(attributes.substr(0, source),
                          file_of(files, attributes.substr(source + kSource.size())));
  }
  if (const std::size_t policy = line.find(kScripts); live && policy != std::string_view::npos) {
    const std::size_t end = policy + kScripts.size();
    return fmt::format("{}{}{}\n", line.substr(0, end), kEngines, line.substr(end));
  }
  return fmt::format("{}\n", line);
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
  RETURN_IF_ERROR(add_built_file(
      kLibrary,
      fmt::format("--report: found no {0} beside the program, expected D3 (Debian's node-d3) when "
                  "Tandem is built, or its {0} there",
                  kLibrary),
      &files));
  if (!live) {
    files.erase(kEngine);  // a page with the engine is live
    return files;
  }
  for (const char* file : {kGlue, kEngine})
    RETURN_IF_ERROR(add_built_file(
        file,
        fmt::format(
            "a live page: found no {} beside the program, expected ./dev wasm to have built "
            "it",
            file),
        &files));
  return files;
}

std::string html_page(const PageFiles& files, std::string_view data) {
  std::string out;
  std::string_view page = file_of(files, "page.html");
  while (!page.empty()) {
    const std::size_t end = std::min(page.find('\n'), page.size() - 1) + 1;
    std::string_view line = page.substr(0, end);
    page.remove_prefix(end);
    while (line.ends_with('\n')) line.remove_suffix(1);
    out += filled_line(line, files, data);
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
