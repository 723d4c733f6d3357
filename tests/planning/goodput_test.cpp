// Goodput against its formulas, against draws, and against what was published.
#include "planning/size/goodput.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>

#include "base/random.h"

namespace tandem {
namespace {

// A failure of the job every 1000 s.
const Failures kOften = {.gpu_mtbf_h = 10.0 / 3.6, .checkpoint_s = 5, .restart_s = 20};

TEST_CASE("the checkpoint interval is Young's for rare failures, with Daly's refinement") {
  // Young: sqrt(2 x 5 x 1000) = 100. Daly: 100 (1 + sqrt(0.0025) / 3 + 0.0025 / 9) - 5 = 96.69.
  CHECK(job_mtbf_s(kOften, 10) == Approx(1000));
  CHECK(checkpoint_interval_s(kOften, 10) == Approx(100 * (1 + 0.05 / 3 + 0.0025 / 9) - 5));
}

TEST_CASE("no other interval has a better goodput") {
  const double best = checkpoint_interval_s(kOften, 10);
  for (const double factor : {0.5, 0.8, 0.95, 1.05, 1.25, 2.0}) {
    INFO(factor);
    CHECK(goodput(kOften, 10, best * factor) <= goodput(kOften, 10, best) * (1 + 1e-5));
  }
}

TEST_CASE("without failures and checkpoints a run takes what its work takes") {
  const Failures never = {.gpu_mtbf_h = 1e12, .checkpoint_s = 0, .restart_s = 0, .repair_h = 0};
  CHECK(goodput(never, 1, checkpoint_interval_s(never, 1)) == Approx(1));
  const Wall wall = wall_time(never, {.work_s = 1000});
  CHECK(wall.p50_s == Approx(1000));
  CHECK(wall.late_s == Approx(1000));
}

TEST_CASE("the drawn runs take, at their median, what Daly's formula gives") {
  // 10,000 failures: the spread is a percent. 1 / goodput is the mean wall time of a unit of work.
  const double interval = checkpoint_interval_s(kOften, 10);
  const double work = 1e7;
  const Wall wall = wall_time(kOften, {.work_s = work, .interval_s = interval, .gpus = 10});
  CHECK(wall.p50_s == Approx(work / goodput(kOften, 10, interval)).epsilon(0.02));
  CHECK(wall.late_s >= wall.p50_s);
  const Wall again = wall_time(kOften, {.work_s = work, .interval_s = interval, .gpus = 10});
  CHECK(again.late_s == wall.late_s);
}

TEST_CASE("days and goodput agree however often hardware fails") {
  // Restarts of half the time between failures, and of all of it.
  for (const double restart_s : {500.0, 1000.0}) {
    INFO(restart_s);
    const Failures f = {.gpu_mtbf_h = 10.0 / 3.6, .checkpoint_s = 50, .restart_s = restart_s};
    const double interval = checkpoint_interval_s(f, 10), work = 1e7;
    const Wall wall = wall_time(f, {.work_s = work, .interval_s = interval, .gpus = 10});
    CHECK(wall.p50_s == Approx(work / goodput(f, 10, interval)).epsilon(0.02));
  }
}

TEST_CASE("the prediction's interval is the drawn runs'") {
  const Failures never = {.gpu_mtbf_h = 1e12, .checkpoint_s = 0, .restart_s = 0, .repair_h = 0};
  const Wall wall = wall_time(never, {.work_s = 1000, .interval = {0.9, 1.2}});
  CHECK(wall.late_s == Approx(1200).epsilon(0.02));
  CHECK(wall.p50_s == Approx(1000).epsilon(0.02));
}

TEST_CASE("the seeds of repeated runs are drawn equally often") {
  const Failures never = {.gpu_mtbf_h = 1e12, .checkpoint_s = 0, .restart_s = 0, .repair_h = 0};
  WallInputs inputs = {.work_s = 1000, .seeds = {1, 1.5, 1, 1}, .certainty = 0.7};
  CHECK(wall_time(never, inputs).late_s == Approx(1000));
  inputs.certainty = 0.8;  // a quarter take 1.5 times as long
  CHECK(wall_time(never, inputs).late_s == Approx(1500));
}

TEST_CASE("spare nodes keep the job running 99 % of the time") {
  // 100 nodes of 8, one under repair at a time on average: P(N <= s) of Poisson(1) passes 0.99 at
  // s = 4 (0.9963; at 3 0.9810), a little later as the spares fail as well.
  const Failures f = {.gpu_mtbf_h = 800 * 24, .repair_h = 24};
  CHECK(availability(f, {100, 8}, 0) == Approx(std::exp(-1.0)));
  CHECK(spares_for(f, {100, 8}) == 4);
}

TEST_CASE("a rack is down only if more of it is under repair than its idle GPUs make up for") {
  // 10 racks of 72. A GPU fails every 48,000 h, and a tray of 4 is under repair for 100 h: 64 x 100
  // / 48,000 = 0.1333 trays of a rack on average. Two idle trays: P(N > 2) = 1 - exp(-m) (1 + m +
  // m^2 / 2) = 0.000358, and that for 10 racks.
  const Failures f = {.gpu_mtbf_h = 48'000, .repair_h = 100};
  const double m = 64 * 100 / 48e3, down = 1 - std::exp(-m) * (1 + m + m * m / 2);
  CHECK(availability(f, {10, 64, 8}, 0) == Approx(std::exp(-10 * down)));
  CHECK(spares_for(f, {10, 64, 8}) == 0);
  // All 72 at work: a failure takes the rack, 0.15 of each on average.
  CHECK(availability(f, {10, 72}, 0) == Approx(std::exp(-10 * 0.15)));
  CHECK(spares_for(f, {10, 72}) == 7);  // Poisson of 17 x 0.15: P(N <= 7) = 0.995
  // A repair that takes all of a node leaves nothing to stand in.
  CHECK(availability({.gpu_mtbf_h = 48'000, .repair_h = 100, .repair_gpus = 72}, {10, 64, 8}, 0) ==
        Approx(std::exp(-10 * m)));
}

TEST_CASE("the late time is the asked percentile") {
  const Failures never = {.gpu_mtbf_h = 1e12, .checkpoint_s = 0, .restart_s = 0, .repair_h = 0};
  WallInputs inputs = {.work_s = 1000, .interval = {0.9, 1.2}, .certainty = 0.5};
  CHECK(wall_time(never, inputs).late_s == wall_time(never, inputs).p50_s);
  // The 80th percentile of a normal is 0.8416 deviations, the 95th 1.6449: 1.2 to the power 0.5117.
  inputs.certainty = 0.8;
  CHECK(wall_time(never, inputs).late_s == Approx(1000 * std::pow(1.2, 0.5117)).epsilon(0.02));
}

TEST_CASE("the share of time with enough nodes is a number for any number of nodes") {
  // 20,000 nodes of 5, 1000 of them and their spares under repair on average.
  const Failures f = {.gpu_mtbf_h = 5 * 20'000, .repair_h = 1000};
  const int spares = spares_for(f, {20'000, 5});
  CHECK(availability(f, {20'000, 5}, spares) >= kWantedAvailability);
  CHECK(availability(f, {20'000, 5}, spares - 1) < kWantedAvailability);
  // Poisson's 99th percentile is near mean + 2.33 times its root; the mean has the spares as well.
  const double mean = (20'000 + spares) * 0.05;
  CHECK(spares == Approx(mean + 2.33 * std::sqrt(mean)).margin(3));
}

TEST_CASE(
    "a checkpoint stalls training for its copy to the hosts and is written at storage's rate") {
  // 405e9 x 14 bytes = 5.67 TB; a 16,384th of it at 64 GB/s takes 5.4 ms, a 64th 1.38 s.
  Failures f = {.checkpoint_s = 1,
                .checkpoint_bytes = checkpoint_bytes(405e9),
                .host_link_bytes_per_s = 64e9};
  CHECK(f.checkpoint_bytes == Approx(5.67e12));
  CHECK(checkpoint_stall_s(f, 16'384) == 1);
  CHECK(checkpoint_stall_s(f, 64) == Approx(5.67e12 / 64 / 64e9));
  // ByteCheckpoint's 8960 GPUs took 51 s; Meta's storage would take less than 3.
  CHECK(checkpoint_write_s(f, 8960) == Approx(51.06).epsilon(0.01));
  f.storage_bytes_per_s = 2e12;
  CHECK(checkpoint_write_s(f, 16'384) == Approx(2.835));
  CHECK(checkpoint_write_s({}, 16'384) == 0);
}

TEST_CASE("no checkpoint begins before the last one is written") {
  // Daly's interval is 96.7 s; 400 GB at 1 GB/s take 400.
  Failures f = kOften;
  f.checkpoint_bytes = 400e9;
  f.storage_bytes_per_s = 1e9;
  CHECK(checkpoint_interval_s(f, 10) == Approx(400));
  f.storage_bytes_per_s = 10e9;
  CHECK(checkpoint_interval_s(f, 10) == checkpoint_interval_s(kOften, 10));
  f.checkpoint_s = 0;
  CHECK(checkpoint_interval_s(f, 10) == Approx(40));
}

// Plays a run second by second as goodput() describes it: returns work over wall time.
double played_goodput(const Failures& f, int gpus, double interval_s, double work_s) {
  const double mtbf = job_mtbf_s(f, gpus), stall = checkpoint_stall_s(f, gpus);
  const double write = checkpoint_write_s(f, gpus);
  double wall = 0, saved = 0;  // work that storage has
  std::uint64_t key = 7;
  const auto next_failure = [&] { return wall - mtbf * std::log(uniform(scatter(++key))); };
  double failure = next_failure();
  while (saved < work_s) {
    // From the state `saved`: work to the checkpoints, which reach storage `write` after each
    // stall.
    const double begin = wall;
    int written = 0;
    while (begin + (written + 1) * (interval_s + stall) + write <= failure &&
           saved + written * interval_s < work_s)
      ++written;
    saved += written * interval_s;
    if (saved >= work_s) {
      wall = begin + written * (interval_s + stall) + write;
      break;
    }
    do {  // a restart may fail as well
      wall = failure;
      failure = next_failure();
    } while (failure < wall + f.restart_s);
    wall += f.restart_s;
  }
  return saved / wall;
}

TEST_CASE("a failure loses the work since the last checkpoint that was written") {
  // A failure every 1000 s, 40 s to write.
  Failures f = kOften;
  f.checkpoint_bytes = 40e9;
  f.storage_bytes_per_s = 1e9;
  for (const double interval : {40.0, 97.0, 300.0}) {
    INFO(interval);
    CHECK(goodput(f, 10, interval) == Approx(played_goodput(f, 10, interval, 2e7)).epsilon(0.005));
    const Wall wall = wall_time(f, {.work_s = 1e7, .interval_s = interval, .gpus = 10});
    CHECK(wall.p50_s == Approx(1e7 / goodput(f, 10, interval)).epsilon(0.02));
  }
}

TEST_CASE("Llama 3 405B on 16,384 H100 trains more than 90 % of the time, as Meta says") {
  const auto share = [](Failures f) {
    const int nodes = 16'384 / 8;
    f.checkpoint_bytes = checkpoint_bytes(405e9);
    f.host_link_bytes_per_s = 64e9;
    return goodput(f, 16'384, checkpoint_interval_s(f, 16'384)) *
           availability(f, {nodes, 8}, spares_for(f, {nodes, 8}));
  };
  CHECK(share({}) > 0.90);
  CHECK(share({}) < 0.92);
  CHECK(share({.checkpoint_s = 0.59, .storage_bytes_per_s = 2e12}) < 0.94);
  // Training that waits for storage as well, 30 s for each checkpoint, does not reach it.
  CHECK(share({.checkpoint_s = 30}) < 0.88);
}

TEST_CASE("the default rate of failures is Llama 3's") {
  CHECK(Failures{}.gpu_mtbf_h == Approx(kPublishedFailures[0].gpu_mtbf_h).epsilon(0.001));
  // Meta projects 1.8 h for 16,384 GPUs of RSC-1.
  CHECK(kPublishedFailures[1].gpu_mtbf_h / 16'384 == Approx(1.8).epsilon(0.01));
}

}  // namespace
}  // namespace tandem
