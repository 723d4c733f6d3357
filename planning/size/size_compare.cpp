// Compares sized candidates: which are ruled out by deadline or budget, which are on the frontier
// of days and cost, which is the cheapest, and how that changes if an input changes.
#include "planning/size/size_compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

namespace tandem {
namespace {

// Returns the factors of the iteration between which 90 % of real runs lie; 1 and 1: not known.
std::pair<double, double> interval_of(const RunResult& result) {
  if (!result.interval_s) return {1, 1};
  return {result.interval_s->first / result.iteration_s,
          result.interval_s->second / result.iteration_s};
}

// Returns the candidate's time and cost if iterations took `iteration_factor` times as long.
Economics economics_of(const SizeCase& c, const SizedCandidate& sized,
                       double iteration_factor = 1) {
  const RunResult& result = *sized.result;
  const double tokens =
      static_cast<double>(c.scenario.job.plan.global_batch) * c.scenario.job.model.seq;
  return economics(c.inputs, sized.gpus, c.scenario.cluster.spec.gpus_per_node, tokens,
                   result.iteration_s * iteration_factor, sized.ramp_s * iteration_factor,
                   interval_of(result));
}

std::string why_ruled_out(const SizeInputs& inputs, const Economics& e) {
  if (inputs.spare_nodes < 0 && e.available < kWantedAvailability)
    return "nodes fail faster than they are repaired";
  if (e.days_p95() > inputs.days) return fmt::format("later than {:g} days", inputs.days);
  if (inputs.budget > 0 && e.cost > inputs.budget) return "above the budget";
  return "";
}

// Returns the index of the job's cheapest candidate that is not ruled out; -1: there is none.
int cheapest(const std::vector<SizedCandidate>& sized, const std::string& job,
             const std::vector<Economics>& all, const std::vector<std::string>& reasons) {
  int best = -1;
  for (std::size_t i = 0; i < sized.size(); ++i) {
    if (sized[i].job != job || !reasons[i].empty()) continue;
    if (best < 0 || all[i].cost < all[best].cost) best = static_cast<int>(i);
  }
  return best;
}

bool is_possible(const SizedCandidate& candidate) {
  return candidate.result && candidate.result->training->fits;
}

void mark_frontier(std::vector<SizedCandidate>* sized) {
  for (SizedCandidate& one : *sized) {
    if (!is_possible(one)) continue;
    one.on_frontier = std::ranges::none_of(*sized, [&](const SizedCandidate& other) {
      if (other.job != one.job || !is_possible(other)) return false;
      const Economics &a = other.economics, &b = one.economics;
      return a.wall.p95_s <= b.wall.p95_s && a.cost <= b.cost &&
             (a.wall.p95_s < b.wall.p95_s || a.cost < b.cost);
    });
  }
}

// A change of one input. It changes the inputs, or the iteration by a factor. The factor is the
// same for all candidates, or with `nics` the one that each candidate was played for.
struct InputVariation {
  const char* input;
  void (*apply)(SizeInputs*);
  double iteration_factor = 1;
  double SizedCandidate::*nics = nullptr;
};

const std::vector<InputVariation>& input_variations() {
  static const std::vector<InputVariation> kChanges = {
      {"the iteration +10 %", [](SizeInputs*) {}, 1.1},
      {"the iteration -10 %", [](SizeInputs*) {}, 0.9},
      {"NIC bandwidth -10 %", [](SizeInputs*) {}, 1, &SizedCandidate::slower_nics},
      {"NIC bandwidth +10 %", [](SizeInputs*) {}, 1, &SizedCandidate::faster_nics},
      {"size.tokens_T +10 %", [](SizeInputs* s) { s->tokens *= 1.1; }},
      {"price of a node +10 %", [](SizeInputs* s) { s->node_hour *= 1.1, s->node *= 1.1; }},
      {"price.kWh +10 %", [](SizeInputs* s) { s->kWh *= 1.1; }},
      {"failures twice as often", [](SizeInputs* s) { s->failures.gpu_mtbf_h /= 2; }},
      {"failures half as often", [](SizeInputs* s) { s->failures.gpu_mtbf_h *= 2; }},
      {"failures.checkpoint_s x 2", [](SizeInputs* s) { s->failures.checkpoint_s *= 2; }},
      {"failures.restart_s x 2", [](SizeInputs* s) { s->failures.restart_s *= 2; }},
      {"failures.repair_hours x 2", [](SizeInputs* s) { s->failures.repair_h *= 2; }},
  };
  return kChanges;
}

}  // namespace

void set_economics(const std::vector<SizeCase>& cases, std::vector<SizedCandidate>* sized) {
  std::vector<Economics> all;
  std::vector<std::string> reasons;
  for (std::size_t i = 0; i < sized->size(); ++i) {
    SizedCandidate& one = (*sized)[i];
    if (one.result) {
      one.economics = economics_of(cases[i], one);
      one.reason = one.result->training->fits ? why_ruled_out(cases[i].inputs, one.economics)
                                              : "does not fit into memory";
    }
    all.push_back(one.economics);
    reasons.push_back(one.reason);
  }
  mark_frontier(sized);
  // A job with several candidates is looked at several times, with the same answer.
  for (const SizedCandidate& candidate : *sized) {
    const int best = cheapest(*sized, candidate.job, all, reasons);
    if (best >= 0) (*sized)[best].recommended = true;
  }
}

std::vector<InputChange> input_changes(const std::vector<SizeCase>& cases,
                                       const std::vector<SizedCandidate>& sized) {
  std::vector<InputChange> all;
  for (std::size_t chosen = 0; chosen < sized.size(); ++chosen) {
    if (!sized[chosen].recommended) continue;
    const Economics& before = sized[chosen].economics;
    for (const InputVariation& change : input_variations()) {
      std::vector<Economics> after(sized.size());
      std::vector<std::string> reasons(sized.size(), "out");
      for (std::size_t i = 0; i < sized.size(); ++i) {
        if (sized[i].job != sized[chosen].job || !is_possible(sized[i])) continue;
        SizeCase changed = cases[i];
        change.apply(&changed.inputs);
        const double iteration_factor =
            change.nics != nullptr ? sized[i].*change.nics : change.iteration_factor;
        after[i] = economics_of(changed, sized[i], iteration_factor);
        reasons[i] = why_ruled_out(changed.inputs, after[i]);
      }
      const int now = cheapest(sized, sized[chosen].job, after, reasons);
      InputChange s{sized[chosen].job, change.input,
                    after[chosen].wall.p95_s / before.wall.p95_s - 1,
                    after[chosen].cost / before.cost - 1, ""};
      if (now < 0) s.recommended = "none is in time and budget";
      if (now >= 0 && static_cast<std::size_t>(now) != chosen)
        s.recommended = fmt::format("{}, {} GPUs", sized[now].candidate, sized[now].gpus);
      all.push_back(std::move(s));
    }
  }
  return all;
}

std::vector<NetworkComparison> network_comparisons(const std::vector<SizeCase>& cases,
                                                   const std::vector<SizedCandidate>& sized) {
  std::vector<NetworkComparison> all;
  const auto cluster = [&](std::size_t i) -> const ClusterSpec& {
    return cases[i].scenario.cluster.spec;
  };
  for (std::size_t i = 0; i < sized.size(); ++i) {
    if (!sized[i].result) continue;
    std::size_t best = i;
    for (std::size_t j = 0; j < sized.size(); ++j) {
      const bool alike = sized[j].result && sized[j].job == sized[i].job &&
                         sized[j].gpus == sized[i].gpus &&
                         cluster(j).device.name == cluster(i).device.name &&
                         cluster(j).gpus_per_node == cluster(i).gpus_per_node;
      if (alike && sized[j].result->iteration_s < sized[best].result->iteration_s) best = j;
    }
    if (best == i) continue;
    all.push_back({sized[i].job, sized[i].candidate, sized[best].candidate, sized[i].gpus,
                   sized[i].result->iteration_s / sized[best].result->iteration_s});
  }
  return all;
}

}  // namespace tandem
