// docs/agents.md is enough for a script: its commands run, the fields that it names are there, its
// errors are those that are printed, and whoever follows it has a plan as fast as the search's
// best.
#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "tests/cli/pages/page_sandbox.h"
#include "tests/needs.h"
#include "tests/text.h"

using namespace tandem;

namespace {

using nlohmann::json;

constexpr const char* kPage = "docs/agents.md";

std::vector<std::string> page_lines() { return lines_of(source_file(kPage)); }

// The folder after the commands of the page's sh blocks, run as the page says: with its PATH.
class AgentsFolder {
 public:
  AgentsFolder() {
    need_program("python3");
    const std::string first_of_line = "    ./dev build && ";
    for (const std::string& line : page_lines())
      if (line.starts_with(first_of_line)) path_ = line.substr(first_of_line.size());
    REQUIRE(path_.starts_with("export PATH="));
    for (const std::string& command : commands_of(block_lines(kPage, "```sh"))) {
      INFO(command);
      const bool redirected = command.find('>') != std::string::npos;
      const int status = run(redirected ? command : command + " > output");
      INFO(sandbox_.read("errors"));
      REQUIRE(status == 0);
      calls_ += command.starts_with("tandem ") ? 1 : 0;
    }
  }

  int run(const std::string& command) const { return sandbox_.run(path_ + "\n" + command); }
  std::string read(const std::string& name) const { return sandbox_.read(name); }
  json document(const std::string& name) const {
    const json read = json::parse(sandbox_.read(name), nullptr, false);
    INFO(name);
    REQUIRE(!read.is_discarded());
    return read;
  }
  int calls() const { return calls_; }

 private:
  PageSandbox sandbox_;
  std::string path_;
  int calls_ = 0;
};

// Makes "/best/0/plan" of "best[0].plan".
json::json_pointer pointer_to(const std::string& field) {
  std::string text = '/' + field;
  for (const auto& [from, to] : {std::pair("\\.?\\[", "/"), {"\\]", ""}, {"\\.", "/"}})
    text = std::regex_replace(text, std::regex(from), to);
  return json::json_pointer(text.starts_with("//") ? text.substr(1) : text);
}

}  // namespace

TEST_CASE("whoever follows docs/agents.md has in five calls a plan as fast as the search's best") {
  CHECK(page_lines().size() <= 150);
  const AgentsFolder folder;
  CHECK(folder.calls() <= 5);
  const json best = folder.document("build/best.json"), tuned = folder.document("build/tune.json");
  REQUIRE(best.size() == 1);
  CHECK(best[0]["gpus"] == 64);
  CHECK(best[0]["fits"] == true);
  CHECK(best[0]["iteration_s"] <= 1.05 * tuned["best"][0]["simulate"]["iteration_s"].get<double>());
  // What the page has a third call for: the plan that was imported does not fit.
  CHECK(tuned["own"]["simulate"]["fits"] == false);
}

TEST_CASE("every question in docs/agents.md has a command that answers, in JSON if it says so") {
  const AgentsFolder folder;
  const std::regex question("\\| .*\\? \\| `(tandem [^`]*)` \\|");
  int commands = 0;
  for (const std::string& line : page_lines()) {
    std::smatch row;
    if (!std::regex_match(line, row, question)) continue;
    const std::string command = row[1];
    INFO(command);
    const int status = folder.run(command + " > output");
    INFO(folder.read("errors"));
    CHECK(status == 0);
    if (command.ends_with(" --json")) CHECK(!folder.document("output").empty());
    CHECK((!folder.read("output").empty() || command.find(" -o ") != std::string::npos));
    ++commands;
  }
  CHECK(commands >= 12);
}

TEST_CASE("every field that docs/agents.md names is in the file that it says") {
  const AgentsFolder folder;
  const std::regex header("\\| field of `([^`]*)` \\|.*"), name("`([^`]*)`");
  json document;
  int fields = 0;
  for (const std::string& line : page_lines()) {
    std::smatch file;
    if (!line.starts_with("| ")) {
      if (!line.starts_with("|")) document = nullptr;
    } else if (std::regex_match(line, file, header)) {
      document = folder.document(file[1]);
    } else if (!document.is_null()) {
      const std::string first = line.substr(0, line.find(" | "));
      for (std::sregex_iterator at(first.begin(), first.end(), name), end; at != end; ++at) {
        INFO((*at)[1]);
        CHECK(document.contains(pointer_to((*at)[1])));
        ++fields;
      }
    }
  }
  CHECK(fields > 20);
}

TEST_CASE("the errors in docs/agents.md are what its commands print, with their exit statuses") {
  const AgentsFolder folder;
  std::vector<std::pair<std::string, std::string>> transcript;  // a command and what it prints
  for (const std::string& line : block_lines(kPage, "```console")) {
    if (line.starts_with("$ ")) {
      transcript.emplace_back(line.substr(2), "");
    } else {
      REQUIRE(!transcript.empty());
      transcript.back().second += line + '\n';
    }
  }
  CHECK(transcript.size() >= 3);
  for (const auto& [command, printed] : transcript) {
    INFO(command);
    folder.run("{ " + command + "; } > output 2>&1");
    CHECK(folder.read("output") == printed);
  }
}
