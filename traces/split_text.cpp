#include "traces/split_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <sstream>
#include <utility>
#include <vector>

#include "base/csv.h"

namespace tandem {
namespace {

// Returns the words of a group kind, each with the field that it names: "data_comm_ns" with
// &split.comm_ns[Data].
template <class Split>  // RankSplit, const or not
auto numbers_of(Split& split, int group_kind) {
  const std::string_view kind = group_kind_name(static_cast<GroupKind>(group_kind));
  return std::vector{std::pair{fmt::format("{}_exposed_ns", kind), &split.exposed_ns[group_kind]},
                     std::pair{fmt::format("{}_comm_ns", kind), &split.comm_ns[group_kind]},
                     std::pair{fmt::format("{}_overlap_ns", kind), &split.overlap_ns[group_kind]}};
}

// Returns the number that a word names, or null for an unknown word.
Nanoseconds* number_named(std::string_view word, RankSplit* split) {
  if (word == "compute_ns") return &split->compute_ns;
  if (word == "bubble_ns") return &split->bubble_ns;
  for (int group_kind = 0; group_kind < kGroupKinds; ++group_kind) {
    for (const auto& [key, number] : numbers_of(*split, group_kind)) {
      if (key == word) return number;
    }
  }
  return nullptr;
}

}  // namespace

std::string split_text(const RankSplit& split) {
  std::string text = split.multiplicity > 1 ? fmt::format("ranks={} ", split.multiplicity) : "";
  text += fmt::format("compute_ns={} bubble_ns={}", split.compute_ns, split.bubble_ns);
  for (int group_kind = 0; group_kind < kGroupKinds; ++group_kind) {
    if (split.comm_ns[group_kind] == 0) continue;
    for (const auto& [key, number] : numbers_of(split, group_kind))
      text += fmt::format(" {}={}", key, *number);
  }
  return text;
}

Result<RankSplit> parse_split(Rank rank, std::string_view text) {
  RankSplit split;
  split.rank = rank;
  std::istringstream words{std::string(text)};
  for (std::string word; words >> word;) {
    const auto sign = std::find(word.begin(), word.end(), '=');
    const std::string key(word.begin(), sign);
    const Result<std::int64_t> value =
        parse_integer(sign == word.end() ? "" : std::string(sign + 1, word.end()));
    Nanoseconds* const number = number_named(key, &split);
    if (key == "ranks" && value.ok() && 0 < *value && *value <= std::numeric_limits<int>::max()) {
      split.multiplicity = static_cast<int>(*value);
    } else if (number != nullptr && value.ok() && *value >= 0) {
      *number = *value;
    } else {
      return Error{fmt::format("found '{}', expected as in 'compute_ns=60 bubble_ns=30'", word)};
    }
  }
  return split;
}

}  // namespace tandem
