// Shares a run's events with the process that simulates it. The memory is a file without a name
// (memfd): the simulating child writes to it, and this process maps it to read. It holds a head (a
// length and a JSON object), blanks, and one EventRecord for each event.
#include "python/shared_trace.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/file.h"
#include "base/json_text.h"
#include "traces/event_records.h"
#include "traces/trace_files.h"

namespace tandem {
namespace {

constexpr std::size_t kAlignment = 64;  // bytes; the records begin at a multiple of it

Error no_memory(const char* what) {
  return Error{fmt::format("the events: {}: {}", what, std::strerror(errno)), Error::Failed};
}

// Returns the head, filled with blanks up to the alignment.
std::string head_of(const Program& program, const Trace& trace) {
  nlohmann::ordered_json head = {{"lanes", lane_names(program)}};
  for (int kind = 0; kind < kOpKinds; ++kind)
    head["kinds"].push_back(op_kind_name(static_cast<OpKind>(kind)));
  for (int group = 0; group < kGroupKinds; ++group)
    head["groups"].push_back(group_kind_name(static_cast<GroupKind>(group)));
  const Result<std::string> svg = svg_text(program, trace);
  head["svg"] = svg.ok() ? nlohmann::ordered_json(*svg) : nullptr;
  head["no_svg"] = svg.ok() ? "" : svg.error().message;
  const std::string text = json_line(head);
  const std::uint64_t length = text.size();
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  bytes += text;
  bytes.resize((bytes.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  return bytes;
}

}  // namespace

Result<SharedTrace> SharedTrace::make() {
  const int file = ::memfd_create("tandem-trace", MFD_CLOEXEC);
  if (file < 0) return no_memory("memory to share");
  return SharedTrace(file);
}

SharedTrace::SharedTrace(SharedTrace&& other) noexcept
    : file_(std::exchange(other.file_, -1)),
      memory_(std::exchange(other.memory_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

SharedTrace::~SharedTrace() {
  if (memory_ != nullptr) ::munmap(const_cast<char*>(memory_), size_);
  if (file_ >= 0) ::close(file_);
}

Status SharedTrace::write(const Program& program, const Trace& trace) const {
  bool written = write_all(file_, head_of(program, trace)) == 0;
  stream_records(program, trace, [&](std::span<const EventRecord> records) {
    written = written && write_all(file_, {reinterpret_cast<const char*>(records.data()),
                                           records.size_bytes()}) == 0;
  });
  if (!written) return no_memory("writing them");
  return Done{};
}

Status SharedTrace::map() {
  struct stat status = {};
  if (::fstat(file_, &status) != 0) return no_memory("their size");
  const auto size = static_cast<std::size_t>(status.st_size);
  void* const memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file_, 0);
  if (memory == MAP_FAILED) return no_memory("reading them");
  memory_ = static_cast<const char*>(memory);
  size_ = size;
  ::close(std::exchange(file_, -1));  // the memory stays
  return Done{};
}

}  // namespace tandem
