// Writes what nccl-tests prints, of times by a known latency and bus bandwidth.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "base/units.h"

namespace tandem {

struct MadeCommLog {
  std::string name = "all_reduce";  // of the program; "" leaves its line out
  std::string redop = "sum";
  std::string root = "-1";
  bool by_part = false;  // count is that of a part
  double factor = 1.5;   // busbw over algbw
  int ranks = 4, hosts = 1;
  double latency_us = 20, bus_GBps = 100;
  std::vector<Bytes> sizes = {1 << 20, 1 << 23, 1 << 26};
  std::string in_place_wrong = "0";
  std::string label;  // before each line

  std::string rank_lines() const {
    std::string text;
    for (int rank = 0; rank < ranks; ++rank)
      text += fmt::format("{}#  Rank {:2} Group  0 Pid   {} on   host-{} device  {} [0x18] GPU\n",
                          label, rank, 100 + rank, rank * hosts / ranks, rank);
    return text;
  }
  std::string head() const {
    return label +
           "#       size         count      type   redop    root     time   algbw   busbw "
           "#wrong     time   algbw   busbw #wrong\n" +
           label +
           "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)\n";
  }
  std::string row(Bytes bytes, const std::string& wrong = "0") const {
    const double us = latency_us + 1e6 * factor * static_cast<double>(bytes) / (bus_GBps * GB);
    const double algbw = static_cast<double>(bytes) / us * 1e-3;
    const std::string rates = fmt::format("{:8.2f} {:7.2f} {:7.2f}", us, algbw, factor * algbw);
    return fmt::format("{}{:12} {:13} {:>9} {:>7} {:>7} {} {:>6} {} {:>6}\n", label, bytes,
                       bytes / (by_part ? 4 * ranks : 4), "float", redop, root, rates, wrong, rates,
                       in_place_wrong);
  }
  std::string text() const {
    std::string all;
    if (!name.empty()) all += fmt::format("{}# Collective test starting: {}_perf\n", label, name);
    all += label + "# nThread 1 nGpus 1 minBytes 8 maxBytes 64 step: 2(factor)\n" + label +
           "# Using devices\n" + rank_lines() + head();
    for (const Bytes bytes : sizes) all += row(bytes);
    return all + label + "# Out of bounds values : 0 OK\n" + label +
           "# Avg bus bandwidth    : 12.5\n";
  }
};

}  // namespace tandem
