// SPDX-License-Identifier: Apache-2.0
// Method: hand-worked timings first, then refusals, then a random walk against a queue that
// advances cycle by cycle. Virtual time only: nothing sleeps.
#include "memory/rmw_bank.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <vector>

#include "tests/support/seed.h"

namespace tributary::memory {
namespace {

constexpr Instant ns(int64_t count) { return Instant(nanoseconds(count)); }

RmwRequest request_of(RmwKind kind, uint64_t offset_bytes, uint32_t size_bytes) {
  return {.kind = kind, .address = kSramBase + offset_bytes, .size_bytes = size_bytes};
}

RmwBanks banks_of(uint32_t engine_count) {
  return RmwBanks::create({.engine_count = engine_count, .clock_period = nanoseconds(1)}).value();
}

TEST(RmwBank, ReadsTakeOneCyclePerEightBytes) {
  RmwBank bank(nanoseconds(1));
  EXPECT_EQ(bank.serve(ns(100), request_of(RmwKind::kRead, 0, 8)).done_at, ns(101));
  EXPECT_EQ(bank.serve(ns(200), request_of(RmwKind::kWrite, 0, 64)).done_at, ns(208));
  EXPECT_EQ(bank.serve(ns(300), request_of(RmwKind::kOther, 16, 16)).done_at, ns(302));
}

TEST(RmwBank, AddsTakeTwoCyclesPerLane) {
  RmwBank bank(nanoseconds(1));
  EXPECT_EQ(bank.serve(ns(0), request_of(RmwKind::kAdd, 0, 8)).done_at, ns(4));  // 2 lanes.
  // 16 gradients, a chunk of the paper's loop: 32 cycles.
  EXPECT_EQ(bank.serve(ns(10), request_of(RmwKind::kAdd, 0, 64)).done_at, ns(42));
}

TEST(RmwBank, ServesRequestsOfOneInstantInArrivalOrder) {
  RmwBank bank(nanoseconds(2));
  // First: 16 bytes, 2 cycles of 2 ns, done at 14. Second: waits 4 ns, then 1 cycle, done at 16.
  EXPECT_EQ(bank.serve(ns(10), request_of(RmwKind::kRead, 0, 16)).done_at, ns(14));
  EXPECT_EQ(bank.serve(ns(10), request_of(RmwKind::kRead, 0, 8)).done_at, ns(16));
  // Third: the engine was idle from 16 to 20.
  EXPECT_EQ(bank.serve(ns(20), request_of(RmwKind::kRead, 0, 8)).done_at, ns(22));
  EXPECT_EQ(bank.busy_until(), ns(22));
  EXPECT_EQ(bank.counters().requests, 3u);
  EXPECT_EQ(bank.counters().bytes, 32u);
  EXPECT_EQ(bank.counters().busy, nanoseconds(8));
  EXPECT_EQ(bank.counters().waited, nanoseconds(4));
}

TEST(RmwBanks, UnitsOf64BytesAlternateBetweenTheEngines) {
  const RmwBanks banks = banks_of(12);
  const uint32_t first = banks.engine_of(kDramBase);
  for (uint32_t offset = 0; offset < 12 * 64; offset += 8) {
    EXPECT_EQ(banks.engine_of(kDramBase + offset), (first + offset / 64) % 12);
  }
  EXPECT_EQ(banks.engine_of(kDramBase + 12 * 64), first);
}

TEST(RmwBanks, EnginesWorkInParallel) {
  RmwBanks banks = banks_of(12);
  for (uint32_t unit = 0; unit < 12; unit++) {
    EXPECT_EQ(banks.serve(ns(0), request_of(RmwKind::kAdd, unit * 64, 64)).done_at, ns(32));
  }
  EXPECT_EQ(banks.serve(ns(0), request_of(RmwKind::kAdd, 12 * 64, 64)).done_at, ns(64));
  EXPECT_EQ(banks.counters().requests, 13u);
  EXPECT_EQ(banks.counters().busy, nanoseconds(13 * 32));
}

TEST(RmwBanks, TwelveEnginesSustainSixBillionAddsPerSecond) {
  RmwBanks banks = banks_of(12);
  constexpr uint32_t kRounds = 1000;
  Instant done_last;
  for (uint32_t unit = 0; unit < 12 * kRounds; unit++) {
    done_last =
        std::max(done_last, banks.serve(ns(0), request_of(RmwKind::kAdd, unit * 64, 64)).done_at);
  }
  const double adds = 12.0 * kRounds * 16;
  EXPECT_DOUBLE_EQ(adds / in_seconds(done_last.since_start()), 6e9);  // Trio paper §6.3.
}

TEST(RmwBanks, RefusedRequestsCostNothingAndAreCounted) {
  RmwBanks banks = banks_of(1);
  const auto status = [&](uint64_t offset_bytes, uint32_t size_bytes) {
    const auto reply = banks.serve(ns(5), request_of(RmwKind::kRead, offset_bytes, size_bytes));
    EXPECT_EQ(reply.done_at, ns(5));
    return reply.status;
  };
  EXPECT_EQ(status(0, 0), RmwStatus::kBadSize);
  EXPECT_EQ(status(0, 4), RmwStatus::kBadSize);
  EXPECT_EQ(status(0, 12), RmwStatus::kBadSize);
  EXPECT_EQ(status(0, 72), RmwStatus::kBadSize);
  EXPECT_EQ(status(4, 8), RmwStatus::kMisaligned);
  EXPECT_EQ(status(8, 64), RmwStatus::kCrossesEngine);
  EXPECT_EQ(status(56, 16), RmwStatus::kCrossesEngine);
  EXPECT_EQ(banks.counters().refused, 7u);
  EXPECT_EQ(banks.counters().requests, 0u);
  EXPECT_EQ(banks.serve(ns(5), request_of(RmwKind::kRead, 56, 8)).done_at, ns(6));
}

TEST(RmwBanks, RefusesABadConfiguration) {
  EXPECT_FALSE(RmwBanks::create({.engine_count = 0}));
  EXPECT_FALSE(RmwBanks::create({.engine_count = 65537}));
  EXPECT_FALSE(RmwBanks::create({.clock_period = nanoseconds(0)}));
  EXPECT_FALSE(RmwBanks::create({.clock_period = nanoseconds(-1)}));
}

TEST(RmwBankDeathTest, RejectsAnEarlierTime) {
  RmwBank bank(nanoseconds(1));
  static_cast<void>(bank.serve(ns(2), request_of(RmwKind::kRead, 0, 8)));
  EXPECT_DEATH(static_cast<void>(bank.serve(ns(1), request_of(RmwKind::kRead, 0, 8))), "bug");
}

/// One engine's queue, advanced one cycle at a time.
struct SteppedEngine {
  std::deque<std::pair<uint32_t, uint32_t>> queue;  // Request number, cycles left.
  void step(int64_t now_ns, std::vector<int64_t>& done_at_ns) {
    if (queue.empty()) return;
    if (--queue.front().second > 0) return;
    done_at_ns[queue.front().first] = now_ns + 1;
    queue.pop_front();
  }
};

TEST(RmwBanks, RandomRequestsMatchEnginesSteppedByCycle) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  testing::Prng prng(seed);
  constexpr uint32_t kEngines = 5;
  constexpr std::array kKinds{RmwKind::kRead, RmwKind::kWrite, RmwKind::kAdd, RmwKind::kOther};
  RmwBanks banks = banks_of(kEngines);
  std::array<SteppedEngine, kEngines> engines;
  std::vector<Instant> promised;
  std::vector<int64_t> done_at_ns;

  const auto all_idle = [&] {
    return std::all_of(engines.begin(), engines.end(), [](auto& e) { return e.queue.empty(); });
  };
  for (int64_t now_ns = 0; now_ns < 50'000 || !all_idle(); now_ns++) {
    for (uint32_t burst = now_ns < 50'000 ? prng.below(3) : 0; burst > 0; burst--) {
      if (prng.chance(0.6)) continue;
      const RmwKind kind = kKinds[prng.below(kKinds.size())];
      const uint32_t words = 1 + prng.below(8);
      const uint64_t offset_bytes = prng.below(100) * 64 + prng.below(9 - words) * 8;
      const RmwReply reply = banks.serve(ns(now_ns), request_of(kind, offset_bytes, words * 8));
      ASSERT_EQ(reply.status, RmwStatus::kOk);
      const uint32_t cycles = kind == RmwKind::kAdd ? 4 * words : words;
      const uint64_t engine = (kSramBase.value() + offset_bytes) / 64 % kEngines;
      engines[engine].queue.emplace_back(static_cast<uint32_t>(promised.size()), cycles);
      promised.push_back(reply.done_at);
      done_at_ns.push_back(-1);
    }
    for (SteppedEngine& engine : engines) engine.step(now_ns, done_at_ns);
  }
  ASSERT_GT(promised.size(), 10'000u);
  for (size_t i = 0; i < promised.size(); i++) {
    ASSERT_EQ(promised[i], ns(done_at_ns[i])) << "request " << i;
  }
}

}  // namespace
}  // namespace tributary::memory
