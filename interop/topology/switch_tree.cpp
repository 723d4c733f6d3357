#include "interop/topology/switch_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/hostlist.h"
#include "base/xml.h"

namespace tandem {

Result<std::vector<std::string>> SwitchTree::names(int line, const std::string& list) const {
  if (list.empty()) return std::vector<std::string>{};
  auto names = parse_hostlist(list);
  if (!names.ok()) return Error::at(at(line), names.error().message);
  return names;
}

// Checks that a name is not empty, is new, and can be a device's name in a list of cables.
Status SwitchTree::check_name(int line, std::string_view kind, const std::string& name,
                              std::map<std::string, int>* lines) const {
  if (name.empty())
    return Error::at(at(line), fmt::format("found a {} without a name, expected one", kind));
  const bool is_plain = std::ranges::all_of(
      name, [](unsigned char c) { return c > ' ' && c != 0x7f && c != '"' && c != '\''; });
  if (!is_plain)
    return Error::at(at(line), fmt::format("found {} '{}', expected a name without blanks and "
                                           "quotes",
                                           kind, one_line(name)));
  const auto [other, is_new] = lines->try_emplace(name, line);
  if (is_new) return Done{};
  return Error::at(at(line), fmt::format("found {} '{}' a second time, after line {}, expected "
                                         "each once",
                                         kind, name, other->second));
}

Status SwitchTree::add_switch(int line, const std::string& name, const std::string& switches,
                              const std::string& hosts) {
  RETURN_IF_ERROR(check_name(line, "switch", name, &switch_lines_));
  if (switches.empty() && hosts.empty())
    return Error::at(at(line), fmt::format("found switch '{}' with neither switches nor nodes "
                                           "below it, expected one of them",
                                           name));
  Switch added{name, line, {}, {}};
  ASSIGN_OR_RETURN(added.switches, names(line, switches));
  ASSIGN_OR_RETURN(added.hosts, names(line, hosts));
  switches_.push_back(std::move(added));
  return Done{};
}

Status SwitchTree::add_block(int line, const std::string& name, const std::string& hosts) {
  RETURN_IF_ERROR(check_name(line, "block", name, &block_lines_));
  if (hosts.empty())
    return Error::at(at(line), fmt::format("found block '{}' without nodes, expected some", name));
  Block added{line, {name, {}}};
  ASSIGN_OR_RETURN(added.domain.hosts, names(line, hosts));
  blocks_.push_back(std::move(added));
  return Done{};
}

// Walks up from each switch, until the root or a switch that any walk has visited. If that was this
// walk, the switches form a cycle.
Status SwitchTree::check_no_cycle(const std::map<std::string, std::string>& above) const {
  std::map<std::string, std::size_t> walk_at;
  for (std::size_t walk = 0; walk < switches_.size(); ++walk) {
    const std::string* here = &switches_[walk].name;
    while (walk_at.try_emplace(*here, walk).second && above.contains(*here))
      here = &above.at(*here);
    if (walk_at.at(*here) == walk && above.contains(*here))
      return Error::at(at(switch_lines_.at(*here)),
                       fmt::format("found switch '{}' below itself, expected a tree", *here));
  }
  return Done{};
}

Result<ImportedFabric> SwitchTree::fabric() const {
  ImportedFabric fabric;
  std::set<std::string> known;
  std::map<std::string, std::string> above;      // a switch -> the one above it
  std::map<std::string, std::string> at_switch;  // a host -> its switch
  for (const Switch& one : switches_) {
    known.insert(one.name);
    fabric.switches.push_back(one.name);
  }
  for (const Switch& one : switches_) {
    for (const std::string& below : one.switches) {
      if (!known.contains(below))
        return Error::at(at(one.line), fmt::format("found switch '{}' below '{}', expected one "
                                                   "that has a line of its own",
                                                   below, one.name));
      if (!above.emplace(below, one.name).second)
        return Error::at(at(one.line), fmt::format("found switch '{}' below '{}' and '{}', "
                                                   "expected a tree",
                                                   below, above[below], one.name));
      fabric.cables.push_back({below, one.name});
    }
    for (const std::string& host : one.hosts) {
      if (known.contains(host))
        return Error::at(at(one.line),
                         fmt::format("found '{}' as a host and a switch, expected one", host));
      if (!at_switch.emplace(host, one.name).second)
        return Error::at(at(one.line), fmt::format("found host '{}' at '{}' and '{}', expected "
                                                   "it at one switch",
                                                   host, at_switch[host], one.name));
      fabric.hosts.push_back({host, {{.device = "", .at = one.name}}});
    }
  }
  RETURN_IF_ERROR(check_no_cycle(above));
  if (fabric.hosts.empty())
    return Error::at(path_,
                     fmt::format("found {} switches and no host, expected some", switches_.size()));
  std::ranges::stable_sort(fabric.hosts, in_natural_order, &FabricHost::name);
  return fabric;
}

Status SwitchTree::add_to(ImportedTopology* topology) const {
  if (switches_.empty() && blocks_.empty())
    return Error::at(path_, "found neither switches nor blocks, expected some");
  std::map<std::string, std::string> block_of;
  for (const Block& block : blocks_) {
    for (const std::string& host : block.domain.hosts) {
      if (!block_of.emplace(host, block.domain.name).second)
        return Error::at(at(block.line), fmt::format("found host '{}' in blocks '{}' and '{}', "
                                                     "expected it in one",
                                                     host, block_of[host], block.domain.name));
    }
  }
  if (!switches_.empty()) {
    ASSIGN_OR_RETURN(ImportedFabric tree, fabric());
    if (topology->fabric) return Error::at(path_, "found a second file of a fabric, expected one");
    topology->fabric = std::move(tree);
  }
  if (!blocks_.empty() && !topology->domains.empty())
    return Error::at(path_, "found a second file of blocks, expected one");
  std::size_t hosts = switches_.empty() ? block_of.size() : topology->fabric->hosts.size();
  for (const Block& block : blocks_) topology->domains.push_back(block.domain);
  topology->sources.push_back(fmt::format("{} ({}, {} switches, {} blocks, {} hosts)", path_, kind_,
                                          switches_.size(), blocks_.size(), hosts));
  return Done{};
}

}  // namespace tandem
