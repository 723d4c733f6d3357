#include "topology/gpu_names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <string_view>

namespace tandem {
namespace {

constexpr std::string_view kGpuFamilies[] = {"A", "B", "GB", "GH", "H", "L", "MI", "P", "T", "V"};

// Says whether a word in capitals is a model: a family, up to three digits, perhaps a letter.
bool is_gpu_model(std::string_view word) {
  const std::size_t digits = word.find_first_of("0123456789");
  if (digits == std::string_view::npos) return false;
  const std::size_t end = std::min(word.find_first_not_of("0123456789", digits), word.size());
  const std::size_t count = end - digits;
  return std::ranges::find(kGpuFamilies, word.substr(0, digits)) != std::end(kGpuFamilies) &&
         count <= 3 && word.size() - end <= 1;
}

// Returns the models that a name has: A100 for "NVIDIA A100-SXM4-80GB".
std::set<std::string> models_in(const std::string& name) {
  std::set<std::string> models;
  std::string word;
  for (const char c : name + ' ') {
    if (const auto letter = static_cast<unsigned char>(c); std::isalnum(letter) != 0) {
      word += static_cast<char>(std::toupper(letter));
      continue;
    }
    if (word == "A100D" || word == "A100X") word.pop_back();  // virtual, and on a card with a DPU
    if (is_gpu_model(word)) models.insert(word);
    word.clear();
  }
  return models;
}

// Returns false if either name tells no model.
bool are_other_models(const std::string& a, const std::string& b) {
  const std::set<std::string> ours = models_in(a), theirs = models_in(b);
  return !ours.empty() && !theirs.empty() &&
         std::ranges::none_of(ours,
                              [&](const std::string& model) { return theirs.contains(model); });
}

}  // namespace

std::vector<std::string> gpu_notes(const std::set<std::string>& measured_on,
                                   const std::string& device) {
  std::vector<std::string> notes;
  std::set<std::string> others, slices;
  bool are_mixed = false;
  for (const std::string& name : measured_on) {
    if (are_other_models(name, device)) others.insert(name);
    if (name.find(" MIG ") != std::string::npos) slices.insert(name);
    are_mixed |= are_other_models(name, *measured_on.begin());
  }
  if (!others.empty())
    notes.push_back(fmt::format("Measured on {}, where the simulated GPU is {}: they differ.",
                                fmt::join(others, ", "), device));
  if (are_mixed)
    notes.push_back(fmt::format("Ranks are on different GPUs, and means over them are of none: {}.",
                                fmt::join(measured_on, ", ")));
  if (!slices.empty())
    notes.push_back(fmt::format("Measured on slices of a GPU (MIG), not on whole ones: {}.",
                                fmt::join(slices, ", ")));
  return notes;
}

}  // namespace tandem
