// SPDX-License-Identifier: Apache-2.0
/// @file
/// What a SwitchML worker is told, the two presets, and the sums behind them: how large a pool has
/// to be and what a block of floats is multiplied by.
///
/// Shapes:  A packet has 64 or 256 elements. A pool has `pool` slots, each with two sets.
/// Units:   Rates in bit/s, sizes in bytes on the wire, times as Duration.
/// Errors:  check() names the key, the value and what is allowed.
/// Threads: Pure functions.
/// Source:  SwitchML paper §4.5, §4.6, Appendix C; its published client for the second preset.
/// Tests:   tests/host/switchml_config_test.cc
#pragma once

#include <cstdint>
#include <string_view>

#include "base/endpoint.h"
#include "base/result.h"
#include "base/time.h"

namespace tributary::host {

/// Elements of a packet: what one pipe of a Tofino adds, and what four do. Source: SwitchML §5.
inline constexpr uint32_t kSwitchmlSmallElements = 64;
inline constexpr uint32_t kSwitchmlLargeElements = 256;

struct SwitchmlConfig {
  Endpoint server;     ///< The switch; its port is wire::kSwitchmlPort or up to 15 more.
  uint32_t rank = 0;   ///< 0 … world - 1.
  uint32_t world = 1;  ///< Workers of the session, 1 … wire::kSwitchmlWorkersMax.
  uint32_t elements = kSwitchmlLargeElements;
  uint32_t pool = 512;  ///< Slots, and so packets in flight. All workers must have the same.
  Duration timeout = milliseconds(1);  ///< Without a result so long, a packet is sent again.
  /// After so many time-outs the time-out doubles, after so many more again; 0: never.
  uint32_t timeouts_to_double = 0;
  /// The first packets of a tensor that finds the pool idle wait `pool` times as long: workers do
  /// not begin at the same instant.
  bool patient_start = false;
  /// The switch gives up slots whose workers do not come (docs/tofino.md, "Time-outs on Tofino"),
  /// as the published one does not. Packet ids are then in network byte order.
  bool switch_times_out = false;
  /// Off only in experiments on what happens without: then a lost packet ends at the deadline.
  bool repair = true;
  Duration deadline = seconds(60);  ///< Longest wait for a result.
};

enum class SwitchmlPreset : uint8_t {
  kPaper,      ///< As the paper says it.
  kPublished,  ///< As the published client's shipped configuration and code have it.
};
inline constexpr std::string_view kSwitchmlPresetNames[] = {"paper", "published"};

/// Sets what the presets differ in: pool, timeout, timeouts_to_double, patient_start.
void apply(SwitchmlPreset preset, SwitchmlConfig& config);

/// Refuses a number of elements that has no pipeline, more workers or slots than the format names,
/// a rank outside, and times that are not above 0.
[[nodiscard]] Result<void> check(const SwitchmlConfig& config);

/// Slots that keep a link full: the next power of two of BDP / b (SwitchML paper, Appendix C), at
/// most as many as a packet can name.
/// @param delay        From sending a packet to sending the next one of its slot: both ways, the
///                     switch, and both ends' processing.
/// @param packet_bytes On the wire, all headers counted; not 0.
[[nodiscard]] uint32_t switchml_pool_size(uint64_t rate_bits_per_s, Duration delay,
                                          uint32_t packet_bytes);

/// What all workers multiply the floats of a block with, where `exponent` is the largest
/// block_exponent() (host/number_format.h) of them all: (2^31 - 1) / (world * 2^exponent), as a
/// float, at most 2^127. 1 for kNoExponent: every value is zero then, where the published client
/// divides by zero. Source: SwitchML paper §4.6.
///
/// The product of a value and a scale can round to just above (2^31 - 1) / world; pack_fixed()
/// takes it down to that, a change below 2^-23 of the value.
[[nodiscard]] float switchml_scale(int8_t exponent, uint32_t world);

}  // namespace tributary::host
