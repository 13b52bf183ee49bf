// SPDX-License-Identifier: Apache-2.0
// Method: a hand-worked schedule, late callers, refusals, then random configurations. These check
// the slices against the records, due() against a list of all times, and the timers' promise: a
// record is reported idle within (period, 2 * period] of its last reference. Virtual time only.
#include "timers/periodic_timers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "memory/ref_bits.h"
#include "tests/support/seed.h"

namespace tributary::timers {
namespace {

using ::testing::HasSubstr;

constexpr Instant us(int64_t count) { return Instant(microseconds(count)); }
constexpr Instant tick(int64_t count) { return Instant(Duration::from_ticks(count)); }

PeriodicTimers timers_of(uint32_t thread_count, Duration period, uint32_t record_count,
                         Instant start = Instant()) {
  return PeriodicTimers::create(
             {.thread_count = thread_count, .period = period, .record_count = record_count}, start)
      .value();
}

std::vector<TimerSlice> due(PeriodicTimers& timers, Instant now) {
  std::vector<TimerSlice> slices;
  const uint32_t runs = timers.due(now, [&](const TimerSlice& slice) { slices.push_back(slice); });
  EXPECT_EQ(runs, slices.size());
  return slices;
}

TEST(PeriodicTimers, ThreadsAreSpacedEvenlyOverThePeriod) {
  PeriodicTimers timers = timers_of(4, microseconds(100), 10, us(1000));
  EXPECT_EQ(timers.next_due(), us(1025));
  EXPECT_TRUE(due(timers, us(1024)).empty());
  const struct {
    uint32_t thread, begin, end;
    Instant due_at;
  } expected[] = {{0, 0, 2, us(1025)},  {1, 2, 5, us(1050)}, {2, 5, 7, us(1075)},
                  {3, 7, 10, us(1100)}, {0, 0, 2, us(1125)}, {1, 2, 5, us(1150)}};
  for (const auto& run : expected) {
    const auto slices = due(timers, timers.next_due());
    ASSERT_EQ(slices.size(), 1u);
    EXPECT_EQ(slices[0].thread, run.thread);
    EXPECT_EQ(slices[0].begin, run.begin);
    EXPECT_EQ(slices[0].end, run.end);
    EXPECT_EQ(slices[0].due_at, run.due_at);
  }
  EXPECT_EQ(timers.next_due(), us(1175));
  EXPECT_TRUE(due(timers, us(1000)).empty());  // An earlier time.
}

TEST(PeriodicTimers, LateCallerGetsEachDueThreadInOrder) {
  PeriodicTimers timers = timers_of(4, microseconds(100), 4);
  const auto slices = due(timers, us(99));  // Due: 25, 50, 75.
  ASSERT_EQ(slices.size(), 3u);
  EXPECT_EQ(slices[0].due_at, us(25));
  EXPECT_EQ(slices[2].due_at, us(75));
  EXPECT_EQ(timers.next_due(), us(100));
  EXPECT_EQ(timers.skipped_runs(), 0u);
}

TEST(PeriodicTimers, VeryLateCallerGetsEachThreadOnceAndPhasesStay) {
  PeriodicTimers timers = timers_of(4, microseconds(100), 4);
  const auto slices = due(timers, us(1060));  // Due: 25 to 1050, 42 runs; the last 4 run.
  ASSERT_EQ(slices.size(), 4u);
  const Instant expected[] = {us(975), us(1000), us(1025), us(1050)};
  for (uint32_t i = 0; i < 4; i++) {
    EXPECT_EQ(slices[i].due_at, expected[i]);
    EXPECT_EQ(slices[i].thread, (2 + i) % 4);
  }
  EXPECT_EQ(timers.skipped_runs(), 38u);
  EXPECT_EQ(timers.next_due(), us(1075));
}

TEST(PeriodicTimers, UnevenPeriodsDoNotDrift) {
  PeriodicTimers timers = timers_of(3, Duration::from_ticks(10), 3);  // Phases 3, 6, 10.
  for (int64_t round = 0; round < 100'000; round++) {
    for (const int64_t phase : {3, 6, 10}) {
      ASSERT_EQ(timers.next_due(), tick(10 * round + phase));
      ASSERT_EQ(due(timers, timers.next_due()).size(), 1u);
    }
  }
}

TEST(PeriodicTimers, LongestPeriodsDoNotOverflow) {
  const Duration year = seconds(1) * (365 * 24 * 3600);
  PeriodicTimers timers = timers_of(PeriodicTimers::kThreadCountMax, year, UINT32_MAX);
  const auto slices = due(timers, Instant(year));
  ASSERT_EQ(slices.size(), PeriodicTimers::kThreadCountMax);
  EXPECT_EQ(slices.back().due_at, Instant(year));
  EXPECT_EQ(slices.back().end, UINT32_MAX);
}

TEST(PeriodicTimers, RefusesImpossibleSettings) {
  const auto error = [](uint32_t thread_count, Duration period) {
    auto timers = PeriodicTimers::create(
        {.thread_count = thread_count, .period = period, .record_count = 1}, Instant());
    return timers ? "" : timers.error().text;
  };
  EXPECT_THAT(error(0, milliseconds(1)), HasSubstr("0; allowed: 1 to 10000"));
  EXPECT_THAT(error(10'001, milliseconds(1)), HasSubstr("10001"));
  EXPECT_THAT(error(11, Duration::from_ticks(10)), HasSubstr("100 ps for 11 threads"));
  EXPECT_NE(error(1, Duration()), "");
  EXPECT_NE(error(1, milliseconds(-1)), "");
  EXPECT_EQ(error(10, Duration::from_ticks(10)), "");
}

struct RandomConfig {
  explicit RandomConfig(testing::Prng& prng)
      : thread_count(1 + prng.below(40)),
        period(Duration::from_ticks(thread_count + prng.below(prng.chance(0.5) ? 50 : 100'000))),
        record_count(prng.below(prng.chance(0.5) ? 20 : 3000)) {}
  uint32_t thread_count;
  Duration period;
  uint32_t record_count;
};

TEST(PeriodicTimers, SlicesCoverAllRecordsOncePerPeriod) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  testing::Prng prng(seed);
  for (uint32_t step = 0; step < 2'000; step++) {
    const RandomConfig config(prng);
    PeriodicTimers timers = timers_of(config.thread_count, config.period, config.record_count);
    const auto slices = due(timers, Instant(config.period));
    ASSERT_EQ(slices.size(), config.thread_count);
    uint32_t next = 0;
    for (const TimerSlice& slice : slices) {
      ASSERT_EQ(slice.begin, next);
      ASSERT_LE(slice.end - slice.begin, config.record_count / config.thread_count + 1);  // Even.
      next = slice.end;
    }
    ASSERT_EQ(next, config.record_count);
  }
}

TEST(PeriodicTimers, RandomCallersMatchTheListOfAllTimes) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  testing::Prng prng(seed);
  for (uint32_t round = 0; round < 300; round++) {
    const RandomConfig config(prng);
    const int64_t period = config.period.ticks();
    PeriodicTimers timers = timers_of(config.thread_count, config.period, config.record_count);
    std::vector<int64_t> ran_until(config.thread_count, 0);  // Latest run accounted for.
    uint64_t skipped = 0;
    for (int64_t now = 0, step = 0; step < 100; step++) {
      now += prng.below(static_cast<uint32_t>(prng.chance(0.8) ? period / 3 + 1 : 5 * period));
      // The latest newly due time of each thread.
      std::vector<std::pair<int64_t, uint32_t>> expected;
      for (uint32_t thread = 0; thread < config.thread_count; thread++) {
        int64_t due_at = int64_t{thread + 1} * period / config.thread_count;
        uint64_t times = 0;
        int64_t latest = 0;
        for (; due_at <= now; due_at += period) {
          if (due_at <= ran_until[thread]) continue;
          latest = due_at;
          times++;
        }
        if (times == 0) continue;
        expected.emplace_back(latest, thread);
        ran_until[thread] = latest;
        skipped += times - 1;
      }
      std::sort(expected.begin(), expected.end());
      std::vector<std::pair<int64_t, uint32_t>> got;
      for (const TimerSlice& slice : due(timers, tick(now))) {
        got.emplace_back(slice.due_at.since_start().ticks(), slice.thread);
      }
      ASSERT_EQ(got, expected) << "round " << round << " now " << now;
      ASSERT_EQ(timers.skipped_runs(), skipped) << "round " << round << " now " << now;
    }
  }
}

TEST(PeriodicTimers, RecordIsIdleWithinTwoPeriodsOfItsLastTouch) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  testing::Prng prng(seed);
  for (uint32_t round = 0; round < 300; round++) {
    const RandomConfig config(prng);
    const uint32_t record_count = config.record_count + 1;
    const Duration period = config.period;
    PeriodicTimers timers = timers_of(config.thread_count, period, record_count);
    memory::RefBits bits(record_count);
    std::map<uint32_t, Instant> touched_at;  // Of live records.

    const auto run_until = [&](Instant end) {
      while (timers.next_due() <= end) {
        const Instant now = timers.next_due();
        timers.due(now, [&](const TimerSlice& slice) {
          bits.scan_idle(slice.begin, slice.end, [&](uint32_t slot) {
            EXPECT_GT(now, touched_at.at(slot) + period) << "round " << round;
            EXPECT_LE(now, touched_at.at(slot) + period * 2) << "round " << round;
            bits.clear_live(slot);
            touched_at.erase(slot);
          });
        });
      }
    };
    Instant now;
    for (uint32_t touch = 0; touch < 500; touch++) {
      const int64_t wait_max = period.ticks() / (1 + prng.below(100));
      now = now + Duration::from_ticks(prng.below(static_cast<uint32_t>(wait_max) + 1));
      run_until(now);
      const uint32_t slot = prng.below(std::min(record_count, 50u));  // Some slots repeatedly.
      if (bits.is_live(slot)) {
        bits.touch(slot);
      } else {
        bits.mark_live(slot);
      }
      touched_at[slot] = now;
    }
    run_until(now + period * 2);
    ASSERT_TRUE(touched_at.empty()) << "overlooked in round " << round;
  }
}

}  // namespace
}  // namespace tributary::timers
