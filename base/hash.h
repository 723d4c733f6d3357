// Hashes of texts, the same on every machine.
#pragma once

#include <cstdint>
#include <string_view>

namespace tandem {

// Hashes by FNV-1a (Fowler, Noll, Vo): a change of any one byte changes the hash. `before`: the
// hash of the text before, which is hashed as one with this.
constexpr std::uint64_t fnv1a(std::string_view text, std::uint64_t before = 0xcbf29ce484222325u) {
  for (const char c : text) before = (before ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return before;
}

}  // namespace tandem
