// Space: the plans that a search chooses among.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "scenarios/config/scenario.h"
#include "schedule/order/named_orders.h"
#include "workload/model/model.h"

namespace tandem {

struct Framework;

// A choice that is left as the scenario has it: of keys that a search changes only where somebody
// names them.
constexpr int kAsScenario = -1;
constexpr int chosen(int choice, int of_scenario) {
  return choice == kAsScenario ? of_scenario : choice;
}

// How the model is cut over the GPUs, and what a stage's passes do: all that a stage's times depend
// on.
struct Layout {
  int tp = 1, cp = 1, ep = 1, expert_tp = 0, pp = 1, dp = 1, vpp = 1, micro_batch = 1;
  Recompute recompute = Recompute::None;
  bool sequence_parallel = false;
  TensorMethod tensor = TensorMethod::Off;
  bool overlap_context = false;
  bool scatter_gather = false;
  int precision = kAsScenario, fp8_recipe = kAsScenario;  // by their place (layout_keys.h)
  int dispatcher = kAsScenario;                           // the same
  int recompute_modules = kAsScenario;                    // a bit each (modules_of)

  int stages() const { return pp * vpp; }
  int block() const { return tp * cp * dp; }  // GPUs of a pipeline rank

  auto operator<=>(const Layout&) const = default;
};

// In which order the stages' passes are played, and whether transfers overlap.
struct Playing {
  std::string_view order;  // as the table has it: it lives as long as that
  bool overlap_p2p = false;

  bool operator==(const Playing&) const = default;
};

// What the data-parallel ranks share, and when they talk of it.
struct Sharing {
  int zero = 0;
  bool grad_reduce = false, param_gather = false;
  int hsdp_shard = kAsScenario, zero_hpz = kAsScenario;  // GPUs; 0: all, and none

  bool operator==(const Sharing&) const = default;
};

struct Candidate {
  Layout layout;
  Playing playing;
  Sharing sharing;

  bool operator==(const Candidate&) const = default;
};

// The values that a search may choose, by scenario key; where a key does not concern a plan, its
// values do not exclude it. A key that is not named may take all that the rules allow, but for
// those of refinements (planning/tune/refinement.h) and those that are as the scenario has them
// where nobody names them. Errors name the nearest key or value.
class Space {
 public:
  // "parallel.tp=1,2,4". Orders are those of the table.
  static Result<Space> among(const std::vector<std::string>& texts,
                             std::span<const OrderTraits> orders = named_orders());
  static std::vector<std::string> keys();
  // Those that are chosen where nobody names them, and those of refinements.
  static std::vector<std::string> own_keys();
  // Of these, those with one of these values.
  Space only(const std::string& key, const std::vector<std::string>& values) const;
  // Of these, those that the framework runs. REQUIRES: it outlives the space.
  Space run_by(const Framework& framework) const;

  // The key's values, where somebody names some: by all that do.
  std::vector<std::string> named(std::string_view key) const;

  // Whether plans may have the refinement's key (planning/tune/refinement.h) on, or off. Where
  // nobody names the key it is off.
  bool refines(std::string_view key, bool on) const;

  // The cuts of the scenario's model and batch over its GPUs: tp, cp, pp, dp, expert_tp and ep,
  // whether the sequence is cut, precision, recipe and dispatcher, and for the rest what a layout
  // has by itself. Some have no layout.
  std::vector<Layout> cuts(const Scenario& base) const;
  // Every layout of a cut that keeps the rules (check() of model.h), in one fixed order. Experts'
  // communication beside compute, the kind of context communication and all else is as the scenario
  // has it.
  std::vector<Layout> layouts(const Scenario& base, const Layout& cut) const;
  // The cut by each micro batch: what tells its kernels apart if nothing is computed twice. Rules
  // are not asked.
  std::vector<Layout> micro_batches(const Scenario& base, const Layout& cut) const;
  // The orders that the scenario may name for the layout's pp, vpp and microbatches.
  std::vector<const OrderTraits*> orders(const Scenario& base, const Layout& layout) const;
  // How a layout can be played, by its orders() or by those given.
  std::vector<Playing> playings(const Scenario& base, const Layout& layout) const;
  std::vector<Playing> playings(const Scenario& base, const Layout& layout,
                                std::span<const OrderTraits* const> orders) const;
  std::vector<Sharing> sharings(const Scenario& base, const Layout& layout,
                                const Playing& playing) const;
  bool has(const Scenario& base, const Candidate& candidate) const;

  // Says why a space has no plans: which named values, or which rule, excluded them, and how many.
  // It stops counting soon enough to take only a moment.
  std::string what_excludes(const Scenario& base) const;

 private:
  struct Only {
    std::string key;
    std::vector<std::string> values;
    bool by_framework = false;
  };
  // Counts layouts that could be: plans, and those that the model's rules refuse, by their key.
  struct Counted {
    std::int64_t plans = 0;
    std::map<std::string, std::pair<std::int64_t, std::string>> refused;
  };

  bool names(std::string_view key) const;
  bool allows(std::string_view key, const std::string& value) const;
  // The numbers of a key of Sharing's that only a named one has.
  std::vector<int> numbers(std::string_view key) const;
  // Every choice of those of the layout's numbers that `chooses` names, until `visit` says false.
  void for_each(const Scenario& base, Layout layout,
                const std::function<bool(std::string_view key)>& chooses,
                const std::function<bool(const Layout&)>& visit) const;
  Counted counted(const Scenario& base) const;
  Space without(const std::function<bool(const Only&)>& is_left_out) const;
  // Whether the framework, if any, runs plans with this part of a candidate.
  bool runs(const Scenario& base, const Candidate& candidate, int part) const;

  const Framework* framework_ = nullptr;
  std::vector<Only> only_;
};

// Whether the candidate has what the key is about, so that its values differ: with tp = 1 there is
// nothing that train.sequence_parallel could cut.
bool concerns(const Scenario& base, const Candidate& candidate, std::string_view key);
// What becomes of the scenario's plan.
Plan plan_of(const Scenario& base, const Candidate& candidate);
// The scenario with the candidate's plan in place of its own.
Scenario with(const Scenario& base, const Candidate& candidate);
// The same plan as keys and values of a scenario: "parallel.tp", "8".
std::vector<std::pair<std::string, std::string>> settings_of(const Candidate& candidate);
// A line: "tp 8 pp 4 vpp 2 dp 2 mb 1 order interleaved recompute selective sp overlap p2p".
std::string text_of(const Candidate& candidate);
// What the scenario's own plan is in the space.
Candidate candidate_of(const Scenario& scenario);

}  // namespace tandem
