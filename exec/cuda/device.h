// Device: a GPU that carries out the calls of a plan.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "exec/cuda/communicators.h"
#include "exec/cuda/gate.h"
#include "exec/cuda/gpu.h"
#include "exec/cuda/handles.h"
#include "exec/cuda/multiplier.h"
#include "exec/cuda/partitions.h"
#include "exec/cuda/payloads.h"
#include "exec/cuda/software.h"

namespace tandem {

// Returns the libraries and GPUs that are here, whether or not there is a driver.
GpuSoftware software_here();

class Device final : public Gpu {
 public:
  // Opens device `number` of those that this process sees. REQUIRES: there is one.
  static Result<std::unique_ptr<Device>> make(int number);
  ~Device() override;

  const GpuFacts& facts() const override { return facts_; }
  Result<GpuCommId> make_id() override { return Communicators::make_id(); }
  Result<GpuShare> open(GpuJob job) override;
  std::int64_t launches(const GpuCall& call) const override;
  Status capture(std::span<const GpuCall> calls) override;
  Status issue(std::span<const GpuCall> calls, int iteration, bool by_graph) override;
  Result<Nanoseconds> open_gate() override;
  bool held() const override { return held_; }
  Result<bool> has_happened(std::int32_t event) override;
  Result<Nanoseconds> ns_since_gate(std::int32_t event) override;
  Result<std::vector<GpuFault>> faults() override;
  void abort() override;

 private:
  // Buffers for a stream's messages.
  struct Messages {
    DeviceArray<float> give, take;
  };
  // Everything that the GPU may still use after an abort. It is leaked then, as freeing it would
  // wait for the GPU.
  struct Parts {
    Gate gate;
    Stream setup;  // for copies beside the plan's streams
    Partitions partitions;
    std::vector<Event> events;  // timed, by number in the plan
    // Events that are used only while a graph is captured. They are made at the first capture.
    std::vector<Event> dependencies;  // by number in the plan
    std::vector<Event> ends;          // by stream
    std::vector<Messages> messages;   // by stream
    Payloads payloads;
    std::vector<Multiplier> multipliers;  // by local rank
    Communicators communicators;
    std::vector<GpuCall> graph_calls;  // the calls that `graph` carries out
    ExecutableGraph graph;
  };
  struct CheckedCall {
    const GpuCall* call = nullptr;
    const GpuCall* check = nullptr;  // the Check of the payload that it receives; null: none
  };

  explicit Device(int number) : number_(number) {}
  Status find_facts();
  Status open_streams();
  Status open_messages();
  Status check_precision() const;
  Status plan_multipliers(std::span<const int> sms);
  Status open_multipliers();
  std::vector<const GpuCall*> first_messages() const;
  Status connect();

  bool is_idle(Nanoseconds within_ns) const;
  bool graph_came_to(std::int32_t event) const;

  std::vector<CheckedCall> with_checks(std::span<const GpuCall> calls) const;
  bool only_takes_time(const GpuCall& call) const;
  Status issue_one(const GpuCall& call, bool captures);
  Status prepare(const GpuCall& call, bool captures);
  Status carry_out(const GpuCall& call);
  Status record(const GpuCall& call, bool captures);
  Status compute(const GpuCall& call);
  Status take_time(const GpuCall& call, int blocks);
  Status communicate(const GpuCall& call);
  Status move(const GpuCall& call);

  Result<CapturedGraph> capture_graph(std::span<const GpuCall> calls);
  Status capture_all(std::span<const GpuCall> calls);

  const Body& body(const GpuCall& call) const;
  const Op& op(const GpuCall& call) const { return body(call).ops[call.op]; }
  std::int32_t communicator(const GpuCall& call) const {
    return communicator_of(*job_.program, *job_.plan, call);
  }
  cudaStream_t stream(const GpuCall& call) const { return parts_->partitions.stream(call.stream); }
  float* give(const GpuCall& call) const { return parts_->messages[call.stream].give.get(); }
  float* take(const GpuCall& call) const { return parts_->messages[call.stream].take.get(); }

  int number_;
  GpuFacts facts_;
  GpuJob job_;
  bool aborted_ = false;
  bool by_graph_ = false;       // whether the iteration issued last is a graph
  Nanoseconds checked_ns_ = 0;  // when communicators were last checked for failures
  std::vector<std::vector<std::string>> op_names_;  // by local rank and op, for profilers
  std::unique_ptr<Parts> parts_;
  bool held_ = true;  // whether the gate held the iteration issued last until open_gate()
  std::unique_ptr<GateWatch> watch_;  // lives while the gate is closed; uses parts_
};

}  // namespace tandem
