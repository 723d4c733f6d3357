// tandem bench comm: times collectives and transfers of several sizes, by a simulator or by real
// processes, and prints nccl-tests' tables.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "base/csv.h"
#include "base/file.h"
#include "cli/cluster_input.h"
#include "cli/command_line/commands.h"
#include "cli/command_line/files.h"
#include "cli/command_line/gpu_options.h"
#include "exec/backends/backends.h"
#include "exec/execute.h"
#include "job/site.h"
#include "launch/launch.h"
#include "launch/standard_output.h"
#include "planning/simulate/simulate.h"
#include "report/text/comm_table.h"
#include "topology/preset.h"
#include "validation/microbench/comm_fit.h"
#include "validation/microbench/comm_run.h"

namespace tandem {
namespace {

constexpr Bytes kMiB = 1 << 20;

struct CommOptions {
  std::string backend = "simgrid";
  std::vector<std::string> ops = {"all_reduce"};
  std::vector<std::string> pairs;
  Bytes least = kMiB, most = 64 * kMiB;
  bool by_step = false;  // each size is the one before plus `step`; else times `factor`
  Bytes step = kMiB;
  int factor = 2;
  CommBench bench;
  GpuOptions gpu;
  ExecOptions exec;
  int ranks = 0;
  std::string cluster;
  std::string placement;
  std::string fit;
  bool json = false;
};

// Loads the cluster and decides on how many of its GPUs, and in which placement, the ranks are.
Result<Scenario> load_place(const CommOptions& options) {
  ASSIGN_OR_RETURN(Scenario place, load_cluster(options.cluster));
  const auto launched = launched_rank();
  const Backend* const backend = backend_named(options.backend);
  const bool has_processes = backend != nullptr && backend->own_processes;
  const bool is_launched = launched && launched->ranks > 1;
  if (has_processes && is_launched) place.cluster.gpus = launched->ranks;
  if (options.ranks > 0) place.cluster.gpus = options.ranks;
  if (!options.placement.empty()) place.cluster.cyclic = options.placement == "cyclic";
  if (place.cluster.gpus < 2)
    return Error{fmt::format("--ranks: found {}, expected at least 2", place.cluster.gpus)};
  const bool deals_nodes = place.cluster.cyclic && place.cluster.hostfile.empty();
  if (deals_nodes && place.cluster.gpus % place.cluster.spec.gpus_per_node != 0)
    return Error{
        fmt::format("--ranks: found {} with cyclic placement, expected whole nodes: a "
                    "multiple of {}",
                    place.cluster.gpus, place.cluster.spec.gpus_per_node)};
  return place;
}

Result<CommTest> parse_pair(const std::string& text, int ranks) {
  const std::size_t comma = text.find(',');
  const auto from = parse_integer(text.substr(0, comma));
  const auto to = parse_integer(comma == std::string::npos ? "" : text.substr(comma + 1));
  const auto is_rank = [&](const Result<std::int64_t>& rank) {
    return rank.ok() && *rank >= 0 && *rank < ranks;
  };
  if (!is_rank(from) || !is_rank(to) || *from == *to)
    return Error{fmt::format("--pair: found '{}', expected two ranks from 0 to {}, such as 0,1",
                             text, ranks - 1)};
  return CommTest{CommKind::SendRecv, {Rank{static_cast<int>(*from)}, Rank{static_cast<int>(*to)}}};
}

Result<std::vector<CommTest>> tests_of(const CommOptions& options, int ranks) {
  std::vector<Rank> all;
  for (int rank = 0; rank < ranks; ++rank) all.push_back(Rank{rank});
  std::vector<CommTest> tests;
  std::set<std::string> earlier;
  for (const std::string& op : options.ops) {
    if (!earlier.insert(op).second)
      return Error{fmt::format("--op: found {} twice, expected it once", op)};
    const CommKind kind = *comm_kind_named(op);
    if (kind != CommKind::SendRecv) {  // all but p2p: nccl-tests' sendrecv is a RingShift
      tests.push_back({kind, all});
      continue;
    }
    const auto pairs = options.pairs.empty() ? std::vector<std::string>{"0,1"} : options.pairs;
    for (const std::string& pair : pairs) {
      ASSIGN_OR_RETURN(tests.emplace_back(), parse_pair(pair, ranks));
    }
  }
  return tests;
}

Result<CommBench> bench_of(const CommOptions& options, int ranks) {
  CommBench bench = options.bench;
  bench.ranks = ranks;
  ASSIGN_OR_RETURN(bench.tests, tests_of(options, ranks));
  if (options.least > options.most)
    return Error{fmt::format("--minbytes: found {}, expected at most --maxbytes = {}",
                             options.least, options.most)};
  const int factor = options.by_step ? 1 : options.factor;  // 1: comm_sizes() adds the step
  ASSIGN_OR_RETURN(bench.sizes, comm_sizes(options.least, options.most, factor, options.step));
  constexpr std::size_t kMostOps = 10'000'000;
  const std::size_t ops =
      bench.tests.size() * bench.sizes.size() * static_cast<std::size_t>(bench.block_ops());
  if (ops > kMostOps)
    return Error{
        fmt::format("--iters: found {} operations in all, expected at most {}", ops, kMostOps)};
  if (!options.fit.empty() && bench.sizes.size() < 2)
    return Error{"--fit: found one size, expected two or more: a larger --maxbytes"};
  return bench;
}

Status write_fit(const CommOptions& options, bool cyclic, const CommBench& bench,
                 const CommResult& result) {
  const auto fits = fit(result.tables);
  if (!fits.ok()) return Error{"--fit: " + fits.error().text(), fits.error().kind};
  const auto quoted = [](const std::string& text) { return nlohmann::json(text).dump(); };
  return write_file(options.fit,
                    calibration_text(*fits, "tandem bench comm",
                                     {{"backend", quoted(result.backend)},
                                      {"real", quoted(result.real)},
                                      {"cluster", quoted(result.cluster)},
                                      {"placement", quoted(cyclic ? "cyclic" : "block")},
                                      {"iterations", fmt::format("{}", bench.iterations)},
                                      {"warmup", fmt::format("{}", bench.warmup)}}));
}

Status time_all(const CommOptions& options) {
  const bool is_file = options.cluster.ends_with(".toml");
  RETURN_IF_ERROR(check_files(is_file ? options.cluster : "", {}, {{"--fit", options.fit}}));
  ASSIGN_OR_RETURN(const Scenario place, load_place(options));
  ASSIGN_OR_RETURN(const CommBench bench, bench_of(options, place.cluster.gpus));
  ASSIGN_OR_RETURN(const Site site, make_changed_site(place));
  const Backend* const backend = backend_named(options.backend);  // null: SimGrid
  if (backend != nullptr) {
    ASSIGN_OR_RETURN(const bool played, start_ranks(*backend, place.cluster.gpus, options.exec));
    if (played) return Done{};  // as child processes, of which rank 0 has printed
  }
  ASSIGN_OR_RETURN(const std::optional<CommResult> result,
                   run_comm_bench(bench, backend, site.cluster, site.placement, options.exec));
  if (!result) return Done{};  // this process is a rank other than 0, which prints
  const std::string idle = backend == nullptr ? idle_nics(site) : "";
  if (!idle.empty()) say("warning: " + idle);
  if (options.json) {
    fmt::print(standard_output(), "{}\n", to_json(*result, bench).dump(2));
  } else {
    fmt::print(standard_output(), "{}",
               comm_text(*result, bench,
                         options.by_step ? fmt::format("{}(bytes)", options.step)
                                         : fmt::format("{}(factor)", options.factor)));
  }
  if (options.fit.empty()) return Done{};
  return write_fit(options, place.cluster.cyclic, bench, *result);
}

Status run(CommOptions options) {
  apply_gpu_options(options.gpu, &options.exec);
  const Status status = time_all(options);
  if (!status.ok() && may_be_a_rank(options.backend) && rank_0_reports(status.error()))
    return Done{};  // rank 0 prints the error
  return status;
}

void add_sizes(const Command& command, CommOptions* options) {
  const auto add_size = [&](const char* names, Bytes* bytes, const char* help) {
    return command.option(names, bytes, help).as_size().range(Bytes{4}, Bytes{1} << 40);
  };
  add_size("-b,--minbytes", &options->least,
           "the first size; K, M and G are powers of 1024; default 1M");
  add_size("-e,--maxbytes", &options->most, "the last size; default 64M");
  const Option step = add_size("-i,--stepbytes", &options->step, "from one size to the next");
  step.on_value([options] { options->by_step = true; });
  command.option("-f,--stepfactor", &options->factor, "each size over the one before; default 2")
      .range(2, 1'000'000)
      .excludes(step);
  command.option("-n,--iters", &options->bench.iterations, "operations that are timed")
      .range(1, 1'000'000)
      .show_default();
  command.option("-w,--warmup_iters", &options->bench.warmup, "operations before them")
      .range(0, 1'000'000)
      .show_default();
}

void add_comm(const Command& bench) {
  auto options = std::make_shared<CommOptions>();
  const Command command = bench.subcommand(
      "comm",
      "Times collectives and transfers one at a time, with nccl-tests' flags, definitions and "
      "out-of-place columns (in-place ones are left out).");
  command
      .option("--cluster", &options->cluster,
              "a preset, or a SCENARIO.toml whose first run has one: what the ranks are on")
      .required();
  std::vector<std::string> engines = backend_names();
  engines.insert(engines.begin(), "simgrid");
  command
      .option("--backend", &options->backend,
              "simgrid; host: one process, priced links; " + backends_with_own_processes())
      .one_of(engines)
      .show_default();
  command
      .option("--op", &options->ops,
              "nccl-tests' all_reduce (default), all_gather, reduce_scatter, alltoall, "
              "sendrecv (each rank to the next), or p2p (one to one); repeatable")
      .one_of({"all_reduce", "all_gather", "reduce_scatter", "alltoall", "sendrecv", "p2p"})
      .one_value_each();
  command.option("--pair", &options->pairs, "FROM,TO of p2p; repeatable; default 0,1")
      .one_value_each();
  add_sizes(command, options.get());
  command
      .option("--ranks", &options->ranks,
              "default: as many as mpirun, srun or torchrun has started, the scenario's GPUs, "
              "or two nodes")
      .range(2, 65536);
  command
      .option("--placement", &options->placement,
              "block (default) or cyclic: ranks are dealt round over the nodes")
      .one_of({"block", "cyclic"});
  add_gpu_options(command, &options->gpu);
  command.option("--fit", &options->fit,
                 "write latencies and bus bandwidths for a scenario's cluster.calibration");
  command.flag("--json", &options->json, "print one JSON array, and nothing else");
  command.footer(
      "Example: tandem bench comm --cluster jz-a100 --op all_reduce --op p2p --pair 0,8");
  command.run([options] { return run(*options); });
}

}  // namespace

void add_bench(const Command& app) {
  const Command command = app.subcommand("bench", "Times the parts that a job is made of.");
  command.require_subcommand();
  command.footer("Example: tandem bench comm --cluster jz-a100 --op all_reduce");
  add_comm(command);
}

}  // namespace tandem
