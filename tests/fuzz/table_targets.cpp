// The project's own tables: orders, Programs, traces, costs, calibrations, lists, a sweep's
// results, hosts, cables; and what the processes of a run say to each other.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/file.h"
#include "base/hostlist.h"
#include "launch/message.h"
#include "planning/pack/packing.h"
#include "planning/simulate/simulate.h"
#include "planning/sweep/journal.h"
#include "planning/sweep/results.h"
#include "scenarios/hostfile.h"
#include "scenarios/setting.h"
#include "schedule/order/named_orders.h"
#include "schedule/order/order_replay.h"
#include "schedule/order/order_text.h"
#include "schedule/order/primus_table.h"
#include "schedule/program/program_text.h"
#include "schedule/program/validate.h"
#include "tests/fuzz/targets.h"
#include "topology/calibration.h"
#include "topology/fabric_shape.h"
#include "topology/listed_cables.h"
#include "traces/trace_files.h"
#include "validation/published/baseline_tools.h"
#include "validation/published/cases.h"
#include "workload/cost/cost_table.h"

namespace tandem {
namespace {

constexpr std::size_t kFewOps = 5000;  // that are played

std::vector<std::string> order_seeds() {
  std::vector<std::string> texts = texts_of("tests/golden/pytorch", ".csv");
  texts.resize(std::min<std::size_t>(texts.size(), 12));
  texts.push_back("0F0,0F1,,0B0,0B1\n,1F0,1B0,1F1,1B1\n");
  texts.push_back("0F0,0I0,0W0\n");
  texts.push_back(
      "Rank 0: (F|0|0),(SF|0|0),(RB|0|0),(BW|0|0)\nRank 1: (RF|0|0),(F|0|0),(BW|0|0),(SB|0|0)\n");
  texts.push_back(
      "[INFO] ]\033[33mRank 0: "
      "(F|0|0),\033[32m[(F|1|0),(B|0|0)]\033[33m,(W|0|0),(B|1|0),(W|1|0)\n");
  return texts;
}
void run_order(const FuzzInput& input) {
  std::string fault;
  const auto read = read_order_file(input.path, &fault);
  const Order* order = accepted(read);
  if (order == nullptr) return;
  promise(validate(*order).ok(), "an order that was read is valid");
  const OrderReplay replay = replay_order(*order, {});
  for (int rank = 0; rank < order->pp(); ++rank)
    promise(replay.finished(rank), "a valid order ends");
  promise(!to_grid(*order).empty(), "an order can be drawn");
  const auto again = read_pytorch(written("again.csv", to_pytorch(*order)));
  promise(again.ok() && again->ranks == order->ranks, "an order reads back as it was printed");
  const auto module = to_primus(*order);
  if (!module.ok()) return;
  const auto primus = read_order_file(written("again.py", *module));
  promise(primus.ok() && primus->microbatches == order->microbatches, "a module reads back");
}

std::vector<std::string> program_seeds() { return texts_of("tests/fuzz/seeds", ".program.csv"); }
void run_program(const FuzzInput& input) {
  const auto read = read_program(input.path);
  const Program* program = accepted(read);
  if (program == nullptr) return;
  promise(validate(*program).ok(), "a Program that was read is valid");
  const std::string text = to_text(*program);
  const auto again = read_program(written("again.csv", text));
  promise(again.ok() && to_text(*again) == text, "a Program reads back as it was printed");
  std::size_t ops = 0;
  for (const RankRow& rank : program->ranks) ops += program->bodies[rank.body].ops.size();
  if (ops > kFewOps) return;
  const auto played = simulate_program(*program);
  const auto unfolded = simulate_program(*program, {}, false);
  promise(played.ok() == unfolded.ok(), "a Program ends folded as it does unfolded");
  if (accepted(played) == nullptr || accepted(unfolded) == nullptr) return;
  promise(played->iteration_s == unfolded->iteration_s, "folded takes what unfolded takes");
  promise(played->iteration_s >= 0, "time goes forward");
}

std::vector<std::string> trace_seeds() {
  return {
      "# tandem trace\n# program: two 0123456789abcdef\n# engine: ideal\n"
      "# split 0: compute_ns=60 bubble_ns=30 pipeline_exposed_ns=3 pipeline_comm_ns=5 "
      "pipeline_overlap_ns=2\n"
      "rank,lane,op,kind,stage,microbatch,part,bytes,arrive_ns,start_ns,end_ns\n"
      "0,compute,0,forward,0,0,0,0,0,0,10\n0,next,1,send,0,0,0,64,10,10,12\n"};
}
void run_trace(const FuzzInput& input) {
  const auto read = read_trace_csv(input.path);
  const TraceTable* table = accepted(read);
  if (table == nullptr) return;
  for (const TraceRow& row : table->rows)
    promise(row.start_ns <= row.end_ns, "an event of a trace ends after its start");
}

std::vector<std::string> cost_seeds() { return texts_of("tests/fuzz/seeds", ".costs.csv"); }
void run_costs(const FuzzInput& input) {
  const auto read = read_cost_table(input.path);
  const CostTable* table = accepted(read);
  if (table == nullptr) return;
  for (const CostRow& row : table->rows) promise(row.p50_ns > 0, "a row of costs takes its time");
  const auto again = read_cost_table(written("again.csv", to_text(*table)));
  promise(again.ok() && again->rows == table->rows, "a cost table reads back as it was printed");
}

std::vector<std::string> calibration_seeds() {
  return {
      "backend = \"cuda\"\nreal = true\n[[fit]]\nop = \"all_reduce\"\nranks = 8\nnodes = 1\n"
      "latency_us = 20.5\nbusbw_GBps = 230\nworst_error_percent = 4\nsizes = 12\n"};
}
void run_calibration(const FuzzInput& input) {
  const auto read = read_calibration(input.path);
  const auto* rows = accepted(read);
  for (const CalibrationRow& row : rows == nullptr ? std::vector<CalibrationRow>() : *rows)
    promise(row.latency_s >= 0 && row.bus_bytes_per_s > 0, "a calibrated rate is one");
}

std::vector<std::string> list_seeds() {
  return {"name,parallel.pp,parallel.tp\nsmall,1,2\nlarge,4,\n", "parallel.pp\n1\n2\n"};
}
void run_list(const FuzzInput& input) { accepted(read_list(input.path)); }

// A sweep of three runs, of which one fails.
const Results& sweep_results() {
  static const Results results = [] {
    const std::string path =
        written("sweep.toml",
                "[parallel]\npp = 2\nglobal_batch = 4\n[costs]\nsource = \"uniform\"\nforward_s = "
                "0.001\nbackward_s = 0.002\n[matrix]\nparallel.micro_batch = [1, 2, 3]\n");
    auto file = read_scenario_file(path);
    promise(file.ok(), "a sweep's scenario is one");
    auto runs = runs_of(*file, {}, "");
    promise(runs.ok(), "a sweep has runs");
    auto made = Results::of(*file, *std::move(runs), Engine::Ideal);
    promise(made.ok(), "runs have results");
    return *std::move(made);
  }();
  return results;
}
std::vector<std::string> result_seeds() {
  const Results& results = sweep_results();
  RunResult result;
  result.iteration_s = 0.015;
  const std::string header = results.header() + '\n';
  const std::string rows = results.row(0, result) + '\n' + results.row(1, result) + '\n' +
                           results.row(2, Error{"found 4, expected a multiple"}) + '\n';
  return {header + rows, header, header + rows.substr(0, rows.size() - 20)};
}
void run_results(const FuzzInput& input) {
  if (!Results::check_form(input.path).ok()) return;  // nobody's but a sweep's
  const auto cut = cut_torn_lines(input.path);
  promise(cut.ok() && *cut >= 0, "torn lines can be cut");
  const Results& results = sweep_results();
  const auto read = results.read(input.path);
  const Results::RowsFound* found = accepted(read);
  if (found == nullptr) return;
  std::string text = results.header() + '\n';
  for (const auto& [run, row] : found->rows) {
    promise(run >= 0 && run < results.size(), "a row is of a run");
    text += row.line + '\n';
  }
  const auto again = results.read(written("again.csv", text));
  promise(again.ok() && again->of_no_run == 0 && again->rows.size() == found->rows.size(),
          "rows that were kept are found again");
  for (const auto& [run, row] : found->rows) {
    const auto at = again->rows.find(run);
    promise(
        at != again->rows.end() && at->second.line == row.line && at->second.failed == row.failed,
        "a row reads back as it was kept");
  }
}

std::vector<std::string> length_seeds() { return {"length\n12\n2048\n5\n", "length\n7\n"}; }
void run_lengths(const FuzzInput& input) {
  constexpr int kLongest = 4096;
  const auto read = read_lengths(input.path, kLongest, "at most 4096");
  const auto* lengths = accepted(read);
  if (lengths == nullptr || lengths->empty()) return;
  const std::int64_t all = [&] {
    std::int64_t sum = 0;
    for (const Bin& bin : first_fit_decreasing(*lengths, kLongest)) sum += tokens_of(bin);
    return sum;
  }();
  std::int64_t given = 0;
  for (const int length : *lengths) given += length;
  promise(all == given, "packing loses no token");
}

std::vector<std::string> case_seeds() {
  constexpr std::size_t kEnough = 2000;  // of a long table: its rows are much alike
  std::vector<std::string> texts = texts_of("validation/published", "profiled.csv");
  for (std::string& text : texts) text.resize(std::min(text.find('\n', kEnough), text.size()));
  texts.push_back(
      "id,family,system,gpus,layers,hidden,heads,seq,vocab,tp,pp,dp,global_batch,iteration_s,set\n"
      "A,a,selene,8,4,256,4,128,512,2,2,2,8,0.5,train.recompute=full;schedule.order=gpipe\n");
  return texts;
}
void run_cases(const FuzzInput& input) {
  const auto read = read_cases(input.path);
  const auto* cases = accepted(read);
  if (cases == nullptr) return;
  for (const Case& one : *cases) accepted(scenario_of(one));
}

std::vector<std::string> rival_seeds() { return texts_of("validation/published", "rivals.csv"); }
void run_rivals(const FuzzInput& input) { accepted(read_rivals(input.path)); }

std::vector<std::string> host_seeds() {
  return {"node1 slots=8\nnode2 slots=8\n", "a:4\nb:4\n# c\nd\nd\n"};
}
void run_hosts(const FuzzInput& input) {
  const auto read = read_hostfile(input.path);
  const auto* hosts = accepted(read);
  for (const HostSlots& host : hosts == nullptr ? std::vector<HostSlots>() : *hosts)
    promise(host.slots >= 0 && !host.name.empty(), "a host has a name and slots");
}

std::vector<std::string> cable_seeds() { return texts_of("scenarios/clusters", ".csv"); }
void run_cables(const FuzzInput& input) {
  const auto read = read_cables(input.path);
  const auto* cables = accepted(read);
  if (cables == nullptr) return;
  accepted(gpus_per_node(**cables));
  accepted(node_names(**cables));
  accepted(fabric_shape(**cables));
}

std::vector<std::string> hostlist_seeds() { return {"n[01-04,7],gpu[1-2]-ib[0-1]", "a,b,c"}; }
void run_hostlist(const FuzzInput& input) { accepted(parse_hostlist(input.text)); }

// Two whole messages, and the head of a third.
std::vector<std::string> message_seeds() {
  std::string bytes;
  for (const std::uint64_t size : {0u, 5u, 3u}) {
    const MessageHead head{.kind = 7, .zero = 0, .size = size};
    bytes.append(reinterpret_cast<const char*>(&head), sizeof head);
    if (size == 5) bytes += "hello";
  }
  return {bytes};
}
void run_messages(const FuzzInput& input) {
  constexpr std::size_t kMost = 1 << 20;
  const auto read = read_messages(std::as_bytes(std::span(input.text)), kMost);
  if (!read.ok()) return;
  std::size_t used = 0;
  for (const ControlMessage& message : read->messages)
    used += sizeof(MessageHead) + message.body.size();
  promise(used == read->used && used <= input.text.size(), "messages are of the bytes that came");
}

}  // namespace

std::vector<FuzzTarget> table_targets() {
  return {{"order", "order.csv", order_seeds, run_order},
          {"program", "program.csv", program_seeds, run_program},
          {"trace", "trace.csv", trace_seeds, run_trace},
          {"costs", "costs.csv", cost_seeds, run_costs},
          {"calibration", "calibration.toml", calibration_seeds, run_calibration},
          {"list", "list.csv", list_seeds, run_list},
          {"results", "results.csv", result_seeds, run_results},
          {"lengths", "lengths.csv", length_seeds, run_lengths},
          {"cases", "cases.csv", case_seeds, run_cases},
          {"rivals", "rivals.csv", rival_seeds, run_rivals},
          {"hostfile", "hosts", host_seeds, run_hosts},
          {"cables", "cables.csv", cable_seeds, run_cables},
          {"hostlist", "hostlist", hostlist_seeds, run_hostlist},
          {"messages", "messages", message_seeds, run_messages}};
}

}  // namespace tandem
