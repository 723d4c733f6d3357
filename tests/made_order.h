// Makes a named order for a test, which ends where that fails.
#pragma once

#include <catch2/catch.hpp>
#include <utility>

#include "schedule/order/named_orders.h"

namespace tandem {

inline Order made_order(const OrderSpec& spec) {
  auto order = make_order(spec);
  INFO((order.ok() ? "" : order.error().text()));
  REQUIRE(order.ok());
  return *std::move(order);
}

}  // namespace tandem
