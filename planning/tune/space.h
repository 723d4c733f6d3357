// Space: the set of plans that a search chooses from.
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
#include "scenarios/scenario.h"
#include "schedule/order/named_orders.h"
#include "workload/model/model.h"

namespace tandem {

struct Framework;

// The value of a key that a search changes only where the user names it: it stays as in the
// scenario.
constexpr int kAsScenario = -1;
constexpr int chosen(int choice, int of_scenario) {
  return choice == kAsScenario ? of_scenario : choice;
}

// How the model is cut over the GPUs, and what a stage's passes do: everything that a stage's times
// depend on.
struct Layout {
  int tp = 1, cp = 1, ep = 1, expert_tp = 0, pp = 1, dp = 1, vpp = 1, micro_batch = 1;
  Recompute recompute = Recompute::None;
  bool sequence_parallel = false;
  TensorMethod tensor = TensorMethod::Off;
  bool overlap_context = false;
  bool scatter_gather = false;
  int precision = kAsScenario, fp8_recipe = kAsScenario;  // places in word lists (layout_keys.h)
  int dispatcher = kAsScenario;                           // likewise
  int recompute_modules = kAsScenario;                    // one bit for each module (modules_of)

  int stages() const { return pp * vpp; }
  int block() const { return tp * cp * dp; }  // GPUs of a pipeline rank

  auto operator<=>(const Layout&) const = default;
};

// The order in which the stages' passes are played, and whether transfers overlap.
struct Playing {
  std::string_view order;  // a name in the table of orders, which must outlive this
  bool overlap_p2p = false;

  bool operator==(const Playing&) const = default;
};

// The cuts among data-parallel ranks, and whether their communication overlaps.
struct Sharing {
  int zero = 0;
  bool grad_reduce = false, param_gather = false;
  // GPUs among which parameters are cut. 0: all for hsdp_shard, none for zero_hpz.
  int hsdp_shard = kAsScenario, zero_hpz = kAsScenario;

  bool operator==(const Sharing&) const = default;
};

struct Candidate {
  Layout layout;
  Playing playing;
  Sharing sharing;

  bool operator==(const Candidate&) const = default;
};

// The values that a search may choose, by scenario key. A key that does not concern a plan does not
// exclude it. A key that the user does not name may have all values that the rules allow.
// Exceptions are refinements (planning/tune/refinement.h), which are then off, and keys that then
// stay as in the scenario. Errors name the nearest key or value.
class Space {
 public:
  // Reads texts such as "parallel.tp=1,2,4". The orders' names are those of the table.
  static Result<Space> among(const std::vector<std::string>& texts,
                             std::span<const OrderTraits> orders = named_orders());
  static std::vector<std::string> keys();
  // Returns the keys that are chosen even if the user does not name them, and those of refinements.
  static std::vector<std::string> own_keys();
  // Returns the part of this space in which the key has one of these values.
  Space only(const std::string& key, const std::vector<std::string>& values) const;
  // Returns the part of this space that the framework can run. REQUIRES: it outlives the space.
  Space run_by(const Framework& framework) const;

  // Returns the values that the user or framework names for the key, if every list of them allows
  // it; empty: nobody names any.
  std::vector<std::string> named(std::string_view key) const;

  // Whether plans may have the refinement on, or off. If the user does not name its key it is off.
  bool refines(std::string_view key, bool on) const;

  // Returns the ways to cut the scenario's model and batch over its GPUs: tp, cp, pp, dp, expert_tp
  // and ep, whether the sequence is cut, precision, recipe and dispatcher. The other members keep
  // the defaults of Layout. Some cuts have no layout.
  std::vector<Layout> cuts(const Scenario& base) const;
  // Returns every layout of a cut that keeps the rules (check_model()), in one fixed order.
  // Overlap of experts' communication, the kind of context communication and all else stay as in
  // the scenario.
  std::vector<Layout> layouts(const Scenario& base, const Layout& cut) const;
  // Returns the cut once with each micro batch. If nothing is recomputed, its kernels depend on
  // nothing else. Rules are not checked.
  std::vector<Layout> micro_batches(const Scenario& base, const Layout& cut) const;
  // Returns the orders that the scenario may name for the layout's pp, vpp and microbatches.
  std::vector<const OrderTraits*> orders(const Scenario& base, const Layout& layout) const;
  // Returns the ways to play a layout, by its orders() or by the given ones.
  std::vector<Playing> playings(const Scenario& base, const Layout& layout) const;
  std::vector<Playing> playings(const Scenario& base, const Layout& layout,
                                std::span<const OrderTraits* const> orders) const;
  std::vector<Sharing> sharings(const Scenario& base, const Layout& layout,
                                const Playing& playing) const;
  bool has(const Scenario& base, const Candidate& candidate) const;

  // Says why a space has no plans: which named values, or which rule, excluded them, and how many.
  // It stops counting soon enough to take only a moment.
  std::string why_empty(const Scenario& base) const;

 private:
  struct Only {
    std::string key;
    std::vector<std::string> values;
    bool by_framework = false;
  };
  // Numbers of possible plans, and of layouts that the model's rules refuse, by the key refused,
  // with the first refusal's message.
  struct Counted {
    std::int64_t plans = 0;
    std::map<std::string, std::pair<std::int64_t, std::string>> refused;
  };

  bool names(std::string_view key) const;
  bool allows(std::string_view key, const std::string& value) const;
  // Returns the numbers that the user names for a key of Sharing.
  std::vector<int> numbers(std::string_view key) const;
  // Visits every combination of values of the keys that `chooses` names, until `visit` returns
  // false.
  void for_each(const Scenario& base, Layout layout,
                const std::function<bool(std::string_view key)>& chooses,
                const std::function<bool(const Layout&)>& visit) const;
  Counted counted(const Scenario& base) const;
  Space without(const std::function<bool(const Only&)>& is_left_out) const;
  // Whether the framework, if any, runs plans with this part of the candidate.
  bool runs(const Scenario& base, const Candidate& candidate, int part) const;

  const Framework* framework_ = nullptr;
  std::vector<Only> only_;
};

// Whether the key makes a difference for the candidate. For example with tp = 1 there is nothing
// that train.sequence_parallel could cut.
bool concerns(const Scenario& base, const Candidate& candidate, std::string_view key);
// Returns the scenario's plan changed to the candidate's.
Plan plan_of(const Scenario& base, const Candidate& candidate);
// Returns the scenario with the candidate's plan in place of its own.
Scenario scenario_with(const Scenario& base, const Candidate& candidate);
// Returns the same plan as keys and values of a scenario: "parallel.tp", "8".
std::vector<std::pair<std::string, std::string>> plan_settings(const Candidate& candidate);
// Returns a line: "tp 8 pp 4 vpp 2 dp 2 mb 1 order interleaved recompute selective sp overlap p2p".
std::string plan_text(const Candidate& candidate);
// Returns the scenario's own plan as a candidate.
Candidate candidate_of(const Scenario& scenario);

}  // namespace tandem
