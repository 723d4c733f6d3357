// Admission: both ends of a connection prove to each other that they know the run's key. Nothing
// that an end says is used before it has proven that.
//
//   listening end                          connecting end
//   Challenge: a nonce            ------>
//                                 <------  Introduction: proof, a nonce, who it is
//   Admitted or Refused: proof, why  --->
//
// A proof is an HMAC of the key over the protocol's name, the message's kind, both nonces and the
// last part of the message. The nonces keep a recorded proof from being used again. Later messages
// are neither secret nor signed.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstddef>
#include <list>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launch/connection.h"
#include "launch/secret.h"

namespace tandem {

constexpr std::size_t kMostIntroduction = 512;  // bytes of text that say who somebody is

// Returns the body of an Introduction that answers `challenge`, from an end that drew `nonce`.
// REQUIRES: who.size() <= kMostIntroduction.
std::vector<std::byte> introduction(const Hmac& hmac, std::span<const std::byte> key,
                                    const Digest& challenge, const Digest& nonce,
                                    std::span<const std::byte> who);

// A connection whose other end has proven that it knows the key.
struct ProvenCaller {
  Connection connection;
  std::vector<std::byte> who;
  Digest challenge, nonce;
};

// The listening end. It closes a connection whose other end does not prove within 5 seconds that it
// knows the key. If too many have not yet done so, it closes the oldest, which had the most time.
class AdmissionListener {
 public:
  // `expected`: the number of callers that may connect at once.
  AdmissionListener(Listener listener, Secret key, const Hmac& hmac, std::size_t expected);

  // Adds the descriptors to poll for.
  void add_events(std::vector<pollfd>* events) const;
  // Returns the connections that have proven by now that they know the key. They still need an
  // answer: admit() or refuse().
  std::vector<ProvenCaller> take_proven();
  // Answers. `most_bytes`: the largest message body that the other end may send from now on.
  void admit(ProvenCaller* caller, std::size_t most_bytes) const;
  void refuse(ProvenCaller* caller, const std::string& why) const;

 private:
  using Clock = std::chrono::steady_clock;

  // A connection that has not proven anything yet.
  struct UnprovenCaller {
    Connection connection;
    Digest challenge;
    Clock::time_point came;
  };

  void accept_waiting();
  std::optional<ProvenCaller> prove(UnprovenCaller* unproven) const;

  Listener listener_;
  Secret key_;
  Hmac hmac_;
  std::size_t most_unproven_;
  std::list<UnprovenCaller> unproven_;  // oldest first
};

// The outcome of introduce(). One of these is set.
struct IntroductionResult {
  std::optional<Connection> connection;  // the other end knows the key and admits this process
  std::string refused;                   // the other end knows the key, and this is its reason
  std::string found;  // instead of an end that knows the key: "somebody who does not answer"
};

// The connecting end. Waits until `until` for the answer, but only 2 seconds for the challenge, and
// stops early if the other end turns out not to know the key. `most_bytes`: the largest message
// body afterwards.
IntroductionResult introduce(Connection connection, const Hmac& hmac,
                             std::span<const std::byte> key, std::span<const std::byte> who,
                             std::size_t most_bytes, std::chrono::steady_clock::time_point until);

}  // namespace tandem
