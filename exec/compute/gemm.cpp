// Does compute ops by OpenBLAS. Each kernel becomes a Job: products of random matrices, and bytes
// to copy. All products share one set of matrices a, b and c, as large as the largest product of
// the body needs. Before any op starts, Freivalds' algorithm checks one product of each shape.
#include "exec/compute/gemm.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <thread>
#include <tuple>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "exec/compute/openblas.h"
#include "launch/clock.h"
#include "schedule/program/validate.h"

namespace tandem {
namespace {

// `batch` products of (m x k) by (k x n).
struct GemmSizes {
  std::int64_t batch = 1, m = 0, n = 0, k = 0;
};

// The work that stands for a kernel here.
struct Job {
  std::vector<GemmSizes> products;
  std::int64_t copied_bytes = 0;
};

// Sizes of a unit's matrices and of its two copy buffers, in floats: enough for every job of a
// body.
struct Sizes {
  double a = 0, b = 0, c = 0;
  double copied = 0;

  double bytes() const { return sizeof(float) * (a + b + c + 2 * copied); }
};

constexpr std::int64_t kCopyFloats = 8 << 20;  // the most copied at once: larger than any cache

// Returns the GEMM's sizes with each side times `scale`, at least 1.
GemmSizes scaled(const Gemm& gemm, double scale) {
  const auto scaled_side = [scale](std::int64_t side) {
    const double length = std::round(static_cast<double>(side) * scale);
    return static_cast<std::int64_t>(std::clamp(length, 1.0, 0x1p52));
  };
  return {gemm.batch, scaled_side(gemm.m), scaled_side(gemm.n), scaled_side(gemm.k)};
}

// Returns products of square matrices that have about `flops` FLOPs together: 2 side^3 each.
GemmSizes attention(double flops) {
  constexpr double kMostSide = 512;
  const double side = std::clamp(std::round(std::cbrt(flops / 2)), 1.0, kMostSide);
  const double batch = std::max(1.0, std::round(flops / (2 * side * side * side)));
  const auto length = static_cast<std::int64_t>(side);
  return {static_cast<std::int64_t>(batch), length, length, length};
}

Job job_of(const Kernel& kernel, double scale) {
  Job job;
  for (const Gemm& gemm : kernel.gemms) job.products.push_back(scaled(gemm, scale));
  if (kernel.attention_flops > 0)
    job.products.push_back(attention(kernel.attention_flops * scale * scale * scale));
  // A copy of n bytes reads n and writes n.
  job.copied_bytes = std::llround(kernel.memory_bytes / 2 * scale * scale);
  return job;
}

// Makes the sizes large enough for the job.
void enlarge(Sizes* sizes, const Job& job) {
  const auto floats = [](std::int64_t x, std::int64_t y) {
    return static_cast<double>(x) * static_cast<double>(y);
  };
  for (const GemmSizes& p : job.products) {
    sizes->a = std::max(sizes->a, floats(p.m, p.k));
    sizes->b = std::max(sizes->b, floats(p.k, p.n));
    sizes->c = std::max(sizes->c, floats(p.m, p.n));
  }
  const auto copied = static_cast<double>(job.copied_bytes) / sizeof(float);
  sizes->copied = std::max(sizes->copied, std::min(copied, double{kCopyFloats}));
}

// Returns an Error if `units` units need more than a quarter of the machine's memory, or if a
// matrix has 2^31 numbers or more.
Status check_memory(const Sizes& sizes, int units, double scale) {
  const double quarter = 0.25 * static_cast<double>(sysconf(_SC_PHYS_PAGES)) *
                         static_cast<double>(sysconf(_SC_PAGE_SIZE));
  const double needed = sizes.bytes() * units;
  // OpenBLAS takes sides as ints, which hold every side of a matrix of fewer than 2^31 numbers.
  const double longest = std::max({sizes.a, sizes.b, sizes.c});
  if (needed <= quarter && longest <= std::numeric_limits<int>::max()) return Done{};
  return Error{
      fmt::format("found matrices of {:.3g} GB for {} ranks at --gemm-scale {:g}, expected "
                  "at most {:.3g} GB, a quarter of this machine's memory, and 2^31 "
                  "numbers each: a lower --gemm-scale makes them smaller",
                  needed / GB, units, scale, quarter / GB)};
}

// Returns random numbers, uniform in (-1, 1).
std::vector<float> random_matrix(double floats, std::uint64_t seed) {
  std::vector<float> matrix(static_cast<std::size_t>(floats));
  const std::uint64_t key = scatter(seed);
  for (std::size_t i = 0; i < matrix.size(); ++i)
    matrix[i] = static_cast<float>(2 * uniform(key + i) - 1);
  return matrix;
}

// Returns whether c = a b, by Freivalds 1977: whether c x = a (b x) for a random vector x of -1 and
// 1. A wrong c passes with a probability of at most 1/2. Entries of a and b are uniform in (-1, 1):
// their variance is 1/3, so an entry of c has the standard deviation sqrt(k) / 3, and one of c x
// sqrt(n k) / 3. The bound is sqrt(n k) / 1000, far more than rounding errors make. A missing or
// misplaced entry of c is off by about sqrt(k) / 3, which is more than the bound for n < 100,000.
bool is_product(const GemmSizes& p, const float* a, const float* b, const float* c,
                std::uint64_t seed) {
  std::vector<double> x(p.n), bx(p.k);
  for (std::int64_t j = 0; j < p.n; ++j) x[j] = scatter(seed + j) & 1 ? 1 : -1;
  for (std::int64_t l = 0; l < p.k; ++l) {
    for (std::int64_t j = 0; j < p.n; ++j) bx[l] += b[l * p.n + j] * x[j];
  }
  const double bound = 1e-3 * std::sqrt(static_cast<double>(p.n) * static_cast<double>(p.k));
  for (std::int64_t i = 0; i < p.m; ++i) {
    double difference = 0;
    for (std::int64_t j = 0; j < p.n; ++j) difference += c[i * p.n + j] * x[j];
    for (std::int64_t l = 0; l < p.k; ++l) difference -= a[i * p.k + l] * bx[l];
    if (!(std::abs(difference) <= bound)) return false;
  }
  return true;
}

class OpenBlasUnit final : public GemmUnit {
 public:
  OpenBlasUnit(const Body& body, const OpenBlas& blas, std::vector<Job> jobs, const Sizes& sizes,
               std::uint64_t seed)
      : body_(body),
        blas_(blas),
        jobs_(std::move(jobs)),
        seed_(seed),
        a_(random_matrix(sizes.a, scatter(seed))),
        b_(random_matrix(sizes.b, scatter(seed) + 1)),
        c_(static_cast<std::size_t>(sizes.c)),
        from_(random_matrix(sizes.copied, scatter(seed) + 2)),
        to_(static_cast<std::size_t>(sizes.copied)),
        event_(eventfd(0, EFD_CLOEXEC)) {
    CHECK(event_ >= 0);
  }

  ~OpenBlasUnit() override {
    started_ = kStop;
    started_.notify_one();
    if (thread_.joinable()) thread_.join();
    close(event_);
  }

  Status check_products();

  // Starts the thread. Ops may start from here on.
  void begin(int core) {
    thread_ = std::thread([this] { work(); });
    pin(core);
  }

  void start(std::uint32_t op) override {
    CHECK(ended());
    ended_ = false;
    started_ = op;
    started_.notify_one();
  }
  bool ended() const override { return ended_; }
  Nanoseconds end_ns() const override { return end_ns_; }
  Nanoseconds busy_ns() const override { return busy_ns_; }
  int event() const override { return event_; }

 private:
  // start() sets started_ to an op. The thread takes it from there, does the op, sets ended_ and
  // makes event_ readable.
  static constexpr std::int64_t kNothing = -1, kStop = -2;

  void pin(int core);
  void work();
  void run(const Job& job);
  void multiply(const GemmSizes& p) {
    blas_.multiply(static_cast<int>(p.m), static_cast<int>(p.n), static_cast<int>(p.k), a_.data(),
                   b_.data(), c_.data());
  }

  const Body& body_;
  OpenBlas blas_;
  std::vector<Job> jobs_;  // by kernel
  std::uint64_t seed_;
  std::vector<float> a_, b_, c_;  // all products are c_ = a_ b_, or of their first numbers
  std::vector<float> from_, to_;  // copies go over these repeatedly
  int event_;
  std::atomic<std::int64_t> started_ = kNothing;  // the op to do, kNothing or kStop
  std::atomic<bool> ended_ = true;
  Nanoseconds end_ns_ = 0, busy_ns_ = 0;  // of the op done last; written before ended_
  std::thread thread_;
};

Status OpenBlasUnit::check_products() {
  std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t>> checked;
  for (const Job& job : jobs_) {
    for (const GemmSizes& p : job.products) {
      if (!checked.insert({p.m, p.n, p.k}).second) continue;
      multiply(p);
      if (!is_product(p, a_.data(), b_.data(), c_.data(), scatter(seed_) + 3))
        return Error{fmt::format("found a wrong product of {} x {} by {} x {}, expected OpenBLAS "
                                 "to multiply",
                                 p.m, p.k, p.k, p.n),
                     Error::Failed};
    }
  }
  return Done{};
}

// Pins the thread to a core. If the system does not allow that, the thread stays unpinned.
void OpenBlasUnit::pin(int core) {
  cpu_set_t allowed, own;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  int cores_to_skip = core % CPU_COUNT(&allowed);
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    if (cores_to_skip-- > 0) continue;
    CPU_ZERO(&own);
    CPU_SET(cpu, &own);
    pthread_setaffinity_np(thread_.native_handle(), sizeof own, &own);
    return;
  }
}

// The thread: does one op after another until started_ is kStop.
void OpenBlasUnit::work() {
  for (;;) {
    started_.wait(kNothing);
    std::int64_t op = started_;
    if (op == kStop) return;
    if (!started_.compare_exchange_strong(op, kNothing)) return;  // stopped meanwhile
    const std::int32_t kernel = body_.ops[op].kernel;
    const Nanoseconds before_ns = thread_ns();
    if (kernel >= 0) run(jobs_[kernel]);
    end_ns_ = now_ns();
    busy_ns_ = thread_ns() - before_ns;
    ended_ = true;
    const std::uint64_t one = 1;
    CHECK(write(event_, &one, sizeof one) == sizeof one);
  }
}

void OpenBlasUnit::run(const Job& job) {
  for (const GemmSizes& p : job.products) {
    for (std::int64_t i = 0; i < p.batch; ++i) multiply(p);
  }
  const auto buffer_bytes = static_cast<std::int64_t>(to_.size() * sizeof(float));
  for (std::int64_t left = buffer_bytes > 0 ? job.copied_bytes : 0; left > 0; left -= buffer_bytes)
    std::memcpy(to_.data(), from_.data(), static_cast<std::size_t>(std::min(left, buffer_bytes)));
}

}  // namespace

Result<std::unique_ptr<GemmUnit>> GemmUnit::open(const Program& program, int body, double scale,
                                                 std::uint64_t seed, int core, int units) {
  const Body& own = program.bodies[body];
  std::vector<Job> jobs(program.kernels.size());
  Sizes sizes;
  for (const Op& op : own.ops) {
    if (!is_compute(op.kind) || op.duration_ns == 0) continue;
    if (op.kernel < 0 || program.kernels[op.kernel].empty())
      return Error{
          fmt::format("found {} without a kernel, expected the shapes of its matrices to "
                      "multiply: costs.source = \"uniform\" has none",
                      describe(own, op))};
    Job& job = jobs[op.kernel];
    if (job.products.empty() && job.copied_bytes == 0)
      job = job_of(program.kernels[op.kernel], scale);
    enlarge(&sizes, job);
  }
  RETURN_IF_ERROR(check_memory(sizes, units, scale));
  ASSIGN_OR_RETURN(const OpenBlas blas, open_openblas());
  auto unit = std::make_unique<OpenBlasUnit>(own, blas, std::move(jobs), sizes, seed);
  RETURN_IF_ERROR(unit->check_products());
  unit->begin(core);
  return std::unique_ptr<GemmUnit>(std::move(unit));
}

}  // namespace tandem
