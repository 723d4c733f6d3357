// A named order that a test takes for granted.
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
