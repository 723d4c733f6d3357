// A table of rules of thumb: their source, the scenarios that they are about, and a test of a
// layout. For each rule, a search later reports whether the best plan keeps it.
#include "planning/tune/rules.h"

#include <algorithm>
#include <string>
#include <vector>

namespace tandem {
namespace {

constexpr double kParametersAGpu = 4e9;
constexpr int kMostTensorParallel = 8;
constexpr std::string_view kChatLearn = "ChatLearn", kMegatron = "Megatron-LM";

using S = const Scenario&;
using L = const Layout&;

constexpr auto kAlways = [](S) { return true; };
constexpr auto kExperts = [](S s) { return s.job.model.is_moe(); };
constexpr auto kShort = [](S s) { return s.job.model.seq < kLongSequence; };
constexpr auto kLong = [](S s) { return s.job.model.seq >= kLongSequence; };

// Whether a GPU has about 4 billion parameters, within a factor of two, since sizes are powers of
// two. A model that is smaller on one GPU keeps the rule.
bool about_4b(S s, L l) {
  const double share = parameters(s.job.model) / (static_cast<double>(l.tp) * l.pp * l.ep);
  return share <= 2 * kParametersAGpu && (share >= kParametersAGpu / 2 || l.tp * l.pp * l.ep == 1);
}

const Rule kRules[] = {
    {"about 4 B parameters a GPU", kChatLearn, kAlways, about_4b},
    {"tp inside a node", kMegatron, kAlways,
     [](S s, L l) { return s.cluster.spec.gpus_per_node % l.tp == 0; }},
    {"tp up to 8, then pp", kChatLearn, kAlways,
     [](S s, L l) {
       return l.pp == 1 || l.tp >= std::min(kMostTensorParallel, s.cluster.spec.gpus_per_node);
     }},
    {"no cp below a sequence of 8192", kMegatron, kShort, [](S, L l) { return l.cp == 1; }},
    {"cp from a sequence of 8192", kMegatron, kLong, [](S, L l) { return l.cp > 1; }},
    {"ep rather than expert tp", kMegatron, kExperts, [](S, L l) { return l.expert_tp == 1; }},
    {"vpp with pp", kChatLearn, kAlways, [](S, L l) { return l.pp == 1 || l.vpp > 1; }},
    {"pp below the microbatches", kChatLearn, kAlways,
     [](S s, L l) { return l.pp == 1 || l.pp < l.microbatches(s); }},
    {"micro batch 1", kChatLearn, kAlways, [](S, L l) { return l.micro_batch == 1; }},
    {"no recompute", kChatLearn, kAlways, [](S, L l) { return l.recompute == Recompute::None; }},
};

}  // namespace

std::span<const Rule> rules() { return kRules; }

bool keeps_all(const Scenario& base, const Layout& layout) {
  return std::ranges::all_of(
      kRules, [&](const Rule& rule) { return !rule.applies(base) || rule.holds(base, layout); });
}

Space space_of_likely_plans(const Space& space, const Scenario& base) {
  std::vector<std::string> in_node;
  for (int tp = 1; tp <= base.cluster.spec.gpus_per_node; ++tp)
    in_node.push_back(std::to_string(tp));
  const Space narrow = space.only("parallel.tp", in_node)
                           .only("parallel.micro_batch", {"1", "2"})
                           .only("parallel.expert_tp", {"1"});
  return base.job.model.seq < kLongSequence ? narrow.only("parallel.cp", {"1"}) : narrow;
}

Space space_of_rules(const Space& space, const Scenario& base) {
  const Space narrow = space.only("parallel.micro_batch", {"1"}).only("train.recompute", {"none"});
  return base.job.model.seq < kLongSequence ? narrow.only("parallel.cp", {"1"}) : narrow;
}

}  // namespace tandem
