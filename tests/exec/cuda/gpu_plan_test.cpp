// Plans of GPUs' calls: fake GPUs play them as the ideal engine plays their Programs.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <tuple>

#include "sim/engines.h"
#include "tests/exec/cuda/gpu_programs.h"
#include "tests/seed.h"

using namespace tandem;

namespace {

Trace ideal_trace(const Program& program) {
  SimOptions options;
  options.fold = false;
  auto trace = ideal(program, options);
  REQUIRE(trace.ok());
  return *std::move(trace);
}

FakeRun played(const Program& program, const std::vector<GpuPlan>& plans, int queues = 0,
               bool nccl_streams = false) {
  FakeOptions options;
  options.queues = queues;
  options.nccl_streams = nccl_streams;
  auto run = play(program, plans, options);
  INFO((run.ok() ? "" : run.error().text()));
  REQUIRE(run.ok());
  return *std::move(run);
}

// Of one process a rank `begin` is when the rank is ready; where all share one, when all are.
void require_ideal(const Program& program, const std::vector<GpuPlan>& plans) {
  const Trace trace = ideal_trace(program);
  const FakeRun run = played(program, plans);
  const bool shared = plans.size() == 1 && plans[0].all_ranks_are_local();
  std::size_t ops = 0, unlike = 0;
  Nanoseconds last = 0;
  std::vector<Nanoseconds> rank_ends(program.ranks.size());
  for (std::size_t plan = 0; plan < plans.size(); ++plan) {
    const std::vector<Nanoseconds>& events = run.event_ns[plan];
    for (std::size_t local_rank = 0; local_rank < plans[plan].local_ranks.size(); ++local_rank) {
      const int rank = index(plans[plan].local_ranks[local_rank]);
      const auto times = trace.events_of(program, trace.ranks[rank]);
      for (std::size_t i = 0; i < times.size(); ++i) {
        const GpuOpEvents& own = plans[plan].op_events[local_rank][i];
        unlike += events[own.begin] != (shared ? times[i].start_ns : times[i].arrive_ns) ? 1 : 0;
        unlike += events[own.end] != times[i].end_ns ? 1 : 0;
        rank_ends[rank] = std::max(rank_ends[rank], times[i].end_ns);
        ++ops;
      }
      last = std::max(last, rank_ends[rank]);
    }
    CHECK(events[plans[plan].gate] == 0);
    CHECK(events[plans[plan].done] == last);
    if (!shared) last = 0;
  }
  CHECK(ops == trace.events.size());
  CHECK(unlike == 0);
}

// What NCCL and MPI demand of communicators.
void require_common_order(const Program& program, const std::vector<GpuPlan>& plans) {
  using Asked = std::tuple<CommKind, int, int, int, Bytes>;
  std::map<int, std::map<int, std::vector<Asked>>> asked;  // by communicator and rank
  for (const GpuPlan& plan : plans) {
    for (const GpuCall& call : plan.calls) {
      if (call.verb != GpuVerb::Send && call.verb != GpuVerb::Recv &&
          call.verb != GpuVerb::Collective)
        continue;
      const Rank rank = plan.local_ranks[call.local_rank];
      const Op& op = program.body_of(rank).ops[call.op];
      const int number = program.ranks[index(rank)].communicators[op.slot];
      asked[number][index(rank)].emplace_back(comm_kind(op.kind), op.microbatch, op.part, op.parts,
                                              op.bytes);
    }
  }
  for (const auto& [number, by_rank] : asked) {
    REQUIRE(by_rank.size() == program.communicators[number].members.size());
    for (const auto& [rank, list] : by_rank) REQUIRE(list == by_rank.begin()->second);
  }
}

// Plans without checks keep all but those.
void require_plain(const Program& program, std::vector<GpuPlan> plans) {
  for (GpuPlan& plan : plans) plan.calls = without_checks(plan.calls);
  for (const GpuPlan& plan : plans) {
    for (const GpuCall& call : plan.calls)
      REQUIRE((call.verb != GpuVerb::Fill && call.verb != GpuVerb::Check));
  }
  require_ideal(program, plans);
}

// All that is claimed of a Program's plans.
void require_sound(const Program& contended) {
  const Program program = without_contention(contended);
  for (const auto& plans : {plans_by_rank(program), shared_plan(program)}) {
    require_ideal(program, plans);
    for (const int queues : {1, 2, 8}) {
      played(program, plans, queues);
      played(program, plans, queues, true);
    }
  }
  const std::vector<GpuPlan> plans = plans_by_rank(program);
  require_common_order(program, plans);
  require_plain(program, plans);
  // SMs that communication takes are named by its communicators, and change no call.
  played(contended, plans_by_rank(contended));
}

// Two stages a rank where the order can have them.
int stages_a_rank(const std::string& name, int pp) {
  return check_order({name, pp, 2, 2 * pp, 0}).ok() ? 2 : 1;
}

}  // namespace

TEST_CASE("plans of every order, with every form of transfers, take the ideal's times") {
  int sound = 0, without_overlap = 0;
  for (const std::string& name : order_names()) {
    for (const int pp : {1, 2, 4, 8}) {
      if ((name == "none") != (pp == 1)) continue;
      const auto order = make_order({name, pp, stages_a_rank(name, pp), 2 * pp, 0});
      INFO((order.ok() ? "" : order.error().text()));
      REQUIRE(order.ok());
      for (const auto& [overlap, batch] : {std::pair{true, false}, {false, false}, {false, true}}) {
        if (order->exchanges == BatchedP2p::Never && !overlap) continue;
        INFO(fmt::format("{} pp {} overlap {} batch {}", name, pp, overlap, batch));
        LowerOptions options;
        options.overlap_p2p = overlap;
        options.batch_p2p = batch;
        if (batch && !lower(*order, uniform_workload({1, 1, 1, 1}, order->stages), options).ok())
          continue;
        for (const Nanoseconds transfer_ns : {0, 300'000, 2'500'000})
          require_sound(order_program(*order, options, transfer_ns));
        ++sound;
        without_overlap += overlap ? 0 : 1;
      }
    }
  }
  CHECK(sound >= 12 * 3 + 1);
  CHECK(without_overlap >= 2 * 3 * 3);  // 1f1b, gpipe, interleaved; pp 2, 4, 8; alone and in groups
}

TEST_CASE("a hardware queue for each stream is enough, fewer hold calls back") {
  // DualPipe on 8 ranks: a middle rank has its compute and 8 edges, to and from 2 neighbours in 2
  // chains; all together have 8 + 4 x 7 x 2 / 2 streams, as a transfer within the GPU needs one.
  const auto order = make_order({"dualpipe", 8, 1, 16, 0});
  REQUIRE(order.ok());
  LowerOptions options;
  options.overlap_p2p = true;
  const Program program = order_program(*order, options, 300'000);
  const auto makespan = [&](const std::vector<GpuPlan>& plans, int queues) {
    const FakeRun run = played(program, plans, queues);
    Nanoseconds last = 0;
    for (std::size_t i = 0; i < plans.size(); ++i)
      last = std::max(last, run.event_ns[i][plans[i].done]);
    return last;
  };
  const std::vector<GpuPlan> lone = plans_by_rank(program), shared = shared_plan(program);
  CHECK(lone[3].streams.size() == 9);
  CHECK(shared[0].streams.size() == 36);
  const Nanoseconds ideal_ns = makespan(lone, 0);
  CHECK(makespan(lone, 9) == ideal_ns);
  CHECK(makespan(shared, 36) == ideal_ns);
  CHECK(makespan(lone, 8) > ideal_ns);     // CUDA's default
  CHECK(makespan(shared, 32) > ideal_ns);  // CUDA's most
  // All ask in the order of time: what shares a queue waits for what begins not much later.
  CHECK(makespan(shared, 32) < ideal_ns + ideal_ns / 5);
}

TEST_CASE(
    "NCCL's streams count: a pipeline of more than 32 with them loses overlap, others do not") {
  // An edge between neighbours, each way, has a communicator: 2 (P - 1) of them, and one each way
  // between the last rank and the first where ranks have two stages. Each is a stream of the plan
  // and one of NCCL's, beside P that compute.
  struct Case {
    const char* order;
    int pp, vpp, streams, nccl_streams;
  };
  for (const Case& each :
       {Case{"1f1b", 4, 1, 10, 6}, Case{"interleaved", 4, 2, 18, 14}, Case{"1f1b", 8, 1, 22, 14},
        Case{"zb1p", 8, 1, 22, 14}, Case{"interleaved", 8, 2, 38, 30}}) {
    INFO(each.order << " " << each.pp);
    const auto order = make_order({each.order, each.pp, each.vpp, 8, 0});
    REQUIRE(order.ok());
    LowerOptions options;
    options.overlap_p2p = true;
    const Program program = order_program(*order, options, 300'000);
    const std::vector<GpuPlan> plans = shared_plan(program);
    const auto nccl_streams = [&](GpuTransfers transfers) {
      return static_cast<int>(nccl_communicators(program, plans[0], transfers).size());
    };
    CHECK(static_cast<int>(plans[0].streams.size()) == each.streams);
    CHECK(nccl_streams(GpuTransfers::Nccl) == each.nccl_streams);
    CHECK(nccl_streams(GpuTransfers::Copy) == 0);
    const int all = each.streams + each.nccl_streams;
    const auto end_ns = [&](int queues, bool with_nccl) {
      return played(program, plans, queues, with_nccl).event_ns[0][plans[0].done];
    };
    const Nanoseconds ideal_ns = end_ns(0, false);
    CHECK(end_ns(all, true) == ideal_ns);
    CHECK((end_ns(kHardwareQueues, true) == ideal_ns) == (all <= kHardwareQueues));
  }
}

TEST_CASE("an exchange in one group is one launch, and its ops are the Program's") {
  const auto order = make_order({"1f1b", 2, 1, 4, 0});
  REQUIRE(order.ok());
  LowerOptions options;
  options.batch_p2p = true;
  const Program program = order_program(*order, options, 1000);
  int groups = 0, grouped = 0;
  bool inside = false;
  for (const GpuCall& call : gpu_plan(program, {{Rank{0}}}).calls) {
    if (call.verb == GpuVerb::GroupBegin) ++groups;
    if (call.verb == GpuVerb::GroupBegin || call.verb == GpuVerb::GroupEnd) inside = !inside;
    grouped += inside && call.verb != GpuVerb::GroupBegin ? 1 : 0;
  }
  // Rank 0 of two: F0 alone; then F1 to F3 are sent as B0 to B2 are received.
  CHECK(groups == 3);
  CHECK(grouped == 6);
}

namespace {

const std::string kDense = R"([model]
layers = 8
hidden = 1024
heads = 16
seq = 512
vocab = 32000
[parallel]
micro_batch = 1
[cluster]
preset = "dgx-h100"
)";

// "KEY=VALUE KEY=VALUE"
Names words(const std::string& text) {
  Names list;
  std::istringstream in(text);
  for (std::string word; in >> word;) list.push_back(word);
  return list;
}

Program lowered(const std::string& sets, const std::string& text = kDense) {
  return job(load(text, words(sets)).at(0));
}

}  // namespace

TEST_CASE("plans of tensor, data, context and expert parallel jobs take the ideal's times") {
  const std::string moe = " model.experts=8 model.top_k=2";
  for (const std::string& sets : {
           std::string("parallel.tp=4 parallel.global_batch=2 cluster.gpus=4"),
           std::string("parallel.tp=2 parallel.pp=2 parallel.dp=2 parallel.global_batch=8 "
                       "train.sequence_parallel=true"),
           std::string("parallel.dp=4 parallel.global_batch=8"),
           std::string("parallel.cp=2 parallel.dp=2 parallel.global_batch=4"),
           std::string("parallel.cp=2 parallel.tp=2 parallel.cp_comm=all_to_all "
                       "parallel.global_batch=2"),
           std::string("parallel.cp=4 overlap.context=true parallel.global_batch=2 "
                       "train.flash_attention=true"),
           std::string("parallel.dp=4 parallel.ep=4 parallel.global_batch=8") + moe,
           std::string("parallel.dp=4 parallel.pp=2 parallel.ep=2 parallel.global_batch=16 "
                       "parallel.vpp=2 overlap.expert=true overlap.expert_sms=8") +
               moe,
           std::string("parallel.dp=2 parallel.pp=2 parallel.ep=2 parallel.global_batch=16 "
                       "schedule.order=dualpipe overlap.expert=true") +
               moe,
       }) {
    INFO(sets);
    require_sound(lowered(sets));
  }
}

TEST_CASE("plans of jobs that overlap tensor or data communication take the ideal's times") {
  const std::string tensor =
      "parallel.tp=4 parallel.pp=2 parallel.global_batch=4 train.sequence_parallel=true ";
  for (const char* method : {"bulk", "pipelined", "ring"})
    require_sound(lowered(tensor + "overlap.tensor=" + method));
  const std::string data = "parallel.dp=4 parallel.global_batch=8 overlap.data_sms=16 ";
  const std::string both = "overlap.grad_reduce=true overlap.param_gather=true ";
  for (const int zero : {0, 1, 2, 3}) {
    const std::string sets = data + "train.zero=" + std::to_string(zero) + " ";
    INFO(sets);
    require_sound(lowered(sets));
    require_sound(lowered(sets + (zero == 0 ? "overlap.grad_reduce=true " : both)));
  }
  const std::string pipeline =
      "parallel.pp=2 parallel.vpp=2 parallel.dp=2 parallel.global_batch=8 train.zero=1 ";
  require_sound(lowered(pipeline + both));
  require_sound(lowered(pipeline + both + "overlap.align_param_gather=false"));
  require_sound(lowered(pipeline + both + "overlap.p2p=false overlap.batch_p2p=true"));
  require_sound(lowered(pipeline + "overlap.p2p=false overlap.p2p_sms=2"));
}

TEST_CASE("plans of the scenarios that we ship, made small, take the ideal's times") {
  const auto all = [](const char* file, const std::string& sets) {
    std::vector<std::pair<std::string, Setting>> parsed;
    for (const std::string& one : words(sets)) {
      auto set = parse_set(one);
      REQUIRE(set.ok());
      parsed.push_back(*std::move(set));
    }
    auto scenarios = load_scenarios(std::string(TANDEM_SOURCE_DIR) + "/scenarios/" + file, parsed);
    INFO((scenarios.ok() ? "" : scenarios.error().text()));
    REQUIRE(scenarios.ok());
    for (const Scenario& scenario : *scenarios) {
      INFO(file << ": " << scenario.name);
      require_sound(job(scenario));
    }
  };
  all("nemo-overlap.toml",
      "parallel.tp=4 parallel.dp=2 parallel.cp=1 parallel.pp=2 parallel.vpp=2 model.layers=4 "
      "parallel.global_batch=8 overlap.context=false cluster.gpus=16");
  all("nemo-data.toml",
      "model.layers=4 parallel.tp=2 parallel.dp=4 parallel.global_batch=8 cluster.gpus=8");
}

namespace {

// Settings at random; many are refused.
std::string drawn(std::mt19937* random) {
  const auto one_of = [&](std::initializer_list<const char*> list) -> std::string {
    return list.begin()[(*random)() % list.size()];
  };
  const auto set = [&](const char* key, std::initializer_list<const char*> list) {
    return fmt::format("{}={} ", key, one_of(list));
  };
  std::string sets =
      set("parallel.tp", {"1", "1", "2", "4"}) + set("parallel.pp", {"1", "2", "2", "4"}) +
      set("parallel.dp", {"1", "2", "2", "4"}) + set("parallel.cp", {"1", "1", "1", "2"}) +
      set("parallel.global_batch", {"4", "8", "16"}) + set("model.layers", {"4", "8"}) +
      set("train.zero", {"0", "1", "2", "3"}) + set("overlap.grad_reduce", {"true", "false"}) +
      set("overlap.param_gather", {"true", "false", "false"}) +
      set("overlap.align_param_gather", {"true", "false"}) +
      set("train.sequence_parallel", {"true", "false"}) +
      set("parallel.scatter_gather", {"true", "false"}) +
      set("overlap.context", {"true", "false"}) +
      set("parallel.cp_comm", {"ring", "all_gather", "all_to_all"});
  const std::vector<std::string> orders = order_names();
  sets += fmt::format("schedule.order={} ", orders[(*random)() % orders.size()]);
  if ((*random)() % 2 == 0) sets += set("parallel.vpp", {"1", "2"});
  if ((*random)() % 3 == 0) sets += set("overlap.p2p", {"true", "false"});
  if ((*random)() % 3 == 0) sets += "overlap.batch_p2p=true overlap.p2p=false ";
  if ((*random)() % 3 == 0) sets += set("overlap.tensor", {"bulk", "pipelined", "ring"});
  if ((*random)() % 3 == 0) {
    sets += "model.experts=8 model.top_k=2 " + set("parallel.ep", {"1", "2", "4"}) +
            set("parallel.expert_tp", {"1", "2"}) + set("overlap.expert", {"true", "false"});
  }
  return sets;
}

}  // namespace

TEST_CASE("plans of jobs at random take the ideal's times, and end with any number of queues") {
  const unsigned seed = test_seed();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  const Folder folder;
  // Until all that can be drawn has been.
  int sound = 0, drawn_in_all = 0, tensor = 0, contexts = 0, grouped = 0, mixtures = 0;
  while (sound < 100 || std::min({tensor, contexts, grouped, mixtures}) < 2) {
    REQUIRE(++drawn_in_all < 20'000);
    const std::string sets = drawn(&random);
    const auto scenarios = try_load(folder, kDense, words(sets));
    if (!scenarios.ok() || scenarios->at(0).cluster.gpus > 16) continue;
    const auto ready = compile(scenarios->at(0));
    if (!ready.ok()) continue;
    INFO(sets);
    require_sound(ready->program);
    const Scenario& scenario = scenarios->at(0);
    ++sound;
    tensor += scenario.job.plan.tp > 1 ? 1 : 0;
    contexts += scenario.job.plan.cp > 1 ? 1 : 0;
    grouped += scenario.job.batch_p2p && scenario.job.plan.pp > 1 ? 1 : 0;
    mixtures += scenario.job.model.is_moe() ? 1 : 0;
  }
}
