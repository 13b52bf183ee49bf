// SPDX-License-Identifier: Apache-2.0
/// @file
/// The timing of the Shared Memory System's banks: which read-modify-write (RMW) engine serves an
/// address, and when that engine is done with a request (Trio paper §2.3).
///
/// Model:   An engine serves requests whole, one at a time, in arrival order. Reads, writes and RMW
///          operations take a cycle for each 8 bytes, a 32-bit add takes two cycles. Not modelled
///          here: the memory's own latency and the crossbar (the modelled machine adds them), and
///          the data (memory/rmw.h and memory/lanes.h change it).
/// Units:   Sizes in bytes, service in whole cycles of the configured clock.
/// Threads: Owned by one thread, like the virtual time it is asked with.
/// Errors:  A program chooses address and size, so a bad request is refused with a status, costs
///          nothing and is counted. Going back in time is a bug.
/// Memory:  All of it is taken in the constructor.
/// Tests:   tests/memory/rmw_bank_test.cc
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "memory/shared_memory.h"

namespace tributary::memory {

/// Bytes that an engine takes in one cycle. Source: Trio paper §2.3.
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
/// The paper's sum: 12 engines at 1 GHz, 2 cycles an add, are 6 billion adds a second.
static_assert(kRmwEngineCount * (seconds(1).ticks() / kRmwClockPeriod.ticks()) / kCyclesPerAdd32 ==
              6'000'000'000);

/// Consecutive bytes that one engine serves before the next one's turn. Assumed: the paper says
/// only "a range of memory locations"; the largest request is the smallest unit that leaves every
/// aligned request whole, and so spreads a payload's loop over all engines.
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
  kCrossesEngine,  ///< The bytes belong to two engines: the sender must split it.
};

struct RmwRequest {
  RmwKind kind = RmwKind::kRead;
  Address address;
  uint32_t size_bytes = 0;
};

struct RmwReply {
  RmwStatus status = RmwStatus::kOk;
  Instant done_at;  ///< When the engine has served it; the arrival if it is refused.
};

/// Cycles that an engine works on a request of an allowed size.
[[nodiscard]] constexpr uint32_t service_cycles(RmwKind kind, uint32_t size_bytes) {
  if (kind == RmwKind::kAdd) {
    return size_bytes / static_cast<uint32_t>(sizeof(int32_t)) * kCyclesPerAdd32;
  }
  return (size_bytes + kRmwBytesPerCycle - 1) / kRmwBytesPerCycle;
}
static_assert(service_cycles(RmwKind::kRead, 64) == 8 && service_cycles(RmwKind::kAdd, 64) == 32);

/// What is wrong with a request, if anything.
[[nodiscard]] RmwStatus check(const RmwRequest& request);

/// One bank with its engine.
class RmwBank {
 public:
  /// Fields are written by serve() only. They count what was served, but for `refused`.
  struct Counters {
    uint64_t requests = 0;
    uint64_t bytes = 0;
    uint64_t refused = 0;
    Duration busy;    ///< The engine worked.
    Duration waited;  ///< Requests stood behind others, summed over the requests.
  };

  /// `clock_period` must be positive.
  explicit RmwBank(Duration clock_period);

  /// Serves one request as soon as those before it are done.
  ///
  /// @param arrived_at Not earlier than the previous call's.
  [[nodiscard]] RmwReply serve(Instant arrived_at, const RmwRequest& request);

  /// The engine is free from here on.
  [[nodiscard]] Instant busy_until() const { return busy_until_; }
  [[nodiscard]] const Counters& counters() const { return counters_; }

 private:
  Duration clock_period_;
  Instant busy_until_;
  Instant arrived_at_last_;  ///< Checks the arrival order.
  Counters counters_;
};

/// All banks, with the map from addresses to them.
class RmwBanks {
 public:
  struct Config {
    uint32_t engine_count = kRmwEngineCount;
    Duration clock_period = kRmwClockPeriod;
  };

  /// Refuses no engines, more than 65536, and a clock period that is not positive.
  [[nodiscard]] static Result<RmwBanks> create(const Config& config);

  /// Which bank serves an address: units of kInterleaveBytes in turn, over both ranges.
  [[nodiscard]] uint32_t engine_of(Address address) const {
    return static_cast<uint32_t>(address.value() / kInterleaveBytes % banks_.size());
  }

  /// RmwBank::serve() of the bank that has the address. Arrivals must be in order at each bank.
  [[nodiscard]] RmwReply serve(Instant arrived_at, const RmwRequest& request) {
    return banks_[engine_of(request.address)].serve(arrived_at, request);
  }

  [[nodiscard]] uint32_t engine_count() const { return static_cast<uint32_t>(banks_.size()); }
  [[nodiscard]] const RmwBank& bank(uint32_t index) const { return banks_[index]; }
  /// The sum over all banks.
  [[nodiscard]] RmwBank::Counters counters() const;

 private:
  explicit RmwBanks(const Config& config)
      : banks_(config.engine_count, RmwBank(config.clock_period)) {}

  std::vector<RmwBank> banks_;
};

}  // namespace tributary::memory
