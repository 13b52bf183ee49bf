// SPDX-License-Identifier: Apache-2.0
/// @file
/// The argument of `--port` for a packet program: an interface, a DPDK device, or a tunnel.
///
/// Shapes:  "INTERFACE" or "packet:INTERFACE"; "dpdk:DEVICE[,key=value]..." as in
///          io/dpdk/port_spec.h, without ip and gw; or
///          "vxlan:ADDRESS[:PORT],peer=ADDRESS[:PORT][,vni=NUMBER]". Default port: 4789; default
///          network: 0.
/// Threads: Pure functions; names of hosts are resolved.
/// Errors:  One line with the text, the fault and the allowed values.
/// Tests:   tests/io/inline/side_spec_test.cc
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "base/result.h"
#include "io/dpdk/port_spec.h"
#include "io/inline/frame_socket.h"
#include "io/inline/vxlan_socket.h"

namespace tributary::io {

inline constexpr std::string_view kVxlanPrefix = "vxlan:";

struct InlineSideSpec {
  std::string text;  ///< As written, for messages.
  std::variant<FrameSocket::Config, VxlanConfig, DpdkDeviceSpec> config;

  /// Returns the interface; empty for other sides.
  [[nodiscard]] std::string interface() const;
  /// Returns the interface, or the text of another side.
  [[nodiscard]] std::string place() const { return interface().empty() ? text : interface(); }
  [[nodiscard]] bool is_tunnel() const { return std::holds_alternative<VxlanConfig>(config); }
  /// Returns the DPDK device; null for other sides.
  [[nodiscard]] const DpdkDeviceSpec* dpdk() const { return std::get_if<DpdkDeviceSpec>(&config); }
};

[[nodiscard]] Result<InlineSideSpec> parse_inline_side(std::string_view text);

/// Tells whether two sides would take the same frames. open_dpdk_sides() compares DPDK devices.
[[nodiscard]] bool is_same_side(const InlineSideSpec& a, const InlineSideSpec& b);

}  // namespace tributary::io
