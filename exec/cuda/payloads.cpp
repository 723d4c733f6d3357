#include "exec/cuda/payloads.h"

#include <algorithm>

#include "base/check.h"
#include "exec/cuda/reduction.h"
#include "exec/payload/payload.h"
#include "exec/payload/payload_layout.h"

namespace tandem {

// Adds the pieces of a Fill's or Check's message. They are the same in every iteration: only the
// key of the payload changes.
void Payloads::add(const GpuJob& job, const GpuCall& call, std::vector<DevicePiece>* pieces) {
  const bool gives = call.verb == GpuVerb::Fill;
  const Rank rank = plan_->local_ranks[call.local_rank];
  const Op& op = program_->body_of(rank).ops[call.op];
  Message& message = (gives ? given_ : taken_)[call.local_rank][call.op];
  message.communicator = communicator_of(*program_, *plan_, call);
  const std::vector<Rank>& members = program_->communicators[message.communicator].members;
  const auto member = std::ranges::find(members, rank) - members.begin();
  const PayloadLayout all =
      payload_layout(op, static_cast<int>(members.size()), static_cast<int>(member));
  const std::vector<PayloadPiece>& own = gives ? all.given : all.taken;
  message.first = static_cast<std::int32_t>(pieces->size());
  message.pieces.members = static_cast<std::int32_t>(members.size());
  message.pieces.number =
      number_of_message(*program_, op, message.communicator, job.options.reductions);
  const std::int64_t a_word = numbers_a_word(message.pieces.number);
  for (const PayloadPiece& piece : job.options.full_payload ? own : sampled(own)) {
    static_assert(PayloadPiece::kSum == DevicePiece::kSum);
    const std::int64_t numbers = a_word * piece.words;
    pieces->push_back({a_word * piece.offset, numbers, a_word * piece.first, piece.member});
    message.pieces.most_numbers = std::max(message.pieces.most_numbers, numbers);
    message.numbers += numbers;
    ++message.pieces.count;
  }
}

Status Payloads::open(const GpuJob& job) {
  program_ = job.program;
  plan_ = job.plan;
  seed_ = job.options.seed;
  for (const Rank rank : plan_->local_ranks) {
    given_.emplace_back(program_->body_of(rank).ops.size());
    taken_.emplace_back(program_->body_of(rank).ops.size());
  }
  std::vector<DevicePiece> pieces;
  for (const GpuCall& call : plan_->calls) {
    if (call.verb != GpuVerb::Fill && call.verb != GpuVerb::Check) continue;
    add(job, call, &pieces);
    checks_a_plan_ += call.verb == GpuVerb::Check ? 1 : 0;
  }
  const auto count = static_cast<std::int64_t>(pieces.size());
  ASSIGN_OR_RETURN(pieces_, make_array<DevicePiece>(count));
  ASSIGN_OR_RETURN(wrong_, make_array<unsigned long long>(checks_a_plan_));
  if (count > 0)
    RETURN_IF_CUDA_FAILS(cudaMemcpy, pieces_.get(), pieces.data(),
                         pieces.size() * sizeof(DevicePiece), cudaMemcpyHostToDevice);
  for (auto* side : {&given_, &taken_}) {
    for (std::vector<Message>& messages : *side) {
      for (Message& message : messages)
        message.pieces.pieces = pieces_.get() + std::max(0, message.first);
    }
  }
  return Done{};
}

Status Payloads::begin(int iteration, cudaStream_t stream) {
  iteration_ = iteration;
  checks_.clear();
  if (checks_a_plan_ == 0) return Done{};
  RETURN_IF_CUDA_FAILS(cudaMemsetAsync, wrong_.get(), 0,
                       static_cast<std::size_t>(checks_a_plan_) * sizeof wrong_[0], stream);
  RETURN_IF_CUDA_FAILS(cudaStreamSynchronize, stream);
  return Done{};
}

std::uint64_t Payloads::key(const GpuCall& call, const Message& message) const {
  CHECK(message.first >= 0);
  const Op& op = program_->body_of(plan_->local_ranks[call.local_rank]).ops[call.op];
  return payload_key(seed_, iteration_, message.communicator, op);
}

Status Payloads::fill(const GpuCall& call, float* give, cudaStream_t stream) const {
  const Message& message = given(call);
  const std::uint64_t message_key = key(call, message);
  RETURN_IF_CUDA_FAILS(fill_pieces, stream, message.pieces, message_key, give);
  return Done{};
}

Status Payloads::poison(const GpuCall& check, float* take, cudaStream_t stream) const {
  RETURN_IF_CUDA_FAILS(poison_pieces, stream, taken(check).pieces, take);
  return Done{};
}

Status Payloads::check(const GpuCall& call, const float* take, cudaStream_t stream) {
  const Message& message = taken(call);
  const std::uint64_t message_key = key(call, message);
  CHECK(static_cast<std::int64_t>(checks_.size()) < checks_a_plan_);
  unsigned long long* wrong = wrong_.get() + checks_.size();
  checks_.push_back({call.local_rank, call.op, 0, message.numbers});
  RETURN_IF_CUDA_FAILS(check_pieces, stream, message.pieces, message_key, take, wrong);
  return Done{};
}

Result<std::vector<GpuFault>> Payloads::faults(cudaStream_t stream) const {
  std::vector<GpuFault> found;
  if (checks_.empty()) return found;
  std::vector<unsigned long long> wrong(checks_.size());
  RETURN_IF_CUDA_FAILS(cudaMemcpyAsync, wrong.data(), wrong_.get(), wrong.size() * sizeof wrong[0],
                       cudaMemcpyDeviceToHost, stream);
  RETURN_IF_CUDA_FAILS(cudaStreamSynchronize, stream);
  for (std::size_t i = 0; i < checks_.size(); ++i) {
    if (wrong[i] == 0) continue;
    found.push_back(checks_[i]);
    found.back().wrong = static_cast<std::int64_t>(wrong[i]);
  }
  return found;
}

}  // namespace tandem
