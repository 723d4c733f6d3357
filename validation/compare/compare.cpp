// Sorts the rows of both traces by rank and op, checks that they are the same ops, and compares the
// durations of each pair. The totals come from the splits in the files' headers.
#include "validation/compare/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>
#include <tuple>

#include "base/quantile.h"

namespace tandem {
namespace {

using Rows = std::vector<const TraceRow*>;

auto place_of(const TraceRow& row) { return std::tuple(row.rank, row.op); }
bool is_before(const TraceRow* a, const TraceRow* b) { return place_of(*a) < place_of(*b); }

Rows in_order(const TraceTable& table) {
  Rows rows;
  for (const TraceRow& row : table.rows) rows.push_back(&row);
  std::sort(rows.begin(), rows.end(), is_before);
  return rows;
}

std::string_view hash_of(std::string_view program) {
  return program.substr(program.find_last_of(' ') + 1);
}

Status check_same_program(const TraceTable& simulated, const TraceTable& measured) {
  for (const TraceTable* table : {&simulated, &measured}) {
    if (meta_value(*table, "program").empty())
      return Error::at(table->path,
                       "found no line '# program: NAME HASH', expected one as Tandem writes it");
  }
  for (const TraceTable* table : {&simulated, &measured}) {
    if (meta_value(*table, "complete") == "no")
      return Error::at(table->path, "found '# complete: no', expected a complete trace");
  }
  const std::string_view expected = meta_value(simulated, "program");
  const std::string_view found = meta_value(measured, "program");
  if (hash_of(expected) == hash_of(found)) return Done{};
  return Error::at(measured.path,
                   fmt::format("found a trace of program '{}', expected '{}' as in {}", found,
                               expected, simulated.path));
}

Status check_no_op_twice(const TraceTable& table, const Rows& rows) {
  const auto twice = std::adjacent_find(
      rows.begin(), rows.end(),
      [](const TraceRow* a, const TraceRow* b) { return place_of(*a) == place_of(*b); });
  if (twice == rows.end()) return Done{};
  return Error::at(table.path, fmt::format("found op {} of rank {} twice, expected it once",
                                           (*twice)->op, index((*twice)->rank)));
}

// Checks that the table has every op of the other trace.
Status check_none_missing(const TraceTable& table, const Rows& rows, const TraceTable& other,
                          const Rows& others) {
  Rows missing;
  std::set_difference(others.begin(), others.end(), rows.begin(), rows.end(),
                      std::back_inserter(missing), is_before);
  for (const TraceRow* row : missing) {
    if (std::ranges::binary_search(rows, row->rank, {}, &TraceRow::rank)) continue;
    const bool is_simulated = !meta_value(table, "engine").empty();
    return Error::at(
        table.path,
        fmt::format("found no rank {}, which {} has, expected all its ranks{}", index(row->rank),
                    other.path, is_simulated ? ": simulate with --unfolded" : ""));
  }
  if (missing.empty()) return Done{};
  const TraceRow& first = *missing.front();
  return Error::at(table.path, fmt::format("found {} ops less than in {}, the first op {} of rank "
                                           "{} ({}), expected a complete trace",
                                           missing.size(), other.path, first.op, index(first.rank),
                                           op_kind_name(first.kind)));
}

std::string description(const TraceRow& row) {
  return fmt::format("{} of stage {}, microbatch {}, part {}, {} bytes on lane {}",
                     op_kind_name(row.kind), row.stage, row.microbatch, row.part, row.bytes,
                     row.lane);
}

Status check_same_op(const TraceTable& simulated, const TraceRow& a, const TraceTable& measured,
                     const TraceRow& b) {
  const auto what = [](const TraceRow& row) {
    return std::tie(row.kind, row.stage, row.microbatch, row.part, row.bytes, row.lane);
  };
  if (what(a) == what(b)) return Done{};
  return Error::at(measured.path,
                   fmt::format("found op {} of rank {} to be {}, expected {} as in {}", b.op,
                               index(b.rank), description(b), description(a), simulated.path));
}

Nanoseconds iteration_of(const TraceTable& table) {
  Nanoseconds begin = std::numeric_limits<Nanoseconds>::max(), end = 0;
  for (const TraceRow& row : table.rows) {
    begin = std::min(begin, row.start_ns);
    end = std::max(end, row.end_ns);
  }
  return table.rows.empty() ? 0 : end - begin;
}

// Checks that there is one split for each rank that has rows. Both are in the order of ranks.
Status check_ranks_of_splits(const TraceTable& table, const Rows& rows,
                             const std::vector<RankSplit>& splits) {
  std::size_t at = 0;  // the splits so far
  for (const TraceRow* row : rows) {
    if (at > 0 && splits[at - 1].rank == row->rank) continue;
    if (at == splits.size() || splits[at].rank != row->rank)
      return Error::at(
          table.path,
          fmt::format(
              "found no line '# split {}: ...', expected one a rank, as a complete trace has them",
              index(row->rank)));
    ++at;
  }
  if (at < splits.size())
    return Error::at(
        table.path,
        fmt::format("found the line '# split {}: ...', expected one for each rank that has rows",
                    index(splits[at].rank)));
  return Done{};
}

// Returns the trace's metrics from its ranks' splits, each of which must add up to the iteration.
Result<TraceTotal> total_of(const TraceTable& table, const Rows& rows) {
  const Nanoseconds iteration_ns = iteration_of(table);
  std::vector<RankSplit> splits = table.splits;
  std::ranges::sort(splits, {}, &RankSplit::rank);
  RETURN_IF_ERROR(check_ranks_of_splits(table, rows, splits));
  for (const RankSplit& split : splits) {
    double sum = static_cast<double>(split.compute_ns) + static_cast<double>(split.bubble_ns);
    for (const Nanoseconds exposed : split.exposed_ns) sum += static_cast<double>(exposed);
    if (sum != static_cast<double>(iteration_ns))
      return Error::at(
          table.path,
          fmt::format(
              "'# split {}': found {:.0f} ns in all, expected {}, the iteration of the rows",
              index(split.rank), sum, iteration_ns));
  }
  return TraceTotal{table.path, table.meta, means_of(std::move(splits), iteration_ns)};
}

OpsSummary summary_of(const std::vector<const OpPair*>& pairs) {
  OpsSummary summary;
  std::vector<double> errors;
  for (const OpPair* pair : pairs) {
    summary.simulated_s += to_seconds(pair->simulated_ns);
    summary.measured_s += to_seconds(pair->measured_ns);
    if (const std::optional<double> error = pair->error()) errors.push_back(std::abs(*error));
  }
  summary.count = static_cast<std::int64_t>(pairs.size());
  summary.with_error = static_cast<std::int64_t>(errors.size());
  if (errors.empty()) return summary;
  summary.median_error = median(errors);
  summary.worst_error = std::ranges::max(errors);
  return summary;
}

void add_summaries(const std::vector<OpPair>& pairs, Comparison* comparison) {
  std::vector<const OpPair*> all;
  std::array<std::vector<const OpPair*>, kOpKinds> by_kind;
  for (const OpPair& pair : pairs) {
    all.push_back(&pair);
    by_kind[static_cast<std::size_t>(pair.kind)].push_back(&pair);
  }
  comparison->ops = summary_of(all);
  for (int kind = 0; kind < kOpKinds; ++kind) {
    if (!by_kind[kind].empty())
      comparison->kinds.emplace_back(static_cast<OpKind>(kind), summary_of(by_kind[kind]));
  }
}

// Adds the pairs with the largest differences. Ties are in order of rank and op.
void add_worst(std::vector<OpPair> pairs, std::size_t count, Comparison* comparison) {
  count = std::min(count, pairs.size());
  std::partial_sort(pairs.begin(), pairs.begin() + static_cast<std::ptrdiff_t>(count), pairs.end(),
                    [](const OpPair& a, const OpPair& b) {
                      return std::tuple(-std::abs(a.difference_ns()), a.rank, a.op) <
                             std::tuple(-std::abs(b.difference_ns()), b.rank, b.op);
                    });
  pairs.resize(count);
  std::erase_if(pairs, [](const OpPair& pair) { return pair.difference_ns() == 0; });
  comparison->worst = std::move(pairs);
}

void add_differences(Comparison* comparison) {
  const Metrics &simulated = comparison->simulated.metrics,
                &measured = comparison->measured.metrics;
  comparison->iteration_error = simulated.iteration_s / measured.iteration_s - 1;
  comparison->bubble_difference = simulated.bubble_fraction - measured.bubble_fraction;
  for (int i = 0; i < kGroupKinds; ++i) {
    if (simulated.comm_s[i] > 0 || measured.comm_s[i] > 0)
      comparison->exposed_difference_s[i] = simulated.exposed_s[i] - measured.exposed_s[i];
    if (simulated.overlap_fraction[i] && measured.overlap_fraction[i])
      comparison->overlap_difference[i] =
          *simulated.overlap_fraction[i] - *measured.overlap_fraction[i];
  }
}

}  // namespace

std::optional<double> OpPair::error() const {
  if (measured_ns < kLeastMeasured_ns) return std::nullopt;
  return static_cast<double>(simulated_ns) / static_cast<double>(measured_ns) - 1;
}

Result<Comparison> compare(const TraceTable& simulated, const TraceTable& measured,
                           std::size_t worst) {
  RETURN_IF_ERROR(check_same_program(simulated, measured));
  const Rows ours = in_order(simulated), theirs = in_order(measured);
  RETURN_IF_ERROR(check_no_op_twice(simulated, ours));
  RETURN_IF_ERROR(check_no_op_twice(measured, theirs));
  RETURN_IF_ERROR(check_none_missing(simulated, ours, measured, theirs));
  RETURN_IF_ERROR(check_none_missing(measured, theirs, simulated, ours));
  std::vector<OpPair> pairs;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const TraceRow &a = *ours[i], &b = *theirs[i];
    RETURN_IF_ERROR(check_same_op(simulated, a, measured, b));
    pairs.push_back({a.rank, a.lane, a.op, a.kind, a.stage, a.microbatch, a.part,
                     a.end_ns - a.start_ns, b.end_ns - b.start_ns});
  }
  Comparison comparison;
  ASSIGN_OR_RETURN(comparison.simulated, total_of(simulated, ours));
  ASSIGN_OR_RETURN(comparison.measured, total_of(measured, theirs));
  if (comparison.measured.metrics.iteration_s == 0)
    return Error::at(measured.path, "found an iteration that takes no time, expected one above 0");
  add_differences(&comparison);
  add_summaries(pairs, &comparison);
  add_worst(std::move(pairs), worst, &comparison);
  return comparison;
}

}  // namespace tandem
