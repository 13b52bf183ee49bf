// SPDX-License-Identifier: Apache-2.0
/// @file
/// What a person writes behind `--port`: a device for DPDK, and how this port appears on it.
///
/// Shapes:  "dpdk:DEVICE[,key=value]...". DEVICE is a PCI address (0000:01:00.0 or 01:00.0) or a
///          virtual driver with or without its net_ (vhost, virtio_user, memif, af_packet, af_xdp,
///          tap, ring, null), a number behind it if one is wanted. The keys of kDpdkKeys are this
///          program's; all others go to the driver as they are.
/// Units:   Bytes.
/// Threads: Pure functions; nothing here needs DPDK.
/// Errors:  One line with the text, what is wrong and what is allowed.
/// Tests:   tests/io/dpdk/port_spec_test.cc
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/endpoint.h"
#include "base/result.h"

namespace tributary::io {

/// What a port's text begins with to be one of DPDK's.
inline constexpr std::string_view kDpdkPrefix = "dpdk:";

/// Largest and least MTU of a device. Largest: what jumbo Ethernet commonly means; least: RFC 8200.
inline constexpr uint32_t kDpdkMtuMax = 9000;
inline constexpr uint32_t kDpdkMtuMin = 1280;
/// For a network card unless told otherwise, as every Ethernet has it.
inline constexpr uint32_t kDpdkMtuEthernet = 1500;
/// Largest frame that net_af_xdp is known to pass (measured: larger ones vanish in silence), less
/// the Ethernet header.
inline constexpr uint32_t kDpdkMtuAfXdp = 3400 - 14;

enum class HugepageUse : uint8_t { kAuto, kOn, kOff };

struct DpdkDeviceSpec {
  std::string text;       ///< As written, for messages.
  std::string driver;     ///< "net_vhost"; empty for a PCI device.
  std::string name;       ///< "net_vhost0" or "0000:01:00.0"; a driver's number may be left open.
  std::string arguments;  ///< For the driver: "iface=/tmp/a,queues=1".
  uint32_t mtu = 0;       ///< 0: what the device has, see default_mtu().
  uint32_t mbufs = 0;     ///< Receive buffers; 0: as many as its queues need.

  // The same for all devices of a port; set in one of them at least.
  std::optional<Endpoint> address;  ///< Port unset.
  uint32_t prefix_bits = 0;
  std::optional<Endpoint> gateway;
  HugepageUse hugepages = HugepageUse::kAuto;
  bool poll = false;  ///< Never sleep.

  [[nodiscard]] bool is_pci() const { return driver.empty(); }
  /// The value of a key that goes to the driver; empty if it is not there.
  [[nodiscard]] std::string argument(std::string_view key) const;
};

/// The socket's path of a driver that has one, else empty.
[[nodiscard]] std::string dpdk_socket_path(const DpdkDeviceSpec& spec);

/// @param text With its "dpdk:".
[[nodiscard]] Result<DpdkDeviceSpec> parse_dpdk_device(std::string_view text);

/// The devices of one port: numbers the drivers that have none, and says what is the same for all.
/// Refuses two addresses, none, and a device, a socket or an interface twice.
struct DpdkPortSpec {
  std::vector<DpdkDeviceSpec> devices;
  Endpoint address;
  uint32_t prefix_bits = 0;
  std::optional<Endpoint> gateway;
  HugepageUse hugepages = HugepageUse::kAuto;
  bool poll = false;
};
[[nodiscard]] Result<DpdkPortSpec> join_dpdk_devices(std::vector<DpdkDeviceSpec> devices);

}  // namespace tributary::io
