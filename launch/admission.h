// Admission: both ends of a connection prove to each other that they know the run's key, before
// anything that one of them says is used.
//
//   who listens                            who comes
//   Challenge: a nonce            ------>
//                                 <------  Introduction: a nonce, who it is, the proof of both
//   Admitted or Refused, and why  ------>
//
// A proof is an HMAC over both nonces and what is said, so that neither can be used again. What is
// said afterwards is neither secret nor signed.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstddef>
#include <list>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "launch/connection.h"
#include "launch/secret.h"

namespace tandem {

constexpr std::size_t kMostIntroduction = 512;  // bytes: who somebody is

// The body of an Introduction: what answers `challenge`, by somebody who drew `nonce`.
// REQUIRES: who.size() <= kMostIntroduction.
std::vector<std::byte> introduction(const Hmac& hmac, std::span<const std::byte> key,
                                    const Digest& challenge, const Digest& nonce,
                                    std::span<const std::byte> who);

// Somebody who knows the key.
struct Guest {
  Connection connection;
  std::vector<std::byte> who;
  Digest challenge, nonce;
};

// The end that listens. Whoever does not prove to know the key within some seconds is put out; of
// too many at once those that came first are, who had the most time to.
class Door {
 public:
  // `expected`: how many may well come at once.
  Door(Listener listener, Secret key, const Hmac& hmac, std::size_t expected);

  // What to poll for.
  void add_events(std::vector<pollfd>* events) const;
  // Who has proven to know the key by now. None of them has an answer yet.
  std::vector<Guest> admit();
  // The answer. `most_bytes`: of a message that the guest may send from now on.
  void welcome(Guest* guest, std::size_t most_bytes) const;
  void refuse(Guest* guest, const std::string& why) const;

 private:
  using Clock = std::chrono::steady_clock;

  // Who has not proven anything yet.
  struct Stranger {
    Connection connection;
    Digest challenge;
    Clock::time_point came;
  };

  void let_in();
  std::optional<Guest> prove(Stranger* stranger) const;

  Listener listener_;
  Secret key_;
  Hmac hmac_;
  std::size_t most_strangers_;
  std::list<Stranger> strangers_;  // in the order of their coming
};

// How an introduction ended: in a connection whose other end knows the key and welcomes us, or in
// its words why it does not. Neither: found somebody else.
struct Introduced {
  std::optional<Connection> connection;
  std::string refused;
  std::string found;  // "somebody who does not answer"
};

// The end that comes. Waits for the answer until `until`, or until the other end turns out to be
// somebody else; some seconds at most for its challenge. `most_bytes`: of a message afterwards.
Introduced introduce(Connection connection, const Hmac& hmac, std::span<const std::byte> key,
                     std::span<const std::byte> who, std::size_t most_bytes,
                     std::chrono::steady_clock::time_point until);

}  // namespace tandem
