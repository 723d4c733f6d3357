// Reads a table in three steps: rows become actions with chunks as stages, the chunks are placed as
// looped stages or in a V, and the sends and receives are checked and dropped. Writes a table by
// replaying the order, which gives every pass and transfer a time to sort by.
#include "schedule/order/primus_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/split.h"
#include "schedule/order/order_fault.h"
#include "schedule/order/order_replay.h"
#include "schedule/order/order_text.h"

namespace tandem {
namespace {

struct NodeName {
  ActionKind kind;
  std::string_view name;
};

constexpr NodeName kNodeNames[] = {
    {ActionKind::Forward, "F"},        {ActionKind::BackwardInput, "B"},
    {ActionKind::BackwardWeight, "W"}, {ActionKind::Backward, "BW"},
    {ActionKind::SendForward, "SF"},   {ActionKind::RecvForward, "RF"},
    {ActionKind::SendBackward, "SB"},  {ActionKind::RecvBackward, "RB"},
};

// The rows of a table as read: the `stage` of an action is still its chunk on the rank.
struct PrimusTable {
  std::vector<std::vector<Action>> ranks;
  std::vector<int> lines;  // by rank: the line of its row in the file
  int chunks = 0, microbatches = 0;
};

// Returns a node's text, such as "(F|0|0)".
std::string node_text(const Action& action, int pp) {
  const auto* const known =
      std::find_if(std::begin(kNodeNames), std::end(kNodeNames),
                   [&](const NodeName& node) { return node.kind == action.kind; });
  return fmt::format("({}|{}|{})", known->name, index(action.microbatch), index(action.stage) / pp);
}

Error error_at(const std::string& path, int line, std::string_view message) {
  return Error::at(fmt::format("{}:{}", path, line), std::string(message));
}

// Parses the nodes of a row, the text after "Rank 0: ". The actions' stages are chunks.
Result<std::vector<Action>> parse_nodes(const std::string& row) {
  static const std::regex kNode(R"(,?\s?(\[?)\((\w{1,2})\|(\d{1,6})\|(\d{1,3})\)(\]?)\s?)");
  std::vector<Action> actions;
  bool inside = false;  // between [ and ]
  int previous = -1;    // index of the last pass since [, or -1
  std::smatch node;
  for (auto at = row.cbegin(); at != row.cend(); at = node.suffix().first) {
    const bool found =
        std::regex_search(at, row.cend(), node, kNode, std::regex_constants::match_continuous);
    const auto* const known =
        found ? std::ranges::find(kNodeNames, node.str(2), &NodeName::name) : std::end(kNodeNames);
    if (known == std::end(kNodeNames))
      return Error{
          fmt::format("found '{}...', expected one of F, B, W, BW, SF, RF, SB and RB (nothing is "
                      "offloaded here), "
                      "a microbatch and a chunk, as in (F|0|0)",
                      std::string(std::find(at, row.cend(), '('), row.cend()).substr(0, 20))};
    const bool opens = node.length(1) > 0, closes = node.length(5) > 0;
    if (opens && inside) return Error{"found [ after [, expected [ and ] in turn"};
    inside = inside || opens;
    if (closes && !inside) return Error{"found ] alone, expected [ and ] in turn"};
    if (inside && previous >= 0 && is_compute(known->kind)) actions[previous].with_next = true;
    if (inside && is_compute(known->kind)) previous = static_cast<int>(actions.size());
    actions.push_back(
        {Stage{std::stoi(node.str(4))}, known->kind, Microbatch{std::stoi(node.str(3))}});
    if (!closes) continue;
    inside = false;
    previous = -1;
  }
  if (inside) return Error{"found [ without ], expected both"};
  return actions;
}

// Parses the whole text. Returns no ranks if it has no row of a table.
Result<PrimusTable> parse_table(const std::string& path, const std::string& text) {
  static const std::regex kColour("\033\\[[0-9;]{0,16}m"), kRow(R"(Rank (\d{1,6}): (?=\[?\())");
  PrimusTable table;
  struct Row {
    int line;
    std::vector<Action> nodes;
  };
  std::map<int, Row> rows;  // by rank
  int line = 0;
  for (const std::string& raw_line : split(text, "\n")) {
    ++line;
    if (raw_line.find("Rank ") == std::string::npos) continue;
    const std::string plain = std::regex_replace(raw_line, kColour, "");
    std::smatch found;
    if (!std::regex_search(plain, found, kRow)) continue;
    const int rank = std::stoi(found.str(1));
    auto nodes = parse_nodes(found.suffix());
    if (!nodes.ok())
      return error_at(path, line, fmt::format("rank {}: {}", rank, nodes.error().message));
    for (const Action& action : *nodes) {
      table.chunks = std::max(table.chunks, index(action.stage) + 1);
      table.microbatches = std::max(table.microbatches, index(action.microbatch) + 1);
    }
    if (!rows.try_emplace(rank, Row{line, *std::move(nodes)}).second)
      return error_at(path, line,
                      fmt::format("found rank {} again, expected one table a file", rank));
  }
  for (auto& [rank, row] : rows) {
    if (rank != static_cast<int>(table.ranks.size()))
      return error_at(
          path, row.line,
          fmt::format("found rank {} and no rank {}, expected all", rank, table.ranks.size()));
    table.lines.push_back(row.line);
    table.ranks.push_back(std::move(row.nodes));
  }
  return table;
}

// Returns the table's order with stages in place of chunks, as looped stages or in a V.
Order placed(const PrimusTable& table, bool in_v) {
  const int pp = static_cast<int>(table.ranks.size());
  Order order{"", pp * table.chunks, table.microbatches, 1, table.ranks};
  for (int rank = 0; rank < pp; ++rank) {
    for (Action& action : order.ranks[rank]) {
      const int chunk = index(action.stage);
      action.stage = Stage{in_v && chunk == 1 ? 2 * pp - 1 - rank : chunk * pp + rank};
    }
  }
  return order;
}

// Return the send of a pass's output, and the receive of its input, with the pass's own stage.
Action send_of(Action pass) {
  const bool forward = pass.kind == ActionKind::Forward;
  pass.kind = forward ? ActionKind::SendForward : ActionKind::SendBackward;
  return pass;
}
Action receive_of(Action pass) {
  const bool forward = pass.kind == ActionKind::Forward;
  pass.kind = forward ? ActionKind::RecvForward : ActionKind::RecvBackward;
  return pass;
}

// Checks the rank's sends and receives. A pass that takes input from another rank must come after
// its receive. A pass whose output another rank needs must come before its send. No other send or
// receive may occur. Returns a message about the first mistake, or "".
std::string transfer_mistake(const Order& order, const std::vector<Action>& actions) {
  const auto text = [&](const Action& action) { return node_text(action, order.pp()); };
  std::set<std::string> open;  // received inputs not used yet, and outputs not sent yet
  for (const Action& action : actions) {
    const std::string received = text(receive_of(action));
    if (action.kind == ActionKind::SendForward || action.kind == ActionKind::SendBackward) {
      if (open.erase(text(action)) == 0)
        return fmt::format("found {}, expected it behind its pass or not at all", text(action));
    } else if (!is_compute(action.kind)) {
      if (!open.insert(text(action)).second)
        return fmt::format("found {} again, expected it once", text(action));
    } else if (source(order, action) >= 0 && open.erase(received) == 0) {
      return fmt::format("found {} without {} before it, expected both", text(action), received);
    }
    if (is_compute(action.kind) && sink(order, action) >= 0) open.insert(text(send_of(action)));
  }
  if (open.empty()) return "";
  const std::string& first = *open.begin();  // "(SF|0|0)" is not sent, "(RF|0|0)" not used
  return fmt::format("found no {}, expected one", first[1] == 'S' ? first : "pass behind " + first);
}

bool has_transfers(const PrimusTable& table) {
  return std::ranges::any_of(table.ranks, [](const std::vector<Action>& actions) {
    return !std::ranges::all_of(actions, is_compute, &Action::kind);
  });
}

// Returns whether the table's stages run in a V, not looped. In a V the first rank's second chunk
// is the last stage, which sends nothing forward. A table without sends is in a V if it is a valid
// order only in a V, and ambiguous if it is valid both ways.
Result<bool> is_in_v(const std::string& path, const PrimusTable& table) {
  if (table.chunks != 2 || table.ranks.size() < 2) return false;
  if (has_transfers(table))
    return std::ranges::none_of(table.ranks.front(), [](const Action& action) {
      return action.kind == ActionKind::SendForward && index(action.stage) == 1;
    });
  if (find_fault(placed(table, true))) return false;
  if (!find_fault(placed(table, false)))
    return error_at(path, table.lines.front(),
                    "found no sends and receives, and an order for looped stages as well as for "
                    "a V, expected SF and RF, which tell the two apart");
  return true;
}

Result<Order> read_primus(const std::string& path, const PrimusTable& table,
                          std::string* fault_text) {
  ASSIGN_OR_RETURN(const bool in_v, is_in_v(path, table));
  const Order given = placed(table, in_v);
  Order order = without_communication(given);
  order.name = std::filesystem::path(path).stem().string();
  if (const auto fault = find_fault(order)) {
    if (fault_text != nullptr) *fault_text = explain_fault(order);
    return error_at(path, table.lines[std::max(fault->rank, 0)], fault->message);
  }
  for (int rank = 0; has_transfers(table) && rank < order.pp(); ++rank) {
    const std::string mistake = transfer_mistake(order, given.ranks[rank]);
    if (!mistake.empty())
      return error_at(path, table.lines[rank], fmt::format("rank {}: {}", rank, mistake));
  }
  return order;
}

// The Python module, as a format with named arguments.
constexpr std::string_view kModule =
    R"py(# A pipeline schedule for AMD's Primus and its Megatron backend. Copy this file to
#   primus/backends/megatron/patches/tandem_schedule_patches.py
# where Primus imports every *_patches.py. Its pipeline_launcher.py takes no other names than those
# of its own algorithms, so this one stands in place of "{algorithm}". The run's configuration:
#   patch_primus_pipeline: true
#   pp_algorithm: {algorithm}
#   pipeline_model_parallel_size: {pp}
#   num_virtual_stages_per_pipeline_rank: {vpp}
#   overlap_grad_reduce: false
#   overlap_param_gather: false
#   no_persist_layer_norm: true
#   create_attention_mask_in_dataloader: false
#   gradient_accumulation_fusion: true
#   offload: false
#   overlap_moe_expert_parallel_comm: false
{more}# and {batches} microbatches: global_batch_size / (micro_batch_size x data-parallel size).
import re

from primus.core.pipeline_parallel.scheduler.algorithms.base import PipelineScheduleAlgo
from primus.core.pipeline_parallel.scheduler.schedule_table_factory import pp_algorithm_map
from primus.core.pipeline_parallel.scheduler.scheduler_node import FuncType, SchedulerNode

PP, VPP, MICROBATCHES = {pp}, {vpp}, {batches}

# Rank and chunk of each stage.
PLACES = [{places}]

# What, microbatch, chunk.
TABLE = """
{rows}"""

# When each rank sends and receives, in the order of its row; what has one time is one batch.
STEPS = """
{steps}"""


class TandemSchedule(PipelineScheduleAlgo):
    def __init__(self, pp_size, vpp_size, micro_batches, **options):
        super().__init__(pp_size, vpp_size, micro_batches)
        sizes = (pp_size, vpp_size, micro_batches)
        expected = (PP, VPP, MICROBATCHES)
        assert sizes == expected, f"found pp, vpp, microbatches {{sizes}}, expected {{expected}}"
        assert not any(options.values()), f"found {{options}}, expected none of them"

    def last_pp_stage_rank(self):
        return PLACES[-1][0]

    def direction_map(self, rank, chunk, func_type):
        forward = func_type == FuncType.F
        places = [(None, None), *PLACES, (None, None)]
        stage = places.index((rank, chunk))
        step = 1 if forward else -1
        return {{
            "prev": (places[stage - step][0], FuncType.RF if forward else FuncType.RB),
            "next": (places[stage + step][0], FuncType.SF if forward else FuncType.SB),
            "recv_from_chunk": places[stage - step][1],
            "send_to_chunk": places[stage + step][1],
        }}

    def generate_schedule_table(self):
        rows = zip(TABLE.split("\n")[1:-1], STEPS.split("\n")[1:-1])
        return [list(self._nodes(rank, *row)) for rank, row in enumerate(rows)]

    def _nodes(self, rank, row, steps):
        steps = map(int, steps.split())
        for kind, microbatch, chunk in re.findall(r"\((\w+)\|(\d+)\|(\d+)\)", row):
            place = (int(microbatch), int(chunk))
            if kind in ("RF", "SF", "RB", "SB"):
                ends = self.generate_send_recv_nodes(rank, *place, FuncType[kind[1]])
                node = ends[kind[0] == "S"]
                node.args["time_step"] = next(steps)
            else:
                node = SchedulerNode(FuncType[kind], *place)
            yield node


pp_algorithm_map["{algorithm}"] = TandemSchedule
)py";

// A node of a row to be written. Nodes are sorted by time, then by turn.
struct TimedNode {
  int time = 0;
  int turn = 0;  // 0: send, 1: receive, 2: pass
  std::string text;
};

// Returns the rows to be written. On both ranks a transfer has the time at which the sender's pass
// ends, and comes before the passes that begin at that time. Since all rows are sorted by one
// clock, no rank waits for a later node of another rank, and both ends of a transfer are in one
// batch. The default costs (F 1, B 2, I 1, W 1) give whole times.
std::vector<std::vector<TimedNode>> timed_nodes(const Order& order) {
  const OrderReplay replay = replay_order(order, GridCosts{});
  const std::vector<int> rank_of = stage_to_rank(order);
  std::vector<std::vector<TimedNode>> rows(order.pp());
  for (int rank = 0; rank < order.pp(); ++rank) {
    for (std::size_t i = 0; i < order.ranks[rank].size(); ++i) {
      const Action& action = order.ranks[rank][i];
      const int start = static_cast<int>(replay.spans[rank][i].start);
      const int end = static_cast<int>(replay.spans[rank][i].end);
      rows[rank].push_back({start, 2, node_text(action, order.pp())});
      const int to = sink(order, action);
      if (to < 0) continue;
      rows[rank].push_back({end, 0, node_text(send_of(action), order.pp())});
      Action receive = receive_of(action);
      receive.stage = Stage{to};
      rows[rank_of[to]].push_back({end, 1, node_text(receive, order.pp())});
    }
  }
  for (std::vector<TimedNode>& row : rows)
    std::stable_sort(row.begin(), row.end(), [](const TimedNode& a, const TimedNode& b) {
      return std::pair(a.time, a.turn) < std::pair(b.time, b.turn);
    });
  return rows;
}

// An order's shape: how its stages lie on its ranks.
struct OrderShape {
  bool looped, in_v;
  std::string places;  // "(0, 0), (1, 0)": rank and chunk of each stage
};

OrderShape shape_of(const Order& order) {
  const int pp = order.pp(), chunks = order.stages / pp;
  OrderShape shape = {.looped = order.stages % pp == 0 && (pp > 1 || chunks == 1),
                      .in_v = order.stages == 2 * pp && pp > 1,
                      .places = ""};
  const std::vector<int> rank_of = stage_to_rank(order);
  for (int stage = 0; stage < order.stages; ++stage) {
    shape.looped = shape.looped && rank_of[stage] == stage % pp;
    shape.in_v = shape.in_v && rank_of[stage] == (stage < pp ? stage : 2 * pp - 1 - stage);
    shape.places += fmt::format("{}({}, {})", stage > 0 ? ", " : "", rank_of[stage], stage / pp);
  }
  return shape;
}

// Returns the property of the order that Primus cannot run, or "".
std::string_view unsupported_by_primus(const Order& order, const OrderShape& shape) {
  if (order.chains > 1) return "two chains, expected one";
  if (order.vocabulary > 0) return "vocabulary passes, expected none";
  if (!shape.looped && !shape.in_v)
    return "stages that are neither looped nor in a V over its ranks, expected one of them";
  return has_cells(order) ? "passes that run together, expected one after another" : "";
}

// Returns the name of the Primus algorithm that the order replaces.
std::string_view algorithm_of(const OrderShape& shape, int chunks, bool splits) {
  if (!shape.looped) return "zbv-formatted";
  if (chunks > 1) return "1f1b-interleaved";
  return splits ? "zero-bubble" : "1f1b";
}

}  // namespace

Result<Order> read_order_file(const std::string& path, std::string* fault) {
  const auto text = read_file(path);
  if (!text.ok()) return read_pytorch(path, fault);
  ASSIGN_OR_RETURN(const PrimusTable table, parse_table(path, *text));
  return table.ranks.empty() ? read_pytorch(path, fault) : read_primus(path, table, fault);
}

Result<std::string> to_primus(const Order& given) {
  const Order order = without_communication(given);
  const int pp = order.pp(), chunks = order.stages / pp;
  const OrderShape shape = shape_of(order);
  if (const std::string_view unsupported = unsupported_by_primus(order, shape);
      !unsupported.empty())
    return Error{fmt::format("--format primus: found {}: Primus has no form for it", unsupported)};

  std::string rows, steps;
  bool splits = false;
  for (const std::vector<TimedNode>& row : timed_nodes(order)) {
    rows += fmt::format("Rank {}: ", std::count(rows.begin(), rows.end(), '\n'));
    std::string comma, blank;  // nothing before a row's first node
    for (const TimedNode& node : row) {
      rows += std::exchange(comma, ",") + node.text;
      if (node.turn < 2) steps += std::exchange(blank, " ") + std::to_string(node.time);
      splits = splits || node.text.starts_with("(W");
    }
    rows += '\n';
    steps += '\n';
  }
  // Primus-Turbo's layers can postpone weight gradients only under algorithms named after zero
  // bubble, and never in fp8 or fp4
  // (primus/backends/megatron/core/extensions/primus_turbo.py:401-421).
  std::string_view more_keys;
  if (splits)
    more_keys = shape.looped && chunks > 1
                    ? "#   enable_primus_turbo: false\n"
                    : "#   enable_primus_turbo: false, if it is fp8 or fp4\n";
  return fmt::format(kModule, fmt::arg("algorithm", algorithm_of(shape, chunks, splits)),
                     fmt::arg("pp", pp), fmt::arg("vpp", chunks),
                     fmt::arg("batches", order.microbatches), fmt::arg("places", shape.places),
                     fmt::arg("rows", rows), fmt::arg("steps", steps), fmt::arg("more", more_keys));
}

}  // namespace tandem
