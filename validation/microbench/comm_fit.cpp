#include "validation/microbench/comm_fit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <tuple>

#include "base/quantile.h"
#include "base/units.h"

namespace tandem {
namespace {

// A measured time: an operation of this size, with x bytes on the bus, took t seconds.
struct CommSample {
  Bytes bytes;
  double x, t;
};

struct Line {
  double latency_s = 0;
  double slope = 0;  // seconds a byte on the bus
};

// Fits a line by least squares of the relative errors: minimizes the sum of
// (latency + slope x - t)^2 / t^2. With u = 1 / t and v = x / t this is the sum of
// (latency u + slope v - 1)^2; the code solves its normal equations by Cramer's rule.
Line least_squares(std::span<const CommSample> points) {
  double uu = 0, uv = 0, vv = 0, u1 = 0, v1 = 0;
  for (const CommSample& point : points) {
    const double u = 1 / point.t, v = point.x / point.t;
    uu += u * u;
    uv += u * v;
    vv += v * v;
    u1 += u;
    v1 += v;
  }
  const double determinant = uu * vv - uv * uv;
  const Line line{(u1 * vv - v1 * uv) / determinant, (v1 * uu - u1 * uv) / determinant};
  return line.latency_s >= 0 ? line : Line{0, v1 / vv};
}

}  // namespace

Result<std::vector<CommFit>> fit(const std::vector<CommTable>& tables) {
  std::map<std::tuple<CommKind, int, int>, std::vector<CommSample>> groups;
  for (const CommTable& table : tables) {
    std::vector<CommSample>& points = groups[{table.test.kind, table.ranks(), table.nodes}];
    const double factor = bus_factor(table.test.kind, table.ranks());
    for (const CommRow& row : table.rows)
      points.push_back({row.size.bytes, factor * static_cast<double>(row.size.bytes), row.seconds});
  }
  std::vector<CommFit> fits;
  for (const auto& [key, points] : groups) {
    const auto& [kind, ranks, nodes] = key;
    std::set<Bytes> sizes;
    for (const CommSample& point : points) sizes.insert(point.bytes);
    const std::string what = fmt::format("{} of {} ranks on {} node{}", comm_kind_name(kind), ranks,
                                         nodes, nodes > 1 ? "s" : "");
    if (sizes.size() < 2)
      return Error{fmt::format("found one size of {}, expected two or more", what)};
    const Line line = least_squares(points);
    if (!(line.slope > 0) || !std::isfinite(line.slope))
      return Error{fmt::format("found times of {} that do not grow with the size, expected "
                               "larger messages",
                               what),
                   Error::Failed};
    CommFit& own = fits.emplace_back();
    own.row = {kind, ranks, nodes, line.latency_s, 1 / line.slope};
    own.sizes.assign(sizes.begin(), sizes.end());
    for (const CommSample& point : points)
      own.worst_error = std::max(
          own.worst_error, std::abs(line.latency_s + line.slope * point.x - point.t) / point.t);
  }
  return fits;
}

std::vector<SizeErrors> errors_by_size(const CommFit& fit, std::span<const JudgedTime> times) {
  constexpr Bytes kKiB = 1 << 10, kMiB = 1 << 20, kAny = std::numeric_limits<Bytes>::max();
  struct SizeRange {
    const char* name;
    Bytes above, up_to;
  };
  constexpr SizeRange kRanges[] = {{kAllSizes, -1, kAny},
                                   {"up to 64 KiB", -1, 64 * kKiB},
                                   {"up to 1 MiB", 64 * kKiB, kMiB},
                                   {"up to 16 MiB", kMiB, 16 * kMiB},
                                   {"up to 256 MiB", 16 * kMiB, 256 * kMiB},
                                   {"above 256 MiB", 256 * kMiB, kAny}};
  std::vector<SizeErrors> all;
  for (const SizeRange& range : kRanges) {
    std::vector<double> fitted, before;
    for (const JudgedTime& time : times) {
      if (time.bytes <= range.above || time.bytes > range.up_to) continue;
      const double s =
          fit.row.latency_s + fit.row.seconds_per_byte() * static_cast<double>(time.bytes);
      fitted.push_back(std::abs(s / time.measured_s - 1));
      before.push_back(std::abs(time.before_s / time.measured_s - 1));
    }
    if (!fitted.empty())
      all.push_back({range.name, fitted.size(), median(fitted), std::ranges::max(fitted),
                     median(before), std::ranges::max(before)});
  }
  return all;
}

std::string calibration_text(const std::vector<CommFit>& fits, const std::string& by,
                             const std::vector<std::pair<std::string, std::string>>& origin) {
  std::string text = fmt::format(
      "# What operations take alone: latency + bytes x factor / bus bandwidth, bytes and factor "
      "as\n"
      "# nccl-tests has them. Fitted by {}; cluster.calibration names this file.\n",
      by);
  for (const auto& [key, value] : origin) text += fmt::format("{} = {}\n", key, value);
  for (const CommFit& fit : fits) {
    text += fmt::format("\n[[fit]]\nop = \"{}\"\nranks = {}\nnodes = {}\n",
                        comm_kind_name(fit.row.kind), fit.row.ranks, fit.row.nodes);
    text += fmt::format("latency_us = {:.9g}\nbusbw_GBps = {:.12g}\n", 1e6 * fit.row.latency_s,
                        fit.row.bus_bytes_per_s / GB);
    text += fmt::format("worst_error_percent = {:.3g}\nsizes = [{}]\n", 100 * fit.worst_error,
                        fmt::join(fit.sizes, ", "));
  }
  return text;
}

}  // namespace tandem
