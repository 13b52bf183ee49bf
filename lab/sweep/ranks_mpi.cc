// SPDX-License-Identifier: Apache-2.0
// Ranks where MPI was found at build time.
#include <mpi.h>

#include <utility>

#include "lab/sweep/ranks.h"

namespace tributary::lab {

Result<Ranks> Ranks::join() {
  if (launched_count() <= 1) return Ranks(0, 1, false);
  int granted = 0;
  // Only this thread calls MPI, while others compute.
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &granted);
  int rank = 0;
  int count = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &count);
  return Ranks(static_cast<uint32_t>(rank), static_cast<uint32_t>(count), true);
}

Ranks::Ranks(Ranks&& other) noexcept
    : rank_(other.rank_), count_(other.count_), started_(std::exchange(other.started_, false)) {}

Ranks::~Ranks() {
  if (started_) MPI_Finalize();
}

void Ranks::wait_for_all() {
  if (started_) MPI_Barrier(MPI_COMM_WORLD);
}

void Ranks::abandon(int exit_code) {
  if (started_) MPI_Abort(MPI_COMM_WORLD, exit_code);
}

}  // namespace tributary::lab
