// Reads Slurm's topology.conf: a tree of switches, or blocks. It names hosts, and states no rate.
// Declared in interop/topology/readers.h.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>
#include <vector>

#include "base/split.h"
#include "interop/topology/readers.h"
#include "interop/topology/switch_tree.h"

namespace tandem {
namespace {

// The words of a line without its comment, joined with the next line where it ends in a backslash.
struct SlurmLine {
  int number = 0;  // of the first line
  std::vector<std::string> words;
};

std::vector<SlurmLine> lines_of(std::string_view text) {
  std::vector<SlurmLine> lines;
  std::string begun;
  int number = 0, first = 0;
  for (const std::string& whole : split(text, "\n")) {
    if (begun.empty()) first = number + 1;
    ++number;
    std::string_view line = whole;
    if (line.ends_with('\r')) line.remove_suffix(1);
    begun += line.substr(0, line.find('#'));
    if (begun.ends_with('\\')) {
      begun.pop_back();
      continue;
    }
    lines.push_back({first, split_words(std::exchange(begun, ""))});
  }
  lines.push_back({first, split_words(begun)});
  std::erase_if(lines, [](const SlurmLine& line) { return line.words.empty(); });
  return lines;
}

// Returns the name of "Name=value" in small letters.
std::string name_of(const std::string& word) { return lower_case(word.substr(0, word.find('='))); }

constexpr std::array<std::string_view, 6> kNames = {"switchname", "switches",  "nodes",
                                                    "linkspeed",  "blockname", "blocksizes"};

// Returns a line's values by name. Errors: a name that is not known or comes twice.
Result<std::map<std::string, std::string>> values_of(const TopologySource& source,
                                                     const SlurmLine& line) {
  std::map<std::string, std::string> values;
  for (const std::string& word : line.words) {
    const std::string name = name_of(word);
    const std::size_t equals = word.find('=');
    const bool is_known = std::ranges::find(kNames, name) != kNames.end();
    if (!is_known || equals == word.npos || !values.emplace(name, word.substr(equals + 1)).second)
      return Error::at(source.at(line.number),
                       fmt::format("found '{}', expected SwitchName=, Switches=, Nodes= and "
                                   "LinkSpeed=, or BlockName= and Nodes=, or BlockSizes=, each "
                                   "once: a tree or blocks",
                                   word));
  }
  return values;
}

}  // namespace

// A file with RingName= is Slurm's, too: read_slurm_conf() then says that it expects a tree or
// blocks.
bool is_slurm_conf(std::string_view text) {
  const std::vector<SlurmLine> lines = lines_of(text);
  return !lines.empty() && std::ranges::any_of(lines.front().words, [](const std::string& word) {
    const std::string name = name_of(word);
    return name == "switchname" || name == "blockname" || name == "blocksizes" ||
           name == "ringname";
  });
}

Status read_slurm_conf(const TopologySource& source, ImportedTopology* topology) {
  SwitchTree tree(source.path, "Slurm topology.conf");
  for (const SlurmLine& line : lines_of(source.text)) {
    ASSIGN_OR_RETURN(auto values, values_of(source, line));
    if (values.contains("blockname")) {
      RETURN_IF_ERROR(tree.add_block(line.number, values["blockname"], values["nodes"]));
    } else if (!values.contains("blocksizes")) {
      RETURN_IF_ERROR(
          tree.add_switch(line.number, values["switchname"], values["switches"], values["nodes"]));
    }
  }
  return tree.add_to(topology);
}

}  // namespace tandem
