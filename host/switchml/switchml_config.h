// SPDX-License-Identifier: Apache-2.0
/// @file
/// The configuration of a SwitchML worker: two presets, pool size, and scale of a block.
///
/// Shapes:  A packet has 64 or 256 elements. A pool has `pool` slots, each with two sets.
/// Units:   Rates in bit/s, sizes in bytes on the wire, times as Duration.
/// Errors:  check() names the key, the value and the allowed values.
/// Threads: Pure functions.
/// Source:  SwitchML paper §4.5, §4.6, Appendix C; its published client for the second preset.
/// Tests:   tests/host/switchml/switchml_config_test.cc
#pragma once

#include <cstdint>
#include <string_view>

#include "base/endpoint.h"
#include "base/result.h"
#include "base/time.h"

namespace tributary::host {

/// Elements of a packet: one Tofino pipe adds 64, four add 256. Source: SwitchML §5.
inline constexpr uint32_t kSwitchmlSmallElements = 64;
inline constexpr uint32_t kSwitchmlLargeElements = 256;

struct SwitchmlConfig {
  Endpoint server;     ///< The switch; its port is wire::kSwitchmlPort or up to 15 more.
  uint32_t rank = 0;   ///< 0 … world - 1.
  uint32_t world = 1;  ///< Workers of the session, 1 … wire::kSwitchmlWorkersMax.
  uint32_t elements = kSwitchmlLargeElements;
  uint32_t pool = 512;  ///< Slots, and so packets in flight. The same for all workers.
  Duration timeout = milliseconds(1);  ///< Retransmit a packet without a result after this.
  /// The timeout doubles each time this many timeouts have passed; 0: never.
  uint32_t timeouts_to_double = 0;
  /// If the pool was idle, the first packets of a tensor have `pool` times the timeout, because
  /// workers do not begin at the same instant.
  bool patient_start = false;
  /// The switch closes slots whose workers do not contribute (docs/tofino.md, "Timeouts on
  /// Tofino"). The published switch does not. Packet ids are then in network byte order.
  bool switch_times_out = false;
  /// Retransmit. Switch it off only in experiments without loss repair: then a lost packet ends at
  /// the deadline.
  bool repair = true;
  Duration deadline = seconds(60);  ///< Longest wait for a result.
};

enum class SwitchmlPreset : uint8_t {
  kPaper,      ///< The values of the paper.
  kPublished,  ///< The values of the published client's shipped configuration and code.
};
inline constexpr std::string_view kSwitchmlPresetNames[] = {"paper", "published"};

/// Sets pool, timeout, timeouts_to_double and patient_start to the preset's values.
void apply(SwitchmlPreset preset, SwitchmlConfig& config);

/// Refuses a number of elements without a pipeline, more workers or slots than the format can name,
/// a rank outside the world, and times that are not above 0.
[[nodiscard]] Result<void> check(const SwitchmlConfig& config);

/// Returns the number of slots that keeps a link full: the next power of two of BDP / b (SwitchML
/// paper, Appendix C), at most as many as a packet can name.
/// @param delay        Time between two packets of a slot: the link both ways, the switch, and the
///                     processing at both ends.
/// @param packet_bytes Bytes on the wire with all headers, not 0.
[[nodiscard]] uint32_t switchml_pool_size(uint64_t rate_bits_per_s, Duration delay,
                                          uint32_t packet_bytes);

/// Returns the factor by which all workers multiply the floats of a block: (2^31 - 1) /
/// (world * 2^exponent) as a float, at most 2^127. `exponent` is the largest block_exponent()
/// (host/formats/number_format.h) of all workers. For kNoExponent every value is zero, and the
/// factor is 1; the published client divides by zero there. Source: SwitchML paper §4.6.
///
/// The product of a value and a scale can round to just above (2^31 - 1) / world. pack_fixed()
/// clamps it to that, a change below 2^-23 of the value.
[[nodiscard]] double switchml_scale(int8_t exponent, uint32_t world);

}  // namespace tributary::host
