// Programs from orders and from texts, for tests.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "schedule/lowering/lower.h"
#include "schedule/order/named_orders.h"
#include "schedule/program/program_text.h"

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

inline std::string scratch(const std::string& name) {
  return (std::filesystem::temp_directory_path() / fmt::format("tandem-{}-{}", getpid(), name))
      .string();
}

inline Result<Program> read_text(const std::string& text) {
  const std::string path = scratch("text.csv");
  std::ofstream(path) << text;
  auto read = read_program(path);
  std::filesystem::remove(path);
  return read;
}

}  // namespace tandem
