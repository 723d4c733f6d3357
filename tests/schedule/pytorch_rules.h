// What torch.distributed.pipelining's runtime asks of an order, checked on its text: nothing of
// this project reads it. Rules: schedules.py's _validate_schedule and _simulate_comms_compute.
#pragma once

#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace tandem {

struct PytorchAction {
  int stage = 0, microbatch = -1;
  std::string type;
};

// The first rule that the CSV with communication breaks; empty: none. What runs together
// ("(a;b)OVERLAP_F_B") is looked at one after the other.
inline std::string broken_pytorch_rule(std::string csv, int stages, int microbatches) {
  csv = std::regex_replace(csv, std::regex(R"(\(|\)OVERLAP_F_B)"), "");
  std::ranges::replace(csv, ';', ',');
  static const std::regex kCell(
      R"((\d+)(F|I|W|B|UNSHARD|RESHARD|REDUCE_GRAD|SEND_F|RECV_F|SEND_B|RECV_B)(\d*))");
  std::vector<std::vector<PytorchAction>> ranks(1);
  std::string cell;
  for (const char c : csv) {
    if (c != ',' && c != '\n') {
      cell += c;
      continue;
    }
    std::smatch match;
    if (!cell.empty()) {
      if (!std::regex_match(cell, match, kCell)) return "no action: " + cell;
      ranks.back().push_back(
          {std::stoi(match[1]), match[3].length() > 0 ? std::stoi(match[3]) : -1, match[2]});
    }
    cell.clear();
    if (c == '\n') ranks.emplace_back();
  }
  if (ranks.back().empty()) ranks.pop_back();

  std::map<int, std::size_t> rank_of;
  std::map<std::tuple<int, std::string, int>, int> times;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    for (const PytorchAction& a : ranks[rank]) {
      if (rank_of.emplace(a.stage, rank).first->second != rank) return "a stage on two ranks";
      if (++times[{a.stage, a.type, a.microbatch}] > 1 && a.microbatch >= 0)
        return "an action twice";
    }
  }
  if (static_cast<int>(rank_of.size()) != stages) return "a stage on no rank";
  const auto has = [&](int stage, const char* type, int m) {
    return times.contains({stage, type, m});
  };
  for (int stage = 0; stage < stages; ++stage) {
    for (int m = 0; m < microbatches; ++m) {
      if (!has(stage, "F", m)) return "no F";
      const bool whole = has(stage, "B", m);
      if (whole ? has(stage, "I", m) || has(stage, "W", m)
                : !has(stage, "I", m) || !has(stage, "W", m))
        return "neither a B nor an I and a W";
    }
  }

  // Rank by rank as far as each comes: a send goes at once, a receive needs its send, a compute
  // what it uses. What two ranks exchange in one direction has one order: NCCL has no tags.
  std::set<std::tuple<int, std::string, int>> done;
  std::map<std::pair<std::size_t, std::size_t>, std::vector<std::string>> sent, received;
  const auto did = [&](int stage, const char* type, int m) {
    return done.contains({stage, type, m});
  };
  const auto backward = [&](int stage, int m) { return did(stage, "B", m) || did(stage, "I", m); };
  const auto ready = [&](std::size_t rank, const PytorchAction& a) {
    const int s = a.stage, m = a.microbatch;
    const auto here = [&](int other) { return rank_of.at(other) == rank; };
    if (a.type == "F") return s == 0 || (here(s - 1) ? did(s - 1, "F", m) : did(s, "RECV_F", m));
    if (a.type == "B" || a.type == "I")
      return did(s, "F", m) &&
             (s + 1 == stages || (here(s + 1) ? backward(s + 1, m) : did(s, "RECV_B", m)));
    if (a.type == "W") return did(s, "I", m);
    if (a.type == "SEND_F") return did(s, "F", m);
    if (a.type == "SEND_B") return backward(s, m);
    if (a.type == "RECV_F") return did(s - 1, "SEND_F", m);
    if (a.type == "RECV_B") return did(s + 1, "SEND_B", m);
    return true;
  };
  std::vector<std::size_t> at(ranks.size());
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      for (; at[rank] < ranks[rank].size() && ready(rank, ranks[rank][at[rank]]); ++at[rank]) {
        const PytorchAction& a = ranks[rank][at[rank]];
        done.insert({a.stage, a.type, a.microbatch});
        moved = true;
        if (a.type.size() < 6 || a.type[4] != '_') continue;
        const bool forward = a.type.ends_with("_F");
        const bool sends = a.type.starts_with("SEND");
        const int receiver = sends ? (forward ? a.stage + 1 : a.stage - 1) : a.stage;
        const std::size_t other =
            rank_of.at(sends ? receiver : (forward ? a.stage - 1 : a.stage + 1));
        const std::string what =
            std::to_string(receiver) + (forward ? "F" : "B") + std::to_string(a.microbatch);
        (sends ? sent[{rank, other}] : received[{other, rank}]).push_back(what);
      }
    }
  }
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (at[rank] < ranks[rank].size()) return "a deadlock at rank " + std::to_string(rank);
  }
  if (sent != received) return "sends and receives of two ranks in different orders";
  return "";
}

}  // namespace tandem
