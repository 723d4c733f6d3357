// Colours of a terminal: escape sequences round a text. Who prints asks whether to use them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tandem {

// Okabe and Ito's palette, which the colour-blind can tell apart, in the 256 colours of xterm, and
// three more. Their numbers are xterm's.
enum class Hue : std::uint8_t {
  None = 0,
  Black = 16,
  Blue = 25,
  Green = 36,
  SkyBlue = 74,
  Wine = 89,
  Vermilion = 166,
  Orange = 172,
  Pink = 175,
  Yellow = 227,
  Grey = 244,
  Silver = 250,
};

// The text in these colours, and the terminal's own after it; Hue::None leaves one as it is.
std::string painted(std::string_view text, Hue letters, Hue ground = Hue::None);

}  // namespace tandem
