// Layout keys: the numbers of a layout, by scenario key; the values that each can have, and how a
// plan has them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planning/tune/space.h"
#include "workload/model/plan.h"

namespace tandem {

// One number of a layout. Where it is one of few words, that word's place.
struct LayoutKey {
  std::string_view key;
  std::string (*word)(int);
  // What it can be once those before it are chosen.
  std::vector<int> (*values)(const Scenario& base, const Layout& so_far);
  // Whether such a layout has what the key is about; where it has not, the key keeps what Layout
  // has by itself. Null: always.
  bool (*concerns)(const Scenario& base, const Layout& so_far);
  int (*get)(const Layout& layout);
  void (*set)(Layout* layout, int value);
  // From and to a plan. Null: it is no member of a plan, or what a plan has is the scenario's.
  void (*read)(Layout* layout, const Plan& plan) = nullptr;
  void (*write)(const Layout& layout, Plan* plan) = nullptr;
  // Chosen only where somebody names it; else it is kAsScenario.
  bool only_named = false;
  // Other numbers are tried too where somebody names them, as far as the model's rules allow.
  bool tries_named = false;
};

// In the order in which they are chosen.
std::span<const LayoutKey> layout_keys();
// What keys that are chosen only where somebody names them make of a plan.
void write_named(const Layout& layout, Plan* plan);
// All words that the key may have, in their order; none: it has numbers, or is none of a layout's.
std::vector<std::string> layout_words(std::string_view key);

std::string number_word(int value);
std::string flag_word(int value);
std::string recompute_word(int value);

// A layout's number of it. REQUIRES: one of layout_words("train.precision").
int precision_of(std::string_view word);

// "core_attn+moe_act": of modules that selective recompute repeats some, in any order; as one
// number, whose bits are they by their place in kRecomputeModules. 0: they are none.
int modules_of(std::string_view words);
std::string modules_word(int modules);

}  // namespace tandem
