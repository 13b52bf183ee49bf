// SPDX-License-Identifier: Apache-2.0
/// @file
/// A worker process of a race: the same laps, clocks and checks for every system.
///
/// Model:   A lap is `reductions` all-reduces of `bytes` each, one after the other, on tensors that
///          were filled before the lap and are checked after it. All workers of a system start a
///          lap at the race's word, so that nobody is measured while another one fills or checks.
///          What a lap costs is the process's own CPU time and its interface's counters.
/// Units:   Bytes of float32; times in nanoseconds.
/// Threads: One; the system may have more.
/// Errors:  Values; the race is told with "failed".
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
  uint32_t pause_ms = 0;            ///< The last rank begins each lap but the first so much late.
  std::string interface = "lo";     ///< Whose counters are the worker's link.
  std::vector<std::string> server;  ///< HOST:PORT of servers, if the system has any.
  std::string scratch;              ///< A folder that all ranks share.
  std::string algorithm;            ///< Of systems that offer several.
  std::string netns_prefix;  ///< This rank's network namespace is that plus its rank; may be empty.
  std::string port;          ///< dpdk:…, instead of a socket; of Tributary's worker.
  double loss = 0;           ///< Each way, where the system spoils its own packets.
};

/// Flags for all of the above.
void add_client_options(CLI::App& command, ClientConfig& config);
/// The flags with which add_client_options() reads `config` back. The rank is left out where it is
/// `rank_known` to the process by other means (MPI).
[[nodiscard]] std::vector<std::string> to_arguments(const ClientConfig& config,
                                                    bool rank_known = false);

/// One all-reduce in place. @return what is only part of a sum; usually nothing.
using Reduce = std::function<Result<std::vector<PartialSum>>(std::span<float> tensor)>;

/// Connects, and runs laps until the race says "end".
Result<void> run_laps(const ClientConfig& config, const Reduce& reduce);

/// Makes the calling thread's (and later threads') network that of the named namespace. Sockets
/// that are open stay where they are.
Result<void> enter_network(const std::string& name);

/// Bytes that an interface has received and sent, from /proc/net/dev; zeros if there is none.
struct InterfaceBytes {
  uint64_t rx = 0;
  uint64_t tx = 0;
};
[[nodiscard]] InterfaceBytes interface_bytes(const std::string& interface);
/// The same from the file's text.
[[nodiscard]] InterfaceBytes interface_bytes_in(const std::string& text,
                                                const std::string& interface);

}  // namespace tributary::race
