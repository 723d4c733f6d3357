// The table of options and kinds of input (cli/command_line/option_table.h), held against the
// programs row by row: what does nothing is refused, in one wording.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <map>
#include <regex>
#include <set>

#include "base/split.h"
#include "cli/command_line/option_table.h"
#include "tests/sandbox.h"

using namespace tandem;

namespace {

const std::set<std::string> kFlags = {
    "--partial",     "--json",    "--wide",     "--unfolded",       "--timeline",  "--bars",
    "--sensitivity", "--explain", "--hta",      "--expert-overlap", "--share-gpu", "--what-if",
    "--live",        "--ratios",  "--no-check", "--write",          "--memory"};

// A value that the option takes; else 1 is one.
const std::map<std::string, std::string> kValues = {{"--engine", "ideal"},
                                                    {"--set", "model.seq=8"},
                                                    {"--shard", "1/2"},
                                                    {"--backend", "host"},
                                                    {"--compute", "timed"},
                                                    {"--payload", "sample"},
                                                    {"--launch", "graph"},
                                                    {"--gradients", "bf16"},
                                                    {"--precision", "bf16"},
                                                    {"--transfers", "copy"},
                                                    {"--colour", "never"},
                                                    {"--format", "grid"},
                                                    {"--order", "gpipe"},
                                                    {"--costs", "1,1,1"},
                                                    {"--emit", "megatron"},
                                                    {"--among", "parallel.tp=1"},
                                                    {"--framework", "megatron"},
                                                    {"--op", "all_reduce"},
                                                    {"--pair", "0,1"}};

std::string with_value(const std::string& option) {
  if (kFlags.contains(option)) return option;
  const auto value = kValues.find(option);
  return option + " " + (value == kValues.end() ? "1" : value->second);
}

// "--json" as given, "--format=grid" with that value.
std::string fulfilled(std::string condition) {
  const std::size_t equals = condition.find('=');
  if (equals == std::string::npos) return with_value(condition);
  condition[equals] = ' ';
  return condition;
}

// What a condition needs against it where the default fulfils it.
std::string broken(const std::string& condition) {
  if (condition == "--format=grid") return "--format pytorch";
  return condition == "--format=table" ? "--format dot" : "";
}

// What each command is given to read, by the letter of its kind; '-': of commands with one kind.
const std::map<std::string, std::map<char, std::string>> kInputs = {
    {"simulate", {{'s', "two.toml"}, {'p', "two.csv"}, {'c', "two.0.et"}}},
    {"sweep", {{'-', "two.toml -o rows.csv"}}},
    {"run", {{'s', "two.toml"}, {'p', "two.csv"}}},
    {"compare",
     {{'t', "trace.csv trace.csv"},
      {'s', "two.toml profiles"},
      {'p', "two.csv profiles"},
      {'r', "trace.csv profiles"},
      {'f', "profiles profiles"}}},
    {"explain", {{'-', "two.toml profiles"}}},
    {"trace", {{'-', "profiles"}}},
    {"validate", {{'u', "two.toml"}, {'a', "cases.csv"}, {'l', "train.log"}}},
    {"bench comm", {{'-', "--cluster dgx-h100"}}},
    {"calibrate comm", {{'-', "nccl.txt --cluster dgx-h100"}}},
    {"calibrate device", {{'-', "two.csv"}}},
    {"calibrate run", {{'-', "two.toml profiles"}}},
    {"schedule", {{'s', "two.toml"}, {'o', "order.csv"}, {'n', ""}}},
    {"topology", {{'-', "dgx-h100"}}},
    {"size", {{'-', "two.toml"}}},
    {"tune", {{'-', "two.toml"}}},
    {"pack", {{'-', "two.toml lengths.csv --tokens 8"}}},
    {"import", {{'j', "config.json"}, {'t', "topology.conf"}, {'c', "two.0.et"}}},
    {"export", {{'s', "two.toml --chakra x"}, {'p', "two.csv --chakra x"}}},
    {"explore", {{'-', "-o explore.html"}}},
    {"doctor", {{'-', ""}}},
    {"published", {{'-', "cases.csv"}}},
    {"calibrated", {{'-', "cases.csv"}}},
    {"accuracy", {{'-', "cases.csv"}}},
    {"comparisons", {{'-', "cases.csv changes.csv page.md"}}},
    {"kernels", {{'-', ""}}}};

const std::set<std::string> kFits = {"published", "calibrated", "accuracy", "comparisons",
                                     "kernels"};

class Commands {
 public:
  Commands() {
    box_.file("two.toml", kTwoStages);
    box_.file("two.csv", box_.tandem("schedule two.toml --format program").out);
    box_.file("order.csv",
              box_.tandem("schedule --order gpipe --pp 2 --microbatches 2 --format pytorch").out);
    box_.file("cases.csv", "id\n");
    box_.file("train.log", "");
    box_.file("nccl.txt", "");
    box_.file("config.json", "{\"model_type\": \"llama\", \"hidden_size\": 64}");
    box_.file("topology.conf", "SwitchName=leaf1 Nodes=n[1-2]\n");
    check_done(box_.tandem("export two.csv --chakra two"));
    check_done(box_.tandem("simulate two.csv --trace trace.csv --kineto profiles"));
    files_ = box_.files();
  }

  void refused(const std::string& command, char kind, const std::string& options,
               const std::string& message) const {
    const std::string line =
        fmt::format("{} {} {}", command, kInputs.at(command).at(kind), options);
    INFO(line);
    check_refused(kFits.contains(command) ? box_.tandem_fit(line) : box_.tandem(line), message);
  }

  bool wrote_nothing() const { return box_.files() == files_; }

 private:
  Sandbox box_;
  Names files_;
};

// The kinds of a command's table; "-": it has one.
std::string letters_of(const CommandRow& command) {
  std::string letters;
  for (const InputKind& kind : command.kinds) letters += kind.letter;
  return letters.empty() ? "-" : letters;
}

bool acts_on(const OptionRow& row, char kind) {
  return *row.kinds == '\0' || std::string_view(row.kinds).find(kind) != std::string_view::npos;
}

// The rows of each option.
std::map<std::string, std::vector<OptionRow>> rows_of(const CommandRow& command) {
  std::map<std::string, std::vector<OptionRow>> rows;
  for (const OptionRow& row : command.rows) {
    for (const std::string& option : split_words(row.options)) rows[option].push_back(row);
  }
  return rows;
}

// What all of an option's rows but `except` need beside it.
std::string needs(const std::vector<OptionRow>& rows, char kind, const OptionRow* except) {
  std::string options;
  for (const OptionRow& row : rows) {
    if (acts_on(row, kind) && *row.with != '\0' && &row != except)
      options += " " + fulfilled(split_words(row.with).front());
  }
  return options;
}

}  // namespace

TEST_CASE("every option of every command is in the table, and nothing else") {
  const Sandbox box;
  std::set<std::string> seen;
  for (const Ran& ran : {box.tandem("--shell-file bash"), box.tandem_fit("--shell-file bash")}) {
    check_done(ran);
    const std::regex line("\n    '([a-z ]+)'\\) words='([^']*)'");
    for (std::sregex_iterator it(ran.out.begin(), ran.out.end(), line), end; it != end; ++it) {
      const std::string command = (*it)[1];
      const auto known = std::ranges::find(command_rows(), command, &CommandRow::command);
      INFO(command);
      if (command == "bench" || command == "calibrate") continue;  // they have subcommands alone
      REQUIRE(known != command_rows().end());
      seen.insert(command);
      std::set<std::string> options, rows;
      for (const std::string& word : split_words((*it)[2].str())) {
        if (word.starts_with("--") && word != "--help" && word != "--color") options.insert(word);
      }
      for (const auto& [option, of] : rows_of(*known)) rows.insert(option);
      CHECK(rows == options);
    }
  }
  CHECK(seen.size() == command_rows().size());
}

TEST_CASE("an option that does nothing with the kind of input is refused, by every command") {
  const Commands commands;
  for (const CommandRow& command : command_rows()) {
    for (const InputKind& kind : command.kinds) {
      for (const auto& [option, rows] : rows_of(command)) {
        std::string kinds;
        for (const OptionRow& row : rows) kinds += row.kinds;
        if (kinds.find(kind.letter) != std::string::npos) continue;
        std::string names;
        for (const InputKind& other : command.kinds) {
          if (kinds.find(other.letter) == std::string::npos) continue;
          names += names.empty() ? "" : " or ";
          names += other.name;
        }
        const std::string expected = names.empty() ? "without a file" : "with " + names + " only";
        const std::string input = kInputs.at(command.command).at(kind.letter);
        const std::string file = command.command == std::string("compare")
                                     ? input.substr(input.find(' ') + 1)
                                     : input.substr(0, input.find(' '));
        commands.refused(command.command, kind.letter, with_value(option),
                         fmt::format("{}{}found {}, expected it {}\n", file,
                                     file.empty() ? "" : ": ", option, expected));
      }
    }
  }
  CHECK(commands.wrote_nothing());
}

TEST_CASE("an option that does nothing without another one, or with it, is refused") {
  const Commands commands;
  for (const CommandRow& command : command_rows()) {
    for (const char kind : letters_of(command)) {
      for (const auto& [option, rows] : rows_of(command)) {
        for (const OptionRow& row : rows) {
          if (!acts_on(row, kind)) continue;
          const std::vector<std::string> with = split_words(row.with);
          if (!with.empty()) {
            std::string expected;
            for (std::string word : with) {
              std::ranges::replace(word, '=', ' ');
              expected += (expected.empty() ? "" : " or ") + word;
            }
            commands.refused(
                command.command, kind,
                with_value(option) + needs(rows, kind, &row) + " " + broken(with.front()),
                fmt::format("found {}, expected {} with it\n", option, expected));
          }
          for (const std::string& word : split_words(row.without)) {
            commands.refused(
                command.command, kind,
                with_value(option) + needs(rows, kind, nullptr) + " " + with_value(word),
                fmt::format("found {} with {}, expected one of them\n", option, word));
          }
        }
      }
    }
  }
  CHECK(commands.wrote_nothing());
}
