#include "interop/shell/slurm.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <string_view>

#include "base/split.h"
#include "interop/document/fields.h"
#include "interop/document/text_scanner.h"

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

// Returns the number of an option: 8 of "8" and "h100:8", and 6 of "h100:4,a100:2". In --gres only
// GPUs count: 8 of "gpu:8,nvme:1", and 1 of "gpu:h100". A number that is not known, as in "4-8", is
// "${4-8}", like a variable without a value.
std::string number_in(const std::string& value, bool is_gres) {
  long long sum = 0;
  for (const std::string& part : split(value, ",")) {
    if (is_gres && part != "gpu" && !part.starts_with("gpu:")) continue;
    const std::string last = part.substr(part.rfind(':') + 1);
    const bool has_number = !last.empty() && std::isdigit(static_cast<unsigned char>(last[0])) != 0;
    const long long number = is_gres && !has_number && !part.ends_with('}') ? 1 : digits_of(last);
    if (number < 0) return value.starts_with("${") ? value : "${" + value + "}";
    sum += number;
  }
  return fmt::format("{}", sum);
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
      } else if (!row.brief.empty() && option.starts_with(row.brief) &&
                 option.find_first_of("0123456789$") == row.brief.size()) {
        value = option.substr(row.brief.size());  // "-N4"
      }
      const bool is_gres = row.name == "--gres";
      if (value.empty() || (is_gres && value.find("gpu") == std::string::npos)) continue;
      const std::string number = number_in(value, is_gres);
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
