// Profiles as torch.profiler writes them, made row by row; and samples that lie beside the
// repository.
#pragma once

#include <fmt/format.h>
#include <zlib.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "tests/folder.h"
#include "traces/profile/profile_metrics.h"
#include "traces/profile/read_profile.h"

namespace tandem {

using KinetoRows = std::vector<std::string>;

// Times in us, as text: "1.500". `more`: further members of args, with a comma before them.
inline std::string kernel_row(const std::string& name, int stream, const std::string& ts,
                              const std::string& dur, int correlation = 0,
                              const std::string& more = "") {
  return fmt::format(
      R"({{"ph": "X", "cat": "kernel", "name": "{}", "pid": 0, "tid": {}, "ts": {}, )"
      R"("dur": {}, "args": {{"device": 0, "stream": {}, "correlation": {}{}}}}})",
      name, stream, ts, dur, stream, correlation, more);
}
inline std::string copy_row(int stream, const std::string& ts, const std::string& dur) {
  return fmt::format(R"({{"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD", "pid": 0, )"
                     R"("tid": {}, "ts": {}, "dur": {}, "args": {{"stream": {}}}}})",
                     stream, ts, dur, stream);
}
inline std::string launch_row(int correlation, const std::string& ts, int thread = 1) {
  return fmt::format(R"({{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, )"
                     R"("tid": {}, "ts": {}, "dur": 1, "args": {{"correlation": {}}}}})",
                     thread, ts, correlation);
}
inline std::string annotation_row(const std::string& name, const std::string& ts,
                                  const std::string& dur, int thread = 1) {
  return fmt::format(R"({{"ph": "X", "cat": "user_annotation", "name": "{}", "pid": 9, "tid": {}, )"
                     R"("ts": {}, "dur": {}, "args": {{}}}})",
                     name, thread, ts, dur);
}
inline std::string gpu_annotation_row(const std::string& name, int stream, const std::string& ts,
                                      const std::string& dur) {
  return fmt::format(R"({{"ph": "X", "cat": "gpu_user_annotation", "name": "{}", "pid": 0, )"
                     R"("tid": {}, "ts": {}, "dur": {}, "args": {{}}}})",
                     name, stream, ts, dur);
}
// The arguments of a collective of that many floats, for kernel_row.
inline std::string collective(const std::string& name, int elements, const std::string& ranks,
                              int size, const std::string& description = "",
                              const std::string& more = "") {
  return fmt::format(R"(, "Collective name": "{}", "In msg nelems": {}, "Out msg nelems": {}, )"
                     R"("Group size": {}, "dtype": "Float", "Process Group Name": "7", )"
                     R"("Process Group Description": "{}", "Process Group Ranks": "{}"{})",
                     name, elements, elements, size, description, ranks, more);
}

inline std::string kineto_text(const KinetoRows& rows, int rank = 0) {
  return fmt::format(
      "{{\"schemaVersion\": 1,\n\"distributedInfo\": {{\"rank\": {}, "
      "\"world_size\": 2}},\n\"traceEvents\": [\n{}\n]}}\n",
      rank, fmt::join(rows, ",\n"));
}

inline Profile read_all(const std::vector<std::string>& paths) {
  auto profile = read_profile(paths);
  if (!profile.ok()) FAIL(profile.error().text());
  return std::move(*profile);
}
inline Profile read_rows(const KinetoRows& rows) {
  const Folder folder;
  return read_all({folder.with("trace.json", kineto_text(rows))});
}
inline std::vector<ProfileSplit> splits_in(const Profile& profile, const ProfileView& view = {}) {
  const auto splits = splits_of(profile, window_of(profile), view);
  if (!splits.ok()) FAIL(splits.error().text());
  return *splits;
}

inline const PhaseTotal* phase_in(const ProfileSplit& split, PassPhase phase, int stage = -1) {
  for (const PhaseTotal& total : split.phases) {
    if (total.phase == phase && total.stage == stage) return &total;
  }
  return nullptr;
}

// The Error of files that are refused.
inline std::string profile_refusal(const std::vector<std::string>& paths) {
  const auto profile = read_profile(paths);
  REQUIRE(!profile.ok());
  CHECK(profile.error().kind == Error::BadInput);
  CHECK(profile.error().text().find('\n') == std::string::npos);
  return profile.error().text();
}

inline void write_gzip(const std::string& path, const std::string& text) {
  const gzFile file = gzopen(path.c_str(), "wb");
  REQUIRE(file != nullptr);
  REQUIRE(gzwrite(file, text.data(), static_cast<unsigned>(text.size())) ==
          static_cast<int>(text.size()));
  REQUIRE(gzclose(file) == Z_OK);
}

// A sample beside the repository; without it the test is skipped.
inline std::string profile_sample(const std::string& name) {
  std::string path = TANDEM_SOURCE_DIR "/../shared/samples/" + name;
  if (!std::filesystem::exists(path)) FAIL("skipped: " << name << " is not there");
  return path;
}

}  // namespace tandem
