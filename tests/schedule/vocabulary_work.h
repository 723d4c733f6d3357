// Work of stages that share the vocabulary, in whole milliseconds.
#pragma once

#include "schedule/order/named_orders.h"
#include "workload/model/workload.h"

namespace tandem {

// F, B, I and W of 4, 8, 4 and 4 ms; E, S, T and G of 1, 3, 2 and 1 ms.
inline constexpr double kMsF = 4, kMsI = 4, kMsW = 4;
inline constexpr VocabularyCosts kVocabularyMs = {
    .embedding = 1, .s = 3, .t = 2, .embedding_gradient = 1};

inline Workload vocabulary_work(int stages, Bytes bytes = 0) {
  Workload work =
      uniform_workload({kMsF / 1e3, (kMsI + kMsW) / 1e3, kMsI / 1e3, kMsW / 1e3}, stages);
  const auto pass = [](double ms) {
    PassBuilder builder;
    builder.compute(-1, to_ns(ms / 1e3));
    return builder.take();
  };
  work.vocabulary = VocabularyWork{.embedding = pass(kVocabularyMs.embedding),
                                   .s = pass(kVocabularyMs.s),
                                   .t = pass(kVocabularyMs.t),
                                   .embedding_gradient = pass(kVocabularyMs.embedding_gradient),
                                   .activation_bytes = bytes,
                                   .softmax_bytes = bytes / 4};
  return work;
}

// An order made for these times.
inline Result<Order> vocabulary_order(const std::string& name, int pp, int vpp, int microbatches,
                                      int algorithm) {
  OrderSpec spec;
  spec.name = name;
  spec.pp = pp;
  spec.vpp = vpp;
  spec.microbatches = microbatches;
  spec.costs = {kMsF, kMsI, kMsW, 0};
  spec.vocabulary = algorithm;
  spec.vocabulary_costs = kVocabularyMs;
  return make_order(spec);
}

}  // namespace tandem
