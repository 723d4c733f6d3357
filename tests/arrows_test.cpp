// Arrows: which folder includes which. docs/architecture.md has the table of what is allowed.
#include <map>
#include <set>

#include "tests/sources.h"

using namespace tandem;

namespace {

std::string folder_of(const std::string& path) { return fs::path(path).parent_path().string(); }
std::string module_of(const std::string& path) { return path.substr(0, path.find('/')); }

// What includes what: folders, or modules, by name.
using Arrows = std::map<std::string, std::set<std::string>>;

// Returns what docs/architecture.md calls the target of an include: the folder if both are of one
// module, else the other module; nothing inside one folder.
std::string arrow_to(const std::string& from, const std::string& to) {
  if (from == to) return "";
  return module_of(from) == module_of(to) ? to : module_of(to);
}

// Returns the words in backquotes of a cell.
Lines quoted_words(const std::string& cell) {
  Lines words;
  std::istringstream in(cell);
  for (std::string word; std::getline(in, word, '`') && std::getline(in, word, '`');)
    words.push_back(word);
  return words;
}

// Returns the rows of the table below "## Arrows" in docs/architecture.md: a folder, the folders of
// its module and the other modules that it may include, and why.
Arrows allowed_arrows() {
  Arrows arrows;
  bool inside = false;
  for (const std::string& line : lines_of(contents(kSource / "docs/architecture.md"))) {
    if (line.starts_with("## ")) inside = line == "## Arrows";
    if (!inside || !line.starts_with("| `")) continue;
    const std::size_t second = line.find('|', 1), third = line.find('|', second + 1);
    const Lines names = quoted_words(line.substr(0, second));
    const Lines tos = quoted_words(line.substr(second, third - second));
    REQUIRE(names.size() == 1);
    arrows[names.front()] = {tos.begin(), tos.end()};
  }
  return arrows;
}

// Returns the nodes that stay when again and again those without arrows to others are removed:
// the circles, and what points to them.
std::set<std::string> in_a_circle(Arrows arrows) {
  for (bool removed = true; removed;) {
    removed = false;
    for (auto at = arrows.begin(); at != arrows.end();) {
      std::erase_if(at->second, [&](const std::string& to) { return arrows.count(to) == 0; });
      removed = removed || at->second.empty();
      at = at->second.empty() ? arrows.erase(at) : std::next(at);
    }
  }
  std::set<std::string> left;
  for (const auto& [from, tos] : arrows) left.insert(from);
  return left;
}

// Returns the files that these folders include, directly or through others, a header's source with
// it; their own files too.
std::set<std::string> reached_from(const std::vector<std::string>& folders) {
  std::map<std::string, Source> sources;
  for (Source& source : module_sources()) sources[source.path] = std::move(source);
  std::set<std::string> reached;
  std::vector<std::string> next;
  const auto reach = [&](const std::string& path) {
    if (sources.count(path) == 1 && reached.insert(path).second) next.push_back(path);
  };
  for (const auto& [path, source] : sources) {
    for (const std::string& folder : folders) {
      if (path.starts_with(folder + '/')) reach(path);
    }
  }
  while (!next.empty()) {
    const std::string path = next.back();
    next.pop_back();
    for (const std::string& header : includes_of(sources.at(path), '"')) {
      reach(header);
      reach(header.substr(0, header.rfind('.')) + ".cpp");
    }
  }
  return reached;
}

}  // namespace

TEST_CASE("a folder includes what its row in docs/architecture.md allows, and no more is allowed") {
  const Arrows allowed = allowed_arrows();
  Arrows used;
  for (const Source& source : module_sources()) {
    for (const std::string& header : includes_of(source, '"')) {
      INFO(source.path << " includes " << header);
      CHECK(exists(header));
      const std::string from = source.folder(), to = arrow_to(from, folder_of(header));
      if (to.empty()) continue;
      CHECK(allowed.count(from) == 1);
      CHECK((allowed.count(from) == 1 && allowed.at(from).count(to) == 1));
      used[from].insert(to);
    }
  }
  for (const auto& [from, tos] : allowed) {
    for (const std::string& to : tos) {
      INFO(from << " may include " << to << ", and does not");
      CHECK((used.count(from) == 1 && used.at(from).count(to) == 1));
    }
  }
}

TEST_CASE("neither folders nor modules include each other in a circle") {
  Arrows folders, modules;
  for (const Source& source : module_sources()) {
    for (const std::string& header : includes_of(source, '"')) {
      const std::string from = source.folder(), to = folder_of(header);
      if (from != to) folders[from].insert(to);
      if (module_of(from) != module_of(to)) modules[module_of(from)].insert(module_of(to));
    }
  }
  CHECK(folders.size() > 40);
  for (const std::string& folder : in_a_circle(folders)) FAIL_CHECK(folder << " is in a circle");
  for (const std::string& name : in_a_circle(modules)) FAIL_CHECK(name << " is in a circle");
}

TEST_CASE("jobs and all that they are made of know no process, thread, socket or executor") {
  const std::set<std::string> reached = reached_from({"job"});
  CHECK(reached.size() > 200);
  const std::regex system("#include <(thread|future|dlfcn.h|sys/(wait|socket|mman).h|poll.h)>");
  for (const std::string& path : reached) {
    INFO(path);
    const std::string module_name = module_of(path);
    CHECK((module_name != "launch" && module_name != "exec" && module_name != "sim"));
    if (path == "base/own_folder.cpp") continue;  // asks the loader where the program lies
    for (const std::string& line : lines_of(contents(kSource / path)))
      CHECK(!std::regex_search(line, system));
  }
}
