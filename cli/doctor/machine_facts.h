// SPDX-License-Identifier: Apache-2.0
/// @file
/// The facts about this machine that `tributary doctor` judges (cli/doctor/doctor.h). Gathering and
/// judging are separate, so that tests can judge made-up machines.
///
/// Units:   Sizes in bytes.
/// Threads: One.
/// Errors:  A fact that cannot be read is absent; nothing here fails.
/// Tests:   tests/cli/doctor/machine_facts_test.cc
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace tributary::cli {

struct InterfaceFacts {
  std::string name;
  uint32_t mtu_bytes = 0;
  bool up = false;
  bool loopback = false;
  std::optional<uint64_t> mbit = {};  ///< Rate of the link; absent without a cable.
};

struct MachineFacts {
  std::vector<InterfaceFacts> interfaces;  ///< Ascending by name.

  // Limits of socket buffers, and whether this user may exceed them (CAP_NET_ADMIN).
  std::optional<uint64_t> receive_buffer_bytes_max;
  std::optional<uint64_t> send_buffer_bytes_max;
  bool may_pass_buffer_limits = false;

  uint32_t cores_online = 0;
  uint32_t cores_allowed = 0;             ///< By this process's CPU affinity.
  std::optional<double> cpu_quota_cores;  ///< CPU limit of the control group; absent without one.
  bool has_avx2 = false;
  bool has_avx512 = false;  ///< AVX-512 F and BW.

  std::optional<uint64_t> hugepages_free;
  std::optional<uint64_t> memlock_bytes_max;  ///< Absent without a limit.

  std::string kernel_release;  ///< "6.1.0-18-amd64"; empty if unknown.
  std::string clock_source;    ///< "tsc"; empty if unknown.

  bool has_udp_gso = false;  ///< UDP_SEGMENT: one call sends many packets.
  bool has_udp_gro = false;  ///< UDP_GRO: one call receives many packets.

  std::string socket_refusal;         ///< Why no UDP socket can be opened; empty if one can.
  std::string packet_socket_refusal;  ///< Likewise for packet sockets (AF_PACKET).
  uint16_t port = 0;                  ///< The port that was tried.
  std::string port_refusal;           ///< Reason why it cannot be bound; empty if it can.
};

/// Gathers the facts. Reads files below `root`, which is "/" except in tests. Opens sockets and
/// closes them at once, one of them bound to `port` on all addresses.
[[nodiscard]] MachineFacts gather_facts(uint16_t port, const std::filesystem::path& root = "/");

}  // namespace tributary::cli
