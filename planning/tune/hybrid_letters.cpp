#include "planning/tune/hybrid_letters.h"

#include <algorithm>

namespace tandem {
namespace {

// Returns a layer's letters in Megatron-LM's patterns of hybrid models; empty: it has none.
std::string letters_of(const Model& layer) {
  if (layer.mixer == Mixer::Linear) return "";
  std::string letters;
  if (layer.mixer == Mixer::Mamba) letters = "M";
  if (layer.mixer == Mixer::Heads) letters = "*";
  if (layer.mixer == Mixer::Latent) letters = "+";
  if (layer.has_mlp) letters += layer.experts > 0 ? 'E' : '-';
  return letters;
}

}  // namespace

bool is_hybrid(const Model& model) {
  return model.kinds.empty() ? model.mixer == Mixer::Mamba || model.halves() == 1
                             : std::ranges::any_of(model.kinds, is_hybrid);
}

std::string hybrid_letters(const Model& model) {
  std::string all;
  if (!is_hybrid(model) || model.mtp_layers > 0) return all;
  for (int i = 0; i < model.layers; ++i) {
    const std::string letters = letters_of(model.layer(i));
    if (letters.empty()) return "";
    all += (all.empty() ? "" : " ") + letters;
  }
  return all;
}

}  // namespace tandem
