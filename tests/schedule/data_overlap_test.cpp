// Data-parallel communication, bucket by bucket, in closed form and on both engines.
#include "schedule/program/rank_folding.h"
#include "tests/sim/both_engines.h"

namespace tandem {
namespace {

constexpr int kLayers = 4;

// `layers` units on each of `stages` stages: a forward of 3 ms and a backward of 6 ms a layer, and
// bytes of which each of two replicas sends half: 1 ms for a layer's gradients, 1 ms for its
// parameters.
Workload layered(int stages = 1, int layers = kLayers) {
  StageWork stage;
  stage.layers = layers;
  PassBuilder forward, backward, input, weight;
  for (int layer = 0; layer < layers; ++layer) {
    stage.units.push_back({.gradient_bytes = 2'000'000, .parameter_bytes = 2'000'000});
    forward.compute(-1, 3 * kMs, layer);
    backward.compute(-1, 6 * kMs, layers - 1 - layer);
    input.compute(-1, 3 * kMs, layers - 1 - layer);
    weight.compute(-1, 3 * kMs, layers - 1 - layer);
  }
  stage.forward = forward.take();
  stage.backward = backward.take();
  stage.backward_input = input.take();
  stage.backward_weight = weight.take();
  stage.optimizer = Step{.duration_ns = kMs};
  Workload work;
  work.stages.assign(stages, stage);
  return work;
}

LowerOptions replicas(int dp, const DataOptions& data) {
  LowerOptions options;
  options.dp = dp;
  options.data = data;
  return options;
}

Played alone(const DataOptions& data, int microbatches = 2, Workload work = layered()) {
  return play(order_named("none", 1, microbatches), work, replicas(2, data));
}

// Two microbatches of four layers, 9 ms each, and the optimizer.
constexpr Nanoseconds kCompute = 2 * kLayers * 9 * kMs + kMs;

std::vector<const Op*> data_ops(const Played& played, int body, OpKind kind) {
  std::vector<const Op*> ops;
  for (const Op& op : played.program.bodies[body].ops) {
    if (op.kind == kind && op.slot >= 0) ops.push_back(&op);
  }
  return ops;
}

TEST_CASE("with one stage, one bucket stays exposed at either end") {
  // The first layer's gather before its forward, the first layer's scatter behind its backward. All
  // others are shorter than the layer beside them.
  const Played played = alone({.zero = 1, .grad_reduce = true, .param_gather = true});
  CHECK(data_ops(played, 0, OpKind::ReduceScatter).size() == kLayers);
  CHECK(data_ops(played, 0, OpKind::AllGather).size() == kLayers);
  CHECK(played.iteration() == kCompute + kMs + kMs);
  CHECK(played.exposed(GroupKind::Data) == 2 * kMs);
  CHECK(played.comm(GroupKind::Data) == 2 * kLayers * kMs);
}

TEST_CASE("aligned gathers run ahead from the start, others when the bucket before is used") {
  const auto gathers_end = [](bool align) {
    const Played played =
        alone({.zero = 1, .grad_reduce = true, .param_gather = true, .align_param_gather = align});
    CHECK(played.iteration() == kCompute + 2 * kMs);
    Nanoseconds last = 0;
    for (std::size_t i = 0; i < played.program.bodies[0].ops.size(); ++i) {
      if (played.program.bodies[0].ops[i].kind == OpKind::AllGather)
        last = std::max(last, played.trace.events[i].end_ns);
    }
    return last;
  };
  CHECK(gathers_end(true) == kLayers * kMs);
  // The last one beside the last layer but one, which starts behind a gather and two forwards.
  CHECK(gathers_end(false) == (1 + 3 + 3 + 1) * kMs);
}

TEST_CASE("without overlap all gradients and all parameters are exposed") {
  const Played played = alone({.zero = 1});
  CHECK(data_ops(played, 0, OpKind::ReduceScatter).size() == 1);
  CHECK(data_ops(played, 0, OpKind::AllGather).size() == 1);
  CHECK(played.iteration() == kCompute + 2 * kLayers * kMs);
  CHECK(played.exposed(GroupKind::Data) == 2 * kLayers * kMs);
}

TEST_CASE("without a distributed optimizer, gradients are all-reduced: twice a scatter's time") {
  const Played exposed = alone({});
  CHECK(exposed.iteration() == kCompute + 2 * kLayers * kMs);
  const Played overlapped = alone({.grad_reduce = true});
  CHECK(data_ops(overlapped, 0, OpKind::AllReduce).size() == kLayers);
  CHECK(overlapped.iteration() == kCompute + 2 * kMs);
}

TEST_CASE("a bucket longer than its layer's backward delays the next") {
  // 8 ms a bucket beside 6 ms of backward: the first is ready after its layer, then all four follow
  // one another: 3 x 6 - 4 x 8 = 14 ms over.
  Workload work = layered();
  for (ParameterUnit& unit : work.stages[0].units) unit.gradient_bytes = 16'000'000;
  const Played played = alone({.zero = 1, .grad_reduce = true, .param_gather = true}, 2, work);
  CHECK(played.iteration() == kCompute + kMs + 14 * kMs);
}

TEST_CASE("half the bytes take half the time: bf16 gradients, fp8 parameters") {
  Workload work = layered();
  for (ParameterUnit& unit : work.stages[0].units) {
    unit.gradient_bytes /= 2;
    unit.parameter_bytes /= 2;
  }
  const Played played = alone({.zero = 1}, 2, work);
  CHECK(played.comm(GroupKind::Data) == kLayers * kMs);
}

TEST_CASE("buckets hold whole units up to their size, from the last layer on") {
  // 4 MB: two layers a bucket. The last to be reduced holds layers 0 and 1: 2 ms exposed; so does
  // the first to be gathered.
  const Played played =
      alone({.zero = 1, .grad_reduce = true, .param_gather = true, .bucket_bytes = 4'000'000});
  CHECK(data_ops(played, 0, OpKind::ReduceScatter).size() == 2);
  CHECK(played.iteration() == kCompute + 4 * kMs);
  const Played odd =
      alone({.zero = 1, .grad_reduce = true, .param_gather = true, .bucket_bytes = 5'000'000});
  const auto ops = data_ops(odd, 0, OpKind::ReduceScatter);
  REQUIRE(ops.size() == 2);
  CHECK(ops[0]->bytes == 6'000'000);  // of layers 3, 2 and 1
  CHECK(ops[1]->bytes == 2'000'000);
}

TEST_CASE("the first of a pipeline's stages may have buckets of its own size") {
  const auto of = [](Bytes first_stage) {
    DataOptions data{.grad_reduce = true};
    data.first_stage_bucket_bytes = first_stage;
    return play(order_named("1f1b", 2, 4), layered(2), replicas(2, data));
  };
  const Played whole = of(0), cut = of(4'000'000);
  CHECK(data_ops(whole, 0, OpKind::AllReduce).size() == 1);
  CHECK(data_ops(cut, 0, OpKind::AllReduce).size() == 2);
  CHECK(data_ops(cut, 1, OpKind::AllReduce).size() == 1);
  // Of its reduction only the last bucket, half of it, ends behind the last backward.
  const Nanoseconds half = data_ops(whole, 0, OpKind::AllReduce).front()->duration_ns / 2;
  CHECK(whole.iteration() - cut.iteration() == half);
}

TEST_CASE("with a pipeline a bucket is a stage, and waits for the last microbatch") {
  // Stages end their backwards from the last to the first, and each reduces then: only the first
  // stage's bucket, 4 ms, is exposed to the iteration. Gathers: all stages at once, 4 ms before the
  // first forward.
  LowerOptions options = replicas(2, {.zero = 1, .grad_reduce = true, .param_gather = true});
  const Workload work = layered(2);
  const Nanoseconds alone_ns = play(order_named("1f1b", 2, 4), work, {}).iteration();
  const Played played = play(order_named("1f1b", 2, 4), work, options);
  CHECK(data_ops(played, 0, OpKind::ReduceScatter).size() == 1);
  CHECK(played.iteration() == alone_ns + 8 * kMs);
  // Not aligned, the second stage gathers only when its first input is there.
  options.data.align_param_gather = false;
  CHECK(play(order_named("1f1b", 2, 4), work, options).iteration() == alone_ns + 12 * kMs);
}

TEST_CASE("virtual stages each have their bucket") {
  const LowerOptions options = [] {
    LowerOptions o = replicas(2, {.zero = 1, .grad_reduce = true, .param_gather = true});
    o.overlap_p2p = true;
    return o;
  }();
  const Played played = play(order_named("interleaved", 2, 4, 3), layered(6), options);
  CHECK(data_ops(played, 0, OpKind::ReduceScatter).size() == 3);
  CHECK(data_ops(played, 1, OpKind::AllGather).size() == 3);
}

TEST_CASE("ZeRO-2 scatters gradients after every backward") {
  const Played played = alone({.zero = 2, .grad_reduce = true, .param_gather = true});
  CHECK(data_ops(played, 0, OpKind::ReduceScatter).size() == 2 * kLayers);
  // The last bucket of the first microbatch runs beside the second's forward.
  CHECK(played.iteration() == kCompute + 2 * kMs);
  const Played exposed = alone({.zero = 2, .param_gather = true});
  CHECK(exposed.iteration() == kCompute + kMs + 2 * kLayers * kMs);
}

TEST_CASE("ZeRO-3 gathers every layer for each pass, one ahead") {
  const Played played = alone({.zero = 3, .grad_reduce = true, .param_gather = true});
  CHECK(data_ops(played, 0, OpKind::AllGather).size() == 2 * 2 * kLayers);
  CHECK(data_ops(played, 0, OpKind::ReduceScatter).size() == 2 * kLayers);
  CHECK(played.comm(GroupKind::Data) == 6 * kLayers * kMs);
  // Gather and scatter of a layer, 2 ms, fit beside a backward of 6 ms, a gather beside a forward.
  // Between two microbatches the first layer's scatter goes first, then its gather for the next
  // forward: 2 ms more.
  CHECK(played.iteration() == kCompute + 2 * kMs + 2 * kMs);
  const Played exposed = alone({.zero = 3});
  CHECK(exposed.iteration() == kCompute + 6 * kLayers * kMs);
}

TEST_CASE("ZeRO-3 is bound by its bytes where they take longer than the compute") {
  // 20 ms a gather or scatter: 2 microbatches x 3 x 4 of them on one lane, and the optimizer. The
  // gather behind a scatter does not wait for it but on the lane, so the lane never rests.
  Workload work = layered();
  for (ParameterUnit& unit : work.stages[0].units)
    unit.gradient_bytes = unit.parameter_bytes = 40'000'000;
  const Played played = alone({.zero = 3, .grad_reduce = true, .param_gather = true}, 2, work);
  CHECK(played.iteration() >= 24 * 20 * kMs + kMs);
  CHECK(played.iteration() <= 24 * 20 * kMs + kCompute);
  CHECK(played.comm(GroupKind::Data) == 24 * 20 * kMs);
}

TEST_CASE("experts' gradients go over the GPUs that hold the same experts") {
  // dp 4, ep 2: dense bytes over four, experts' over two.
  Workload work = layered();
  for (ParameterUnit& unit : work.stages[0].units) unit.expert_gradient_bytes = 2'000'000;
  LowerOptions options = replicas(4, {.zero = 1});
  options.ep = 2;
  const Played played = play(order_named("none", 1, 2), work, options);
  std::vector<std::size_t> sizes;
  for (const Communicator& communicator : played.program.communicators) {
    if (communicator.group_kind == GroupKind::Data) sizes.push_back(communicator.members.size());
  }
  std::sort(sizes.begin(), sizes.end());
  CHECK(sizes == std::vector<std::size_t>{2, 2, 4});
  CHECK(data_ops(played, 0, OpKind::ReduceScatter).size() == 2);
}

// 1 MB all-reduced by two takes 1 ms, 2 MB 2 ms. Of two microbatches each has one behind its
// forward and one behind its backward, and what comes next waits for them.
TEST_CASE("largest numbers are reduced over all replicas behind each pass, which waits for it") {
  const auto take = [](AmaxReduction amax, Workload work = layered()) {
    for (StageWork& stage : work.stages) {
      stage.forward_amax_bytes = 1'000'000;
      stage.backward_amax_bytes = 2'000'000;
    }
    LowerOptions options = replicas(2, {});
    options.amax = amax;
    return play(order_named("none", 1, 2), work, options);
  };
  const Played none = take(AmaxReduction::None), all = take(AmaxReduction::All);
  CHECK(none.iteration() == alone({}).iteration());
  CHECK(all.iteration() == none.iteration() + 2 * (1 + 2) * kMs);
  // tp x cp is one GPU here.
  CHECK(take(AmaxReduction::Tensor).iteration() == none.iteration());
}

TEST_CASE("a rank of several stages reduces what all of them hold, and sends on after that") {
  Workload work = layered(4);
  for (StageWork& stage : work.stages) stage.forward_amax_bytes = 500'000;
  LowerOptions options = replicas(2, {});
  options.overlap_p2p = true;
  const Played played = play(order_named("interleaved", 2, 2, 2), work, options);
  const Body& body = played.program.bodies[0];
  int reductions = 0, sends = 0;
  for (const Op& op : body.ops) {
    if (op.kind == OpKind::AllReduce && op.bytes == 2 * 500'000) ++reductions;
    if (op.kind != OpKind::Send || body.ops[body.waits_of(op)[0]].kind != OpKind::AllReduce)
      continue;
    ++sends;
  }
  CHECK(reductions == 2 * 2);  // of stages and microbatches; backwards have none to reduce here
  CHECK(sends > 0);
}

TEST_CASE("weights' largest numbers are reduced between the optimizer and their gather") {
  Workload work = layered();
  const Played without = alone({.zero = 1}, 2, work);
  work.stages[0].weight_amax_bytes = 1'000'000;
  const Played with = alone({.zero = 1}, 2, work);
  CHECK(with.iteration() == without.iteration() + 1 * kMs);
  CHECK(data_ops(with, 0, OpKind::AllReduce).size() == 1);
}

// tp 4, dp 4: sixteen ranks, whose experts are shared by pairs, or by two tensor groups.
TEST_CASE("neighbours share an expert, beside the tensor groups or across them") {
  for (const int shared : {2, 8}) {
    Workload work;
    StageWork stage;
    PassBuilder forward, backward;
    forward.communicate(GroupKind::Tensor, CommKind::AllReduce, 1000);
    forward.communicate_among_experts(CommKind::AllGather, 1000);
    forward.compute(-1, kMs);
    backward.compute(-1, kMs);
    stage.forward = forward.take();
    stage.backward = stage.backward_input = stage.backward_weight = backward.take();
    work.stages = {stage};
    LowerOptions options = replicas(4, {});
    options.tp = 4;
    options.expert_tp = shared;
    const Played played = play(order_named("none", 1, 1), work, options);
    const Body& body = played.program.bodies[0];
    for (std::size_t i = 0; i < body.ops.size(); ++i) {
      const Op& op = body.ops[i];
      if (op.kind != OpKind::AllGather) continue;
      for (int rank = 0; rank < 16; ++rank) {
        const RankRow& row = played.program.ranks[rank];
        const auto& members = played.program.communicators[row.communicators[op.slot]].members;
        REQUIRE(static_cast<int>(members.size()) == shared);
        CHECK(index(members.front()) == rank / shared * shared);
        CHECK(index(members.back()) == rank / shared * shared + shared - 1);
      }
    }
  }
}

TEST_CASE("ZeRO-3 gathers every bucket once a pass, on several stages of one rank, too") {
  const Played played = play(order_named("interleaved", 1, 2, 2), layered(2), [] {
    LowerOptions options = replicas(2, {.zero = 3, .grad_reduce = true, .param_gather = true});
    options.overlap_p2p = true;
    return options;
  }());
  CHECK(data_ops(played, 0, OpKind::AllGather).size() == 2 * 2 * 2 * kLayers);
}

TEST_CASE("a distributed optimizer sums the norm of its cuts before the optimizer") {
  Workload work = layered();
  work.gradient_norm_bytes = 4;
  const Played played = alone({.zero = 1}, 2, work);
  const auto norms = data_ops(played, 0, OpKind::AllReduce);
  REQUIRE(norms.size() == 1);
  CHECK(norms[0]->bytes == 4);
  CHECK(data_ops(alone({}, 2, work), 0, OpKind::AllReduce).size() == 1);  // of all gradients
}

TEST_CASE("DualPipe's two copies of a stage are one data-parallel group") {
  // Four ranks hold two stages each, ranks r and 3 - r the same two: over two replicas that is
  // groups of four, and each rank reduces what both of its stages have.
  const Order order = order_named("dualpipe", 4, 8);
  LowerOptions options = replicas(2, {});
  options.overlap_p2p = true;
  const Played played = play_ideal(order, layered(8), options);
  int groups = 0;
  for (const Communicator& communicator : played.program.communicators) {
    if (communicator.group_kind != GroupKind::Data) continue;
    ++groups;
    CHECK(communicator.members.size() == 4);
    const int stage = index(communicator.members.front()) / 2;
    for (const Rank member : communicator.members) {
      const int there = index(member) / 2;
      CHECK((there == stage || there == 3 - stage));
    }
  }
  CHECK(groups == 2);
  const auto reduced = data_ops(played, 0, OpKind::AllReduce);
  REQUIRE(reduced.size() == 1);
  CHECK(reduced[0]->bytes == 2 * kLayers * 2'000'000);
}

TEST_CASE("ZeRO-3 that does not reshard gathers a layer once a microbatch") {
  const DataOptions ahead = {
      .zero = 3, .reshard_after_forward = false, .grad_reduce = true, .param_gather = true};
  const Played played = alone(ahead);
  CHECK(data_ops(played, 0, OpKind::AllGather).size() == 2 * kLayers);
  CHECK(data_ops(played, 0, OpKind::ReduceScatter).size() == 2 * kLayers);
  CHECK(played.comm(GroupKind::Data) == 4 * kLayers * kMs);
  CHECK(played.iteration() == kCompute + 2 * kMs + 2 * kMs);  // at the same places as with it
  CHECK(alone({.zero = 3, .reshard_after_forward = false}).iteration() ==
        kCompute + 4 * kLayers * kMs);
  // F F B B: the second forward and the first backward find what the first forward gathered, which
  // goes behind that backward; the second backward gathers again.
  const Played both = play(order_named("gpipe", 1, 2), layered(), replicas(2, ahead));
  CHECK(data_ops(both, 0, OpKind::AllGather).size() == 2 * kLayers);
}

TEST_CASE("in a pipeline ZeRO 2 and 3 communicate as 1 does") {
  const auto hash_of = [](int zero, bool overlap) {
    const auto program =
        lower(order_named("1f1b", 2, 4), layered(2),
              replicas(2, {.zero = zero, .grad_reduce = overlap, .param_gather = overlap}));
    REQUIRE(program.ok());
    return hash(*program);
  };
  CHECK(hash_of(2, true) == hash_of(1, true));
  CHECK(hash_of(3, true) == hash_of(1, true));
  CHECK(hash_of(2, false) == hash_of(1, false));
  // Not ahead, ZeRO 3 gathers at the first use instead of behind the optimizer: 4 ms before the
  // first stage's first forward, 4 ms of reduction behind its last backward.
  const Workload work = layered(2);
  const Nanoseconds alone_ns = play(order_named("1f1b", 2, 4), work, {}).iteration();
  const Played late = play(order_named("1f1b", 2, 4), work, replicas(2, {.zero = 3}));
  CHECK(data_ops(late, 0, OpKind::AllGather).size() == 1);
  CHECK(data_ops(late, 0, OpKind::ReduceScatter).size() == 1);
  CHECK(late.iteration() == alone_ns + 8 * kMs);
}

// The members of data-parallel groups, sorted.
std::vector<std::vector<int>> data_groups(const Program& program) {
  std::vector<std::vector<int>> groups;
  for (const Communicator& communicator : program.communicators) {
    if (communicator.group_kind != GroupKind::Data) continue;
    auto& group = groups.emplace_back();
    for (const Rank member : communicator.members) group.push_back(index(member));
  }
  std::ranges::sort(groups);
  return groups;
}

using Groups = std::vector<std::vector<int>>;

TEST_CASE("shards of two neighbours: gathers inside, and a cut's sum between replicas") {
  // 8 MB: scattered and gathered over two, 4 ms each; the cut of 4 MB all-reduced over two, 4 ms.
  const Played played =
      play(order_named("none", 1, 2), layered(), replicas(4, {.zero = 1, .shard = 2}));
  CHECK(data_groups(played.program) == Groups{{0, 1}, {0, 2}, {1, 3}, {2, 3}});
  CHECK(played.iteration() == kCompute + 3 * kLayers * kMs);
  const auto sums = data_ops(played, 0, OpKind::AllReduce);
  REQUIRE(sums.size() == 1);
  CHECK(sums[0]->bytes == kLayers * 1'000'000);
  CHECK(data_ops(played, 0, OpKind::ReduceScatter)[0]->bytes == kLayers * 2'000'000);
  CHECK(data_ops(played, 0, OpKind::AllGather)[0]->bytes == kLayers * 2'000'000);
  CHECK(fold(played.program).folded_ranks.size() == 1);
  // Bucket by bucket: the first layer's gather, and its scatter and sum, 1 ms each.
  const Played overlapped =
      play(order_named("none", 1, 2), layered(),
           replicas(4, {.zero = 1, .shard = 2, .grad_reduce = true, .param_gather = true}));
  CHECK(data_ops(overlapped, 0, OpKind::AllReduce).size() == kLayers);
  CHECK(overlapped.iteration() == kCompute + 3 * kMs);
  // ZeRO 3 sums after every backward, too, beside gathers over the same links.
  const Played each = play_ideal(order_named("none", 1, 2), layered(),
                                 replicas(4, {.zero = 3, .shard = 2, .grad_reduce = true}));
  CHECK(data_ops(each, 0, OpKind::AllReduce).size() == 2 * kLayers);
}

TEST_CASE("a shard of one is no shard: replicas all-reduce, and nothing is gathered") {
  const Played played =
      play(order_named("none", 1, 2), layered(), replicas(2, {.zero = 1, .shard = 1}));
  CHECK(played.iteration() == alone({}).iteration());
  CHECK(data_ops(played, 0, OpKind::AllGather).empty());
  CHECK(data_groups(played.program) == Groups{{0, 1}});
}

TEST_CASE("a shard of all is what is said where nothing is said") {
  const auto hash_of = [](int shard) {
    const auto program = lower(order_named("none", 1, 2), layered(),
                               replicas(4, {.zero = 3, .shard = shard, .grad_reduce = true}));
    REQUIRE(program.ok());
    return hash(*program);
  };
  CHECK(hash_of(4) == hash_of(0));
}

TEST_CASE("shards inside nodes send between nodes what one replica would") {
  // Two nodes of four GPUs and one NIC of a megabyte a millisecond. Each of a node's four GPUs sums
  // a cut of 2 MB with the other node, all at once: 8 MB, 8 ms.
  ClusterSpec spec = megabyte_a_ms();
  spec.gpus_per_node = 4;
  const Played played =
      play_ideal(order_named("none", 1, 2), layered(), replicas(8, {.zero = 1, .shard = 4}), spec);
  const auto sums = data_ops(played, 0, OpKind::AllReduce);
  REQUIRE(sums.size() == 1);
  CHECK(sums[0]->bytes == 2'000'000);
  CHECK(sums[0]->duration_ns == 8 * kMs);
  int inside = 0, between = 0;
  for (const Communicator& communicator : played.program.communicators)
    ++(communicator.between_nodes ? between : inside);
  CHECK(inside == 2);
  CHECK(between == 4);
}

TEST_CASE("experts are cut over as many replicas as the rest") {
  // dp 4, ep 2, shards of 2: each of a shard's GPUs has other experts, which nobody cuts.
  Workload work = layered();
  for (ParameterUnit& unit : work.stages[0].units) unit.expert_gradient_bytes = 2'000'000;
  LowerOptions options = replicas(4, {.zero = 1, .shard = 2});
  options.ep = 2;
  Played played = play(order_named("none", 1, 2), work, options);
  CHECK(data_groups(played.program) == Groups{{0, 1}, {0, 2}, {0, 2}, {1, 3}, {1, 3}, {2, 3}});
  const auto sums = data_ops(played, 0, OpKind::AllReduce);
  REQUIRE(sums.size() == 2);
  CHECK(sums[0]->bytes == kLayers * 1'000'000);
  CHECK(sums[1]->bytes == kLayers * 2'000'000);
  // dp 8, shards of 4: two GPUs of a shard have the same experts.
  options.dp = 8;
  options.data.shard = 4;
  played = play_ideal(order_named("none", 1, 2), work, options);
  CHECK(data_groups(played.program) == Groups{{0, 1, 2, 3},
                                              {0, 2},
                                              {0, 4},
                                              {0, 4},
                                              {1, 3},
                                              {1, 5},
                                              {1, 5},
                                              {2, 6},
                                              {2, 6},
                                              {3, 7},
                                              {3, 7},
                                              {4, 5, 6, 7},
                                              {4, 6},
                                              {5, 7}});
}

TEST_CASE("the gradient norm is summed over a shard alone: replicas have the same") {
  Workload work = layered();
  work.gradient_norm_bytes = 4;
  const Played played = play(order_named("none", 1, 2), work, replicas(4, {.zero = 1, .shard = 2}));
  const auto sums = data_ops(played, 0, OpKind::AllReduce);
  REQUIRE(sums.size() == 2);
  CHECK(sums[1]->bytes == 4);
  CHECK(sums[1]->slot == data_ops(played, 0, OpKind::ReduceScatter)[0]->slot);
}

TEST_CASE("DualPipe's copies of a stage are replicas of its shards") {
  LowerOptions options = replicas(2, {.zero = 1, .shard = 2});
  options.overlap_p2p = true;
  const auto program = lower(order_named("dualpipe", 4, 8), layered(8), options);
  REQUIRE(program.ok());
  CHECK(data_groups(*program) ==
        Groups{{0, 1}, {0, 6}, {1, 7}, {2, 3}, {2, 4}, {3, 5}, {4, 5}, {6, 7}});
  // With one rank a stage, the copy is still another.
  const auto one = lower_one_replica(order_named("dualpipe", 4, 8), layered(8), options);
  REQUIRE(one.ok());
  CHECK(data_groups(one->program) == Groups{{0}, {0, 3}, {1}, {1, 2}, {2}, {3}});
}

TEST_CASE("with hpZ forwards gather over all, backwards over neighbours") {
  DataOptions data{.zero = 3, .grad_reduce = true, .param_gather = true};
  data.secondary = 2;
  const Played played = play(order_named("none", 1, 2), layered(), replicas(4, data));
  std::map<std::size_t, std::size_t> gathers;  // by the members of their group
  const RankRow& first = played.program.ranks.front();
  for (const Op* op : data_ops(played, 0, OpKind::AllGather))
    ++gathers[played.program.communicators[first.communicators[op->slot]].members.size()];
  // Two microbatches of four layers, each gathered once a pass.
  CHECK(gathers == std::map<std::size_t, std::size_t>{{4, 8}, {2, 8}});
}

TEST_CASE("with hpZ backwards gather experts over neighbours, too, unless ranks share them out") {
  DataOptions data{.zero = 3, .grad_reduce = true, .param_gather = true};
  data.secondary = 2;
  Workload work = layered();
  for (ParameterUnit& unit : work.stages[0].units)
    unit.expert_gradient_bytes = unit.expert_parameter_bytes = 2'000'000;
  using Gathers = std::map<std::size_t, std::size_t>;  // by the members of their group
  const auto gathers = [&](int ep) {
    LowerOptions options = replicas(4, data);
    options.ep = ep;
    const Played played = play(order_named("none", 1, 2), work, options);
    const RankRow& first = played.program.ranks.front();
    Gathers found;
    for (const Op* op : data_ops(played, 0, OpKind::AllGather))
      ++found[played.program.communicators[first.communicators[op->slot]].members.size()];
    return found;
  };
  CHECK(gathers(1) == Gathers{{4, 16}, {2, 16}});
  CHECK(gathers(2) == Gathers{{4, 8}, {2, 8 + 16}});  // 2 of 4 ranks hold an expert
}

TEST_CASE("data-parallel rules are named") {
  const auto message = [](const std::string& order, int pp, const DataOptions& data) {
    const auto program = lower(order_named(order, pp, 4), layered(pp), replicas(2, data));
    REQUIRE_FALSE(program.ok());
    return program.error().text();
  };
  CHECK(message("none", 1, {.param_gather = true}).find("train.zero >= 1") != std::string::npos);
}

}  // namespace
}  // namespace tandem
