// Replaces durations by those of a cost table: of compute by its kernel, of communication by its
// kind, ranks and bytes. It prices each body once, with the communicators of one of its ranks.
#include "schedule/program/reprice.h"

#include <fmt/format.h>

#include <compare>
#include <map>
#include <optional>
#include <vector>

#include "schedule/program/rank_folding.h"

namespace tandem {
namespace {

// The properties that decide how long a communication takes.
struct PricedShape {
  OpKind kind;
  int ranks;
  bool between_nodes;
  Bytes bytes;

  auto operator<=>(const PricedShape&) const = default;
};

// The prices of communication. Each is looked up once.
class CommPrices {
 public:
  CommPrices(const CostTable& table, std::map<std::string, std::int64_t>* kept)
      : table_(table), kept_(kept) {}

  void reprice(const Communicator& communicator, Op* op) {
    const auto ranks = static_cast<int>(communicator.members.size());
    const auto [at, is_new] = prices_.try_emplace(
        PricedShape{op->kind, ranks, communicator.between_nodes, op->bytes}, std::nullopt);
    if (is_new)
      at->second = comm_ns(table_, comm_kind(op->kind), ranks, communicator.between_nodes,
                           static_cast<double>(op->bytes));
    if (at->second) {
      op->duration_ns = *at->second;
      return;
    }
    ++(*kept_)[fmt::format("{} of {} ranks{}", op_kind_name(op->kind), ranks,
                           communicator.between_nodes ? " between nodes" : "")];
  }

 private:
  const CostTable& table_;
  std::map<std::string, std::int64_t>* kept_;
  std::map<PricedShape, std::optional<Nanoseconds>> prices_;
};

}  // namespace

Result<Repriced> reprice(Program* program, const CostTable& table) {
  Repriced repriced;
  std::vector<KernelPrice> prices;
  for (const Kernel& kernel : program->kernels) {
    ASSIGN_OR_RETURN(prices.emplace_back(), kernel_price(table, kernel));
    repriced.interpolated += prices.back().interpolated;
  }
  for (std::size_t i = 0; i < prices.size(); ++i)
    program->kernels[i].memory_share = prices[i].memory_share;
  CommPrices comm_prices(table, &repriced.kept);
  const RankFolding folding = fold(*program);
  std::vector<bool> repriced_bodies(program->bodies.size());
  for (const FoldedRank& folded_rank : folding.folded_ranks) {
    if (repriced_bodies[folded_rank.body]) continue;
    repriced_bodies[folded_rank.body] = true;
    for (Op& op : program->bodies[folded_rank.body].ops) {
      if (!is_compute(op.kind)) {
        const CommunicatorClass& comm_class =
            folding.comm_classes[folded_rank.comm_classes[op.slot]];
        comm_prices.reprice(program->communicators[comm_class.communicators.front()], &op);
      } else if (op.kernel >= 0) {
        op.duration_ns = prices[op.kernel].ns;
      } else if (op.duration_ns > 0) {
        ++repriced.kept["compute without a kernel"];
      }
    }
  }
  return repriced;
}

std::vector<std::string> lines_of(const Repriced& repriced, const CostTable& table) {
  std::vector<std::string> lines;
  if (repriced.interpolated > 0)
    lines.push_back(
        fmt::format("{}: {} shapes of GEMMs and attention are not in it: priced by the "
                    "rates of those with the next fewer and more FLOPs",
                    table.path, repriced.interpolated));
  if (repriced.kept.empty()) return lines;
  std::string list;
  for (const auto& [name, ops] : repriced.kept)
    list += fmt::format("{}{} ({} ops)", list.empty() ? "" : ", ", name, ops);
  lines.push_back(
      fmt::format("{}: not in it, and as the Program was priced: {}", table.path, list));
  return lines;
}

}  // namespace tandem
