// LayoutKeys: one table of the numbers in a Layout, by scenario key: the values that each can have,
// and how it is read from a plan and written to one.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planning/tune/space.h"
#include "workload/model/plan.h"

namespace tandem {

// One number of a layout. If the key has words, the number is the word's place in their list.
struct LayoutKey {
  std::string_view key;
  std::string (*word)(int);
  // Returns the values that the key can have once the keys before it are chosen.
  std::vector<int> (*values)(const Scenario& base, const Layout& so_far);
  // Whether the key means anything for such a layout. If not, the key keeps the default of Layout.
  // Null: always.
  bool (*concerns)(const Scenario& base, const Layout& so_far);
  int (*get)(const Layout& layout);
  void (*set)(Layout* layout, int value);
  // Reads the number from a plan, and writes it to one. Null: no member of a plan holds it, or the
  // plan keeps the scenario's value.
  void (*read)(Layout* layout, const Plan& plan) = nullptr;
  void (*write)(const Layout& layout, Plan* plan) = nullptr;
  // The search chooses the key only if the user names it; else it is kAsScenario.
  bool only_named = false;
  // If the user names numbers, those are tried instead of values(), as far as the rules allow.
  bool tries_named = false;
};

// All keys, in the order in which they are chosen.
std::span<const LayoutKey> layout_keys();
// Writes to a plan the keys that are chosen only if the user names them.
void write_named(const Layout& layout, Plan* plan);
// Returns all words that the key may have, in order; empty if it has numbers or is not a layout's
// key.
std::vector<std::string> layout_words(std::string_view key);

std::string number_word(int value);
std::string flag_word(int value);
std::string recompute_word(int value);

// Returns the place of the precision in layout_words("train.precision"). REQUIRES: it is one of
// them.
int precision_of(std::string_view word);

// Converts the modules that selective recompute repeats, such as "core_attn+moe_act", to a number
// with one bit for each of kRecomputeModules, and back. 0: the words are no such modules.
int modules_of(std::string_view words);
std::string modules_word(int modules);

}  // namespace tandem
