// SPDX-License-Identifier: Apache-2.0
/// @file
/// A worker process of a race: the same laps, clocks and checks for every system.
///
/// Model:   A lap is `reductions` all-reduces of `bytes` each, one after the other. Tensors are
///          filled before the lap and checked after it. All workers of a system start a lap at the
///          race's "go" and check it at its "check", so no lap overlaps a peer's filling or
///          checking. A lap's cost is the process's CPU time and its interface's counters.
/// Units:   Bytes of float32, also where a system reduces float16; times in nanoseconds.
/// Threads: One; the system may have more.
/// Errors:  Values; also sent to the race as "failed".
/// Memory:  `reductions` tensors.
/// Tests:   tests/bench/race/client/client_test.cc
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/race/client/control.h"
#include "bench/race/client/lap_tensor.h"

namespace tributary::race {

struct ClientConfig {
  std::string control;              ///< Path of the race's socket.
  uint32_t rank = 0;                ///< 0 … workers-1.
  uint32_t workers = 2;             ///< 1 … kWorkersMax.
  uint64_t bytes = 1'000'000;       ///< Of one tensor; a multiple of 4.
  uint32_t reductions = 1;          ///< All-reduces in a lap.
  uint32_t pause_ms = 0;            ///< Delay of the last rank in each lap but the first.
  std::string interface = "lo";     ///< Its counters are the worker's link.
  std::vector<std::string> server;  ///< HOST:PORT of servers, if the system has any.
  std::string scratch;              ///< A folder that all ranks share.
  std::string algorithm;            ///< For systems with several algorithms.
  std::string netns_prefix;         ///< Network namespace without the rank; may be empty.
  std::string port;                 ///< dpdk:… instead of a socket; Tributary only.
  uint32_t wire = 32;               ///< Bits of an element on the wire: 32 or 16.
  double loss = 0;                  ///< Each way, for systems that drop their own packets.
  /// The aggregator of the worker's own machine, HOST:PORT, to reach through shared memory; may be
  /// empty. Tributary only.
  std::string local_server;
};

/// Adds flags for all of these.
void add_client_options(CLI::App& command, ClientConfig& config);
/// Returns the flags for add_client_options(). Omits the rank if the process learns it in another
/// way (`rank_known`, for MPI).
[[nodiscard]] std::vector<std::string> to_arguments(const ClientConfig& config,
                                                    bool rank_known = false);

/// One all-reduce in place.
/// @return the elements with partial sums; usually none.
using Reduce = std::function<Result<std::vector<PartialSum>>(std::span<float> tensor)>;

/// One all-reduce in place of float16 values, given by their bits.
/// @return the elements with partial sums; usually none.
using ReduceHalves = std::function<Result<std::vector<PartialSum>>(std::span<uint16_t> tensor)>;

/// Connects to the race and runs laps until the race says "end".
/// @param tolerance  The largest errors that are not wrong.
Result<void> run_laps(const ClientConfig& config, const Reduce& reduce,
                      const Tolerance& tolerance = {});
/// Runs laps as run_laps() does, with float16 tensors. They are made before a lap, and read after
/// it.
Result<void> run_half_laps(const ClientConfig& config, const ReduceHalves& reduce);

/// Moves the calling thread, and threads it starts later, into the named network namespace. Open
/// sockets stay where they are.
Result<void> enter_network(const std::string& name);

/// Bytes that an interface has received and sent; zeros if the interface does not exist.
struct InterfaceBytes {
  uint64_t rx = 0;
  uint64_t tx = 0;
};
[[nodiscard]] InterfaceBytes interface_bytes(const std::string& interface);
/// Reads the bytes of an interface from the text of the kernel's file.
[[nodiscard]] InterfaceBytes interface_bytes_in(const std::string& text,
                                                const std::string& interface);

}  // namespace tributary::race
