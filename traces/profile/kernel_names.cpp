// Tables of parts of names: of kernels, collectives, process groups and annotations. Mostly the
// first part that a name holds decides, so the order of rows matters.
#include "traces/profile/kernel_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <span>
#include <utility>
#include <vector>

#include "base/split.h"

namespace tandem {
namespace {

bool holds(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Parts of the names, in lower case, of kernels that communicate.
constexpr std::string_view kCommunicates[] = {"nccl",
                                              "rccl",
                                              "hccl",
                                              "::ep::",
                                              "deep_ep",
                                              "hybrid_ep",
                                              "nvshmem",
                                              "userbuffers",
                                              "multimem_",
                                              "_shot_all_reduce",
                                              "cross_device_reduce",
                                              "pushsend",
                                              "pushrecv"};

struct NamePart {
  std::string_view part, meaning;
};

// The first part that a name holds decides.
constexpr std::array<NamePart, 61> kCategories = {{
    {"cuda graph", "CUDA graph"},
    {"flash", "attention"},
    {"fmha", "attention"},
    {"attention", "attention"},
    {"attn", "attention"},
    {"sdpa", "attention"},
    {"softmax", "softmax"},
    {"multi_tensor_apply", "optimizer"},
    {"adam", "optimizer"},
    {"optimizer", "optimizer"},
    {"lamb_", "optimizer"},
    {"layer_norm", "norm"},
    {"layernorm", "norm"},
    {"rmsnorm", "norm"},
    {"rms_norm", "norm"},
    {"ln_fwd", "norm"},
    {"ln_bwd", "norm"},
    {"batch_norm", "norm"},
    {"::bn_", "norm"},
    {"norm_kernel", "norm"},
    {"cutlass", "GEMM"},  // before the next rows: its types may name a broadcast or a transpose
    {"transpose", "transpose and cast"},
    {"broadcast", "elementwise"},
    {"cast", "transpose and cast"},
    {"quantize", "transpose and cast"},
    {"cublas", "GEMM"},
    {"gemm", "GEMM"},
    {"gemv", "GEMM"},
    {"wgmma", "GEMM"},
    {"nvjet", "GEMM"},
    {"xmma", "GEMM"},
    {"cijk_", "GEMM"},
    {"matmul", "GEMM"},
    {"splitkreduce", "GEMM"},
    {"convert", "transpose and cast"},
    {"conv", "convolution"},
    {"cudnn", "convolution"},
    {"permute", "routing and indexing"},
    {"topk", "routing and indexing"},
    {"router", "routing and indexing"},
    {"expand_to", "routing and indexing"},
    {"mapping", "routing and indexing"},
    {"expert", "routing and indexing"},
    {"scatter", "routing and indexing"},
    {"gather", "routing and indexing"},
    {"index", "routing and indexing"},
    {"embedding", "routing and indexing"},
    {"scan", "routing and indexing"},
    {"sort", "routing and indexing"},
    {"copy", "copy"},
    {"memcpy", "copy"},
    {"memset", "copy"},
    {"catarray", "copy"},
    {"rotary", "elementwise"},
    {"rope", "elementwise"},
    {"swiglu", "elementwise"},
    {"elementwise", "elementwise"},
    {"triton_poi", "elementwise"},
    {"triton_red", "reduction"},
    {"triton_per", "reduction"},
    {"reduce", "reduction"},
}};

// Parts of the names of NCCL's kernels and torch's collectives, in lower case and without '_'.
constexpr std::array<NamePart, 13> kCollectives = {{
    {"allreduce", "all-reduce"},
    {"reducescatter", "reduce-scatter"},
    {"allgather", "all-gather"},
    {"alltoall", "all-to-all"},
    {"broadcast", "broadcast"},
    {"barrier", "barrier"},
    {"dispatch", "all-to-all"},
    {"combine", "all-to-all"},
    {"::notify", "all-to-all"},
    {"cachednotify", "all-to-all"},
    {"reduce", "reduce"},
    {"gather", "gather"},
    {"scatter", "scatter"},
}};

// Tell a group's kind from its description in lower case: first by Megatron-LM's names of groups,
// then by single words, as DeviceMesh has them. The first one found decides.
constexpr std::array<std::pair<std::string_view, GroupKind>, 10> kDescriptions = {{
    {"data_parallel", GroupKind::Data},
    {"distributed_optimizer", GroupKind::Data},
    {"embedding_group", GroupKind::Data},
    {"model_pipeline", GroupKind::Data},  // Megatron-LM reduces gradient norms over it
    {"expert", GroupKind::Expert},
    {"context_parallel", GroupKind::Context},
    {"pipeline", GroupKind::Pipeline},
    {"tensor", GroupKind::Tensor},
    {"model_parallel_group", GroupKind::Data},
    {"sequence_parallel", GroupKind::Tensor},
}};
constexpr std::array<std::pair<std::string_view, GroupKind>, 12> kWords = {{
    {"dp", GroupKind::Data},
    {"ddp", GroupKind::Data},
    {"fsdp", GroupKind::Data},
    {"hsdp", GroupKind::Data},
    {"zero", GroupKind::Data},
    {"data", GroupKind::Data},
    {"ep", GroupKind::Expert},
    {"cp", GroupKind::Context},
    {"context", GroupKind::Context},
    {"pp", GroupKind::Pipeline},
    {"tp", GroupKind::Tensor},
    {"sp", GroupKind::Tensor},
}};

// Returns the meaning of the first row whose part the text holds; "" if there is none.
std::string_view meaning_in(std::span<const NamePart> rows, std::string_view text) {
  for (const NamePart& row : rows) {
    if (holds(text, row.part)) return row.meaning;
  }
  return "";
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && std::isalnum(static_cast<unsigned char>(text[i]))) continue;
    if (i > begin) words.push_back(text.substr(begin, i - begin));
    begin = i + 1;
  }
  return words;
}

// Takes a number from the front of `text`.
std::optional<int> take_number(std::string_view* text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc{}) return std::nullopt;
  text->remove_prefix(static_cast<std::size_t>(end - text->data()));
  return value;
}

PassPhase phase_of_letter(char letter) {
  if (letter == 'F') return PassPhase::Forward;
  if (letter == 'B') return PassPhase::Backward;
  if (letter == 'I') return PassPhase::BackwardInput;
  return letter == 'W' ? PassPhase::BackwardWeight : PassPhase::Unknown;
}

// Reads a pass of PyTorch's pipelining, "1F3": stage, letter, microbatch.
std::optional<ProfileAction> pipelining_action(std::string_view text) {
  ProfileAction action;
  const auto stage = take_number(&text);
  if (!stage || text.empty()) return std::nullopt;
  action.stage = *stage;
  action.phase = phase_of_letter(text.front());
  text.remove_prefix(1);
  const auto microbatch = take_number(&text);
  if (action.phase == PassPhase::Unknown || !microbatch || !text.empty()) return std::nullopt;
  action.microbatch = *microbatch;
  action.is_whole = true;
  return action;
}

// Reads a pass in words: "Forward 3", "forward_step", "weight_grad". Nothing for
// "forward-backward", which is around both directions.
std::optional<ProfileAction> action_in_words(std::string_view annotation) {
  const std::string low = lower_case(annotation);
  const std::vector<std::string_view> words = words_of(low);
  const auto has = [&](std::string_view word, std::string_view short_word) {
    return std::ranges::find(words, word) != words.end() ||
           std::ranges::find(words, short_word) != words.end();
  };
  const bool is_both = has("forward", "fwd") && has("backward", "bwd");
  if (words.empty() || is_both) return std::nullopt;
  const auto first = words.front();
  ProfileAction action;
  if (first == "forward" || first == "fwd") action.phase = PassPhase::Forward;
  if (first == "backward" || first == "bwd") action.phase = PassPhase::Backward;
  if (first == "optimizer") action.phase = PassPhase::Step;
  if (first.starts_with("weight") && words.size() > 1 && words[1].starts_with("grad"))
    action.phase = PassPhase::BackwardWeight;
  if (action.phase == PassPhase::Unknown) return std::nullopt;
  if (words.size() == 2) {
    std::string_view number = words[1];
    const auto microbatch = take_number(&number);
    if (microbatch && number.empty()) action.microbatch = *microbatch;
  }
  // "## forward:over_arch ##" is a part.
  action.is_whole = action.microbatch >= 0 || annotation.find(':') == std::string_view::npos;
  return action;
}

}  // namespace

Activity activity_of(std::string_view kernel) {
  if (kernel.starts_with("Memcpy") || kernel.starts_with("Memset")) return Activity::Memory;
  const std::string low = lower_case(kernel);
  for (const std::string_view part : kCommunicates) {
    if (holds(low, part)) return Activity::Communication;
  }
  return Activity::Compute;
}

std::optional<Activity> hta_activity_of(std::string_view kernel) {
  if (kernel.starts_with("nccl") || kernel.starts_with("hip") || kernel.starts_with("hccl") ||
      holds(kernel, "ncclKernel"))
    return Activity::Communication;
  if (holds(kernel, "Memcpy") || holds(kernel, "Memset") || kernel.starts_with("dma"))
    return Activity::Memory;
  if (holds(kernel, "Sync") || holds(kernel, "dma")) return std::nullopt;
  return Activity::Compute;
}

std::string_view category_of(std::string_view kernel) {
  const std::string_view category = meaning_in(kCategories, lower_case(kernel));
  return category.empty() ? "other" : category;
}

std::string short_name(std::string_view kernel) {
  std::string name;
  int depth = 0;  // of open '<'
  for (const char c : kernel) {
    if (c == '<') ++depth;
    if (depth == 0) {
      // "(anonymous namespace)::f": a '(' at the begin or behind "::" begins no arguments.
      const bool begins_arguments = c == '(' && !name.empty() && !name.ends_with("::");
      if (begins_arguments) break;
      name += c;
    }
    if (c == '>' && depth > 0) --depth;
  }
  if (name.starts_with("void ")) name.erase(0, 5);
  while (name.ends_with(' ')) name.pop_back();
  // CUTLASS has one kernel for everything; the first of its types tells what it does.
  if (const std::size_t type = kernel.find("device_kernel<"); type != std::string_view::npos) {
    const std::size_t begin = type + std::string_view("device_kernel<").size();
    name += fmt::format("<{}>", kernel.substr(begin, kernel.find_first_of("<>,", begin) - begin));
  }
  return name.empty() ? std::string(kernel) : name;
}

std::string collective_of(std::string_view torch_name, std::string_view kernel) {
  // Removes underscores: "reduce_scatter" and "ReduceScatter" become one.
  const auto without_underscores = [](std::string text) {
    std::erase(text, '_');
    return text;
  };
  if (!torch_name.empty()) {
    const std::string low = without_underscores(lower_case(torch_name));
    if (low == "send" || low == "recv" || low == "coalesced" || holds(low, "p2p"))
      return "send/recv";
    if (const auto meaning = meaning_in(kCollectives, low); !meaning.empty())
      return std::string(meaning);
  }
  const std::string low = without_underscores(lower_case(kernel));
  if (holds(low, "sendrecv")) return "send/recv or all-to-all";
  const std::string_view meaning = meaning_in(kCollectives, low);
  return meaning.empty() ? "other" : std::string(meaning);
}

std::optional<CommKind> comm_kind_of(std::string_view collective) {
  constexpr std::array<std::pair<std::string_view, CommKind>, 5> kinds = {{
      {"send/recv", CommKind::SendRecv},
      {"all-reduce", CommKind::AllReduce},
      {"reduce-scatter", CommKind::ReduceScatter},
      {"all-gather", CommKind::AllGather},
      {"all-to-all", CommKind::AllToAll},
  }};
  for (const auto& [word, kind] : kinds) {
    if (word == collective) return kind;
  }
  return std::nullopt;
}

std::optional<GroupKind> group_kind_of(std::string_view description, std::string_view collective,
                                       std::string_view kernel) {
  const std::string low = lower_case(description);
  for (const auto& [part, kind] : kDescriptions) {
    if (holds(low, part)) return kind;
  }
  const std::vector<std::string_view> words = words_of(low);
  for (const auto& [word, kind] : kWords) {
    if (std::ranges::find(words, word) != words.end()) return kind;
  }
  const std::string by = lower_case(kernel);
  if (holds(by, "::ep::") || holds(by, "deep_ep") || holds(by, "hybrid_ep"))
    return GroupKind::Expert;
  if (holds(by, "userbuffers")) return GroupKind::Tensor;
  if (collective == "send/recv") return GroupKind::Pipeline;
  return std::nullopt;
}

std::string_view description_of(GroupKind kind) {
  constexpr std::string_view kNames[] = {"TENSOR_MODEL_PARALLEL_GROUP",
                                         "PIPELINE_MODEL_PARALLEL_GROUP", "DATA_PARALLEL_GROUP",
                                         "CONTEXT_PARALLEL_GROUP", "EXPERT_MODEL_PARALLEL_GROUP"};
  return kNames[static_cast<std::size_t>(kind)];
}

int element_bytes(std::string_view dtype) {
  constexpr std::array<std::pair<std::string_view, int>, 14> sizes = {{{"Float", 4},
                                                                       {"BFloat16", 2},
                                                                       {"Half", 2},
                                                                       {"Double", 8},
                                                                       {"Byte", 1},
                                                                       {"Char", 1},
                                                                       {"Bool", 1},
                                                                       {"Int", 4},
                                                                       {"Long", 8},
                                                                       {"Short", 2},
                                                                       {"Float8_e4m3fn", 1},
                                                                       {"Float8_e5m2", 1},
                                                                       {"Float8_e4m3fnuz", 1},
                                                                       {"Float8_e5m2fnuz", 1}}};
  for (const auto& [word, bytes] : sizes) {
    if (word == dtype) return bytes;
  }
  return 0;
}

std::optional<ProfileAction> action_of(std::string_view annotation) {
  if (annotation.starts_with("PP:")) return pipelining_action(annotation.substr(3));
  if (annotation.starts_with("Optimizer.step"))
    return ProfileAction{.phase = PassPhase::Step, .is_whole = true};
  if (annotation.starts_with("Optimizer.zero_grad")) return ProfileAction{.phase = PassPhase::Step};
  // A part of a pass: "mlp(B)".
  if (annotation.size() > 3 && annotation.ends_with(')') &&
      annotation[annotation.size() - 3] == '(') {
    const PassPhase phase = phase_of_letter(annotation[annotation.size() - 2]);
    if (phase != PassPhase::Unknown) return ProfileAction{.phase = phase};
  }
  return action_in_words(annotation);
}

}  // namespace tandem
