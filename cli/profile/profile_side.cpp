#include "cli/profile/profile_side.h"

#include <fmt/format.h>

#include "planning/choose/resolve.h"
#include "traces/profile/profile_timeline.h"
#include "traces/timeline_json.h"

namespace tandem {
namespace {

// Returns the ranks' splits as JSON for the page's bars, by kind of communication; "null" if some
// kind is not known.
std::string split_of_side(const ComparedSide& side) {
  std::vector<RankSplit> splits;
  for (const ProfileSplit& from : side.splits) {
    RankSplit split{.rank = Rank{from.rank}, .multiplicity = from.multiplicity};
    split.compute_ns = from.compute_ns;
    split.bubble_ns = from.bubble_ns + from.memory_alone_ns;
    for (const CommTotal& kind : from.kinds) {
      if (!kind.label.kind) return "null";
      split.exposed_ns[static_cast<int>(*kind.label.kind)] += kind.exposed_ns;
    }
    splits.push_back(split);
  }
  return split_json(splits);
}

}  // namespace

Result<Scenario> load_resolved(const std::string& path, const std::vector<std::string>& sets,
                               const std::string& only) {
  ASSIGN_OR_RETURN(const auto parsed, parse_sets(sets));
  ASSIGN_OR_RETURN(const std::vector<Scenario> scenarios, load_scenarios(path, parsed, only));
  ASSIGN_OR_RETURN(const Scenario given, only_run(scenarios, path, "--only"));
  return resolved(given);
}

std::string detail_of_side(const ComparedSide& side, const Profile& profile) {
  return fmt::format("{{\"split\":{},\n\"memory\":null,\n\"timeline\":{}}}", split_of_side(side),
                     timeline_json(profile));
}

}  // namespace tandem
