// Secret: what the processes of one job know and nobody else does, and how they prove it.
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

// HMAC with SHA-256 (RFC 2104), by OpenSSL's libcrypto, which is opened on demand: no build needs
// it. It stays open.
class Hmac {
 public:
  // Error::Missing where there is none.
  static Result<Hmac> open();

  Digest operator()(std::span<const std::byte> key, std::span<const std::byte> text) const;
  // In a time that does not tell where they differ.
  bool same(const Digest& a, const Digest& b) const;

 private:
  // As openssl/hmac.h and openssl/crypto.h declare them, from 1.0.2 to 3.
  const void* (*sha256_)() = nullptr;
  unsigned char* (*hmac_)(const void*, const void*, int, const unsigned char*, std::size_t,
                          unsigned char*, unsigned int*) = nullptr;
  int (*compare_)(const void*, const void*, std::size_t) = nullptr;
};

// 32 bytes that nobody can guess, from the system.
Digest random_digest();

// The same as text, for a name or an environment.
std::string hexadecimal(const Digest& digest);

// A text that nobody else may read. It lies in pages of its own, which core dumps leave out and
// which are wiped at the end. Copies share them.
class Secret {
 public:
  Secret() = default;
  explicit Secret(std::string_view text);
  explicit Secret(std::span<const std::byte> bytes);

  std::span<const std::byte> bytes() const { return {pages_.get(), size_}; }
  // Ends with a zero; null where there is none.
  const char* text() const { return reinterpret_cast<const char*>(pages_.get()); }

 private:
  std::shared_ptr<std::byte> pages_;
  std::size_t size_ = 0;
};

// 64 characters that nobody can guess.
Secret drawn_secret();

constexpr const char* kSecretVariable = "TANDEM_SECRET";
constexpr std::size_t kLeastSecret = 16;  // characters

// The job's secret: TANDEM_SECRET, which whoever starts the ranks hands on to them; else the user's
// own, in tandem/secret below XDG_CONFIG_HOME or ~/.config, where only the user may read it. It is
// made there where it is missing, whole or not at all: the ranks of a job may all try at once, on
// hosts that share the folder. An Error where neither can be had, or others may read the file.
Result<Secret> job_secret(const Environment& get);

// TANDEM_SECRET of this process. The first call takes it out of the environment, which core dumps
// hold and /proc shows; processes forked later have it, too. No other thread may run then.
const Secret& taken_secret();

}  // namespace tandem
