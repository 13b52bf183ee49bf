// SPDX-License-Identifier: Apache-2.0
/// @file
/// The settings of the traffic generator, with their ranges and defaults.
///
/// Units:   Rates per second as decimal numbers; times as Durations from the first instant.
/// Errors:  check() returns one line with the setting, its value and the allowed values.
/// Tests:   tests/traffic/config_test.cc
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "base/time.h"
#include "traffic/labels.h"

namespace tributary::traffic {

inline constexpr uint32_t kFlowsMax = 10'000'000;
inline constexpr uint64_t kPacketsMax = 100'000'000'000;
inline constexpr double kRateMax = 1e9;            ///< Packets, or flows, per second.
inline constexpr double kChurnPerPacketMax = 100;  ///< Flows that end, for each background packet.
inline constexpr double kZipfMax = 5.0;
inline constexpr double kSecondsMax = 1e6;
inline constexpr uint32_t kPulseMsMax = 3'600'000;
inline constexpr uint32_t kFlashCrowdSourcesLimit = 1'000'000;
inline constexpr uint32_t kFloodSourcesLimit = 10'000'000;
static_assert(kFloodSourcesLimit <= kFloodSourcesMax);
static_assert(kFlashCrowdSourcesLimit <= kFlashCrowdSourcesMax);

/// Innocent traffic: long-lived flows of clients to servers.
struct BackgroundConfig {
  uint32_t flows = 10'000;  ///< In progress at any time, 1 to kFlowsMax.
  double zipf = 1.1;        ///< Exponent of the flows' sizes, 0 to kZipfMax.
  double rate = 100'000;    ///< Packets per second, 1 to kRateMax.
  double churn = 100;       ///< Flows that end, and begin, per second, 0 to kRateMax, and up to
                            ///< kChurnPerPacketMax * rate.
  uint32_t servers = 256;   ///< 1 to kServersMax.
  uint32_t ipv6_percent = 20;
  uint32_t udp_percent = 30;
};

enum class FloodKind : uint8_t {
  kSyn,            ///< TCP SYNs from spoofed sources to port 443.
  kAmplification,  ///< UDP packets of 1,500 bytes from port 53 of reflectors.
  kPulse,          ///< The SYN flood in pulses.
};
/// Returns "syn", "amplification" or "pulse".
[[nodiscard]] const char* to_string(FloodKind kind);
/// The inverse of to_string().
[[nodiscard]] std::optional<FloodKind> parse_flood_kind(std::string_view name);

/// An attack on one server.
struct FloodConfig {
  FloodKind kind = FloodKind::kSyn;
  double rate = 1'000'000;  ///< Packets per second, 1 to kRateMax; of a pulse: while it is on.
  Duration start = seconds(1);
  Duration length = seconds(10);  ///< Above 0.
  uint32_t sources = 1'000'000;   ///< 1 to kFloodSourcesLimit.
  Duration pulse_on = milliseconds(500);
  Duration pulse_off = milliseconds(500);
};

/// Clients that open a connection to one server at nearly the same time.
struct FlashCrowdConfig {
  uint32_t sources = 10'000;  ///< 1 to kFlashCrowdSourcesLimit; one connection each.
  Duration start = seconds(1);
  Duration spread = seconds(1);  ///< The connections begin within about this time; above 0.
};

struct Config {
  uint64_t seed = 1;
  uint64_t packets = 1'000'000;  ///< Packets of all classes, 1 to kPacketsMax.
  Duration length;               ///< Ends the traffic if the packets do not; 0: no limit.
  BackgroundConfig background;
  std::optional<FloodConfig> flood;
  std::optional<FlashCrowdConfig> flash_crowd;
};

/// Index of the server that a flood attacks, and of the one that a flash crowd visits: not the same
/// one, unless there is only one.
inline constexpr uint32_t kFloodServer = 0;
[[nodiscard]] constexpr uint32_t flash_crowd_server(const BackgroundConfig& background) {
  return background.servers > 1 ? 1 : 0;
}

/// Refuses values out of range.
[[nodiscard]] Result<void> check(const Config& config);

}  // namespace tributary::traffic
