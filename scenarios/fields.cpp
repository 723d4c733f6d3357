#include "scenarios/fields.h"

#include <fmt/format.h>

#include <map>
#include <string>

#include "topology/preset.h"

namespace tandem {
namespace {

using Set = std::function<Status(const Setting&, Scenario*)>;

// Makers of setters: each checks the type and the range, and says what was expected.

template <class Place>  // Place: int& of a Scenario&
Set whole(const char* key, Place place, int least) {
  return [=](const Setting& setting, Scenario* scenario) -> Status {
    const auto* value = std::get_if<std::int64_t>(&setting.value);
    constexpr int kMost = 1'000'000'000;
    if (value == nullptr || *value < least || *value > kMost)
      return setting.error(key, fmt::format("an integer from {} to {}", least, kMost));
    place(*scenario) = static_cast<int>(*value);
    return Done{};
  };
}

// What a number may be.
struct Range {
  double least = 0;
  double most = 1e30;
  bool above_least = false;  // `least` itself is too little

  bool has(double value) const {
    return value <= most && (above_least ? value > least : value >= least);
  }
  std::string text() const {
    const std::string from = fmt::format("{} {}", above_least ? "above" : "of at least", least);
    return most < 1e30 ? fmt::format("a number {} and at most {}", from, most)
                       : fmt::format("a number {}", from);
  }
};
constexpr Range kPositive{.above_least = true};
constexpr Range kShare{.most = 1, .above_least = true};
// Beyond these a typing error is likelier, and iterations would not fit into 64-bit nanoseconds.
constexpr Range kSeconds{.most = 1e4};
constexpr Range kTransferSeconds{.most = 900};
constexpr Range kMicroseconds{.most = 900e6};

// A number in that range, times `unit`.
template <class Place>  // Place: double& of a Scenario&
Set number(const char* key, Place place, double unit = 1, Range range = {}) {
  return [=](const Setting& setting, Scenario* scenario) -> Status {
    const auto* integer = std::get_if<std::int64_t>(&setting.value);
    const auto* real = std::get_if<double>(&setting.value);
    const double value = integer != nullptr ? static_cast<double>(*integer)
                         : real != nullptr  ? *real
                                            : -1;
    if (!range.has(value)) return setting.error(key, range.text());
    place(*scenario) = value * unit;
    return Done{};
  };
}

template <class Place>  // Place: void(Scenario&, bool)
Set flag(const char* key, Place place) {
  return [=](const Setting& setting, Scenario* scenario) -> Status {
    const auto* value = std::get_if<bool>(&setting.value);
    if (value == nullptr) return setting.error(key, "true or false");
    place(*scenario, *value);
    return Done{};
  };
}

template <class Place>  // Place: std::string& of a Scenario&
Set text(const char* key, Place place) {
  return [=](const Setting& setting, Scenario* scenario) -> Status {
    const auto* value = std::get_if<std::string>(&setting.value);
    if (value == nullptr) return setting.error(key, "a text");
    place(*scenario) = *value;
    return Done{};
  };
}

// One of several words.
template <class Value, class Place>  // Place: Value& of a Scenario&
Set choice(const char* key, std::map<std::string, Value> words, Place place) {
  return [=](const Setting& setting, Scenario* scenario) -> Status {
    const auto* word = std::get_if<std::string>(&setting.value);
    const auto found = word == nullptr ? words.end() : words.find(*word);
    if (found == words.end()) {
      std::string expected = "one of";
      for (const auto& [known, value] : words) expected += ' ' + known;
      return setting.error(key, expected);
    }
    place(*scenario) = found->second;
    return Done{};
  };
}

Status set_layers(const Setting& setting, Scenario* scenario) {
  const auto* list = std::get_if<std::vector<std::int64_t>>(&setting.value);
  if (list == nullptr) return setting.error("parallel.layers_per_stage", "a list of integers");
  for (const std::int64_t layers : *list) {
    if (layers < 0 || layers > 1'000'000)
      return setting.error("parallel.layers_per_stage", "integers from 0 to 1000000");
  }
  scenario->plan.layers_per_stage.assign(list->begin(), list->end());
  return Done{};
}

Status set_costs_source(const Setting& setting, Scenario* scenario) {
  const auto* word = std::get_if<std::string>(&setting.value);
  if (word == nullptr || (*word != "analytic" && *word != "uniform"))
    return setting.error("costs.source", "analytic or uniform");
  if (*word == "uniform" && !scenario->uniform) scenario->uniform.emplace();
  if (*word == "analytic" && scenario->uniform)
    return setting.error("costs.source", "uniform, as costs.forward_s and the like are set");
  return Done{};
}

// Seconds an action: they make the costs uniform. Keys are applied in alphabetical order,
// costs.source last.
template <class Place>  // Place: double& of a UniformCosts&
Set seconds(const char* key, Place place) {
  const auto costs = [=](Scenario& scenario) -> double& {
    if (!scenario.uniform) scenario.uniform.emplace();
    return place(*scenario.uniform);
  };
  return number(key, costs, 1, kSeconds);
}

// Keys are applied in alphabetical order: single numbers of the GPU come after it, but for the
// efficiencies, which it leaves alone where they are set.
Status set_gpu(const Setting& setting, Scenario* scenario) {
  const auto* name = std::get_if<std::string>(&setting.value);
  if (name == nullptr) return setting.error("cluster.gpu", "a GPU's name");
  auto device = load_device(*name);
  if (!device.ok()) return Error{fmt::format("{}: {}", setting.where, device.error().message)};
  DeviceSpec& own = scenario->cluster.device;
  if (scenario->places.contains("cluster.gemm_efficiency")) {
    device->gemm_efficiency = own.gemm_efficiency;
    device->own_gemm_efficiency.clear();
  }
  if (scenario->places.contains("cluster.attention_efficiency"))
    device->attention_efficiency = own.attention_efficiency;
  own = *std::move(device);
  return Done{};
}

// One share for every precision.
Status set_gemm_efficiency(const Setting& setting, Scenario* scenario) {
  const auto place = [](Scenario& s) -> double& { return s.cluster.device.gemm_efficiency; };
  scenario->cluster.device.own_gemm_efficiency.clear();
  return number("cluster.gemm_efficiency", place, 1, kShare)(setting, scenario);
}

Status set_tflops(const Setting& setting, Scenario* scenario) {
  double flops = 0;
  RETURN_IF_ERROR(number(
      "cluster.tflops", [&](Scenario&) -> double& { return flops; }, 1e12, kPositive)(setting,
                                                                                      scenario));
  for (const char* precision : {"fp16", "bf16", "fp8", "fp32"})
    scenario->cluster.device.flops_per_s[precision] = flops;
  return Done{};
}

#define AT(expression) \
  [](Scenario & s) -> auto& { return s.expression; }

std::vector<Field> make_fields() {
  return {
      {"model.name", "text: shown in tables", text("model.name", AT(model_name))},
      {"model.layers", "integer: transformer layers", whole("model.layers", AT(model.layers), 1)},
      {"model.hidden", "integer: hidden size h", whole("model.hidden", AT(model.hidden), 1)},
      {"model.heads", "integer: attention heads a", whole("model.heads", AT(model.heads), 1)},
      {"model.kv_heads", "integer: key/value heads (grouped-query attention); default heads",
       whole("model.kv_heads", AT(model.kv_heads), 1)},
      {"model.ffn_hidden", "integer: width of the MLP; default 4 hidden",
       whole("model.ffn_hidden", AT(model.ffn_hidden), 1)},
      {"model.gated_mlp", "true or false: three matrices in the MLP (SwiGLU); default false",
       flag("model.gated_mlp", [](Scenario& s, bool on) { s.model.gated_mlp = on; })},
      {"model.seq", "integer: tokens a sequence s", whole("model.seq", AT(model.seq), 1)},
      {"model.vocab", "integer: vocabulary V", whole("model.vocab", AT(model.vocab), 1)},

      {"parallel.tp", "integer: tensor parallel size; default 1",
       whole("parallel.tp", AT(plan.tp), 1)},
      {"parallel.pp", "integer: pipeline parallel size; default 1",
       whole("parallel.pp", AT(plan.pp), 1)},
      {"parallel.vpp", "integer: stages a rank holds (virtual pipeline size); default 1",
       whole("parallel.vpp", AT(plan.vpp), 1)},
      {"parallel.dp", "integer: data parallel size; default cluster.gpus / (tp pp)",
       whole("parallel.dp", AT(plan.dp), 1)},
      {"parallel.micro_batch", "integer: sequences a microbatch b; default 1",
       whole("parallel.micro_batch", AT(plan.micro_batch), 1)},
      {"parallel.global_batch",
       "integer: sequences an iteration, of all replicas; default micro_batch x dp",
       whole("parallel.global_batch", AT(plan.global_batch), 1)},
      {"parallel.layers_per_stage", "list of integers: layers of every stage; default even",
       set_layers},
      {"parallel.scatter_gather",
       "true or false: each tensor rank sends 1/tp of a pipeline transfer, gathered again behind "
       "it; default false",
       flag("parallel.scatter_gather", [](Scenario& s, bool on) { s.plan.scatter_gather = on; })},

      {"schedule.order",
       "text: none, gpipe, 1f1b, interleaved, looped-bfs, or a CSV file in PyTorch's form beside "
       "the scenario; "
       "default 1f1b, interleaved for vpp > 1",
       text("schedule.order", AT(order.name))},
      {"schedule.group", "integer: interleaved's microbatches a group and stage; default pp",
       whole("schedule.group", AT(order.group), 1)},

      {"train.precision", "text: fp16, bf16 or fp8; default bf16",
       text("train.precision", AT(plan.precision))},
      {"train.gradient_dtype", "text: fp16, bf16 or fp32; default fp16 with fp16, else fp32",
       text("train.gradient_dtype", AT(plan.gradient_dtype))},
      {"train.recompute", "text: none, selective (the attention core) or full; default none",
       choice<Recompute>("train.recompute",
                         {{"none", Recompute::None},
                          {"selective", Recompute::Selective},
                          {"full", Recompute::Full}},
                         AT(plan.recompute))},
      {"train.sequence_parallel",
       "true or false: reduce-scatter and all-gather instead of tensor all-reduces; default false",
       flag("train.sequence_parallel",
            [](Scenario& s, bool on) { s.plan.sequence_parallel = on; })},

      {"overlap.p2p",
       "true or false: pipeline transfers beside compute; default true but for none, gpipe and "
       "1f1b",
       flag("overlap.p2p", [](Scenario& s, bool on) { s.overlap_p2p = on; })},
      {"overlap.batch_p2p", "true or false: an exchange is issued as one group; default false",
       flag("overlap.batch_p2p", [](Scenario& s, bool on) { s.batch_p2p = on; })},

      {"cluster.preset", "text: a preset's name, see tandem topology",
       text("cluster.preset", AT(preset))},
      {"cluster.name", "text: shown in tables; default the preset's",
       text("cluster.name", AT(cluster.name))},
      {"cluster.gpus", "integer: GPUs of the job; default tp x pp x dp",
       whole("cluster.gpus", AT(gpus), 1)},
      {"cluster.gpus_per_node", "integer",
       whole("cluster.gpus_per_node", AT(cluster.gpus_per_node), 1)},
      {"cluster.intra_GBps", "number: GB/s of a GPU to its node's switch, per direction",
       number("cluster.intra_GBps", AT(cluster.intra_bytes_per_s), GB, kPositive)},
      {"cluster.intra_efficiency", "number: the share of it that NCCL reaches; default 1",
       number("cluster.intra_efficiency", AT(cluster.intra_efficiency), 1, kShare)},
      {"cluster.intra_latency_us", "number: us a message inside a node",
       number("cluster.intra_latency_us", AT(cluster.intra_latency_s), 1e-6, kMicroseconds)},
      {"cluster.nics_per_node", "integer: NICs, shared evenly by the GPUs",
       whole("cluster.nics_per_node", AT(cluster.nics_per_node), 1)},
      {"cluster.nic_Gbitps", "number: Gbit/s of a NIC, per direction",
       number("cluster.nic_Gbitps", AT(cluster.nic_bytes_per_s), Gbit, kPositive)},
      {"cluster.inter_efficiency", "number: the share of it that NCCL reaches; default 1",
       number("cluster.inter_efficiency", AT(cluster.inter_efficiency), 1, kShare)},
      {"cluster.ring_efficiency",
       "number: a further share that rings between nodes reach; default 1",
       number("cluster.ring_efficiency", AT(cluster.ring_efficiency), 1, kShare)},
      {"cluster.inter_latency_us", "number: us a message between nodes",
       number("cluster.inter_latency_us", AT(cluster.inter_latency_s), 1e-6, kMicroseconds)},
      {"cluster.fabric", "text: star (non-blocking), rail-optimised or fat-tree; default star",
       choice<Fabric::Kind>("cluster.fabric",
                            {{"star", Fabric::Star},
                             {"rail-optimised", Fabric::RailOptimised},
                             {"fat-tree", Fabric::FatTree}},
                            AT(cluster.fabric.kind))},
      {"cluster.nodes_per_leaf", "integer: nodes below a leaf switch (rail-optimised, fat-tree)",
       whole("cluster.nodes_per_leaf", AT(cluster.fabric.nodes_per_leaf), 1)},
      {"cluster.oversubscription", "number: a leaf's downlinks over its uplinks; default 1",
       number("cluster.oversubscription", AT(cluster.fabric.oversubscription), 1, {.least = 1})},
      {"cluster.collectives",
       "text: ring (over all ranks), hierarchical (on the nodes, and between them among ranks of "
       "equal place), or auto: the faster of both, group by group; default ring",
       choice<Collectives>("cluster.collectives",
                           {{"ring", Collectives::Ring},
                            {"hierarchical", Collectives::Hierarchical},
                            {"auto", Collectives::Auto}},
                           AT(cluster.collectives))},
      {"cluster.in_network_reduction",
       "true or false: switches between nodes reduce (SHARP): all-reduce sends each byte up once "
       "and gets it down once; default false",
       flag("cluster.in_network_reduction",
            [](Scenario& s, bool on) { s.cluster.in_network_reduction = on; })},
      {"cluster.gpu", "text: a GPU that is known, such as a100-80gb; default the preset's",
       set_gpu},
      {"cluster.gpu_name", "text: the name of a GPU of your own",
       text("cluster.gpu_name", AT(cluster.device.name))},
      {"cluster.memory_GiB", "number: GiB of a GPU's memory",
       number("cluster.memory_GiB", AT(cluster.device.memory_bytes), GiB, kPositive)},
      {"cluster.memory_GBps", "number: GB/s of a GPU's memory",
       number("cluster.memory_GBps", AT(cluster.device.memory_bytes_per_s), GB, kPositive)},
      {"cluster.sms", "integer: streaming multiprocessors of a GPU",
       whole("cluster.sms", AT(cluster.device.sms), 1)},
      {"cluster.tflops", "number: a GPU's dense peak TFLOP/s, taken for every precision",
       set_tflops},
      {"cluster.gemm_efficiency",
       "number: the share of its peak that a GPU's large GEMMs reach, taken for every precision; "
       "default the GPU's, 0.761 for one of your own",
       set_gemm_efficiency},
      {"cluster.attention_efficiency",
       "number: the share of its 16-bit peak that a GPU's fused attention reaches; default the "
       "GPU's, 0.55 for one of your own",
       number("cluster.attention_efficiency", AT(cluster.device.attention_efficiency), 1, kShare)},

      {"costs.source",
       "text: analytic (from shapes), or uniform: seconds an action, and nothing else costs "
       "anything; default "
       "analytic",
       set_costs_source},
      {"costs.forward_s", "number: seconds of a stage's forward",
       seconds("costs.forward_s", [](UniformCosts& c) -> double& { return c.forward_s; })},
      {"costs.backward_s", "number: seconds of a full backward; default input_s + weight_s",
       seconds("costs.backward_s", [](UniformCosts& c) -> double& { return c.backward_s; })},
      {"costs.input_s", "number: seconds of an input gradient; default half of backward_s",
       seconds("costs.input_s", [](UniformCosts& c) -> double& { return c.input_s; })},
      {"costs.weight_s", "number: seconds of a weight gradient; default half of backward_s",
       seconds("costs.weight_s", [](UniformCosts& c) -> double& { return c.weight_s; })},
      {"costs.p2p_s", "number: seconds of a transfer between stages; default 0",
       number("costs.p2p_s", AT(p2p_s), 1, kTransferSeconds)},

      {"variability.jitter",
       "number: each compute op takes its time times a log-normal factor of mean 1 with this "
       "sigma; default 0",
       number("variability.jitter", AT(jitter), 1, {.most = 1})},
      {"variability.seed", "integer: of the jitter; default 1",
       [](const Setting& setting, Scenario* s) -> Status {
         const auto* value = std::get_if<std::int64_t>(&setting.value);
         if (value == nullptr || *value < 0)
           return setting.error("variability.seed", "an integer, not negative");
         s->seed = static_cast<std::uint64_t>(*value);
         return Done{};
       }},

      {"report.least_bandwidth",
       "true or false: look for the least bandwidth between nodes at which exposed communication "
       "between nodes is "
       "under 5 % of the iteration, on the ideal engine; default false",
       flag("report.least_bandwidth", [](Scenario& s, bool on) { s.least_bandwidth = on; })},
      {"report.note", "text: printed below the table", text("report.note", AT(note))},
      {"published.tflops_per_gpu", "number: what was measured, hardware FLOPs",
       number("published.tflops_per_gpu", AT(published.tflops_per_gpu))},
      {"published.cluster", "text: the cluster's point that it was measured on",
       text("published.cluster", AT(published.cluster))},
  };
}

#undef AT

}  // namespace

const std::vector<Field>& fields() {
  static const std::vector<Field> kFields = make_fields();
  return kFields;
}

}  // namespace tandem
