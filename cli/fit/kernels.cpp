// tandem-fit kernels: fits the costs of GPU kernels, and of collectives inside a node, to
// measurements that others made of each alone.
#include <fmt/format.h>

#include <map>
#include <memory>

#include "base/data_dir.h"
#include "base/file.h"
#include "cli/fit/fit_commands.h"
#include "launch/standard_output.h"
#include "report/page/page_parts.h"
#include "report/text/fit_table.h"
#include "topology/preset.h"
#include "validation/kernels/expert_fit.h"
#include "validation/kernels/kernel_fit.h"
#include "validation/published/profile_text.h"

namespace tandem {
namespace {

struct KernelOptions {
  std::string folder;
  std::string update;
  bool write = false;
};

// New texts of the files that change, by path.
using Texts = std::map<std::string, std::string>;

// Sets the constants in the text of the file at `path` to their values in `spec`.
template <class Spec>
Status set_values(const std::string& path, const std::vector<FittedConstant<Spec>>& constants,
                  Spec spec, const std::string& source, Texts* texts) {
  if (!texts->contains(path)) {
    ASSIGN_OR_RETURN((*texts)[path], read_file(path));
  }
  for (const auto& constant : constants)
    (*texts)[path] =
        with_value((*texts)[path], constant.key, constant.place(spec) / constant.unit, source);
  return Done{};
}

std::string source_of(std::size_t rows, const std::string& operation) {
  return fmt::format("fit to {} {} that ran alone (validation/kernels)", rows, operation);
}

// Fits the constants to each GPU's kernels. Adds to `lines` the errors of a cross-check, in which
// a fit to a random half of the kernels predicts the other half, and to `texts` the GPU's file with
// the fitted values.
Status fit_devices(const TimedKernels& kernels, const std::vector<DeviceConstant>& constants,
                   const std::string& operation, std::vector<KernelErrors>* lines, Texts* texts) {
  for (const auto& [gpu, timed] : kernels) {
    ASSIGN_OR_RETURN(const DeviceSpec device, load_device(gpu));
    const Fitted<DeviceSpec> fit = fit_kernels(device, timed, constants);
    lines->push_back({gpu, operation, fit.unseen});
    RETURN_IF_ERROR(set_values(device_path(gpu), constants, fit.spec,
                               source_of(timed.size(), operation), texts));
  }
  return Done{};
}

// Fits the constants of each preset's collectives as fit_devices() does. Also adds a line for each
// kind of collective, with the errors of the fit to all.
Status fit_presets(const TimedCollectives& collectives, std::vector<KernelErrors>* lines,
                   Texts* texts) {
  for (const auto& [preset, timed] : collectives) {
    ASSIGN_OR_RETURN(const ClusterSpec spec, load_preset(preset));
    const Fitted<ClusterSpec> fit = fit_collectives(spec, timed);
    lines->push_back({preset, "collectives", fit.unseen});
    for (const CommKind kind :
         {CommKind::AllReduce, CommKind::AllGather, CommKind::ReduceScatter, CommKind::AllToAll}) {
      std::vector<TimedCollective> own;
      for (const TimedCollective& collective : timed)
        if (collective.kind == kind) own.push_back(collective);
      lines->push_back(
          {preset, std::string(comm_kind_name(kind)), collective_errors(fit.spec, own)});
    }
    RETURN_IF_ERROR(set_values(preset_path(preset), collective_constants(), fit.spec,
                               source_of(timed.size(), "collectives"), texts));
  }
  return Done{};
}

// Returns the path of the file that describes the preset's GPU.
Result<std::string> device_path_of(const ClusterSpec& spec) {
  for (const std::string& name : device_names()) {
    ASSIGN_OR_RETURN(const DeviceSpec device, load_device(name));
    if (device.name == spec.device.name) return device_path(name);
  }
  return Error{fmt::format("{}: its GPU '{}' has no file", spec.name, spec.device.name)};
}

// Fits the constants of DeepEP and sets them in the files of the presets' GPUs. An Error if two
// presets have the same GPU: its file can hold the constants of one preset only.
Status fit_exchange_kernels(const TimedExchanges& exchanges, std::vector<KernelErrors>* lines,
                            Texts* texts) {
  std::map<std::string, std::string> preset_of;  // by its GPU's file
  for (const auto& [preset, timed] : exchanges) {
    ASSIGN_OR_RETURN(const ClusterSpec spec, load_preset(preset));
    const Fitted<ClusterSpec> fit = fit_exchanges(spec, timed);
    lines->push_back({preset, "DeepEP", fit.unseen});
    ASSIGN_OR_RETURN(const std::string path, device_path_of(spec));
    const auto [known, is_new] = preset_of.emplace(path, preset);
    if (!is_new)
      return Error{
          fmt::format("deepep.csv: found {} and {}, expected one preset with their GPU, {}",
                      known->second, preset, spec.device.name)};
    RETURN_IF_ERROR(set_values(path, exchange_constants(), fit.spec,
                               source_of(timed.size(), "exchanges by DeepEP"), texts));
  }
  return Done{};
}

// Adds a line for each GPU: the errors of experts with equal loads, each predicted by a fit to
// experts of other shapes.
void add_experts(const std::vector<TimedExperts>& timed, std::vector<KernelErrors>* lines) {
  std::vector<TimedExperts> even;
  for (const TimedExperts& experts : timed)
    if (experts.power == 0) even.push_back(experts);
  const std::vector<double> unseen = unseen_experts(even);
  std::map<std::string, std::vector<double>> of_gpu;
  for (std::size_t i = 0; i < even.size(); ++i) of_gpu[even[i].gpu].push_back(unseen[i]);
  for (const auto& [gpu, errors] : of_gpu)
    lines->push_back({gpu, "grouped GEMMs of experts", errors_of(errors)});
}

Status run(const KernelOptions& options) {
  const std::string folder =
      options.folder.empty() ? data_dir() + "/validation/kernels" : options.folder;
  ASSIGN_OR_RETURN(const TimedKernels gemms, read_gemms(folder + "/gemm.csv"));
  ASSIGN_OR_RETURN(const TimedKernels attentions, read_attentions(folder + "/attention.csv"));
  ASSIGN_OR_RETURN(const TimedCollectives collectives,
                   read_collectives(folder + "/collectives.csv"));
  ASSIGN_OR_RETURN(const TimedExchanges exchanges, read_exchanges(folder + "/deepep.csv"));
  ASSIGN_OR_RETURN(const auto experts, read_experts(folder + "/experts.csv"));
  std::vector<KernelErrors> lines;
  Texts texts;
  RETURN_IF_ERROR(fit_devices(gemms, gemm_constants(), "GEMMs", &lines, &texts));
  RETURN_IF_ERROR(
      fit_devices(attentions, attention_constants(), "causal attentions", &lines, &texts));
  RETURN_IF_ERROR(fit_presets(collectives, &lines, &texts));
  RETURN_IF_ERROR(fit_exchange_kernels(exchanges, &lines, &texts));
  add_experts(experts, &lines);
  fmt::print(standard_output(), "{}", kernel_table(lines));
  if (!options.update.empty()) {
    ASSIGN_OR_RETURN(const std::string page, read_file(options.update));
    ASSIGN_OR_RETURN(
        const std::string updated,
        with_parts(page, options.update, "tandem-fit kernels", {{"alone", kernel_table(lines)}}));
    RETURN_IF_ERROR(write_file(options.update, updated));
  }
  if (!options.write) return Done{};
  for (const auto& [path, text] : texts) RETURN_IF_ERROR(write_file(path, text));
  return Done{};
}

}  // namespace

void add_kernels(const Command& app) {
  auto options = std::make_shared<KernelOptions>();
  const Command command = app.subcommand(
      "kernels",
      "Fits the constants of GEMMs, fused attention, collectives inside a node and DeepEP, in "
      "topology/presets, to those that others timed alone, and prints how a fit to a random half "
      "of them predicts the other half; of experts' grouped GEMMs, a fit to other shapes.");
  command.option("folder", &options->folder,
                 "of gemm.csv, attention.csv, collectives.csv, deepep.csv and experts.csv; default "
                 "validation/kernels");
  command.option("--update", &options->update,
                 "PAGE.md: write the table between its marks, as docs/accuracy.md has it");
  command.flag("--write", &options->write, "write the constants to the GPUs' and presets' files");
  command.footer("Example: tandem-fit kernels");
  command.run([options] { return run(*options); });
}

}  // namespace tandem
