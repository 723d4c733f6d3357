// PlanKeys: gives a plan's values by key to the writers of other tools' files. Reading a key marks
// it as expressed in the file; keys never read are listed as not expressed.
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

  // Return a key's value, or `otherwise` if it is not set. text() takes keys of any type.
  std::string text(AnyKey key, std::string_view otherwise = "");
  long long whole(IntegerKey key, long long otherwise);
  bool flag(FlagKey key, bool otherwise);
  bool has(AnyKey key) const;
  // Marks a key as expressed though the format has no word for it.
  void ignore(AnyKey key) { taken_.emplace(key.name()); }
  // Returns train.cross_entropy, or what train.fused_cross_entropy stands for; neither: `usual`.
  std::string loss(std::string_view usual);
  // Lists a key, if it is set, among those that the format expresses in part or not at all.
  void leave(AnyKey key, std::string_view why);

  // Adds a line for something that is no key of the plan and that the format cannot say.
  void note(std::string line) { left_.push_back(std::move(line)); }
  // Adds an environment variable that the framework requires, such as "NAME=1 because ...".
  void require(std::string variable) { required_.push_back(std::move(variable)); }
  const std::vector<std::string>& required() const { return required_; }

  // Returns the letters of a hybrid model's layers in --hybrid-layer-pattern, one element per
  // layer; empty: the model is not a hybrid, or some layer has no letter.
  std::vector<std::string> hybrid_layers() const;
  // Returns whether the model has a pattern of hybrid layers, or a Mamba mixer.
  bool is_hybrid() const;
  // Returns whether the model, or a kind of its layers, has this mixer ("latent").
  bool has_mixer(std::string_view mixer) const;
  // Returns the layers of each stage, as listed or as a scenario cuts them; empty: one stage, or
  // the model's layers are not known.
  std::vector<int> stage_layers();

  // Return the job's GPUs, and the data-parallel size; 0: unknown.
  long long gpus();
  long long dp();

  // Returns "key = value" for each key of parallel, schedule, train and overlap that was not read
  // and whose value is not the default, and the lines of leave().
  std::vector<std::string> left() const;

 private:
  // Returns a value without marking its key; null: it is not set.
  const std::string* setting(std::string_view name) const;
  long long replica_gpus();

  const PlanSettings* settings_;
  std::set<std::string, std::less<>> taken_;
  std::vector<std::string> left_, required_;
};

// A field of Megatron-LM's configuration and its value, as a log has it.
using MegatronField = std::pair<std::string, std::string>;
// The program that reads the fields: Megatron-LM's command line; Megatron-Bridge, which enables
// some settings by default; or ChatLearn, whose configurations have fewer fields.
enum class MegatronReader { Arguments, Bridge, ChatLearn };
std::vector<MegatronField> megatron_fields(PlanKeys* keys, MegatronReader reader);
// Adds the fields of number formats alone: of weights, gradients and attention, and FP8's scales.
void add_number_formats(PlanKeys* keys, MegatronReader reader, std::vector<MegatronField>* fields);

// Return a file's whole text, without the comment above it.
std::string deepspeed_text(PlanKeys* keys);
std::string fsdp_text(PlanKeys* keys);
std::string torchtitan_text(PlanKeys* keys);

// Notes a plan's attention and loss where the trainer, which has no settings for them, runs others:
// fused attention, and the loss `own` ("native"). `usual`: the loss of a plan that names none.
void note_kernels(PlanKeys* keys, std::string_view own, std::string_view usual);

// Notes a plan's parallel.cp_comm, or its default "ring", if context ranks use it: the trainer's
// gather keys and values ("all_gather").
void note_context(PlanKeys* keys);

// Lists `key` as not expressible if it is above 1.
void note_above_one(PlanKeys* keys, IntegerKey key, std::string_view why);

}  // namespace tandem
