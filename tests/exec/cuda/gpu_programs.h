// Programs for tests of GPU plans, played by fake GPUs.
#pragma once

#include <catch2/catch.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "exec/cuda/gpu_plan.h"
#include "planning/simulate/simulate.h"
#include "schedule/lowering/lower.h"
#include "schedule/program/validate.h"
#include "tests/exec/cuda/fake_gpu.h"
#include "tests/scenarios/small_scenario.h"

namespace tandem {

// An order of F, I and W with transfers, without a cluster.
inline Program order_program(const Order& order, const LowerOptions& options,
                             Nanoseconds transfer_ns) {
  auto program = lower(order, uniform_workload({2e-3, 3e-3, 2e-3, 1e-3}, order.stages), options);
  INFO((program.ok() ? "" : program.error().text()));
  REQUIRE(program.ok());
  for (Body& body : program->bodies) {
    for (Op& op : body.ops) {
      if (is_compute(op.kind)) continue;
      op.bytes = 10'000;
      op.duration_ns = transfer_ns;
    }
  }
  return *std::move(program);
}

// Its communication takes no SMs: all ops take what they are priced at.
inline Program without_contention(Program program) {
  for (Body& body : program.bodies) {
    for (Op& op : body.ops) op.sms = 0;
  }
  return program;
}

inline Program job(const Scenario& scenario) {
  auto job = compile(scenario);
  INFO((job.ok() ? "" : job.error().text()));
  REQUIRE(job.ok());
  return std::move(job->program);
}

inline std::vector<Rank> all_ranks(const Program& program) {
  std::vector<Rank> ranks;
  for (std::size_t i = 0; i < program.ranks.size(); ++i) ranks.push_back(static_cast<Rank>(i));
  return ranks;
}

// One process a rank.
inline std::vector<GpuPlan> plans_by_rank(const Program& program) {
  std::vector<GpuPlan> plans;
  for (const Rank rank : all_ranks(program)) plans.push_back(gpu_plan(program, {{rank}}));
  return plans;
}

// All ranks in one process.
inline std::vector<GpuPlan> shared_plan(const Program& program) {
  return {gpu_plan(program, all_ranks(program))};
}

// Why the fake refuses the plans; empty: it does not.
inline std::string refusal(const Program& program, const std::vector<GpuPlan>& plans,
                           int queues = 0) {
  FakeOptions options;
  options.queues = queues;
  const auto run = play(program, plans, options);
  return run.ok() ? "" : run.error().text();
}

}  // namespace tandem
