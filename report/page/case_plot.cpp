// Draws predicted over measured iteration times, both axes logarithmic, as an SVG text: a band of
// 10 % around the diagonal, axes, a mark for each run, and a legend with the families' errors.
#include "report/page/case_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <numeric>
#include <string_view>
#include <utility>

#include "base/xml.h"
#include "report/text/case_cells.h"

namespace tandem {
namespace {

// Pixels.
constexpr int kWidth = 920;
constexpr int kLeft = 76;
constexpr int kTop = 44;
constexpr int kSide = 520;  // of the square between the axes
constexpr int kAxisHeight = 56;
constexpr int kLegend = kLeft + kSide + 28;  // x of the legend, then of its columns
constexpr int kLegendName = kLegend + 20;
constexpr int kLegendRows = kLegend + 185;
constexpr int kLegendError = kLegend + 272;
constexpr int kLegendLine = 22;
constexpr double kLegendMark = 5;

constexpr std::size_t kNameLength = 24;  // characters of a family's name
constexpr int kTicks = 18;   // most ticks of an axis; of more, powers of ten alone are drawn
constexpr int kPowers = 12;  // most powers of ten of an axis, about
constexpr double kBand = 0.1;
constexpr int kCrowd = 300;  // a family with more rows has small marks

// Okabe and Ito's palette, which colour-blind people can tell apart. Its yellow, too pale on white,
// is replaced by two colours. With 9 colours and 8 shapes a pair comes again after 72 families.
constexpr std::array<std::string_view, 9> kColours = {"#0072b2", "#d55e00", "#009e73",
                                                      "#000000", "#cc79a7", "#56b4e9",
                                                      "#e69f00", "#882255", "#888888"};

// Paths of shapes around the origin, about one pixel to each side.
constexpr std::array<std::string_view, 8> kShapes = {
    "M-1 0a1 1 0 1 0 2 0a1 1 0 1 0-2 0z",               // circle
    "M-.9-.9h1.8v1.8h-1.8z",                            // square
    "M0-1.2L1.1.8H-1.1z",                               // triangle
    "M0-1.3L1 0 0 1.3-1 0z",                            // diamond
    "M-.4-1.1h.8v.7h.7v.8h-.7v.7h-.8v-.7h-.7v-.8h.7z",  // plus
    "M0 1.2L1.1-.8H-1.1z",                              // triangle, point down
    "M-1.1-.6L-.6-1.1 0-.5.6-1.1 1.1-.6.5 0 1.1.6.6 1.1 0 .5-.6 1.1-1.1.6-.5 0z",  // cross
    "M0-1.1L1.1-.3.7 1H-.7L-1.1-.3z"};                                             // pentagon

// An axis has ticks at 1, 2 and 5 times the powers of ten. They are numbered: tick 0 is at 1, tick
// 4 at 20, tick -1 at 0.5.
constexpr std::array<int, 3> kDigits = {1, 2, 5};

struct Tick {
  int decade = 0;  // the power of ten
  int digit = 1;

  double log() const { return decade + std::log10(digit); }
};

// Divides by 3 downwards, below 0 too: tick -1 is the last of the decade -1, 0.5.
Tick tick_at(int index) {
  const int decade = index >= 0 ? index / 3 : -((2 - index) / 3);
  return {decade, kDigits[index - 3 * decade]};
}

std::string label(const Tick& tick) {
  if (tick.decade < -4 || tick.decade > 5) return fmt::format("{}e{}", tick.digit, tick.decade);
  return fmt::format("{:g}", tick.digit * std::pow(10, tick.decade));
}

// A logarithmic axis between two ticks. Both axes of the plot are the same. `log` is a value's
// decimal logarithm.
struct LogAxis {
  int first = 0;  // numbers of ticks
  int last = 3;

  double log_first() const { return tick_at(first).log(); }
  double pixels(double log) const {
    return (log - log_first()) / (tick_at(last).log() - log_first()) * kSide;
  }
  double x(double log) const { return kLeft + pixels(log); }
  double y(double log) const { return kTop + kSide - pixels(log); }
};

bool is_drawn(const CaseRow& row) { return row.prediction && row.prediction->predicted_s > 0; }

// Returns the shortest axis that all measured and predicted times lie on.
LogAxis axis_of(const std::vector<CaseRow>& rows) {
  std::vector<double> logs;
  for (const CaseRow& row : rows) {
    if (!is_drawn(row)) continue;
    logs.push_back(std::log10(row.run.measured_s));
    logs.push_back(std::log10(row.prediction->predicted_s));
  }
  if (logs.empty()) return {};
  const auto [least, most] = std::ranges::minmax(logs);
  constexpr double kRounding = 1e-9;
  // Goes down from the power of ten above the least value, and up from the one below the greatest.
  LogAxis axis;
  axis.first = 3 * static_cast<int>(std::floor(least)) + 3;
  while (tick_at(axis.first).log() > least + kRounding) --axis.first;
  axis.last = 3 * static_cast<int>(std::floor(most));
  while (tick_at(axis.last).log() < most - kRounding) ++axis.last;
  if (axis.first < axis.last) return axis;
  return {axis.first - 1, axis.last + 1};
}

struct Style {
  std::string_view colour;
  std::string_view shape;
  double size = 0;
  double opacity = 1;
  std::string_view rim = "#ffffff";
};

// Returns a family's style. The more marks it has, the smaller they are; very many are transparent
// and have no rim, so that they hide neither each other nor those of small families.
Style style_of(std::size_t family, int runs) {
  Style style{kColours[family % kColours.size()], kShapes[family % kShapes.size()], 4.6, 0.85};
  if (runs > 20) style.size = 3.8;
  if (runs > 60) style.size = 3;
  if (runs > kCrowd) {
    style.size = 1.8;
    style.opacity = 0.6;
    style.rim = "none";
  }
  return style;
}

class CasePicture {
 public:
  explicit CasePicture(const std::vector<CaseRow>& rows)
      : rows_(rows), families_(accuracy_by_family(rows)), axis_(axis_of(rows)) {}

  std::string draw() {
    const int lines = static_cast<int>(families_.size()) + 5;
    const int height = std::max(kTop + kSide + kAxisHeight, kTop + lines * kLegendLine);
    append(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" xmlns:xlink=\"http://www.w3.org/1999/xlink\" "
        "width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\" "
        "font-size=\"13\" fill=\"#222222\">\n<title>Predicted against measured</title>\n",
        kWidth, height);
    define_marks();
    append("<rect width=\"{}\" height=\"{}\" fill=\"#ffffff\"/>\n", kWidth, height);
    append("<text x=\"{}\" y=\"26\" font-size=\"15\" font-weight=\"bold\">", kLeft);
    append("Predicted against measured: {} runs of others</text>\n", accuracy_of(rows_).n);
    draw_band();
    draw_axes();
    draw_marks();
    draw_legend();
    append("</svg>\n");
    return std::move(out_);
  }

 private:
  template <class... Args>
  void append(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }

  void define_marks() {
    append(
        "<defs>\n<clipPath id=\"square\"><rect x=\"{0}\" y=\"{1}\" width=\"{2}\" height=\"{2}\"/>",
        kLeft, kTop, kSide);
    append("</clipPath>\n");
    for (std::size_t i = 0; i < families_.size(); ++i) {
      const Style style = style_of(i, families_[i].n);
      append("<path id=\"f{}\" transform=\"scale({})\" d=\"{}\"/>\n", i, style.size, style.shape);
    }
    append("</defs>\n");
  }

  // Draws the band where predicted is at most 10 % off: the diagonal, moved up and down.
  void draw_band() {
    const double first = axis_.log_first(), last = tick_at(axis_.last).log();
    const double up = std::log10(1 + kBand), down = std::log10(1 - kBand);
    append("<g clip-path=\"url(#square)\">\n<path class=\"band\" fill=\"#e4e4e4\" d=\"");
    append("M{:.1f} {:.1f}L{:.1f} {:.1f} {:.1f} {:.1f} {:.1f} {:.1f}z\"/>\n", axis_.x(first),
           axis_.y(first + up), axis_.x(last), axis_.y(last + up), axis_.x(last),
           axis_.y(last + down), axis_.x(first), axis_.y(first + down));
    append("<path class=\"diagonal\" stroke=\"#555555\" d=\"M{} {}L{} {}\"/>\n</g>\n", kLeft,
           kTop + kSide, kLeft + kSide, kTop);
  }

  void draw_axes() {
    append("<g class=\"axes\" font-size=\"12\">\n");
    const int ticks = axis_.last - axis_.first;
    // A power of ten is every third tick. 30 decades have too many: every third power is drawn.
    const int powers = ticks / 3 / kPowers + 1;
    const int every = ticks > kTicks ? 3 * powers : 1;
    for (int index = axis_.first; index <= axis_.last; ++index) {
      if (index % every != 0) continue;
      const Tick tick = tick_at(index);
      const double x = axis_.x(tick.log()), y = axis_.y(tick.log());
      append("<path stroke=\"#222222\" stroke-opacity=\"0.13\" d=\"M{:.1f} {}v{}M{} {:.1f}h{}\"/>",
             x, kTop, kSide, kLeft, y, kSide);
      append("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>", x, kTop + kSide + 18,
             label(tick));
      append("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", kLeft - 7, y + 4,
             label(tick));
    }
    append("<rect x=\"{0}\" y=\"{1}\" width=\"{2}\" height=\"{2}\" fill=\"none\" ", kLeft, kTop,
           kSide);
    append("stroke=\"#555555\"/>\n</g>\n<g text-anchor=\"middle\">\n");
    const int middle = kLeft + kSide / 2, bottom = kTop + kSide + 42;
    append("<text x=\"{}\" y=\"{}\">measured iteration, s</text>\n", middle, bottom);
    append("<text transform=\"translate(22 {}) rotate(-90)\">predicted iteration, s</text>\n",
           kTop + kSide / 2);
    append("</g>\n<g fill=\"#666666\">\n<text x=\"{}\" y=\"{}\">predicted too slow</text>\n",
           kLeft + 12, kTop + 22);
    append("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">predicted too fast</text>\n</g>\n",
           kLeft + kSide - 12, kTop + kSide - 12);
  }

  // Draws the marks. The largest family comes first, so that it lies below the others.
  void draw_marks() {
    std::vector<std::size_t> order(families_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, std::ranges::greater{},
                             [&](std::size_t family) { return families_[family].n; });
    for (const std::size_t family : order) {
      const Style style = style_of(family, families_[family].n);
      append("<g class=\"family\" fill=\"{}\" fill-opacity=\"{}\" stroke=\"{}\" ", style.colour,
             style.opacity, style.rim);
      append("stroke-width=\"0.15\">\n");
      for (const CaseRow& row : rows_) {
        if (row.run.family != families_[family].family || !is_drawn(row)) continue;
        append("<use xlink:href=\"#f{}\" x=\"{:.1f}\" y=\"{:.1f}\"/>\n", family,
               axis_.x(std::log10(row.run.measured_s)),
               axis_.y(std::log10(row.prediction->predicted_s)));
      }
      append("</g>\n");
    }
  }

  void legend_cells(int y, std::string_view name, const Accuracy& accuracy) {
    append("<text x=\"{}\" y=\"{}\">{}</text>", kLegendName, y,
           xml_escaped(shortened(name, kNameLength)));
    append("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>", kLegendRows, y, accuracy.n);
    append("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n", kLegendError, y,
           accuracy.n > 0 ? percent(accuracy.mape) : "-");
  }

  void draw_legend() {
    int y = kTop + 14;
    append("<g class=\"legend\">\n<g font-weight=\"bold\"><text x=\"{}\" y=\"{}\">family</text>",
           kLegendName, y);
    append("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">rows</text>", kLegendRows, y);
    append("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">mean |%|</text></g>\n", kLegendError, y);
    for (std::size_t i = 0; i < families_.size(); ++i) {
      y += kLegendLine;
      const Style style = style_of(i, families_[i].n);
      append("<path transform=\"translate({} {}) scale({})\" fill=\"{}\" d=\"{}\"/>", kLegend + 7,
             y - 5, kLegendMark, style.colour, style.shape);
      legend_cells(y, families_[i].family, families_[i]);
    }
    y += kLegendLine;
    legend_cells(y, "all rows", accuracy_of(rows_));
    y += 2 * kLegendLine;
    append("<rect x=\"{}\" y=\"{}\" width=\"14\" height=\"12\" fill=\"#e4e4e4\"/>", kLegend,
           y - 11);
    append("<path stroke=\"#555555\" d=\"M{} {}l14-12\"/>", kLegend, y + 1);
    append("<text x=\"{}\" y=\"{}\">equal, and within 10 %</text>\n</g>\n", kLegendName, y);
  }

  const std::vector<CaseRow>& rows_;
  const std::vector<Accuracy> families_;
  const LogAxis axis_;
  std::string out_;
};

}  // namespace

std::string case_plot(const std::vector<CaseRow>& rows) { return CasePicture(rows).draw(); }

}  // namespace tandem
