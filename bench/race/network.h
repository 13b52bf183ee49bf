// SPDX-License-Identifier: Apache-2.0
/// @file
/// The networks of a race: the machine's loopback, or network namespaces, one for each machine,
/// joined by a bridge in another namespace. docs/benchmarks.md explains shaping and loss.
///
/// Model:   PREFIX-sw holds the bridge "br" and one end of every cable: "w0" … of the workers'
///          machines, "s0" … of the spare ones. PREFIX-w0 … and PREFIX-s0 … hold the other ends,
///          "eth0", with addresses from 10.231.0.1 up and from 10.231.0.254 down. The machine's
///          own network is not touched.
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
  uint32_t mbit;       ///< Rate of a worker's cable in Mbit/s, each way; 0: unlimited.
  bool offloads;       ///< Segments of up to 64 KiB cross a cable whole.
  bool shared_memory;  ///< No network, for systems with a shared-memory transport.
  const char* text;    ///< Description for people.
  /// Spare machines have cables like the workers', so a job has several aggregators.
  bool all_shaped = false;
  uint32_t first_spare_mbit = 0;  ///< Rate of the cable of "s0" in Mbit/s; 0: as the others.

  /// Returns the rate of a spare machine's cable, each way; 0: unlimited.
  [[nodiscard]] uint32_t spare_mbit(uint32_t index) const {
    if (!all_shaped) return 0;
    return index == 0 && first_spare_mbit > 0 ? first_spare_mbit : mbit;
  }
  /// Loss is offered only where real packets cross the cables.
  [[nodiscard]] bool may_lose() const { return namespaces && !offloads; }
};

/// Returns all kinds.
[[nodiscard]] std::span<const NetKind> net_kinds();
/// Returns the kind with this name; null if there is none.
[[nodiscard]] const NetKind* find_net_kind(std::string_view name);

/// Most spare machines of a network.
inline constexpr uint32_t kSparesMax = 8;

class RaceNetwork {
 public:
  /// Builds the network for up to `workers` workers.
  /// @param spares Spare machines, 1 … kSparesMax. The first one runs the servers of systems that
  ///   have one machine of servers.
  static Result<RaceNetwork> make(const NetKind& kind, uint32_t workers, uint32_t spares = 1);
  RaceNetwork(RaceNetwork&& other) noexcept;
  RaceNetwork& operator=(RaceNetwork&&) = delete;
  ~RaceNetwork();

  [[nodiscard]] const NetKind& kind() const { return *kind_; }
  /// Drops packets on every worker's cable with this probability, each way. The filters are at the
  /// receiving ends, so they hit all systems alike. @pre kind().may_lose().
  Result<void> set_loss(double probability);

  /// Returns the words that, put before a command, run it on a worker's or a spare machine.
  [[nodiscard]] std::vector<std::string> at_worker(uint32_t rank) const;
  [[nodiscard]] std::vector<std::string> at_spare(uint32_t index) const;
  /// Returns a spare machine's address; the loopback's if there is no other.
  [[nodiscard]] std::string spare_address(uint32_t index) const;
  /// Returns the address of a worker's machine, or of its end of a shared-memory wire.
  [[nodiscard]] std::string worker_address(uint32_t rank) const;
  /// Returns the name of the worker's interface.
  [[nodiscard]] std::string interface() const;
  /// Returns the prefix that, with the rank, names a worker's namespace; empty on the loopback.
  [[nodiscard]] std::string worker_prefix() const;

 private:
  RaceNetwork(const NetKind& kind, std::string prefix, uint32_t workers, uint32_t spares)
      : kind_(&kind), prefix_(std::move(prefix)), workers_(workers), spares_(spares) {}
  Result<void> build();
  /// Adds a machine with its cable.
  /// @param mbit Limits both ends of the cable by token buckets; 0: unlimited.
  Result<void> add_machine(const std::string& port, uint32_t host_number, uint32_t mbit);
  Result<void> shape(const std::string& port, uint32_t mbit);
  [[nodiscard]] std::vector<std::string> at(const std::string& port) const;

  const NetKind* kind_;
  std::string prefix_;  ///< Empty if there is nothing to remove.
  uint32_t workers_;
  uint32_t spares_;
  bool classifiers_ = false;  ///< Cables are ready for set_loss().
};

/// Returns why namespaces cannot be made here; empty if they can.
[[nodiscard]] std::string namespaces_refusal();

/// Removes the namespaces of races whose process has ended.
/// @return how many.
uint32_t remove_stale_namespaces();

}  // namespace tributary::race
