#include "base/terminal.h"

#include <fmt/format.h>

namespace tandem {

std::string painted(std::string_view text, Hue letters, Hue ground) {
  if (letters == Hue::None && ground == Hue::None) return std::string(text);
  std::string codes;
  if (letters != Hue::None) codes += fmt::format("38;5;{}", static_cast<int>(letters));
  if (ground != Hue::None)
    codes += fmt::format("{}48;5;{}", codes.empty() ? "" : ";", static_cast<int>(ground));
  return fmt::format("\x1B[{}m{}\x1B[0m", codes, text);
}

}  // namespace tandem
