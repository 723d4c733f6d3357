// PlanKeys: takes a plan's values by key while it is written. Reading a key marks it as expressed;
// what is never read is listed as not expressed.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "interop/emit/emit.h"
#include "keys/key.h"

namespace tandem {

class PlanKeys {
 public:
  // REQUIRES: the settings outlive this.
  explicit PlanKeys(const PlanSettings& settings) : settings_(&settings) {}

  // Returns a key's value of any type as text.
  std::string text(AnyKey key, std::string_view otherwise = "");
  long long whole(IntegerKey key, long long otherwise);
  bool flag(FlagKey key, bool otherwise);
  bool has(AnyKey key) const;
  // Marks a key as expressed though the format has no word for it.
  void ignore(AnyKey key) { taken_.emplace(key.name()); }
  // Lists a key in the comment, with the reason: the format says it in part or not at all.
  void leave(AnyKey key, std::string_view why);

  // Adds a line for something that is no key of the plan and that the format cannot say.
  void note(std::string line) { left_.push_back(std::move(line)); }
  // Adds an environment variable that the framework requires, such as "NAME=1 because ...".
  void require(std::string variable) { required_.push_back(std::move(variable)); }
  const std::vector<std::string>& required() const { return required_; }

  // Returns the letters of a hybrid model's layers in Megatron-LM's patterns, one word a layer;
  // empty: it is none, or some layer has no letter.
  std::vector<std::string> hybrid_layers() const;
  // Says whether layers have a Mamba mixer, or only one of a layer's two halves.
  bool is_hybrid() const;
  // Returns the layers of each stage, as listed or as a scenario cuts them; empty: one stage, or
  // the model's layers are not known.
  std::vector<int> stage_layers();

  // Return the job's GPUs, and the data-parallel size; 0: not known.
  long long gpus();
  long long dp();

  // Returns "key = value" for keys of parallel, schedule, train and overlap that were not taken and
  // are no defaults, and the lines of leave().
  std::vector<std::string> left() const;

 private:
  const PlanSettings* settings_;
  std::set<std::string, std::less<>> taken_;
  std::vector<std::string> left_, required_;
};

// A field of Megatron-LM's configuration and its value, as a log has it.
using MegatronField = std::pair<std::string, std::string>;
// Who reads the fields: Megatron-LM's command line, or Megatron-Bridge, which has some settings on
// by itself, or ChatLearn, whose configurations have fewer fields.
enum class MegatronReader { Arguments, Bridge, ChatLearn };
std::vector<MegatronField> megatron_fields(PlanKeys* keys, MegatronReader reader);

// Each returns a whole file without the comment.
std::string deepspeed_text(PlanKeys* keys);
std::string fsdp_text(PlanKeys* keys);
std::string torchtitan_text(PlanKeys* keys);

// Lists `key` as not expressible if it is above 1.
void note_above_one(PlanKeys* keys, IntegerKey key, std::string_view why);

}  // namespace tandem
