// Cast: who plays a Program. Folded, one rank stands for each class of equal ranks and one
// communicator for each class of equal communicators; unfolded, everyone plays himself.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "schedule/program/program.h"

namespace tandem {

// A rank that is played, and its channel per slot of its body.
struct Player {
  Rank rank{};
  int body = 0;
  int multiplicity = 1;  // ranks it stands for
  std::vector<std::int32_t> channels;
};

// A player's place at a channel: the slot of its body that leads there.
struct Seat {
  std::int32_t player = 0;  // into Cast::players
  std::int32_t slot = 0;
};

// A communicator that is played. All of `seats` must arrive before an op of it starts.
struct Channel {
  Scope scope = Scope::Pipeline;
  std::vector<Seat> seats;
  std::vector<std::int32_t> communicators;  // those it stands for, in lock step
};

struct Cast {
  std::vector<Player> players;
  std::vector<Channel> channels;
  bool folded = false;
};

// Equal ranks have one body, and communicators of equal ranks in each of its slots: several players
// of one body where its ranks meet unlike ones. Communicators of unlike `colours`, one each,
// differ.
Cast fold(const Program& program, std::span<const std::int32_t> colours = {});
Cast unfold(const Program& program);

}  // namespace tandem
