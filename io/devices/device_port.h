// SPDX-License-Identifier: Apache-2.0
/// @file
/// Opens the port that `--port` names: DPDK devices, or a packet socket on an interface. Both move
/// whole frames and answer ARP for an address of their own.
///
/// Threads: One, at the start.
/// Errors:  One line: the text, the fault and the allowed values, or the command to fix it.
/// Tests:   tests/io/devices/device_port_test.cc, tests/system/packet_test.cc
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/port.h"
#include "io/dpdk/port_spec.h"
#include "io/packet/packet_spec.h"

namespace tributary::io {

/// The shapes of a `--port` text, for messages and help.
inline constexpr std::string_view kDevicePortShapes =
    "dpdk:DEVICE[,key=value]... or packet:INTERFACE,ip=ADDRESS/BITS[,key=value]...";

/// The devices of one port: any number of DPDK devices, or one packet socket.
struct DevicePortSpec {
  std::vector<DpdkDeviceSpec> dpdk;
  std::optional<PacketPortSpec> packet;

  [[nodiscard]] bool empty() const { return dpdk.empty() && !packet; }
  /// Returns the number of devices, each with its own MAC address.
  [[nodiscard]] size_t size() const { return dpdk.size() + (packet ? 1 : 0); }
};

/// Parses a `--port` text and adds its device. Refuses a second device next to a packet socket.
Result<void> add_device(std::string_view text, DevicePortSpec& spec);

struct DevicePortConfig {
  DevicePortSpec spec;  ///< Not empty.
  /// The UDP port, not 0, and the expected address: the port's own, or a wildcard.
  Endpoint local;
  uint32_t queue_count = 1;
  std::optional<Endpoint> peer = {};  ///< A worker's aggregator, the only accepted sender.
  bool lax_checksums = false;         ///< See FrameLinkConfig.
};

struct OpenedDevicePort {
  std::unique_ptr<engine::Port> port;
  std::vector<std::string> warnings;  ///< One sentence each, with the command to fix it.
};

[[nodiscard]] Result<OpenedDevicePort> open_device_port(const DevicePortConfig& config);

}  // namespace tributary::io
