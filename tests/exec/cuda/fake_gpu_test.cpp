// What fake GPUs refuse: plans that are right, with one thing made wrong.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <random>

#include "base/random.h"
#include "tests/exec/cuda/gpu_programs.h"
#include "tests/made_program.h"
#include "tests/seed.h"

using namespace tandem;

namespace {

// Two ranks. A forward, two messages from rank 0 to rank 1, on each another forward, and an
// all-reduce. Streams: 0 computes, 1 is the edge, 2 the group.
Program small_job() {
  return made_program(R"(
    rank 0: F0 1us, send0 0>1 100ns after F0, send1 0>1 100ns after F0, F1 1us after send1,
            all-reduce0 data 500ns after F1
    rank 1: F0 1us, recv0 0>1 100ns after F0, recv1 0>1 100ns after F0, F1 1us after recv1,
            all-reduce0 data 500ns after F1
  )");
}

// The place of the n-th call of a verb.
std::size_t nth(const GpuPlan& plan, GpuVerb verb, int n = 0) {
  for (std::size_t i = 0; i < plan.calls.size(); ++i) {
    if (plan.calls[i].verb == verb && n-- == 0) return i;
  }
  FAIL("no such call");
  return 0;
}

GpuCall& call(GpuPlan* plan, GpuVerb verb, int n = 0) { return plan->calls[nth(*plan, verb, n)]; }

void drop(GpuPlan* plan, std::size_t at) {
  plan->calls.erase(plan->calls.begin() + static_cast<std::ptrdiff_t>(at));
}

void insert(GpuPlan* plan, std::size_t at, const GpuCall& added) {
  plan->calls.insert(plan->calls.begin() + static_cast<std::ptrdiff_t>(at), added);
}

using Edit = std::function<void(GpuPlan*)>;

// Why the small job is refused when rank 0's plan is edited.
std::string edited(const Edit& edit) {
  const Program program = small_job();
  std::vector<GpuPlan> plans = plans_by_rank(program);
  CHECK(refusal(program, plans).empty());
  edit(&plans[0]);
  return refusal(program, plans);
}

// The same where both ranks share a process: streams 0 and 1 compute, 2 is the edge, 3 the group.
std::string edited_shared(const Edit& edit) {
  const Program program = small_job();
  std::vector<GpuPlan> plans = shared_plan(program);
  CHECK(refusal(program, plans).empty());
  edit(&plans[0]);
  return refusal(program, plans);
}

Program order_job(const char* name, int pp, int vpp, bool overlap, bool batch = false) {
  const auto order = make_order({name, pp, vpp, 2 * pp, 0});
  REQUIRE(order.ok());
  LowerOptions options;
  options.dp = 2;
  options.overlap_p2p = overlap;
  options.batch_p2p = batch;
  return order_program(*order, options, 400'000);
}

// Whatever ops take, none begins before what it waits for has ended.
void require_ordered(const Program& program, const std::vector<GpuPlan>& plans, unsigned seed) {
  FakeOptions options;
  options.duration_ns = [&](const GpuPlan& plan, const GpuCall& made) {
    const Op& op = program.body_of(plan.local_ranks[made.local_rank]).ops[made.op];
    const auto key = seed + 1000 * static_cast<unsigned>(op.microbatch + 1) + 17 * op.lane;
    return static_cast<Nanoseconds>(uniform(key) * 1e6);
  };
  const auto run = play(program, plans, options);
  REQUIRE(run.ok());
  int early = 0;
  for (std::size_t p = 0; p < plans.size(); ++p) {
    for (std::size_t local_rank = 0; local_rank < plans[p].local_ranks.size(); ++local_rank) {
      const Body& body = program.body_of(plans[p].local_ranks[local_rank]);
      const std::vector<GpuOpEvents>& events = plans[p].op_events[local_rank];
      for (std::size_t i = 0; i < body.ops.size(); ++i) {
        for (const std::uint32_t wait : body.waits_of(body.ops[i]))
          early += run->event_ns[p][events[i].begin] < run->event_ns[p][events[wait].end] ? 1 : 0;
      }
    }
  }
  REQUIRE(early == 0);
}

}  // namespace

TEST_CASE("a wait too few is refused, or another one says the same") {
  const unsigned seed = test_seed();
  INFO("seed " << seed);
  int refused = 0, spare = 0;
  for (const Program& program :
       {order_job("1f1b", 4, 1, false), order_job("1f1b", 2, 1, false, true),
        order_job("interleaved", 2, 2, true), order_job("zbv", 2, 2, true),
        order_job("dualpipe", 2, 1, true)}) {
    for (const auto& plans : {plans_by_rank(program), shared_plan(program)}) {
      for (std::size_t i = 0; i < plans[0].calls.size(); ++i) {
        if (plans[0].calls[i].verb != GpuVerb::Wait) continue;
        std::vector<GpuPlan> fewer = plans;
        drop(&fewer[0], i);
        const std::string why = refusal(program, fewer);
        if (!why.empty()) {
          const bool named = why.find("is not ordered after") != std::string::npos ||
                             why.find("has not come behind the gate") != std::string::npos ||
                             why.find("is not joined into done") != std::string::npos;
          INFO(why);
          CHECK(named);
          ++refused;
          continue;
        }
        ++spare;
        require_ordered(program, fewer, seed + static_cast<unsigned>(i));
      }
    }
  }
  CHECK(refused > 300);
  CHECK(spare < refused);
}

TEST_CASE("what a dropped wait leaves open is named with both ops") {
  CHECK(
      edited([](GpuPlan* plan) { drop(plan, nth(*plan, GpuVerb::Wait, 1)); }) ==
      "rank 0: call 8: stream 1 (rank 0, 0>1): send, send 0 of stage 0 (lane 0>1): is not ordered "
      "after forward 0 of stage 0 (lane compute) of rank 0, which it waits for");
  // Both ranks in one process: the edge's stream waits for the sender's forward, then for the
  // receiver's.
  CHECK(
      edited_shared([](GpuPlan* plan) {
        const std::size_t move = nth(*plan, GpuVerb::Move);
        std::size_t last = move;
        while (plan->calls[last].verb != GpuVerb::Wait) --last;
        drop(plan, last);
      })
          .find("recv 0 of stage 1 (lane 0>1) of rank 1 is not ordered after forward 0 of stage 1 "
                "(lane compute) of rank 1, which it waits for") != std::string::npos);
}

TEST_CASE("a wait before its event's record is refused: CUDA does nothing there") {
  const Program program = order_job("interleaved", 2, 2, true);
  int refused = 0;
  for (const auto& plans : {plans_by_rank(program), shared_plan(program)}) {
    for (std::size_t i = 0; i < plans[0].calls.size(); ++i) {
      const GpuCall wait = plans[0].calls[i];
      if (wait.verb != GpuVerb::Wait || wait.event == plans[0].gate) continue;
      std::vector<GpuPlan> early = plans;
      std::vector<GpuCall>& calls = early[0].calls;
      drop(&early[0], i);
      const auto record = std::ranges::find_if(calls, [&](const GpuCall& each) {
        return each.verb == GpuVerb::Record && each.event == wait.event;
      });
      insert(&early[0], static_cast<std::size_t>(record - calls.begin()), wait);
      const std::string why = refusal(program, early);
      INFO(why);
      CHECK(why.find("waits for an event that has not been recorded before: CUDA does nothing") !=
            std::string::npos);
      ++refused;
    }
  }
  CHECK(refused > 50);
}

TEST_CASE("ops out of their lane's order are refused: swapped sends, one too few, one twice") {
  CHECK(
      edited([](GpuPlan* plan) {
        for (const GpuVerb verb : {GpuVerb::Fill, GpuVerb::Send})
          std::swap(call(plan, verb, 0).op, call(plan, verb, 1).op);
      }) ==
      "rank 0: call 9: stream 1 (rank 0, 0>1): send, send 1 of stage 0 (lane 0>1): is not the next "
      "op of its lane: expected send 0 of stage 0 (lane 0>1) of rank 0");
  CHECK(edited([](GpuPlan* plan) {
          drop(plan, nth(*plan, GpuVerb::Check));
          drop(plan, nth(*plan, GpuVerb::Collective));
        }) == "rank 0: all-reduce 0 of stage 0 (lane data) of rank 0 is never asked for");
  CHECK(edited([](GpuPlan* plan) {
          insert(plan, nth(*plan, GpuVerb::Compute), call(plan, GpuVerb::Compute));
        }) ==
        "rank 0: call 4: stream 0 (rank 0, compute): compute, forward 0 of stage 0 (lane compute): "
        "carried out a second time");
}

TEST_CASE("members that mean different things by one call are refused") {
  // Plans of the right Program, played as one in which a body says otherwise.
  const Program program = small_job();
  Program unlike = program;
  unlike.bodies[1].ops[2].bytes = 32;
  CHECK(
      refusal(unlike, plans_by_rank(program)) ==
      "rank 1: call 12: stream 1 (rank 1, 0>1): recv, recv 1 of stage 1 (lane 0>1): meets rank 0: "
      "call 13: stream 1 (rank 0, 0>1): send, send 1 of stage 0 (lane 0>1): 64 and 32 bytes");
  unlike = program;
  unlike.bodies[1].ops[4].kind = OpKind::AllGather;
  CHECK(refusal(unlike, plans_by_rank(program)).find("all-reduce and all-gather") !=
        std::string::npos);
  unlike = program;
  unlike.bodies[1].ops[1].kind = OpKind::Send;
  std::vector<GpuPlan> plans = plans_by_rank(unlike);
  CHECK(refusal(unlike, plans).find("send and send") != std::string::npos);
  plans.pop_back();
  CHECK(refusal(unlike, plans).find("found 1 of its 2 members, expected all") != std::string::npos);
}

TEST_CASE("a member that leaves out a collective leaves the others in a deadlock") {
  // Rank 1's body ends without it, so its own plan is right.
  Program program = small_job();
  program.bodies[1].ops.pop_back();
  CHECK(refusal(program, plans_by_rank(program)) ==
        "deadlock: nothing can go on: rank 0: call 23: stream 2 (rank 0, data): collective, "
        "all-reduce 0 of stage 0 (lane data)");
}

TEST_CASE("two communicators in two orders end with a queue each, and in one queue do not") {
  const Program right = made_program(R"(
    rank 0: all-reduce0 tensor 100ns, all-reduce1 data 100ns
    rank 1: all-reduce0 tensor 100ns, all-reduce1 data 100ns
  )");
  const Program wrong = made_program(R"(
    rank 0: all-reduce0 tensor 100ns, all-reduce1 data 100ns
    rank 1: all-reduce1 data 100ns, all-reduce0 tensor 100ns
  )");
  CHECK(validate(right).ok());
  CHECK(!validate(wrong).ok());
  for (const int queues : {0, 1, 3}) CHECK(refusal(right, plans_by_rank(right), queues).empty());
  const std::vector<GpuPlan> plans = plans_by_rank(wrong);
  CHECK(refusal(wrong, plans, 0).empty());
  CHECK(refusal(wrong, plans, 3).empty());
  CHECK(refusal(wrong, plans, 1) ==
        "deadlock: nothing can go on: rank 0: call 5: stream 1 (rank 0, tensor): collective, "
        "all-reduce 0 of stage 0 (lane tensor); rank 1: call 5: stream 1 (rank 1, data): "
        "collective, all-reduce 1 of stage 1 (lane data)");
}

TEST_CASE("in one queue a call that cannot start holds back other streams' calls") {
  // Rank 0's message waits for rank 1's forward of 5 us; meanwhile its own second forward of 1 us
  // could run, from 1 to 2 us. In one queue it starts when the message does, at 5 us.
  const Program program = made_program(R"(
    rank 0: F0 1us, send0 0>1 100ns after F0, F1 1us
    rank 1: F0 5us, recv0 0>1 100ns after F0
  )");
  constexpr std::size_t kSecond = 2;  // of rank 0's ops
  const std::vector<GpuPlan> plans = plans_by_rank(program);
  const auto end_of_second = [&](int queues, bool nccl_streams = false) {
    FakeOptions options;
    options.queues = queues;
    options.nccl_streams = nccl_streams;
    const auto run = play(program, plans, options);
    REQUIRE(run.ok());
    return run->event_ns[0][plans[0].op_events[0][kSecond].end];
  };
  CHECK(end_of_second(0) == 2000);
  CHECK(end_of_second(2) == 2000);
  // Behind the message the queue holds its end's record, which waits until 5.1 us.
  CHECK(end_of_second(1) == 5000 + 100 + 1000);
  // NCCL's stream for the message is the third: of two queues it is dealt the first, which
  // computes, and waits there until the message has ended.
  CHECK(end_of_second(2, true) == 5000 + 100 + 1000);
  CHECK(end_of_second(3, true) == 2000);
  // Alone, rank 0 waits for nobody.
  FakeOptions alone;
  alone.alone = true;
  const auto run = play(program, std::span(plans).first(1), alone);
  REQUIRE(run.ok());
  CHECK(run->event_ns[0][plans[0].op_events[0][1].end] == 1100);
}

TEST_CASE("all events are recorded, once and on their stream, and done behind all streams") {
  CHECK(edited([](GpuPlan* plan) {
          insert(plan, nth(*plan, GpuVerb::Record, 1), call(plan, GpuVerb::Record, 1));
        }) ==
        "rank 0: call 3: stream 0 (rank 0, compute): record event 1, forward 0 of stage 0 (lane "
        "compute): recorded a second time");
  CHECK(edited([](GpuPlan* plan) {
          plan->event_streams[1] = 2;
        }).find("recorded here, expected on stream 2") != std::string::npos);
  CHECK(edited([](GpuPlan* plan) { plan->event_streams.push_back(0); }) ==
        "rank 0: event 14 never happens");
  CHECK(edited([](GpuPlan* plan) { plan->calls.pop_back(); }) == "rank 0: event 13 never happens");
  CHECK(edited([](GpuPlan* plan) { drop(plan, plan->calls.size() - 2); }) ==
        "rank 0: stream 2 (rank 0, lane data) is not joined into done");
  CHECK(edited([](GpuPlan* plan) {
          plan->calls.push_back({GpuVerb::Wait, 0, 0});
        }) == "rank 0: found another last call, expected the record of done");
  CHECK(edited([](GpuPlan* plan) {
          std::swap(plan->op_events[0][0].begin, plan->op_events[0][0].end);
        }).find("is not ordered after its begin") != std::string::npos);
  CHECK(
      edited([](GpuPlan* plan) { plan->op_events[0][0].end = plan->gate; }) ==
      "rank 0: the end of forward 0 of stage 0 (lane compute) of rank 0 is not recorded after it");
}

TEST_CASE("the gate comes first, once, and before all streams") {
  CHECK(edited([](GpuPlan* plan) { drop(plan, 0); }) ==
        "rank 0: found another first call, expected the gate");
  CHECK(edited([](GpuPlan* plan) { insert(plan, 2, plan->calls[0]); }) ==
        "rank 0: call 2: stream 0 (rank 0, compute): gate: a second gate");
  CHECK(edited([](GpuPlan* plan) { std::swap(plan->calls[1], plan->calls[2]); }) ==
        "rank 0: call 2: stream 0 (rank 0, compute): record event 0: not right behind the gate");
  // Begins with its fill, as nothing else would hold it.
  CHECK(
      edited([](GpuPlan* plan) {
        drop(plan, nth(*plan, GpuVerb::Wait, 0));
        drop(plan, nth(*plan, GpuVerb::Wait, 0));
      }) ==
      "rank 0: call 5: stream 1 (rank 0, 0>1): fill, send 0 of stage 0 (lane 0>1): its stream has "
      "not come behind the gate");
}

TEST_CASE("streams, events, local ranks and ops that the plan has not are refused") {
  const auto wrong = [](GpuVerb verb, const GpuCall& change) {
    return edited([&](GpuPlan* plan) {
      GpuCall& changed = call(plan, verb);
      if (change.stream != 0) changed.stream = change.stream;
      if (change.event != -1) changed.event = change.event;
      if (change.local_rank != -1) changed.local_rank = change.local_rank;
      if (change.op != 0) changed.op = change.op;
    });
  };
  CHECK(wrong(GpuVerb::Send, {.stream = 9}) ==
        "rank 0: call 9: send of stream 9, which the plan has not");
  CHECK(wrong(GpuVerb::Wait, {.event = 99}) ==
        "rank 0: call 5: wait of event 99, which the plan has not");
  CHECK(wrong(GpuVerb::Send, {.local_rank = 3}) ==
        "rank 0: call 9: send of local rank 3, which the plan has not");
  CHECK(wrong(GpuVerb::Send, {.op = 77}) ==
        "rank 0: call 9: send of op 77, which the plan has not");
  CHECK(wrong(GpuVerb::Compute, {.stream = 1}).find("its stream has not come behind the gate") !=
        std::string::npos);
  CHECK(edited([](GpuPlan* plan) {
          call(plan, GpuVerb::Send).verb = GpuVerb::Recv;
        }).find("recv, send 0 of stage 0 (lane 0>1): expected send") != std::string::npos);
}

TEST_CASE("communicators: listed, as the Program has them, each on one stream, with room") {
  CHECK(edited([](GpuPlan* plan) { plan->communicators[0].place = 1; }) ==
        "rank 0: communicator 0: found place 1 of 2 with 0 SMs, expected place 0 of 2 with 0");
  CHECK(edited([](GpuPlan* plan) { plan->communicators[1].members = 1; }) ==
        "rank 0: communicator 1: found place 0 of 1 with 0 SMs, expected place 0 of 2 with 0");
  CHECK(edited([](GpuPlan* plan) { plan->communicators.pop_back(); }) ==
        "rank 0: call 23: stream 2 (rank 0, data): collective, all-reduce 0 of stage 0 (lane "
        "data): of "
        "communicator 1, which the plan does not list");
  CHECK(edited([](GpuPlan* plan) {
          plan->streams[1].give_words = 3;
        }).find("needs room for 16 and 0 words, found 3 and 0") != std::string::npos);
  // A second stream of the edge's lane, for its second message.
  CHECK(edited([](GpuPlan* plan) {
          plan->streams.push_back(plan->streams[1]);
          std::size_t fill = nth(*plan, GpuVerb::Fill, 1);
          insert(plan, fill, {GpuVerb::Wait, 3, plan->calls[fill - 1].event});
          for (int i = 1; i <= 4; ++i) {
            plan->calls[fill + i].stream = 3;
            if (plan->calls[fill + i].event >= 0)
              plan->event_streams[plan->calls[fill + i].event] = 3;
          }
        }).find("communicator 0 is used from stream 1 too") != std::string::npos);
}

TEST_CASE("payloads are filled right before they go, and checked right behind what came") {
  CHECK(edited([](GpuPlan* plan) {
          const GpuCall fill = call(plan, GpuVerb::Fill);
          drop(plan, nth(*plan, GpuVerb::Fill));
          insert(plan, nth(*plan, GpuVerb::Send) + 1, fill);
        }).find("fills what has been sent") != std::string::npos);
  CHECK(edited([](GpuPlan* plan) {
          insert(plan, nth(*plan, GpuVerb::Fill, 0), call(plan, GpuVerb::Fill, 1));
        }).find("overwrites what send 1 of stage 0 (lane 0>1) of rank 0 is to send") !=
        std::string::npos);
  CHECK(edited([](GpuPlan* plan) {
          call(plan, GpuVerb::Fill, 0) = call(plan, GpuVerb::Fill, 1);
        }).find("sends what was filled in for send 1") != std::string::npos);
  const std::string late = "is not right behind its op, on the op's stream";
  CHECK(edited([](GpuPlan* plan) {
          std::swap(call(plan, GpuVerb::Check), call(plan, GpuVerb::Collective));
        }).find(late) != std::string::npos);
  CHECK(edited([](GpuPlan* plan) { call(plan, GpuVerb::Check).stream = 1; }).find(late) !=
        std::string::npos);
  CHECK(edited_shared([](GpuPlan* plan) {
          call(plan, GpuVerb::Check).op = call(plan, GpuVerb::Check, 1).op;
        }).find(late) != std::string::npos);
  CHECK(edited_shared([](GpuPlan* plan) {
          GpuCall& check = call(plan, GpuVerb::Check);
          check = call(plan, GpuVerb::Fill);
          check.verb = GpuVerb::Check;
        }).find("checks what nobody received") != std::string::npos);
}

TEST_CASE("groups hold transfers alone, end, and do not nest") {
  const auto grouped = [](const Edit& edit) {
    const Program program = order_job("1f1b", 2, 1, false, true);
    std::vector<GpuPlan> plans = plans_by_rank(program);
    CHECK(refusal(program, plans).empty());
    edit(&plans[0]);
    return refusal(program, plans);
  };
  const auto begins = [](GpuPlan* plan) { return nth(*plan, GpuVerb::GroupBegin); };
  CHECK(grouped([&](GpuPlan* plan) {
          insert(plan, begins(plan), plan->calls[begins(plan)]);
        }).find("a group in a group") != std::string::npos);
  CHECK(grouped([&](GpuPlan* plan) { drop(plan, begins(plan)); }).find("the end of no group") !=
        std::string::npos);
  CHECK(grouped([&](GpuPlan* plan) {
          std::swap(plan->calls[begins(plan)], plan->calls[begins(plan) - 1]);
        }).find("in a group, which holds send and recv only") != std::string::npos);
}

TEST_CASE("transfers of one group start together: their orders within it are free") {
  // Rank 0 sends, then receives, and so does rank 1. One by one in one queue that is a deadlock.
  const auto crossed = [](const char* exchange) {
    return made_program(fmt::format(R"(
      rank 0: send0 0>1 100ns {0}, recv0 1>0 100ns {0}
      rank 1: send0 1>0 100ns {0}, recv0 0>1 100ns {0}
    )",
                                    exchange));
  };
  const Program together = crossed("exchange0"), alone = crossed("");
  for (const int queues : {0, 1, 2})
    CHECK(refusal(together, plans_by_rank(together), queues).empty());
  CHECK(refusal(alone, plans_by_rank(alone), 0).empty());
  CHECK(refusal(alone, plans_by_rank(alone), 1).starts_with("deadlock: "));
}
