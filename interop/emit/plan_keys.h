// PlanKeys: takes a plan's values by key while it is written, and knows what nobody took.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "interop/emit/emit.h"

namespace tandem {

class PlanKeys {
 public:
  // REQUIRES: the settings outlive it.
  explicit PlanKeys(const PlanSettings& settings) : settings_(&settings) {}

  std::string text(std::string_view key, std::string_view otherwise = "");
  long long whole(std::string_view key, long long otherwise);
  bool flag(std::string_view key, bool otherwise);
  bool has(std::string_view key) const;
  // Said in the comment though it was taken: the format says it in part only.
  void leave(std::string_view key, std::string_view why);

  // GPUs of the job, and the data-parallel size; 0: not said.
  long long gpus();
  long long dp();

  // "key = value", of parallel, schedule, train and overlap, but for defaults.
  std::vector<std::string> left() const;

 private:
  const PlanSettings* settings_;
  std::set<std::string, std::less<>> taken_;
  std::vector<std::string> left_;
};

// A field of Megatron-LM's configuration and its value, as a log has it.
using MegatronField = std::pair<std::string, std::string>;
// `bridge`: what Megatron-Bridge has on by itself is said too.
std::vector<MegatronField> megatron_fields(PlanKeys* keys, bool bridge);

// Each a whole file but for the comment.
std::string deepspeed_text(PlanKeys* keys);
std::string fsdp_text(PlanKeys* keys);
std::string torchtitan_text(PlanKeys* keys);

}  // namespace tandem
