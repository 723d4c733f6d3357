#include "traces/profile/op_keys.h"

#include <fmt/format.h>

#include <algorithm>

#include "traces/profile/kernel_names.h"
#include "traces/profile/simulated_profile.h"

namespace tandem {

PassPhase phase_of(OpKind kind) {
  constexpr PassPhase kPhases[] = {PassPhase::Forward, PassPhase::Backward,
                                   PassPhase::BackwardInput,
                                   PassPhase::BackwardWeight};  // by OpKind
  const auto drawn = static_cast<std::size_t>(drawn_as(kind));
  return drawn < std::size(kPhases) ? kPhases[drawn] : PassPhase::Step;
}

int step_of(const ProfileRank& rank, const ProfileKernel& kernel) {
  const Nanoseconds at = kernel.launch >= 0 ? rank.launches[kernel.launch].at_ns : kernel.start_ns;
  const auto after = std::ranges::upper_bound(rank.steps, at, {}, &ProfileStep::start_ns);
  return static_cast<int>(after - rank.steps.begin());
}

CommLabel label_of(const Body& body, const Op& op) {
  const CommKind comm = comm_kind(op.kind);
  const bool is_transfer = comm == CommKind::SendRecv || comm == CommKind::RingShift;
  return {body.slots[op.slot].group_kind,
          is_transfer ? "send/recv" : std::string(op_kind_name(op.kind))};
}

std::string ranks_of(const ProfileRank& rank, const ProfileKernel& kernel) {
  if (kernel.collective < 0) return "";
  const CollectiveArgs& args = rank.collectives[kernel.collective];
  if (args.from >= 0 && args.to >= 0) return fmt::format("{}>{}", args.from, args.to);
  return rank.names.text(args.ranks);
}

std::string ranks_of(const Program& program, int rank, const Op& op) {
  const std::vector<Rank>& members =
      program.communicators[program.ranks[rank].communicators[op.slot]].members;
  if (op.kind == OpKind::Send || op.kind == OpKind::Recv)
    return fmt::format("{}>{}", index(members.front()), index(members.back()));
  return ranks_text(members);
}

std::vector<CommKey> keys_in_profile(const CommKey& op) {
  const auto& [label, ranks] = op;
  const CommLabel of_any{std::nullopt, label.collective};
  std::vector<CommKey> keys = {{label, ranks}, {of_any, ranks}, {label, ""}, {of_any, ""}};
  // Without arguments a kernel's name is all that is known.
  const std::string by_kernel = collective_of("", "SendRecv");
  if (by_kernel.find(label.collective) != std::string::npos)
    keys.push_back({{std::nullopt, by_kernel}, ""});
  return keys;
}

}  // namespace tandem
