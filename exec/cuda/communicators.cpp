// Calls NCCL. A call on a nonblocking communicator returns ncclInProgress, and settle() polls until
// the call has been carried out or the time is up. Inside a group NCCL only queues calls, so they
// are settled when the group ends.
#include "exec/cuda/communicators.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <future>
#include <thread>
#include <utility>

#include "base/check.h"
#include "exec/cuda/check.h"
#include "exec/cuda/reduction.h"
#include "exec/payload/payload_layout.h"
#include "launch/clock.h"

// NCCL has ncclAlltoAll since 2.28. A weak symbol is null if the loaded library lacks it.
extern "C" ncclResult_t ncclAlltoAll(const void* give, void* take, size_t count,
                                     ncclDataType_t type, ncclComm_t communicator,
                                     cudaStream_t stream) __attribute__((weak));

namespace tandem {
namespace {

// Thread blocks of a transfer within one device: more would only take SMs from compute.
constexpr int kMoveBlocks = 4;

bool has_failed(ncclResult_t code) { return code != ncclSuccess && code != ncclInProgress; }

std::string ranks_of(const Communicator& communicator) {
  constexpr std::size_t kMostListed = 8;
  std::string text = "ranks";
  for (std::size_t i = 0; i < std::min(kMostListed, communicator.members.size()); ++i)
    text += fmt::format("{}{}", i == 0 ? " " : ", ", index(communicator.members[i]));
  return text + (communicator.members.size() > kMostListed ? ", ..." : "");
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

Communicators::OpenCommunicator& Communicators::opened(std::int32_t number) {
  const auto found = std::ranges::lower_bound(opened_, number, {}, &OpenCommunicator::number);
  CHECK(found != opened_.end() && found->number == number);
  return *found;
}

Error Communicators::failed(const OpenCommunicator& own, const char* call,
                            ncclResult_t code) const {
  Error error = nccl_failed(call, code, own.nccl);
  error.message += fmt::format(" (communicator {} of {})", own.number, own.ranks);
  return error;
}

Result<bool> Communicators::is_settled(const OpenCommunicator& own, const char* call) const {
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = ncclCommGetAsyncError(own.nccl, &state);
  if (asked != ncclSuccess) return failed(own, "ncclCommGetAsyncError", asked);
  if (has_failed(state)) return failed(own, call, state);
  return state == ncclSuccess;
}

Status Communicators::settle(const OpenCommunicator& own, const char* call) const {
  const Nanoseconds until_ns = now_ns() + timeout_ns_;
  for (;;) {
    ASSIGN_OR_RETURN(const bool settled, is_settled(own, call));
    if (settled) return Done{};
    if (now_ns() > until_ns)
      return Error{fmt::format("{}: found communicator {} still waiting after {:g} s, expected all "
                               "of {} to call",
                               call, own.number, to_seconds(timeout_ns_), own.ranks),
                   Error::Failed};
    sched_yield();
  }
}

Status Communicators::handle(OpenCommunicator* own, const char* call, ncclResult_t code) {
  if (has_failed(code)) return failed(*own, call, code);
  if (open_groups_ == 0) return settle(*own, call);
  if (std::ranges::find(grouped_, own) == grouped_.end()) grouped_.push_back(own);
  return Done{};
}

Status Communicators::open(const GpuJob& job) {
  timeout_ns_ = job.options.timeout_ns;
  program_ = job.program;
  reductions_ = job.options.reductions;
  const std::vector<std::int32_t> used =
      nccl_communicators(*job.program, *job.plan, job.options.transfers);
  opened_.reserve(job.plan->communicators.size());
  for (const GpuCommunicator& planned : job.plan->communicators) {
    // If all ranks of a communicator are local, only Moves use it (sends from this process to
    // itself). Without such Moves it is not opened.
    if (planned.members == 1 && !std::ranges::binary_search(used, planned.communicator)) continue;
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
  const int default_blocks = planned.members == 1 ? kMoveBlocks : 0;  // 0: NCCL chooses
  const int most_blocks = planned.sms > 0 ? planned.sms : default_blocks;
  if (most_blocks > 0) {
    config.minCTAs = 1;
    config.maxCTAs = most_blocks;
  }
  CHECK(opened_.empty() || opened_.back().number < planned.communicator);
  OpenCommunicator& own = opened_.emplace_back();
  own.number = planned.communicator;
  own.ranks = ranks_of(job.program->communicators[planned.communicator]);
  own.place = planned.place;
  own.members = planned.members;
  const ncclResult_t code =
      ncclCommInitRankConfig(&own.nccl, own.members, unique, own.place, &config);
  if (has_failed(code)) return failed(own, "ncclCommInitRankConfig", code);
  return settle(own, "ncclCommInitRankConfig");
}

Status Communicators::begin_group() {
  if (const ncclResult_t code = ncclGroupStart(); code != ncclSuccess)
    return nccl_failed("ncclGroupStart", code, nullptr);
  ++open_groups_;
  return Done{};
}

Status Communicators::end_group() {
  const ncclResult_t code = ncclGroupEnd();
  --open_groups_;
  if (has_failed(code))
    return grouped_.empty() ? nccl_failed("ncclGroupEnd", code, nullptr)
                            : failed(*grouped_.front(), "ncclGroupEnd", code);
  if (open_groups_ > 0) return Done{};
  for (const OpenCommunicator* own : grouped_) RETURN_IF_ERROR(settle(*own, "ncclGroupEnd"));
  grouped_.clear();
  return Done{};
}

Status Communicators::move(const Op& op, std::int32_t communicator, const float* give, float* take,
                           cudaStream_t stream) {
  OpenCommunicator& own = opened(communicator);
  const auto words =
      static_cast<std::size_t>(payload_layout(op, /*members=*/2, /*own=*/0).give_words);
  RETURN_IF_ERROR(begin_group());
  RETURN_IF_ERROR(handle(&own, "ncclSend", ncclSend(give, words, ncclFloat, 0, own.nccl, stream)));
  RETURN_IF_ERROR(handle(&own, "ncclRecv", ncclRecv(take, words, ncclFloat, 0, own.nccl, stream)));
  return end_group();
}

Status Communicators::communicate(const Op& op, std::int32_t communicator, const float* give,
                                  float* take, cudaStream_t stream) {
  OpenCommunicator& own = opened(communicator);
  const PayloadLayout pieces = payload_layout(op, own.members, own.place);
  const auto gives = static_cast<std::size_t>(pieces.give_words);
  const auto takes = static_cast<std::size_t>(pieces.take_words);
  const Number number = number_of_message(*program_, op, communicator, reductions_);
  const ncclDataType_t type = nccl_type(number);  // of reductions; all else moves words as floats
  const auto a_word = static_cast<std::size_t>(numbers_a_word(number));
  switch (op.kind) {
    case OpKind::Send:  // of a pipeline edge: member 0 sends, member 1 receives
      return handle(&own, "ncclSend", ncclSend(give, gives, ncclFloat, 1, own.nccl, stream));
    case OpKind::Recv:
      return handle(&own, "ncclRecv", ncclRecv(take, takes, ncclFloat, 0, own.nccl, stream));
    case OpKind::AllReduce:
      return handle(&own, "ncclAllReduce",
                    ncclAllReduce(give, take, gives * a_word, type, ncclSum, own.nccl, stream));
    case OpKind::ReduceScatter:
      return handle(&own, "ncclReduceScatter",
                    ncclReduceScatter(give, take, takes * a_word, type, ncclSum, own.nccl, stream));
    case OpKind::AllGather:
      return handle(&own, "ncclAllGather",
                    ncclAllGather(give, take, gives, ncclFloat, own.nccl, stream));
    case OpKind::AllToAll:
      return all_to_all(&own, gives / static_cast<std::size_t>(own.members), give, take, stream);
    case OpKind::RingShift: {
      const int next = (own.place + 1) % own.members;
      const int before = (own.place + own.members - 1) % own.members;
      RETURN_IF_ERROR(begin_group());
      RETURN_IF_ERROR(
          handle(&own, "ncclSend", ncclSend(give, gives, ncclFloat, next, own.nccl, stream)));
      RETURN_IF_ERROR(
          handle(&own, "ncclRecv", ncclRecv(take, takes, ncclFloat, before, own.nccl, stream)));
      return end_group();
    }
    default:
      CHECK(!is_compute(op.kind));
      return Done{};
  }
}

// `words_a_member`: how many words go to each member, and come from each.
Status Communicators::all_to_all(OpenCommunicator* own, std::size_t words_a_member,
                                 const float* give, float* take, cudaStream_t stream) {
  if (ncclAlltoAll != nullptr)
    return handle(own, "ncclAlltoAll",
                  ncclAlltoAll(give, take, words_a_member, ncclFloat, own->nccl, stream));
  RETURN_IF_ERROR(begin_group());
  for (int member = 0; member < own->members; ++member) {
    RETURN_IF_ERROR(handle(own, "ncclSend",
                           ncclSend(give + member * words_a_member, words_a_member, ncclFloat,
                                    member, own->nccl, stream)));
    RETURN_IF_ERROR(handle(own, "ncclRecv",
                           ncclRecv(take + member * words_a_member, words_a_member, ncclFloat,
                                    member, own->nccl, stream)));
  }
  return end_group();
}

Status Communicators::check() const {
  for (const OpenCommunicator& own : opened_) {
    if (own.nccl != nullptr) RETURN_IF_ERROR(is_settled(own, "ncclCommGetAsyncError"));
  }
  return Done{};
}

// Aborts in a new thread. NCCL keeps groups by thread: an abort in this one would first wait for
// the end of the group that it has just left. And an abort may hang, so at most kMostWait is
// waited.
void Communicators::abort() {
  constexpr auto kMostWait = std::chrono::milliseconds(1500);  // the watchdog kills after 2 s
  leave_groups();
  std::vector<ncclComm_t> shared;
  for (const OpenCommunicator& own : opened_) {
    if (own.members > 1 && own.nccl != nullptr) shared.push_back(own.nccl);
  }
  std::erase_if(opened_,
                [](const OpenCommunicator& own) { return own.members > 1 || own.nccl == nullptr; });
  if (shared.empty()) return;
  std::promise<void> promise;
  const std::future<void> done = promise.get_future();
  std::thread([shared = std::move(shared), promise = std::move(promise)]() mutable {
    (void)ncclGroupStart();
    for (ncclComm_t each : shared) (void)ncclCommAbort(each);
    (void)ncclGroupEnd();
    promise.set_value();
  }).detach();
  (void)done.wait_for(kMostWait);
}

// Ends the groups that a failure has left open. NCCL drops the calls in them.
void Communicators::leave_groups() {
  for (; open_groups_ > 0; --open_groups_) (void)ncclGroupEnd();
  grouped_.clear();
}

// Closes all communicators. Finalizes all that have several members before waiting for any of them,
// as other members may close them in another order.
Status Communicators::close() {
  constexpr Nanoseconds kMostWait_ns = 10'000'000'000;
  leave_groups();
  timeout_ns_ = std::min(timeout_ns_, kMostWait_ns);
  std::erase_if(opened_, [](const OpenCommunicator& own) {
    if (own.members == 1 && own.nccl != nullptr) (void)ncclCommDestroy(own.nccl);
    return own.members == 1 || own.nccl == nullptr;
  });
  for (const OpenCommunicator& own : opened_) {
    const ncclResult_t code = ncclCommFinalize(own.nccl);
    if (has_failed(code)) return failed(own, "ncclCommFinalize", code);
  }
  for (const OpenCommunicator& own : opened_) RETURN_IF_ERROR(settle(own, "ncclCommFinalize"));
  while (!opened_.empty()) {
    const ncclComm_t last = opened_.back().nccl;
    opened_.pop_back();
    (void)ncclCommDestroy(last);
  }
  return Done{};
}

}  // namespace tandem
