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

// In place of a key's value: the key stays as in the scenario. Some keys have it unless the user
// names values for them.
constexpr int kAsScenario = -1;
// Returns the chosen value, or else the scenario's.
constexpr int chosen(int choice, int of_scenario) {
  return choice == kAsScenario ? of_scenario : choice;
}

// In place of a number of recomputed layers: all.
constexpr int kAllLayers = -2;

// How the model is cut over the GPUs, and how a stage's passes run. A stage's times depend on
// nothing else.
struct Layout {
  int tp = 1, cp = 1, ep = 1, expert_tp = 0, pp = 1, dp = 1, vpp = 1, micro_batch = 1;
  Recompute recompute = Recompute::None;
  // The recomputed layers of a stage. kAsScenario: the scenario states no number, so all are.
  int recompute_layers = kAsScenario;
  bool sequence_parallel = false;
  TensorMethod tensor = TensorMethod::Off;
  bool overlap_context = false;
  bool scatter_gather = false;
  int precision = kAsScenario, fp8_recipe = kAsScenario;  // places in word lists (layout_keys.h)
  int dispatcher = kAsScenario;                           // likewise
  int recompute_modules = kAsScenario;                    // one bit for each module (modules_of)

  int stages() const { return pp * vpp; }
  int pipeline_rank_gpus() const { return tp * cp * dp; }
  int microbatches(const Scenario& base) const {
    return base.job.plan.global_batch / (micro_batch * dp);
  }

  auto operator<=>(const Layout&) const = default;
};

// The order in which the stages' passes are played, and whether transfers overlap.
struct Playing {
  std::string_view order;  // a name in the table of orders, which must outlive this
  bool overlap_p2p = false;

  bool operator==(const Playing&) const = default;
};

inline const OrderTraits& traits_of(const Scenario& base, const Playing& playing) {
  return traits_of(playing.order, base.job.order.orders);
}

// The choices of data parallelism: how its ranks cut the model's state, and whether their
// communication overlaps with compute.
struct Sharing {
  int zero = 0;
  bool grad_reduce = false, param_gather = false;
  // GPUs among which parameters are cut. 0: all for hsdp_shard, none for zero_hpz.
  int hsdp_shard = kAsScenario, zero_hpz = kAsScenario;
  bool align_param_gather = true;  // counts with param_gather

  bool operator==(const Sharing&) const = default;
};

struct Candidate {
  Layout layout;
  Playing playing;
  Sharing sharing;

  bool operator==(const Candidate&) const = default;
};

// The values that a search may choose, by scenario key. A restriction on a key that makes no
// difference for a plan does not exclude the plan. Keys that the user does not name may have all
// values that the rules allow, with two exceptions: refinements (planning/tune/refinement.h) are
// off, and some keys stay as in the scenario (LayoutKey::only_named). Errors name the nearest key
// or value.
class Space {
 public:
  // Reads texts such as "parallel.tp=1,2,4". The orders' names are those of the table.
  static Result<Space> among(const std::vector<std::string>& texts,
                             std::span<const OrderTraits> orders = named_orders());
  static std::vector<std::string> keys();
  // Returns the keys that a search chooses even if the user does not name them, and refinements'.
  static std::vector<std::string> own_keys();
  // Returns the part of this space in which the key has one of these values.
  Space only(const std::string& key, const std::vector<std::string>& values) const;
  // Returns the part of this space that the framework can run. REQUIRES: it outlives the space.
  Space run_by(const Framework& framework) const;

  // Returns the values that user and framework both allow for the key; empty: neither names any.
  std::vector<std::string> named(std::string_view key) const;

  // Whether plans may have the refinement of this key on, or off. If the user does not name the
  // key, the refinement is off.
  bool allows_refinement(std::string_view key, bool on) const;

  // Returns the ways to cut the scenario's model and batch over its GPUs: tp, cp, pp, dp,
  // expert_tp, ep, sequence_parallel, precision, fp8_recipe and dispatcher. The other members keep
  // the defaults of Layout. A cut may turn out to have no layout that keeps the rules.
  std::vector<Layout> cuts(const Scenario& base) const;
  // Returns every layout of a cut that keeps the rules (check_model()), in one fixed order.
  // Overlap of experts' communication, the kind of context communication and all else stay as in
  // the scenario.
  std::vector<Layout> layouts(const Scenario& base, const Layout& cut) const;
  // Returns the cut once with each micro batch, from the smallest on. Rules are not checked.
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

  // Says why a space has no plans: which named values, or which rule, excluded how many of them.
  // Empty: it has some, or the reason is not known.
  // Counting stops at 10,000 plans, so that this takes only a moment.
  std::string why_empty(const Scenario& base) const;

 private:
  // The values that a key may have.
  struct Restriction {
    std::string key;
    std::vector<std::string> values;
    bool by_framework = false;  // else by the user
  };
  // Layouts that the model's rules refuse because of one key.
  struct Refused {
    std::int64_t layouts = 0;
    std::string first_message;
  };
  struct Counted {
    std::int64_t plans = 0;
    std::map<std::string, Refused> refused;  // by key
  };

  bool names(std::string_view key) const;
  bool allows(std::string_view key, const std::string& value) const;
  // Returns the stages of ZeRO to try.
  std::vector<int> zero_stages(const Scenario& base, const Layout& layout,
                               const Playing& playing) const;
  // Returns the numbers that the user names for a key, or kAsScenario alone.
  std::vector<int> numbers(std::string_view key) const;
  // Visits every combination of values of the keys that `chooses` names, until `visit` returns
  // false.
  void for_each(const Scenario& base, Layout layout,
                const std::function<bool(std::string_view key)>& chooses,
                const std::function<bool(const Layout&)>& visit) const;
  Counted counted(const Scenario& base) const;
  Space without(const std::function<bool(const Restriction&)>& is_left_out) const;
  // Returns each of the framework's rules that leaves no plan although all others together leave
  // some.
  std::vector<std::string_view> rules_that_empty(const Scenario& base) const;
  // Whether the candidate keeps the framework's rules about this part of it (FrameworkRule::Part).
  bool runs(const Scenario& base, const Candidate& candidate, int part) const;

  const Framework* framework_ = nullptr;
  std::vector<Restriction> restrictions_;
};

// Whether the key makes a difference for the candidate: train.sequence_parallel does not with tp
// = 1.
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
