// SPDX-License-Identifier: Apache-2.0
/// @file
/// The refusals of machines on which no aggregator runs (ICMP port unreachable).
///
/// Model:   A machine sends a host at most six refusals at once, and one a second after that.
///          Source: Linux, net/ipv4/icmp.c and inet_peer_xrlim_allow() with icmp_ratelimit = 1000
///          ms.
/// Threads: One.
/// Errors:  None.
/// Tests:   tests/lab/faults/refusals_test.cc
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "base/endpoint.h"
#include "base/time.h"

namespace tributary::lab {

class Refusals {
 public:
  static constexpr int64_t kBurst = 6;
  static constexpr Duration kEvery = seconds(1);

  void begin(uint32_t aggregator) { refusing_.insert(aggregator); }
  void end(uint32_t aggregator) { refusing_.erase(aggregator); }
  /// Returns whether the aggregator's machine answers a host's packet by a refusal.
  [[nodiscard]] bool take(uint32_t aggregator, const Endpoint& host, Instant now) {
    if (!refusing_.contains(aggregator)) return false;
    const auto [credit, is_new] =
        credits_.try_emplace({aggregator, host.address}, Credit{kEvery * kBurst, now});
    Credit& of = credit->second;
    of.time = std::min(of.time + (now - of.at), kEvery * kBurst);
    of.at = now;
    if (of.time < kEvery) return false;
    of.time = of.time - kEvery;
    return true;
  }

 private:
  /// A refusal costs kEvery of the time that has passed.
  struct Credit {
    Duration time;
    Instant at;
  };
  std::set<uint32_t> refusing_;
  std::map<std::pair<uint32_t, std::array<uint8_t, 16>>, Credit> credits_;
};

}  // namespace tributary::lab
