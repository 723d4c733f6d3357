#include "launch/admission.h"

#include <fmt/format.h>
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

constexpr auto kTimeToProve = std::chrono::seconds(5);
constexpr auto kTimeToChallenge = std::chrono::seconds(2);
constexpr std::size_t kMostAnswer = 2 * sizeof(Digest) + kMostIntroduction;
constexpr int kAnswerTick_ms = 20;

void append(std::vector<std::byte>* to, std::span<const std::byte> bytes) {
  to->insert(to->end(), bytes.begin(), bytes.end());
}

// Returns the proof that whoever sends `text` as a message of this kind knows the key and both
// nonces of this connection.
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

void say(Connection* connection, AdmissionKind kind, std::span<const std::byte> body) {
  connection->send(static_cast<std::uint32_t>(kind), body);
}

bool is(const ControlMessage& message, AdmissionKind kind) {
  return static_cast<AdmissionKind>(message.kind) == kind;
}

Digest digest_at(std::span<const std::byte> bytes, std::size_t at) {
  Digest digest;
  std::memcpy(digest.data(), bytes.data() + at, digest.size());
  return digest;
}

// Sends an answer: its proof, then its text.
void answer(const Hmac& hmac, std::span<const std::byte> key, Guest* guest, AdmissionKind kind,
            std::span<const std::byte> words) {
  std::vector<std::byte> body;
  append(&body, proof(hmac, key, kind, guest->challenge, guest->nonce, words));
  append(&body, words);
  say(&guest->connection, kind, body);
}

Introduced found(const char* whom) {
  Introduced met;
  met.found = whom;
  return met;
}

// Returns how many unproven connections may be open. Half of the files that this process may open
// stay for the run itself.
std::size_t room_for_strangers(std::size_t expected) {
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

Door::Door(Listener listener, Secret key, const Hmac& hmac, std::size_t expected)
    : listener_(std::move(listener)),
      key_(std::move(key)),
      hmac_(hmac),
      most_strangers_(room_for_strangers(expected)) {}

void Door::add_events(std::vector<pollfd>* events) const {
  for (const Descriptor& socket : listener_.sockets)
    events->push_back({socket.number(), POLLIN, 0});
  for (const Stranger& stranger : strangers_)
    events->push_back({stranger.connection.descriptor(), POLLIN, 0});
}

// Accepts at most as many connections a call as may wait, so that those that came have time to
// prove themselves before the next call.
void Door::let_in() {
  for (std::size_t i = 0; i < most_strangers_; ++i) {
    std::optional<Connection> connection = accept_connection(listener_, kMostAnswer);
    if (!connection) {
      // If no file is left to open, the oldest unproven connection makes room for the next one.
      if ((errno == EMFILE || errno == ENFILE) && !strangers_.empty()) strangers_.pop_front();
      return;
    }
    if (strangers_.size() >= most_strangers_) strangers_.pop_front();
    Stranger& stranger =
        strangers_.emplace_back(Stranger{std::move(*connection), random_digest(), Clock::now()});
    say(&stranger.connection, AdmissionKind::Challenge, stranger.challenge);
  }
}

std::vector<Guest> Door::admit() {
  let_in();
  std::vector<Guest> guests;
  for (auto stranger = strangers_.begin(); stranger != strangers_.end();) {
    std::optional<Guest> guest = prove(&*stranger);
    if (guest) guests.push_back(std::move(*guest));
    const bool late = Clock::now() - stranger->came > kTimeToProve;
    stranger =
        late || !stranger->connection.is_open() ? strangers_.erase(stranger) : std::next(stranger);
  }
  return guests;
}

// Closes a connection that proves nothing, without an answer.
std::optional<Guest> Door::prove(Stranger* stranger) const {
  const std::optional<ControlMessage> message = stranger->connection.receive_one();
  if (!message) return std::nullopt;
  Connection connection = std::move(stranger->connection);
  const std::span<const std::byte> body = message->body;
  if (!is(*message, AdmissionKind::Introduction) || body.size() < 2 * sizeof(Digest))
    return std::nullopt;
  const Digest nonce = digest_at(body, sizeof(Digest));
  const std::span<const std::byte> who = body.subspan(2 * sizeof(Digest));
  const Digest expected =
      proof(hmac_, key_.bytes(), AdmissionKind::Introduction, stranger->challenge, nonce, who);
  if (!hmac_.same(digest_at(body, 0), expected)) return std::nullopt;
  return Guest{std::move(connection), {who.begin(), who.end()}, stranger->challenge, nonce};
}

void Door::welcome(Guest* guest, std::size_t most_bytes) const {
  answer(hmac_, key_.bytes(), guest, AdmissionKind::Admitted, {});
  guest->connection.expect_at_most(most_bytes);
}

void Door::refuse(Guest* guest, const std::string& why) const {
  answer(hmac_, key_.bytes(), guest, AdmissionKind::Refused,
         std::as_bytes(std::span(why).first(std::min(why.size(), kMostIntroduction))));
}

Introduced introduce(Connection connection, const Hmac& hmac, std::span<const std::byte> key,
                     std::span<const std::byte> who, std::size_t most_bytes,
                     Clock::time_point until) {
  const auto next = [&](Clock::time_point at_latest) -> std::optional<ControlMessage> {
    for (;;) {
      if (auto message = connection.receive_one()) return message;
      if (!connection.is_open() || Clock::now() >= at_latest) return std::nullopt;
      pollfd event{connection.descriptor(), POLLIN, 0};
      poll(&event, 1, kAnswerTick_ms);
    }
  };
  connection.expect_at_most(kMostAnswer);
  const auto challenged = next(std::min(until, Clock::now() + kTimeToChallenge));
  if (!challenged) return found("somebody who does not answer");
  if (!is(*challenged, AdmissionKind::Challenge) || challenged->body.size() != sizeof(Digest))
    return found("another program");
  const Digest challenge = digest_at(challenged->body, 0), nonce = random_digest();
  say(&connection, AdmissionKind::Introduction, introduction(hmac, key, challenge, nonce, who));
  const auto answered = next(until);
  constexpr const char* kStranger = "somebody with another secret";
  if (!answered && connection.is_open()) return found("somebody who does not answer");
  if (!answered || answered->body.size() < sizeof(Digest)) return found(kStranger);
  const std::span<const std::byte> words = std::span(answered->body).subspan(sizeof(Digest));
  const auto kind = static_cast<AdmissionKind>(answered->kind);
  if (!hmac.same(digest_at(answered->body, 0), proof(hmac, key, kind, challenge, nonce, words)))
    return found(kStranger);
  Introduced met;
  if (kind == AdmissionKind::Refused)
    met.refused.assign(reinterpret_cast<const char*>(words.data()), words.size());
  if (kind != AdmissionKind::Admitted) return met;
  connection.expect_at_most(most_bytes);
  met.connection = std::move(connection);
  return met;
}

}  // namespace tandem
