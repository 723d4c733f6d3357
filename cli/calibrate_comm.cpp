// tandem calibrate comm: fits a calibration to measured tables of communication.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/file.h"
#include "base/split.h"
#include "cli/cluster_input.h"
#include "cli/command_line/commands.h"
#include "cli/command_line/files.h"
#include "cli/command_line/text_width.h"
#include "interop/log/comm_log.h"
#include "job/site.h"
#include "launch/standard_output.h"
#include "report/text/comm_table.h"
#include "topology/gpu_names.h"
#include "topology/traffic.h"

namespace tandem {
namespace {

struct MeasuredCommOptions {
  std::vector<std::string> files;
  std::string cluster;
  std::string output;
  std::string op;
  int ranks = 0, nodes = 0, hosts_of_node = 0;  // 0: not given
  bool wide = false;
};

// An operation of so many ranks on so many nodes. Its tables are fitted together.
struct CommShape {
  CommKind kind;
  int ranks, nodes;

  auto operator<=>(const CommShape&) const = default;
};
struct MeasuredGroup {
  std::vector<LoggedTable> tables;
  std::vector<std::vector<DeviceId>> devices;  // by table: its ranks', the first of each node
};
using MeasuredGroups = std::map<CommShape, MeasuredGroup>;

// Returns how many ranks each node has. A node is `hosts_of_node` hosts in a row: by 2, hosts of 4,
// 4, 8 and 8 ranks are nodes of 8 and 16.
std::vector<int> joined_hosts(const std::vector<int>& ranks_of_host, std::size_t hosts_of_node) {
  std::vector<int> nodes;
  for (std::size_t host = 0; host < ranks_of_host.size(); ++host) {
    if (host % hosts_of_node == 0) nodes.push_back(0);
    nodes.back() += ranks_of_host[host];
  }
  return nodes;
}

// Returns how many ranks each node has. If the table names no hosts, all have equally many.
Result<std::vector<int>> ranks_of_nodes(const LoggedTable& table, const ClusterSpec& spec,
                                        const MeasuredCommOptions& options) {
  const auto fault = [&](const std::string& message) {
    return Error::at(fmt::format("{}:{}", table.path, table.line), message);
  };
  std::vector<int> nodes;
  const std::vector<int>& hosts = table.ranks_of_host;
  if (hosts.empty()) {
    if (options.nodes == 0)
      return fault(fmt::format("found a table of {} ranks without their hosts, expected --nodes",
                               table.ranks));
    if (table.ranks % options.nodes != 0)
      return fault(fmt::format("found {} ranks and --nodes {}, expected equally many on each node",
                               table.ranks, options.nodes));
    nodes.assign(static_cast<std::size_t>(options.nodes), table.ranks / options.nodes);
  } else {
    constexpr int kMostGpusOfHost = 16;  // a node of more is several hosts, such as an NVL72
    const bool may_be_joined = hosts.size() > 1 && spec.gpus_per_node > kMostGpusOfHost;
    if (may_be_joined && options.hosts_of_node == 0)
      return fault(
          fmt::format("found {} hosts and nodes of {} GPUs ({}), expected --hosts-per-node",
                      hosts.size(), spec.gpus_per_node, spec.name));
    nodes = joined_hosts(hosts, static_cast<std::size_t>(std::max(options.hosts_of_node, 1)));
  }
  if (const int most = std::ranges::max(nodes); most > spec.gpus_per_node)
    return fault(
        fmt::format("found {} ranks on a node, expected at most {}, the GPUs of a node of {}", most,
                    spec.gpus_per_node, spec.name));
  return nodes;
}

// Returns a line on the size that two tables measure farthest apart; empty: none is more than 10 %
// apart.
std::string largest_difference(const std::string& name, const LoggedTable& a,
                               const LoggedTable& b) {
  double worst_ratio = 1.1;
  std::string note;
  for (const LoggedTime& one : a.times) {
    for (const LoggedTime& other : b.times) {
      const double ratio = std::max(one.seconds / other.seconds, other.seconds / one.seconds);
      if (one.bytes != other.bytes || ratio <= worst_ratio) continue;
      worst_ratio = ratio;
      note = fmt::format(
          "{}: {} bytes take {:.4g} us in {}:{} and {:.4g} us in {}:{}; the fit has both", name,
          one.bytes, 1e6 * one.seconds, a.path, one.line, 1e6 * other.seconds, b.path, other.line);
    }
  }
  return note;
}

// Adds a line for each two tables that differ.
void compare_tables(const std::string& name, const std::vector<LoggedTable>& tables,
                    std::vector<std::string>* notes) {
  for (std::size_t a = 0; a < tables.size(); ++a) {
    for (std::size_t b = a + 1; b < tables.size(); ++b) {
      const std::string note = largest_difference(name, tables[a], tables[b]);
      if (!note.empty()) notes->push_back(note);
    }
  }
}

// Returns the GPUs' names, which end lines such as
//   #  Rank  0 Pid 1234 on HOST device  0 [0x01] NVIDIA H100
std::set<std::string> gpus_of(const std::vector<ImportSource>& sources) {
  std::set<std::string> names;
  for (const ImportSource& source : sources) {
    for (const std::string& line : split(source.text, "\n")) {
      const std::vector<std::string> words = split_words(line);
      const auto device = std::ranges::find(words, "device");
      if (words.end() - device > 3 && std::ranges::find(words, "Rank") < device)
        names.insert(fmt::format("{}", fmt::join(device + 3, words.end(), " ")));
    }
  }
  return names;
}

// Reads the files' tables into groups. Adds notes on tables that are left out, and on other GPUs
// than the cluster's.
Result<MeasuredGroups> read_groups(const MeasuredCommOptions& options, const ClusterSpec& spec,
                                   std::vector<std::string>* notes) {
  MeasuredGroups groups;
  ASSIGN_OR_RETURN(const std::vector<ImportSource> sources,
                   read_sources(options.files, "the output of nccl-tests"));
  for (std::string& note : gpu_notes(gpus_of(sources), spec.device.name))
    notes->push_back(std::move(note));
  for (const ImportSource& source : sources) {
    ASSIGN_OR_RETURN(std::vector<LoggedTable> tables,
                     read_comm_log(source, {options.op, options.ranks}));
    for (LoggedTable& table : tables) {
      notes->insert(notes->end(), table.notes.begin(), table.notes.end());
      if (table.times.empty()) continue;
      const auto kind = comm_kind_named(table.op);
      if (!kind) {
        notes->push_back(
            fmt::format("{}:{}: left out: no job here has {}", table.path, table.line, table.op));
        continue;
      }
      ASSIGN_OR_RETURN(const std::vector<int> nodes, ranks_of_nodes(table, spec, options));
      MeasuredGroup& group = groups[{*kind, table.ranks, static_cast<int>(nodes.size())}];
      std::vector<DeviceId>& devices = group.devices.emplace_back();
      for (std::size_t node = 0; node < nodes.size(); ++node) {
        for (int i = 0; i < nodes[node]; ++i)
          devices.push_back(DeviceId{static_cast<int>(node) * spec.gpus_per_node + i});
      }
      group.tables.push_back(std::move(table));
    }
  }
  return groups;
}

// Fits latency and bandwidth to a group's times. Returns nothing, and adds a note, if they give no
// fit.
Result<std::optional<JudgedFit>> fit_group(const CommShape& shape, const MeasuredGroup& group,
                                           const Cluster& cluster,
                                           std::vector<std::string>* notes) {
  CommTable table;
  table.test.kind = shape.kind;
  table.nodes = shape.nodes;
  for (int rank = 0; rank < shape.ranks; ++rank) table.test.members.push_back(Rank{rank});
  JudgedFit judged;
  for (std::size_t i = 0; i < group.tables.size(); ++i) {
    for (const LoggedTime& time : group.tables[i].times) {
      table.rows.push_back({{time.bytes, 0}, time.seconds});  // no fit needs the elements' count
      judged.times.push_back(
          {time.bytes, time.seconds,
           to_seconds(collective_ns(cluster, shape.kind, time.bytes, group.devices[i]))});
    }
  }
  const auto fits = fit({table});
  if (!fits.ok()) {
    notes->push_back(fmt::format("left out: {}", fits.error().text()));
    return std::optional<JudgedFit>();
  }
  judged.fit = fits->front();
  compare_tables(group_text(judged.fit.row), group.tables, notes);
  return std::optional(std::move(judged));
}

Status fit_tables(const MeasuredCommOptions& options) {
  std::vector<NamedFile> inputs;
  for (const std::string& file : options.files) inputs.push_back({"FILE", file});
  RETURN_IF_ERROR(check_files(options.cluster.ends_with(".toml") ? options.cluster : "", {},
                              {{"-o", options.output}}, inputs));
  ASSIGN_OR_RETURN(Scenario place, load_cluster(options.cluster));
  const ClusterSpec& spec = place.cluster.spec;
  std::vector<std::string> notes;
  ASSIGN_OR_RETURN(const MeasuredGroups groups, read_groups(options, spec, &notes));
  std::vector<JudgedFit> fits;
  for (const auto& [shape, group] : groups) {
    place.cluster.gpus = shape.nodes * spec.gpus_per_node;
    ASSIGN_OR_RETURN(const Cluster cluster, make_cluster(place));
    ASSIGN_OR_RETURN(const std::optional<JudgedFit> judged,
                     fit_group(shape, group, cluster, &notes));
    if (judged) fits.push_back(*judged);
  }
  std::string text;
  for (const std::string& note : notes) text += note + "\n";
  if (fits.empty())
    return Error{fmt::format("found no table that gives a fit{}{}", notes.empty() ? "" : ": ",
                             fmt::join(notes, "; "))};
  const auto quoted = [](const std::string& value) { return nlohmann::json(value).dump(); };
  std::vector<CommFit> plain_fits;
  for (const JudgedFit& judged : fits) plain_fits.push_back(judged.fit);
  if (!options.output.empty())
    RETURN_IF_ERROR(write_file(
        options.output,
        calibration_text(plain_fits, "tandem calibrate comm",
                         {{"backend", quoted("tables")},
                          {"real", quoted(fmt::format("{}", fmt::join(options.files, ", ")))},
                          {"cluster", quoted(spec.name)}})));
  for (const std::string& line : undetermined(fits, spec.name)) text += line + "\n";
  const int width = text_width(options.wide);
  fmt::print(standard_output(), "{}\n{}", comm_fit_table(fits, spec.name, width),
             wrapped(text, width));
  return Done{};
}

}  // namespace

void add_calibrate_comm(const Command& calibrate) {
  auto options = std::make_shared<MeasuredCommOptions>();
  const Command command = calibrate.subcommand(
      "comm",
      "Fits latencies and bus bandwidths to the output of nccl-tests or all_reduce_bench.py, and "
      "says how far fit and cluster are off it, and what it does not determine.");
  command.option("files", &options->files, "FILE...").required();
  command
      .option("--cluster", &options->cluster,
              "a preset, or a SCENARIO.toml whose first run has one: what was measured")
      .required();
  command.option("-o,--output", &options->output,
                 "write the fits, for a scenario's cluster.calibration");
  command.option("--op", &options->op, "of tables that do not say it: the operation")
      .one_of({"all_reduce", "all_gather", "reduce_scatter", "alltoall", "sendrecv"});
  command.option("--ranks", &options->ranks, "of tables that do not say it: the ranks")
      .range(2, 65536);
  command.option("--nodes", &options->nodes, "of tables that do not say it: the nodes")
      .range(1, 65536);
  command
      .option("--hosts-per-node", &options->hosts_of_node,
              "hosts that are one node of the cluster, such as an NVL72's; default 1")
      .range(1, 1024);
  add_wide(command, &options->wide);
  command.footer(
      "Example: tandem calibrate comm all_reduce.txt --cluster dgx-h100 -o measured.toml");
  command.run([options] { return fit_tables(*options); });
}

}  // namespace tandem
