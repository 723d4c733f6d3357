// Draws a trace as an SVG timeline for slides: a band for each rank of the trace, in it a row for
// each lane. Declared in traces/trace_files.h.
//
// A row's blocks of one colour are one path: a dashed horizontal stroke, as thick as the row is
// high. "m120 0h300" is a gap of 1.2 pixels and a block of 3. That takes about nine bytes a block.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>
#include <utility>

#include "base/file.h"
#include "base/xml.h"
#include "traces/event_order.h"
#include "traces/trace_files.h"

namespace tandem {
namespace {

constexpr std::size_t kRanksMax = 64;
constexpr std::size_t kRowsMax = 400;

// Sizes in pixels.
constexpr int kWidth = 1200;
constexpr int kLeft = 92;  // where the plot begins; lane names stand left of it
constexpr int kPlotWidth = 1060;
constexpr int kLegendHeight = 34;
constexpr int kTitleHeight = 18;
constexpr int kComputeHeight = 20;
constexpr int kCommHeight = 9;
constexpr int kRowGap = 2;
constexpr int kBandGap = 8;
constexpr int kAxisHeight = 30;
constexpr int kTickDistance = 80;  // at least

// Sizes in hundredths of a pixel.
constexpr std::int64_t kThird = 33;       // a third of a pixel: smaller gaps cannot be seen
constexpr std::int64_t kSeparated = 400;  // narrower actions have no line between them
constexpr std::int64_t kLabelled = 1400;  // narrower actions have no label
constexpr std::int64_t kDigit = 600;      // width of a label's digit

// Okabe and Ito's palette, which the colour-blind can tell apart, and two more colours. Those under
// labels are light enough for black text.
struct Colour {
  std::string_view name;
  std::string_view code;
};
constexpr int kComputeColours = static_cast<int>(OpKind::Optimizer) + 1;
constexpr int kColours = kComputeColours + kGroupKinds;
// In the order of OpKind up to Optimizer, then of GroupKind.
constexpr std::array<Colour, kColours> kPalette = {{{"forward", "#56b4e9"},
                                                    {"backward", "#e69f00"},
                                                    {"input gradient", "#d55e00"},
                                                    {"weight gradient", "#f0e442"},
                                                    {"optimizer", "#000000"},
                                                    {"tensor", "#009e73"},
                                                    {"pipeline", "#0072b2"},
                                                    {"data", "#cc79a7"},
                                                    {"context", "#888888"},
                                                    {"expert", "#882255"}}};
constexpr std::string_view kIdle = "#f0f0f0";

// Returns the op's place in kPalette. Passes of the vocabulary, which have no colour of their own,
// are drawn as forwards (E, S) or weight gradients (T, G).
int colour_of(const Body& body, const Op& op) {
  if (is_compute(op.kind)) return static_cast<int>(drawn_as(op.kind));
  return kComputeColours + static_cast<int>(body.slots[op.slot].group_kind);
}

// A lane of a rank that has events; `ops` in order of start.
struct LaneRow {
  int lane = 0;
  std::vector<std::size_t> ops;

  int height() const { return lane == 0 ? kComputeHeight : kCommHeight; }
};

struct Band {
  const RankTrace* rank = nullptr;
  std::vector<LaneRow> rows;
};

std::vector<Band> bands_of(const Program& program, const Trace& trace) {
  std::vector<Band> bands;
  for (const RankTrace& rank : trace.ranks) {
    const Body& body = program.bodies[rank.body];
    const auto events = trace.events_of(program, rank);
    std::vector<LaneRow> rows(body.lanes.size());
    for (std::size_t lane = 0; lane < rows.size(); ++lane) rows[lane].lane = static_cast<int>(lane);
    for (std::size_t i = 0; i < events.size(); ++i) {
      if (is_shown(events[i])) rows[body.ops[i].lane].ops.push_back(i);
    }
    std::erase_if(rows, [](const LaneRow& row) { return row.ops.empty(); });
    for (LaneRow& row : rows) {
      std::stable_sort(row.ops.begin(), row.ops.end(), [&](std::size_t a, std::size_t b) {
        return events[a].start_ns < events[b].start_ns;
      });
    }
    bands.push_back({&rank, std::move(rows)});
  }
  std::stable_sort(bands.begin(), bands.end(), [](const Band& a, const Band& b) {
    return index(a.rank->rank) < index(b.rank->rank);
  });
  return bands;
}

// Returns for instance "rank 0, stage 0, x256".
std::string title_of(const Body& body, const RankTrace& rank) {
  const std::set<int> stages = computed_stages(body);
  std::string text = fmt::format("rank {}", index(rank.rank));
  if (!stages.empty())
    text += fmt::format(", stage{} {}", stages.size() > 1 ? "s" : "", fmt::join(stages, " "));
  if (rank.multiplicity > 1) text += fmt::format(", x{}", rank.multiplicity);
  return shortened(text, 160);
}

// Maps the whole iteration to the plot's width.
struct Scale {
  Nanoseconds span_ns = 1;

  std::int64_t hundredths(Nanoseconds time) const {
    return static_cast<std::int64_t>(static_cast<__int128>(time) * (kPlotWidth * 100) / span_ns);
  }
};

// A stretch in hundredths of a pixel.
struct BusySpan {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t width() const { return end - begin; }
};

using BlocksByColour = std::array<std::vector<BusySpan>, kColours>;

// Merges a row's blocks, which come in order of start. Collects blocks in a crowd as long as it
// stays within a third of a pixel; a wide block is a crowd of one. Draws the crowd in the colour
// that fills most of its time, joined to the block before it if that has the same colour.
class Merger {
 public:
  void add(const BusySpan& block, Nanoseconds length_ns, int colour) {
    if (crowd_ns_ > 0 && std::max(crowd_.end, block.end) - crowd_.begin > kThird) flush();
    if (crowd_ns_ == 0) crowd_ = block;
    crowd_.end = std::max(crowd_.end, block.end);
    crowd_ns_ += length_ns;
    share_ns_[colour] += length_ns;
  }

  BlocksByColour finish() {
    if (crowd_ns_ > 0) flush();
    return std::move(blocks_);
  }

 private:
  void flush() {
    const int colour =
        static_cast<int>(std::max_element(share_ns_.begin(), share_ns_.end()) - share_ns_.begin());
    auto& blocks = blocks_[colour];
    if (colour == last_ && crowd_.begin - blocks.back().end < kThird)
      blocks.back().end = std::max(blocks.back().end, crowd_.end);
    else
      blocks.push_back(crowd_);
    last_ = colour;
    crowd_ns_ = 0;
    share_ns_ = {};
  }

  BlocksByColour blocks_;
  int last_ = -1;  // colour of the last block
  BusySpan crowd_;
  Nanoseconds crowd_ns_ = 0;  // 0: there is no crowd
  std::array<Nanoseconds, kColours> share_ns_{};
};

// The time between two ticks of the axis, and the power of ten in it: 7 for 2 * 10^7 ns.
struct TickStep {
  Nanoseconds ns = 1;
  int exponent = 0;
};

// Returns the least of 1, 2, 5, 10, 20, 50, ... ns that keeps ticks kTickDistance apart.
TickStep tick_step(Nanoseconds span_ns) {
  const Nanoseconds least = span_ns / (kPlotWidth / kTickDistance);
  TickStep power;
  for (;; power = {power.ns * 10, power.exponent + 1}) {
    for (const int digit : {1, 2, 5}) {
      if (digit * power.ns >= least) return {digit * power.ns, power.exponent};
    }
  }
}

class TimelinePicture {
 public:
  TimelinePicture(const Program& program, const Trace& trace, const std::vector<Band>& bands)
      : program_(program), trace_(trace), bands_(bands) {
    for (const EventTimes& event : trace.events) {
      if (is_shown(event)) scale_.span_ns = std::max(scale_.span_ns, event.end_ns);
    }
  }

  std::string draw() {
    const int bottom = plot_bottom();
    const int height = bottom + kAxisHeight;
    append(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
        "viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\" font-size=\"11\">\n"
        "<title>{2}</title>\n<rect width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>\n",
        kWidth, height, xml_escaped(program_.name.empty() ? "timeline" : program_.name));
    draw_legend();
    int y = kLegendHeight;
    for (const Band& band : bands_) y = draw_band(band, y);
    draw_axis(bottom);
    append("</svg>\n");
    return std::move(out_);
  }

 private:
  template <class... Args>
  void append(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }

  static std::string pixels(std::int64_t hundredths) {
    return fmt::format("{}.{:02}", hundredths / 100, hundredths % 100);
  }

  int plot_bottom() const {
    int y = kLegendHeight;
    for (const Band& band : bands_) {
      y += kTitleHeight + kBandGap;
      for (const LaneRow& row : band.rows) y += row.height() + kRowGap;
    }
    return y;
  }

  // Draws an entry for each colour that occurs.
  void draw_legend() {
    std::array<bool, kColours> seen{};
    for (const Band& band : bands_) {
      const Body& body = program_.bodies[band.rank->body];
      for (const LaneRow& row : band.rows) {
        for (const std::size_t op : row.ops) seen[colour_of(body, body.ops[op])] = true;
      }
    }
    std::size_t x = kLeft;
    const auto entry = [&](std::string_view name, std::string_view code) {
      append("<rect x=\"{}\" y=\"10\" width=\"12\" height=\"12\" fill=\"{}\"/>", x, code);
      append("<text x=\"{}\" y=\"20\">{}</text>\n", x + 17, name);
      x += 38 + 6 * name.size();
    };
    for (int colour = 0; colour < kColours; ++colour) {
      if (seen[colour]) entry(kPalette[colour].name, kPalette[colour].code);
    }
    entry("idle", kIdle);
  }

  // Returns where the next band begins.
  int draw_band(const Band& band, int y) {
    const Body& body = program_.bodies[band.rank->body];
    append("<g class=\"band\">\n<text x=\"8\" y=\"{}\" font-weight=\"bold\">{}</text>\n", y + 13,
           xml_escaped(title_of(body, *band.rank)));
    y += kTitleHeight;
    for (const LaneRow& row : band.rows) {
      append("<text x=\"{}\" y=\"{}\" font-size=\"{}\" text-anchor=\"end\">{}</text>\n", kLeft - 6,
             y + row.height() / 2 + (row.lane == 0 ? 4 : 3), row.lane == 0 ? 11 : 9,
             xml_escaped(shortened(body.lanes[row.lane].name, 12)));
      append("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"/>\n", kLeft, y,
             kPlotWidth, row.height(), kIdle);
      draw_blocks(band, row, y);
      if (row.lane == 0) draw_actions(band, row, y);
      y += row.height() + kRowGap;
    }
    append("</g>\n");
    return y + kBandGap;
  }

  // Returns the event's block, at least a hundredth of a pixel wide and inside the plot.
  BusySpan block_of(const EventTimes& event) const {
    const std::int64_t end = std::max<std::int64_t>(scale_.hundredths(event.end_ns), 1);
    return {std::min(scale_.hundredths(event.start_ns), end - 1), end};
  }

  void draw_blocks(const Band& band, const LaneRow& row, int y) {
    const Body& body = program_.bodies[band.rank->body];
    const auto events = trace_.events_of(program_, *band.rank);
    Merger merger;
    for (const std::size_t op : row.ops)
      merger.add(block_of(events[op]), events[op].end_ns - events[op].start_ns,
                 colour_of(body, body.ops[op]));
    const BlocksByColour blocks = merger.finish();
    for (int colour = 0; colour < kColours; ++colour) {
      if (blocks[colour].empty()) continue;
      append(
          "<path transform=\"translate({} {}) scale(.01 1)\" stroke=\"{}\" stroke-width=\"{}\" "
          "d=\"M0 {}",
          kLeft, y, kPalette[colour].code, row.height(), row.height() / 2.0);
      std::int64_t at = 0;
      for (const BusySpan& block : blocks[colour]) {
        if (block.begin != at) append("m{} 0", block.begin - at);
        append("h{}", block.width());
        at = block.end;
      }
      append("\"/>\n");
    }
  }

  // Draws white lines between actions that touch, and writes their microbatches. An action is a run
  // of events of one stage, kind and microbatch.
  void draw_actions(const Band& band, const LaneRow& row, int y) {
    const Body& body = program_.bodies[band.rank->body];
    const auto events = trace_.events_of(program_, *band.rank);
    const auto same = [&](std::size_t a, std::size_t b) {
      const Op &left = body.ops[a], &right = body.ops[b];
      return left.stage == right.stage && left.kind == right.kind &&
             left.microbatch == right.microbatch;
    };
    std::string lines, labels;
    BusySpan before;
    for (std::size_t i = 0; i < row.ops.size();) {
      const std::size_t first = i;
      BusySpan action = block_of(events[row.ops[first]]);
      for (++i; i < row.ops.size() && same(row.ops[first], row.ops[i]); ++i)
        action.end = std::max(action.end, block_of(events[row.ops[i]]).end);
      const bool touch = action.begin - before.end < kThird;
      if (touch && std::min(before.width(), action.width()) >= kSeparated)
        lines += fmt::format("M{} {}v{}", pixels(kLeft * 100 + action.begin), y, kComputeHeight);
      before = action;
      const std::int32_t microbatch = body.ops[row.ops[first]].microbatch;
      const std::string text = std::to_string(microbatch);
      const auto label_width = static_cast<std::int64_t>(text.size()) * kDigit + 300;
      if (microbatch >= 0 && action.width() >= std::max(kLabelled, label_width))
        labels += fmt::format("<text x=\"{}\" y=\"{}\">{}</text>",
                              pixels(kLeft * 100 + (action.begin + action.end) / 2), y + 14, text);
    }
    if (!lines.empty()) append("<path stroke=\"#ffffff\" d=\"{}\"/>\n", lines);
    if (!labels.empty()) append("<g font-size=\"10\" text-anchor=\"middle\">{}</g>\n", labels);
  }

  void draw_axis(int y) {
    const auto [step, exponent] = tick_step(scale_.span_ns);
    const bool is_seconds = scale_.span_ns >= 1'000'000'000;
    const double unit_ns = is_seconds ? 1e9 : 1e6;
    const int decimals = std::max(0, (is_seconds ? 9 : 6) - exponent);
    append("<g class=\"axis\" text-anchor=\"middle\">\n");
    append("<path stroke=\"#555555\" d=\"M{} {}.5h{}\"/>\n", kLeft, y, kPlotWidth);
    for (Nanoseconds tick = 0; tick <= scale_.span_ns; tick += step) {
      const std::string x = pixels(kLeft * 100 + scale_.hundredths(tick));
      append("<path stroke=\"#555555\" d=\"M{} {}v5\"/>", x, y);
      append("<text x=\"{}\" y=\"{}\">{:.{}f} {}</text>\n", x, y + 18,
             static_cast<double>(tick) / unit_ns, decimals, is_seconds ? "s" : "ms");
    }
    append("</g>\n");
  }

  const Program& program_;
  const Trace& trace_;
  const std::vector<Band>& bands_;
  Scale scale_;
  std::string out_;
};

}  // namespace

Result<std::string> svg_text(const Program& program, const Trace& trace) {
  const std::vector<Band> bands = bands_of(program, trace);
  std::size_t rows = 0;
  for (const Band& band : bands) rows += band.rows.size();
  if (bands.size() > kRanksMax || rows > kRowsMax)
    return Error{
        fmt::format("found {} ranks with {} rows (a row a lane), expected at most {} ranks and {} "
                    "rows for a picture: play equal ranks folded, or write the trace for Perfetto",
                    bands.size(), rows, kRanksMax, kRowsMax)};
  return TimelinePicture(program, trace, bands).draw();
}

Status write_svg(const Program& program, const Trace& trace, const std::string& path) {
  const Result<std::string> text = svg_text(program, trace);
  if (!text.ok()) return Error::at(path, text.error().message);
  return write_file(path, *text);
}

}  // namespace tandem
