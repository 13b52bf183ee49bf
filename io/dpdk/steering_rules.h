// SPDX-License-Identifier: Apache-2.0
/// @file
/// Which packets a network card is asked to bring to which queue, so that all of a block meet on
/// one core.
///
/// Model:   By the block: the engine's owner of a block is a few bits of the payload
///          (SteeringField), and there is a rule for each value of these bits. Then senders need
///          not know. By the port, where a card cannot look into payloads, which most cannot: there
///          is a rule for our UDP port and each that follows, and senders that have been told send
///          a block's packets to its owner's port. Else the cores hand packets over.
/// Threads: Pure functions.
/// Errors:  None: Steering::kNone is an answer.
/// Tests:   tests/io/dpdk/steering_rules_test.cc
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "io/udp/udp_port_config.h"

namespace tributary::io {

enum class Steering : uint8_t { kNone, kByBlock, kByPort };

/// UDP to this port goes to this queue …
struct SteeringRule {
  uint16_t udp_port = 0;
  uint32_t queue = 0;
  /// … if (the payload's word of the steering field & mask) == value. Mask 0: whatever is in it.
  uint32_t value = 0;
  uint32_t mask = 0;
};

inline std::vector<SteeringRule> rules_by_block(uint16_t udp_port, uint32_t queues) {
  const uint32_t shift_bits = SteeringField{}.shift_bits;
  std::vector<SteeringRule> rules;
  for (uint32_t queue = 0; queue < queues; queue++) {
    rules.push_back({.udp_port = udp_port,
                     .queue = queue,
                     .value = queue << shift_bits,
                     .mask = (queues - 1) << shift_bits});
  }
  return rules;
}

/// @return none if the ports do not suffice.
inline std::vector<SteeringRule> rules_by_port(uint16_t udp_port, uint32_t queues) {
  std::vector<SteeringRule> rules;
  if (udp_port + queues - 1 > UINT16_MAX) return rules;
  for (uint32_t queue = 0; queue < queues; queue++) {
    rules.push_back({.udp_port = static_cast<uint16_t>(udp_port + queue), .queue = queue});
  }
  return rules;
}

/// Makes the rules that a card can do.
/// @param make_all Of these rules makes all or none; says whether it has.
template <class MakeAll>
[[nodiscard]] Steering steer(uint16_t udp_port, uint32_t queues, MakeAll&& make_all) {
  if (queues < 2 || !std::has_single_bit(queues)) return Steering::kNone;
  const auto by_block = rules_by_block(udp_port, queues);
  if (make_all(std::span(by_block))) return Steering::kByBlock;
  const auto by_port = rules_by_port(udp_port, queues);
  return !by_port.empty() && make_all(std::span(by_port)) ? Steering::kByPort : Steering::kNone;
}

}  // namespace tributary::io
