// Challenge and response, as drawn in the header. "challenge" is the listener's nonce, "nonce" the
// caller's.
#include "launch/admission.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/check.h"

namespace tandem {
namespace {

using Clock = std::chrono::steady_clock;

enum class AdmissionKind : std::uint32_t {
  Challenge = 0x7a1dE101,
  Introduction,
  Admitted,
  Refused
};

constexpr auto kTimeToProve = std::chrono::seconds(5);      // of a caller, else it is dropped
constexpr auto kTimeToChallenge = std::chrono::seconds(2);  // of a listener
constexpr std::size_t kMostAnswer = 2 * sizeof(Digest) + kMostIntroduction;
constexpr int kAnswerTick_ms = 20;

void append(std::vector<std::byte>* to, std::span<const std::byte> bytes) {
  to->insert(to->end(), bytes.begin(), bytes.end());
}

// Returns the proof that the sender of `text` in a message of this kind knows the key and both
// nonces of the connection.
Digest proof(const Hmac& hmac, std::span<const std::byte> key, AdmissionKind kind,
             const Digest& challenge, const Digest& nonce, std::span<const std::byte> text) {
  constexpr std::string_view kProtocol = "tandem ranks 2";
  std::vector<std::byte> all;
  append(&all, std::as_bytes(std::span(kProtocol)));
  append(&all, std::as_bytes(std::span(&kind, 1)));
  append(&all, challenge);
  append(&all, nonce);
  append(&all, text);
  return hmac(key, all);
}

void send_admission(Connection* connection, AdmissionKind kind, std::span<const std::byte> body) {
  connection->send(static_cast<std::uint32_t>(kind), body);
}

bool is_kind(const ControlMessage& message, AdmissionKind kind) {
  return static_cast<AdmissionKind>(message.kind) == kind;
}

Digest digest_at(std::span<const std::byte> bytes, std::size_t at) {
  Digest digest;
  std::memcpy(digest.data(), bytes.data() + at, digest.size());
  return digest;
}

// Sends an answer: its proof, then its text.
void answer(const Hmac& hmac, std::span<const std::byte> key, ProvenCaller* caller,
            AdmissionKind kind, std::span<const std::byte> words) {
  std::vector<std::byte> body;
  append(&body, proof(hmac, key, kind, caller->challenge, caller->nonce, words));
  append(&body, words);
  send_admission(&caller->connection, kind, body);
}

// Returns the number of unproven connections that may be open. Half of the files that this process
// may open stay for the run itself.
std::size_t most_unproven_callers(std::size_t expected) {
  constexpr std::size_t kLeast = 64;
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return kLeast;
  const std::size_t half = std::max<std::size_t>(1, files.rlim_cur / 2);
  return std::min(half, std::max(kLeast, 2 * expected));
}

}  // namespace

std::vector<std::byte> introduction(const Hmac& hmac, std::span<const std::byte> key,
                                    const Digest& challenge, const Digest& nonce,
                                    std::span<const std::byte> who) {
  CHECK(who.size() <= kMostIntroduction);
  std::vector<std::byte> body;
  append(&body, proof(hmac, key, AdmissionKind::Introduction, challenge, nonce, who));
  append(&body, nonce);
  append(&body, who);
  return body;
}

AdmissionListener::AdmissionListener(Listener listener, Secret key, const Hmac& hmac,
                                     std::size_t expected)
    : listener_(std::move(listener)),
      key_(std::move(key)),
      hmac_(hmac),
      most_unproven_(most_unproven_callers(expected)) {}

void AdmissionListener::add_events(std::vector<pollfd>* events) const {
  for (const Descriptor& socket : listener_.sockets)
    events->push_back({socket.number(), POLLIN, 0});
  for (const UnprovenCaller& unproven : unproven_)
    events->push_back({unproven.connection.descriptor(), POLLIN, 0});
}

// Accepts at most most_unproven_ connections a call. So only connections of earlier calls have to
// make room for these, the oldest first.
void AdmissionListener::accept_waiting() {
  for (std::size_t i = 0; i < most_unproven_; ++i) {
    std::optional<Connection> connection = accept_connection(listener_, kMostAnswer);
    if (!connection) {
      // If no file is left to open, the oldest unproven connection makes room for the next one.
      if ((errno == EMFILE || errno == ENFILE) && !unproven_.empty()) unproven_.pop_front();
      return;
    }
    if (unproven_.size() >= most_unproven_) unproven_.pop_front();
    UnprovenCaller& unproven = unproven_.emplace_back(
        UnprovenCaller{std::move(*connection), random_digest(), Clock::now()});
    send_admission(&unproven.connection, AdmissionKind::Challenge, unproven.challenge);
  }
}

std::vector<ProvenCaller> AdmissionListener::take_proven() {
  accept_waiting();
  std::vector<ProvenCaller> callers;
  for (auto unproven = unproven_.begin(); unproven != unproven_.end();) {
    std::optional<ProvenCaller> caller = prove(&*unproven);
    if (caller) callers.push_back(std::move(*caller));
    const bool is_late = Clock::now() - unproven->came > kTimeToProve;
    const bool may_still_prove = unproven->connection.is_open() && !is_late;
    unproven = may_still_prove ? std::next(unproven) : unproven_.erase(unproven);
  }
  return callers;
}

// Checks an Introduction, if one has come. Closes the connection without an answer if it is wrong.
std::optional<ProvenCaller> AdmissionListener::prove(UnprovenCaller* unproven) const {
  const std::optional<ControlMessage> message = unproven->connection.receive_one();
  if (!message) return std::nullopt;
  Connection connection = std::move(unproven->connection);  // closes below unless it is proven
  const std::span<const std::byte> body = message->body;
  if (!is_kind(*message, AdmissionKind::Introduction) || body.size() < 2 * sizeof(Digest))
    return std::nullopt;
  const Digest nonce = digest_at(body, sizeof(Digest));
  const std::span<const std::byte> who = body.subspan(2 * sizeof(Digest));
  const Digest expected =
      proof(hmac_, key_.bytes(), AdmissionKind::Introduction, unproven->challenge, nonce, who);
  if (!hmac_.same(digest_at(body, 0), expected)) return std::nullopt;
  return ProvenCaller{std::move(connection), {who.begin(), who.end()}, unproven->challenge, nonce};
}

void AdmissionListener::admit(ProvenCaller* caller, std::size_t most_bytes) const {
  answer(hmac_, key_.bytes(), caller, AdmissionKind::Admitted, {});
  caller->connection.expect_at_most(most_bytes);
}

void AdmissionListener::refuse(ProvenCaller* caller, const std::string& why) const {
  answer(hmac_, key_.bytes(), caller, AdmissionKind::Refused,
         std::as_bytes(std::span(why).first(std::min(why.size(), kMostIntroduction))));
}

IntroductionResult introduce(Connection connection, const Hmac& hmac,
                             std::span<const std::byte> key, std::span<const std::byte> who,
                             std::size_t most_bytes, Clock::time_point until) {
  const auto wait_for_message = [&](Clock::time_point at_latest) -> std::optional<ControlMessage> {
    for (;;) {
      if (auto message = connection.receive_one()) return message;
      if (!connection.is_open() || Clock::now() >= at_latest) return std::nullopt;
      pollfd event{connection.descriptor(), POLLIN, 0};
      poll(&event, 1, kAnswerTick_ms);
    }
  };
  connection.expect_at_most(kMostAnswer);
  const auto challenged = wait_for_message(std::min(until, Clock::now() + kTimeToChallenge));
  if (!challenged) return {.found = "somebody who does not answer"};
  if (!is_kind(*challenged, AdmissionKind::Challenge) || challenged->body.size() != sizeof(Digest))
    return {.found = "another program"};
  const Digest challenge = digest_at(challenged->body, 0), nonce = random_digest();
  send_admission(&connection, AdmissionKind::Introduction,
                 introduction(hmac, key, challenge, nonce, who));
  const auto answered = wait_for_message(until);
  constexpr const char* kOtherSecret = "somebody with another secret";
  // An end with another secret closes the connection (AdmissionListener::prove).
  if (!answered)
    return {.found = connection.is_open() ? "somebody who does not answer" : kOtherSecret};
  if (answered->body.size() < sizeof(Digest)) return {.found = kOtherSecret};
  const std::span<const std::byte> words = std::span(answered->body).subspan(sizeof(Digest));
  const auto kind = static_cast<AdmissionKind>(answered->kind);
  if (!hmac.same(digest_at(answered->body, 0), proof(hmac, key, kind, challenge, nonce, words)))
    return {.found = kOtherSecret};
  if (kind == AdmissionKind::Refused)
    return {.refused = std::string(reinterpret_cast<const char*>(words.data()), words.size())};
  if (kind != AdmissionKind::Admitted) return {};
  connection.expect_at_most(most_bytes);
  return {.connection = std::move(connection)};
}

}  // namespace tandem
