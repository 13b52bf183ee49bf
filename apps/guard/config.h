// SPDX-License-Identifier: Apache-2.0
/// @file
/// The settings of the guard: bandwidths of each level and packet kind, times, actions and sizes.
///
/// Model:   Juniper's suspicious control flow detection (SCFD). Its times and the bandwidths of its
///          three levels (subscriber, logical interface, physical interface) are the defaults here.
/// Units:   Bandwidths in packets per second (pps), as SCFD states them.
/// Errors:  check() returns one line with the setting, its value and the allowed values.
/// Tests:   tests/apps/guard/config_test.cc
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "apps/guard/packet_facts.h"
#include "base/result.h"
#include "base/time.h"

namespace tributary::guard {

/// The levels at which flows are aggregated, narrowest first. A flow is the traffic of one packet
/// kind to one destination from:
enum class Level : uint8_t {
  kSource,       ///< one address (IPv6: one /64), like SCFD's subscriber;
  kNetwork,      ///< one /24 (IPv6: /48), like SCFD's logical interface;
  kDestination,  ///< everywhere, like SCFD's physical interface.
};
inline constexpr uint32_t kLevelCount = 3;
/// The levels whose flows have records only while their destination is violated.
inline constexpr std::array kSuspectLevels{Level::kSource, Level::kNetwork};

/// Treatment of a culprit's packets.
enum class Action : uint8_t {
  kDrop,
  kPolice,  ///< Forward up to the flow's bandwidth, drop the rest.
  kKeep,    ///< Forward, report only.
};

/// Return "source" and "drop" and so on.
[[nodiscard]] const char* to_string(Level level);
[[nodiscard]] const char* to_string(Action action);

struct LevelConfig {
  std::array<uint32_t, kKindCount> pps{};  ///< Bandwidth by PacketKind, 1 to kPpsMax.
  Action action = Action::kDrop;
};

/// Sources that are never judged.
struct AllowedPrefix {
  Address address{};
  uint32_t bits = 128;  ///< Prefix length over the 16-byte address: 120 for an IPv4 /24.
};

inline constexpr uint32_t kPpsMax = 1'000'000'000;
inline constexpr uint32_t kAllowedPrefixesMax = 64;
inline constexpr uint32_t kRecordsMax = 1U << 24;
inline constexpr uint32_t kCulpritsMax = 65'536;

/// Factor for TCP segments after the SYN, which congestion control limits. Source: assumed; SCFD
/// polices control traffic only.
inline constexpr uint32_t kTcpFactor = 10;

struct GuardConfig {
  /// Indexed by Level. Source: SCFD's default bandwidths 100, 200 and 20,000 pps.
  std::array<LevelConfig, kLevelCount> levels{{
      {.pps = {100, 100 * kTcpFactor, 100, 100, 100}},
      {.pps = {200, 200 * kTcpFactor, 200, 200, 200}},
      {.pps = {20'000, 20'000 * kTcpFactor, 20'000, 20'000, 20'000}},
  }};
  Duration detect_time = seconds(3);     ///< flow-detect-time, 1 to 60 s.
  Duration recover_time = seconds(60);   ///< flow-recover-time, 1 to 3,600 s.
  Duration timeout_time = seconds(300);  ///< flow-timeout-time, 1 to 7,200 s.
  bool timeout_active = false;  ///< timeout-active-flows: release culprits at timeout_time.
  bool dry_run = false;         ///< Forward everything, and count what would be dropped.

  Duration timer_period =
      milliseconds(250);                 ///< Every record is judged once a period, 10 ms to 1 s.
  uint32_t timer_threads = 10;           ///< 1 to 1,000.
  uint32_t destinations_max = 16'384;    ///< Records, 64 to kRecordsMax.
  uint32_t suspects_max = 65'536;        ///< Records, 64 to kRecordsMax.
  uint32_t report_max = 1'024;           ///< Culprits remembered, 1 to kCulpritsMax.
  uint32_t handshakes_log2 = 20;         ///< Open handshakes, 10 to 28.
  Duration handshake_time = seconds(3);  ///< Longest handshake, 10 ms to 60 s.
  uint32_t known_bits_log2 = 23;         ///< Bits of the filter of known sources, 16 to 34.
  Duration known_time = seconds(60);     ///< Silence that forgets a source, 1 to 3,600 s.
  /// A source becomes known if the traffic stayed calm this long after its first packet. A flood
  /// stops being calm earlier. 10 ms to 60 s. Source: assumed.
  Duration settle_time = milliseconds(250);
  std::vector<AllowedPrefix> allowed;  ///< At most kAllowedPrefixesMax.
  uint64_t hash_seed = 0;  ///< Live: random, so that senders cannot aim at one place of a table.

  [[nodiscard]] uint32_t pps(Level level, PacketKind kind) const {
    return levels[static_cast<size_t>(level)].pps[static_cast<size_t>(kind)];
  }
  [[nodiscard]] Action action(Level level) const {
    return levels[static_cast<size_t>(level)].action;
  }
};

/// Refuses values out of range.
[[nodiscard]] Result<void> check(const GuardConfig& config);

/// Parses prefixes joined by +, as in "10.0.0.0/8+fd00::/8".
[[nodiscard]] Result<std::vector<AllowedPrefix>> parse_allowed(std::string_view text);

/// Returns whether a source is in the list. Prefixes of IPv4 match packets of IPv4 only, and those
/// of IPv6 packets of IPv6 only. @param ip_version 4 or 6.
[[nodiscard]] bool is_allowed(const GuardConfig& config, const Address& source, uint8_t ip_version);

}  // namespace tributary::guard
