#include "tests/fuzz/targets.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "base/file.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

// A folder of its own, with the data that the program reads, so that a file can be put among them.
class FuzzFolder {
 public:
  FuzzFolder() {
    std::string name = (fs::temp_directory_path() / "tandem-fuzz-XXXXXX").string();
    promise(mkdtemp(name.data()) != nullptr, "a folder for the inputs");
    path_ = name;
    const fs::path source = TANDEM_SOURCE_DIR, data = fs::path(path_) / "data";
    for (const char* part : {"topology/presets", "workload/frameworks"}) {
      fs::create_directories((data / part).parent_path());
      fs::copy(source / part, data / part, fs::copy_options::recursive);
    }
    setenv("TANDEM_DATA_DIR", data.c_str(), 1);
  }
  FuzzFolder(const FuzzFolder&) = delete;
  FuzzFolder& operator=(const FuzzFolder&) = delete;
  ~FuzzFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace

const std::string& fuzz_folder() {
  static const FuzzFolder folder;
  return folder.path();
}

void promise(bool holds, const std::string& what) {
  if (!holds) throw std::logic_error(what);
}

void promise_refusal(const Error& error) {
  promise(!error.text().empty(), "an Error says nothing");
  promise(error.kind != Error::Failed, "bad input is called a failure: " + error.text());
}

std::vector<FuzzTarget> all_targets() {
  std::vector<FuzzTarget> all = table_targets();
  for (const auto& more : {scenario_targets(), import_targets()})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}

std::string written(const std::string& name, const std::string& text) {
  const std::string path = fuzz_folder() + '/' + name;
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
  return path;
}

void run_target(const FuzzTarget& target, const std::string& text) {
  target.run({written(std::string(target.file), text), text});
}

std::vector<std::string> texts_of(const std::string& folder, std::string_view extension) {
  constexpr std::size_t kLongest = 1 << 16;
  const fs::path root = fs::path(TANDEM_SOURCE_DIR) / folder;
  std::vector<fs::path> paths;
  std::error_code missing;  // no folder: no texts
  for (const auto& entry : fs::recursive_directory_iterator(root, missing)) {
    if (entry.is_regular_file() && entry.path().string().ends_with(extension) &&
        entry.file_size() <= kLongest)
      paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> texts;
  for (const fs::path& path : paths) {
    if (auto text = read_file(path.string()); text.ok()) texts.push_back(std::move(*text));
  }
  return texts;
}

}  // namespace tandem
