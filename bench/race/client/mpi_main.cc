// SPDX-License-Identifier: Apache-2.0
// A worker of the race that uses Open MPI; mpirun starts it and chooses transport and algorithm.
//
// A rank in a network namespace must reach mpirun, which listens on the machine's own loopback. So
// it first connects to mpirun through PMIx (MPI_Init reuses the connection), then enters its
// namespace, and only then lets MPI open its sockets.
#include <fmt/format.h>
#include <mpi.h>
#include <pmix.h>

#include "bench/race/client/client.h"

namespace tributary::race {
namespace {

Result<uint32_t> greet_mpirun() {
  pmix_proc_t me{};
  const pmix_status_t status = PMIx_Init(&me, nullptr, 0);
  if (status != PMIX_SUCCESS) {
    return failure(fmt::format("PMIx_Init: {}", PMIx_Error_string(status)));
  }
  return me.rank;
}

Result<std::vector<PartialSum>> reduce(std::span<float> tensor) {
  const int status = MPI_Allreduce(MPI_IN_PLACE, tensor.data(), static_cast<int>(tensor.size()),
                                   MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  if (status != MPI_SUCCESS) return failure(fmt::format("MPI_Allreduce: error {}", status));
  return std::vector<PartialSum>{};
}

MPI_Op sum_of_halves = MPI_OP_NULL;

Result<std::vector<PartialSum>> reduce_halves(std::span<uint16_t> tensor) {
  const int status = MPI_Allreduce(MPI_IN_PLACE, tensor.data(), static_cast<int>(tensor.size()),
                                   MPI_UINT16_T, sum_of_halves, MPI_COMM_WORLD);
  if (status != MPI_SUCCESS) return failure(fmt::format("MPI_Allreduce: error {}", status));
  return std::vector<PartialSum>{};
}

/// Makes the sum of float16, a type that this MPI does not have.
void make_sum_of_halves() {
  const auto add = [](void* from, void* to, int* count, MPI_Datatype*) {
    add_halves(static_cast<const uint16_t*>(from), static_cast<uint16_t*>(to),
               static_cast<size_t>(*count));
  };
  MPI_Op_create(add, /*commute=*/1, &sum_of_halves);
}

Result<void> run(ClientConfig& config, int argc, char** argv) {
  const auto rank = greet_mpirun();
  if (!rank) return tl::unexpected(rank.error());
  config.rank = *rank;
  if (!config.netns_prefix.empty()) {
    const auto entered = enter_network(config.netns_prefix + std::to_string(*rank));
    if (!entered) return entered;
  }
  MPI_Init(&argc, &argv);
  if (config.wire == 16) make_sum_of_halves();
  const auto done =
      config.wire == 16 ? run_half_laps(config, reduce_halves) : run_laps(config, reduce);
  if (!done) MPI_Abort(MPI_COMM_WORLD, 1);  // Otherwise the other ranks might wait for ever.
  MPI_Finalize();
  PMIx_Finalize(nullptr, 0);
  return done;
}

}  // namespace
}  // namespace tributary::race

int main(int argc, char** argv) {
  CLI::App app("A worker of `tributary bench race` that uses Open MPI; started by mpirun");
  tributary::race::ClientConfig config;
  tributary::race::add_client_options(app, config);
  CLI11_PARSE(app, argc, argv);
  const auto done = tributary::race::run(config, argc, argv);
  if (done) return 0;
  fmt::print(stderr, "rank {}: {}\n", config.rank, done.error().text);
  return 1;
}
