// Programs from orders and from their files' text, for tests. made_program.h makes others.
#pragma once

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "schedule/lowering/lower.h"
#include "schedule/order/named_orders.h"
#include "schedule/program/program_text.h"
#include "tests/folder.h"

namespace tandem {

inline Order order_of(const std::string& name, int pp, int microbatches, int vpp = 1) {
  auto order = make_order({name, pp, vpp, microbatches, 0});
  REQUIRE(order.ok());
  return *order;
}

inline Workload seconds(double forward, double backward, int stages) {
  return uniform_workload({forward, backward, backward / 2, backward / 2}, stages);
}

inline Program lowered(const Order& order, const LowerOptions& options) {
  auto program = lower(order, seconds(1, 2, order.stages), options);
  REQUIRE(program.ok());
  return *program;
}

inline Result<Program> read_text(const std::string& text) {
  const Folder folder;
  return read_program(folder.with("text.csv", text));
}

}  // namespace tandem
