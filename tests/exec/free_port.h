// A port at which nobody listens.
#pragma once

#include <catch2/catch.hpp>

#include "launch/connection.h"

namespace tandem {

inline int free_port() {
  const auto listener = listen_on({});
  REQUIRE(listener.ok());
  return listener->port();
}

}  // namespace tandem
