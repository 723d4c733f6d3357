// Fills in what [costs] leaves open: seconds that follow from others (uniform costs), else the
// framework profile of the GPU, and the evidence for its predictions. Refuses keys that do not go
// together. Scenario::places has the keys that the run sets.
#include "scenarios/costs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "scenarios/evidence.h"
#include "workload/memory/trainer.h"
#include "workload/model/recipe.h"

namespace tandem {
namespace {

// Keys that mean nothing if the scenario gives the seconds of actions (costs.source = uniform).
constexpr const char* kKeysWithoutUniform[] = {
    "parallel.ep",         "parallel.expert_tp",  "train.zero",
    "overlap.tensor",      "overlap.tensor_file", "overlap.context",
    "overlap.expert",      "overlap.data_sms",    "overlap.p2p_sms",
    "overlap.context_sms", "overlap.expert_sms",  "parallel.hsdp_shard",
    "parallel.zero_hpz",   "schedule.vocabulary", "parallel.layers_per_stage"};

// Fills in the seconds that follow from others: backward = input + weight; or input and weight are
// half of backward each.
Status complete_uniform(Scenario* s) {
  for (const char* key : kKeysWithoutUniform) {
    if (s->places.contains(key))
      return Error::of(
          {key}, fmt::format("found {} with costs.source = uniform, expected it not to be set: the "
                             "seconds of an action are all there is",
                             key));
  }
  const auto given = [&](const char* key) { return s->places.contains(key); };
  if (given("costs.p2p_s") && given("costs.p2p_MB"))
    return Error::of(
        {"costs.p2p_MB"},
        "found costs.p2p_s and costs.p2p_MB, expected one of them: seconds, or what the "
        "cluster carries");
  UniformCosts& costs = *s->costs.uniform;
  const bool has_both_halves = given("costs.input_s") && given("costs.weight_s");
  if (!given("costs.forward_s") || !(given("costs.backward_s") || has_both_halves))
    return Error::of(
        {"costs.source"},
        "found costs.source = uniform without its seconds, expected costs.forward_s and "
        "costs.backward_s (or input_s and weight_s)");
  if (!given("costs.backward_s")) costs.backward_s = costs.input_s + costs.weight_s;
  if (!given("costs.input_s")) costs.input_s = costs.backward_s / 2;
  if (!given("costs.weight_s")) costs.weight_s = costs.backward_s / 2;
  return Done{};
}

Status complete_table(Scenario* s) {
  if (s->costs.source != "table")
    return Error::of(
        {"costs.table"},
        fmt::format("found costs.table with costs.source = {}, expected table", s->costs.source));
  if (!s->costs.table)
    return Error::of({"costs.source"},
                     "found costs.source = table without costs.table, expected its file");
  if (s->job.plan.fp8_attention && is_quantized(s->job.plan.precision))
    return Error::of({"train.fp8_attention", "costs.table"},
                     "found train.fp8_attention with costs.source = table, expected one of them: a "
                     "table has attention in 16 bits");
  if (const Status status = check_covers(*s->costs.table, s->job.plan.flash_attention);
      !status.ok())
    return Error::of({"costs.table"}, status.error().text());
  return Done{};
}

// Keys that turn a known GPU into one of the user's own, which nobody has measured.
constexpr const char* kKeysOfOwnGpu[] = {"cluster.gpu_name",        "cluster.tflops",
                                         "cluster.memory_GBps",     "cluster.sms",
                                         "cluster.gemm_efficiency", "cluster.attention_efficiency",
                                         "cluster.training_clock"};

}  // namespace

Status complete_costs(Scenario* s) {
  if (s->costs.uniform && s->places.contains("costs.source") && s->costs.source != "uniform")
    return Error::of(
        {"costs.source"},
        fmt::format("found costs.source = {}, expected uniform, as costs.forward_s and "
                    "the like are set",
                    s->costs.source));
  if (s->costs.uniform) s->costs.source = "uniform";
  if (s->costs.table || s->costs.source == "table") RETURN_IF_ERROR(complete_table(s));
  if (s->costs.uniform) return complete_uniform(s);
  if (s->costs.p2p_bytes == 0) return Done{};
  return Error::of(
      {"costs.p2p_MB"},
      fmt::format("found costs.p2p_MB with costs.source = {}, expected uniform: a model "
                  "says what its transfers carry",
                  s->costs.source));
}

Status complete_framework_profile(Scenario* s) {
  if (s->costs.profile.name.empty()) {
    ASSIGN_OR_RETURN(s->costs.profile, load_framework_profile(s->cluster.spec.device.profile));
  } else if (!s->job.plan.trainer) {
    s->job.plan.trainer = trainer_named(s->costs.profile.framework);
  }
  if (s->costs.table) {
    // A table does not measure this part.
    s->costs.profile.iteration_overhead_s = s->costs.profile.rank_overhead_s = 0;
    return Done{};
  }
  return complete_calibration(s);
}

namespace {

// Returns the traits that no measured run has, in words: " with tensor parallelism and experts". If
// all measured models had experts and this one has none, that is " without experts".
std::string words_of(const Evidence& evidence) {
  std::vector<std::string> words;
  for (const std::string& trait : evidence.traits) {
    if (trait == "dense" && evidence.missing == Missing::Model) return " without experts";
    if (trait == "experts") words.push_back(trait);
    if (trait == "delta") words.emplace_back("gated delta nets");
    if (trait == "ZeRO3") words.emplace_back("ZeRO 3");
    if (trait == "tensor" || trait == "pipeline" || trait == "context")
      words.push_back(trait + " parallelism");
  }
  return words.empty() ? "" : fmt::format(" with {}", fmt::join(words, " and "));
}

}  // namespace

bool has_own_gpu(const Scenario& s) {
  return std::ranges::any_of(kKeysOfOwnGpu,
                             [&](const char* key) { return s.places.contains(key); });
}

bool lacks_recipe(const Scenario& s, const Plan& plan) {
  const DeviceSpec& device = s.cluster.spec.device;
  const bool is_known_gpu = !device.name.empty() && !s.places.contains("cluster.tflops");
  return is_known_gpu && s.costs.need_cluster() && lacks_mxfp8(device, plan);
}

Status complete_calibration(Scenario* s) {
  const FrameworkProfile& profile = s->costs.profile;
  const std::string gpu = has_own_gpu(*s) ? "" : s->cluster.spec.device.name;
  const Plan& plan = s->job.plan;
  KindOfRun kind = kind_of_run(gpu, s->job.model, plan);
  // Runs in fp8 are no evidence for mxfp8 on a GPU without it.
  if (!gpu.empty() && lacks_mxfp8(s->cluster.spec.device, plan)) kind.precision = "mxfp8";
  ASSIGN_OR_RETURN(const Evidence evidence, evidence_for(profile, kind, plan.gpus()));
  // Names what was priced: "nemo-h100 on H100-SXM5-80GB in fp8 with experts", or, of a job that is
  // too large, "nemo-h100 on more than ten times 1024 of H100-SXM5-80GB in fp8".
  std::string number, traits = words_of(evidence);
  if (evidence.missing == Missing::Size)
    number = fmt::format("more than ten times {:g} of ", profile.measured_gpus);
  if (evidence.traits.empty() && s->job.model.is_moe()) traits = " with experts";
  s->costs.model_name =
      fmt::format("{} on {}{} in {}{}", profile.name, number,
                  gpu.empty() ? "a GPU of your own" : gpu, kind.precision, traits);
  s->costs.calibrated = evidence.is_calibrated();
  s->costs.interval = evidence.interval;
  return Done{};
}

}  // namespace tandem
