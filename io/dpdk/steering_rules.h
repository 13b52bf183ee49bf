// SPDX-License-Identifier: Apache-2.0
/// @file
/// The rules that ask a network card to steer all packets of a block to one queue, and so to one
/// core. BlockSteering lists the two kinds of rules; steer() picks one.
///
/// Threads: Pure functions.
/// Errors:  None: the answer may be BlockSteering::kNone.
/// Tests:   tests/io/dpdk/steering_rules_test.cc
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "io/udp/udp_port_config.h"

namespace tributary::io {

/// The kinds of steering.
enum class BlockSteering : uint8_t {
  /// No rules: the cores hand packets over.
  kNone,
  /// By a few bits of the payload (SteeringField), which name the engine's owner of the block.
  /// There is one rule for each value of these bits. Senders need not know.
  kByBlock,
  /// By UDP port, because most cards cannot inspect payloads. There is one rule for our UDP port
  /// and one for each port that follows. Senders that know this send the packets of a block to the
  /// port of the block's owner.
  kByPort
};

/// Steers a packet to `queue` if its UDP port is `udp_port` and (word & mask) == value. The word is
/// the payload's word of the steering field.
struct SteeringRule {
  uint16_t udp_port = 0;
  uint32_t queue = 0;
  uint32_t value = 0;
  uint32_t mask = 0;  ///< 0 to ignore the word.
};

/// Returns one rule for each value of the steering bits.
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

/// Returns one rule for each port from `udp_port` on; none if there are too few ports.
inline std::vector<SteeringRule> rules_by_port(uint16_t udp_port, uint32_t queues) {
  std::vector<SteeringRule> rules;
  if (udp_port + queues - 1 > UINT16_MAX) return rules;
  for (uint32_t queue = 0; queue < queues; queue++) {
    rules.push_back({.udp_port = static_cast<uint16_t>(udp_port + queue), .queue = queue});
  }
  return rules;
}

/// Creates the best rules that a card accepts.
/// @param make_all Creates all of the given rules or none; returns true if it created them.
template <class MakeAll>
[[nodiscard]] BlockSteering steer(uint16_t udp_port, uint32_t queues, MakeAll&& make_all) {
  if (queues < 2 || !std::has_single_bit(queues)) return BlockSteering::kNone;
  const auto by_block = rules_by_block(udp_port, queues);
  if (make_all(std::span(by_block))) return BlockSteering::kByBlock;
  const auto by_port = rules_by_port(udp_port, queues);
  return !by_port.empty() && make_all(std::span(by_port)) ? BlockSteering::kByPort
                                                          : BlockSteering::kNone;
}

}  // namespace tributary::io
