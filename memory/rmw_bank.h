// SPDX-License-Identifier: Apache-2.0
/// @file
/// The timing of the Shared Memory System's banks: which read-modify-write (RMW) engine serves an
/// address, and when that engine has served a request (Trio paper §2.3).
///
/// Model:   An engine serves requests whole, one at a time, in arrival order. Reads, writes and RMW
///          operations take a cycle for each 8 bytes; a 32-bit add takes two cycles. Latency and
///          the crossbar are in engine/model/; rmw.h and lanes.h change the data.
/// Units:   Sizes in bytes, service in whole cycles of the configured clock.
/// Threads: Owned by the thread that owns its virtual time. Going back in time is a bug.
/// Errors:  A bad request from a program returns a status, is counted and costs nothing.
/// Memory:  All of it is taken in the constructor.
/// Tests:   tests/memory/rmw_bank_test.cc
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "memory/shared_memory.h"

namespace tributary::memory {

/// Bytes that an engine serves in one cycle. Source: Trio paper §2.3.
inline constexpr uint32_t kRmwBytesPerCycle = 8;
/// The smallest and the largest request, in steps of the smallest. Source: Trio paper §2.3.
inline constexpr uint32_t kRequestBytesMin = 8;
inline constexpr uint32_t kRequestBytesMax = 64;
/// Cycles of one 32-bit add. Source: Trio paper §6.3, "each add operation takes two cycles".
inline constexpr uint32_t kCyclesPerAdd32 = 2;
/// Engines that Trio-ML uses. Source: Trio paper §6.3.
inline constexpr uint32_t kRmwEngineCount = 12;
/// The engines' clock. Source: Trio paper §6.3.
inline constexpr Duration kRmwClockPeriod = nanoseconds(1);
/// The paper's sum: 12 engines at 1 GHz, at 2 cycles an add, perform 6 billion adds a second.
static_assert(kRmwEngineCount * (seconds(1).ticks() / kRmwClockPeriod.ticks()) / kCyclesPerAdd32 ==
              6'000'000'000);

/// Consecutive bytes that one engine serves before the next engine's range. Assumed: the paper says
/// only "a range of memory locations". The largest request is the smallest unit that keeps every
/// aligned request whole, and so it spreads a payload's loop over all engines.
inline constexpr uint32_t kInterleaveBytes = kRequestBytesMax;

enum class RmwKind : uint8_t {
  kRead,
  kWrite,
  kAdd,    ///< A 32-bit add to each lane of the request.
  kOther,  ///< Any other RMW operation: fetch-and-ops, swap, masked write, counter, policer.
};

enum class RmwStatus : uint8_t {
  kOk,
  kBadSize,        ///< Not 8 to 64 bytes in steps of 8.
  kMisaligned,     ///< The address is not a multiple of 8.
  kCrossesEngine,  ///< The bytes belong to two engines: the sender must split the request.
};

struct RmwRequest {
  RmwKind kind = RmwKind::kRead;
  Address address;
  uint32_t size_bytes = 0;
};

struct RmwReply {
  RmwStatus status = RmwStatus::kOk;
  Instant done_at;  ///< When the engine has served it; the arrival time if refused.
};

/// Returns the cycles that an engine takes for a request of an allowed size.
[[nodiscard]] constexpr uint32_t service_cycles(RmwKind kind, uint32_t size_bytes) {
  if (kind == RmwKind::kAdd) {
    return size_bytes / static_cast<uint32_t>(sizeof(int32_t)) * kCyclesPerAdd32;
  }
  return (size_bytes + kRmwBytesPerCycle - 1) / kRmwBytesPerCycle;
}
static_assert(service_cycles(RmwKind::kRead, 64) == 8 && service_cycles(RmwKind::kAdd, 64) == 32);

/// Returns kOk or the first reason to refuse the request.
[[nodiscard]] RmwStatus check(const RmwRequest& request);

/// One bank with its engine.
class RmwBank {
 public:
  /// Written by serve() only. All but `refused` count served requests only.
  struct Counters {
    uint64_t requests = 0;
    uint64_t bytes = 0;
    uint64_t refused = 0;
    Duration busy;    ///< Time the engine worked.
    Duration waited;  ///< Time requests waited behind others, summed over the requests.
  };

  /// `clock_period` must be positive.
  explicit RmwBank(Duration clock_period);

  /// Serves one request as soon as the requests before it are done.
  ///
  /// @param arrived_at Not earlier than the previous call's.
  [[nodiscard]] RmwReply serve(Instant arrived_at, const RmwRequest& request);

  /// Returns the time from which the engine is free.
  [[nodiscard]] Instant busy_until() const { return busy_until_; }
  [[nodiscard]] const Counters& counters() const { return counters_; }

 private:
  Duration clock_period_;
  Instant busy_until_;
  Instant arrived_at_last_;  ///< Checks the arrival order.
  Counters counters_;
};

/// All banks, and the map from addresses to banks.
class RmwBanks {
 public:
  struct Config {
    uint32_t engine_count = kRmwEngineCount;
    Duration clock_period = kRmwClockPeriod;
  };

  /// Refuses an engine count outside 1 to 65536 and a clock period that is not positive.
  [[nodiscard]] static Result<RmwBanks> create(const Config& config);

  /// Returns the bank that serves an address: units of kInterleaveBytes in turn, over both ranges.
  [[nodiscard]] uint32_t engine_of(Address address) const {
    return static_cast<uint32_t>(address.value() / kInterleaveBytes % banks_.size());
  }

  /// Calls RmwBank::serve() of the address's bank. Arrivals must be in order at each bank.
  [[nodiscard]] RmwReply serve(Instant arrived_at, const RmwRequest& request) {
    return banks_[engine_of(request.address)].serve(arrived_at, request);
  }

  [[nodiscard]] uint32_t engine_count() const { return static_cast<uint32_t>(banks_.size()); }
  [[nodiscard]] const RmwBank& bank(uint32_t index) const { return banks_[index]; }
  /// Returns the sum over all banks.
  [[nodiscard]] RmwBank::Counters counters() const;

 private:
  explicit RmwBanks(const Config& config)
      : banks_(config.engine_count, RmwBank(config.clock_period)) {}

  std::vector<RmwBank> banks_;
};

}  // namespace tributary::memory
