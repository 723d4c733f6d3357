// YAML as a DocumentNode: the only file that names the YAML library. A build without the library
// (the executor's, which has only headers) gives an Error when a YAML file is read. Declared in
// interop/document/document.h.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "interop/document/document.h"

#ifdef TANDEM_YAML
#include <yaml-cpp/yaml.h>

namespace tandem {
namespace {

// Aliases can make a huge document of a short file.
constexpr int kMostNodes = 1'000'000;

struct TooLarge {};

// Adds the fields of a map whose names are not in `names` yet, or those of a list of maps, the
// first one first: what the merge key "<<" names.
void merge(DocumentNode from, std::set<std::string>* names, DocumentNode::Map* to) {
  if (auto* maps = std::get_if<DocumentNode::List>(&from.value)) {
    for (DocumentNode& map : *maps) merge(std::move(map), names, to);
  } else if (auto* fields = std::get_if<DocumentNode::Map>(&from.value)) {
    for (DocumentField& field : *fields) {
      if (names->insert(field.key).second) to->push_back(std::move(field));
    }
  } else {
    YAML::Mark mark;
    mark.line = from.line - 1;
    throw YAML::Exception(mark, "<< of " + from.text());
  }
}

// Copies a node. Depth and nodes are limited, as an alias may stand for a node that it is part of,
// which never ends: `a: &x [*x]`.
DocumentNode node_of(const YAML::Node& from, int depth, int* nodes) {
  if (++*nodes > kMostNodes || depth > kMostDepth) throw TooLarge();
  const int line = from.Mark().line + 1;
  if (from.IsSequence()) {
    DocumentNode::List list;
    for (const YAML::Node& item : from) list.push_back(node_of(item, depth + 1, nodes));
    return {std::move(list), line};
  }
  if (from.IsMap()) {
    DocumentNode::Map map;  // its own fields, and those merged ones that it does not have
    std::set<std::string> names;
    std::set<std::pair<std::string, std::string>> scalars;  // its fields of one value, with these
    std::vector<DocumentNode> merged;
    for (const auto& field : from) {
      if (!field.first.IsScalar()) continue;
      // The same value a second time says nothing else.
      if (field.second.IsScalar() &&
          !scalars.emplace(field.first.Scalar(), field.second.Tag() + field.second.Scalar()).second)
        continue;
      DocumentNode value = node_of(field.second, depth + 1, nodes);
      value.line = field.first.Mark().line + 1;
      if (field.first.Scalar() == "<<" && field.first.Tag() != "!") {
        merged.push_back(std::move(value));
      } else {
        names.insert(field.first.Scalar());
        map.push_back({field.first.Scalar(), std::move(value)});
      }
    }
    for (DocumentNode& node : merged) merge(std::move(node), &names, &map);
    return {std::move(map), line};
  }
  if (!from.IsScalar()) return {{}, line};
  // The tag "!" marks a text in quotes.
  return from.Tag() == "!" ? DocumentNode{from.Scalar(), line} : plain_scalar(from.Scalar(), line);
}

}  // namespace

Result<DocumentNode> parse_yaml(const std::string& text, const std::string& path) {
  try {
    int nodes = 0;
    std::vector<YAML::Node> documents = YAML::LoadAll(text);
    while (documents.size() > 1 && documents.back().IsNull()) documents.pop_back();  // "---" alone
    if (documents.size() > 1)
      return Error::at(fmt::format("{}:{}", path, std::max(documents[1].Mark().line, 0) + 1),
                       fmt::format("found {} documents of YAML, expected one", documents.size()));
    DocumentNode root = node_of(documents.empty() ? YAML::Node() : documents[0], 0, &nodes);
    RETURN_IF_ERROR(check_unique(root, path));
    return root;
  } catch (const YAML::Exception& error) {
    return Error::at(fmt::format("{}:{}", path, error.mark.line + 1),
                     fmt::format("found text that is not YAML ({}), expected YAML", error.msg));
  } catch (const TooLarge&) {
    return Error::at(path, fmt::format("found more than {} values or {} levels, expected fewer",
                                       kMostNodes, kMostDepth));
  }
}

}  // namespace tandem

#else

namespace tandem {

Result<DocumentNode> parse_yaml(const std::string&, const std::string& path) {
  return Error{path + ": found YAML, expected a build with yaml-cpp, which this one is not",
               Error::Missing};
}

}  // namespace tandem

#endif
