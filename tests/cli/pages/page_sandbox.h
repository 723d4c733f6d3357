// PageSandbox: a folder that looks like the repository after ./dev build, in which the commands of
// documentation run. Beside it, the blocks of a page.
#pragma once

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "tests/folder.h"
#include "tests/text.h"

namespace tandem {

class PageSandbox {
 public:
  PageSandbox() {
    std::filesystem::create_directories(folder_ / "build/release");
    for (const char* folder : {"scenarios", "bench", "validation"})
      std::filesystem::create_directory_symlink(std::filesystem::path(TANDEM_SOURCE_DIR) / folder,
                                                folder_ / folder);
    std::filesystem::create_symlink(TANDEM_PROGRAM, folder_ / "build/release/tandem");
  }

  int run(const std::string& command) const {
    return std::system(fmt::format("unset COLUMNS; cd '{}' && {{ {}\n}} 2> errors",
                                   folder_.path().string(), command)
                           .c_str());
  }
  std::string read(const std::string& name) const {
    const auto text = read_file(folder_ / name);
    return text.ok() ? *text : "";
  }

 private:
  Folder folder_;
};

inline std::string source_file(const std::string& path) {
  return contents(TANDEM_SOURCE_DIR "/" + path);
}

// Lists the lines of a file's code blocks that begin with the fence.
inline std::vector<std::string> block_lines(const std::string& path, const std::string& fence) {
  std::vector<std::string> found;
  bool inside = false;
  for (const std::string& line : lines_of(source_file(path))) {
    if (line.starts_with("```")) {
      inside = !inside && line == fence;
    } else if (inside) {
      found.push_back(line);
    }
  }
  return found;
}

// Returns lines of a shell as commands, without comments: a here-document ("<<'END'" to END)
// belongs to its own.
inline std::vector<std::string> commands_of(const std::vector<std::string>& lines) {
  std::vector<std::string> commands;
  bool inside = false;
  for (const std::string& line : lines) {
    if (inside) {
      commands.back() += '\n' + line;
      inside = line != "END";
    } else if (!line.starts_with('#')) {
      commands.push_back(line);
      inside = line.find("<<'END'") != std::string::npos;
    }
  }
  return commands;
}

}  // namespace tandem
