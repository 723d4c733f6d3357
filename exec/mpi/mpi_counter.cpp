// Counter of the plugin libtandem_mpi.so: a number in rank 0's memory that all ranks fetch and
// increment by one-sided MPI.
#include <mpi.h>
#include <unistd.h>

#include "exec/mpi/mpi_failure.h"
#include "launch/shared_counter.h"

namespace tandem {
namespace {

class MpiCounter final : public Counter {
 public:
  MpiCounter() {
    int provided = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
    constexpr int kUnit = sizeof(std::int64_t);
    MPI_Win_allocate(rank_ == 0 ? kUnit : 0, kUnit, MPI_INFO_NULL, MPI_COMM_WORLD, &number_,
                     &window_);
    MPI_Win_set_errhandler(window_, MPI_ERRORS_RETURN);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, window_);
    if (rank_ == 0) *number_ = 0;
    MPI_Win_sync(window_);
    MPI_Barrier(MPI_COMM_WORLD);
  }

  ~MpiCounter() override {
    MPI_Win_unlock_all(window_);
    MPI_Win_free(&window_);
    MPI_Finalize();
  }

  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }

  Result<std::int64_t> next() override {
    constexpr std::int64_t kOne = 1;
    std::int64_t number = 0;
    RETURN_IF_MPI_FAILS(MPI_Fetch_and_op, &kOne, &number, MPI_INT64_T, 0, 0, MPI_SUM, window_);
    RETURN_IF_MPI_FAILS(MPI_Win_flush, 0, window_);
    return number;
  }

  // Polls, so that other processes may use the core meanwhile.
  Result<std::int64_t> greatest(std::int64_t own) override {
    std::int64_t most = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    RETURN_IF_MPI_FAILS(MPI_Iallreduce, &own, &most, 1, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD,
                        &request);
    constexpr useconds_t kPoll_us = 1000;
    for (int ended = 0; ended == 0; usleep(kPoll_us))
      RETURN_IF_MPI_FAILS(MPI_Test, &request, &ended, MPI_STATUS_IGNORE);
    return most;
  }

  Status progress() override {
    int there = 0;
    RETURN_IF_MPI_FAILS(MPI_Iprobe, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &there,
                        MPI_STATUS_IGNORE);
    return Done{};
  }

 private:
  int rank_ = 0;
  int ranks_ = 1;
  std::int64_t* number_ = nullptr;  // used on rank 0 alone
  MPI_Win window_ = MPI_WIN_NULL;
};

}  // namespace

extern "C" __attribute__((visibility("default"))) Counter* tandem_make_counter() {
  return new MpiCounter();
}

}  // namespace tandem
