// What `cmake --install` leaves: a program that needs no checkout, and its shells' files.
#include <catch2/catch.hpp>
#include <filesystem>

#include "tests/folder.h"
#include "tests/needs.h"
#include "tests/sandbox.h"
#include "tests/text.h"

using namespace tandem;
using Catch::Contains;

namespace fs = std::filesystem;

namespace {

// A command's output, in a shell that knows no Tandem but what `path` names.
std::string output(const Folder& folder, const std::string& command) {
  const std::string file = folder / "output";
  const int status =
      std::system(fmt::format("cd '{}' && env -u TANDEM_DATA_DIR -u TANDEM_PLUGINS {} >'{}' 2>&1",
                              folder.path().string(), command, file)
                      .c_str());
  const std::string text = contents(file);
  INFO(command << "\n" << text);
  REQUIRE(status == 0);
  return text;
}

// The words that bash offers after "tandem ...".
std::string offered(const Folder& folder, const std::string& words) {
  return output(folder, fmt::format("bash -c 'source <(\"{}\" --shell-file bash); COMP_WORDS=({}); "
                                    "COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _tandem; "
                                    "echo \"${{COMPREPLY[*]}}\"'",
                                    TANDEM_PROGRAM, words));
}

}  // namespace

TEST_CASE("an installed program runs the demo's scenario from its own data and plugins") {
  need_simgrid();
  const Folder folder;
  const std::string root = folder / "usr";
  output(folder, fmt::format("cmake --install '{}' --prefix '{}'", TANDEM_BINARY_DIR, root));
  const std::string program = root + "/bin/tandem";
  CHECK_THAT(output(folder, program + " doctor --wide"), Contains(root + "/share/tandem"));
  const std::string json =
      output(folder, program +
                         " simulate usr/share/tandem/scenarios/megatron-sc21.toml --only "
                         "'1.7B, selene' --report page.html --json");
  CHECK_THAT(json, Contains("\"engine\": \"simgrid\""));
  // By its name, from any folder, with the files that it names.
  for (const char* name : {"megatron-sc21", "nemo-overlap", "nemo-overlap.toml", "torus"})
    output(folder, program + " schedule " + name + " --format program");
  CHECK(fs::file_size(folder / "page.html") > 100'000);  // D3 and the page's own files are in it
  for (const char* file :
       {"share/man/man1/tandem.1", "share/man/man1/tandem-fit.1",
        "share/bash-completion/completions/tandem", "share/zsh/site-functions/_tandem",
        "share/fish/vendor_completions.d/tandem.fish", "lib/tandem"}) {
    INFO(file);
    CHECK(fs::exists(fs::path(root) / file));
  }
}

TEST_CASE("completion offers commands, options, their values, and the keys that they set") {
  const Folder folder;
  CHECK(offered(folder, "tandem si") == "size simulate\n");
  CHECK(offered(folder, "tandem bench c") == "comm\n");
  CHECK(offered(folder, "tandem simulate a.toml --eng") == "--engine\n");
  CHECK(offered(folder, "tandem simulate a.toml --engine \"\"") == "ideal simgrid\n");
  CHECK(offered(folder, "tandem simulate a.toml --set parallel.global") ==
        "parallel.global_batch=\n");
  CHECK(offered(folder, "tandem tune a.toml --among parallel.vp") == "parallel.vpp=\n");
}

TEST_CASE("the manual page has every command and option, and no line that roff takes for its own") {
  const Sandbox box;
  const std::string page = box.tandem("--shell-file man").out;
  for (const char* text :
       {".TH TANDEM 1", ".SS simulate", ".SS bench comm", "\\-\\-sensitivity", ".SH EXIT STATUS"}) {
    CHECK_THAT(page, Contains(text));
  }
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('.')) {
      INFO(line);
      CHECK((line.starts_with(".TH ") || line.starts_with(".SH ") || line.starts_with(".SS ") ||
             line.starts_with(".B ") || line.starts_with(".I ") || line == ".TP" || line == ".PP" ||
             line == ".nf" || line == ".fi"));
    }
  }
}
