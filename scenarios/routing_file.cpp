#include "scenarios/routing_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <regex>
#include <sstream>
#include <utility>

#include "base/csv.h"
#include "base/file.h"

namespace tandem {
namespace {

using Record = nlohmann::json;

// An exchange brings a layer's tokens to its experts: in a step (CSV), or in a microbatch of a step
// (router trace).
using ExchangeName = std::pair<std::int64_t, std::int64_t>;  // step and microbatch

constexpr int kEveryLayer = -1;
constexpr std::int64_t kMostLayers = 100'000, kMostExperts = 100'000;
constexpr double kMostTokens = 1e15;  // of an expert: a larger number is no count

// The tokens of each expert, by layer and exchange.
class CollectedTokens {
 public:
  // Returns the tokens of an expert, to be set or added to.
  double& of(int layer, const ExchangeName& exchange, std::size_t expert) {
    ExpertTokens& tokens = layers_[layer][exchange];
    if (tokens.size() <= expert) tokens.resize(expert + 1);
    return tokens[expert];
  }

  // Returns all of it as a Routing. Error: an exchange has no tokens.
  Result<Routing> take(const std::string& path) {
    Routing routing;
    for (auto& [layer, exchanges] : layers_) {
      Exchanges& into = layer == kEveryLayer ? routing.all_layers : routing.layers[layer];
      for (auto& [name, tokens] : exchanges) {
        if (std::accumulate(tokens.begin(), tokens.end(), 0.0) == 0)
          return Error::at(
              path, fmt::format(
                        "found no tokens in step {}{}", name.first,
                        layer == kEveryLayer ? std::string() : fmt::format(" of layer {}", layer)));
        into.push_back(std::move(tokens));
      }
    }
    if (layers_.empty()) return Error::at(path, "found no tokens, expected tokens by expert");
    return routing;
  }

 private:
  std::map<int, std::map<ExchangeName, ExpertTokens>> layers_;
};

Result<std::int64_t> whole(const CsvTable& table, int row, const char* column, std::int64_t most) {
  ASSIGN_OR_RETURN(const std::int64_t value, table.integer(row, column));
  if (value < 0 || value > most)
    return table.error(
        row, fmt::format("{}: found {}, expected an integer from 0 to {}", column, value, most));
  return value;
}

Result<Routing> read_table(const std::string& path) {
  ASSIGN_OR_RETURN(const CsvTable table, CsvTable::read(path));
  for (const std::string& column : table.columns()) {
    if (column != "layer" && column != "step" && column != "expert" && column != "tokens")
      return Error::at(
          path, fmt::format("found column {}, expected layer, step, expert and tokens", column));
  }
  for (const char* column : {"expert", "tokens"}) {
    if (!table.has(column)) return Error::at(path, fmt::format("found no column {}", column));
  }
  CollectedTokens collected;
  std::map<std::tuple<int, std::int64_t, std::int64_t>, int> lines;
  for (int row = 0; row < table.size(); ++row) {
    std::int64_t layer = kEveryLayer, step = 0;
    if (table.has("layer")) {
      ASSIGN_OR_RETURN(layer, whole(table, row, "layer", kMostLayers));
    }
    if (table.has("step")) {
      ASSIGN_OR_RETURN(step, whole(table, row, "step", std::int64_t{1} << 53));
    }
    ASSIGN_OR_RETURN(const std::int64_t expert, whole(table, row, "expert", kMostExperts));
    ASSIGN_OR_RETURN(const double tokens, table.number(row, "tokens"));
    if (tokens < 0 || tokens > kMostTokens)
      return table.error(
          row, fmt::format("tokens: found {:g}, expected from 0 to {:g}", tokens, kMostTokens));
    const auto [known, is_new] =
        lines.try_emplace({static_cast<int>(layer), step, expert}, table.line(row));
    if (!is_new)
      return table.error(
          row, fmt::format("found expert {} again, as in line {}", expert, known->second));
    collected.of(static_cast<int>(layer), {step, 0}, static_cast<std::size_t>(expert)) = tokens;
  }
  return collected.take(path);
}

bool is_up_to(const Record& number, std::int64_t most) {
  return number.is_number_unsigned() &&
         number.get<std::uint64_t>() <= static_cast<std::uint64_t>(most);
}

// A rank's number of microbatches, by step and layer.
using Microbatches = std::map<std::pair<std::int64_t, int>, std::int64_t>;

// Adds the records of one rank. The n-th record of a layer in a step is its n-th microbatch.
Result<Microbatches> add_trace(const std::string& path, CollectedTokens* collected) {
  ASSIGN_OR_RETURN(const std::string text, read_file(path));
  std::istringstream in(text);
  Microbatches microbatches;
  int line_number = 0;
  for (std::string line; std::getline(in, line);) {
    ++line_number;
    if (line.empty()) continue;
    const auto wrong = [&](const char* what) {
      return Error::at(fmt::format("{}:{}", path, line_number), what);
    };
    const Record record = Record::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!record.is_object()) return wrong("found no JSON object, expected a record of routing");
    if (const auto block = record.find("block"); block != record.end() && *block != "decoder")
      continue;
    const auto step = record.find("step"), layer = record.find("layer"),
               chosen = record.find("top_indices");
    const bool has_step = step != record.end() && step->is_number_integer();
    const bool has_layer = layer != record.end() && is_up_to(*layer, kMostLayers);
    if (!has_step || !has_layer || chosen == record.end() || !chosen->is_array())
      return wrong("found no step, layer or top_indices, as Megatron-LM's router trace has them");
    const int layer_number = layer->get<int>();
    const std::int64_t step_number = step->get<std::int64_t>();
    const std::int64_t microbatch = microbatches[{step_number, layer_number}]++;
    for (const Record& token : *chosen) {
      if (!token.is_array()) return wrong("found no list of a token's experts in top_indices");
      for (const Record& expert : token) {
        if (!is_up_to(expert, kMostExperts))
          return wrong("found an expert in top_indices that is no number from 0 to 100000");
        collected->of(layer_number, {step_number, microbatch}, expert.get<std::size_t>()) += 1;
      }
    }
  }
  return microbatches;
}

Result<Routing> read_traces(const std::string& path) {
  const std::vector<std::string> paths = routing_files(path);
  CollectedTokens collected;
  std::optional<Microbatches> first;
  for (const std::string& trace : paths) {
    ASSIGN_OR_RETURN(Microbatches microbatches, add_trace(trace, &collected));
    if (!first)
      first = std::move(microbatches);
    else if (microbatches != *first)
      return Error::at(trace,
                       fmt::format("found other microbatches than in {}, expected the same of "
                                   "each rank: Megatron-LM records none that it dropped from",
                                   paths.front()));
  }
  return collected.take(path);
}

}  // namespace

std::vector<std::string> routing_files(const std::string& path) {
  namespace fs = std::filesystem;
  static const std::regex kName(R"(router_trace_rank\d+\.jsonl)");
  std::vector<std::string> paths;
  if (std::regex_match(fs::path(path).filename().string(), kName)) {
    std::error_code error;
    const fs::path folder = fs::path(path).parent_path();
    for (const auto& entry : fs::directory_iterator(folder.empty() ? "." : folder, error)) {
      if (std::regex_match(entry.path().filename().string(), kName))
        paths.push_back(entry.path().string());
    }
  }
  if (paths.empty()) paths.push_back(path);
  std::ranges::sort(paths);
  return paths;
}

Result<Routing> read_routing(const std::string& path) {
  RETURN_IF_ERROR(check_readable(path, "a CSV file of tokens by expert, or a router trace"));
  return path.ends_with(".jsonl") ? read_traces(path) : read_table(path);
}

}  // namespace tandem
