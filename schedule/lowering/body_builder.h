// BodyBuilder: builds a Body op by op.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "base/check.h"
#include "schedule/program/program.h"

namespace tandem {

// Stands for no op in a list of waits.
constexpr std::uint32_t kNoOp = UINT32_MAX;

class BodyBuilder {
 public:
  BodyBuilder() { body_.lanes.push_back({"compute"}); }

  // Reserves room for so many ops, as a hint.
  void reserve(std::size_t ops) {
    body_.ops.reserve(ops);
    body_.waits.reserve(ops);
  }

  // Adds a communicator slot on the lane of that name, which it adds if need be. Returns its
  // number.
  std::int16_t slot(GroupKind group_kind, const std::string& lane_name) {
    const auto lane = std::find_if(body_.lanes.begin(), body_.lanes.end(),
                                   [&](const Lane& known) { return known.name == lane_name; });
    const auto number = static_cast<std::size_t>(lane - body_.lanes.begin());
    if (lane == body_.lanes.end()) body_.lanes.push_back({lane_name});
    CHECK(body_.lanes.size() <= kMostLanes);
    body_.slots.push_back({group_kind, static_cast<std::uint8_t>(number)});
    return static_cast<std::int16_t>(body_.slots.size() - 1);
  }

  // Adds an op as add_op() does, but skips waits of kNoOp. It copies the other waits directly,
  // without an array of them, because lowering adds millions of ops.
  std::uint32_t add(Op op, std::span<const std::uint32_t> waits) {
    if (op.slot >= 0) op.lane = body_.slots[op.slot].lane;
    op.first_wait = static_cast<std::uint32_t>(body_.waits.size());
    for (const std::uint32_t wait : waits) {
      if (wait != kNoOp) body_.waits.push_back(wait);
    }
    const std::size_t count = body_.waits.size() - op.first_wait;
    CHECK(count <= kMostWaits);
    op.waits = static_cast<std::uint32_t>(count);
    body_.ops.push_back(op);
    return static_cast<std::uint32_t>(body_.ops.size() - 1);
  }

  const Body& body() const { return body_; }
  // Returns the body and gives unused memory back.
  Body take() {
    body_.ops.shrink_to_fit();
    body_.waits.shrink_to_fit();
    return std::move(body_);
  }

 private:
  Body body_;
};

}  // namespace tandem
