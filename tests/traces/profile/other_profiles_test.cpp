// What profiles of others taught: rows of 2021, annotations within annotations, threads that do
// more than one thing, steps that overlap or that nobody marked.
#include <catch2/catch.hpp>

#include "tests/traces/profile/kineto_text.h"
#include "traces/profile/profile_op_times.h"

using namespace tandem;

namespace {

std::string call_row(const std::string& category, const std::string& name, const std::string& ts,
                     const std::string& dur, int thread) {
  return fmt::format(R"({{"ph": "X", "cat": "{}", "name": "{}", "pid": 9, "tid": "{}", )"
                     R"("ts": {}, "dur": {}, "args": {{}}}})",
                     category, name, thread, ts, dur);
}

Nanoseconds time_in(const ProfileSplit& split, PassPhase phase) {
  const PhaseTotal* const total = phase_in(split, phase);
  return total == nullptr ? 0 : total->time_ns;
}

}  // namespace

TEST_CASE("rows of 2021 tell steps and autograd's thread as calls, by PyTorch's own names") {
  const Profile profile = read_rows(
      {call_row("Operator", "ProfilerStep#5", "0", "100", 1),
       call_row("Operator", "ProfilerStep#6", "100", "100", 1),
       call_row("Operator", "CudnnConvolutionBackward", "20", "10", 5),
       call_row("Operator", "Optimizer.step#SGD.step", "40", "10", 1),
       // The names of calls in a forward, which tell nothing.
       call_row("Operator", "aten::convolution_backward", "5", "10", 1), launch_row(1, "6", 1),
       launch_row(2, "21", 5), launch_row(3, "41", 1), launch_row(4, "110", 1),
       kernel_row("conv", 7, "50", "3", 1), kernel_row("conv", 7, "53", "5", 2),
       kernel_row("sgd", 7, "58", "1", 3), kernel_row("conv", 7, "150", "3", 4)});
  CHECK(window_of(profile).by == StepsBy::ProfilerStep);
  const ProfileSplit split = splits_in(profile).front();
  CHECK(split.kernels == 3);
  CHECK(time_in(split, PassPhase::Forward) == 3'000);
  CHECK(time_in(split, PassPhase::Backward) == 5'000);
  CHECK(time_in(split, PassPhase::Step) == 1'000);
}

TEST_CASE("parts of a pass, and an optimizer within another, are no passes of their own") {
  const Profile profile = read_rows(
      {annotation_row("## forward ##", "0", "20"), annotation_row("## forward:arch ##", "2", "5"),
       annotation_row("Optimizer.zero_grad#SGD", "25", "5"),
       annotation_row("## optimizer ##", "30", "20"),
       annotation_row("Optimizer.step#SGD", "32", "5"),
       annotation_row("Optimizer.step#EMA", "40", "5"), launch_row(1, "1"), launch_row(2, "3"),
       launch_row(3, "26"), launch_row(4, "33"), launch_row(5, "41"),
       kernel_row("gemm", 7, "100", "1", 1), kernel_row("gemm", 7, "101", "2", 2),
       kernel_row("fill", 7, "103", "4", 3), kernel_row("sgd", 7, "107", "8", 4),
       kernel_row("ema", 7, "115", "16", 5)});
  const ProfileSplit split = splits_in(profile).front();
  const PhaseTotal* const forward = phase_in(split, PassPhase::Forward);
  REQUIRE(forward != nullptr);
  CHECK(forward->passes == 1);
  CHECK(forward->median_ns == 3'000);
  const PhaseTotal* const optimizer = phase_in(split, PassPhase::Step);
  REQUIRE(optimizer != nullptr);
  CHECK(optimizer->passes == 1);
  CHECK(optimizer->median_ns == 24'000);
}

TEST_CASE("parts of a forward that are named forward_x count with the forward around them") {
  KinetoRows rows;
  int launch = 0;
  for (const int begin : {0, 100}) {
    rows.push_back(annotation_row("forward", std::to_string(begin), "50"));
    for (const char* part : {"forward_attention", "forward_mlp"}) {
      const std::string at = std::to_string(begin + 10 * (launch % 2));
      rows.push_back(annotation_row(part, at, "9"));
      rows.push_back(launch_row(++launch, at));
      rows.push_back(kernel_row("gemm", 7, at, launch % 2 == 0 ? "4" : "2", launch));
    }
  }
  const PhaseTotal forward = *phase_in(splits_in(read_rows(rows)).front(), PassPhase::Forward);
  CHECK(forward.passes == 2);
  CHECK(forward.median_ns == 6'000);
}

TEST_CASE("forwards that overlap without one being inside the other are two passes") {
  const Profile profile =
      read_rows({annotation_row("forward", "0", "10"), annotation_row("forward", "9", "10"),
                 launch_row(1, "1"), launch_row(2, "9.500"), kernel_row("gemm", 7, "20", "1", 1),
                 kernel_row("gemm", 7, "30", "2", 2)});
  CHECK(phase_in(splits_in(profile).front(), PassPhase::Forward)->passes == 2);
}

TEST_CASE("an annotation around forward and backward is a pass of neither") {
  for (const char* name : {"forward_backward", "forward-backward", "forward_backward_func",
                           "fwd_bwd", "Forward and backward", "backward_forward"}) {
    INFO(name);
    const ProfileSplit split =
        splits_in(
            read_rows({call_row("cpu_op", "autograd::engine::evaluate_function: Mm", "20", "20", 5),
                       annotation_row(name, "0", "90"), launch_row(1, "3", 1),
                       launch_row(2, "25", 5), kernel_row("gemm", 7, "100", "1", 1),
                       kernel_row("gemm", 7, "101", "2", 2)}))
            .front();
    CHECK(time_in(split, PassPhase::Forward) == 1'000);
    CHECK(time_in(split, PassPhase::Backward) == 2'000);
  }
}

TEST_CASE("the training loop's thread is not autograd's, though it runs a node of a backward") {
  const std::string node = "autograd::engine::evaluate_function: ToCopyBackward0";
  KinetoRows rows = {annotation_row("ProfilerStep#1", "0", "100"),
                     call_row("cpu_op", node, "50", "2", 1),
                     call_row("cpu_op", node, "20", "20", 5),
                     launch_row(1, "3", 1),
                     launch_row(2, "25", 5),
                     launch_row(3, "60", 1),
                     kernel_row("gemm", 7, "100", "1", 1),
                     kernel_row("gemm", 7, "101", "2", 2),
                     kernel_row("copy", 7, "103", "4", 3)};
  const ProfileSplit by_thread = splits_in(read_rows(rows)).front();
  CHECK(time_in(by_thread, PassPhase::Forward) == 5'000);
  CHECK(time_in(by_thread, PassPhase::Backward) == 2'000);
  // Where the forward is annotated, the kernel outside of it is none of its own.
  rows.push_back(annotation_row("## forward ##", "2", "10"));
  const ProfileSplit told = splits_in(read_rows(rows)).front();
  CHECK(time_in(told, PassPhase::Forward) == 1'000);
  CHECK(time_in(told, PassPhase::Backward) == 2'000);
  CHECK(time_in(told, PassPhase::Unknown) == 4'000);
}

TEST_CASE("an optimizer on autograd's thread, inside the backward, does not make it the loop's") {
  for (const bool with_steps : {false, true}) {
    KinetoRows rows = {call_row("cpu_op", "autograd::engine::evaluate_function: Mm", "20", "20", 5),
                       annotation_row("Optimizer.step#SGD.step", "30", "5", 5),
                       launch_row(1, "3", 1),
                       launch_row(2, "25", 5),
                       launch_row(3, "31", 5),
                       kernel_row("gemm", 7, "100", "1", 1),
                       kernel_row("gemm", 7, "101", "2", 2),
                       kernel_row("sgd", 7, "103", "4", 3)};
    if (with_steps) rows.push_back(annotation_row("ProfilerStep#1", "0", "100"));
    const ProfileSplit split = splits_in(read_rows(rows)).front();
    CHECK(time_in(split, PassPhase::Forward) == 1'000);
    CHECK(time_in(split, PassPhase::Backward) == 2'000);
    CHECK(time_in(split, PassPhase::Step) == 4'000);
  }
}

TEST_CASE("steps that overlap begin more often than their span says") {
  // Each step has kernels at once and 130 us later, which the next one, 100 us behind, overtakes.
  KinetoRows rows;
  int launch = 0;
  for (const int begin : {0, 100, 200}) {
    rows.push_back(
        annotation_row(fmt::format("ProfilerStep#{}", begin / 100), std::to_string(begin), "100"));
    for (const int at : {10, 140}) {
      rows.push_back(launch_row(++launch, std::to_string(begin + 5)));
      rows.push_back(kernel_row("gemm", 7, std::to_string(begin + at), "10", launch));
    }
  }
  const StepsBeside beside = steps_beside(read_rows(rows).ranks.front());
  CHECK(beside.every_ns == 100'000);
  CHECK(beside.overlap_ns == 40'000);  // 150 to 110
}

TEST_CASE("an optimizer that ran behind each of several backwards tells several iterations") {
  KinetoRows rows = {call_row("cpu_op", "autograd::engine::evaluate_function: Mm", "0", "99", 5)};
  int launch = 0;
  const auto add = [&](const std::string& name, int thread) {
    const std::string at = std::to_string(10 * ++launch);
    rows.push_back(launch_row(launch, at, thread));
    rows.push_back(kernel_row(name, 7, at, "5", launch));
  };
  for (int iteration = 0; iteration < 3; ++iteration) {
    add("gemm", 1);
    add(fmt::format("backward_{}", iteration), 5);
    // Two optimizers, one behind the other, are of one iteration.
    for (const char* name : {"Optimizer.step#Adam", "Optimizer.step#Muon"}) {
      rows.push_back(annotation_row(name, std::to_string(10 * (launch + 1)), "5"));
      add("update", 1);
    }
  }
  CHECK(optimizer_rounds(read_rows(rows).ranks.front()) == 3);
}

TEST_CASE("input and weight gradients part runs of the optimizer as whole backwards do") {
  for (const std::string backward : {"B", "I", "W"}) {
    KinetoRows rows;
    int launch = 0;
    const auto add = [&](const std::string& pass, const std::string& name) {
      const std::string at = std::to_string(10 * ++launch);
      rows.push_back(annotation_row(pass, at, "5"));
      rows.push_back(launch_row(launch, at));
      rows.push_back(kernel_row(name, 7, at, "5", launch));
    };
    for (int iteration = 0; iteration < 3; ++iteration) {
      add(fmt::format("PP:1F{}", iteration), "gemm");
      add(fmt::format("PP:1{}{}", backward, iteration), fmt::format("gradient_{}", iteration));
      add("Optimizer.step#Adam", "update");
    }
    INFO(backward);
    CHECK(optimizer_rounds(read_rows(rows).ranks.front()) == 3);
  }
}

TEST_CASE("of the sampled rank the kernels that bring batches are of no pass") {
  // By the rows of the file: 4.078 ms were launched outside of its annotations, by another thread
  // than autograd's.
  const ProfileSplit split =
      splits_in(read_all({profile_sample("interop/traces/sampled_rank-0.json.gz")})).front();
  CHECK(time_in(split, PassPhase::Unknown) == 4'078'000);
  CHECK(time_in(split, PassPhase::Forward) == 29'281'000);
  CHECK(time_in(split, PassPhase::Backward) == 69'954'000);
  CHECK(phase_in(split, PassPhase::Step)->passes == 1);
}

TEST_CASE("a rank's later stage that begins a microbatch first is of DualPipe's other chain") {
  // The third rank of four has stages 2 and 5 of eight.
  for (const bool is_dual : {true, false}) {
    KinetoRows rows;
    const std::string early = is_dual ? "5" : "2", late = is_dual ? "2" : "5";
    int at = 0;
    for (const std::string& pass : {early + "F0", late + "F0", late + "B0", early + "B0"}) {
      rows.push_back(gpu_annotation_row("PP:" + pass, 7, std::to_string(at), "20"));
      rows.push_back(kernel_row("gemm", 7, std::to_string(at + 1), "18"));
      at += 30;
    }
    const auto passes = pass_seconds(read_rows(rows), 0);
    REQUIRE(passes.ok());
    CHECK(passes->has_two_chains == is_dual);
  }
}
