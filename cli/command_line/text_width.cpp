#include "cli/command_line/text_width.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "base/csv.h"
#include "launch/standard_output.h"
#include "report/text/text_table.h"

namespace tandem {
namespace {

constexpr int kLeast = 32;  // in fewer columns, numbers and their names do not fit one line

}  // namespace

void add_wide(const Command& command, bool* wide) {
  command.flag("--wide", wide,
               "tables in one block and lines unbroken, however wide; else they fit COLUMNS, "
               "or the terminal (a file or a pipe gets them wide)");
}

void add_colour(const Command& command, std::string* when) {
  command
      .option("--colour,--color", when,
              "auto: where a terminal takes it and NO_COLOR is not set; always; never")
      .one_of({"auto", "always", "never"})
      .show_default();
}

bool in_colour(const std::string& when) {
  if (when != "auto") return when == "always";
  const char* const refused = std::getenv("NO_COLOR");
  if (refused != nullptr && *refused != '\0') return false;
  const char* const set = std::getenv("TERM");
  const std::string_view terminal = set == nullptr ? "" : set;
  const bool has_colours = !terminal.empty() && terminal != "dumb";
  return has_colours && isatty(fileno(standard_output())) == 1;
}

int text_width(bool wide) {
  if (wide) return kAnyWidth;
  if (const char* columns = std::getenv("COLUMNS")) {
    if (const auto number = parse_integer(columns); number.ok() && *number > 0)
      return static_cast<int>(std::clamp<std::int64_t>(*number, kLeast, kAnyWidth));
  }
  winsize size = {};
  if (ioctl(fileno(standard_output()), TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    return std::max<int>(kLeast, size.ws_col);
  return kAnyWidth;
}

}  // namespace tandem
