// SPDX-License-Identifier: Apache-2.0
#include "memory/rmw_bank.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/assert.h"

namespace tributary::memory {

RmwStatus check(const RmwRequest& request) {
  const uint32_t size_bytes = request.size_bytes;
  if (size_bytes < kRequestBytesMin || size_bytes > kRequestBytesMax ||
      size_bytes % kRequestBytesMin != 0) {
    return RmwStatus::kBadSize;
  }
  const uint64_t address = request.address.value();
  if (address % kRequestBytesMin != 0) return RmwStatus::kMisaligned;
  if (address % kInterleaveBytes + size_bytes > kInterleaveBytes) return RmwStatus::kCrossesEngine;
  return RmwStatus::kOk;
}

RmwBank::RmwBank(Duration clock_period) : clock_period_(clock_period) {
  TRIB_ASSERT(clock_period > Duration());
}

RmwReply RmwBank::serve(Instant arrived_at, const RmwRequest& request) {
  TRIB_ASSERT(arrived_at >= arrived_at_last_);  // Contract: arrival order.
  arrived_at_last_ = arrived_at;

  const RmwStatus status = check(request);
  if (status != RmwStatus::kOk) [[unlikely]] {
    counters_.refused++;
    return {status, arrived_at};
  }
  // The engine takes one request at a time: wait for it, then pay per cycle.
  const Instant started_at = std::max(arrived_at, busy_until_);
  const Duration service = clock_period_ * service_cycles(request.kind, request.size_bytes);
  busy_until_ = started_at + service;

  counters_.requests++;
  counters_.bytes += request.size_bytes;
  counters_.busy += service;
  counters_.waited += started_at - arrived_at;
  return {RmwStatus::kOk, busy_until_};
}

Result<RmwBanks> RmwBanks::create(const Config& config) {
  constexpr uint32_t kEngineCountMax = 65536;
  if (config.engine_count == 0 || config.engine_count > kEngineCountMax) {
    return failure(fmt::format("the number of RMW engines is {}; allowed: 1 to {}",
                               config.engine_count, kEngineCountMax));
  }
  if (config.clock_period <= Duration()) {
    return failure(fmt::format("the RMW engines' clock period is {} ps; allowed: {} or more",
                               config.clock_period.ticks() * kPicosecondsPerTick,
                               kPicosecondsPerTick));
  }
  return RmwBanks(config);
}

RmwBank::Counters RmwBanks::counters() const {
  RmwBank::Counters sum;
  for (const RmwBank& bank : banks_) {
    sum.requests += bank.counters().requests;
    sum.bytes += bank.counters().bytes;
    sum.refused += bank.counters().refused;
    sum.busy += bank.counters().busy;
    sum.waited += bank.counters().waited;
  }
  return sum;
}

}  // namespace tributary::memory
