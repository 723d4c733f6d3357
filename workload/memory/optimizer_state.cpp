// Bytes of Adam's and Muon's states, as far as ZeRO and offloading leave them on a GPU.
#include "workload/memory/optimizer_state.h"

#include "workload/model/blocks.h"

namespace tandem {
namespace {

// Adam has two moments, and an fp32 original of each 16-bit parameter (with param_remainders only
// its lower half). With 2 bytes of weights and 2 or 4 of gradients this makes Megatron's 16 or 18
// bytes a parameter.
constexpr double kMoments = 2;
constexpr double kMasterBytes = 4, kRemainderBytes = 2;

double optimizer_bytes(const Plan& plan) {
  const double originals = plan.param_remainders ? kRemainderBytes : kMasterBytes;
  return kMoments * bytes_of(plan.moment_dtype) + (bytes_of(plan.precision) < 4 ? originals : 0);
}

}  // namespace

double state_bytes(const OrderedPlan& plan, const UpdatedParameters& parameters) {
  const bool is_cut = plan.zero >= 1;
  const double adam =
      zero_share(parameters.held, plan, is_cut) - zero_share(parameters.muon, plan, is_cut);
  return adam * optimizer_bytes(plan) * (1 - plan.optimizer_offload) +
         parameters.own.total() * muon_state_bytes(plan);
}

double muon_step_bytes(const OrderedPlan& plan, const HeldParameters& held, const MuonShare& muon) {
  const bool is_wide = !plan.muon || bytes_of(plan.gradient_dtype) == 4;
  return muon.scratch_bytes + (is_wide ? 0 : 4 * zero_share(held, plan, plan.zero >= 1));
}

}  // namespace tandem
