// Reads Slurm's topology.yaml, a list of topologies, and topograph's model, which has switches by
// name and blocks of nodes below them. Neither states a rate. Declared in
// interop/topology/readers.h.
#include <fmt/format.h>

#include <utility>

#include "base/split.h"
#include "interop/document/document.h"
#include "interop/topology/readers.h"
#include "interop/topology/switch_tree.h"

namespace tandem {
namespace {

// Returns the names in a map's field, a text or a list, as one hostlist: "a[1-4],b".
Result<std::string> hostlist_in(const TopologySource& source, const DocumentNode& map,
                                std::string_view key) {
  const DocumentNode* node = map.find(key);
  if (node == nullptr || node->is_null()) return std::string();
  if (const auto* text = std::get_if<std::string>(&node->value)) return *text;
  std::string joined;
  if (const DocumentNode::List* list = node->list()) {
    for (const DocumentNode& item : *list) {
      if (item.list() != nullptr || item.map() != nullptr)
        return Error::at(source.at(item.line),
                         fmt::format("found '{}' in {}, expected names", item.text(), key));
      joined += (joined.empty() ? "" : ",") + item.text();
    }
    return joined;
  }
  if (node->map() != nullptr)
    return Error::at(source.at(node->line),
                     fmt::format("found {}: {}, expected names", key, node->text()));
  return node->text();  // a name that is a number
}

// Reads a topology's list of maps: {switch, children, nodes} or {block, nodes}.
Status read_list(const TopologySource& source, const DocumentNode& topology,
                 std::string_view list_key, std::string_view name_key, SwitchTree* tree) {
  const DocumentNode* list = topology.find(list_key);
  if (list == nullptr || list->list() == nullptr)
    return Error::at(source.at(topology.line),
                     fmt::format("found no list of {}, expected one", list_key));
  for (const DocumentNode& item : *list->list()) {
    ASSIGN_OR_RETURN(const std::string name, hostlist_in(source, item, name_key));
    ASSIGN_OR_RETURN(const std::string hosts, hostlist_in(source, item, "nodes"));
    if (name_key == "block") {
      RETURN_IF_ERROR(tree->add_block(item.line, name, hosts));
      continue;
    }
    ASSIGN_OR_RETURN(const std::string children, hostlist_in(source, item, "children"));
    RETURN_IF_ERROR(tree->add_switch(item.line, name, children, hosts));
  }
  return Done{};
}

bool is_default(const DocumentNode& topology) {
  const DocumentNode* flag = topology.find("cluster_default");
  return flag != nullptr && flag->is_true();
}

std::string name_of_topology(const DocumentNode& topology) {
  const DocumentNode* name = topology.find("topology");
  return name == nullptr ? "without a name" : name->text();
}

// Reads Slurm's list of topologies. Takes one tree and one list of blocks: of several, the one that
// is the cluster's default, else the first.
Status read_slurm(const TopologySource& source, const DocumentNode::List& list, SwitchTree* tree,
                  std::vector<std::string>* left_out) {
  constexpr std::string_view kKinds[2] = {"tree", "block"};
  const DocumentNode* chosen[2] = {nullptr, nullptr};  // by kind
  for (const DocumentNode& topology : list) {
    bool known = false;
    for (int kind = 0; kind < 2; ++kind) {
      if (topology.find(kKinds[kind]) == nullptr) continue;
      known = true;
      const DocumentNode* not_taken = &topology;
      if (chosen[kind] == nullptr || is_default(topology)) std::swap(not_taken, chosen[kind]);
      if (not_taken == nullptr) continue;
      left_out->push_back(fmt::format("{}: a second {}, of topology {}", source.path, kKinds[kind],
                                      name_of_topology(*not_taken)));
    }
    if (!known)
      left_out->push_back(fmt::format("{}: topology {}, which is neither a tree nor blocks",
                                      source.path, name_of_topology(topology)));
  }
  if (chosen[0] == nullptr && chosen[1] == nullptr)
    return Error::at(source.path, "found no tree and no blocks, expected one of them");
  if (chosen[0] != nullptr)
    RETURN_IF_ERROR(read_list(source, *chosen[0]->find("tree"), "switches", "switch", tree));
  if (chosen[1] != nullptr)
    RETURN_IF_ERROR(read_list(source, *chosen[1]->find("block"), "blocks", "block", tree));
  return Done{};
}

// Returns the NVLink domain of a block, from its annotation ".../domain" or ".../accelerator";
// empty: it has none.
std::string domain_of(const DocumentNode& block) {
  const DocumentNode* annotations = block.find("annotations");
  if (annotations == nullptr || annotations->map() == nullptr) return "";
  for (const DocumentField& field : *annotations->map()) {
    if (field.key.ends_with("/domain") || field.key.ends_with("/accelerator"))
      return field.value.text();
  }
  return "";
}

Status read_topograph(const TopologySource& source, const DocumentNode& model, SwitchTree* tree) {
  const DocumentNode* switches = model.find("switches");
  if (switches != nullptr && switches->map() != nullptr) {
    for (const DocumentField& field : *switches->map()) {
      ASSIGN_OR_RETURN(const std::string below, hostlist_in(source, field.value, "switches"));
      ASSIGN_OR_RETURN(const std::string nodes, hostlist_in(source, field.value, "nodes"));
      RETURN_IF_ERROR(tree->add_switch(field.value.line, field.key, below, nodes));
    }
  }
  const DocumentNode* blocks = model.find("blocks");
  if (blocks == nullptr || blocks->list() == nullptr)
    return Error::at(source.at(model.line), "found no list of blocks, expected one");
  for (const DocumentNode& block : *blocks->list()) {
    ASSIGN_OR_RETURN(const std::string leaf, hostlist_in(source, block, "switch"));
    ASSIGN_OR_RETURN(const std::string nodes, hostlist_in(source, block, "nodes"));
    RETURN_IF_ERROR(tree->add_switch(block.line, leaf, "", nodes));
    const std::string domain = domain_of(block);
    if (!domain.empty()) RETURN_IF_ERROR(tree->add_block(block.line, domain, nodes));
  }
  return Done{};
}

}  // namespace

bool is_topology_yaml(std::string_view text) {
  bool blocks = false, switches = false;
  for (const std::string& line : split(text, "\n")) {
    if (line.starts_with("- topology:") || line.starts_with("- {topology:")) return true;
    switches |= line.starts_with("switches:");
    blocks |= line.starts_with("blocks:");
  }
  return blocks && switches;
}

Status read_topology_yaml(const TopologySource& source, ImportedTopology* topology) {
  ASSIGN_OR_RETURN(const DocumentNode document, parse_yaml(source.text, source.path));
  const bool is_slurm = document.list() != nullptr;
  SwitchTree tree(source.path, is_slurm ? "Slurm topology.yaml" : "topograph model");
  if (is_slurm) {
    RETURN_IF_ERROR(read_slurm(source, *document.list(), &tree, &topology->left_out));
  } else {
    RETURN_IF_ERROR(read_topograph(source, document, &tree));
  }
  return tree.add_to(topology);
}

}  // namespace tandem
