// ImportedPlan: other tools' files (config.json, train.sh, a log) as keys of a scenario, with the
// line that each key comes from, and lists of what was assumed or not understood.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/key_value.h"
#include "base/result.h"
#include "interop/document/import_source.h"
#include "keys/key.h"

namespace tandem {

class FieldReader;

// One key of a scenario. `comment` names the field that it comes from, or says why it is set.
// `where` is "config.json:12" if a line states the key, else the file that it is assumed for.
struct ImportedKey {
  // Who gives the value: a default, a line of a file, or an option of the command line. In this
  // order each overrides the ones before.
  enum Source { Assumed, Stated, Set };

  std::string key;  // "parallel.tp", or "model.kinds.moe.experts"
  KeyValue value;
  std::string comment;
  std::string where = {};
  Source source = Assumed;
};

// A file that another one reads: "models/qwen3-4B.sh" by "run.sh:12".
struct WantedFile {
  std::string name;  // without its folders
  std::string where;
  bool states_plan = false;  // it holds settings of the plan, which is wrong without them
};

// A key whose value a file leaves open: "auto" in ds_config.json.
struct OpenKey {
  std::string key, where;
  std::string field;  // the file's text: "bf16.enabled = auto"
};

// A key for which two files state different values.
struct KeyConflict {
  std::string key;
  Error error;
};

// Measurements that a training log states.
struct MeasuredRun {
  std::optional<double> iteration_s;  // the median of the iterations after the warm-up
  int iterations = 0, warmup = 0;     // iterations counted in the median, and left out
  std::optional<double> tflops_per_gpu;
  // Rates of logs that state no time of an iteration.
  std::optional<double> tokens_per_gpu_s, samples_per_s;
  std::optional<double> max_allocated_bytes;  // on the rank with the largest peak
  std::optional<double> gpus;                 // with which the run measured, where the log says so

  bool has_times() const { return iteration_s || tokens_per_gpu_s || samples_per_s; }
  bool any() const { return has_times() || max_allocated_bytes; }
};

class ImportedPlan {
 public:
  // Sets a key and overwrites an earlier value. A key that is not in the tables of keys/, or a
  // value of another type than the key's, does not compile.
  template <class T>
  void set(KeyOf<ValueTypeOf<T>> key, const T& value, std::string_view comment) {
    set_value(key.name(), ValueTypeOf<T>(value), comment);
  }
  // Sets a key that is named at run time: by a user, or with a kind of layers in its name.
  void set_value(std::string_view key, KeyValue value, std::string_view comment);

  // Sets a key by an option of the command line, such as "--set".
  void set_by_option(std::string_view key, KeyValue value, std::string_view option);

  bool has(AnyKey key) const { return find(key) != nullptr; }
  std::optional<std::int64_t> whole_of(IntegerKey key) const;
  // Return the key's value; empty or false if it is not set.
  std::string text_of(TextKey key) const;
  bool flag_of(FlagKey key) const;
  // Returns whether the plan has a model's layers.
  bool states_model() const;

  // Merges a later file's plan. Its stated values replace assumed ones, and values set by options
  // stay. Where both files state different values, `conflicts` gets an entry. Error: the two have
  // layers of different kinds.
  Status add(const ImportedPlan& later);

  std::vector<ImportedKey> keys;
  std::vector<std::string> sources;        // "config.json (Hugging Face config.json, llama)"
  std::vector<std::string> assumed;        // sentences about defaults that were used
  std::vector<std::string> left_out;       // sentences about parts of a cluster that no job runs on
  std::vector<std::string> not_expressed;  // understood, but a scenario has no key for it
  std::vector<std::string> not_understood;  // "train.sh:12: --foo 3"
  std::vector<WantedFile> wanted;
  std::vector<OpenKey> open;
  std::vector<KeyConflict> conflicts;
  int without_effect = 0;  // settings that change neither time nor memory
  std::string size;        // "8.0 B parameters"; empty: not counted
  MeasuredRun measured;

 private:
  const KeyValue* find(AnyKey key) const;
};

// The inputs of a reader beside the file's own text.
struct ImportContext {
  const std::string& path;
  const ImportedPlan& before;               // the merged plan of earlier files
  std::int64_t gpus = 0;                    // of the job; 0: unknown
  const std::vector<ImportSource>& beside;  // all files of this import

  // Returns the given file of that name, without its folders; null: there is none.
  const ImportSource* beside_by_name(std::string_view name) const;
  // Returns the key's value from this file, else from an earlier file, else 1.
  std::int64_t stated_or_one(const ImportedPlan& this_file, IntegerKey key) const;
  // Return the job's GPUs, also as earlier files state them, and the data-parallel size: GPUs / (tp
  // x pp x cp). 0: unknown.
  std::int64_t job_gpus() const;
  std::int64_t data_parallel(const ImportedPlan& this_file) const;
};

// Sets that the trainer leaves out the layers of multi-token prediction (MTP) of an earlier file's
// model.
void leave_out_mtp(const ImportedPlan& before, ImportedPlan* plan);

// Returns how many sequences of `seq` tokens fit into `tokens`, at least 1: the size of a
// microbatch. If `replica_sequences`, those of a replica in an iteration, is known (not 0), the
// result is reduced to a divisor of it.
std::int64_t sequences_in(std::int64_t tokens, std::int64_t seq, std::int64_t replica_sequences);

// Lists the fields that no reader has read, or counts those without effect (`quiet`: globs).
void list_unread(const FieldReader& reader, std::string_view quiet, const std::string& path,
                 ImportedPlan* plan);

// Moves the keys that a scenario does not have yet to `not_expressed`.
void leave_out_future_keys(ImportedPlan* plan);

// Returns the plan as a scenario's TOML. Comment lines list the sources, each assumption and each
// thing left out; a plan without a cluster gets one that is commented out.
std::string scenario_text(const ImportedPlan& plan);

// Returns a value as TOML writes it.
std::string toml_value(const KeyValue& value);

}  // namespace tandem
