// Reads the files of a job: a trace for each rank, x.0.et, x.1.et and so on (or x.0.json), and the
// process groups in x.groups.json. Reads the JSON form of a trace, too. Declared in
// interop/chakra/chakra_file.h.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <set>

#include "base/csv.h"
#include "base/file.h"
#include "base/gzip.h"
#include "interop/chakra/chakra_fields.h"
#include "interop/chakra/chakra_file.h"
#include "interop/document/document.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

// The parts of "x.3.et": "x", 3 and "et".
struct RankPath {
  std::string prefix, ending;
  std::int32_t rank = 0;
};

std::optional<RankPath> rank_path(const std::string& path) {
  const std::size_t ending = path.rfind('.');
  if (ending == std::string::npos || ending == 0) return std::nullopt;
  const std::size_t digits = path.rfind('.', ending - 1);
  if (digits == std::string::npos) return std::nullopt;
  RankPath parts{path.substr(0, digits), path.substr(ending + 1), 0};
  if (parts.ending != "et" && parts.ending != "json") return std::nullopt;
  const std::string number = path.substr(digits + 1, ending - digits - 1);
  if (number.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  const auto rank = parse_integer(number);
  if (!rank.ok() || *rank > std::numeric_limits<std::int32_t>::max()) return std::nullopt;
  parts.rank = static_cast<std::int32_t>(*rank);
  return parts;
}

// Returns the ranks that have a file with this prefix and ending.
std::set<std::int32_t> ranks_with_files(const RankPath& parts) {
  std::set<std::int32_t> ranks;
  const fs::path folder = fs::path(parts.prefix).parent_path();
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder.empty() ? "." : folder, ignored)) {
    const auto other = rank_path((folder / entry.path().filename()).string());
    if (other && other->prefix == parts.prefix && other->ending == parts.ending)
      ranks.insert(other->rank);
  }
  return ranks;
}

Error node_error(const std::string& path, const DocumentNode& node, std::string_view message) {
  return Error::at(fmt::format("{}:{}", path, node.line), std::string(message));
}

// Returns the integer of that key, where true is 1 and false 0; nothing: the key is not there.
Result<std::optional<std::int64_t>> integer_at(const DocumentNode& node, std::string_view key,
                                               const std::string& path) {
  const DocumentNode* value = node.find(key);
  if (value == nullptr) return std::optional<std::int64_t>();
  if (const auto* flag = std::get_if<bool>(&value->value))
    return std::optional<std::int64_t>(*flag ? 1 : 0);
  if (const auto* integer = std::get_if<std::int64_t>(&value->value))
    return std::optional<std::int64_t>(*integer);
  return node_error(path, *value,
                    fmt::format("{}: found {}, expected an integer", key, value->text()));
}

Status read_ids(const DocumentNode& node, std::string_view key, const std::string& path,
                std::vector<std::uint64_t>* to) {
  const DocumentNode* ids = node.find(key);
  if (ids == nullptr) return Done{};
  const DocumentNode::List* list = ids->list();
  if (list == nullptr)
    return node_error(path, *ids, fmt::format("{}: found {}, expected a list", key, ids->text()));
  for (const DocumentNode& id : *list) {
    const auto* number = std::get_if<std::int64_t>(&id.value);
    if (number == nullptr || *number < 0)
      return node_error(path, id,
                        fmt::format("{}: found {}, expected a node's id", key, id.text()));
    to->push_back(static_cast<std::uint64_t>(*number));
  }
  return Done{};
}

// Returns whether a list of flags, one for each dimension of the network, holds a false.
bool leaves_some_out(const DocumentNode& flags) {
  return flags.list() != nullptr && std::ranges::any_of(*flags.list(), [](const auto& flag) {
           const bool* value = std::get_if<bool>(&flag.value);
           return value != nullptr && !*value;
         });
}

Result<ChakraNode> json_node(const DocumentNode& from, const std::string& path) {
  ChakraNode node;
  ASSIGN_OR_RETURN(const auto id, integer_at(from, "Id", path));
  ASSIGN_OR_RETURN(const auto type, integer_at(from, "NodeType", path));
  ASSIGN_OR_RETURN(const auto runtime, integer_at(from, "runtime", path));
  ASSIGN_OR_RETURN(const auto is_cpu_op, integer_at(from, "is_cpu_op", path));
  if (!id || *id < 0) return node_error(path, from, "found a node without an Id, expected one");
  if (!type || *type < 1 || *type > static_cast<std::int64_t>(ChakraType::Collective))
    return node_error(path, from,
                      fmt::format("node {}: found {}, expected a NodeType from 1 to 7", *id,
                                  type ? fmt::format("NodeType {}", *type) : "none"));
  if (runtime.value_or(0) < 0)
    return node_error(path, from,
                      fmt::format("runtime: found {}, expected none below 0", *runtime));
  node.id = static_cast<std::uint64_t>(*id);
  node.type = static_cast<ChakraType>(*type);
  node.duration_us = static_cast<std::uint64_t>(runtime.value_or(0));
  node.is_cpu_op = is_cpu_op.value_or(0) != 0;
  for (const ChakraInteger& integer : kChakraIntegers) {
    ASSIGN_OR_RETURN(node.*integer.value, integer_at(from, integer.name, path));
  }
  const auto read_text = [&](std::string_view key, std::string* to) {
    if (const DocumentNode* value = from.find(key)) {
      const auto* plain = std::get_if<std::string>(&value->value);
      *to = plain != nullptr ? *plain : value->text();
    }
  };
  if (const DocumentNode* dimensions = from.find("involved_dim"); dimensions != nullptr)
    node.some_dimensions = leaves_some_out(*dimensions);
  read_text("Name", &node.name);
  for (const ChakraText& field : kChakraTexts) read_text(field.name, &(node.*field.value));
  RETURN_IF_ERROR(read_ids(from, "data_deps", path, &node.data_deps));
  RETURN_IF_ERROR(read_ids(from, "ctrl_deps", path, &node.ctrl_deps));
  return node;
}

Result<ChakraGroups> read_groups(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, read_maybe_gzip(path));
  ASSIGN_OR_RETURN(const DocumentNode document, parse_json(text, path));
  if (document.map() == nullptr)
    return Error::at(path, R"(found no object, expected process groups: {"1": [0, 1]})");
  ChakraGroups groups;
  for (const auto& [name, members] : *document.map()) {
    if (members.list() == nullptr || members.list()->empty())
      return node_error(
          path, members,
          fmt::format("group '{}': found {}, expected a list of ranks", name, members.text()));
    std::set<std::int64_t> seen;
    for (const DocumentNode& member : *members.list()) {
      const auto* rank = std::get_if<std::int64_t>(&member.value);
      if (rank == nullptr || *rank < 0 || *rank > std::numeric_limits<std::int32_t>::max() ||
          !seen.insert(*rank).second)
        return node_error(
            path, member,
            fmt::format("group '{}': found {}, expected ranks, each once", name, member.text()));
      groups[name].push_back(static_cast<std::int32_t>(*rank));
    }
  }
  return groups;
}

}  // namespace

std::string ChakraJob::path(std::int32_t rank) const {
  return fmt::format("{}.{}.{}", prefix, rank, ending);
}

bool is_chakra_path(const std::string& path) {
  const auto parts = rank_path(path);
  if (!parts || parts->ending == "et") return parts.has_value();
  const auto text = read_maybe_gzip(path);
  return text.ok() && text->find("\"workload_graph\"") != std::string::npos;
}

Result<ChakraTrace> parse_chakra_json(const std::string& text, const std::string& path) {
  ASSIGN_OR_RETURN(const DocumentNode document, parse_json(text, path));
  const DocumentNode* graph = document.find("workload_graph");
  if (graph == nullptr || graph->list() == nullptr)
    return Error::at(path, "found no list 'workload_graph', expected Chakra's JSON form");
  ChakraTrace trace;
  for (const DocumentNode& node : *graph->list()) {
    ASSIGN_OR_RETURN(ChakraNode read, json_node(node, path));
    trace.nodes.push_back(std::move(read));
  }
  return trace;
}

Result<ChakraJob> read_chakra_job(const std::string& path, const std::string& groups_path) {
  const auto parts = rank_path(path);
  if (!parts)
    return Error::at(path, "found a name without a rank, expected PREFIX.0.et or PREFIX.0.json");
  RETURN_IF_ERROR(check_readable(path, "a rank's Chakra trace"));
  ChakraJob job{.prefix = parts->prefix, .ending = parts->ending};
  std::int32_t expected = 0;
  for (const std::int32_t rank : ranks_with_files(*parts)) {
    if (rank != expected)
      return Error::at(job.path(expected),
                       fmt::format("found no such file beside {}, expected one for every rank",
                                   fs::path(job.path(rank)).filename().string()));
    ++expected;
  }
  for (std::int32_t rank = 0; rank < expected; ++rank) {
    ASSIGN_OR_RETURN(const std::string bytes, read_maybe_gzip(job.path(rank)));
    ASSIGN_OR_RETURN(ChakraTrace trace, parts->ending == "et"
                                            ? decode_chakra(bytes, job.path(rank))
                                            : parse_chakra_json(bytes, job.path(rank)));
    job.ranks.push_back(std::move(trace));
  }
  job.groups_path = groups_path;
  const std::string usual_path = job.prefix + ".groups.json";
  if (groups_path.empty() && fs::exists(usual_path)) job.groups_path = usual_path;
  if (!job.groups_path.empty()) {
    ASSIGN_OR_RETURN(job.groups, read_groups(job.groups_path));
  }
  return job;
}

std::string groups_json(const ChakraGroups& groups) {
  std::string text;
  for (const auto& [name, members] : groups)
    text +=
        fmt::format("{}\n  \"{}\": [{}]", text.empty() ? "" : ",", name, fmt::join(members, ", "));
  return groups.empty() ? "{}\n" : "{" + text + "\n}\n";
}

}  // namespace tandem
