// The front of a run of many processes: waits for all ranks' guards, and ends the run, well or not.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <list>
#include <span>

#include "exec/supervise/diagnose.h"
#include "exec/supervise/watchdog.h"

namespace tandem {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kTick_ms = 20;
constexpr auto kAliveEvery = std::chrono::seconds(1);
constexpr auto kTimeToAnswer = std::chrono::milliseconds(700);  // mpirun gives a second

template <class T>
std::optional<T> read(const Word& word) {
  if (word.body.size() != sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, word.body.data(), sizeof(T));
  return value;
}

Nanoseconds longest_compute_ns(const Program& program) {
  Nanoseconds longest = 0;
  for (const Body& body : program.bodies) {
    for (const Op& op : body.ops) {
      if (is_compute(op.kind)) longest = std::max(longest, op.duration_ns);
    }
  }
  return longest;
}

class Front {
 public:
  Front(const Program& program, const ExecOptions& options, const HelloWord& own,
        const Listener& listener, const Outside& outside, const std::string& meets_by)
      : program_(program),
        options_(options),
        own_(own),
        listener_(listener),
        outside_(outside),
        meets_by_(meets_by),
        members_(program.ranks.size()) {}

  Gathered run() {
    std::string failure = play();
    if (!failure.empty()) {
      say(Say::Dump);
      const auto all = [this] {
        return std::ranges::all_of(members_, [](const Member& member) {
          return member.state || !member.line || !member.line->is_open();
        });
      };
      for (const auto begin = Clock::now(); !all() && Clock::now() - begin < kTimeToAnswer;) tick();
    }
    say(failure.empty() ? Say::Bye : Say::Stop);
    Gathered gathered;
    gathered.failure = std::move(failure);
    for (Member& member : members_) {
      gathered.fates.push_back(fate_of(member));
      gathered.states.push_back(std::move(member.state));
      if (!gathered.failure.empty() && member.line) member.line->leave_open();
    }
    const bool stuck = gathered.failure == kStuck;
    if (stuck || gathered.failure == kBroken) gathered.failure = why(&gathered);
    if (stuck)
      gathered.failure = fmt::format("no op ended within {:g} s: {}",
                                     to_seconds(options_.timeout_ns), gathered.failure);
    return gathered;
  }

 private:
  // The ranks' states will say why.
  static constexpr const char* kStuck = "stuck";
  static constexpr const char* kBroken = "broken";

  struct Member {
    std::optional<Line> line;
    ReportWord status;
    std::optional<RunState> state;
    std::uint64_t program = 0;
  };

  // Why the run failed, as far as that can be known before the ranks have given their states.
  std::string play() {
    const auto patience = std::chrono::nanoseconds(options_.timeout_ns);
    const auto begin = Clock::now();
    while (!all_are(Phase::Joined)) {
      if (Clock::now() - begin > patience)
        return missing(fmt::format("within {:g} s", to_seconds(options_.timeout_ns)));
      tick();
      if (const std::string ending = outside_.ending(); !ending.empty())
        return missing("until the run " + ending);
      if (std::string failure = broken(); !failure.empty()) return failure;
    }
    say(Say::Go);
    const auto stuck_after = patience + std::chrono::nanoseconds(longest_compute_ns(program_));
    changed_ = Clock::now();
    while (!std::ranges::all_of(members_, has_ended)) {
      if (Clock::now() - changed_ > stuck_after) return kStuck;
      tick();
      if (std::string failure = broken(); !failure.empty()) return failure;
    }
    return "";
  }

  bool all_are(Phase phase) const {
    return std::ranges::all_of(
        members_, [phase](const Member& member) { return member.status.phase >= phase; });
  }

  static bool has_ended(const Member& member) {
    return member.state && member.status.phase == Phase::Ended;
  }

  // Without all of them MPI, say, does not start, so that of those that came none can join, either.
  std::string missing(const std::string& when) const {
    constexpr std::size_t kNamed = 8;
    std::vector<std::size_t> ranks;
    for (std::size_t rank = 0; rank < members_.size(); ++rank) {
      if (members_[rank].status.phase < Phase::Joined) ranks.push_back(rank);
    }
    if (ranks.size() == members_.size())
      return fmt::format("{} did not start {}, expected all {} ranks to come", meets_by_, when,
                         members_.size());
    const std::size_t more = ranks.size() - std::min(kNamed, ranks.size());
    ranks.resize(ranks.size() - more);
    return fmt::format("found no rank {}{} {}, expected all {} to join", fmt::join(ranks, ", "),
                       more == 0 ? "" : fmt::format(" and {} more", more), when, members_.size());
  }

  // Something that cannot mend itself; a rank that is stopped can. What happened to a rank goes
  // before a signal, as mpirun sends that then.
  std::string broken() const {
    for (std::size_t rank = 0; rank < members_.size(); ++rank) {
      const Member& member = members_[rank];
      if (member.line && member.program != own_.program)
        return fmt::format(
            "found the Program {:016x} on rank {} and {:016x} on rank 0, expected "
            "one",
            member.program, rank, own_.program);
      const bool lost = member.line && !member.line->is_open();
      const bool gone = member.status.gone != 0 && member.status.phase != Phase::Ended;
      if (gone || (lost && !has_ended(member))) return kBroken;
    }
    const std::string ending = outside_.ending();
    return ending.empty() ? "" : "the run " + ending;
  }

  void say(Say word) {
    for (Member& member : members_) {
      if (member.line) member.line->send(static_cast<std::uint32_t>(word));
    }
  }

  void tick() {
    if (const auto now = Clock::now(); now - said_alive_ > kAliveEvery) {
      said_alive_ = now;
      say(Say::Alive);
    }
    std::vector<pollfd> events{{listener_.socket.number(), POLLIN, 0}};
    for (const Member& member : members_) {
      if (member.line && member.line->is_open())
        events.push_back({member.line->descriptor(), POLLIN, 0});
    }
    for (const Line& line : strangers_) events.push_back({line.descriptor(), POLLIN, 0});
    poll(events.data(), events.size(), kTick_ms);
    while (std::optional<Line> line = accept_line(listener_))
      strangers_.push_back(std::move(*line));
    for (auto line = strangers_.begin(); line != strangers_.end();)
      line = welcome(&*line) ? strangers_.erase(line) : std::next(line);
    for (std::size_t rank = 0; rank < members_.size(); ++rank) {
      if (!members_[rank].line) continue;
      for (const Word& word : members_[rank].line->receive()) hear(rank, word);
    }
  }

  // Whether a new connection is none any more: it said who it is, or went away.
  bool welcome(Line* line) {
    std::vector<Word> words = line->receive();
    if (words.empty()) return !line->is_open();
    const auto hello = read<HelloWord>(words.front());
    if (!hello || hello->run != own_.run || hello->rank < 0 ||
        hello->rank >= static_cast<int>(members_.size()))
      return true;
    const auto rank = static_cast<std::size_t>(hello->rank);
    members_[rank].line = std::move(*line);
    members_[rank].program = hello->program;
    for (std::size_t i = 1; i < words.size(); ++i) hear(rank, words[i]);
    return true;
  }

  void hear(std::size_t rank, const Word& word) {
    Member& member = members_[rank];
    const int body = program_.ranks[rank].body;
    if (static_cast<Say>(word.kind) == Say::Report) {
      const auto status = read<ReportWord>(word);
      if (!status) return;
      if (status->ended != member.status.ended || status->phase != member.status.phase)
        changed_ = Clock::now();
      member.status = *status;
    }
    if (static_cast<Say>(word.kind) == Say::State &&
        word.body.size() == RunState::size_of(program_, body, options_.iterations)) {
      member.state.emplace(program_, body, options_.iterations, word.body);
      changed_ = Clock::now();
    }
  }

  static std::string fate_of(const Member& member) {
    if (!member.line) return "";
    if (!member.state)
      return member.line->is_open() ? "does not answer" : "is gone, and what guarded it";
    return member.status.fate;
  }

  // A rank that did not end itself is the culprit; others may have failed because of it. Then what
  // a rank says itself goes before what is concluded.
  std::string why(Gathered* gathered) const {
    std::vector<RankProgress> progress = progress_of(gathered);
    const auto ended_itself = [](const std::string& fate) { return fate.starts_with("exited"); };
    if (std::ranges::any_of(gathered->fates, [&](const std::string& fate) {
          return !fate.empty() && !ended_itself(fate);
        })) {
      for (RankProgress& rank : progress) {
        if (ended_itself(rank.fate)) rank.fate.clear();
      }
      return diagnose(program_, progress);
    }
    if (const std::optional<std::size_t> rank = first_to_fail(*gathered)) {
      const RunState::Header& header = gathered->states[*rank]->header();
      gathered->kind = header.failure_kind;
      return fmt::format("rank {}: {}", *rank, header.failure);
    }
    return diagnose(program_, progress);
  }

  // On rank 0's clock, as others may have failed because of it. Who has not compared clocks yet
  // failed before all others.
  std::optional<std::size_t> first_to_fail(const Gathered& gathered) const {
    std::optional<std::size_t> first;
    Nanoseconds first_ns = std::numeric_limits<Nanoseconds>::max();
    for (std::size_t rank = 0; rank < members_.size(); ++rank) {
      const auto& state = gathered.states[rank];
      if (!state || state->header().failure[0] == 0) continue;
      const RunState::Header& header = state->header();
      const Nanoseconds failed_ns =
          header.before.at_ns == 0 ? 0 : header.failed_ns - header.before.ahead_ns;
      if (failed_ns >= first_ns) continue;
      first = rank;
      first_ns = failed_ns;
    }
    return first;
  }

  // All in the iteration of the slowest: who is ahead has ended all its ops there.
  std::vector<RankProgress> progress_of(Gathered* gathered) const {
    std::uint32_t slowest = ~std::uint32_t{0};
    for (const auto& state : gathered->states) {
      if (state) slowest = std::min(slowest, state->header().iteration.load());
    }
    std::vector<RankProgress> progress;
    for (std::size_t rank = 0; rank < members_.size(); ++rank) {
      RankProgress& own = progress.emplace_back();
      own.fate = gathered->fates[rank];
      auto& state = gathered->states[rank];
      const std::size_t lanes = program_.body_of(static_cast<Rank>(rank)).lanes.size();
      own.done.resize(lanes);
      own.begun.resize(lanes);
      if (!state) continue;
      own.done.assign(state->done().begin(), state->done().end());
      own.begun.assign(state->begun().begin(), state->begun().end());
      if (state->header().iteration <= slowest) continue;
      std::ranges::fill(own.done, 0);
      std::ranges::fill(own.begun, 0);
      for (const Op& op : program_.body_of(static_cast<Rank>(rank)).ops) ++own.done[op.lane];
    }
    return progress;
  }

  const Program& program_;
  const ExecOptions& options_;
  const HelloWord own_;
  const Listener& listener_;
  const Outside& outside_;
  const std::string& meets_by_;
  std::vector<Member> members_;  // by rank
  std::list<Line> strangers_;    // connections that have not said who they are
  Clock::time_point changed_;    // when some op ended last, as far as was heard
  Clock::time_point said_alive_{};
};

}  // namespace

Gathered gather(const Program& program, const ExecOptions& options, const HelloWord& own,
                const Listener& listener, const Outside& outside, const std::string& meets_by) {
  return Front(program, options, own, listener, outside, meets_by).run();
}

}  // namespace tandem
