// SPDX-License-Identifier: Apache-2.0
// Ranks where MPI was not found at build time.
#include <fmt/format.h>

#include "lab/sweep/ranks.h"

namespace tributary::lab {

Result<Ranks> Ranks::join() {
  if (launched_count() > 1) {
    return failure(
        fmt::format("started by mpirun with {} processes, but this program was built without MPI; "
                    "install libopenmpi-dev and build again, or start it without mpirun",
                    launched_count()));
  }
  return Ranks(0, 1, false);
}

Ranks::Ranks(Ranks&& other) noexcept
    : rank_(other.rank_), count_(other.count_), started_(other.started_) {}

Ranks::~Ranks() = default;

void Ranks::wait_for_all() {}

void Ranks::abandon(int /*exit_code*/) {}

}  // namespace tributary::lab
