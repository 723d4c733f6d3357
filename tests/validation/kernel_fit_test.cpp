// The constants of GPUs and presets against kernels and collectives that others timed alone.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "base/csv.h"
#include "base/file.h"
#include "job/price_job.h"
#include "tests/folder.h"
#include "topology/cluster.h"
#include "topology/preset.h"
#include "validation/kernels/kernel_fit.h"
#include "workload/model/moe.h"

namespace tandem {
namespace {

std::string table(const std::string& name) {
  return TANDEM_SOURCE_DIR "/validation/kernels/" + name;
}

template <class T>
T of(Result<T> result) {
  INFO((result.ok() ? "" : result.error().text()));
  REQUIRE(result.ok());
  return std::move(result).value();
}

// The files have four digits of each constant.
template <class Spec>
void check_written(Spec written, Spec fitted, const std::vector<FittedConstant<Spec>>& constants) {
  for (const auto& constant : constants) {
    INFO(constant.key);
    CHECK(constant.place(written) == Approx(constant.place(fitted)).epsilon(1e-3).margin(1e-12));
  }
}

// 8 where a table's own noise (its GPU's temperature) is 7: B300.
TEST_CASE("GEMMs that a fit has not seen are met within 6 % in the median, a B300's within 8") {
  for (const auto& [gpu, timed] : of(read_gemms(table("gemm.csv")))) {
    INFO(gpu);
    const DeviceSpec device = of(load_device(gpu));
    const auto fit = fit_kernels(device, timed, gemm_constants());
    CHECK(fit.unseen.n >= 290);
    CHECK(fit.unseen.median <= (gpu == "b300-288gb" ? 0.08 : 0.06));
    CHECK(std::abs(fit.unseen.bias) <= 0.03);
    check_written(device, fit.spec, gemm_constants());
  }
}

TEST_CASE("attention that a fit has not seen is met within 8 % in the median") {
  for (const auto& [gpu, timed] : of(read_attentions(table("attention.csv")))) {
    INFO(gpu);
    const DeviceSpec device = of(load_device(gpu));
    const auto fit = fit_kernels(device, timed, attention_constants());
    CHECK(fit.unseen.n >= 140);
    CHECK(fit.unseen.median <= 0.08);
    check_written(device, fit.spec, attention_constants());
  }
}

// The bytes that a GPU sends in an exchange of the plan, and their rate in GB/s.
struct ExchangeRate {
  Bytes bytes = 0;
  double GBps = 0;
};

// `dispatch`: tokens on their way to the experts, else back.
ExchangeRate exchange_rate(const Model& model, Plan plan, const std::string& preset,
                           bool dispatch) {
  Site site{of(Cluster::build(of(load_preset(preset)), plan.ep)), {}};
  for (int i = 0; i < plan.ep; ++i) site.placement.push_back(DeviceId{i});
  const auto& [cluster, devices] = site;
  plan.dp = plan.ep;
  plan = with_placement(plan, site);
  const ExpertGroup group = expert_group(model, plan);
  const Bytes bytes = dispatch ? group.sent_bytes : group.returned_bytes;
  const CommCost cost = comm_costs(model, plan, {}, cluster.spec())[4];
  const Choices ways = at_training_cost(traffic_choices(cluster, CommKind::AllToAll, devices),
                                        GroupKind::Expert, cost);
  return {bytes, static_cast<double>(bytes) / 1e9 / to_seconds(duration_ns(ways, bytes))};
}

int whole(const CsvTable& rows, int row, const char* column) {
  return std::stoi(std::string(rows.text(row, column)));
}

Model exchanged(const CsvTable& rows, int row) {
  return {.hidden = whole(rows, row, "hidden"),
          .seq = whole(rows, row, "tokens"),
          .experts = whole(rows, row, "experts"),
          .top_k = whole(rows, row, "top_k")};
}

// By what DeepEP's test counts as bytes: a copy for each node, the sender's own too.
TEST_CASE("DeepEP's published exchanges over nodes are met within 12 %, without a fit") {
  const CsvTable rows = of(CsvTable::read(table("deepep_nodes.csv")));
  for (int row = 0; row < rows.size(); ++row) {
    const int nodes = whole(rows, row, "nodes");
    const bool dispatch = rows.text(row, "op") == "dispatch";
    INFO(nodes << " nodes, " << rows.text(row, "op"));
    Model model = exchanged(rows, row);
    model.router_groups = whole(rows, row, "router_groups");
    model.router_topk_groups = whole(rows, row, "topk_groups");
    Plan plan = {.ep = 8 * nodes, .dispatcher = Dispatcher::DeepEp};
    plan.fp8_dispatch = dispatch;
    plan.expert_sms = whole(rows, row, "sms");
    const double GBps = exchange_rate(model, plan, "hgx-h800", dispatch).GBps;
    INFO(GBps);
    CHECK(GBps == Approx(whole(rows, row, "GBps")).epsilon(0.12));
  }
}

// TensorRT-LLM's exchange kernels, whose SMs nobody says, against HybridEP's usual ones here.
TEST_CASE(
    "exchanges across an NVL72 rack are met within 25 %, of 8 GPUs within 30, without a fit") {
  const CsvTable rows = of(CsvTable::read(table("nvl72_exchanges.csv")));
  REQUIRE(rows.size() == 80);
  std::vector<double> errors;
  for (int row = 0; row < rows.size(); ++row) {
    const bool dispatch = rows.text(row, "op") == "dispatch";
    const Plan plan = {.ep = whole(rows, row, "gpus"), .dispatcher = Dispatcher::HybridEp};
    const auto [bytes, GBps] = exchange_rate(exchanged(rows, row), plan, "gb200-nvl72", dispatch);
    const double us = static_cast<double>(bytes) / GBps / 1e3;
    errors.push_back(std::log(us / std::stod(std::string(rows.text(row, "time_us")))));
    INFO(plan.ep << " GPUs, " << rows.text(row, "op") << " of " << rows.text(row, "tokens"));
    INFO(us);
    CHECK(std::abs(std::expm1(errors.back())) <= (plan.ep == 8 ? 0.3 : 0.25));
  }
  CHECK(errors_of(errors).median <= 0.15);
}

TEST_CASE("an H800's fp8 GEMMs are DeepGEMM's in the median, and within 16 % but one") {
  const CsvTable rows = of(CsvTable::read(table("deepgemm.csv")));
  CostModel model{.device = of(load_device("h800-80gb")), .precision = "fp8"};
  model.device.own_gemms.at("fp8").training_clock = 1;
  std::vector<double> errors;
  for (int row = 0; row < rows.size(); ++row) {
    const Gemm gemm{.batch = whole(rows, row, "batch"),
                    .m = whole(rows, row, "m"),
                    .n = whole(rows, row, "n"),
                    .k = whole(rows, row, "k")};
    const double tflops = std::stod(std::string(rows.text(row, "tflops")));
    errors.push_back(gemm_s(model, gemm) / (gemm.flops() / (1e12 * tflops)) - 1);
  }
  std::ranges::sort(errors);
  CHECK(errors.size() == 10);
  CHECK(std::abs(errors[4] + errors[5]) / 2 < 0.02);
  CHECK(errors[1] > -0.16);
  CHECK(errors.back() < 0.16);
}

TEST_CASE("collectives that a fit has not seen are met within 10 %, all-to-alls within 15 %") {
  for (const auto& [preset, timed] : of(read_collectives(table("collectives.csv")))) {
    INFO(preset);
    const ClusterSpec spec = of(load_preset(preset));
    const auto fit = fit_collectives(spec, timed);
    CHECK(fit.unseen.median <= 0.10);
    check_written(spec, fit.spec, collective_constants());
    std::vector<TimedCollective> exchanges;
    for (const TimedCollective& one : timed)
      if (one.kind == CommKind::AllToAll) exchanges.push_back(one);
    CHECK(collective_errors(spec, exchanges).median <= 0.15);
  }
}

TEST_CASE("DeepEP's exchanges that a fit has not seen are met within 15 % in the median") {
  for (const auto& [preset, timed] : of(read_exchanges(table("deepep.csv")))) {
    INFO(preset);
    const ClusterSpec spec = of(load_preset(preset));
    const auto fit = fit_exchanges(spec, timed);
    CHECK(fit.unseen.n == 198);
    CHECK(fit.unseen.median <= 0.10);
    CHECK(std::abs(fit.unseen.bias) <= 0.05);
    check_written(spec, fit.spec, exchange_constants());
  }
}

TEST_CASE("a fit leads back to the constants that kernels were made with") {
  DeviceSpec truth = of(load_device("h100-80gb"));
  truth.attention_efficiency = 0.4;
  truth.attention_ramp_keys = 700;
  truth.attention_softmax_size = 100;
  truth.attention_launch_s = 20e-6;
  auto timed = of(read_attentions(table("attention.csv"))).at("h100-80gb");
  // exp(0) = 1 of what the truth says.
  for (TimedKernel& kernel : timed) {
    const double matrices = kernel.kernel.attention_flops;
    const auto keys = static_cast<double>(kernel.kernel.attention.keys);
    const auto head = static_cast<double>(kernel.kernel.attention.head_size);
    kernel.measured_s =
        matrices / (0.4 * 989.4e12) * (1 + 700 / keys) * (1 + 100 / head) / (1 + 100.0 / 128) +
        20e-6;
  }
  const auto fit = fit_kernels(truth, timed, attention_constants());
  CHECK(fit.unseen.mape < 1e-3);
  check_written(truth, fit.spec, attention_constants());
}

TEST_CASE("tables of kernels are refused with file and line") {
  const Folder folder;
  const auto refused = [&](const std::string& text) {
    const auto bad = read_gemms(folder.with("gemm.csv", "gpu,m,n,k,time_us\n" + text));
    REQUIRE(!bad.ok());
    return bad.error().text();
  };
  CHECK_THAT(refused("h100,1,1,1,1\n"), Catch::Contains("gemm.csv:2: found the GPU 'h100'"));
  CHECK_THAT(refused("h100-80gb,0,1,1,1\n"), Catch::Contains("gemm.csv:2: column 'm'"));
  CHECK_THAT(refused("h100-80gb,1,1,1,-1\n"), Catch::Contains("gemm.csv:2: column 'time_us'"));
  CHECK_THAT(refused(""), Catch::Contains("gemm.csv:1"));
  const auto exchange = [&](const std::string& text) {
    const std::string head = "preset,gpus,op,hidden,tokens,top_k,experts,sms,time_us\n";
    const auto bad = read_exchanges(folder.with("deepep.csv", head + text));
    REQUIRE(!bad.ok());
    return bad.error().text();
  };
  CHECK_THAT(exchange("dgx-h100,8,send,1,1,1,1,1,1\n"),
             Catch::Contains("deepep.csv:2: found 'send', expected dispatch or combine"));
  CHECK_THAT(exchange("dgx-h100,9,combine,1,1,1,1,1,1\n"), Catch::Contains("deepep.csv:2"));
  CHECK_THAT(exchange("dgx-h100,8,combine,1,0,1,1,1,1\n"),
             Catch::Contains("deepep.csv:2: column 'tokens'"));
  CHECK_THAT(exchange(""), Catch::Contains("deepep.csv:1: found a header alone"));
  const auto empty =
      read_collectives(folder.with("collectives.csv", "preset,op,gpus,bytes,time_us\n"));
  REQUIRE(!empty.ok());
  CHECK_THAT(empty.error().text(), Catch::Contains("collectives.csv:1: found a header alone"));
}

}  // namespace
}  // namespace tandem
