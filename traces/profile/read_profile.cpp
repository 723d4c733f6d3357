// Reads the files in parallel, numbers their ranks, aligns their clocks, and sets time 0 to the
// first kernel.
#include "traces/profile/read_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <optional>
#include <thread>

#include "base/hostlist.h"
#include "base/parallel/parallel.h"
#include "traces/profile/align.h"
#include "traces/profile/finish_rank.h"
#include "traces/profile/kineto_reader.h"
#include "traces/profile/nsight_reader.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kReadAtOnce = 4;  // files; a file needs much memory while it is read

bool is_sqlite(const std::string& path) {
  std::string begin(15, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  return begin == "SQLite format 3";
}

// Says whether it is Nsight Systems' own format, which is refused with advice.
bool is_nsight_report(const std::string& path) { return path.ends_with(".nsys-rep"); }

// Returns the paths, with each folder replaced by the profiles in it.
Result<std::vector<std::string>> files_of(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      files.push_back(path);
      continue;
    }
    const std::size_t before = files.size();
    for (fs::directory_iterator at(path, error), end; at != end && !error; at.increment(error)) {
      if (has_profile_name(at->path().string())) files.push_back(at->path().string());
    }
    if (error) return Error::at(path, error.message() + ", expected a readable folder");
    if (files.size() == before)
      return Error::at(path,
                       "found no profile in the folder, expected *.json, *.json.gz or *.sqlite");
    std::sort(files.begin() + static_cast<std::ptrdiff_t>(before), files.end(), in_natural_order);
  }
  return files;
}

// Returns the number behind the last "rank" in the file's name: 34 for "rank-34.pt.trace.json.gz".
std::optional<int> rank_in_name(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  std::size_t at = name.rfind("rank");
  if (at == std::string::npos) return std::nullopt;
  at += 4;
  while (at < name.size() && (name[at] == '-' || name[at] == '_')) ++at;
  int rank = 0;
  const auto [end, error] = std::from_chars(name.data() + at, name.data() + name.size(), rank);
  return error == std::errc{} && rank >= 0 ? std::optional(rank) : std::nullopt;
}

// Gives a number to each rank whose file has none, and sorts by number. An Error if two have the
// same.
Status number_ranks(std::vector<ProfileRank>* ranks) {
  std::map<int, const ProfileRank*> seen;
  int counted = 0;
  for (ProfileRank& rank : *ranks) {
    if (!rank.rank_is_given) {
      const bool alone = std::ranges::count(*ranks, rank.path, &ProfileRank::path) == 1;
      const std::optional<int> named = alone ? rank_in_name(rank.path) : std::nullopt;
      rank.rank_is_given = named.has_value();
      rank.rank = named ? *named : counted;
    }
    ++counted;
    const auto [other, is_new] = seen.try_emplace(rank.rank, &rank);
    if (is_new) continue;
    const bool is_counted = !rank.rank_is_given || !other->second->rank_is_given;
    return Error::at(
        rank.path,
        fmt::format(
            "found rank {}, which {} is of{}, expected a file a rank", rank.rank,
            other->second->path,
            is_counted ? " (one of them tells no rank and was counted: name it rank-N)" : ""));
  }
  std::ranges::sort(*ranks, {}, &ProfileRank::rank);
  return Done{};
}

// Refuses files of jobs with different numbers of ranks.
Status check_worlds(const std::vector<ProfileRank>& ranks) {
  const ProfileRank* first = nullptr;
  for (const ProfileRank& rank : ranks) {
    if (rank.world == 0) continue;
    if (first == nullptr) first = &rank;
    if (rank.world != first->world)
      return Error::at(
          rank.path, fmt::format("found a rank of {}, where {} is of {}, expected files of one job",
                                 rank.world, first->path, first->world));
  }
  return Done{};
}

// Completes the transfers of torch.profiler, which tells a send's "Dst Rank" and a receive's "Src
// Rank" alone: the other end is the rank itself. Its "Seq" of a transfer counts the rank's own ones
// and differs between both ends, so that it is left out.
void complete_transfers(ProfileRank* rank) {
  if (!rank->rank_is_given) return;
  for (CollectiveArgs& args : rank->collectives) {
    const std::string& name = rank->names.text(args.collective);
    const bool sends = name == "send";
    if (!sends && name != "recv") continue;
    int& own_end = sends ? args.from : args.to;
    if (own_end >= 0) continue;
    own_end = rank->rank;
    args.sequence = -1;
  }
}

// Makes times count from the whole microsecond in which the first kernel starts. Whole microseconds
// stay whole, so that rounding as HTA does gives the same as before.
void count_from_first_kernel(Profile* profile) {
  Nanoseconds first = std::numeric_limits<Nanoseconds>::max();
  for (const ProfileRank& rank : profile->ranks)
    first = std::min(first, rank.kernels.front().start_ns);
  first -= ((first % 1000) + 1000) % 1000;
  for (ProfileRank& rank : profile->ranks) shift(-first, &rank);
}

Result<std::vector<ProfileRank>> read_one(const std::string& path) {
  if (is_nsight_report(path))
    return Error::at(path,
                     "found a report of Nsight Systems, expected its SQLite: nsys export --type "
                     "sqlite makes it");
  return is_sqlite(path) ? read_nsight(path) : read_kineto(path);
}

}  // namespace

bool has_profile_name(const std::string& path) {
  return path.ends_with(".json") || path.ends_with(".json.gz") || path.ends_with(".sqlite");
}

bool may_be_profile(const std::string& path) {
  std::error_code error;
  return fs::is_directory(path, error) || has_profile_name(path) || is_sqlite(path) ||
         is_nsight_report(path);
}

Result<Profile> read_profile(const std::vector<std::string>& paths) {
  ASSIGN_OR_RETURN(const std::vector<std::string> files, files_of(paths));
  std::vector<std::optional<Result<std::vector<ProfileRank>>>> read(files.size());
  std::atomic<bool> failed = false;
  const int threads = std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1,
                                 static_cast<int>(kReadAtOnce));
  share_among_threads(threads, files.size(), [&](int, std::size_t i) {
    if (failed) return;
    read[i].emplace(read_one(files[i]));
    if (!read[i]->ok()) failed = true;
  });
  Profile profile;
  for (const auto& ranks : read) {
    if (ranks && !ranks->ok()) return ranks->error();
  }
  for (auto& ranks : read) {
    for (ProfileRank& rank : **ranks) profile.ranks.push_back(std::move(rank));
  }
  RETURN_IF_ERROR(check_worlds(profile.ranks));
  RETURN_IF_ERROR(number_ranks(&profile.ranks));
  for (ProfileRank& rank : profile.ranks) complete_transfers(&rank);
  RETURN_IF_ERROR(keep_common_steps(&profile.ranks));
  RETURN_IF_ERROR(align(&profile));
  count_from_first_kernel(&profile);
  return profile;
}

}  // namespace tandem
