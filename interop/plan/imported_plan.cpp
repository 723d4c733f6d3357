// Keeps the keys that importers set, merges the plans of several files (add), and writes a plan as
// a scenario in TOML: comments on what was assumed and left out, then a table for each group of
// keys.
#include "interop/plan/imported_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/xml.h"
#include "interop/document/fields.h"
#include "interop/plan/understood.h"

namespace tandem {
namespace {

// The tables of a scenario, in the order in which they are written. [model.kinds.NAME] comes after
// [model].
constexpr std::string_view kTables[] = {"model",   "parallel", "schedule", "train",
                                        "overlap", "cluster",  "costs"};

std::string table_of(std::string_view key) { return std::string(key.substr(0, key.rfind('.'))); }

void append_comments(std::string_view title, const std::vector<std::string>& lines,
                     std::string* text) {
  for (const std::string& line : lines) *text += fmt::format("# {}: {}\n", title, one_line(line));
}

void append_measured(const MeasuredRun& measured, std::string* text) {
  if (measured.iteration_s) {
    *text +=
        fmt::format("# measured: {:.6g} s an iteration (median of {}, the first {} left out)\n",
                    *measured.iteration_s, measured.iterations, measured.warmup);
  }
  if (measured.tokens_per_gpu_s)
    *text +=
        fmt::format("# measured: {:.6g} tokens a second of a GPU\n", *measured.tokens_per_gpu_s);
  if (measured.samples_per_s)
    *text += fmt::format("# measured: {:.6g} samples a second\n", *measured.samples_per_s);
  if (measured.tflops_per_gpu)
    *text += fmt::format("# measured: {:.4g} TFLOP/s a GPU, as the log counts them\n",
                         *measured.tflops_per_gpu);
  if (measured.max_allocated_bytes)
    *text += fmt::format("# measured: {:.2f} GiB allocated at most\n",
                         *measured.max_allocated_bytes / (1024.0 * 1024 * 1024));
}

// Returns the bytes of the UTF-8 character at the beginning of a text; 0: there is none.
std::size_t utf8_size(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const unsigned first = byte(0);
  // The first byte says how many bytes the character has; 0x80 to 0xc1 and 0xf5 on begin none.
  const std::size_t size = first < 0x80                    ? 1
                           : first >= 0xc2 && first < 0xe0 ? 2
                           : first >= 0xe0 && first < 0xf0 ? 3
                           : first >= 0xf0 && first < 0xf5 ? 4
                                                           : 0;
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // UTF-8 forbids longer forms than needed, halves of surrogate pairs, and numbers above 10FFFF.
  const bool is_forbidden = (first == 0xe0 && byte(1) < 0xa0) ||
                            (first == 0xed && byte(1) > 0x9f) ||
                            (first == 0xf0 && byte(1) < 0x90) || (first == 0xf4 && byte(1) > 0x8f);
  return is_forbidden ? 0 : size;
}

// Replaces bytes that are not UTF-8 by "?", as TOML is UTF-8 and other tools' files need not be.
std::string as_utf8(std::string text) {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t size = utf8_size(std::string_view(text).substr(i));
    if (size == 0) text[i] = '?';
    i += std::max<std::size_t>(1, size);
  }
  return text;
}

// Returns the lines of one table, with their comments in one column, behind all but long lines.
std::string table_text(const std::vector<const ImportedKey*>& keys) {
  constexpr std::size_t kLongLine = 60;
  std::size_t widest = 0;
  std::vector<std::string> lines;
  for (const ImportedKey* key : keys) {
    lines.push_back(
        fmt::format("{} = {}", key->key.substr(key->key.rfind('.') + 1), toml_value(key->value)));
    if (lines.back().size() < kLongLine) widest = std::max(widest, lines.back().size());
  }
  std::string text;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    text += keys[i]->comment.empty()
                ? lines[i] + '\n'
                : fmt::format("{:<{}}  # {}\n", lines[i], widest, one_line(keys[i]->comment));
  }
  return text;
}

// Quotes a text as TOML does.
std::string toml_text(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      quoted += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

// Returns the names of the kinds of layers, joined: "dense, moe"; empty: all layers are alike.
std::string kinds_of(const ImportedPlan& plan) {
  constexpr std::string_view kKinds = "model.kinds.";
  std::set<std::string> names;
  for (const ImportedKey& key : plan.keys) {
    if (key.key.starts_with(kKinds))
      names.insert(key.key.substr(kKinds.size(), key.key.rfind('.') - kKinds.size()));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

// Checks that two plans which both state a model have the same kinds of layers, as keys of one kind
// mean nothing for another. Options that set the layers end the conflict.
Status check_kinds(const ImportedPlan& earlier, const ImportedPlan& later) {
  if (!earlier.states_model() || !later.states_model()) return Done{};
  const bool are_layers_set = std::ranges::any_of(earlier.keys, [](const ImportedKey& key) {
    return key.source == ImportedKey::Set &&
           (key.key.starts_with("model.kinds.") || key.key == "model.layers" ||
            key.key == "model.pattern");
  });
  if (are_layers_set) return Done{};
  const std::string before = kinds_of(earlier), now = kinds_of(later);
  if (before == now) return Done{};
  const auto where = [](const ImportedPlan& plan) {
    const auto key = std::ranges::find_if(plan.keys, [](const ImportedKey& one) {
      return one.key == "model.layers" || one.key == "model.pattern";
    });
    return key->where;
  };
  const auto in_words = [](const std::string& kinds) {
    return kinds.empty() ? "layers that are all alike" : "layers of the kinds " + kinds;
  };
  return Error::at(where(later), fmt::format("found {}, but {} has {}: leave one out",
                                             in_words(now), where(earlier), in_words(before)));
}

}  // namespace

std::string toml_value(const KeyValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return toml_text(*text);
  if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) {
    std::vector<std::string> quoted;
    for (const std::string& text : *texts) quoted.push_back(toml_text(text));
    return fmt::format("[{}]", fmt::join(quoted, ", "));
  }
  if (const auto* wholes = std::get_if<std::vector<std::int64_t>>(&value))
    return fmt::format("[{}]", fmt::join(*wholes, ", "));
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *whole);
  return fmt::format("{}", std::get<double>(value));
}

void ImportedPlan::set_value(std::string_view key, KeyValue value, std::string_view comment) {
  const auto known = std::ranges::find(keys, key, &ImportedKey::key);
  ImportedKey& set = known == keys.end() ? keys.emplace_back() : *known;
  set = {std::string(key), std::move(value), std::string(comment)};
}

void ImportedPlan::set_by_option(std::string_view key, KeyValue value, std::string_view option) {
  set_value(key, std::move(value), option);
  ImportedKey& set = *std::ranges::find(keys, key, &ImportedKey::key);
  set.where = option;
  set.source = ImportedKey::Set;
}

const KeyValue* ImportedPlan::find(AnyKey key) const {
  const auto known = std::ranges::find(keys, key.name(), &ImportedKey::key);
  return known == keys.end() ? nullptr : &known->value;
}

std::optional<std::int64_t> ImportedPlan::whole_of(IntegerKey key) const {
  const KeyValue* value = find(key);
  const auto* whole = value == nullptr ? nullptr : std::get_if<std::int64_t>(value);
  return whole == nullptr ? std::nullopt : std::optional(*whole);
}

std::string ImportedPlan::text_of(TextKey key) const {
  const KeyValue* value = find(key);
  const auto* text = value == nullptr ? nullptr : std::get_if<std::string>(value);
  return text == nullptr ? "" : *text;
}

bool ImportedPlan::flag_of(FlagKey key) const {
  const KeyValue* value = find(key);
  return value != nullptr && *value == KeyValue(true);
}

bool ImportedPlan::states_model() const { return has("model.layers") || has("model.pattern"); }

std::int64_t ImportContext::stated_or_one(const ImportedPlan& this_file, IntegerKey key) const {
  const auto own = this_file.whole_of(key);
  return own ? *own : before.whole_of(key).value_or(1);
}

std::int64_t ImportContext::job_gpus() const {
  return gpus > 0 ? gpus : before.whole_of("cluster.gpus").value_or(0);
}

std::int64_t ImportContext::data_parallel(const ImportedPlan& this_file) const {
  return job_gpus() / product_of({stated_or_one(this_file, "parallel.tp"),
                                  stated_or_one(this_file, "parallel.pp"),
                                  stated_or_one(this_file, "parallel.cp")});
}

const ImportSource* ImportContext::beside_by_name(std::string_view name) const {
  const auto found = std::ranges::find_if(beside, [&](const ImportSource& source) {
    return source.path != path && source.path.substr(source.path.rfind('/') + 1) == name;
  });
  return found == beside.end() ? nullptr : &*found;
}

void leave_out_mtp(const ImportedPlan& before, ImportedPlan* plan) {
  if (before.whole_of("model.mtp_layers").value_or(0) > 0)
    plan->set("model.mtp_layers", 0, "the trainer leaves multi-token prediction out");
}

std::int64_t sequences_in(std::int64_t tokens, std::int64_t seq, std::int64_t replica_sequences) {
  std::int64_t fitting = std::max<std::int64_t>(1, tokens / std::max<std::int64_t>(1, seq));
  if (replica_sequences < 1) return fitting;
  fitting = std::min(fitting, replica_sequences);
  while (replica_sequences % fitting != 0) --fitting;
  return fitting;
}

Status ImportedPlan::add(const ImportedPlan& later) {
  RETURN_IF_ERROR(check_kinds(*this, later));
  std::vector<std::string> later_assumed = later.assumed;
  for (const ImportedKey& key : later.keys) {
    const auto known = std::ranges::find(keys, key.key, &ImportedKey::key);
    if (known == keys.end()) {
      keys.push_back(key);
      continue;
    }
    const bool both_state =
        known->source == ImportedKey::Stated && key.source == ImportedKey::Stated;
    if (both_state && known->value != key.value && known->where != key.where)
      conflicts.push_back(
          {key.key,
           Error::at(key.where, fmt::format("found {} = {}, but {} has {}: leave one out, or give "
                                            "--set {}=...",
                                            key.key, toml_value(key.value), known->where,
                                            toml_value(known->value), key.key))});
    // An assumption falls where another file states the key. Of two assumptions that differ the
    // later counts.
    const auto is_of_key = [&](const std::string& assumption) {
      return assumption.starts_with(key.key + " = ");
    };
    const bool differs = key.value != known->value && key.source == known->source;
    if (key.source > known->source || differs) std::erase_if(assumed, is_of_key);
    if (key.source < known->source) std::erase_if(later_assumed, is_of_key);
    if (key.source >= known->source) *known = key;
  }
  const auto append = [](const auto& from, auto* to) {
    to->insert(to->end(), from.begin(), from.end());
  };
  append(later.sources, &sources);
  append(later_assumed, &assumed);
  append(later.left_out, &left_out);
  append(later.not_expressed, &not_expressed);
  append(later.not_understood, &not_understood);
  append(later.wanted, &wanted);
  append(later.open, &open);
  without_effect += later.without_effect;
  // Each rank may have a log of its own: the last one tells of iterations, the others of memory.
  const MeasuredRun before = measured;
  if (later.measured.has_times()) measured = later.measured;
  measured.max_allocated_bytes =
      std::max(before.max_allocated_bytes, later.measured.max_allocated_bytes);
  if (!measured.gpus) measured.gpus = before.gpus ? before.gpus : later.measured.gpus;
  return Done{};
}

void list_unread(const FieldReader& reader, std::string_view quiet, const std::string& path,
                 ImportedPlan* plan) {
  for (const DocumentField* field : reader.left()) {
    if (matches_word(field->key, quiet)) {
      ++plan->without_effect;
    } else {
      plan->not_understood.push_back(
          fmt::format("{}:{}: {} = {}", path, field->value.line, field->key, field->value.text()));
    }
  }
}

void leave_out_future_keys(ImportedPlan* plan) {
  std::erase_if(plan->keys, [&](const ImportedKey& key) {
    const bool unknown = !is_scenario_key(key.key);
    if (unknown)
      plan->not_expressed.push_back(
          fmt::format("{} = {}: a scenario has no such key yet", key.key, toml_value(key.value)));
    return unknown;
  });
}

std::string scenario_text(const ImportedPlan& plan) {
  std::string text = "# Written by tandem import.\n";
  append_comments("from", plan.sources, &text);
  text += understood_text(plan, "# ");
  append_measured(plan.measured, &text);
  append_comments("assumed", plan.assumed, &text);
  append_comments("left out", plan.left_out, &text);
  append_comments("not expressed", plan.not_expressed, &text);
  append_comments("not understood", plan.not_understood, &text);
  if (plan.without_effect > 0)
    text += fmt::format("# {} settings more change neither time nor memory\n", plan.without_effect);

  std::vector<std::string> order;  // of the tables' names
  std::map<std::string, std::vector<const ImportedKey*>> tables;
  for (const std::string_view name : kTables) {
    for (const ImportedKey& key : plan.keys) {
      const std::string table = table_of(key.key);
      if (table != name && !table.starts_with(std::string(name) + '.')) continue;
      if (tables[table].empty()) order.push_back(table);
      tables[table].push_back(&key);
    }
  }
  // [model] comes before its kinds, whichever was set first.
  std::stable_sort(order.begin(), order.end(), [](const std::string& a, const std::string& b) {
    return b.starts_with(a + '.');
  });
  for (const std::string& table : order)
    text += fmt::format("\n[{}]\n{}", table, table_text(tables[table]));
  if (!tables.contains("cluster")) {
    text +=
        "\n# No file says which GPUs: --cluster PRESET --gpus N, or here (tandem topology lists "
        "presets).\n# [cluster]\n# preset = \"dgx-h100\"\n# gpus = 64\n";
  } else if (!plan.has("cluster.preset") && !plan.has("cluster.gpu")) {
    text += "# preset = \"dgx-h100\"  # no file says which: --cluster PRESET, or here\n";
  }
  return as_utf8(std::move(text));
}

}  // namespace tandem
