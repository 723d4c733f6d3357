// Random Programs: replicas of ranks that compute and communicate, in any way that ends.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "schedule/program/program.h"

namespace tandem {

// One thing that happens in every replica: a rank computes, or several communicate.
struct RandomEvent {
  OpKind kind = OpKind::Forward;
  std::vector<int> ranks;  // of the replica; of a Send the sender and the receiver
  Nanoseconds duration_ns = 0;
  std::uint64_t waits = 0;  // what picks the earlier ops that each of the ranks waits for

  // A rank's communication with itself is with its equals of the other replicas.
  bool over_replicas() const { return !is_compute(kind) && ranks.size() == 1; }
};

struct RandomJob {
  int ranks = 1;     // of a replica
  int replicas = 1;  // in the end each rank reduces over them
  std::vector<RandomEvent> events;
};

RandomJob random_job(std::uint64_t seed);
Program program_of(const RandomJob& job);

// The job without all that is not needed for `fails` to be true. REQUIRES: fails(job).
RandomJob shrunk(RandomJob job, const std::function<bool(const RandomJob&)>& fails);

}  // namespace tandem
