// Typed ids, dense and from 0. The compiler refuses a Stage where a Rank belongs.
#pragma once

#include <cstdint>
#include <type_traits>

namespace tandem {

enum class Rank : std::int32_t {};        // one process of the job: one device
enum class Stage : std::int32_t {};       // position in the model's chain of layers
enum class Microbatch : std::int32_t {};  // one slice of a replica's batch
enum class DeviceId : std::int32_t {};    // one GPU of the cluster
enum class NodeId : std::int32_t {};      // one host of the cluster
enum class LinkId : std::int32_t {};      // one direction of one wire

// Returns the number of an id, to index with and to print.
template <class Id>
requires std::is_enum_v<Id>
constexpr int index(Id id) { return static_cast<int>(id); }

}  // namespace tandem
