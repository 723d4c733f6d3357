#include "base/outputs.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <optional>

#include "base/file.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

// Identifies a file: by device and inode if it exists, else by its path with links resolved.
struct Identity {
  dev_t device = 0;
  ino_t inode = 0;
  std::string path;

  bool operator==(const Identity&) const = default;
};

struct KnownFile {
  NamedFile file;
  Identity identity;
};

Identity identity_of(const struct stat& found) { return {found.st_dev, found.st_ino, ""}; }

// Returns where a file would be created. A link may lead to a place where no file is yet.
std::string resolved_path(const std::string& path) {
  constexpr int kMostLinks = 40;  // as Linux follows
  std::error_code failed;
  fs::path target = fs::absolute(path, failed);
  for (int i = 0; i < kMostLinks && fs::is_symlink(target, failed); ++i)
    target = target.parent_path() / fs::read_symlink(target, failed);
  const fs::path folder = fs::weakly_canonical(target.parent_path(), failed);
  return (failed ? target.lexically_normal() : folder / target.filename()).string();
}

// Returns nothing for a device or an empty path.
std::optional<Identity> output_identity(const std::string& path) {
  struct stat found {};
  if (path.empty()) return std::nullopt;
  if (::stat(path.c_str(), &found) != 0) return Identity{0, 0, resolved_path(path)};
  if (S_ISCHR(found.st_mode) || S_ISBLK(found.st_mode)) return std::nullopt;
  return identity_of(found);
}

// Returns the inputs that exist, and the files and pipes that standard output and error go to.
std::vector<KnownFile> known_files(const std::vector<NamedFile>& inputs) {
  std::vector<KnownFile> known;
  struct stat found {};
  for (const NamedFile& input : inputs) {
    if (::stat(input.path.c_str(), &found) == 0) known.push_back({input, identity_of(found)});
  }
  for (const auto& [number, name] :
       {std::pair{STDOUT_FILENO, "standard output"}, std::pair{STDERR_FILENO, "standard error"}}) {
    if (::fstat(number, &found) == 0 && (S_ISREG(found.st_mode) || S_ISFIFO(found.st_mode)))
      known.push_back({{name, ""}, identity_of(found)});
  }
  return known;
}

// Refuses a name whose ending promises a format that Tandem does not write: its pictures are SVG.
Status check_ending(const NamedFile& output) {
  for (const char* ending : {".png", ".jpg", ".jpeg", ".gif", ".pdf"}) {
    if (output.path.ends_with(ending))
      return Error{fmt::format("{}: found {}, expected another ending: pictures are written as SVG",
                               output.name, output.path)};
  }
  return Done{};
}

}  // namespace

Status check_outputs(const std::vector<NamedFile>& outputs, const std::vector<NamedFile>& inputs) {
  std::vector<KnownFile> known = known_files(inputs);
  for (const NamedFile& output : outputs) {
    RETURN_IF_ERROR(check_ending(output));
    const std::optional<Identity> identity = output_identity(output.path);
    if (!identity) continue;
    for (const auto& [other, other_identity] : known) {
      if (*identity != other_identity) continue;
      const bool says_path = !other.path.empty() && other.path != output.path;
      return Error{fmt::format("{}: found {}, the same file as {}{}, expected another one",
                               output.name, output.path, other.name,
                               says_path ? ' ' + other.path : "")};
    }
    known.push_back({output, *identity});
  }
  for (const NamedFile& output : outputs) RETURN_IF_ERROR(check_writable(output.path));
  return Done{};
}

}  // namespace tandem
