// SPDX-License-Identifier: Apache-2.0
/// @file
/// A SwitchmlProtocol with a simulated switch: the test parses the packets that it sends and writes
/// the packets that it receives.
///
/// Threads: One. The test advances the time.
/// Tests:   used by tests/host/switchml/switchml_protocol_test.cc, switchml_walk_test.cc
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "host/switchml/switchml_protocol.h"

namespace tributary::testing {

using host::Outgoing;
using host::SwitchmlConfig;
using host::SwitchmlProtocol;
using wire::SwitchmlMessage;

inline const Endpoint kSwitch = Endpoint::ipv4(0x0a0000fe, wire::kSwitchmlPort);

inline SwitchmlConfig small_config(uint32_t pool = 2, uint32_t world = 2) {
  SwitchmlConfig config;
  config.server = kSwitch;
  config.world = world;
  config.elements = 64;
  config.pool = pool;
  config.deadline = seconds(1);
  return config;
}

/// A worker, its clock, and the messages that it sends.
class SwitchmlWorker {
 public:
  explicit SwitchmlWorker(const SwitchmlConfig& config) : protocol(config) {}

  /// Returns all messages that it has ready to send.
  std::vector<SwitchmlMessage> sent() {
    protocol.on_time(now);
    std::vector<SwitchmlMessage> messages;
    std::vector<std::byte> bytes(protocol.packet_bytes_max());
    while (true) {
      const Outgoing packet = protocol.next_packet(bytes, now);
      if (packet.size_bytes == 0) return messages;
      EXPECT_EQ(packet.to, kSwitch);
      const auto message = wire::parse_switchml(std::span(bytes).first(packet.stored_bytes));
      if (message) messages.push_back(*message);
    }
  }
  std::optional<Duration> hear(const SwitchmlMessage& message) {
    const auto bytes = wire::switchml_payload(message);
    return hear(bytes);
  }
  std::optional<Duration> hear(const std::vector<std::byte>& bytes) {
    return protocol.on_packet(
        {.from = kSwitch, .stored = bytes, .size_bytes = static_cast<uint32_t>(bytes.size())}, now);
  }
  void after(Duration time) { now = now + time; }

  SwitchmlProtocol protocol;
  Instant now{milliseconds(5)};
};

}  // namespace tributary::testing
