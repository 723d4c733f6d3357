// Secret: a text that only the processes of one job know, and how they prove that they know it.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "launch/launch.h"

namespace tandem {

using Digest = std::array<std::byte, 32>;

// HMAC with SHA-256 (RFC 2104). OpenSSL's libcrypto computes it; it is opened on demand, so no
// build needs it, and stays open.
class Hmac {
 public:
  // Error::Missing if there is no libcrypto.
  static Result<Hmac> open();

  Digest operator()(std::span<const std::byte> key, std::span<const std::byte> text) const;
  // Compares in a time that does not reveal where they differ.
  bool same(const Digest& a, const Digest& b) const;

 private:
  // Declared as in openssl/hmac.h and openssl/crypto.h, versions 1.0.2 to 3.
  const void* (*sha256_)() = nullptr;
  unsigned char* (*hmac_)(const void*, const void*, int, const unsigned char*, std::size_t,
                          unsigned char*, unsigned int*) = nullptr;
  int (*compare_)(const void*, const void*, std::size_t) = nullptr;
};

// Draws 32 bytes that nobody can guess, from the system.
Digest random_digest();

// Returns a digest as text, for a name or an environment variable.
std::string hexadecimal(const Digest& digest);

// A text that nobody else may read. It lies in memory pages of its own, which core dumps leave out
// and which are wiped at the end. Copies share the pages.
class Secret {
 public:
  Secret() = default;
  explicit Secret(std::string_view text);
  explicit Secret(std::span<const std::byte> bytes);

  std::span<const std::byte> bytes() const { return {pages_.get(), size_}; }
  // Returns the text, ended by a zero, or null if there is none.
  const char* text() const { return reinterpret_cast<const char*>(pages_.get()); }

 private:
  std::shared_ptr<std::byte> pages_;
  std::size_t size_ = 0;
};

// Draws 64 hexadecimal digits that nobody can guess.
Secret random_secret();

constexpr const char* kSecretVariable = "TANDEM_SECRET";
constexpr std::size_t kLeastSecret = 16;  // characters

// Returns the job's secret: TANDEM_SECRET, which the launcher hands on to the ranks, or else the
// user's own. That is in the file tandem/secret below XDG_CONFIG_HOME or ~/.config, which only the
// user may read. A missing file is created, whole or not at all: the ranks of a job may all try at
// once, on hosts that share the folder. An Error if there is no such folder either, or if others
// may read the file.
Result<Secret> job_secret(const Environment& get);

// Returns TANDEM_SECRET of this process. The first call takes it out of the environment, which core
// dumps contain and /proc shows. Processes forked later have it, too. REQUIRES of the first call:
// no other thread runs.
const Secret& environment_secret();

// Returns a variable of this process's environment, TANDEM_SECRET from environment_secret().
const char* environment_with_secret(const char* name);

}  // namespace tandem
