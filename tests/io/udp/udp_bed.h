// SPDX-License-Identifier: Apache-2.0
/// @file
/// Pairs of UDP ports on the loopback interface. There, the kernel delivers a packet during the
/// sender's call. A bounded wait() only guards against a lost packet.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "io/udp/udp_port.h"
#include "tests/io/frames/bytes.h"

namespace tributary::io {

inline const Endpoint kLoopback4 = Endpoint::ipv4(0x7f000001, 0);

inline Endpoint loopback6() {
  Endpoint endpoint;
  endpoint.address[15] = 1;
  return endpoint;
}

inline std::unique_ptr<UdpPort> open(const UdpPortConfig& config) {
  auto port = UdpPort::open(config);
  if (!port) {
    ADD_FAILURE() << port.error().text;
    return nullptr;
  }
  return std::move(*port);
}

inline bool has_ipv6() { return UdpPort::open({.local = loopback6()}).has_value(); }

struct Arrived {
  Bytes bytes;
  Endpoint source;
};

/// Receives until `count` packets have arrived, or until two seconds pass without a packet.
inline std::vector<Arrived> receive(engine::PortQueue& queue, size_t count,
                                    uint32_t burst_packets = engine::kBurstPackets) {
  std::vector<Arrived> arrived;
  std::array<engine::Packet, engine::kBurstPackets> burst;
  bool silent = false;
  while (arrived.size() < count) {
    const uint32_t some = queue.receive(std::span(burst).first(burst_packets));
    for (uint32_t i = 0; i < some; i++) arrived.push_back({copy_of(burst[i]), burst[i].source});
    if (some == 0 && silent) break;
    silent = some == 0;
    if (silent) queue.wait(seconds(2));
  }
  return arrived;
}

inline void expect_nothing(engine::PortQueue& queue) {
  std::array<engine::Packet, 4> burst;
  EXPECT_EQ(queue.receive(burst), 0U);
}

}  // namespace tributary::io
