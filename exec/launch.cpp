#include "exec/launch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <vector>

#include "base/csv.h"

namespace tandem {
namespace {

struct Family {
  const char* name;
  const char* rank;
  const char* ranks;
  const char* local_rank;
};

constexpr std::array<Family, 5> kFamilies = {{
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
    {"MVAPICH", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK"},
    {"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK"},
    {"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"},
}};

std::optional<int> number(const char* text) {
  if (text == nullptr) return std::nullopt;
  const auto value = parse_integer(text);
  if (!value.ok() || *value < 0 || *value > 1'000'000'000) return std::nullopt;
  return static_cast<int>(*value);
}

}  // namespace

std::optional<LaunchedRank> launched_rank(const Environment& get) {
  for (const Family& family : kFamilies) {
    const auto rank = number(get(family.rank)), ranks = number(get(family.ranks)),
               local_rank = number(get(family.local_rank));
    if (rank && ranks && local_rank && *rank < *ranks)
      return LaunchedRank{*rank, *ranks, *local_rank, family.name};
  }
  return std::nullopt;
}

std::optional<LaunchedRank> launched_rank() {
  return launched_rank([](const char* name) { return std::getenv(name); });
}

bool rank_0_says(const Error& error) {
  constexpr timespec kPatience{5, 0};  // mpirun signals after a second
  const auto launched = launched_rank();
  return launched && launched->rank > 0 && error.kind != Error::Failed &&
         nanosleep(&kPatience, nullptr) != 0;
}

Error become_mpirun(int ranks) {
  std::error_code ignored;
  std::vector<std::string> words = {
      "mpirun",
      "-q",
      "--oversubscribe",
      "--bind-to",
      "none",
      "-np",
      std::to_string(ranks),
      std::filesystem::read_symlink("/proc/self/exe", ignored).string()};
  std::ifstream command("/proc/self/cmdline");
  std::string word;
  std::getline(command, word, '\0');
  while (std::getline(command, word, '\0')) words.push_back(word);
  if (geteuid() == 0) {  // whoever runs this as root means it
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  }
  std::vector<char*> arguments;
  for (std::string& each : words) arguments.push_back(each.data());
  arguments.push_back(nullptr);
  execvp("mpirun", arguments.data());
  return Error{fmt::format("mpirun: {}; --backend host needs no MPI", std::strerror(errno)),
               Error::Missing};
}

}  // namespace tandem
