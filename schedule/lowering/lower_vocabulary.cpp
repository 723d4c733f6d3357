// Lowers the communication of vocabulary parallelism, in which every rank holds some rows of the
// vocabulary. Each rank has four passes for a microbatch: E looks up embeddings, S and T compute
// the output layer and its gradients, G adds the embedding's gradient. order/vocabulary.h explains
// algorithms 1 and 2 (Order::vocabulary; 0: no vocabulary parallelism).
#include "schedule/lowering/lower_vocabulary.h"

#include <string>
#include <string_view>
#include <utility>

#include "schedule/lowering/lower_pass.h"

namespace tandem {
namespace {

// The lane, kind and bytes of each VocabularyComm. A transfer from one rank to all is priced as an
// all-gather, and a sum for one rank as an all-reduce (docs/decisions.md). Their order is:
//
//   SumInput       after E of all ranks             before F of the first stage
//   SendOutput     after F of the last stage        before S of all ranks
//   ReduceSoftmax  after S of all ranks             before T of all ranks
//   SumGradient    after T of all ranks             before B or I of the last stage
//                  (algorithm 2: after ReduceSoftmax)
//   SendGradient   after B or I of the first stage  before G of all ranks
struct CommTraits {
  std::string_view lane;
  OpKind kind;
  Bytes VocabularyWork::*bytes;
};
constexpr std::array<CommTraits, kVocabularyComms> kComms = {{
    {"embedding sum", OpKind::AllReduce, &VocabularyWork::activation_bytes},
    {"output", OpKind::AllGather, &VocabularyWork::activation_bytes},
    {"softmax", OpKind::AllReduce, &VocabularyWork::softmax_bytes},
    {"output gradient", OpKind::AllReduce, &VocabularyWork::activation_bytes},
    {"embedding gradient", OpKind::AllGather, &VocabularyWork::activation_bytes},
}};

}  // namespace

VocabularyLanes::VocabularyLanes(const Context& context, BodyBuilder* builder, Slots* slots)
    : context_(context), builder_(*builder), slots_(*slots) {
  if (context.order.vocabulary == 0) return;
  for (int comm = 0; comm < kVocabularyComms; ++comm) {
    slots->vocabulary[comm] = builder->slot(GroupKind::Pipeline, std::string(kComms[comm].lane));
    ops_[comm].resize(context.order.microbatches, kNoOp);
  }
}

void VocabularyLanes::before(const Action& action, std::vector<std::uint32_t>* waits) {
  if (context_.order.vocabulary == 0) return;
  const auto take = [&](VocabularyComm comm) { waits->push_back(op_of(comm, action)); };
  // A rank that only receives posts its op here. The sender has posted its op in after().
  const auto get = [&](VocabularyComm comm) {
    if (op_of(comm, action) == kNoOp) issue(comm, action, {});
    take(comm);
  };
  if (action.kind == ActionKind::Forward && is_first(action)) take(VocabularyComm::SumInput);
  if (action.kind == ActionKind::OutputS) get(VocabularyComm::SendOutput);
  if (action.kind == ActionKind::OutputT) take(VocabularyComm::ReduceSoftmax);
  if (produces_gradient(action.kind) && is_last(action)) take(VocabularyComm::SumGradient);
  if (action.kind == ActionKind::EmbeddingBackward) get(VocabularyComm::SendGradient);
}

void VocabularyLanes::after(const Action& action, std::uint32_t output) {
  if (context_.order.vocabulary == 0) return;
  if (action.kind == ActionKind::EmbeddingForward)
    issue(VocabularyComm::SumInput, action, {output});
  if (action.kind == ActionKind::Forward && is_last(action))
    issue(VocabularyComm::SendOutput, action, {output});
  if (action.kind == ActionKind::OutputS) {
    issue(VocabularyComm::ReduceSoftmax, action, {output});
    if (context_.order.vocabulary == 2)
      issue(VocabularyComm::SumGradient, action, {op_of(VocabularyComm::ReduceSoftmax, action)});
  }
  if (action.kind == ActionKind::OutputT && context_.order.vocabulary == 1)
    issue(VocabularyComm::SumGradient, action, {output});
  if (produces_gradient(action.kind) && is_first(action))
    issue(VocabularyComm::SendGradient, action, {output});
}

std::uint32_t& VocabularyLanes::op_of(VocabularyComm comm, const Action& action) {
  return ops_[static_cast<std::size_t>(comm)][index(action.microbatch)];
}

void VocabularyLanes::issue(VocabularyComm comm, const Action& action,
                            std::vector<std::uint32_t> waits) {
  const auto number = static_cast<std::size_t>(comm);
  const auto& [lane, kind, bytes] = kComms[number];
  const Op op = communication(kind, slots_.vocabulary[number], *context_.work.vocabulary.*bytes,
                              index(action.stage), index(action.microbatch));
  op_of(comm, action) = builder_.add(op, waits);
}

}  // namespace tandem
