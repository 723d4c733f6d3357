#include "cli/text_width.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/csv.h"
#include "report/text/text_table.h"

namespace tandem {
namespace {

constexpr int kLeast = 40;  // narrower, numbers and their names no longer stand in one line

}  // namespace

void add_wide(const Command& command, bool* wide) {
  command.flag("--wide", wide,
               "tables in one block and lines unbroken, however wide; else they fit COLUMNS, "
               "or the terminal (a file or a pipe gets them wide)");
}

int text_width(bool wide) {
  if (wide) return kAnyWidth;
  if (const char* columns = std::getenv("COLUMNS")) {
    if (const auto number = parse_integer(columns); number.ok() && *number > 0)
      return static_cast<int>(std::clamp<std::int64_t>(*number, kLeast, kAnyWidth));
  }
  winsize size = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    return std::max<int>(kLeast, size.ws_col);
  return kAnyWidth;
}

}  // namespace tandem
