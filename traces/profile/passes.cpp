// Cuts a profile down to the kernels of some passes (such as 6F3: stage 6, forward, microbatch 3)
// and to the communication that runs meanwhile. Times then count from the first of these kernels.
#include "traces/profile/passes.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/split.h"
#include "traces/profile/finish_rank.h"
#include "traces/profile/kernel_names.h"

namespace tandem {
namespace {

Result<ProfileAction> pass_named(std::string_view text) {
  const std::optional<ProfileAction> pass = action_of(fmt::format("PP:{}", text));
  if (pass && pass->stage >= 0 && pass->microbatch >= 0) return *pass;
  return Error{
      fmt::format("--only-passes: found '{}', expected a stage, F, B, I or W, and a "
                  "microbatch, such as 6F3: tandem schedule writes them",
                  text)};
}

bool is_pass(const ProfileRank& rank, const ProfileKernel& kernel, const ProfileAction& pass) {
  if (kernel.action < 0) return false;
  const ProfileAction& action = rank.actions[static_cast<std::size_t>(kernel.action)];
  return action.phase == pass.phase && action.stage == pass.stage &&
         action.microbatch == pass.microbatch;
}

// Returns whether the rank has a kernel of the pass.
bool ran(const ProfileRank& rank, const ProfileAction& pass) {
  return std::ranges::any_of(
      rank.kernels, [&](const ProfileKernel& kernel) { return is_pass(rank, kernel, pass); });
}

void keep_passes(const std::vector<ProfileAction>& passes, ProfileRank* rank) {
  const auto is_one = [&](const ProfileKernel& kernel) {
    return std::ranges::any_of(
        passes, [&](const ProfileAction& pass) { return is_pass(*rank, kernel, pass); });
  };
  Nanoseconds begin = 0, end = 0;
  for (const ProfileKernel& kernel : rank->kernels) {  // by start
    if (!is_one(kernel)) continue;
    if (end == 0) begin = kernel.start_ns;
    end = std::max(end, kernel.end_ns);
  }
  std::erase_if(rank->kernels, [&](const ProfileKernel& kernel) {
    const bool goes_on_meanwhile = kernel.activity == Activity::Communication &&
                                   kernel.start_ns >= begin && kernel.end_ns <= end;
    return !goes_on_meanwhile && !is_one(kernel);
  });
  rank->steps.clear();
  rank->annotations.clear();
  shift(-begin, rank);
}

}  // namespace

Result<std::vector<ProfileAction>> passes_named(std::string_view text) {
  std::vector<ProfileAction> passes;
  for (const std::string& part : split(text, ",")) {
    ASSIGN_OR_RETURN(const ProfileAction pass, pass_named(part));
    passes.push_back(pass);
  }
  return passes;
}

Result<Profile> only_passes(Profile profile, const std::vector<ProfileAction>& passes) {
  std::erase_if(profile.ranks, [&](const ProfileRank& rank) {
    return !std::ranges::all_of(passes, [&](const ProfileAction& pass) { return ran(rank, pass); });
  });
  if (profile.ranks.empty())
    return Error{
        "--only-passes: found no rank that ran all of them, expected one: tandem schedule "
        "shows which run on one rank"};
  for (ProfileRank& rank : profile.ranks) keep_passes(passes, &rank);
  return profile;
}

}  // namespace tandem
