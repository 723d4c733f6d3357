// Slurm's topology.conf: a tree of switches, or blocks. It names hosts, and states no rate.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "base/hostlist.h"
#include "base/split.h"
#include "interop/topology/readers.h"
#include "interop/topology/switch_tree.h"

namespace tandem {
namespace {

std::string lower(std::string_view text) {
  std::string small(text);
  std::ranges::transform(small, small.begin(), [](unsigned char c) { return std::tolower(c); });
  return small;
}

// "SwitchName=x Nodes=a[1-2]" by its names in small letters; what is behind # is a comment.
std::map<std::string, std::string> words_of_line(std::string_view line) {
  std::map<std::string, std::string> words;
  const std::string text(line.substr(0, line.find('#')));
  std::size_t at = 0;
  while ((at = text.find_first_not_of(" \t\r", at)) != std::string::npos) {
    const std::size_t end = std::min(text.size(), text.find_first_of(" \t\r", at));
    const std::string word = text.substr(at, end - at);
    const std::size_t equals = word.find('=');
    words[lower(word.substr(0, equals))] =
        equals == std::string::npos ? "" : word.substr(equals + 1);
    at = end;
  }
  return words;
}

}  // namespace

bool is_slurm_conf(std::string_view text) {
  for (const std::string& line : split(text, "\n")) {
    const auto words = words_of_line(line);
    for (const char* name : {"switchname", "blockname", "blocksizes", "ringname"}) {
      if (words.contains(name)) return true;
    }
    if (!words.empty()) return false;
  }
  return false;
}

Status read_slurm_conf(const TopologySource& source, ImportedTopology* topology) {
  SwitchTree tree(source.path, "Slurm topology.conf");
  int number = 0;
  for (const std::string& line : split(source.text, "\n")) {
    ++number;
    const auto words = words_of_line(line);
    if (words.empty() || words.contains("blocksizes")) continue;
    const auto value = [&](const char* name) {
      const auto found = words.find(name);
      return found == words.end() ? std::string() : found->second;
    };
    if (words.contains("switchname")) {
      RETURN_IF_ERROR(
          tree.add_switch(number, value("switchname"), value("switches"), value("nodes")));
    } else if (words.contains("blockname")) {
      RETURN_IF_ERROR(tree.add_block(number, value("blockname"), value("nodes")));
    } else {
      return Error::at(source.at(number),
                       fmt::format("found '{}', expected SwitchName=, BlockName= or BlockSizes=: "
                                   "a tree or blocks",
                                   words.begin()->first));
    }
  }
  return tree.add_to(topology);
}

}  // namespace tandem
