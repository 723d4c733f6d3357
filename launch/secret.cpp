// Makes, stores and compares secrets. A job's secret comes from TANDEM_SECRET, or from a file of
// the user that the first rank creates. Texts that held a secret are overwritten after use, so that
// no core dump shows them.
#include "launch/secret.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <new>

#include "base/check.h"
#include "base/file.h"
#include "launch/connection.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

// Returns a path such as "/home/me/.config/tandem/secret", or "" if the environment names no home.
std::string user_secret_path(const Environment& get) {
  const auto folder = [&](const char* name) {
    const char* value = get(name);
    return fs::path(value == nullptr ? "" : value);
  };
  const fs::path configuration = folder("XDG_CONFIG_HOME");
  const fs::path home = folder("HOME");
  if (configuration.is_absolute()) return configuration / "tandem/secret";
  return home.is_absolute() ? home / ".config/tandem/secret" : fs::path();
}

Error unusable(const std::string& path, const std::string& found) {
  return Error{fmt::format("{}: {}, expected a secret of this user there, or {} in the environment "
                           "of all ranks",
                           path, found, kSecretVariable),
               Error::Failed};
}

// Writes a new secret to a temporary file and hard-links that to its place. If many ranks do this
// at once, one link succeeds. The other ranks get EEXIST and use the file that is there.
Status create_secret_file(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  std::error_code failed;
  fs::create_directories(folder.parent_path(), failed);
  mkdir(folder.c_str(), S_IRWXU);
  const Secret own = random_secret();
  const std::string temporary =
      fmt::format("{}.{}.tmp", path, hexadecimal(random_digest()).substr(0, kLeastSecret));
  const Descriptor file(
      ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!file) return unusable(path, std::strerror(errno));
  const auto size = static_cast<ssize_t>(own.bytes().size());
  const bool written = write(file.number(), own.text(), own.bytes().size()) == size &&
                       write(file.number(), "\n", 1) == 1 && fsync(file.number()) == 0;
  const bool linked = written && (link(temporary.c_str(), path.c_str()) == 0 || errno == EEXIST);
  const std::string why = std::strerror(errno);
  unlink(temporary.c_str());
  return linked ? Status(Done{}) : unusable(path, why);
}

// Reads the user's secret file, which is created if it is missing. Refuses a file that others own
// or may read.
Result<Secret> user_secret(const std::string& path) {
  if (!fs::exists(path)) RETURN_IF_ERROR(create_secret_file(path));
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) return unusable(path, std::strerror(errno));
  const bool is_own_file = S_ISREG(found.st_mode) && found.st_uid == geteuid();
  const bool others_may_read = (found.st_mode & (S_IRWXG | S_IRWXO)) != 0;
  if (!is_own_file || others_may_read)
    return unusable(path, "found a file that others own or may read");
  ASSIGN_OR_RETURN(std::string text, read_file(path));
  const Secret secret(std::string_view(text).substr(0, text.find_last_not_of(" \t\r\n") + 1));
  explicit_bzero(text.data(), text.size());
  if (secret.bytes().size() < kLeastSecret)
    return unusable(path, fmt::format("found {} characters", secret.bytes().size()));
  return secret;
}

}  // namespace

Result<Hmac> Hmac::open() {
  void* library = nullptr;
  std::string why;
  for (const char* name : {"libcrypto.so.3", "libcrypto.so.1.1", "libcrypto.so.10"}) {
    library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) break;
    if (why.empty()) why = dlerror();
  }
  if (library == nullptr)
    return Error{fmt::format("ranks cannot prove that they are of one job: {}; OpenSSL's is in "
                             "Debian's libssl3",
                             why),
                 Error::Missing};
  Hmac hmac;
  hmac.sha256_ = reinterpret_cast<decltype(hmac.sha256_)>(dlsym(library, "EVP_sha256"));
  hmac.hmac_ = reinterpret_cast<decltype(hmac.hmac_)>(dlsym(library, "HMAC"));
  hmac.compare_ = reinterpret_cast<decltype(hmac.compare_)>(dlsym(library, "CRYPTO_memcmp"));
  if (hmac.sha256_ != nullptr && hmac.hmac_ != nullptr && hmac.compare_ != nullptr) return hmac;
  return Error{"ranks cannot prove that they are of one job: libcrypto has no HMAC",
               Error::Missing};
}

Digest Hmac::operator()(std::span<const std::byte> key, std::span<const std::byte> text) const {
  Digest digest;
  unsigned int size = 0;
  CHECK(hmac_(sha256_(), key.data(), static_cast<int>(key.size()),
              reinterpret_cast<const unsigned char*>(text.data()), text.size(),
              reinterpret_cast<unsigned char*>(digest.data()), &size) != nullptr);
  CHECK(size == digest.size());
  return digest;
}

bool Hmac::same(const Digest& a, const Digest& b) const {
  return compare_(a.data(), b.data(), a.size()) == 0;
}

Digest random_digest() {
  // std::random_device is no choice: linked statically, it needs the newest libc.
  Digest digest;
  CHECK(getrandom(digest.data(), digest.size(), 0) == static_cast<ssize_t>(digest.size()));
  return digest;
}

std::string hexadecimal(const Digest& digest) {
  std::string text;
  text.reserve(2 * digest.size());  // growing would leave parts of a secret in freed memory
  for (const std::byte byte : digest) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return text;
}

Secret::Secret(std::string_view text) : Secret(std::as_bytes(std::span(text))) {}

Secret::Secret(std::span<const std::byte> bytes) : size_(bytes.size()) {
  const std::size_t mapped = bytes.size() + 1;
  void* const memory =
      mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  madvise(memory, mapped, MADV_DONTDUMP);
  pages_ = {static_cast<std::byte*>(memory), [mapped](std::byte* pages) {
              explicit_bzero(pages, mapped);
              munmap(pages, mapped);
            }};
  std::ranges::copy(bytes, pages_.get());
}

Secret random_secret() {
  std::string text = hexadecimal(random_digest());
  Secret secret(text);
  explicit_bzero(text.data(), text.size());
  return secret;
}

const Secret& environment_secret() {
  static const Secret taken = [] {
    char* const given = std::getenv(kSecretVariable);
    if (given == nullptr) return Secret();
    Secret secret(std::string_view{given});
    explicit_bzero(given, std::strlen(given));
    unsetenv(kSecretVariable);
    return secret;
  }();
  return taken;
}

const char* environment_with_secret(const char* name) {
  return std::strcmp(name, kSecretVariable) == 0 ? environment_secret().text() : std::getenv(name);
}

Result<Secret> job_secret(const Environment& get) {
  if (const char* given = get(kSecretVariable); given != nullptr && *given != 0) {
    if (std::strlen(given) >= kLeastSecret) return Secret(std::string_view(given));
    return Error{fmt::format("{}: found {} characters, expected at least {}", kSecretVariable,
                             std::strlen(given), kLeastSecret)};
  }
  const std::string path = user_secret_path(get);
  if (path.empty())
    return Error{fmt::format("found no {} and no HOME, expected one of them: ranks prove by a "
                             "secret that they are of one job",
                             kSecretVariable),
                 Error::Failed};
  return user_secret(path);
}

}  // namespace tandem
