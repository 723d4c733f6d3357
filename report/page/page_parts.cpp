#include "report/page/page_parts.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/nearest.h"

namespace tandem {
namespace {

constexpr std::string_view kClose = " -->";
constexpr std::string_view kEnd = "<!-- end -->";

struct PageLine {
  std::string_view text;  // with its line end
  std::string_view bare;  // without its line end
  int number = 0;         // from 1
};

std::vector<PageLine> lines_of(std::string_view page) {
  std::vector<PageLine> lines;
  while (!page.empty()) {
    const std::size_t end = std::min(page.find('\n'), page.size() - 1) + 1;
    std::string_view bare = page.substr(0, end);
    while (bare.ends_with('\n') || bare.ends_with('\r')) bare.remove_suffix(1);
    lines.push_back({page.substr(0, end), bare, static_cast<int>(lines.size()) + 1});
    page.remove_prefix(end);
  }
  return lines;
}

// `begun`: the line that began the part.
Error no_end(const std::string& path, int begun) {
  return Error::at(fmt::format("{}:{}", path, begun),
                   fmt::format("found no end of this part, expected a line '{}' before the next "
                               "part and the page's end",
                               kEnd));
}

}  // namespace

Result<std::string> with_parts(const std::string& page, const std::string& path,
                               std::string_view maker, const std::vector<PagePart>& parts) {
  const std::string begin = fmt::format("<!-- made by {}: ", maker);
  std::vector<std::string> names;
  for (const PagePart& part : parts) names.push_back(part.name);
  std::string out;
  int begun = 0;    // the line that began this part; 0: the line is in no part
  int updated = 0;  // parts replaced
  for (const PageLine& line : lines_of(page)) {
    const bool begins = line.bare.starts_with(begin) && line.bare.ends_with(kClose);
    if (begun > 0) {
      if (begins) return no_end(path, begun);
      if (line.bare != kEnd) continue;  // the part's text replaces the line
      begun = 0;
    }
    out += line.text;
    if (!begins) continue;
    const std::string name(
        line.bare.substr(begin.size(), line.bare.size() - begin.size() - kClose.size()));
    const auto part = std::ranges::find(parts, name, &PagePart::name);
    if (part == parts.end())
      return Error::at(fmt::format("{}:{}", path, line.number),
                       fmt::format("found the part '{}', expected one of {}; the nearest is '{}'",
                                   name, fmt::join(names, ", "), nearest(name, names)));
    out += "\n" + part->text + "\n";
    begun = line.number;
    ++updated;
  }
  if (begun > 0) return no_end(path, begun);
  if (updated == 0)
    return Error::at(path, fmt::format("found no part, expected a line '{}PART{}', PART one of {}",
                                       begin, kClose, fmt::join(names, ", ")));
  return out;
}

}  // namespace tandem
