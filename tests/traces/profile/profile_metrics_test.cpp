// Where a profile's time goes, worked out by hand on a few rows; times in us.
#include <catch2/catch.hpp>

#include "tests/traces/profile/kineto_text.h"
#include "traces/profile/kernel_names.h"
#include "traces/profile/profile_notes.h"
#include "traces/profile/profile_timeline.h"

using namespace tandem;

namespace {

const CommTotal& comm_named(const ProfileSplit& split, const std::string& label) {
  for (const CommTotal& comm : split.comms) {
    if (comm.label.text() == label) return comm;
  }
  FAIL("no " << label);
  return split.comms.front();
}

}  // namespace

TEST_CASE("a span splits without rest into compute, exposed communication, copies and idle") {
  // compute 0-10 and 30-40, communication 5-25, a copy 24-28: idle is 28-30.
  const Profile profile = read_rows({kernel_row("gemm", 7, "100", "10"),
                                     kernel_row("ncclDevKernel_AllReduce_Sum", 20, "105", "20"),
                                     copy_row(8, "124", "4"), kernel_row("gemm", 7, "130", "10")});
  const ProfileSplit split = splits_in(profile).front();
  CHECK(split.span_ns == 40'000);
  CHECK(split.compute_ns == 20'000);
  CHECK(split.communication_ns == 20'000);
  CHECK(split.overlap_ns == 5'000);
  CHECK(split.exposed_ns == 15'000);
  CHECK(split.memory_alone_ns == 3'000);
  CHECK(split.idle_ns == 2'000);
  CHECK(split.bubble_ns == 2'000);
  CHECK(*split.overlap_fraction() == 0.25);
  CHECK(split.kernels == 3);
  CHECK(split.copies == 1);
}

TEST_CASE("kernels of two streams that overlap count once, and a kind's exposed time once") {
  // Of 0-10 tensor and 5-20 data, with compute 8-12, exposed are 0-8 and 12-20. Where both are in
  // flight the instant belongs to data, which ends last: tensor 0-5, data 5-8 and 12-20.
  const auto tensor = collective("allreduce", 1, "[0, 1]", 2, "TENSOR_MODEL_PARALLEL_GROUP");
  const auto data = collective("allreduce", 1, "[0, 2]", 2, "DATA_PARALLEL_GROUP");
  const Profile profile = read_rows({kernel_row("ncclKernel_AllReduce", 20, "0", "10", 1, tensor),
                                     kernel_row("ncclKernel_AllReduce", 21, "5", "15", 2, data),
                                     kernel_row("gemm", 7, "8", "4", 3)});
  const ProfileSplit split = splits_in(profile).front();
  CHECK(split.communication_ns == 20'000);
  CHECK(split.exposed_ns == 16'000);
  CHECK(comm_named(split, "tensor all-reduce").exposed_ns == 5'000);
  CHECK(comm_named(split, "data all-reduce").exposed_ns == 11'000);
  CHECK(comm_named(split, "tensor all-reduce").overlap_ns == 2'000);
  CHECK(comm_named(split, "data all-reduce").overlap_ns == 4'000);
}

TEST_CASE("as Holistic Trace Analysis starts are rounded up and ends down to whole us") {
  // 0.4-10.6 becomes 1-10; 10.7-11.2, which holds one whole us mark, becomes nothing; 12-14 stays.
  const KinetoRows rows = {kernel_row("gemm", 7, "0.400", "10.200"),
                           kernel_row("add", 7, "10.700", "0.500"),
                           kernel_row("gemm", 7, "12.000", "2.000")};
  const Profile profile = read_rows(rows);
  const ProfileSplit exact = splits_in(profile).front();
  CHECK(exact.compute_ns == 10'200 + 500 + 2'000);
  CHECK(exact.span_ns == 13'600);
  CHECK(exact.below_us == 1);
  const ProfileSplit hta = splits_in(profile, {.as_hta = true}).front();
  CHECK(hta.compute_ns == 9'000 + 2'000);
  CHECK(hta.span_ns == 13'000);
  CHECK(hta.idle_ns == 2'000);
}

TEST_CASE("of two ProfilerSteps the last is dropped, and what nothing launched") {
  const Profile profile = read_rows(
      {annotation_row("ProfilerStep#1", "0", "100"), annotation_row("ProfilerStep#2", "100", "100"),
       launch_row(1, "10"), kernel_row("gemm", 7, "20", "10", 1),
       // Launched in the first step, it runs in the second one.
       launch_row(2, "90"), kernel_row("gemm", 7, "110", "10", 2), launch_row(3, "120"),
       kernel_row("gemm", 7, "130", "10", 3), kernel_row("gemm", 7, "50", "10", 4)});
  const ProfileWindow window = window_of(profile);
  CHECK(window.by == StepsBy::ProfilerStep);
  CHECK(window.steps == 1);
  const ProfileSplit split = splits_in(profile).front();
  CHECK(split.kernels == 2);
  CHECK(split.span_ns == 100'000);  // 20 to 120
}

TEST_CASE("one ProfilerStep filters nothing, and without any steps are what repeats") {
  KinetoRows rows;
  for (int step = 0; step < 3; ++step) {
    for (const char* name : {"embed", "layer", "layer", "adam"})
      rows.push_back(kernel_row(name, 7, std::to_string(10 * static_cast<int>(rows.size())), "5"));
  }
  rows.push_back(kernel_row("embed", 7, "120", "5"));  // of a fourth that was cut off
  const Profile repeats = read_rows(rows);
  CHECK(window_of(repeats).by == StepsBy::Repetition);
  CHECK(window_of(repeats).steps == 3);
  CHECK(splits_in(repeats).front().kernels == 12);
  rows.push_back(annotation_row("ProfilerStep#5", "0", "200"));
  const Profile one = read_rows(rows);
  CHECK(window_of(one).by == StepsBy::Whole);
  CHECK(splits_in(one).front().kernels == 13);
}

TEST_CASE("steps that differ by more than a fifth are told, as what is said is their mean") {
  // Steps begin with their first kernels, and the last one, which may be cut off, does not count.
  const auto notes = [](const std::vector<int>& begins, bool are_marked) {
    KinetoRows rows;
    for (const int begin : begins) {
      if (are_marked)
        rows.push_back(
            annotation_row(fmt::format("ProfilerStep#{}", begin), std::to_string(begin), "10"));
      for (const auto& [name, at] : {std::pair("gemm", begin + 1), std::pair("adam", begin + 11)})
        rows.push_back(kernel_row(name, 7, std::to_string(at), "10"));
    }
    return profile_notes(read_rows(rows));
  };
  for (const bool are_marked : {true, false}) {
    CHECK(notes({0, 1000, 2100}, are_marked).empty());
    CHECK(
        notes({0, 1000, 2300, 3500}, are_marked) ==
        std::vector<std::string>{"Steps take 1 to 1.3 ms: what is said of a step is their mean."});
  }
}

// Of 10 + 20 + 30 us before the last step, at 100 us, the second kernel's 20 are a third.
TEST_CASE("kernels that do not count for want of a launch are told") {
  const auto profile_of_launches = [](const std::vector<int>& launches) {
    KinetoRows rows = {annotation_row("ProfilerStep#1", "0", "100"),
                       annotation_row("ProfilerStep#2", "100", "100"),
                       kernel_row("gemm", 7, "10", "10", 1),
                       kernel_row("gemm", 7, "20", "20", 2),
                       kernel_row("gemm", 7, "40", "30", 3),
                       kernel_row("gemm", 7, "110", "10", 4)};
    for (const int launch : launches)
      rows.push_back(launch_row(launch, std::to_string(5 * launch)));
    return read_rows(rows);
  };
  const Profile some = profile_of_launches({1, 3});
  CHECK(splits_in(some).front().kernels == 2);
  CHECK(profile_notes(some) ==
        std::vector<std::string>{"1 of 3 kernels before the last step, 33.3 % of their time, do "
                                 "not count, as their launches are not in the profile."});
  CHECK(profile_notes(profile_of_launches({1, 2, 3})).empty());
  CHECK(profile_notes(profile_of_launches({})).empty());  // all count by their own start
}

TEST_CASE("bytes and bus bandwidth are counted as nccl-tests does") {
  // All-reduce of 1000 floats over 4 ranks in 2 us: 4000 B x 2 x 3/4 / 2 us = 3 GB/s. A gather
  // counts what comes out, of which each rank takes 3/4 over the bus.
  const Profile profile =
      read_rows({kernel_row("gemm", 7, "0", "1"),
                 kernel_row("ncclKernel_AllReduce", 20, "1", "2", 1,
                            collective("allreduce", 1000, "[0, 1, 2, 3]", 4, "mesh_tp")),
                 kernel_row("ncclKernel_AllGather", 20, "3", "2", 2,
                            R"(, "Collective name": "_allgather_base", "In msg nelems": 250, )"
                            R"("Out msg nelems": 1000, "Group size": 4, "dtype": "BFloat16", )"
                            R"("Process Group Description": "mesh_fsdp")")});
  const ProfileSplit split = splits_in(profile).front();
  const CommTotal& reduce = comm_named(split, "tensor all-reduce");
  CHECK(reduce.bytes == 4000);
  CHECK(reduce.bus_bytes_per_s() == Approx(3e9));
  const CommTotal& gather = comm_named(split, "data all-gather");
  CHECK(gather.bytes == 2000);
  CHECK(gather.bus_bytes_per_s() == Approx(2000 * 0.75 / 2e-6));
}

TEST_CASE("passes are told by PyTorch's annotations, stage by stage and microbatch by microbatch") {
  const Profile profile =
      read_rows({annotation_row("ProfilerStep#0", "0", "100"), annotation_row("PP:1F0", "0", "10"),
                 annotation_row("PP:1F1", "10", "10"), annotation_row("PP:1B0", "20", "10"),
                 launch_row(1, "1"), launch_row(2, "2"), launch_row(3, "11"),
                 launch_row(4, "21", 2),  // by autograd's thread
                 launch_row(5, "31"), kernel_row("gemm", 7, "40", "3", 1),
                 kernel_row("gemm", 7, "43", "4", 2), kernel_row("gemm", 7, "47", "9", 3),
                 kernel_row("gemm", 7, "56", "20", 4), kernel_row("gemm", 7, "76", "1", 5)});
  const ProfileSplit split = splits_in(profile).front();
  const PhaseTotal* const forward = phase_in(split, PassPhase::Forward, 1);
  REQUIRE(forward != nullptr);
  CHECK(forward->passes == 2);
  CHECK(forward->time_ns == 16'000);
  CHECK(forward->median_ns == 7'000);  // of 7 and 9, the shorter
  REQUIRE(phase_in(split, PassPhase::Backward, 1) != nullptr);
  CHECK(phase_in(split, PassPhase::Backward, 1)->time_ns == 20'000);
  REQUIRE(phase_in(split, PassPhase::Unknown) != nullptr);
  CHECK(phase_in(split, PassPhase::Unknown)->time_ns == 1'000);
}

TEST_CASE("without annotations autograd's threads launch the backward, others the forward") {
  const KinetoRows kernels = {launch_row(1, "1", 1), launch_row(2, "2", 5),
                              kernel_row("gemm", 7, "10", "3", 1),
                              kernel_row("gemm", 7, "13", "6", 2)};
  KinetoRows rows = kernels;
  rows.push_back(R"({"ph": "X", "cat": "cpu_op", "name": )"
                 R"("autograd::engine::evaluate_function: MmBackward0", "pid": 9, "tid": 5, )"
                 R"("ts": 1, "dur": 9, "args": {}})");
  const ProfileSplit split = splits_in(read_rows(rows)).front();
  REQUIRE(phase_in(split, PassPhase::Forward) != nullptr);
  CHECK(phase_in(split, PassPhase::Forward)->time_ns == 3'000);
  REQUIRE(phase_in(split, PassPhase::Backward) != nullptr);
  CHECK(phase_in(split, PassPhase::Backward)->time_ns == 6'000);
  // Without such calls nothing tells.
  CHECK(phase_in(splits_in(read_rows(kernels)).front(), PassPhase::Forward) == nullptr);
}

TEST_CASE("an annotation on the stream says more than the thread that launched a kernel") {
  const std::string backward =
      R"({"ph": "X", "cat": "cpu_op", "name": "autograd::engine::evaluate_function: Mm", )"
      R"("pid": 9, "tid": 5, "ts": 1, "dur": 9, "args": {}})";
  const ProfileSplit split =
      splits_in(
          read_rows({backward, launch_row(1, "1", 5), launch_row(2, "2", 5),
                     gpu_annotation_row("PP:1F3", 7, "10", "3"),
                     kernel_row("gemm", 7, "10", "3", 1), kernel_row("gemm", 7, "13", "6", 2)}))
          .front();
  REQUIRE(phase_in(split, PassPhase::Forward, 1) != nullptr);
  CHECK(phase_in(split, PassPhase::Forward, 1)->time_ns == 3'000);
  CHECK(phase_in(split, PassPhase::Backward)->time_ns == 6'000);
}

TEST_CASE("clocks are moved so that collectives end together, and a rank's waiting is known") {
  // Rank 1's clock is 1000 us ahead. The all-reduce runs 10-20 on rank 0 and 16-20 on rank 1:
  // rank 0 waits 6 for it.
  const Folder folder;
  const auto args = collective("allreduce", 1000, "[0, 1]", 2, "DATA_PARALLEL_GROUP");
  folder.with("a.json", kineto_text({kernel_row("gemm", 7, "0", "10", 1),
                                     kernel_row("ncclKernel_AllReduce", 20, "10", "10", 2, args)},
                                    0));
  folder.with("b.json", kineto_text({kernel_row("gemm", 7, "1000", "16", 1),
                                     kernel_row("ncclKernel_AllReduce", 20, "1016", "4", 2, args)},
                                    1));
  const Profile profile = read_all({folder.path().string()});
  REQUIRE(profile.ranks.size() == 2);
  CHECK(profile.ranks[1].clock_shift_ns == -1'000'000);
  const auto splits = splits_in(profile);
  CHECK(splits[0].waiting_ns == 6'000);
  CHECK(splits[1].waiting_ns == 0);
  CHECK(splits[0].step_ns == 20'000);
  CHECK(splits[0].exposed_ns == 10'000);
  // 4000 B over 2 ranks in the 4 us of the transfer, on both.
  for (const ProfileSplit& split : splits)
    CHECK(split.comms.front().bus_bytes_per_s() == Approx(1e9));
  // Without waiting the 6 are idle.
  const auto without = splits_in(profile, {.without_waiting = true});
  CHECK(without[0].exposed_ns == 4'000);
  CHECK(without[0].bubble_ns == 6'000);
}

TEST_CASE("two kernels that wait at once are one waiting, within the time of their kind") {
  // On rank 0 both run 0-20, and rank 1 comes at 16: 16 of the 20 are waiting.
  const auto args = [](int sequence) {
    return collective("allreduce", 1000, "[0, 1]", 2, "DATA_PARALLEL_GROUP",
                      fmt::format(R"(, "Seq": {})", sequence));
  };
  const auto both = [&](const char* start, const char* length) {
    return KinetoRows{kernel_row("ncclKernel_AllReduce", 20, start, length, 1, args(1)),
                      kernel_row("ncclKernel_AllReduce", 21, start, length, 2, args(2))};
  };
  const Folder folder;
  folder.with("a.json", kineto_text(both("0", "20"), 0));
  folder.with("b.json", kineto_text(both("16", "4"), 1));
  const ProfileSplit split = splits_in(read_all({folder.path().string()})).front();
  CHECK(split.waiting_ns == 16'000);
  CHECK(split.comms.front().waiting_ns == 16'000);
  CHECK(split.comms.front().time_ns == 20'000);
}

TEST_CASE("in the picture a kernel's waiting is within what is drawn of it") {
  // Of rank 0's second kernel, 5-20 with its peer at 12, what is drawn begins at 10.
  const auto args = [](int sequence) {
    return collective("allreduce", 1000, "[0, 1]", 2, "", fmt::format(R"(, "Seq": {})", sequence));
  };
  const Folder folder;
  folder.with("a.json", kineto_text({kernel_row("ncclKernel_AllReduce", 20, "0", "10", 1, args(1)),
                                     kernel_row("ncclKernel_AllReduce", 20, "5", "15", 2, args(2))},
                                    0));
  folder.with("b.json", kineto_text({kernel_row("ncclKernel_AllReduce", 20, "0", "10", 1, args(1)),
                                     kernel_row("ncclKernel_AllReduce", 20, "12", "8", 2, args(2))},
                                    1));
  const std::string json = timeline_json(read_all({folder.path().string()}));
  INFO(json);
  CHECK(json.find("\"waited_ns\":[0,2000]") != std::string::npos);
}

TEST_CASE("a list of ranks that torch cut is whole in the file's list of groups") {
  // 32 ranks, of which two are here: the clock of the second is 500 us ahead.
  std::string ranks = "0";
  for (int rank = 1; rank < 32; ++rank) ranks += fmt::format(", {}", rank);
  const Folder folder;
  for (const int rank : {0, 1}) {
    const auto args = collective("allreduce", 1000, "[0, 1, 2, ...]", 32, "DATA_PARALLEL_GROUP");
    folder.with(
        fmt::format("rank-{}.json", rank),
        fmt::format(
            "{{\"distributedInfo\": {{\"rank\": {}, \"pg_config\": [{{\"pg_name\": \"7\", "
            "\"ranks\": [{}]}}]}}, \"traceEvents\": [{}]}}",
            rank, ranks,
            kernel_row("ncclKernel_AllReduce", 20, rank == 0 ? "10" : "510", "10", 2, args)));
  }
  const Profile profile = read_all({folder.path().string()});
  CHECK(profile.ranks[1].clock_shift_ns == -500'000);
  // Thirty of its ranks are not here: who waited for whom is not known.
  CHECK(splits_in(profile)[0].waiting_ns == 0);
}

TEST_CASE("a group's description tells what it is for, whoever wrote it") {
  using Kind = GroupKind;
  const std::pair<const char*, Kind> descriptions[] = {
      {"TENSOR_MODEL_PARALLEL_GROUP", Kind::Tensor},
      {"PIPELINE_MODEL_PARALLEL_GROUP", Kind::Pipeline},
      {"DATA_PARALLEL_GROUP_WITH_CP", Kind::Data},
      {"CONTEXT_PARALLEL_GROUP", Kind::Context},
      {"EXPERT_MODEL_PARALLEL_GROUP", Kind::Expert},
      {"EXPERT_DATA_PARALLEL_GROUP", Kind::Data},
      {"INTRA_DISTRIBUTED_OPTIMIZER_INSTANCE_GROUP", Kind::Data},
      {"EMBEDDING_GROUP", Kind::Data},
      {"MODEL_PARALLEL_GROUP", Kind::Data},
      {"mesh_tp", Kind::Tensor},
      {"mesh_dp_shard_cp", Kind::Data},
      {"mesh_pp", Kind::Pipeline},
      {"mesh_ep", Kind::Expert}};
  for (const auto& [description, kind] : descriptions) {
    INFO(description);
    CHECK(group_kind_of(description, "all-reduce", "ncclKernel") == kind);
  }
  CHECK(group_kind_of("default_pg", "all-reduce", "ncclKernel") == std::nullopt);
  CHECK(group_kind_of("default_pg", "send/recv", "ncclKernel") == Kind::Pipeline);
  CHECK(group_kind_of("", "all-to-all", "void deep_ep::intranode::combine<8>()") == Kind::Expert);
  for (const Kind kind : {Kind::Tensor, Kind::Pipeline, Kind::Data, Kind::Context, Kind::Expert})
    CHECK(group_kind_of(description_of(kind), "all-reduce", "") == kind);
}

TEST_CASE("kernels are known by their names, and HTA's names are fewer") {
  CHECK(activity_of("ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)") == Activity::Communication);
  CHECK(activity_of("void deep_ep::internode::dispatch<8>(int4*)") == Activity::Communication);
  CHECK(activity_of("void userbuffers_fp16_sum_inplace_gpu_rr_ag<4>()") == Activity::Communication);
  CHECK(activity_of("Memset (Device)") == Activity::Memory);
  CHECK(activity_of("nvjet_tst_128x256_64x4_2x1_v_bz_coopA_TNT") == Activity::Compute);
  CHECK(hta_activity_of("void deep_ep::internode::dispatch<8>(int4*)") == Activity::Compute);
  CHECK(hta_activity_of("Context Sync") == std::nullopt);
  CHECK(category_of("nvjet_tst_128x256_64x4_2x1_v_bz_coopA_TNT") == "GEMM");
  CHECK(category_of("void flash_fwd_kernel<Flash_fwd_kernel_traits<128>>()") == "attention");
  CHECK(category_of("triton_poi_fused_add_cos_sin_0") == "elementwise");
  CHECK(category_of("broadcast_add_kernel") == "elementwise");
  CHECK(category_of("convert_fp32_to_bf16") == "transpose and cast");
  CHECK(category_of("sm80_xmma_fprop_implicit_conv2d") == "GEMM");
  CHECK(category_of("conv2d_grouped_direct_kernel") == "convolution");
  CHECK(collective_of("_reduce_scatter_base", "") == "reduce-scatter");
  CHECK(collective_of("", "ncclDevKernel_ReduceScatter_Sum_bf16") == "reduce-scatter");
  CHECK(collective_of("", "ncclKernel_SendRecv_RING") == "send/recv or all-to-all");
  CHECK(short_name("void at::native::f<4, a::b<c> >(int, x)") == "at::native::f");
}
