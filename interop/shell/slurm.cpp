#include "interop/shell/slurm.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "interop/document/fields.h"

namespace tandem {
namespace {

struct SlurmOption {
  std::string_view name, brief;  // "--nodes" and "-N"
  std::initializer_list<std::string_view> variables;
};

const SlurmOption kOptions[] = {
    {"--nodes", "-N", {"SLURM_NNODES", "SLURM_JOB_NUM_NODES"}},
    {"--ntasks", "-n", {"SLURM_NTASKS", "SLURM_NPROCS"}},
    {"--gpus", "-G", {"SLURM_GPUS"}},
    {"--ntasks-per-node", "", {"SLURM_NTASKS_PER_NODE"}},
    {"--gpus-per-node", "", {"SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE"}},
    {"--gres", "", {"SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE"}}};

// Returns the number in "8", "gpu:8" or "gpu:h100:8"; empty: another text, such as "4-8".
std::string number_in(const std::string& value) {
  const std::string number = value.substr(value.rfind(':') + 1);
  const bool is_whole = !number.empty() && number.size() < 8 &&
                        number.find_first_not_of("0123456789") == std::string::npos;
  return is_whole ? number : "";
}

}  // namespace

void set_slurm_variables(const std::vector<std::string>& options, int line,
                         std::map<std::string, ShellVariable>* variables) {
  for (std::size_t i = 0; i < options.size(); ++i) {
    const std::string& option = options[i];
    const std::size_t equals = option.find('=');
    for (const SlurmOption& row : kOptions) {
      std::string value;
      if (option == row.name || (!row.brief.empty() && option == row.brief)) {
        if (i + 1 < options.size()) value = options[i + 1];
      } else if (equals != std::string::npos && option.substr(0, equals) == row.name) {
        value = option.substr(equals + 1);
      } else if (!row.brief.empty() && option.starts_with(row.brief)) {
        value = option.substr(row.brief.size());  // "-N4"
      }
      if (row.name == "--gres" && !value.starts_with("gpu")) continue;
      const std::string number = number_in(value);
      if (number.empty()) continue;
      for (const std::string_view name : row.variables)
        (*variables)[std::string(name)] = {{number}, line};
    }
  }
}

std::vector<std::string> take_srun_options(ShellCommand* command) {
  std::vector<std::string> options;
  const auto srun = std::ranges::find(*command, "srun", &ShellWord::text);
  if (srun == command->end()) return options;
  const auto program = std::find_if(srun + 1, command->end(), [](const ShellWord& word) {
    return matches_any(word.text.substr(word.text.rfind('/') + 1),
                       {"python*", "torchrun", "bash", "sh", "deepspeed", "accelerate", "numactl",
                        "env", "singularity", "apptainer", "*.sh", "*.py"});
  });
  if (program == command->end()) return options;
  for (auto word = srun + 1; word != program; ++word) options.push_back(word->text);
  command->erase(srun + 1, program);
  return options;
}

}  // namespace tandem
