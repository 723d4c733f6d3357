// Colours a text with a terminal's escape sequences. The caller decides whether to use them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tandem {

// The palette of Okabe and Ito, which the colour-blind can tell apart, and three more colours. The
// values are numbers in xterm's 256 colours.
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

// Returns the text in these colours, and then the terminal's default colours. Hue::None: no change.
std::string painted(std::string_view text, Hue letters, Hue ground = Hue::None);

}  // namespace tandem
