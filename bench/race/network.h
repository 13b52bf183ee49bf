// SPDX-License-Identifier: Apache-2.0
/// @file
/// The networks of a race: the machine's loopback, or network namespaces, one for each worker and
/// one for the servers, joined by a bridge in another namespace. docs/benchmarks.md explains
/// shaping and loss.
///
/// Model:   PREFIX-sw holds the bridge "br" and one end of every cable ("w0" …, "s"). PREFIX-w0 …
///          and PREFIX-s hold the other ends, "eth0", with addresses 10.231.0.1 … and 10.231.0.254.
///          The machine's own network is not touched.
/// Threads: One.
/// Errors:  Values, for example if the user is not root or iproute2 is missing. The destructor
///          removes the network; the next race removes the network of a killed one.
/// Tests:   tests/bench/race/network_test.cc
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tributary::race {

/// A kind of network.
struct NetKind {
  const char* name;
  bool namespaces;     ///< Otherwise the loopback interface.
  uint32_t mtu_bytes;  ///< Of the cables.
  uint32_t mbit;       ///< Of a worker's cable, each way; 0: unlimited.
  bool offloads;       ///< Segments of up to 64 KiB cross a cable whole.
  bool shared_memory;  ///< No network, for systems with a shared-memory transport.
  const char* text;    ///< Description for people.

  /// Loss is offered only where real packets cross the cables.
  [[nodiscard]] bool may_lose() const { return namespaces && !offloads; }
};

/// Returns all kinds.
[[nodiscard]] std::span<const NetKind> net_kinds();
/// Returns the kind with this name; null if there is none.
[[nodiscard]] const NetKind* find_net_kind(std::string_view name);

class RaceNetwork {
 public:
  /// Builds the network for up to `workers` workers.
  static Result<RaceNetwork> make(const NetKind& kind, uint32_t workers);
  RaceNetwork(RaceNetwork&& other) noexcept;
  RaceNetwork& operator=(RaceNetwork&&) = delete;
  ~RaceNetwork();

  [[nodiscard]] const NetKind& kind() const { return *kind_; }
  /// Drops packets on every worker's cable with this probability, each way. The filters are at the
  /// receiving ends, so they hit all systems alike. @pre kind().may_lose().
  Result<void> set_loss(double probability);

  /// Returns the words that, put before a command, run it in a worker's or the servers' namespace.
  [[nodiscard]] std::vector<std::string> at_worker(uint32_t rank) const;
  [[nodiscard]] std::vector<std::string> at_servers() const;
  /// Returns the servers' listen address, without a port.
  [[nodiscard]] std::string server_address() const;
  /// Returns a worker's address on a shared-memory wire.
  [[nodiscard]] std::string device_address(uint32_t rank) const;
  /// Returns the name of the worker's interface.
  [[nodiscard]] std::string interface() const;
  /// Returns the prefix that, with the rank, names a worker's namespace; empty on the loopback.
  [[nodiscard]] std::string worker_prefix() const;

 private:
  RaceNetwork(const NetKind& kind, std::string prefix, uint32_t workers)
      : kind_(&kind), prefix_(std::move(prefix)), workers_(workers) {}
  Result<void> build();
  Result<void> add_cable(const std::string& node, const std::string& port, uint32_t host_number);
  /// Limits both ends of a worker's cable by token buckets. The servers' cable is not limited,
  /// because a switch has a port for each worker.
  Result<void> shape(const std::string& node, const std::string& port);

  const NetKind* kind_;
  std::string prefix_;  ///< Empty if there is nothing to remove.
  uint32_t workers_;
  bool classifiers_ = false;  ///< Cables are ready for set_loss().
};

/// Returns why namespaces cannot be made here; empty if they can.
[[nodiscard]] std::string namespaces_refusal();

/// Removes the namespaces of races whose process has ended.
/// @return how many.
uint32_t remove_stale_namespaces();

}  // namespace tributary::race
