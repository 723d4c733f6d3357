// KeyValue: the value of a key in a file, of any type that a file may have.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace tandem {

using KeyValue = std::variant<bool, std::int64_t, double, std::string, std::vector<std::int64_t>,
                              std::vector<std::string>>;

}  // namespace tandem
