// Reads profiles from their TOML files. A file with the key `base` overrides another one's values.
#include "workload/frameworks/framework_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/data_dir.h"
#include "base/nearest.h"
#include "base/split.h"
#include "base/toml/sourced_file.h"

namespace tandem {
namespace {

constexpr ProfileField kFields[] = {
    {"unaligned_gemm", &FrameworkProfile::unaligned_gemm},
    {"attention_share", &FrameworkProfile::attention_share},
    {"grouped_launch_us", &FrameworkProfile::grouped_launch_s, 1e-6},
    {"expert_gemm_us", &FrameworkProfile::expert_gemm_s, 1e-6},
    {"grouped_compute", &FrameworkProfile::grouped_compute, 1},
    {"grouped_operands", &FrameworkProfile::grouped_operands, 1},
    {"scan_tflops", &FrameworkProfile::scan_flops_per_s, 1e12},
    {"compute_stretch", &FrameworkProfile::compute_stretch},
    {"memory_efficiency", &FrameworkProfile::memory_efficiency},
    {"cast_efficiency", &FrameworkProfile::cast_efficiency},
    {"cast_forms", &FrameworkProfile::cast_forms},
    {"pass_share", &FrameworkProfile::pass_share},
    {"matrix_passes", &FrameworkProfile::matrix_passes},
    {"matrix_passes_backward", &FrameworkProfile::matrix_passes_backward},
    {"cross_entropy_bytes", &FrameworkProfile::cross_entropy_bytes},
    {"accumulation_bytes", &FrameworkProfile::accumulation_bytes},
    {"optimizer_bytes", &FrameworkProfile::optimizer_bytes},
    {"forward_launch_ms", &FrameworkProfile::forward_launch_s, 1e-3},
    {"backward_launch_ms", &FrameworkProfile::backward_launch_s, 1e-3},
    {"tensor_launch_ms", &FrameworkProfile::tensor_launch_s, 1e-3},
    {"wide_tensor_launch_ms", &FrameworkProfile::wide_tensor_launch_s, 1e-3},
    {"expert_launch_ms", &FrameworkProfile::expert_launch_s, 1e-3},
    {"iteration_overhead_ms", &FrameworkProfile::iteration_overhead_s, 1e-3},
    {"rank_overhead_ms", &FrameworkProfile::rank_overhead_s, 1e-3},
    {"shard_latency_us", &FrameworkProfile::shard_latency_s, 1e-6},
    {"ring_hidden", &FrameworkProfile::ring_hidden},
    {"bulk_gradients", &FrameworkProfile::bulk_gradients},
    {"tensor_stretch", &FrameworkProfile::tensor_stretch},
    {"partial_tensor_stretch", &FrameworkProfile::partial_tensor_stretch},
    {"tensor_overhead_us", &FrameworkProfile::tensor_overhead_s, 1e-6},
    {"pipeline_stretch", &FrameworkProfile::pipeline_stretch},
    {"pipeline_overhead_us", &FrameworkProfile::pipeline_overhead_s, 1e-6},
    {"data_stretch", &FrameworkProfile::data_stretch},
    {"zero3_stretch", &FrameworkProfile::zero3_stretch},
    {"measured_gpus", &FrameworkProfile::measured_gpus},
    {"interval_low", &FrameworkProfile::interval_low},
    {"interval_high", &FrameworkProfile::interval_high},
    {"experts_low", &FrameworkProfile::experts_low},
    {"experts_high", &FrameworkProfile::experts_high}};

// The most bases in a row. A longer chain of files is taken for a circle.
constexpr int kMostBases = 8;

constexpr const char* kFolder = "workload/frameworks";

std::string folder() { return data_dir() + '/' + kFolder; }

Result<std::string> path_of(const std::string& name) {
  if (name.ends_with(".toml")) return name;
  const std::vector<std::string> known = framework_profile_names();
  if (known.empty())
    return Error{fmt::format("found no software in {}, expected TANDEM_DATA_DIR to name the folder "
                             "that holds workload/frameworks",
                             folder()),
                 Error::Missing};
  if (std::ranges::find(known, name) == known.end())
    return Error{
        fmt::format("found software '{}', expected a known one or a file.toml; the "
                    "nearest is '{}'",
                    name, nearest(name, known))};
  return framework_profile_path(name);
}

// Returns the base that a profile's file names.
Result<std::string> base_of(const std::string& path, SourcedFile* file) {
  ASSIGN_OR_RETURN(const std::string base, file->text("base"));
  if (!base.ends_with(".toml")) return base;
  return (std::filesystem::path(path).parent_path() / base).string();
}

// Reads the file's base, if it has one, and then replaces the values that the file itself has.
// `bases`: the number of files that led to this one. Values in `instead` replace those of files.
Status read_into(const std::string& name, const ProfileValues& instead, int bases,
                 FrameworkProfile* profile) {
  ASSIGN_OR_RETURN(const std::string path, path_of(name));
  ASSIGN_OR_RETURN(SourcedFile file, SourcedFile::read(path));
  const bool derived = file.has("base");
  if (derived) {
    ASSIGN_OR_RETURN(const std::string base, base_of(path, &file));
    if (bases >= kMostBases) return file.expected("base", "bases that end");
    RETURN_IF_ERROR(read_into(base, instead, bases + 1, profile));
  }
  for (const ProfileField& field : kFields) {
    if (!derived || file.has(field.key)) {
      ASSIGN_OR_RETURN(const double value, file.number(field.key));
      if (!std::isfinite(value) || value < 0)
        return file.expected(field.key, "a number of at least 0");
      profile->*field.place = value * field.unit;
    }
    const auto replaced = instead.find({name, field.key});
    if (replaced != instead.end()) profile->*field.place = replaced->second * field.unit;
  }
  if (!derived || file.has("framework")) {
    ASSIGN_OR_RETURN(profile->framework, file.text("framework"));
  }
  if (file.has("measured_on")) {
    ASSIGN_OR_RETURN(const std::string list, file.word("measured_on"));
    if (bases == 0) profile->measured_on = split(list, ", ");
  }
  return file.finish();
}

}  // namespace

std::string uncalibrated_path() { return data_dir() + "/workload/uncalibrated.toml"; }

std::span<const ProfileField> profile_fields() { return kFields; }

std::string framework_profile_path(const std::string& name) {
  return fmt::format("{}/{}.toml", folder(), name);
}

Result<FrameworkProfile> load_framework_profile(const std::string& name,
                                                const ProfileValues& instead) {
  FrameworkProfile profile;
  RETURN_IF_ERROR(read_into(name, instead, 0, &profile));
  profile.name = name;
  return profile;
}

Result<std::vector<std::string>> framework_profile_files(const std::string& name) {
  std::vector<std::string> files;
  for (std::string next = name; !next.empty() && files.size() <= kMostBases;) {
    ASSIGN_OR_RETURN(const std::string path, path_of(next));
    ASSIGN_OR_RETURN(SourcedFile file, SourcedFile::read(path));
    files.push_back(path);
    next.clear();
    if (file.has("base")) {
      ASSIGN_OR_RETURN(next, base_of(path, &file));
    }
  }
  return files;
}

std::vector<std::string> framework_profile_names() { return data_names(kFolder); }

}  // namespace tandem
