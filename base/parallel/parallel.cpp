#include "base/parallel/parallel.h"

namespace tandem {

std::vector<Result<std::string>> fork_map(int count, int jobs,
                                          const std::function<Result<std::string>(int)>& job,
                                          const std::function<void(int)>& on_done,
                                          const std::function<void()>& on_wait) {
  std::vector<Result<std::string>> results(count, Error{"not run", Error::Failed});
  int begun = 0;
  const auto next = [&]() -> Result<std::optional<int>> {
    return begun < count ? std::optional(begun++) : std::nullopt;
  };
  const Status status = fork_each(
      jobs, next, job,
      [&](int i, const auto& result) -> Status {
        results[i] = result;
        on_done(i);
        return Done{};
      },
      on_wait);
  if (!status.ok()) results.assign(count, status.error());
  return results;
}

}  // namespace tandem
