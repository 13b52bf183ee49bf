// SPDX-License-Identifier: Apache-2.0
// Method: hand-worked colours, extremes of rate and gap, refusals, then two random walks: one
// against buckets filled tick by tick, one against the RFC's bound on green packets.
#include "memory/policer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/seed.h"

namespace tributary::memory {
namespace {

using ::testing::HasSubstr;

constexpr BitRate mbps(uint64_t count) { return BitRate::bits_per_second(count * 1'000'000); }
constexpr Instant at(Duration since_start) { return Instant(since_start); }

Policer policer_of(const Policer::Config& config) { return Policer::create(config).value(); }

/// 8 Mbit/s = 1 byte a microsecond; 16 Mbit/s = 2.
constexpr Policer::Config kSmall{.committed_rate = mbps(8),
                                 .committed_burst_bytes = 1000,
                                 .peak_rate = mbps(16),
                                 .peak_burst_bytes = 1500};

TEST(Policer, ColoursGoFromGreenToYellowToRed) {
  Policer policer = policer_of(kSmall);
  EXPECT_EQ(policer.meter(at(microseconds(0)), 800), Colour::kGreen);   // 200 and 700 left.
  EXPECT_EQ(policer.meter(at(microseconds(0)), 600), Colour::kYellow);  // 200 and 100 left.
  EXPECT_EQ(policer.meter(at(microseconds(0)), 150), Colour::kRed);     // Takes nothing.
  EXPECT_EQ(policer.committed_bytes(), 200u);
  EXPECT_EQ(policer.peak_bytes(), 100u);
  EXPECT_EQ(policer.meter(at(microseconds(0)), 100), Colour::kGreen);  // 100 and 0 left.
}

TEST(Policer, BucketsRefillAtTheirRates) {
  Policer policer = policer_of(kSmall);
  EXPECT_EQ(policer.meter(at(microseconds(0)), 1000), Colour::kGreen);    // 0 and 500.
  EXPECT_EQ(policer.meter(at(microseconds(0)), 500), Colour::kYellow);    // 0 and 0.
  EXPECT_EQ(policer.meter(at(microseconds(99)), 200), Colour::kRed);      // 99 and 198.
  EXPECT_EQ(policer.meter(at(microseconds(100)), 200), Colour::kYellow);  // 100 and 200.
  EXPECT_EQ(policer.meter(at(microseconds(200)), 200), Colour::kGreen);   // 200 and 200.
}

TEST(Policer, BucketsAreCappedAtTheirBursts) {
  Policer policer = policer_of(kSmall);
  EXPECT_EQ(policer.meter(at(microseconds(0)), 1000), Colour::kGreen);
  EXPECT_EQ(policer.meter(at(seconds(1)), 0), Colour::kGreen);
  EXPECT_EQ(policer.committed_bytes(), 1000u);
  EXPECT_EQ(policer.peak_bytes(), 1500u);
  EXPECT_EQ(policer.meter(at(seconds(1)), 1001), Colour::kYellow);  // Longer than CBS.
  EXPECT_EQ(policer.meter(at(seconds(9)), 1501), Colour::kRed);     // Longer than PBS.
}

TEST(Policer, EarlierTimeAddsNoTokens) {
  Policer policer = policer_of(kSmall);
  EXPECT_EQ(policer.meter(at(seconds(1)), 1000), Colour::kGreen);
  EXPECT_EQ(policer.meter(at(microseconds(1)), 1), Colour::kYellow);
  // The second before the clock went back is not earned twice.
  EXPECT_EQ(policer.meter(at(seconds(1)), 1), Colour::kYellow);
}

TEST(Policer, StepsFarBelowAByteDoNotDrift) {
  // 1 bit/s earns 1e-11 bit a tick; a byte takes 8 s, here in 800 000 steps.
  Policer policer = policer_of({.committed_rate = BitRate::bits_per_second(1),
                                .committed_burst_bytes = 1,
                                .peak_rate = BitRate::bits_per_second(800'000),
                                .peak_burst_bytes = 100});
  EXPECT_EQ(policer.meter(at(seconds(0)), 1), Colour::kGreen);
  for (int64_t step = 1; step < 800'000; step++) {
    ASSERT_EQ(policer.meter(at(microseconds(10 * step)), 1), Colour::kYellow) << "step " << step;
  }
  EXPECT_EQ(policer.meter(at(seconds(8)), 1), Colour::kGreen);
}

TEST(Policer, HighestRateAndLongestGapDoNotOverflow) {
  Policer policer = policer_of({.committed_rate = kPolicerRateMax,
                                .committed_burst_bytes = UINT32_MAX,
                                .peak_rate = kPolicerRateMax,
                                .peak_burst_bytes = UINT32_MAX});
  EXPECT_EQ(policer.meter(at(seconds(0)), UINT32_MAX), Colour::kGreen);
  EXPECT_EQ(policer.meter(at(picoseconds(10)), 2), Colour::kRed);    // 10 bits, 1.25 bytes.
  EXPECT_EQ(policer.meter(at(picoseconds(20)), 2), Colour::kGreen);  // 2.5 bytes.
  EXPECT_EQ(policer.meter(at(Instant::never().since_start()), UINT32_MAX), Colour::kGreen);
  EXPECT_EQ(policer.committed_bytes(), 0u);
}

TEST(Policer, RateZeroSpendsItsBurstOnce) {
  Policer policer = policer_of({.committed_rate = BitRate(),
                                .committed_burst_bytes = 10,
                                .peak_rate = BitRate(),
                                .peak_burst_bytes = 20});
  EXPECT_EQ(policer.meter(at(seconds(1)), 10), Colour::kGreen);
  EXPECT_EQ(policer.meter(at(seconds(1'000'000)), 10), Colour::kYellow);
  EXPECT_EQ(policer.meter(at(seconds(2'000'000)), 1), Colour::kRed);
}

TEST(Policer, RefusesSettingsOutsideTheRfc) {
  Policer::Config config = kSmall;
  config.committed_rate = mbps(17);
  EXPECT_THAT(Policer::create(config).error().text, HasSubstr("17000000"));
  config = kSmall;
  config.peak_rate = BitRate::bits_per_second(kPolicerRateMax.in_bits_per_second() + 1);
  EXPECT_THAT(Policer::create(config).error().text, HasSubstr("1000000000001"));
  config = kSmall;
  config.committed_burst_bytes = 0;
  EXPECT_FALSE(Policer::create(config));
  config = kSmall;
  config.peak_burst_bytes = 0;
  EXPECT_FALSE(Policer::create(config));
}

TEST(Policer, RandomTrafficMatchesBucketsFilledTickByTick) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  testing::Prng prng(seed);
  constexpr int64_t kTokensPerByte = 800'000'000'000;  // A tick at 1 bit/s earns one.
  for (uint32_t round = 0; round < 50; round++) {
    const uint64_t peak = 1 + prng.any_u64() % kPolicerRateMax.in_bits_per_second();
    const uint64_t committed = prng.any_u64() % (peak + 1);
    const Policer::Config config{.committed_rate = BitRate::bits_per_second(committed),
                                 .committed_burst_bytes = 1 + prng.below(300),
                                 .peak_rate = BitRate::bits_per_second(peak),
                                 .peak_burst_bytes = 1 + prng.below(300)};
    Policer policer = policer_of(config);
    const int64_t committed_max = config.committed_burst_bytes * kTokensPerByte;
    const int64_t peak_max = config.peak_burst_bytes * kTokensPerByte;
    int64_t committed_tokens = committed_max, peak_tokens = peak_max, tick = 0;
    for (uint32_t packet = 0; packet < 500; packet++) {
      for (uint32_t wait = prng.below(200); wait > 0; wait--, tick++) {
        committed_tokens =
            std::min(committed_max, committed_tokens + static_cast<int64_t>(committed));
        peak_tokens = std::min(peak_max, peak_tokens + static_cast<int64_t>(peak));
      }
      const uint32_t size_bytes = prng.below(100);
      const int64_t wanted = size_bytes * kTokensPerByte;
      Colour expected = Colour::kRed;
      if (peak_tokens >= wanted) {
        peak_tokens -= wanted;
        expected = Colour::kYellow;
        if (committed_tokens >= wanted) {
          committed_tokens -= wanted;
          expected = Colour::kGreen;
        }
      }
      ASSERT_EQ(policer.meter(at(Duration::from_ticks(tick)), size_bytes), expected)
          << "round " << round << " packet " << packet;
    }
  }
}

TEST(Policer, GreenBytesStayWithinTheCommittedRateForever) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  testing::Prng prng(seed);
  Policer policer = policer_of({.committed_rate = mbps(80),  // 10 bytes a microsecond.
                                .committed_burst_bytes = 9000,
                                .peak_rate = mbps(800),
                                .peak_burst_bytes = 90'000});
  Instant now;
  uint64_t green_bytes = 0;
  for (uint32_t packet = 0; packet < 200'000; packet++) {
    now = now + nanoseconds(prng.below(100'000));  // 50 us on average: 15 bytes offered for 10.
    const uint32_t size_bytes = 1 + prng.below(1500);
    if (policer.meter(now, size_bytes) == Colour::kGreen) green_bytes += size_bytes;
  }
  const auto earned = static_cast<uint64_t>(in_nanoseconds(now.since_start())) / 100;
  EXPECT_LE(green_bytes, earned + 9000);
  EXPECT_GE(green_bytes, earned - 9000);  // Offered exceeds earned, so the bucket is never full.
}

}  // namespace
}  // namespace tributary::memory
