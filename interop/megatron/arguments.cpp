// Collects arguments under the names of Megatron-LM's fields, and hands them out by type. A flag
// whose field has another name is translated: --no-rope-fusion sets apply_rope_fusion to False.
// Arguments that nobody has asked for are listed or counted at the end (list_unread_flags).
#include "interop/megatron/arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/split.h"
#include "interop/document/document.h"
#include "interop/document/fields.h"
#include "interop/document/text_scanner.h"

namespace tandem {
namespace {

// Flags whose field has another name. `value`: what the flag sets the field to; empty: the value
// that is given.
struct FlagAlias {
  std::string_view flag, field, value;
};

constexpr FlagAlias kAliases[] = {
    {"disable_bias_linear", "add_bias_linear", "False"},
    {"no_position_embedding", "add_position_embedding", "False"},
    {"disable_mamba_mem_eff_path", "use_mamba_mem_eff_path", "False"},
    {"no_rope_fusion", "apply_rope_fusion", "False"},
    {"no_overlap_p2p_communication", "overlap_p2p_comm", "False"},
    {"torch_fsdp2_no_reshard_after_forward", "torch_fsdp2_reshard_after_forward", "False"},
    {"fp8_format", "fp8", ""},
    {"fp4_format", "fp4", ""},
    {"microbatch_group_size_per_virtual_pipeline_stage", "microbatch_group_size_per_vp_stage", ""},
    {"model_parallel_size", "tensor_model_parallel_size", ""},
    {"encoder_num_layers", "num_layers", ""},
    {"encoder_seq_length", "seq_length", ""},
    {"use_rotary_position_embeddings", "position_embedding_type", "rope"},
    {"hybrid_override_pattern", "hybrid_layer_pattern", ""},
    {"num_moe_experts", "num_experts", ""},
    {"qk_nope_head_dim", "qk_head_dim", ""},
    {"qk_rope_head_dim", "qk_pos_emb_head_dim", ""},
    {"num_mtp_predictor", "mtp_num_layers", ""},
    {"gated_linear_unit", "swiglu", ""},
    {"bucket_size", "ddp_bucket_size", ""},
    {"nproc_per_node", "gpus_per_node", ""},
    {"num_gpus", "gpus_per_node", ""},
    {"num_nodes", "nnodes", ""},
    {"num_layers_in_first_pipeline_stage", "decoder_first_pipeline_num_layers", ""},
    {"num_layers_in_last_pipeline_stage", "decoder_last_pipeline_num_layers", ""},
    {"should_pad_vocab", "pad_vocab_size", ""},
    {"num_gpus_per_node", "gpus_per_node", ""},
    {"batch_size", "micro_batch_size", ""},
    {"use_flash_attn_v1", "use_flash_attn", "True"},
    {"use_flash_attn_v2", "use_flash_attn", "True"},
    {"use_flash_attn_triton", "use_flash_attn", "True"},
    {"use_flash_attn_builder", "use_flash_attn", "True"}};

// Fields whose own names begin with "no" or "disable". In other flags these words negate a field:
// --no-bias-swiglu-fusion sets bias_swiglu_fusion to False.
constexpr std::string_view kNegativeFields =
    "no_persist_layer_norm no_load_optim no_load_rng no_save_optim no_save_rng "
    "no_weight_decay_cond_type no_rope_freq no_record_throughput disable_straggler_on_startup "
    "disable_jit_fuser disable_symmetric_registration disable_bf16_reduced_precision_matmul";

// Fields whose flags may have underscores: those of launchers, and of adapters, which are refused
// anyway.
constexpr std::string_view kUnderscored =
    "nproc_per_node nnodes num_gpus num_nodes num_gpus_per_node world_size train_type tuner_type "
    "finetuning_type peft* *lora*";

// Returns a flag as Megatron-LM's parser takes it, with dashes; empty: it is right as it is.
std::string right_spelling_of(const std::string& flag, std::string_view name) {
  if (flag.find('_') == std::string::npos || matches_word(name, kUnderscored)) return "";
  std::string right = flag;
  std::replace(right.begin(), right.end(), '_', '-');
  return right;
}

// Returns a field's name as a flag, "--num-layers". Dotted names are no flags and stay.
std::string flag_of(std::string_view name) {
  if (name.find('.') != std::string_view::npos) return std::string(name);
  std::string flag = "--" + std::string(name);
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

// Returns whether a value refers to a shell variable that is never set, or to another setting.
bool is_open(std::string_view value) {
  return value.starts_with('$') || value.find("${") != std::string_view::npos ||
         value.find("$(") != std::string_view::npos;
}

// Reads lists as Python writes them, by recursive descent: "([0]*3+[1]*58)" has 61 elements.
//   sum = product {"+" product}     product = ("(" sum ")" | "[" integers "]") {"*" count}
class ListReader {
 public:
  explicit ListReader(std::string_view text) : text_(text) {}

  std::optional<std::vector<std::int64_t>> read() {
    auto list = sum();
    if (!text_.at_end() || failed_) return std::nullopt;
    return list;
  }

 private:
  // No model has longer or deeper lists.
  static constexpr std::size_t kMostElements = 10'000;
  static constexpr int kMostParentheses = 20;

  std::int64_t integer() {
    const std::int64_t value = digits_of(text_.word());
    failed_ = failed_ || value < 0;
    return std::max<std::int64_t>(value, 0);
  }
  std::vector<std::int64_t> sum() {
    std::vector<std::int64_t> list = product();
    while (!failed_ && text_.next('+')) {
      const auto summand = product();
      list.insert(list.end(), summand.begin(), summand.end());
      if (list.size() > kMostElements) failed_ = true;
    }
    return list;
  }
  std::vector<std::int64_t> product() {
    std::vector<std::int64_t> list;
    if (++depth_ > kMostParentheses) failed_ = true;
    if (!failed_ && text_.next('(')) {
      list = sum();
      failed_ = failed_ || !text_.next(')');
    } else if (!failed_ && text_.next('[')) {
      while (!failed_ && !text_.next(']')) {
        list.push_back(integer());
        if (text_.next(',')) continue;
        failed_ = failed_ || !text_.next(']');
        break;
      }
    } else {
      failed_ = true;
    }
    --depth_;
    while (!failed_ && text_.next('*')) {
      const auto times = static_cast<std::size_t>(integer());
      if (times * list.size() > kMostElements) failed_ = true;
      std::vector<std::int64_t> repeated;
      for (std::size_t i = 0; i < times && !failed_; ++i)
        repeated.insert(repeated.end(), list.begin(), list.end());
      list = std::move(repeated);
    }
    return list;
  }

  TextScanner text_;
  int depth_ = 0;
  bool failed_ = false;
};

// The words in front of a flag that negate its field.
constexpr std::string_view kNegations[] = {"no_", "disable_"};

// Returns whether a flag with these values may be a switch, which takes none. A single value that
// is empty or an unset shell variable may stand for no value at all.
bool is_switch(const std::vector<std::string>& values) {
  return values.empty() || (values.size() == 1 && (values[0].empty() || is_open(values[0])));
}

// Returns whether a flag, "--no-bias", switches a field off, "bias": it differs from its default.
bool is_negation(std::string_view flag, std::string_view name) {
  return std::ranges::any_of(kNegations, [&](std::string_view prefix) {
    return flag.starts_with(flag_of(prefix)) && !name.starts_with(prefix);
  });
}

}  // namespace

std::string unquoted(std::string value) {
  if (value.size() >= 2 && (value[0] == '"' || value[0] == '\'') && value.back() == value[0])
    return value.substr(1, value.size() - 2);
  return value;
}

bool is_none(std::string_view value) { return value.empty() || value == "None" || value == "null"; }

bool is_off(std::string_view value) {
  return is_none(value) || value == "False" || value == "false" || value == "[]";
}

std::optional<std::vector<std::int64_t>> python_list(std::string_view text) {
  return ListReader(text).read();
}

std::optional<MegatronArguments::OpenValue> MegatronArguments::open_value(
    std::string_view name) const {
  const auto found = open_.find(name);
  if (found == open_.end()) return std::nullopt;
  return OpenValue{found->second.where, found->second.spelled, found->second.value};
}

void MegatronArguments::add_flag(const std::string& flag, const std::vector<std::string>& values,
                                 const std::string& where) {
  std::string name = flag.substr(std::min(flag.find_first_not_of('-'), flag.size()));
  std::replace(name.begin(), name.end(), '-', '_');
  std::string value = values.empty() ? "True" : "";
  for (const std::string& word : values) value += (value.empty() ? "" : " ") + word;
  const std::string right_spelling = right_spelling_of(flag, name);
  const bool is_negative_field = matches_word(name, kNegativeFields);
  // In "--swiglu $EXTRA" the variable behind the switch may hold further flags: it is listed.
  const auto list_variable_behind = [&] {
    if (!values.empty() && is_open(value)) open_[value] = {value, flag, where};
  };
  for (const FlagAlias& alias : kAliases) {
    if (alias.flag != name) continue;
    if (!alias.value.empty()) list_variable_behind();
    put(std::string(alias.field),
        {alias.value.empty() ? value : std::string(alias.value), flag, where, right_spelling});
    return;
  }
  for (const std::string_view prefix : kNegations) {
    if (!is_negative_field && is_switch(values) && name.starts_with(prefix)) {
      list_variable_behind();
      name.erase(0, prefix.size());
      value = "False";
    }
  }
  put(name, {value, flag, where, right_spelling});
}

// Sets an argument in place of an earlier one. Arguments whose value is still a variable,
// "${SIZE}", are kept apart in open_, to be listed.
void MegatronArguments::put(const std::string& name, Argument argument) {
  if (is_open(argument.value) && !is_quiet_argument(name)) {
    arguments_.erase(name);
    open_[name] = std::move(argument);
    return;
  }
  open_.erase(name);
  arguments_[name] = std::move(argument);
}

void MegatronArguments::add_field(const std::string& name, const std::string& value,
                                  const std::string& where, const std::string& spelled) {
  const std::string plain = unquoted(value);
  const std::string& shown = spelled.empty() ? name : spelled;
  for (const FlagAlias& alias : kAliases) {
    if (alias.flag != name) continue;
    // "disable_bias_linear: False" leaves add_bias_linear at its default, as None would.
    const bool is_set = alias.value.empty() ? !is_none(plain) : plain == "True";
    if (is_set)
      put(std::string(alias.field),
          {alias.value.empty() ? plain : std::string(alias.value), shown, where});
    return;
  }
  put(name, {plain, shown, where});
}

void MegatronArguments::move_fields(std::string_view prefix, MegatronArguments* to) {
  for (auto* fields : {&arguments_, &open_}) {
    std::erase_if(*fields, [&](const auto& field) {
      const bool moves = field.first.starts_with(prefix) && !taken_.contains(field.first);
      if (moves)
        to->add_field(field.first.substr(prefix.size()), field.second.value, field.second.where,
                      field.second.spelled);
      return moves;
    });
  }
}

void MegatronArguments::leave_out(std::string_view globs) {
  for (auto* fields : {&arguments_, &open_})
    std::erase_if(*fields, [&](const auto& field) { return matches_word(field.first, globs); });
}

std::string MegatronArguments::without_references(std::string value) const {
  // The last reference first, as it may be inside another: "${mul:${nodes},8}".
  for (std::size_t from; (from = value.rfind("${")) != std::string::npos;) {
    const std::size_t to = value.find('}', from);
    if (to == std::string::npos) break;
    const std::string inner = value.substr(from + 2, to - from - 2);
    const auto named = arguments_.find(inner);
    std::string text = named == arguments_.end() ? "" : named->second.value;
    if (const auto factors = python_list("[" + inner.substr(inner.find(':') + 1) + "]");
        inner.starts_with("mul:") && factors && factors->size() == 2)
      text = fmt::format("{}", product_of({factors->front(), factors->back()}));
    if (text.empty() || text.find("${") != std::string::npos) break;
    value.replace(from, to + 1 - from, text);
  }
  return value;
}

void MegatronArguments::resolve_references() {
  // A round resolves one argument, as others may refer to it. The last round resolves none.
  for (bool resolved = true; resolved;) {
    resolved = false;
    for (auto open = open_.begin(); open != open_.end(); ++open) {
      const std::string value = without_references(open->second.value);
      if (value.find("${") != std::string::npos) continue;
      Argument argument = {value, open->second.spelled, open->second.where};
      arguments_[open->first] = std::move(argument);
      open_.erase(open);
      resolved = true;
      break;
    }
  }
}

std::string MegatronArguments::difference(const MegatronArguments& other) const {
  const auto first = [](const auto& fields, const auto& others) {
    for (const auto& [name, argument] : fields) {
      const auto same = others.find(name);
      const bool differs = same == others.end() || same->second.value != argument.value;
      if (differs && !is_quiet_argument(name)) return argument.spelled;
    }
    return std::string();
  };
  for (const std::string& found :
       {first(arguments_, other.arguments_), first(other.arguments_, arguments_),
        first(open_, other.open_), first(other.open_, open_)}) {
    if (!found.empty()) return found;
  }
  return "";
}

const MegatronArguments::Argument* MegatronArguments::take(std::string_view name) {
  taken_.emplace(name);
  const auto found = arguments_.find(name);
  if (found == arguments_.end()) return nullptr;
  if (!found->second.right_spelling.empty()) fail(name, found->second.right_spelling);
  return is_none(found->second.value) ? nullptr : &found->second;
}

bool MegatronArguments::has(std::string_view name) const {
  const auto found = arguments_.find(name);
  return found != arguments_.end() && !is_none(found->second.value);
}

bool MegatronArguments::has_any(std::string_view prefix) const {
  return std::ranges::any_of(arguments_,
                             [&](const auto& field) { return field.first.starts_with(prefix); });
}

std::vector<std::string> MegatronArguments::names(std::string_view prefix) const {
  std::vector<std::string> found;
  for (const auto& [name, argument] : arguments_) {
    if (name.starts_with(prefix)) found.push_back(name);
  }
  return found;
}

std::optional<std::int64_t> MegatronArguments::whole(std::string_view name, std::int64_t least) {
  const Argument* argument = take(name);
  if (argument == nullptr) return std::nullopt;
  const auto found = whole_number(plain_scalar(argument->value, 0));
  if (found && *found >= least && *found <= kMostWhole) return found;
  fail(name, fmt::format("an integer from {} to {}", least, kMostWhole));
  return std::nullopt;
}

std::optional<double> MegatronArguments::number(std::string_view name) {
  const Argument* argument = take(name);
  if (argument == nullptr) return std::nullopt;
  const DocumentNode node = plain_scalar(argument->value, 0);
  if (const auto* whole = std::get_if<std::int64_t>(&node.value))
    return static_cast<double>(*whole);
  if (const auto* number = std::get_if<double>(&node.value)) return *number;
  fail(name, "a number");
  return std::nullopt;
}

bool MegatronArguments::flag(std::string_view name, bool otherwise) {
  // A switch takes no value: in "--swiglu $EXTRA" the variable may hold further flags.
  const auto is_bare = [&](const auto& fields) {
    const auto found = fields.find(name);
    return found != fields.end() && found->second.spelled.starts_with("--") &&
           (found->second.value.empty() || is_open(found->second.value));
  };
  const Argument* argument = take(name);
  if (is_bare(arguments_) || is_bare(open_)) return true;
  if (argument == nullptr) return otherwise;
  const DocumentNode node = plain_scalar(argument->value, 0);
  if (const auto* flag = std::get_if<bool>(&node.value)) return *flag;
  if (const auto* whole = std::get_if<std::int64_t>(&node.value);
      whole && (*whole == 0 || *whole == 1))
    return *whole == 1;
  fail(name, "true or false");
  return otherwise;
}

std::optional<std::string> MegatronArguments::text(std::string_view name) {
  const Argument* argument = take(name);
  if (argument == nullptr) return std::nullopt;
  return argument->value;
}

std::vector<std::string> MegatronArguments::words(std::string_view name,
                                                  std::string_view otherwise) {
  std::string list = text(name).value_or(std::string(otherwise));
  std::ranges::replace_if(
      list, [](char c) { return std::string_view("[],'\"").find(c) != std::string_view::npos; },
      ' ');
  return split_words(list);
}

std::optional<std::vector<std::int64_t>> MegatronArguments::wholes(std::string_view name) {
  const Argument* argument = take(name);
  if (argument == nullptr) return std::nullopt;
  if (const auto list = python_list(argument->value)) return list;
  // Takes the integers from any other text: "128 0" or "(-1, 0)".
  std::vector<std::int64_t> list;
  std::string digits;
  for (const char c : argument->value + " ") {
    if (std::isdigit(static_cast<unsigned char>(c)) != 0 && digits.size() < 12) {
      digits += c;
      continue;
    }
    if (!digits.empty() && digits != "-") list.push_back(std::stoll(digits));
    digits = c == '-' ? "-" : "";
  }
  if (!list.empty()) return list;
  fail(name, "a list of integers");
  return std::nullopt;
}

std::string MegatronArguments::spelled(std::string_view name) const {
  const auto found = arguments_.find(name);
  return found == arguments_.end() ? "default of " + flag_of(name) : found->second.spelled;
}

std::string MegatronArguments::place_of(std::string_view name) const {
  if (const auto found = arguments_.find(name); found != arguments_.end())
    return found->second.where;
  for (const auto& [field, argument] : arguments_) {
    if (argument.spelled == name) return argument.where;
  }
  return "";
}

void MegatronArguments::fail(std::string_view name, std::string_view expected) {
  if (fault_) return;
  const auto found = arguments_.find(name);
  fault_ = found == arguments_.end()
               ? Error::at(path_, fmt::format("found no {}, expected {}", flag_of(name), expected))
               : Error::at(found->second.where,
                           fmt::format("found {} {}, expected {}", found->second.spelled,
                                       found->second.value, expected));
}

Status MegatronArguments::status() const {
  if (fault_) return *fault_;
  return Done{};
}

void MegatronArguments::list_unread_flags(bool has_experts, ImportedPlan* plan) const {
  // Arguments of experts have no effect in a model without experts. A log lists them all the same.
  const bool is_dense = !has_experts && !has("num_experts");
  for (const auto& [name, open] : open_)
    plan->not_understood.push_back(
        fmt::format("{}: {} {}: that has no value there", open.where, open.spelled, open.value));
  for (const auto& [name, argument] : arguments_) {
    const auto effect = not_expressed_argument(name, argument.value);
    // "--no-rope-fusion", not "--no-rope-fusion False".
    const bool is_switch = argument.spelled.starts_with("--") &&
                           (argument.value == "True" || argument.value == "False");
    const std::string line = fmt::format("{}: {}{}", argument.where, argument.spelled,
                                         is_switch ? "" : " " + argument.value);
    const bool is_idle = is_dense && name.starts_with("moe_");
    if (!is_idle && effect && !effect->empty()) {
      plan->not_expressed.push_back(fmt::format("{}: {}", line, *effect));
    } else if (!is_idle && taken_.contains(name)) {
      continue;
    } else if (is_idle || effect || is_quiet_argument(name) ||
               (is_off(argument.value) && !is_negation(argument.spelled, name))) {
      ++plan->without_effect;
    } else {
      plan->not_understood.push_back(line);
    }
  }
}

void MegatronArguments::list_unread_settings(std::string_view quiet, ImportedPlan* plan) const {
  for (const auto* fields : {&arguments_, &open_}) {
    for (const auto& [name, argument] : *fields) {
      if (taken_.contains(name) && fields == &arguments_) continue;
      if (matches_word(name, quiet) || is_off(argument.value)) {
        ++plan->without_effect;
      } else {
        plan->not_understood.push_back(
            fmt::format("{}: {} = {}", argument.where, argument.spelled, argument.value));
      }
    }
  }
}

}  // namespace tandem
