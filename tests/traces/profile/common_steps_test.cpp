// Ranks that were profiled over different steps.
#include <catch2/catch.hpp>

#include "tests/traces/profile/kineto_text.h"
#include "traces/profile/profile_notes.h"

using namespace tandem;

namespace {

// ProfilerSteps of 100 us, each with a kernel of 60 us.
KinetoRows steps_from(int first, int last) {
  KinetoRows rows;
  for (int step = first; step <= last; ++step) {
    const int begin = 100 * step;
    rows.push_back(
        annotation_row(fmt::format("ProfilerStep#{}", step), std::to_string(begin), "100"));
    rows.push_back(launch_row(step + 1, std::to_string(begin + 1)));
    rows.push_back(kernel_row("gemm", 7, std::to_string(begin + 10), "60", step + 1,
                              collective("allreduce", 1000, "[0, 1]", 2, "DATA_PARALLEL_GROUP",
                                         fmt::format(R"(, "Seq": {})", step))));
  }
  return rows;
}

std::vector<std::string> files_in(const Folder& folder, const KinetoRows& a, const KinetoRows& b) {
  return {folder.with("a.json", kineto_text(a, 0)), folder.with("b.json", kineto_text(b, 1))};
}

}  // namespace

TEST_CASE("the steps that all ranks have count, less the last of them") {
  const Folder folder;
  const Profile profile = read_all(files_in(folder, steps_from(2, 5), steps_from(3, 6)));
  CHECK(window_of(profile).steps == 2);
  for (const ProfileSplit& split : splits_in(profile)) {
    CHECK(split.kernels == 2);
    CHECK(split.step_ns == 160'000);
    CHECK(split.first_ns == 0);
  }
  CHECK(profile_notes(profile) ==
        std::vector<std::string>{
            "Of the ranks' 8 steps 2 are left out, as not all ranks have them."});
}

TEST_CASE("a rank without a step that the others have is refused") {
  const Folder folder;
  const auto refused = [&](const KinetoRows& second) {
    const auto files = files_in(folder, steps_from(2, 3), second);
    return profile_refusal(files);
  };
  CHECK(refused(steps_from(4, 6)).find("found no step of rank 0 that all ranks have") !=
        std::string::npos);
  CHECK(refused({kernel_row("gemm", 7, "210", "60")})
            .find("found no step (ProfilerStep) of rank 1 beside") != std::string::npos);
}
