// Calls NCCL. A call on a communicator of several members does not block: NCCL answers
// ncclInProgress, and settle() polls until the call is through or the time is up. Inside a group
// NCCL only notes calls, so they are settled when the group ends.
#include "exec/cuda/communicators.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <future>
#include <set>
#include <thread>
#include <utility>

#include "base/check.h"
#include "exec/cuda/check.h"
#include "exec/cuda/reduction.h"
#include "exec/payload/payload_layout.h"
#include "launch/clock.h"

// NCCL has it since 2.28. Null if the loaded library lacks it, whatever version this is built with.
extern "C" ncclResult_t ncclAlltoAll(const void* give, void* take, size_t count,
                                     ncclDataType_t type, ncclComm_t communicator,
                                     cudaStream_t stream) __attribute__((weak));

namespace tandem {
namespace {

// Thread blocks of a transfer within one device: more would only take SMs away.
constexpr int kMoveBlocks = 4;

std::string ranks_of(const Communicator& communicator) {
  constexpr std::size_t kMost = 8;
  std::string text = "ranks";
  for (std::size_t i = 0; i < std::min(kMost, communicator.members.size()); ++i)
    text += fmt::format("{}{}", i == 0 ? " " : ", ", index(communicator.members[i]));
  return text + (communicator.members.size() > kMost ? ", ..." : "");
}

// Returns the communicators of the Program that the plan's Moves go through.
std::set<std::int32_t> moved_through(const GpuJob& job) {
  std::set<std::int32_t> found;
  for (const GpuCall& call : job.plan->calls) {
    if (call.verb != GpuVerb::Move) continue;
    const Rank rank = job.plan->local_ranks[call.local_rank];
    const Op& op = job.program->body_of(rank).ops[call.op];
    found.insert(job.program->ranks[index(rank)].communicators[op.slot]);
  }
  return found;
}

}  // namespace

Result<GpuCommId> Communicators::make_id() {
  ncclUniqueId id;
  if (const ncclResult_t code = ncclGetUniqueId(&id); code != ncclSuccess)
    return nccl_failed("ncclGetUniqueId", code, nullptr);
  GpuCommId bytes;
  static_assert(sizeof bytes == sizeof id);
  std::memcpy(bytes.data(), &id, sizeof id);
  return bytes;
}

Communicators::~Communicators() {
  if (!close().ok()) abort();
}

Communicators::Own& Communicators::of(std::int32_t communicator) {
  const auto at = std::ranges::lower_bound(all_, communicator, {}, &Own::number);
  CHECK(at != all_.end() && at->number == communicator);
  return *at;
}

Error Communicators::failed(const Own& own, const char* call, ncclResult_t code) const {
  Error error = nccl_failed(call, code, own.nccl);
  error.message += fmt::format(" (communicator {} of {})", own.number, own.ranks);
  return error;
}

Status Communicators::settle(const Own& own, const char* call) const {
  const Nanoseconds until_ns = now_ns() + timeout_ns_;
  for (;;) {
    ncclResult_t state = ncclSuccess;
    const ncclResult_t asked = ncclCommGetAsyncError(own.nccl, &state);
    if (asked != ncclSuccess) return failed(own, "ncclCommGetAsyncError", asked);
    if (state == ncclSuccess) return Done{};
    if (state != ncclInProgress) return failed(own, call, state);
    if (now_ns() > until_ns)
      return Error{fmt::format("{}: found communicator {} still waiting after {:g} s, expected all "
                               "of {} to call",
                               call, own.number, to_seconds(timeout_ns_), own.ranks),
                   Error::Failed};
    sched_yield();
  }
}

// Settles the call, or inside a group notes the communicator for end_group().
Status Communicators::took(Own* own, const char* call, ncclResult_t code) {
  if (code != ncclSuccess && code != ncclInProgress) return failed(*own, call, code);
  if (depth_ == 0) return settle(*own, call);
  if (std::ranges::find(grouped_, own) == grouped_.end()) grouped_.push_back(own);
  return Done{};
}

Status Communicators::open(const GpuJob& job) {
  timeout_ns_ = job.options.timeout_ns;
  program_ = job.program;
  reductions_ = job.options.reductions;
  const std::set<std::int32_t> moved =
      job.options.transfers == GpuTransfers::Nccl ? moved_through(job) : std::set<std::int32_t>();
  all_.reserve(job.plan->communicators.size());
  for (const GpuCommunicator& planned : job.plan->communicators) {
    // A communicator whose members all play here serves only a Move, which sends to itself.
    const bool is_used = planned.members > 1 || moved.contains(planned.communicator);
    if (!is_used) continue;
    ASSIGN_OR_RETURN(const GpuCommId id,
                     planned.members > 1 ? job.id(planned.communicator) : make_id());
    RETURN_IF_ERROR(start(job, planned, id));
    job.on_progress();
  }
  return Done{};
}

Status Communicators::start(const GpuJob& job, const GpuCommunicator& planned, GpuCommId id) {
  ncclUniqueId unique;
  std::memcpy(&unique, id.data(), sizeof unique);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = planned.members == 1 ? 1 : 0;
  config.splitShare = 0;
  const int most = planned.sms > 0 ? planned.sms : planned.members == 1 ? kMoveBlocks : 0;
  if (most > 0) {
    config.minCTAs = 1;
    config.maxCTAs = most;
  }
  CHECK(all_.empty() || all_.back().number < planned.communicator);
  Own& own = all_.emplace_back();
  own.number = planned.communicator;
  own.ranks = ranks_of(job.program->communicators[planned.communicator]);
  own.place = planned.place;
  own.members = planned.members;
  const int place = own.members == 1 ? 0 : own.place;
  const ncclResult_t code = ncclCommInitRankConfig(&own.nccl, own.members, unique, place, &config);
  if (code != ncclSuccess && code != ncclInProgress)
    return failed(own, "ncclCommInitRankConfig", code);
  return settle(own, "ncclCommInitRankConfig");
}

Status Communicators::begin_group() {
  if (const ncclResult_t code = ncclGroupStart(); code != ncclSuccess)
    return nccl_failed("ncclGroupStart", code, nullptr);
  ++depth_;
  return Done{};
}

Status Communicators::end_group() {
  const ncclResult_t code = ncclGroupEnd();
  --depth_;
  if (code != ncclSuccess && code != ncclInProgress)
    return grouped_.empty() ? nccl_failed("ncclGroupEnd", code, nullptr)
                            : failed(*grouped_.front(), "ncclGroupEnd", code);
  if (depth_ > 0) return Done{};
  for (const Own* own : grouped_) RETURN_IF_ERROR(settle(*own, "ncclGroupEnd"));
  grouped_.clear();
  return Done{};
}

Status Communicators::move(const Op& op, std::int32_t communicator, const float* give, float* take,
                           cudaStream_t stream) {
  Own& own = of(communicator);
  const auto words = static_cast<std::size_t>(payload_layout(op, 2, 0).give_words);
  RETURN_IF_ERROR(begin_group());
  RETURN_IF_ERROR(took(&own, "ncclSend", ncclSend(give, words, ncclFloat, 0, own.nccl, stream)));
  RETURN_IF_ERROR(took(&own, "ncclRecv", ncclRecv(take, words, ncclFloat, 0, own.nccl, stream)));
  return end_group();
}

Status Communicators::communicate(const Op& op, std::int32_t communicator, const float* give,
                                  float* take, cudaStream_t stream) {
  Own& own = of(communicator);
  const PayloadLayout pieces = payload_layout(op, own.members, own.place);
  const auto gives = static_cast<std::size_t>(pieces.give_words);
  const auto takes = static_cast<std::size_t>(pieces.take_words);
  const int n = own.members;
  const Number number = number_of_message(*program_, op, communicator, reductions_);
  const ncclDataType_t type = nccl_type(number);  // in which reductions add
  const auto each = static_cast<std::size_t>(numbers_a_word(number));
  switch (op.kind) {
    case OpKind::Send:  // of a pipeline edge: member 0 sends, member 1 receives
      return took(&own, "ncclSend", ncclSend(give, gives, ncclFloat, 1, own.nccl, stream));
    case OpKind::Recv:
      return took(&own, "ncclRecv", ncclRecv(take, takes, ncclFloat, 0, own.nccl, stream));
    case OpKind::AllReduce:
      return took(&own, "ncclAllReduce",
                  ncclAllReduce(give, take, gives * each, type, ncclSum, own.nccl, stream));
    case OpKind::ReduceScatter:
      return took(&own, "ncclReduceScatter",
                  ncclReduceScatter(give, take, takes * each, type, ncclSum, own.nccl, stream));
    case OpKind::AllGather:
      return took(&own, "ncclAllGather",
                  ncclAllGather(give, take, gives, ncclFloat, own.nccl, stream));
    case OpKind::AllToAll:
      return all_to_all(&own, gives / static_cast<std::size_t>(n), give, take, stream);
    case OpKind::RingShift: {
      const int next = (own.place + 1) % n, before = (own.place + n - 1) % n;
      RETURN_IF_ERROR(begin_group());
      RETURN_IF_ERROR(
          took(&own, "ncclSend", ncclSend(give, gives, ncclFloat, next, own.nccl, stream)));
      RETURN_IF_ERROR(
          took(&own, "ncclRecv", ncclRecv(take, takes, ncclFloat, before, own.nccl, stream)));
      return end_group();
    }
    default:
      CHECK(!is_compute(op.kind));
      return Done{};
  }
}

// `each`: how many words go to each member, and come from each.
Status Communicators::all_to_all(Own* own, std::size_t each, const float* give, float* take,
                                 cudaStream_t stream) {
  if (ncclAlltoAll != nullptr)
    return took(own, "ncclAlltoAll", ncclAlltoAll(give, take, each, ncclFloat, own->nccl, stream));
  RETURN_IF_ERROR(begin_group());
  for (int member = 0; member < own->members; ++member) {
    RETURN_IF_ERROR(
        took(own, "ncclSend",
             ncclSend(give + member * each, each, ncclFloat, member, own->nccl, stream)));
    RETURN_IF_ERROR(
        took(own, "ncclRecv",
             ncclRecv(take + member * each, each, ncclFloat, member, own->nccl, stream)));
  }
  return end_group();
}

Status Communicators::check() const {
  for (const Own& own : all_) {
    if (own.nccl == nullptr) continue;
    ncclResult_t state = ncclSuccess;
    const ncclResult_t asked = ncclCommGetAsyncError(own.nccl, &state);
    if (asked != ncclSuccess) return failed(own, "ncclCommGetAsyncError", asked);
    if (state != ncclSuccess && state != ncclInProgress)
      return failed(own, "ncclCommGetAsyncError", state);
  }
  return Done{};
}

// Aborts in a thread of its own, for two reasons: this thread may have left a group open, whose end
// would be awaited, and NCCL may wait for something that never ends.
void Communicators::abort() {
  constexpr auto kMost = std::chrono::milliseconds(1500);  // the watchdog kills after 2 s
  leave_groups();
  std::vector<ncclComm_t> shared;
  for (const Own& own : all_) {
    if (own.members > 1 && own.nccl != nullptr) shared.push_back(own.nccl);
  }
  std::erase_if(all_, [](const Own& own) { return own.members > 1 || own.nccl == nullptr; });
  if (shared.empty()) return;
  std::promise<void> promise;
  const std::future<void> done = promise.get_future();
  std::thread([shared = std::move(shared), promise = std::move(promise)]() mutable {
    (void)ncclGroupStart();
    for (ncclComm_t each : shared) (void)ncclCommAbort(each);
    (void)ncclGroupEnd();
    promise.set_value();
  }).detach();
  (void)done.wait_for(kMost);
}

// Ends the groups that a failure has left open. NCCL drops the calls in them.
void Communicators::leave_groups() {
  for (; depth_ > 0; --depth_) (void)ncclGroupEnd();
  grouped_.clear();
}

// Closes all communicators. Finalizes all of those with several members before it waits for one, as
// another member may close them in another order.
Status Communicators::close() {
  constexpr Nanoseconds kMost_ns = 10'000'000'000;
  leave_groups();
  timeout_ns_ = std::min(timeout_ns_, kMost_ns);
  std::erase_if(all_, [](const Own& own) {
    if (own.members == 1 && own.nccl != nullptr) (void)ncclCommDestroy(own.nccl);
    return own.members == 1 || own.nccl == nullptr;
  });
  for (const Own& own : all_) {
    const ncclResult_t code = ncclCommFinalize(own.nccl);
    if (code != ncclSuccess && code != ncclInProgress) return failed(own, "ncclCommFinalize", code);
  }
  for (const Own& own : all_) RETURN_IF_ERROR(settle(own, "ncclCommFinalize"));
  while (!all_.empty()) {
    const ncclComm_t last = all_.back().nccl;
    all_.pop_back();
    (void)ncclCommDestroy(last);
  }
  return Done{};
}

}  // namespace tandem
