// Builds a layer's passes from the kernels of its two blocks: attention or a scan ("mixer"), then
// an MLP or experts. A layer or block without communication inside it is one kernel. Others go part
// by part, and the CPU's time to launch a block is divided over its parts.
#include "workload/model/layer.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "workload/model/moe.h"
#include "workload/model/recipe.h"

namespace tandem {
namespace {

// Returns, as one kernel, the forward parts of a block that selective recompute repeats, without
// the core.
Kernel repeated(const Block& block, const Plan& plan, bool is_experts) {
  const RecomputeModules& modules = plan.recompute_modules;
  if (plan.recompute != Recompute::Selective) return {};
  Kernel all;
  const auto repeat = [&](bool chosen, Kernel module) {
    if (!chosen || module.empty()) return;
    module.launch_s = block.module_launch_s;
    all = merge("recomputed", {all, module});
  };
  repeat(modules.layernorm, block.norm);
  repeat(modules.mla_up_proj, block.up_projection);
  repeat(modules.moe_act && is_experts, block.forward_parts.between);
  return all;
}

// Merges a kernel that recomputes into the block's input gradient, and into the part `first` with
// which that gradient begins.
Block with_repeated(Block block, const Kernel& recompute, Kernel Parts::*first) {
  if (recompute.empty()) return block;
  for (Kernel* gradient : {&block.input_gradient, &(block.input_parts.*first)})
    *gradient = merge(gradient->name, {recompute, *gradient});
  return block;
}

// One of a layer's two blocks, with its communication.
struct Half {
  Block block;
  BlockComm comm;
  double collective_s = 0;  // of its two tensor collectives
};

class LayerBuilder {
 public:
  LayerBuilder(const Model& model, const Plan& plan, double collective_s, KernelTable* kernels)
      : model_(model),
        plan_(plan),
        collective_s_(plan.tp > 1 ? collective_s : 0),
        kernels_(kernels),
        has_mixer_(model.mixer != Mixer::None),
        recomputes_core_(recomputes_core(model, plan)),
        recomputes_mlp_(recomputes_mlp(model, plan)),
        experts_(expert_group(model, plan)),
        mixer_(mixer()),
        mlp_(mlp()) {
    if (model.shared_expert_ffn > 0 && model.is_moe()) {
      const Block shared = shared_expert_block(model, plan, profile());
      const bool recomputes = recomputes_shared(model, plan);
      shared_ = with_repeated(shared, recomputes ? shared.forward : Kernel{}, &Parts::out);
    }
  }

  LayerPasses build() {
    LayerPasses layer;
    layer.quantized = quantized_products();
    layer.backward_weight = one_kernel(
        merge("layer weight gradient", {mlp_.block.weight_gradient, mixer_.block.weight_gradient,
                                        shared_ ? shared_->weight_gradient : Kernel{}}));
    if (is_one_kernel()) {
      const Kernel forward = merge("layer forward", {mixer_.block.forward, mlp_.block.forward});
      const Kernel input = merge("layer input gradient",
                                 {plan_.recompute == Recompute::Full ? forward : recomputed_core(),
                                  recomputes_mlp_ ? mlp_.block.forward : Kernel{},
                                  mlp_.block.input_gradient, mixer_.block.input_gradient});
      layer.forward = one_kernel(forward);
      layer.backward_input = one_kernel(input);
      layer.backward = one_kernel(merge(
          "layer backward", {input, mlp_.block.weight_gradient, mixer_.block.weight_gradient}));
      return layer;
    }
    PricedPass pass(kernels_);
    forward(&pass);
    layer.forward = pass.take();
    layer.backward = backward(/*weights=*/true);
    layer.backward_input = backward(/*weights=*/false);
    return layer;
  }

 private:
  const FrameworkProfile& profile() const { return kernels_->cost().profile; }

  Half mixer() const {
    const BlockComm comm = {
        quantized_group(model_, plan_, profile()), context_group(model_, plan_),
        attention_gemms(plan_),
        gathered_columns(model_, plan_) * tokens_of(model_, plan_) * stored_bytes(plan_)};
    if (!has_mixer_) return {{}, comm};
    return {with_recomputed(attention_block(model_, plan_, profile())), comm, collective_s_};
  }
  // Experts that are not cut have no tensor collectives.
  Half mlp() const {
    const BlockComm comm = {mixer_.comm.tensor, mixer_.comm.context, mlp_gemms(plan_)};
    if (!model_.has_mlp) return {{}, comm};
    if (!model_.is_moe())
      return {with_recomputed(mlp_block(model_, plan_, profile())), comm, collective_s_};
    return {with_recomputed(experts_block(model_, plan_, profile()), /*is_experts=*/true), comm,
            experts_.tensor_bytes == 0 ? 0 : collective_s_};
  }
  Block with_recomputed(Block block, bool is_experts = false) const {
    const Kernel recompute = repeated(block, plan_, is_experts);
    return with_repeated(std::move(block), recompute, &Parts::residual);
  }

  int quantized_products() const {
    if (!recipe_of(plan_)) return 0;
    std::int64_t products = 0;
    for (const Block* block : {&mixer_.block, &mlp_.block, shared_ ? &*shared_ : nullptr}) {
      if (block == nullptr) continue;
      for (const Gemm& gemm : block->forward.gemms) products += gemm.in_16_bits ? 0 : gemm.batch;
    }
    return static_cast<int>(products);
  }

  // Says whether nothing communicates inside the layer.
  bool is_one_kernel() const { return plan_.tp == 1 && plan_.cp == 1 && !model_.is_moe(); }
  bool splits_attention() const {
    return plan_.overlaps_tensor() || plan_.cp > 1 || mixer_.comm.qkv_bytes > 0;
  }

  Pass one_kernel(const Kernel& kernel) {
    PricedPass pass(kernels_);
    pass.run(kernel);
    return pass.take();
  }

  Kernel recomputed_core() const { return recomputes_core_ ? mixer_.block.core : Kernel{}; }

  bool has_whole_blocks() const { return !splits_attention() && !model_.is_moe(); }

  // Returns the two kernels, each if the layer has its half.
  std::vector<Kernel> halves(const Kernel& mixer, const Kernel& mlp) const {
    std::vector<Kernel> kernels;
    if (has_mixer_) kernels.push_back(mixer);
    if (model_.has_mlp) kernels.push_back(mlp);
    return kernels;
  }

  void forward(PricedPass* pass) {
    if (has_whole_blocks())
      return whole_blocks(pass, halves(mixer_.block.forward, mlp_.block.forward), /*forwards=*/2);
    if (has_mixer_) mixer_forward(pass);
    if (model_.has_mlp) mlp_forward(pass);
  }

  void mixer_forward(PricedPass* pass) {
    if (splits_attention())
      block_forward(pass, spread_forward(mixer_), mixer_.comm);
    else
      whole_blocks(pass, {mixer_.block.forward}, /*forwards=*/1);
  }

  void mlp_forward(PricedPass* pass) {
    if (model_.is_moe()) {
      experts_forward(pass, spread_forward(mlp_), shared_ ? &shared_->forward_parts : nullptr,
                      experts_, mlp_.comm);
    } else if (plan_.overlaps_tensor()) {
      block_forward(pass, spread_forward(mlp_), mlp_.comm);
    } else {
      whole_blocks(pass, {mlp_.block.forward}, /*forwards=*/1);
    }
  }

  Pass backward(bool weights) {
    PricedPass pass(kernels_);
    if (has_whole_blocks()) {
      whole_backward(&pass, weights);
      return pass.take();
    }
    if (plan_.recompute == Recompute::Full) forward(&pass);
    if (recomputes_mlp_) mlp_forward(&pass);
    if (model_.has_mlp) mlp_backward(&pass, weights);
    if (has_mixer_) mixer_backward(&pass, weights);
    return pass.take();
  }

  void whole_backward(PricedPass* pass, bool weights) {
    std::vector<Kernel> blocks;
    if (plan_.recompute == Recompute::Full)
      blocks = halves(mixer_.block.forward, mlp_.block.forward);
    if (recomputes_mlp_) blocks.push_back(mlp_.block.forward);
    const std::size_t forwards = blocks.size();
    if (model_.has_mlp) blocks.push_back(mlp_gradients(weights));
    if (has_mixer_) blocks.push_back(attention_gradients(weights));
    whole_blocks(pass, std::move(blocks), forwards);
  }

  void mixer_backward(PricedPass* pass, bool weights) {
    if (!splits_attention())
      return whole_blocks(pass, {attention_gradients(weights)}, /*forwards=*/0);
    Gradients parts = spread_backward(mixer_, weights);
    if (recomputes_core_)
      parts.input.core = merge("attention core backward", {mixer_.block.core, parts.input.core});
    block_backward(pass, parts.input, weights ? &parts.weight : nullptr, mixer_.comm);
  }

  Kernel attention_gradients(bool weights) const {
    if (!weights)
      return merge("attention input gradient", {recomputed_core(), mixer_.block.input_gradient});
    return merge("attention backward",
                 {recomputed_core(), mixer_.block.input_gradient, mixer_.block.weight_gradient});
  }
  Kernel mlp_gradients(bool weights) const {
    return weights ? merge("mlp backward", {mlp_.block.input_gradient, mlp_.block.weight_gradient})
                   : mlp_.block.input_gradient;
  }

  void mlp_backward(PricedPass* pass, bool weights) {
    if (!model_.is_moe() && !plan_.overlaps_tensor())
      return whole_blocks(pass, {mlp_gradients(weights)}, /*forwards=*/0);
    const Gradients parts = spread_backward(mlp_, weights);
    const Parts* weight = weights ? &parts.weight : nullptr;
    if (!model_.is_moe()) {
      block_backward(pass, parts.input, weight, mlp_.comm);
      return;
    }
    experts_backward(pass,
                     {.input = parts.input,
                      .weight = weight,
                      .shared_input = shared_ ? &shared_->input_parts : nullptr,
                      .shared_weight = shared_ && weights ? &shared_->weight_parts : nullptr},
                     experts_, mlp_.comm);
  }

  double device_s(const Kernel& kernel) const {
    return to_seconds(kernel_ns(kernels_->cost(), kernel));
  }

  // Adds a pass's blocks, each between its collectives. The CPU goes on launching while collectives
  // run, so all blocks together take
  //   max(device + collectives, launch) = max(device, launch - collectives) + collectives
  // So the launch time that counts is launch - collectives. If it is longer than the device's time,
  // each block waits for the CPU for a part of it, in proportion to the block's own time. The first
  // `forwards` blocks are forwards, which gather inputs; the others gather output gradients.
  void whole_blocks(PricedPass* pass, std::vector<Kernel> blocks, std::size_t forwards) {
    const TensorGroup& group = mixer_.comm.tensor;
    double exposed_launch_s = 0, all_device_s = 0;
    for (Kernel& block : blocks) {
      exposed_launch_s += std::exchange(block.launch_s, 0) - collective_s_;
      all_device_s += device_s(block);
    }
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      Kernel& block = blocks[i];
      if (exposed_launch_s > all_device_s)
        block.launch_s = exposed_launch_s * device_s(block) / all_device_s;
      gather(pass, group, i < forwards ? group.of_inputs() : group.of_gradients());
      pass->run(block);
      reduce(pass, group);
    }
  }

  struct Gradients {
    Parts input, weight;
  };

  // Returns 1 or 0, for sums of collectives that are not overlapped.
  static int is_off(const GemmOverlap& overlap) { return overlap.method == TensorMethod::Off; }

  Parts spread_forward(const Half& half) const {
    Parts parts = half.block.forward_parts;
    const BlockGemms& gemms = half.comm.gemms;
    spread_launch({&parts}, half.block.forward.launch_s, half.collective_s,
                  is_off(gemms.in_fprop) + is_off(gemms.out_fprop));
    return parts;
  }

  Gradients spread_backward(const Half& half, bool weights) const {
    const Block& block = half.block;
    Gradients parts = {block.input_parts, block.weight_parts};
    const BlockGemms& gemms = half.comm.gemms;
    // The reduce-scatter of dgrad's output runs beside wgrad (bulk), or beside dgrad's own parts.
    // Otherwise it is exposed.
    const TensorMethod dgrad = gemms.in_dgrad.method;
    const bool cuts_dgrad = dgrad == TensorMethod::Ring || dgrad == TensorMethod::Pipelined;
    const bool exposes_in = is_off(gemms.in_wgrad) && !cuts_dgrad;
    const double launch_s =
        block.input_gradient.launch_s + (weights ? block.weight_gradient.launch_s : 0);
    std::vector<Parts*> all = {&parts.input};
    if (weights) all.push_back(&parts.weight);
    spread_launch(all, launch_s, half.collective_s, exposes_in + is_off(gemms.out_dgrad));
    return parts;
  }

  // Divides a block's launch time over its parts, in proportion to their time on the device, so
  // that either all parts wait for the CPU or none does. The time of collectives that no GEMM
  // overlaps is subtracted first, because the CPU launches meanwhile: `exposed` of the block's two
  // collectives, which together take `collective_s`.
  void spread_launch(const std::vector<Parts*>& all, double launch_s, double collective_s,
                     int exposed) const {
    const double exposed_launch_s =
        std::max(0.0, launch_s - collective_s * static_cast<double>(exposed) / 2);
    const bool ring = plan_.context_comm == ContextComm::Ring;
    double all_device_s = 0;
    for (const Parts* parts : all) {
      for (const auto part : kBlockParts)
        all_device_s += device_s(parts->*part) * (part == &Parts::core && ring ? plan_.cp : 1);
    }
    for (Parts* parts : all) {
      for (const auto part : kBlockParts)
        (parts->*part).launch_s = exposed_launch_s * device_s(parts->*part) / all_device_s;
    }
  }

  const Model& model_;
  const Plan& plan_;
  const double collective_s_;
  KernelTable* const kernels_;
  const bool has_mixer_, recomputes_core_, recomputes_mlp_;
  const ExpertGroup experts_;
  const Half mixer_, mlp_;
  std::optional<Block> shared_;
};

}  // namespace

LayerPasses layer_passes(const Model& model, const Plan& plan, double collective_s,
                         KernelTable* kernels) {
  return LayerBuilder(model, plan, collective_s, kernels).build();
}

}  // namespace tandem
