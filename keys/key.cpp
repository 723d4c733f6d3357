#include "keys/key.h"

#include <algorithm>

namespace tandem {

bool is_scenario_key(std::string_view name) {
  if (name.starts_with(kKindPrefix)) {
    const std::size_t dot = name.find('.', kKindPrefix.size());
    return dot != std::string_view::npos &&
           keys::find("model" + std::string(name.substr(dot)), kLayerRows) != nullptr;
  }
  return std::ranges::any_of(
      kKeyTables, [&](std::span<const KeyRow> rows) { return keys::find(name, rows) != nullptr; });
}

}  // namespace tandem
