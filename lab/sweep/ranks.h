// SPDX-License-Identifier: Apache-2.0
/// @file
/// The processes that work on one sweep: this one alone, or all that `mpirun` has started.
///
/// Model:   ranks_mpi.cc where MPI was found at build time, ranks_alone.cc elsewhere. A process
///          that was not started by mpirun never touches MPI.
/// Threads: The thread that made it.
/// Errors:  Started by mpirun without MPI in the program: refused, with the remedy. An MPI call
///          that fails ends all processes (MPI's default).
/// Tests:   tests/lab/sweep/ranks_test.cc
#pragma once

#include <cstdint>

#include "base/result.h"

namespace tributary::lab {

class Ranks {
 public:
  /// Joins the launcher's ranks. Call it once in a process.
  static Result<Ranks> join();
  Ranks(Ranks&& other) noexcept;
  Ranks& operator=(Ranks&&) = delete;
  ~Ranks();

  [[nodiscard]] uint32_t rank() const { return rank_; }
  [[nodiscard]] uint32_t count() const { return count_; }
  /// Returns when all ranks have called it.
  void wait_for_all();
  /// Ends this process and the other ranks, which may be waiting for it. Returns if there are none.
  void abandon(int exit_code);

 private:
  Ranks(uint32_t rank, uint32_t count, bool started)
      : rank_(rank), count_(count), started_(started) {}
  uint32_t rank_;
  uint32_t count_;
  bool started_;  ///< MPI runs and is to be ended.
};

/// How many processes a launcher (Open MPI, MPICH, Slurm's PMI) says that it has started; 1 for no
/// launcher.
[[nodiscard]] uint32_t launched_count();

}  // namespace tributary::lab
