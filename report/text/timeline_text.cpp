// Draws runs with characters. A timeline has a line a rank and a character for each equal part of
// the iteration, for example
//   time       0           20 ms
//   rank 0     ██████▅---..███
// A bar has one line a run, with the parts of its iteration in proportion.
#include "report/text/timeline_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string_view>

#include "base/terminal.h"
#include "report/text/text_table.h"

namespace tandem {
namespace {

constexpr int kPictureWidth = 100;  // characters, where the output has no width, such as a file
constexpr int kLeastColumns = 20;
constexpr int kRankWidth = 12;  // "rank 123456 "

// Blocks of 0 to 8 eighths of a line's height.
constexpr std::array<std::string_view, 9> kBlocks = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};

struct KindHue {
  std::string_view name;
  Hue hue;
};
// The kinds of compute, in the order of OpKind.
constexpr std::array<KindHue, kComputeKinds> kCompute = {{{"forward", Hue::SkyBlue},
                                                          {"backward", Hue::Orange},
                                                          {"input gradient", Hue::Vermilion},
                                                          {"weight gradient", Hue::Yellow},
                                                          {"optimizer", Hue::Silver}}};
// The kinds of communication, in the order of GroupKind.
constexpr std::array<KindHue, kGroupKinds> kExposed = {{{"tensor", Hue::Green},
                                                        {"pipeline", Hue::Blue},
                                                        {"data", Hue::Pink},
                                                        {"context", Hue::Grey},
                                                        {"expert", Hue::Wine}}};

// Returns the hue of letters that can be read on the background.
Hue text_hue_on(Hue background) {
  return background == Hue::Blue || background == Hue::Wine ? Hue::Silver : Hue::Black;
}

template <std::size_t N>
std::size_t index_of_longest(const std::array<Nanoseconds, N>& parts) {
  return static_cast<std::size_t>(std::max_element(parts.begin(), parts.end()) - parts.begin());
}

template <std::size_t N>
Nanoseconds sum(const std::array<Nanoseconds, N>& parts) {
  return std::accumulate(parts.begin(), parts.end(), Nanoseconds{0});
}

// Draws a strip: a line for each rank, with a character for each cell. Neighbouring cells of equal
// colours are painted at once. Records which kinds occur, for the legend.
class TimelinePainter {
 public:
  TimelinePainter(const TimelineStrip& strip, bool colour) : strip_(strip), colour_(colour) {
    for (const TimelineStrip::Row& row : strip.rows)
      label_width_ = std::max(label_width_, fmt::format("rank {} ", row.rank).size());
  }

  std::string draw() {
    std::string text = time_axis();
    for (const TimelineStrip::Row& row : strip_.rows) {
      text += fmt::format("{:<{}}", fmt::format("rank {}", row.rank), label_width_);
      Sign equal_cells;
      unshown_ns_ = {};
      for (const TimelineStrip::Cell& cell : row.cells) {
        const Sign next = sign_of(cell);
        if (next.letters != equal_cells.letters || next.background != equal_cells.background) {
          text += painted(equal_cells);
          equal_cells = {"", next.letters, next.background};
        }
        equal_cells.text += next.text;
      }
      text += painted(equal_cells) + '\n';
    }
    if (strip_.left_out > 0) text += fmt::format("and {} more ranks\n", strip_.left_out);
    return text + legend();
  }

 private:
  double column_ns() const { return static_cast<double>(strip_.iteration_ns) / strip_.columns(); }

  // The text of one cell, or of several cells of equal colours.
  struct Sign {
    std::string text;
    Hue letters = Hue::None, background = Hue::None;
  };

  static std::string painted(const Sign& sign) {
    return tandem::painted(sign.text, sign.letters, sign.background);
  }

  // Returns a cell's sign: a block as high as compute's share, else "-" or ".". Records the kind.
  Sign sign_of(const TimelineStrip::Cell& cell) {
    const double whole = column_ns();
    const Nanoseconds compute = sum(cell.compute_ns), exposed = sum(cell.exposed_ns);
    const auto eighths = static_cast<std::size_t>(
        std::clamp(std::lround(8 * static_cast<double>(compute) / whole), 0L, 8L));
    const std::size_t kind = compute_kind(cell), group_kind = index_of_longest(cell.exposed_ns);
    // The rest of the cell shows as communication or as bubble, whichever takes more of it.
    const double rest = whole - static_cast<double>(compute);
    const bool is_mostly_exposed = exposed > 0 && 2 * static_cast<double>(exposed) >= rest;
    const bool shows_exposed = is_mostly_exposed && eighths < 8;
    Sign sign;
    if (shows_exposed) {
      seen_exposed_[group_kind] = true;
      if (colour_) sign.background = kExposed[group_kind].hue;
    }
    if (eighths > 0) {
      seen_compute_[kind] = true;
      sign.text = kBlocks[eighths];
      if (colour_) sign.letters = kCompute[kind].hue;
    } else if (shows_exposed) {
      sign.text = "-";
      if (colour_) sign.letters = text_hue_on(sign.background);
    } else {
      seen_bubble_ = true;
      sign.text = ".";
    }
    return sign;
  }

  // Returns the kind of compute whose colour the cell gets, by error diffusion: the kind with the
  // most time in this row so far that no cell has shown. If forward and backward share every cell
  // 1 : 2, one cell of three gets the colour of forward.
  std::size_t compute_kind(const TimelineStrip::Cell& cell) {
    std::size_t kind = index_of_longest(cell.compute_ns);
    for (std::size_t k = 0; k < unshown_ns_.size(); ++k) {
      unshown_ns_[k] += cell.compute_ns[k];
      if (cell.compute_ns[k] > 0 && unshown_ns_[k] > unshown_ns_[kind]) kind = k;
    }
    unshown_ns_[kind] -= sum(cell.compute_ns);
    return kind;
  }

  // Writes round times, 12 columns apart or more.
  std::string time_axis() const {
    constexpr int kApart = 12;
    const auto end = static_cast<double>(strip_.iteration_ns);
    const auto [unit, unit_ns] = unit_of(end);
    const double least = column_ns() * kApart / unit_ns;
    double step = std::pow(10, std::floor(std::log10(least)));
    for (const double factor : {2.0, 2.5, 2.0}) {  // 1, 2, 5 or 10 times a power of ten
      if (step < least) step *= factor;
    }
    std::string line = "time";
    for (int i = 0; i * step * unit_ns < end; ++i) {
      const auto column = label_width_ + static_cast<std::size_t>(i * step * unit_ns / column_ns());
      line.resize(std::max(column, line.size()), ' ');
      line += i == 0 ? "0" : fmt::format("{:g} {}", i * step, unit);
    }
    line += '\n';
    return line;
  }

  std::string legend() const {
    const auto [unit, unit_ns] = unit_of(column_ns());
    std::string text =
        fmt::format("█ compute, as high as its share of {:.3g} {}", column_ns() / unit_ns, unit);
    if (colour_) text += names(kCompute, seen_compute_);
    if (std::find(seen_exposed_.begin(), seen_exposed_.end(), true) != seen_exposed_.end())
      text += "\n- exposed communication" + (colour_ ? names(kExposed, seen_exposed_) : "");
    return text + (seen_bubble_ ? "\n. bubble\n" : "\n");
  }

  template <std::size_t N>
  static std::string names(const std::array<KindHue, N>& kinds, const std::array<bool, N>& seen) {
    std::string text;
    for (std::size_t i = 0; i < N; ++i) {
      if (!seen[i]) continue;
      text += (text.empty() ? ": " : " ") + painted({fmt::format(" {} ", kinds[i].name),
                                                     text_hue_on(kinds[i].hue), kinds[i].hue});
    }
    return text;
  }

  // Returns the largest unit in which the time is at least 1, and its nanoseconds.
  static std::pair<const char*, double> unit_of(double ns) {
    if (ns >= 1e9) return {"s", 1e9};
    if (ns >= 1e6) return {"ms", 1e6};
    return ns >= 1e3 ? std::pair{"us", 1e3} : std::pair{"ns", 1.0};
  }

  const TimelineStrip& strip_;
  const bool colour_;
  std::size_t label_width_ = 0;
  std::array<bool, kComputeKinds> seen_compute_{};
  std::array<bool, kGroupKinds> seen_exposed_{};
  // Time of each kind of compute in the current row, less the time of the cells with its colour.
  std::array<Nanoseconds, kComputeKinds> unshown_ns_{};
  bool seen_bubble_ = false;
};

// A bar's parts: compute (part 0), exposed communication by kind, bubble (the last part).
constexpr std::size_t kBarParts = kGroupKinds + 2;
constexpr std::size_t kBubblePart = kBarParts - 1;

// Returns how many columns each part gets, `columns` in all. The position where each part ends is
// rounded, so no part's width is off by a whole column.
std::array<int, kBarParts> part_widths(const std::array<double, kBarParts>& shares, int columns) {
  std::array<int, kBarParts> widths{};
  double end = 0;
  int drawn = 0;
  for (std::size_t part = 0; part < kBarParts; ++part) {
    end += shares[part];
    const int until = part == kBubblePart
                          ? columns
                          : std::min(static_cast<int>(std::lround(end * columns)), columns);
    widths[part] = until - drawn;
    drawn = until;
  }
  return widths;
}

// Draws one part of a bar, `width` columns wide.
std::string part_text(std::size_t part, int width, bool colour) {
  const bool is_exposed = part > 0 && part < kBubblePart;
  std::string_view sign = part == 0 ? "█" : ".";
  if (is_exposed) sign = kExposed[part - 1].name.substr(0, 1);
  std::string text;
  for (int i = 0; i < width; ++i) text += sign;
  if (!colour || text.empty() || part == kBubblePart) return text;
  if (part == 0) return painted(text, Hue::SkyBlue);
  const Hue hue = kExposed[part - 1].hue;
  return painted(text, text_hue_on(hue), hue);
}

// Returns how many columns a picture has beside names of this width.
int columns_beside(int names, int width) {
  const int all = width == kAnyWidth ? kPictureWidth : width;
  return std::max(all - names, kLeastColumns);
}

}  // namespace

int strip_columns(int width) { return columns_beside(kRankWidth, width); }

std::string timeline_text(const TimelineStrip& strip, bool colour) {
  return TimelinePainter(strip, colour).draw();
}

std::string bars_text(const std::vector<RunResult>& results, int width, bool colour) {
  std::size_t name_width = 0;
  for (const RunResult& result : results) name_width = std::max(name_width, result.name.size());
  const int columns = columns_beside(static_cast<int>(name_width) + 1, width);
  std::string text;
  std::array<bool, kBarParts> seen{};
  for (const RunResult& result : results) {
    if (!(result.iteration_s > 0)) continue;
    std::array<double, kBarParts> shares{};
    shares[0] = result.compute_s / result.iteration_s;
    for (int kind = 0; kind < kGroupKinds; ++kind)
      shares[kind + 1] = result.exposed_s[kind] / result.iteration_s;
    const std::array<int, kBarParts> widths = part_widths(shares, columns);
    text += fmt::format("{:<{}}", result.name, name_width + 1);
    for (std::size_t part = 0; part < kBarParts; ++part) {
      seen[part] |= widths[part] > 0;
      text += part_text(part, widths[part], colour);
    }
    text += '\n';
  }
  std::string exposed;
  for (int kind = 0; kind < kGroupKinds; ++kind) {
    const std::string_view name = kExposed[kind].name;
    if (seen[kind + 1])
      exposed += fmt::format("{} {} {}", exposed.empty() ? "; exposed communication:" : ",",
                             name.substr(0, 1), name);
  }
  return text + "█ compute" + exposed + (seen[kBubblePart] ? "; . bubble\n" : "\n");
}

}  // namespace tandem
