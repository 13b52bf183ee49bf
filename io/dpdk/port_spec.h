// SPDX-License-Identifier: Apache-2.0
/// @file
/// The argument of `--port`: a DPDK device, and how this port appears on it.
///
/// Shapes:  "dpdk:DEVICE[,key=value]...". DEVICE is a PCI address (0000:01:00.0 or 01:00.0) or a
///          virtual driver (vhost, virtio_user, memif, af_packet, af_xdp, tap, ring, null), with or
///          without the prefix net_ and a number. This program reads the keys of kKeys in
///          port_spec.cc; all other keys go to the driver unchanged.
/// Units:   Bytes.
/// Threads: Pure functions; nothing here needs DPDK.
/// Errors:  One line with the text, the fault and the allowed values.
/// Tests:   tests/io/dpdk/port_spec_test.cc
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/endpoint.h"
#include "base/result.h"
#include "io/frames/port_keys.h"

namespace tributary::io {

/// The prefix of a `--port` text for DPDK.
inline constexpr std::string_view kDpdkPrefix = "dpdk:";

/// Limits on a device's MTU. Largest: the usual value for jumbo Ethernet. Smallest: RFC 8200.
inline constexpr uint32_t kDpdkMtuMax = 9000;
inline constexpr uint32_t kDpdkMtuMin = 1280;
/// Default for a network card: the MTU of every Ethernet.
inline constexpr uint32_t kDpdkMtuEthernet = 1500;
/// Largest frame that net_af_xdp is known to pass, without the Ethernet header. Measured: larger
/// frames are lost without an error.
inline constexpr uint32_t kDpdkMtuAfXdp = 3400 - 14;

enum class HugepageUse : uint8_t { kAuto, kOn, kOff };

/// The address (PortAddress), hugepages and poll are the same for all devices of a port; at least
/// one device must set the address.
struct DpdkDeviceSpec : PortAddress {
  std::string text;       ///< As written, for messages.
  std::string driver;     ///< "net_vhost"; empty for a PCI device.
  std::string name;       ///< "net_vhost0" or "0000:01:00.0"; a driver's number may be missing.
  std::string arguments;  ///< For the driver: "iface=/tmp/a,queues=1".
  uint32_t mtu = 0;       ///< 0 for the device's own MTU; see dpdk_mtu().
  uint32_t mbufs = 0;     ///< Receive buffers; 0 for as many as the queues need.

  HugepageUse hugepages = HugepageUse::kAuto;
  bool poll = false;  ///< True to poll without ever sleeping.

  [[nodiscard]] bool is_pci() const { return driver.empty(); }
  /// Returns the value of a key that goes to the driver; empty if the key is missing.
  [[nodiscard]] std::string argument(std::string_view key) const;
};

/// Returns the driver's socket path; empty if the driver has none.
[[nodiscard]] std::string dpdk_socket_path(const DpdkDeviceSpec& spec);

/// Parses the argument of `--port`. @param text Starts with "dpdk:".
[[nodiscard]] Result<DpdkDeviceSpec> parse_dpdk_device(std::string_view text);

/// The devices of one port, with the settings that all of them share.
struct DpdkPortSpec {
  std::vector<DpdkDeviceSpec> devices;
  Endpoint address;
  uint32_t prefix_bits = 0;
  std::optional<Endpoint> gateway;
  HugepageUse hugepages = HugepageUse::kAuto;
  bool poll = false;
};
/// Joins the devices of a port without an address, and numbers the drivers that have no number.
/// Refuses a device, a socket or an interface that is named twice.
[[nodiscard]] Result<DpdkPortSpec> join_wire_devices(std::vector<DpdkDeviceSpec> devices);
/// Joins devices to one port, as join_wire_devices(), with their address. Refuses two addresses,
/// and none.
[[nodiscard]] Result<DpdkPortSpec> join_dpdk_devices(std::vector<DpdkDeviceSpec> devices);

}  // namespace tributary::io
