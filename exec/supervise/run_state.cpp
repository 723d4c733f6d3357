// The bytes of a RunState, in this order. Each part but the last is rounded up to 16 bytes.
//   Header | done: uint32 per lane | begun: uint8 per lane | times: OwnTimes per iteration and op
#include "exec/supervise/run_state.h"

#include <sys/mman.h>

#include <cstring>

#include "base/check.h"
#include "launch/clock.h"

namespace tandem {
namespace {

constexpr std::size_t kAlign = 16;
constexpr std::size_t aligned_up(std::size_t size) { return (size + kAlign - 1) / kAlign * kAlign; }

std::span<std::byte> map_shared(std::size_t size) {
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return {static_cast<std::byte*>(memory), size};
}

}  // namespace

void RunState::Unmap::operator()(void* memory) const { munmap(memory, size); }

std::size_t RunState::size_of(const Program& program, int body, int iterations) {
  const Body& own = program.bodies[body];
  return aligned_up(sizeof(Header)) + aligned_up(own.lanes.size() * sizeof(std::uint32_t)) +
         aligned_up(own.lanes.size()) + own.ops.size() * sizeof(OwnTimes) * iterations;
}

RunState::RunState(const Program& program, int body, int iterations)
    : lanes_(program.bodies[body].lanes.size()),
      ops_(program.bodies[body].ops.size()),
      bytes_(map_shared(size_of(program, body, iterations))) {
  shared_ = {bytes_.data(), Unmap{bytes_.size()}};
  new (bytes_.data()) Header{};
  for (int i = 0; i < iterations; ++i) {
    for (OwnTimes& times : times(i)) times = {};
  }
}

RunState::RunState(const Program& program, int body, int iterations, std::vector<std::byte> bytes)
    : lanes_(program.bodies[body].lanes.size()),
      ops_(program.bodies[body].ops.size()),
      copy_(std::move(bytes)),
      bytes_(copy_) {
  CHECK(bytes_.size() == size_of(program, body, iterations));
  // Bytes from another process may lack the 0 that ends a text.
  for (const std::span<char> text :
       {std::span<char>(header().coordinator), std::span<char>(header().note),
        std::span<char>(header().failure)})
    text.back() = 0;
}

std::span<std::uint32_t> RunState::done() {
  return {reinterpret_cast<std::uint32_t*>(bytes_.data() + aligned_up(sizeof(Header))), lanes_};
}

std::span<std::uint8_t> RunState::begun() {
  return {
      reinterpret_cast<std::uint8_t*>(done().data()) + aligned_up(lanes_ * sizeof(std::uint32_t)),
      lanes_};
}

std::span<OwnTimes> RunState::times(int iteration) {
  auto* first = reinterpret_cast<OwnTimes*>(begun().data() + aligned_up(lanes_));
  return {first + ops_ * iteration, ops_};
}

void RunState::fail(const Error& why) {
  Header& own = header();
  own.failure_kind = why.kind;
  own.failed_ns = now_ns();
  std::strncpy(own.failure, why.text().c_str(), sizeof own.failure - 1);
}

}  // namespace tandem
