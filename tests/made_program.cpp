#include "tests/made_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <sstream>
#include <stdexcept>
#include <utility>
#include <vector>

namespace tandem {
namespace {

using Words = std::vector<std::string>;

[[noreturn]] void refuse(const std::string& found, const std::string& expected) {
  throw std::invalid_argument(fmt::format("found '{}', expected {}", found, expected));
}

std::vector<std::string> split_at(const std::string& text, char sign) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, sign);) parts.push_back(part);
  return parts;
}

Words words_of(const std::string& text) {
  Words words;
  std::istringstream in(text);
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

int number(const std::string& text) {
  int value = 0;
  const char* const end = text.data() + text.size();
  if (const auto read = std::from_chars(text.data(), end, value); read.ptr != end || text.empty())
    refuse(text, "a whole number");
  return value;
}

// "F0" is a forward of microbatch 0, "all-reduce" one of no microbatch.
Op named(const std::string& word) {
  static const std::map<std::string, OpKind> kLetters = {{"F", OpKind::Forward},
                                                         {"B", OpKind::Backward},
                                                         {"I", OpKind::BackwardInput},
                                                         {"W", OpKind::BackwardWeight}};
  const std::size_t digits = word.find_last_not_of("0123456789") + 1;
  const std::string kind = word.substr(0, digits);
  Op op;
  if (digits < word.size()) op.microbatch = number(word.substr(digits));
  if (const auto letter = kLetters.find(kind); letter != kLetters.end()) {
    op.kind = letter->second;
    return op;
  }
  for (int i = 0; i < kOpKinds; ++i) {
    op.kind = static_cast<OpKind>(i);
    if (op_kind_name(op.kind) == kind) return op;
  }
  refuse(word, "an op's kind");
}

// Sets what a number with a unit, or a word with a number, says of an op; false: it is neither.
bool set_value(const std::string& word, Op* op) {
  static const std::map<std::string, double> kTimes = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}},
                                             kSizes = {
                                                 {"B", 1}, {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}};
  double value = 0;
  const auto read = std::from_chars(word.data(), word.data() + word.size(), value);
  const std::string unit = word.substr(read.ptr - word.data());
  if (const auto time = kTimes.find(unit); time != kTimes.end())
    op->duration_ns = std::llround(value * time->second);
  else if (const auto size = kSizes.find(unit); size != kSizes.end())
    op->bytes = std::llround(value * size->second);
  else if (unit == "sm")
    op->sms = static_cast<std::int16_t>(value);
  else if (unit.starts_with('/')) {
    op->part = static_cast<std::int16_t>(value - 1);
    op->parts = static_cast<std::int16_t>(number(unit.substr(1)));
  } else if (word.starts_with("kernel"))
    op->kernel = number(word.substr(6));
  else if (word.starts_with("exchange"))
    op->exchange = number(word.substr(8));
  else if (word.starts_with("stage"))
    op->stage = static_cast<std::int16_t>(number(word.substr(5)));
  else
    return false;
  return true;
}

// Communicators of which a body's ranks are in one each: "data:0>1|2>3".
struct Group {
  GroupKind kind = GroupKind::Pipeline;
  std::string lane, members;

  bool is(const Group& other) const {
    return kind == other.kind && lane == other.lane && members == other.members;
  }
};

struct MadeOp {
  Op op;
  std::string name;
  Words waits;
  std::size_t group = 0;  // unless it computes
};

struct MadeBody {
  std::vector<int> ranks;
  std::vector<MadeOp> ops;
};

class Maker {
 public:
  Program made(const std::string& text) {
    std::string line;
    for (const std::string& part : split_at(text, '\n')) {
      line += part + ' ';
      const Words words = words_of(part);
      if (words.empty() || words.back().ends_with(',')) continue;
      read_line(line);
      line.clear();
    }
    program_.bodies.resize(bodies_.size());
    for (std::size_t body = 0; body < bodies_.size(); ++body) {
      program_.bodies[body].lanes.push_back({"compute"});
      for (const int rank : bodies_[body].ranks) {
        if (rank >= static_cast<int>(program_.ranks.size())) program_.ranks.resize(rank + 1);
        program_.ranks[rank].body = static_cast<std::int32_t>(body);
      }
    }
    slots_.resize(bodies_.size());
    for (std::size_t group = 0; group < groups_.size(); ++group) add_communicators(group);
    for (std::size_t body = 0; body < bodies_.size(); ++body) add_ops(body);
    return std::move(program_);
  }

 private:
  // "ranks 0 1, 80 times: F#, B# after F#"
  void read_line(const std::string& line) {
    const std::size_t colon = line.find(':');
    Words head = words_of(line.substr(0, colon));
    const std::vector<std::string> ops = split_at(line.substr(colon + 1), ',');
    if (head[0] == "communicators") {
      for (const std::string& communicator : ops) group_of(words_of(communicator));
      return;
    }
    if (colon == std::string::npos || !head[0].starts_with("rank"))
      refuse(line, "'rank NUMBER: ' and its ops");
    int times = 1;
    if (head.back() == "times") {
      times = number(head[head.size() - 2]);
      head.resize(head.size() - 2);
      head.back().pop_back();  // the comma
    }
    std::vector<int> ranks;
    for (std::size_t i = 1; i < head.size(); ++i) ranks.push_back(number(head[i]));
    auto body = std::ranges::find(bodies_, ranks, &MadeBody::ranks);
    if (body == bodies_.end()) body = bodies_.insert(body, {ranks, {}});
    for (int i = 0; i < times; ++i) {
      for (std::string op : ops) {
        for (std::size_t at = 0; (at = op.find('#')) != std::string::npos;)
          op.replace(at, 1, std::to_string(i));
        if (const Words words = words_of(op); !words.empty())
          body->ops.push_back(read_op(words, ranks.at(0)));
      }
    }
  }

  MadeOp read_op(const Words& words, int stage) {
    MadeOp made{.op = named(words[0]), .name = words[0], .waits = {}};
    made.op.stage = static_cast<std::int16_t>(stage);
    if (!is_compute(made.op.kind)) made.op.bytes = 64;
    Words of_communicator;
    for (std::size_t i = 1; i < words.size(); ++i) {
      if (words[i] == "after") {
        made.waits.assign(words.begin() + static_cast<std::ptrdiff_t>(i) + 1, words.end());
        break;
      }
      if (!set_value(words[i], &made.op)) of_communicator.push_back(words[i]);
    }
    if (!is_compute(made.op.kind))
      made.group = group_of(of_communicator);
    else if (!of_communicator.empty())
      refuse(of_communicator[0], "one of an op's words");
    return made;
  }

  // The number of the group of "0>1 on back".
  std::size_t group_of(const Words& words) {
    if (words.size() != 1 && (words.size() != 3 || words[1] != "on"))
      refuse(fmt::format("{}", fmt::join(words, " ")), "a communicator, perhaps 'on' a lane");
    Group group;
    set_members(words[0], &group);
    group.lane = words.size() == 3 ? words[2] : words[0].substr(0, words[0].find(':'));
    const auto at = std::ranges::find_if(groups_, [&](const Group& g) { return g.is(group); });
    const std::size_t number = at - groups_.begin();
    if (at == groups_.end()) groups_.push_back(group);
    return number;
  }

  // "0>1", "data", "data:0>1|2>3"
  static void set_members(const std::string& word, Group* group) {
    const std::size_t colon = std::min(word.find(':'), word.size());
    const std::string kind = word.substr(0, colon);
    for (int i = 0; i < kGroupKinds; ++i) {
      group->kind = static_cast<GroupKind>(i);
      if (group_kind_name(group->kind) != kind) continue;
      group->members = word.substr(std::min(colon + 1, word.size()));
      return;
    }
    if (word.find('>') == std::string::npos) refuse(word, "one of an op's words");
    group->kind = GroupKind::Pipeline;
    group->members = word;
  }

  // Adds the group's communicators, and its slot and lane to the bodies whose ranks are in them.
  void add_communicators(std::size_t number_of_group) {
    const Group& group = groups_[number_of_group];
    std::map<int, std::int32_t> communicator_of;  // by rank
    const auto add = [&](const std::vector<int>& ranks) {
      Communicator& communicator = program_.communicators.emplace_back();
      communicator.group_kind = group.kind;
      for (const int rank : ranks) {
        communicator.members.push_back(Rank{rank});
        communicator_of[rank] = static_cast<std::int32_t>(program_.communicators.size()) - 1;
      }
    };
    for (const std::string& members : split_at(group.members, '|')) {
      std::vector<int> ranks;
      for (const std::string& rank : split_at(members, '>')) ranks.push_back(number(rank));
      add(ranks);
    }
    if (group.members.empty()) {
      std::vector<int> all(program_.ranks.size());
      for (std::size_t rank = 0; rank < all.size(); ++rank) all[rank] = static_cast<int>(rank);
      add(all);
    }
    for (std::size_t b = 0; b < bodies_.size(); ++b) {
      const std::vector<int>& ranks = bodies_[b].ranks;
      if (std::ranges::none_of(ranks, [&](int rank) { return communicator_of.contains(rank); }))
        continue;
      Body& body = program_.bodies[b];
      auto lane = std::ranges::find(body.lanes, group.lane, &Lane::name);
      if (lane == body.lanes.end()) lane = body.lanes.insert(lane, {group.lane});
      slots_[b][number_of_group] = static_cast<std::int16_t>(body.slots.size());
      body.slots.push_back({group.kind, static_cast<std::uint8_t>(lane - body.lanes.begin())});
      for (const int rank : ranks)
        program_.ranks[rank].communicators.push_back(communicator_of.at(rank));
    }
  }

  void add_ops(std::size_t number_of_body) {
    Body& body = program_.bodies[number_of_body];
    std::map<std::string, std::uint32_t> last;  // by name
    for (const MadeOp& made : bodies_[number_of_body].ops) {
      Op op = made.op;
      if (!is_compute(op.kind)) {
        op.slot = slots_[number_of_body].at(made.group);
        op.lane = body.slots[op.slot].lane;
      }
      std::vector<std::uint32_t> waits;
      for (const std::string& wait : made.waits) {
        const auto named_op = last.find(wait);
        waits.push_back(named_op == last.end() ? number(wait) : named_op->second);
      }
      last[made.name] = add_op(op, waits, &body);
    }
  }

  std::vector<MadeBody> bodies_;
  std::vector<Group> groups_;
  std::vector<std::map<std::size_t, std::int16_t>> slots_;  // by body and group
  Program program_;
};

}  // namespace

Program made_program(const std::string& text, const std::string& name) {
  Program program = Maker().made(text);
  program.name = name;
  return program;
}

}  // namespace tandem
