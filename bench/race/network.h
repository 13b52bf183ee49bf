// SPDX-License-Identifier: Apache-2.0
/// @file
/// The networks of a race: the machine's loopback, or network namespaces, one for each worker and
/// one for the servers, joined by a bridge in a namespace of its own.
///
/// Model:   PREFIX-sw holds the bridge "br" and one end of every cable ("w0" …, "s"); PREFIX-w0 …
///          and PREFIX-s hold the other ends, all called "eth0", with addresses 10.231.0.1 … and
///          10.231.0.254. Nothing of it is visible in, or disturbs, the machine's own network.
///          A shaped network has a token bucket at both ends of each worker's cable; the servers'
///          cable has none, as a switch has a port for each worker.
///          Loss is a classifier of four BPF instructions at the receiving side of both ends of
///          each worker's cable, so it meets every system alike; it sees what crosses the cable,
///          therefore it is offered only where offloads are off and that is real packets.
/// Threads: One.
/// Errors:  Values. Not root, or no iproute2: a line that says so. What was made so far goes away.
/// Clean-up: In the destructor; what a killed race has left is removed by the next one, which knows
///          it by the process id in the name.
/// Tests:   tests/bench/race/network_test.cc
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tributary::race {

/// One kind of network, by its name in results.
struct NetKind {
  const char* name;
  bool namespaces;     ///< Else the loopback interface.
  uint32_t mtu_bytes;  ///< Of the cables.
  uint32_t mbit;       ///< Of a worker's cable, each way; 0: as fast as it goes.
  bool offloads;       ///< Segments of up to 64 KiB may cross a cable whole.
  bool shared_memory;  ///< No network at all: for systems that have such a transport.
  const char* text;    ///< For people.

  [[nodiscard]] bool may_lose() const { return namespaces && !offloads; }
};

/// All kinds there are.
[[nodiscard]] std::span<const NetKind> net_kinds();
/// @return null if there is none of that name.
[[nodiscard]] const NetKind* find_net_kind(std::string_view name);

class RaceNetwork {
 public:
  /// Makes the network for up to `workers` workers.
  static Result<RaceNetwork> make(const NetKind& kind, uint32_t workers);
  RaceNetwork(RaceNetwork&& other) noexcept;
  RaceNetwork& operator=(RaceNetwork&&) = delete;
  ~RaceNetwork();

  [[nodiscard]] const NetKind& kind() const { return *kind_; }
  /// Loses packets on every worker's cable with this probability each way. Only if may_lose().
  Result<void> set_loss(double probability);

  /// The words to put before a command so that it runs at a worker's, or at the servers'.
  [[nodiscard]] std::vector<std::string> at_worker(uint32_t rank) const;
  [[nodiscard]] std::vector<std::string> at_servers() const;
  /// Where servers listen, without a port.
  [[nodiscard]] std::string server_address() const;
  /// A worker's on a wire of shared memory.
  [[nodiscard]] std::string device_address(uint32_t rank) const;
  /// The worker's interface.
  [[nodiscard]] std::string interface() const;
  /// A worker's namespace is this and its rank; empty on the loopback.
  [[nodiscard]] std::string worker_prefix() const;

 private:
  RaceNetwork(const NetKind& kind, std::string prefix, uint32_t workers)
      : kind_(&kind), prefix_(std::move(prefix)), workers_(workers) {}
  Result<void> build();
  Result<void> add_cable(const std::string& node, const std::string& port, uint32_t host_number);
  Result<void> shape(const std::string& node, const std::string& port);

  const NetKind* kind_;
  std::string prefix_;  ///< Empty when there is nothing to remove.
  uint32_t workers_;
  bool classifiers_ = false;  ///< Cables are ready for set_loss().
};

/// Why namespaces cannot be made here; empty if they can.
[[nodiscard]] std::string namespaces_refusal();

/// Removes the namespaces of races whose process is gone. @return how many.
uint32_t remove_stale_namespaces();

}  // namespace tributary::race
