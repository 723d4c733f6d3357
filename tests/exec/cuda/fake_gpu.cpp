// The times of the calls of several processes: a pass over their queues, each played until it is
// held back, woken by the members that it waits for.
#include "tests/exec/cuda/fake_gpu.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>

#include "base/check.h"

namespace tandem {
namespace {

// A call that occupies its stream.
struct Item {
  GpuCall call;
  std::size_t number = 0;     // among the plan's calls
  std::int32_t before = -1;   // the item before it on its stream
  std::int32_t group = -1;    // items of one number start together
  bool has_arrived = false;   // at its communicator
  Nanoseconds start_ns = -1;  // -1: not yet
  Nanoseconds end_ns = -1;
};

// A hardware queue: items in the order of issue.
struct Queue {
  std::vector<std::int32_t> items;
  std::size_t next = 0;
  Nanoseconds now_ns = 0;  // its last start
};

// Who has come to a communicator's next operation.
struct Arrival {
  std::int32_t process = 0, item = 0;
};
struct Rendezvous {
  std::vector<Arrival> arrived;
  std::size_t members = 0;  // that play
  Nanoseconds last_ns = 0;
};

struct Process {
  const GpuPlan* plan = nullptr;
  std::vector<Item> items;
  std::vector<Queue> queues;
  std::vector<std::int32_t> last;  // by stream: its last item
  std::int32_t events = 0;         // the plan's, and those between its streams and NCCL's
  bool is_runnable = true;
};

class FakeGpus {
 public:
  FakeGpus(const Program& program, std::span<const GpuPlan> plans, const FakeOptions& options)
      : program_(program), options_(options), rendezvous_(program.communicators.size()) {
    for (const GpuPlan& plan : plans) add(plan);
  }

  Result<FakeRun> run() {
    while (!runnable_.empty()) {
      const std::int32_t process = runnable_.back();
      runnable_.pop_back();
      processes_[process].is_runnable = false;
      bool moves = true;
      while (moves) {
        moves = false;
        for (Queue& queue : processes_[process].queues) {
          ASSIGN_OR_RETURN(const bool moved, advance(process, &queue));
          moves |= moved;
        }
      }
    }
    RETURN_IF_ERROR(check_end());
    for (std::size_t i = 0; i < processes_.size(); ++i)
      run_.event_ns[i].resize(processes_[i].plan->event_streams.size());
    return std::move(run_);
  }

 private:
  void add(const GpuPlan& plan) {
    const auto number = static_cast<std::int32_t>(processes_.size());
    Process& process = processes_.emplace_back();
    process.plan = &plan;
    std::map<std::int32_t, std::int32_t> nccl_streams = nccl_streams_of(process);
    const std::size_t streams = plan.streams.size() + nccl_streams.size();
    const std::size_t queues = options_.queues > 0 ? options_.queues : streams;
    process.queues.resize(queues);
    process.last.assign(streams, -1);
    process.events = static_cast<std::int32_t>(plan.event_streams.size());
    std::vector<Launch> launched;  // by NCCL, at once
    bool in_group = false;
    std::int32_t groups = 0;
    for (std::size_t i = 0; i < plan.calls.size(); ++i) {
      const GpuCall& call = plan.calls[i];
      if (call.verb == GpuVerb::GroupBegin) {
        in_group = true;
        continue;
      }
      if (call.verb != GpuVerb::GroupEnd) {
        std::int32_t nccl_stream = -1;
        if (options_.nccl_streams && is_by_nccl(call, GpuTransfers::Nccl))
          nccl_stream = nccl_streams.at(communicator(process, Item{call}));
        launched.push_back({call, i, nccl_stream});
        if (in_group) continue;
      }
      launch(launched, in_group ? groups++ : -1, &process);
      launched.clear();
      in_group = false;
    }
    run_.event_ns.emplace_back(process.events, -1);
    runnable_.insert(runnable_.begin(), number);
    // A communicator whose members all play in one process meets nobody.
    if (plan.local_ranks.size() > 1) return;
    for (const std::int32_t c : program_.ranks[index(plan.local_ranks[0])].communicators)
      ++rendezvous_[c].members;
  }

  // A call, and NCCL's stream for it; -1: none.
  struct Launch {
    GpuCall call;
    std::size_t number = 0;
    std::int32_t nccl_stream = -1;
  };

  // By communicator, in the order in which they are opened, behind the plan's streams.
  std::map<std::int32_t, std::int32_t> nccl_streams_of(const Process& process) const {
    std::map<std::int32_t, std::int32_t> streams;
    if (!options_.nccl_streams) return streams;
    for (const GpuCall& call : process.plan->calls) {
      if (is_by_nccl(call, GpuTransfers::Nccl))
        streams.emplace(communicator(process, Item{call}), 0);
    }
    auto next = static_cast<std::int32_t>(process.plan->streams.size());
    for (auto& [communicator, stream] : streams) stream = next++;
    return streams;
  }

  static void put(const GpuCall& call, std::size_t number, std::int32_t group, Process* process) {
    const auto item = static_cast<std::int32_t>(process->items.size());
    process->items.push_back({call, number, process->last[call.stream], group});
    process->queues[call.stream % process->queues.size()].items.push_back(item);
    process->last[call.stream] = item;
  }

  // `to` goes on when `from` has come here.
  static void join(std::int32_t from, std::int32_t to, std::size_t number, Process* process) {
    const std::int32_t event = process->events++;
    put({GpuVerb::Record, from, event}, number, -1, process);
    put({GpuVerb::Wait, to, event}, number, -1, process);
  }

  // Calls that are launched together: one, or a group.
  static void launch(const std::vector<Launch>& all, std::int32_t group, Process* process) {
    for (const Launch& one : all) {
      if (one.nccl_stream >= 0) join(one.nccl_stream, one.call.stream, one.number, process);
    }
    for (const Launch& one : all) put(one.call, one.number, group, process);
    for (const Launch& one : all) {
      if (one.nccl_stream >= 0) join(one.call.stream, one.nccl_stream, one.number, process);
    }
  }

  // Starts what can start; whether anything did.
  Result<bool> advance(std::int32_t number, Queue* queue) {
    Process& process = processes_[number];
    bool moved = false;
    while (queue->next < queue->items.size()) {
      const Item& head = process.items[queue->items[queue->next]];
      if (head.start_ns < 0) {
        RETURN_IF_ERROR(start(number, queue->items[queue->next], queue->now_ns));
        // A group's other transfers are launched with it.
        for (std::size_t i = queue->next + 1;
             head.group >= 0 && head.start_ns < 0 && i < queue->items.size(); ++i) {
          if (process.items[queue->items[i]].group != head.group) break;
          RETURN_IF_ERROR(start(number, queue->items[i], queue->now_ns));
        }
      }
      if (head.start_ns < 0) break;
      queue->now_ns = std::max(queue->now_ns, head.start_ns);
      ++queue->next;
      moved = true;
    }
    return moved;
  }

  // Starts the item, or has it arrive, if it can. `from`: when its queue came to it.
  Status start(std::int32_t number, std::int32_t which, Nanoseconds from) {
    Process& process = processes_[number];
    Item& item = process.items[which];
    if (item.start_ns >= 0 || item.has_arrived) return Done{};
    if (item.before >= 0) {
      const Item& before = process.items[item.before];
      if (before.start_ns < 0) return Done{};
      from = std::max(from, before.end_ns);
    }
    std::vector<Nanoseconds>& events = run_.event_ns[number];
    Nanoseconds duration_ns = 0;
    switch (item.call.verb) {
      case GpuVerb::Wait:
        if (events[item.call.event] < 0) return Done{};
        from = std::max(from, events[item.call.event]);
        break;
      case GpuVerb::Record:
        events[item.call.event] = from;
        break;
      case GpuVerb::Compute:
      case GpuVerb::Move:
      case GpuVerb::Emulate:
        duration_ns = duration(process, item);
        break;
      case GpuVerb::Send:
      case GpuVerb::Recv:
      case GpuVerb::Collective:
        if (!options_.alone) return arrive({number, which}, from);
        duration_ns = duration(process, item);
        break;
      default:
        break;
    }
    item.start_ns = from;
    item.end_ns = from + duration_ns;
    return Done{};
  }

  const Op& op(const Process& process, const Item& item) const {
    return program_.body_of(process.plan->local_ranks[item.call.local_rank]).ops[item.call.op];
  }
  Nanoseconds duration(const Process& process, const Item& item) const {
    return options_.duration_ns ? options_.duration_ns(*process.plan, item.call)
                                : op(process, item).duration_ns;
  }
  std::int32_t communicator(const Process& process, const Item& item) const {
    const Rank rank = process.plan->local_ranks[item.call.local_rank];
    return program_.ranks[index(rank)].communicators[op(process, item).slot];
  }

  Status arrive(const Arrival& who, Nanoseconds now) {
    const Process& process = processes_[who.process];
    const std::int32_t number = communicator(process, processes_[who.process].items[who.item]);
    Rendezvous& rendezvous = rendezvous_[number];
    processes_[who.process].items[who.item].has_arrived = true;
    rendezvous.arrived.push_back(who);
    rendezvous.last_ns = std::max(rendezvous.last_ns, now);
    const std::size_t members = program_.communicators[number].members.size();
    if (rendezvous.members != members)
      return Error{fmt::format("{}: found {} of its {} members, expected all", text(who),
                               rendezvous.members, members),
                   Error::Failed};
    if (rendezvous.arrived.size() < members) return Done{};
    std::ranges::sort(rendezvous.arrived, {}, &Arrival::process);
    for (const Arrival& other : rendezvous.arrived)
      RETURN_IF_ERROR(check_match(rendezvous.arrived.front(), other, members));
    for (const Arrival& each : rendezvous.arrived) {
      Process& member = processes_[each.process];
      Item& item = member.items[each.item];
      item.start_ns = rendezvous.last_ns;
      item.end_ns = rendezvous.last_ns + duration(member, item);
      if (!member.is_runnable) runnable_.push_back(each.process);
      member.is_runnable = true;
    }
    rendezvous.arrived.clear();
    rendezvous.last_ns = 0;
    return Done{};
  }

  // Two members mean one thing.
  Status check_match(const Arrival& a, const Arrival& b, std::size_t members) const {
    const Item& item_a = processes_[a.process].items[a.item];
    const Item& item_b = processes_[b.process].items[b.item];
    const Op& op_a = op(processes_[a.process], item_a);
    const Op& op_b = op(processes_[b.process], item_b);
    const bool same = &item_a == &item_b;
    const bool transfer = item_a.call.verb != GpuVerb::Collective;
    std::string what;
    if (op_a.bytes != op_b.bytes)
      what = fmt::format("{} and {} bytes", op_a.bytes, op_b.bytes);
    else if (!same &&
             ((transfer && op_a.kind == op_b.kind) || (!transfer && op_a.kind != op_b.kind)))
      what = fmt::format("{} and {}", op_kind_name(op_a.kind), op_kind_name(op_b.kind));
    else if (transfer && members != 2)
      what = fmt::format("a transfer among {}", members);
    if (what.empty()) return Done{};
    return Error{fmt::format("{}: meets {}: {}", text(b), text(a), what), Error::Failed};
  }

  std::string text(const Arrival& who) const {
    const Process& process = processes_[who.process];
    const Item& item = process.items[who.item];
    return fmt::format("{}: call {}: {}", process_name(*process.plan), item.number,
                       describe(program_, *process.plan, process.plan->calls[item.number]));
  }

  Status check_end() const {
    std::string stuck;
    for (std::size_t number = 0; number < processes_.size(); ++number) {
      const std::vector<Item>& items = processes_[number].items;
      const auto first = std::ranges::find_if(items, [](const Item& i) { return i.start_ns < 0; });
      if (first == items.end()) continue;
      stuck += fmt::format("{}{}", stuck.empty() ? "" : "; ",
                           text({static_cast<std::int32_t>(number),
                                 static_cast<std::int32_t>(first - items.begin())}));
    }
    if (stuck.empty()) return Done{};
    return Error{"deadlock: nothing can go on: " + stuck, Error::Failed};
  }

  const Program& program_;
  const FakeOptions& options_;
  std::vector<Process> processes_;
  std::vector<Rendezvous> rendezvous_;  // by communicator
  std::vector<std::int32_t> runnable_;
  FakeRun run_;
};

}  // namespace

Result<FakeRun> play(const Program& program, std::span<const GpuPlan> plans,
                     const FakeOptions& options) {
  for (const GpuPlan& plan : plans) RETURN_IF_ERROR(check_calls(program, plan));
  return FakeGpus(program, plans, options).run();
}

}  // namespace tandem
