// SPDX-License-Identifier: Apache-2.0
#include "io/devices/device_port.h"

#include <fmt/format.h>

#include "base/assert.h"
#include "io/dpdk/open_dpdk_port.h"
#include "io/frames/link_inspect.h"
#include "io/packet/packet_port.h"
#include "io/udp/socket_address.h"

namespace tributary::io {
namespace {

Result<void> check_local(const Endpoint& local, const Endpoint& device) {
  if (is_wildcard(local) || same_address(local, device)) return {};
  return failure(
      fmt::format("--listen {}: is not the address of --port; allowed: 0.0.0.0:{}, or the "
                  "device's ip",
                  local.to_string(), local.port));
}

Result<OpenedDevicePort> open_packet(const DevicePortConfig& config) {
  if (const auto good = check_local(config.local, *config.spec.packet->address); !good) {
    return tl::unexpected(good.error());
  }
  auto port = PacketPort::open({.spec = *config.spec.packet,
                                .udp_port = config.local.port,
                                .queue_count = config.queue_count,
                                .peer = config.peer,
                                .lax_checksums = config.lax_checksums});
  if (!port) return failure_in("--port ", port.error());
  OpenedDevicePort opened;
  opened.warnings = (*port)->warnings();
  opened.port = *std::move(port);
  return opened;
}

Result<OpenedDevicePort> open_dpdk(const DevicePortConfig& config) {
  auto spec = join_dpdk_devices(config.spec.dpdk);
  if (!spec) return failure_in("--port: ", spec.error());
  if (const auto good = check_local(config.local, spec->address); !good) {
    return tl::unexpected(good.error());
  }
  auto opened = open_dpdk_port({.spec = *std::move(spec),
                                .udp_port = config.local.port,
                                .queue_count = config.queue_count,
                                .peer = config.peer,
                                .lax_checksums = config.lax_checksums});
  if (!opened) return failure_in("--port: ", opened.error());
  return OpenedDevicePort{.port = std::move(opened->port), .warnings = std::move(opened->warnings)};
}

}  // namespace

Result<void> add_device(std::string_view text, DevicePortSpec& spec) {
  if (text.starts_with(kPacketPrefix)) {
    auto packet = parse_packet_port(text);
    if (!packet) return failure_in("--port ", packet.error());
    if (!spec.empty()) {
      return failure(fmt::format("--port '{}': a packet socket is a port's only device", text));
    }
    spec.packet = *std::move(packet);
    return {};
  }
  if (!text.starts_with(kDpdkPrefix)) {
    return failure(fmt::format("--port '{}': is not a port; allowed: {}", text, kDevicePortShapes));
  }
  auto device = parse_dpdk_device(text);
  if (!device) return failure_in("--port ", device.error());
  if (spec.packet) {
    return failure(fmt::format("--port '{}': a packet socket is a port's only device", text));
  }
  spec.dpdk.push_back(*std::move(device));
  return {};
}

Result<OpenedDevicePort> open_device_port(const DevicePortConfig& config) {
  TRIB_ASSERT(!config.spec.empty());
  return config.spec.packet ? open_packet(config) : open_dpdk(config);
}

}  // namespace tributary::io
