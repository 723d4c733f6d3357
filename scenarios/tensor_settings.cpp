// Reads tensor overlap in three layers: a method, then a file, then keys of single GEMMs.
#include "scenarios/tensor_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/csv.h"
#include "base/file.h"
#include "base/nearest.h"

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;

// The SMs that communication takes if it overlaps with this GEMM in bulk, or pipelined (NeMo's
// numbers, see overlap_by()). 0: the GEMM cannot overlap so.
struct GemmSms {
  TensorGemm gemm;
  int bulk_sms, pipelined_sms;
};
constexpr GemmSms kGemmSms[] = {
    {TensorGemm::QkvFprop, 0, 16},  {TensorGemm::QkvDgrad, 4, 0},   {TensorGemm::QkvWgrad, 24, 0},
    {TensorGemm::ProjFprop, 0, 24}, {TensorGemm::ProjDgrad, 0, 16}, {TensorGemm::Fc1Fprop, 0, 16},
    {TensorGemm::Fc1Dgrad, 2, 0},   {TensorGemm::Fc1Wgrad, 4, 0},   {TensorGemm::Fc2Fprop, 0, 16},
    {TensorGemm::Fc2Dgrad, 0, 16},
};
static_assert(std::size(kGemmSms) == kTensorGemms);

// The words for methods: Tandem's, and Transformer Engine's.
constexpr std::pair<std::string_view, TensorMethod> kMethods[] = {
    {"off", TensorMethod::Off},
    {"bulk", TensorMethod::Bulk},
    {"pipelined", TensorMethod::Pipelined},
    {"pipeline", TensorMethod::Pipelined},
    {"ring", TensorMethod::Ring},
    {"ring_exchange", TensorMethod::Ring},
};

Result<TensorMethod> parse_method(std::string_view text) {
  for (const auto& [word, method] : kMethods) {
    if (word == text) return method;
  }
  return Error{fmt::format("found method '{}', expected off, bulk, pipelined or ring", text)};
}

Result<int> parse_count(std::string_view text) {
  const auto value = parse_integer(text);
  if (!value.ok() || *value < 0 || *value > 1000)
    return Error{fmt::format("found '{}', expected an integer from 0 to 1000", text)};
  return static_cast<int>(*value);
}

// Reads METHOD, METHOD:SMS or METHOD:SMS:SPLITS. Numbers that are missing are the method's own.
Result<GemmOverlap> parse_overlap(std::string_view text, TensorGemm gemm) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(':', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  if (parts.size() > 3)
    return Error{fmt::format("found '{}', expected METHOD, METHOD:SMS or METHOD:SMS:SPLITS", text)};
  ASSIGN_OR_RETURN(const TensorMethod method, parse_method(parts[0]));
  GemmOverlap overlap = overlap_by(method)[static_cast<std::size_t>(gemm)];
  overlap.method = method;
  if (parts.size() > 1) {
    ASSIGN_OR_RETURN(overlap.sms, parse_count(parts[1]));
  }
  if (parts.size() > 2) {
    ASSIGN_OR_RETURN(overlap.splits, parse_count(parts[2]));
  }
  return overlap;
}

Result<TensorGemm> gemm_named(std::string_view text) {
  std::vector<std::string> names;
  for (const GemmSms& row : kGemmSms) {
    if (tensor_gemm_name(row.gemm) == text) return row.gemm;
    names.emplace_back(tensor_gemm_name(row.gemm));
  }
  return Error{fmt::format("found GEMM '{}', expected a known one; the nearest is '{}'", text,
                           nearest(text, names))};
}

// Returns the setting of that name, from "configs" or else from the top of the file; without a
// name, the whole file.
Result<Json> choose_setting(const Json& file, const std::string& setting) {
  const Json& all = file.contains("configs") ? file.at("configs") : file;
  if (setting.empty()) {
    if (!file.contains("configs")) return all;
    return Error{
        fmt::format("found {} settings, expected overlap.tensor_setting to name one", all.size())};
  }
  if (all.is_object() && all.contains(setting)) return all.at(setting);
  std::vector<std::string> names;
  for (const auto& [known, value] : all.items()) names.push_back(known);
  return Error{fmt::format("found no setting '{}', expected one of {}; the nearest is '{}'",
                           setting, names.size(), names.empty() ? "" : nearest(setting, names))};
}

Result<int> count_of(const Json& gemm, const char* key, int otherwise) {
  if (!gemm.contains(key)) return otherwise;
  const Json& count = gemm.at(key);
  if (!count.is_number_integer())
    return Error{fmt::format("found {} = {}, expected an integer", key,
                             count.is_structured() ? count.type_name() : count.dump())};
  const auto value = count.get<std::int64_t>();
  if (value < 0 || value > 1000)
    return Error{fmt::format("found {} = {}, expected an integer from 0 to 1000", key, value)};
  return static_cast<int>(value);
}

Result<TensorOverlap> read_setting(const Json& setting) {
  if (!setting.is_object()) return Error{"found no object, expected GEMMs by name"};
  TensorOverlap overlap;
  for (const auto& [key, value] : setting.items()) {
    if (value.is_null()) continue;  // this GEMM does not overlap
    ASSIGN_OR_RETURN(const TensorGemm gemm, gemm_named(key));
    if (!value.is_object() || !value.contains("method") || !value.at("method").is_string())
      return Error{fmt::format("found {} without a method, expected one", key)};
    GemmOverlap& gemm_overlap = overlap[static_cast<std::size_t>(gemm)];
    ASSIGN_OR_RETURN(gemm_overlap.method, parse_method(value.at("method").get<std::string>()));
    ASSIGN_OR_RETURN(gemm_overlap.sms, count_of(value, "num_sm", 0));
    ASSIGN_OR_RETURN(gemm_overlap.splits, count_of(value, "num_splits", GemmOverlap{}.splits));
  }
  return overlap;
}

Result<TensorOverlap> read_tensor_file(const std::string& path, const std::string& setting) {
  const auto text = read_file(path);
  if (!text.ok()) return text.error();
  const Json json = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object())
    return Error::at(path, "found no JSON object, expected userbuffers settings");
  const auto chosen = choose_setting(json, setting);
  if (!chosen.ok()) return Error::at(path, chosen.error().text());
  const auto overlap = read_setting(*chosen);
  if (!overlap.ok()) return Error::at(path, overlap.error().text());
  return overlap;
}

// Whether experts replace the whole MLP.
bool has_experts_alone(const Model& model) {
  const Model& experts = expert_layer(model);
  return experts.is_moe() && experts.shared_expert_ffn == 0;
}

}  // namespace

TensorOverlap overlap_by(TensorMethod method) {
  TensorOverlap overlap;
  if (method == TensorMethod::Off) return overlap;
  for (const GemmSms& row : kGemmSms) {
    GemmOverlap& gemm_overlap = overlap[static_cast<std::size_t>(row.gemm)];
    if (row.bulk_sms > 0) {
      gemm_overlap = {TensorMethod::Bulk, row.bulk_sms};
    } else if (method == TensorMethod::Pipelined) {
      gemm_overlap = {method, row.pipelined_sms};
    } else if (method == TensorMethod::Ring) {
      gemm_overlap = {method, 1};
    }
  }
  return overlap;
}

bool sets_tensor_overlap(const std::map<std::string, std::string>& places) {
  return std::ranges::any_of(places, [](const auto& place) {
    const std::string& key = place.first;  // overlap.tensor_setting sets nothing without a file
    return key == "overlap.tensor" || key == "overlap.tensor_file" ||
           key.starts_with("overlap.gemm.");
  });
}

TensorOverlap unasked_overlap(const Model& model, const Plan& plan,
                              const FrameworkProfile& profile) {
  TensorOverlap overlap;
  if (profile.bulk_gradients == 0 || plan.tp == 1 || !plan.sequence_parallel) return overlap;
  const bool has_mlp = !has_experts_alone(model);
  for (const GemmSms& row : kGemmSms) {
    const bool is_of_attention = row.gemm < TensorGemm::Fc1Fprop;
    if (row.bulk_sms > 0 && (has_mlp || is_of_attention))
      overlap[static_cast<std::size_t>(row.gemm)] = {.method = TensorMethod::Bulk,
                                                     .userbuffers = false};
  }
  return overlap;
}

Result<TensorOverlap> tensor_overlap(const TensorSettings& settings, const Model& model,
                                     const std::string& folder) {
  TensorOverlap overlap = overlap_by(settings.method);
  if (has_experts_alone(model))  // without fc1 and fc2, which come last
    std::fill(overlap.begin() + static_cast<int>(TensorGemm::Fc1Fprop), overlap.end(),
              GemmOverlap{});
  if (!settings.file.empty()) {
    const std::string path = (std::filesystem::path(folder) / settings.file).string();
    ASSIGN_OR_RETURN(overlap, read_tensor_file(path, settings.setting));
  }
  for (const auto& [key, text] : settings.gemms) {
    if (text.empty()) continue;
    ASSIGN_OR_RETURN(const TensorGemm gemm, gemm_named(key));
    const auto parsed = parse_overlap(text, gemm);
    if (!parsed.ok())
      return Error::of(keys_of(gemm),
                       fmt::format("overlap.gemm.{}: {}", key, parsed.error().message));
    overlap[static_cast<std::size_t>(gemm)] = *parsed;
  }
  return overlap;
}

}  // namespace tandem
