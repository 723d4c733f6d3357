#include "cli/command_line/option_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/split.h"

namespace tandem {
namespace {

// The kinds of simulate, run and export.
const InputKind kScenario = {'s', "a SCENARIO.toml"};
const InputKind kProgram = {'p', "a PROGRAM.csv"};
const InputKind kChakra = {'c', "Chakra traces (PREFIX.0.et)"};

// Returns whether a list such as "--trace --plot" has the word.
bool lists(std::string_view list, std::string_view word) {
  return std::ranges::count(split_words(list), word) > 0;
}

bool share_a_letter(std::string_view a, std::string_view b) {
  return a.find_first_of(b) != std::string_view::npos;
}

// Returns whether a condition holds: "--json" was given, or "--format=grid" has that value.
bool holds(std::string_view word, const std::vector<OptionState>& options) {
  const std::size_t equals = word.find('=');
  for (const OptionState& option : options) {
    if (option.name != word.substr(0, equals)) continue;
    if (equals == std::string_view::npos) return option.given;
    return std::ranges::count(option.values, word.substr(equals + 1)) > 0;
  }
  return false;
}

// Writes "--format=grid" as users write it: "--format grid".
std::string shown(std::string_view word) {
  std::string text(word);
  std::ranges::replace(text, '=', ' ');
  return text;
}

std::string kinds_text(const CommandRow& command, std::string_view letters) {
  std::vector<std::string> names;
  bool takes_none = false;  // no file at all
  for (const InputKind& kind : command.kinds) {
    if (letters.find(kind.letter) == std::string_view::npos) continue;
    if (*kind.name == '\0')
      takes_none = true;
    else
      names.emplace_back(kind.name);
  }
  if (names.empty()) return "without a file";
  return fmt::format("with {} {}", fmt::join(names, " or "),
                     takes_none ? "or without a file" : "only");
}

// Returns an Error if the option acts on other kinds of input only.
Status check_kind(const CommandRow& command, const CommandInput& input, const std::string& option,
                  const std::vector<const OptionRow*>& rows) {
  std::string letters;
  for (const OptionRow* row : rows) letters += row->kinds;
  if (letters.empty() || share_a_letter(letters, input.kinds)) return Done{};
  const std::string fault =
      fmt::format("found {}, expected it {}", option, kinds_text(command, letters));
  return input.path.empty() ? Error{fault} : Error::at(input.path, fault);
}

// Returns an Error if none of the options that the row needs is given, or one that it refuses is.
Status check_row(const OptionRow& row, const std::string& option,
                 const std::vector<OptionState>& options) {
  const std::vector<std::string> with = split_words(row.with);
  const auto is_given = [&](std::string_view word) { return holds(word, options); };
  if (!with.empty() && std::ranges::none_of(with, is_given)) {
    std::vector<std::string> words;
    for (const std::string& word : with) words.push_back(shown(word));
    return Error{fmt::format("found {}, expected {} with it", option, fmt::join(words, " or "))};
  }
  for (const std::string& word : split_words(row.without)) {
    if (is_given(word))
      return Error{fmt::format("found {} with {}, expected one of them", option, shown(word))};
  }
  return Done{};
}

}  // namespace

const std::vector<CommandRow>& command_rows() {
  static const std::vector<CommandRow> kRows = {
      {"simulate",
       {kScenario, kProgram, kChakra},
       {{"--engine --trace --perfetto --kineto --plot --report --unfolded --json", "spc"},
        {"--set --only --budget --jobs --repeat --sensitivity --memory", "s"},
        {"--live", "s", "--report", "--unfolded --budget"},
        {"--files-of", "s", "--trace --perfetto --kineto --plot --timeline --report"},
        {"--costs", "sp"},
        {"--op-times", "p"},
        {"--cluster --comm-groups", "c"},
        {"--timeline --bars --wide", "spc", "", "--json"},
        {"--colour", "spc", "--timeline --bars"}}},
      {"sweep",
       {},
       {{"--output --list --engine --set --only --jobs --shard", ""},
        {"--report", "", "", "--shard"}}},
      {"run",
       {kScenario, kProgram},
       {{"--backend --compute --payload --iterations --warmup --timeout --seed", "sp"},
        {"--trace --perfetto --kineto --plot --json", "sp"},
        {"--set --only", "s"},
        {"--share-gpu --launch --gate-calls --gradients --precision", "sp", "--backend=cuda"},
        {"--gemm-scale --precision", "sp", "--compute=gemm"},
        {"--transfers", "sp", "--share-gpu"},
        {"--wide", "sp", "", "--json"}}},
      {"compare",
       {{'t', "two traces"},
        {'s', "a SCENARIO.toml and a profile"},
        {'p', "a PROGRAM.csv and a profile"},
        {'r', "a trace and a profile"},
        {'f', "two profiles"}},
       {{"--report --json", "tsprf"},
        {"--perfetto --worst", "t"},
        {"--set --only --engine", "s"},
        {"--only-passes", "sprf"},
        {"--wide", "tsprf", "", "--json"}}},
      {"explain",
       {},
       {{"--set --only --engine --only-passes --report --json", ""}, {"--wide", "", "", "--json"}}},
      {"trace",
       {},
       {{"--scenario --costs --top --hta --json", ""},
        {"--gpus-per-node", "", "--costs"},
        {"--passes", "", "--scenario"},
        {"--wide", "", "", "--json"}}},
      {"validate",
       {{'u', "a SUITE.toml"}, {'a', "a CASES.csv"}, {'l', "a log"}},
       {{"--set --json", "ual"},
        {"--iterations --timeout", "u"},
        {"--only --csv --page", "ua"},
        {"--engine", "al"},
        {"--family --jobs --what-if --ratios --plot", "a"},
        {"--family --only --csv --page --plot --ratios", "a", "", "--what-if"},
        {"--family --only --csv --page --plot", "a", "", "--ratios"},
        {"--cluster --gpus", "l"},
        {"--wide", "ual", "", "--json"}}},
      {"bench comm",
       {},
       {{"--cluster --backend --op --minbytes --maxbytes --stepbytes --stepfactor", ""},
        {"--iters --warmup_iters --ranks --placement --fit --json", ""},
        {"--pair", "", "--op=p2p"},
        {"--share-gpu --launch --gate-calls --gradients", "", "--backend=cuda"},
        {"--transfers", "", "--share-gpu"}}},
      {"calibrate comm",
       {},
       {{"--cluster --output --op --ranks --nodes --hosts-per-node --wide", ""}}},
      {"calibrate run",
       {},
       {{"--iteration --output --set --only --engine --json", ""}, {"--wide", "", "", "--json"}}},
      {"calibrate device",
       {},
       {{"--backend --output --iterations --warmup --gemm-scale --timeout --seed --json", ""},
        {"--share-gpu --launch --gate-calls --gradients --precision", "", "--backend=cuda"},
        {"--transfers", "", "--share-gpu"},
        {"--wide", "", "", "--json"}}},
      {"schedule",
       {kScenario, {'o', "an ORDER.csv"}, {'n', ""}},
       {{"--format", "son"},
        {"--set --only --op-times --budget", "s"},
        {"--order --pp --vpp --microbatches --group --memory-limit", "n"},
        {"--expert-overlap --vocabulary", "n"},
        {"--costs", "n"},
        {"--costs", "o", "--format=grid"},
        {"--costs", "s", "--format=grid", "--explain"},
        {"--explain", "son", "--format=grid"},
        {"--colour", "son", "--format=grid", "--explain"},
        {"--wide", "son", "--explain"}}},
      {"topology",
       {},
       {{"--gpus --format", ""},
        {"--output", "", "--format=dot --format=svg"},
        {"--wide", "", "--format=table"}}},
      {"size",
       {},
       {{"--set --only --among --engine --jobs --report --json", ""},
        {"--wide", "", "", "--json"}}},
      {"tune",
       {},
       {{"--among --framework --emit --set --only --keep --refine --engine --jobs", ""},
        {"--seconds --report --json", ""},
        {"--output", "", "--emit"},
        {"--wide", "", "", "--json"}}},
      {"pack",
       {},
       {{"--tokens --batches --engine --set --only --json", ""}, {"--wide", "", "", "--json"}}},
      {"import",
       {{'j', "files of a job"}, {'t', "files of a cluster's links"}, kChakra},
       {{"--output --cluster", "jtc"},
        {"--set --gpus", "jt"},
        {"--partial", "j"},
        {"--hosts", "t"},
        {"--comm-groups", "c"}}},
      {"export", {kScenario, kProgram}, {{"--chakra", "sp"}, {"--set --only", "s"}}},
      {"explore", {}, {{"--output", ""}}},
      {"doctor", {}, {{"--wide", ""}}},
      {"published",
       {},
       {{"--plan --steps --no-check --write --jobs --wide", ""},
        {"--together --update", "", "", "--no-check"}}},
      {"calibrated", {}, {{"--families --write --update --jobs", ""}}},
      {"accuracy",
       {},
       {{"--update --plot --csv --page --jobs --wide", ""}, {"--rivals", "", "--page --update"}}},
      {"comparisons", {}, {{"--jobs", ""}}},
      {"kernels", {}, {{"--update --write", ""}}},
  };
  return kRows;
}

Status check_options(std::string_view command, const CommandInput& input,
                     const std::vector<OptionState>& options) {
  const auto known = std::ranges::find(command_rows(), command, &CommandRow::command);
  if (known == command_rows().end()) return Done{};
  for (const OptionState& option : options) {
    if (!option.given) continue;
    std::vector<const OptionRow*> rows;
    for (const OptionRow& row : known->rows) {
      if (lists(row.options, option.name)) rows.push_back(&row);
    }
    RETURN_IF_ERROR(check_kind(*known, input, option.name, rows));
    for (const OptionRow* row : rows) {
      if (*row->kinds == '\0' || share_a_letter(row->kinds, input.kinds))
        RETURN_IF_ERROR(check_row(*row, option.name, options));
    }
  }
  return Done{};
}

}  // namespace tandem
