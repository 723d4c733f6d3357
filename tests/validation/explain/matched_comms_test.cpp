// Communications of a profile against a scenario's ops: by what the profile tells of their groups,
// by size, by order, and what has no match.
#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "validation/explain/matched_comms.h"

using namespace tandem;

namespace {

const CommLabel kTensor{GroupKind::Tensor, "all-reduce"}, kData{GroupKind::Data, "all-reduce"};
const CommLabel kUnknown{std::nullopt, "all-reduce"};

// All-reduces of these bytes: ops of a body, or kernels of a profile.
struct Sides {
  Body body;
  ProfileRank profile;
  OpsByComm ops;
  KernelsByComm kernels;

  void add_ops(const CommKey& key, const std::vector<Bytes>& sizes) {
    for (const Bytes bytes : sizes) {
      ops[key].push_back(static_cast<std::uint32_t>(body.ops.size()));
      body.ops.push_back({.kind = OpKind::AllReduce, .bytes = bytes});
    }
  }
  // A size of 0: the profile tells none.
  void add_kernels(const CommKey& key, const std::vector<Bytes>& sizes) {
    made_.reserve(100);  // so that they stay where they are
    for (const Bytes bytes : sizes) {
      ProfileKernel kernel{.start_ns = static_cast<Nanoseconds>(made_.size())};
      if (bytes > 0) {
        kernel.collective = static_cast<std::int32_t>(profile.collectives.size());
        profile.collectives.push_back({.dtype = profile.names.id("Byte"),
                                       .group_size = 2,
                                       .in_elements = bytes,
                                       .out_elements = bytes});
      }
      made_.push_back(kernel);
      kernels[key].push_back(&made_.back());
    }
  }
  // Each pair as "op:kernel", by op; then the note.
  std::string matched() const {
    MatchedComms found = matched_comms(body, ops, profile, kernels);
    std::ranges::sort(found.pairs);
    std::string text;
    for (const auto& [op, kernel] : found.pairs)
      text += fmt::format("{}:{} ", op, kernel->start_ns);
    return text + found.counts.note();
  }

 private:
  std::vector<ProfileKernel> made_;
};

const std::string kNote =
    "Communication that is not matched, over all measured ranks and steps, so that it tells "
    "nothing: ";

}  // namespace

TEST_CASE("a group of unknown kind matches by its ranks, and one of unknown ranks if alone") {
  Sides by_ranks;
  by_ranks.add_ops({kTensor, "[0, 1]"}, {1000});
  by_ranks.add_ops({kData, "[0, 2]"}, {5000});
  by_ranks.add_kernels({kUnknown, "[0, 2]"}, {5000});  // "default_pg"
  by_ranks.add_kernels({kTensor, "[0, 1]"}, {1000});
  CHECK(by_ranks.matched() == "0:1 1:0 ");
  Sides alone;
  alone.add_ops({kData, "[0, 2]"}, {5000, 5000});
  alone.add_kernels({kUnknown, ""}, {0, 0});  // as Nsight Systems tells
  CHECK(alone.matched() == "0:0 1:1 ");
}

TEST_CASE("communication that may be of two groups is not matched but counted") {
  Sides sides;
  sides.add_ops({kTensor, "[0, 1]"}, {1000, 1000});
  sides.add_ops({kData, "[0, 2]"}, {5000});
  sides.add_kernels({kUnknown, ""}, {0, 0, 0});
  CHECK(sides.matched() == kNote +
                               "1 of the scenario's 1 data all-reduce, 2 of the scenario's 2 "
                               "tensor all-reduce, 3 of the profile's 3 all-reduce.");
}

TEST_CASE("one more communication of another size leaves the rest matched") {
  Sides loss;  // 16 bytes in between
  loss.add_ops({kTensor, "[0, 1]"}, {80'000, 80'000});
  loss.add_kernels({kTensor, "[0, 1]"}, {80'100, 16, 80'100});
  CHECK(loss.matched() == "0:0 1:2 " + kNote + "1 of the profile's 3 tensor all-reduce.");
  Sides equal;  // the same as an op's comes before the nearest
  equal.add_ops({kTensor, "[0, 1]"}, {4});
  equal.add_kernels({kTensor, "[0, 1]"}, {16, 4});
  CHECK(equal.matched() == "0:1 " + kNote + "1 of the profile's 2 tensor all-reduce.");
  Sides another;  // the loss alone is no sum of gradients
  another.add_ops({kData, "[0, 1]"}, {80'000});
  another.add_kernels({kData, "[0, 1]"}, {16});
  CHECK(another.matched() == kNote +
                                 "1 of the scenario's 1 data all-reduce, 1 of the profile's 1 data "
                                 "all-reduce.");
}

TEST_CASE("equally many communications of like sizes match in order") {
  Sides sides;
  sides.add_ops({kTensor, "[0, 1]"}, {1000, 3000, 0});
  sides.add_kernels({kTensor, "[0, 1]"}, {2000, 6000, 70'000});
  CHECK(sides.matched() == "0:0 1:1 2:2 ");
}
