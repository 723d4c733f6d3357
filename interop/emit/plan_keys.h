// PlanKeys: takes a plan's values by key while it is written, and remembers which have been taken.
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
  // Lists a key in the comment though it was taken, as the format says it only in part.
  void leave(AnyKey key, std::string_view why);

  // Return the job's GPUs, and the data-parallel size; 0: not known.
  long long gpus();
  long long dp();

  // Returns "key = value" for keys of parallel, schedule, train and overlap that were not taken and
  // are no defaults, and the lines of leave().
  std::vector<std::string> left() const;

 private:
  const PlanSettings* settings_;
  std::set<std::string, std::less<>> taken_;
  std::vector<std::string> left_;
};

// A field of Megatron-LM's configuration and its value, as a log has it.
using MegatronField = std::pair<std::string, std::string>;
// `bridge`: settings that Megatron-Bridge has on by itself are written too.
std::vector<MegatronField> megatron_fields(PlanKeys* keys, bool bridge);

// Each returns a whole file without the comment.
std::string deepspeed_text(PlanKeys* keys);
std::string fsdp_text(PlanKeys* keys);
std::string torchtitan_text(PlanKeys* keys);

}  // namespace tandem
