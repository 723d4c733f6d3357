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

constexpr int kPictureWidth = 100;  // where the output has no width, such as a file
constexpr int kLeastColumns = 20;
constexpr int kRankWidth = 12;  // "rank 123456 "

constexpr std::array<std::string_view, 9> kBlocks = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};

struct KindHue {
  std::string_view name;
  Hue hue;
};
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

// Returns the hue of letters that can be read on `ground`.
Hue text_hue_on(Hue ground) {
  return ground == Hue::Blue || ground == Hue::Wine ? Hue::Silver : Hue::Black;
}

template <std::size_t N>
std::size_t greatest(const std::array<Nanoseconds, N>& parts) {
  return static_cast<std::size_t>(std::max_element(parts.begin(), parts.end()) - parts.begin());
}

template <std::size_t N>
Nanoseconds sum(const std::array<Nanoseconds, N>& parts) {
  return std::accumulate(parts.begin(), parts.end(), Nanoseconds{0});
}

// Draws a strip: a line for each rank, in which each cell is an equal part of the iteration. Notes
// which kinds occur, for the legend.
class TimelinePainter {
 public:
  TimelinePainter(const TimelineStrip& strip, bool colour) : strip_(strip), colour_(colour) {
    for (const TimelineStrip::Row& row : strip.rows)
      label_ = std::max(label_, fmt::format("rank {} ", row.rank).size());
  }

  std::string draw() {
    std::string text = times();
    for (const TimelineStrip::Row& row : strip_.rows) {
      text += fmt::format("{:<{}}", fmt::format("rank {}", row.rank), label_);
      Sign run;
      owed_ = {};
      for (const TimelineStrip::Cell& cell : row.cells) {
        const Sign next = sign_of(cell);
        if (next.letters != run.letters || next.ground != run.ground) {
          text += painted(run.text, run.letters, run.ground);
          run = {"", next.letters, next.ground};
        }
        run.text += next.text;
      }
      text += painted(run.text, run.letters, run.ground) + '\n';
    }
    if (strip_.left_out > 0) text += fmt::format("and {} more ranks\n", strip_.left_out);
    return text + legend();
  }

 private:
  double column_ns() const { return static_cast<double>(strip_.iteration_ns) / strip_.columns(); }

  // The sign for a cell, or for several that are alike in colour.
  struct Sign {
    std::string text;
    Hue letters = Hue::None, ground = Hue::None;
  };

  Sign sign_of(const TimelineStrip::Cell& cell) {
    const double whole = column_ns();
    const Nanoseconds compute = sum(cell.compute_ns), exposed = sum(cell.exposed_ns);
    const auto eighths = static_cast<std::size_t>(
        std::clamp(std::lround(8 * static_cast<double>(compute) / whole), 0L, 8L));
    const std::size_t kind = compute_kind(cell), group_kind = greatest(cell.exposed_ns);
    // The rest is communication or bubble, whichever is more.
    const bool waits = 2 * static_cast<double>(exposed) >= whole - static_cast<double>(compute) &&
                       exposed > 0 && eighths < 8;
    if (eighths > 0) seen_compute_[kind] = true;
    if (waits) seen_exposed_[group_kind] = true;
    bubbles_ |= eighths == 0 && !waits;
    Sign sign{std::string(eighths > 0 ? kBlocks[eighths]
                          : waits     ? "-"
                                      : "."),
              Hue::None, Hue::None};
    if (!colour_) return sign;
    if (waits) sign.ground = kExposed[group_kind].hue;
    sign.letters = eighths > 0 ? kCompute[kind].hue : waits ? text_hue_on(sign.ground) : Hue::None;
    return sign;
  }

  // Returns the kind of compute whose colour the cell gets. It is the kind that is owed most: the
  // time that it took so far, less the time of the cells that it got (error diffusion). If forward
  // and backward share every cell 1 : 2, one cell of three is a forward's.
  std::size_t compute_kind(const TimelineStrip::Cell& cell) {
    std::size_t kind = greatest(cell.compute_ns);
    for (std::size_t k = 0; k < owed_.size(); ++k) {
      owed_[k] += cell.compute_ns[k];
      if (cell.compute_ns[k] > 0 && owed_[k] > owed_[kind]) kind = k;
    }
    owed_[kind] -= sum(cell.compute_ns);
    return kind;
  }

  // Writes a time every 12 columns or more, at a round number of its unit.
  std::string times() const {
    constexpr int kApart = 12;
    const auto end = static_cast<double>(strip_.iteration_ns);
    const auto [unit, unit_ns] = end >= 1e9   ? std::pair{"s", 1e9}
                                 : end >= 1e6 ? std::pair{"ms", 1e6}
                                 : end >= 1e3 ? std::pair{"us", 1e3}
                                              : std::pair{"ns", 1.0};
    const double least = column_ns() * kApart / unit_ns;
    double step = std::pow(10, std::floor(std::log10(least)));
    for (const double factor : {2.0, 2.5, 2.0}) {  // 1, 2, 5 or 10 times a power of ten
      if (step < least) step *= factor;
    }
    std::string line = "time";
    for (int i = 0; i * step * unit_ns < end; ++i) {
      const auto at = label_ + static_cast<std::size_t>(i * step * unit_ns / column_ns());
      line.resize(std::max(at, line.size()), ' ');
      line += i == 0 ? "0" : fmt::format("{:g} {}", i * step, unit);
    }
    line += '\n';
    return line;
  }

  std::string legend() const {
    std::string text = fmt::format("█ compute, as high as its share of {}", time_text(column_ns()));
    if (colour_) text += names(kCompute, seen_compute_);
    if (std::find(seen_exposed_.begin(), seen_exposed_.end(), true) != seen_exposed_.end())
      text += "\n- exposed communication" + (colour_ ? names(kExposed, seen_exposed_) : "");
    return text + (bubbles_ ? "\n. bubble\n" : "\n");
  }

  template <std::size_t N>
  static std::string names(const std::array<KindHue, N>& of, const std::array<bool, N>& seen) {
    std::string text;
    for (std::size_t i = 0; i < N; ++i) {
      if (!seen[i]) continue;
      text += (text.empty() ? ": " : " ") +
              painted(fmt::format(" {} ", of[i].name), text_hue_on(of[i].hue), of[i].hue);
    }
    return text;
  }

  static std::string time_text(double ns) {
    if (ns >= 1e9) return fmt::format("{:.3g} s", ns / 1e9);
    if (ns >= 1e6) return fmt::format("{:.3g} ms", ns / 1e6);
    if (ns >= 1e3) return fmt::format("{:.3g} us", ns / 1e3);
    return fmt::format("{:.3g} ns", ns);
  }

  const TimelineStrip& strip_;
  const bool colour_;
  std::size_t label_ = 0;
  std::array<bool, kComputeKinds> seen_compute_{};
  std::array<bool, kGroupKinds> seen_exposed_{};
  // Compute of the current row that no cell has shown yet.
  std::array<Nanoseconds, kComputeKinds> owed_{};
  bool bubbles_ = false;
};

// A bar's parts: compute, exposed communication by kind, bubble.
constexpr std::size_t kBarParts = kGroupKinds + 2;

// Returns how many columns each part gets, `columns` in all. The ends of the parts are rounded, so
// no part is off by a whole column.
std::array<int, kBarParts> columns_of(const std::array<double, kBarParts>& shares, int columns) {
  std::array<int, kBarParts> widths{};
  double end = 0;
  int drawn = 0;
  for (std::size_t part = 0; part < kBarParts; ++part) {
    end += shares[part];
    const int until = part + 1 == kBarParts
                          ? columns
                          : std::min(static_cast<int>(std::lround(end * columns)), columns);
    widths[part] = until - drawn;
    drawn = until;
  }
  return widths;
}

std::string repeated(std::string_view sign, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += sign;
  return text;
}

}  // namespace

int strip_columns(int width) {
  const int all = width == kAnyWidth ? kPictureWidth : width;
  return std::max(all - kRankWidth, kLeastColumns);
}

std::string timeline_text(const TimelineStrip& strip, bool colour) {
  return TimelinePainter(strip, colour).draw();
}

std::string bars_text(const std::vector<RunResult>& results, int width, bool colour) {
  std::size_t name_width = 0;
  for (const RunResult& result : results) name_width = std::max(name_width, result.name.size());
  const int columns =
      std::max((width == kAnyWidth ? kPictureWidth : width) - static_cast<int>(name_width) - 1,
               kLeastColumns);
  std::string text;
  std::array<bool, kBarParts> seen{};
  for (const RunResult& result : results) {
    if (!(result.iteration_s > 0)) continue;
    std::array<double, kBarParts> shares{};
    shares[0] = result.compute_s / result.iteration_s;
    for (int kind = 0; kind < kGroupKinds; ++kind)
      shares[kind + 1] = result.exposed_s[kind] / result.iteration_s;
    const std::array<int, kBarParts> widths = columns_of(shares, columns);
    text += fmt::format("{:<{}}", result.name, name_width + 1);
    for (std::size_t part = 0; part < kBarParts; ++part) {
      seen[part] |= widths[part] > 0;
      const bool comm = part > 0 && part + 1 < kBarParts;
      const std::string drawn = repeated(part == 0 ? "█"
                                         : comm    ? kExposed[part - 1].name.substr(0, 1)
                                                   : ".",
                                         widths[part]);
      if (!colour || drawn.empty() || part + 1 == kBarParts) {
        text += drawn;
      } else if (comm) {
        const Hue hue = kExposed[part - 1].hue;
        text += painted(drawn, text_hue_on(hue), hue);
      } else {
        text += painted(drawn, Hue::SkyBlue);
      }
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
  return text + "█ compute" + exposed + (seen[kBarParts - 1] ? "; . bubble\n" : "\n");
}

}  // namespace tandem
