// SPDX-License-Identifier: Apache-2.0
// Method: pool sizes and scales worked by hand, then refusals.
#include "host/switchml/switchml_config.h"

#include <gtest/gtest.h>

#include <cmath>

#include "host/formats/number_format.h"
#include "wire/switchml.h"

namespace tributary::host {
namespace {

constexpr uint64_t kGbit = 1'000'000'000;

TEST(SwitchmlConfig, PoolHoldsTheBandwidthDelayProduct) {
  // 100 Gbit/s x 30 us = 375,000 bytes = 340.9 packets of 1,100 bytes: 341, so 512.
  EXPECT_EQ(switchml_pool_size(100 * kGbit, microseconds(30), 1100), 512U);
  // 10 Gbit/s x 100 us = 125,000 bytes = 113.6 packets: 114, so 128.
  EXPECT_EQ(switchml_pool_size(10 * kGbit, microseconds(100), 1100), 128U);
  // Exactly four packets need four slots; one tick more needs a fifth.
  EXPECT_EQ(switchml_pool_size(8 * kGbit, microseconds(4), 1000), 4U);
  EXPECT_EQ(switchml_pool_size(8 * kGbit, microseconds(4) + picoseconds(10), 1000), 8U);
  EXPECT_EQ(switchml_pool_size(kGbit, Duration(), 1100), 1U);
  EXPECT_EQ(switchml_pool_size(100 * kGbit, seconds(1), 1100), 16'384U);  // The format's limit.
}

TEST(SwitchmlConfig, ScaleMatchesThePaper) {
  EXPECT_EQ(switchml_scale(0, 1), 0x1p31F);  // 2^31 - 1 as a float.
  EXPECT_EQ(switchml_scale(3, 2), 0x1p27F);
  EXPECT_EQ(switchml_scale(-4, 8), 0x1p32F);
  EXPECT_EQ(switchml_scale(0, 3), static_cast<float>(2147483647.0 / 3));
  EXPECT_EQ(switchml_scale(kNoExponent, 6), 1.0F);         // Zeros stay zeros.
  EXPECT_EQ(switchml_scale(-126, 1), 0x1p127F);            // The published scale is infinite.
  EXPECT_EQ(switchml_scale(127, 1), 0x1p31F * 0x1p-128F);  // Up to the largest exponent of float32.
}

TEST(SwitchmlConfig, LargestValuesOfAllRanksFitIntoTheSum) {
  for (const int exponent : {-126, -40, 0, 1, 60, 126}) {
    for (uint32_t world = 1; world <= wire::kSwitchmlWorkersMax; world++) {
      const float value = std::nextafter(std::ldexp(1.0F, exponent), 0.0F);
      ASSERT_EQ(block_exponent({&value, 1}), exponent);
      std::byte lane[4];
      (void)pack_fixed({&value, 1}, switchml_scale(static_cast<int8_t>(exponent), world),
                       lane_magnitude_max(world), lane);
      int32_t sent = 0;
      unpack_int32(lane, 1, {&sent, 1});
      EXPECT_LE(int64_t{sent} * world, INT32_MAX);
      // The loss is small: two units in float32's last place.
      const double back =
          sent / static_cast<double>(switchml_scale(static_cast<int8_t>(exponent), world));
      EXPECT_NEAR(back, value, value * 0x1p-22) << exponent << " " << world;
    }
  }
}

TEST(SwitchmlConfig, PresetsDiffer) {
  SwitchmlConfig paper;
  apply(SwitchmlPreset::kPaper, paper);
  EXPECT_EQ(paper.pool, 512U);
  EXPECT_EQ(paper.timeout, milliseconds(1));
  EXPECT_EQ(paper.timeouts_to_double, 0U);
  SwitchmlConfig published;
  apply(SwitchmlPreset::kPublished, published);
  EXPECT_EQ(published.pool, 256U);
  EXPECT_EQ(published.timeout, milliseconds(10));
  EXPECT_EQ(published.timeouts_to_double, 100U);
  EXPECT_TRUE(published.patient_start);
}

TEST(SwitchmlConfig, RefusesUnsupportedSettings) {
  const auto text_of = [](auto change) {
    SwitchmlConfig config;
    change(config);
    const auto good = check(config);
    return good ? std::string() : good.error().text;
  };
  EXPECT_EQ(text_of([](SwitchmlConfig&) {}), "");
  EXPECT_EQ(text_of([](SwitchmlConfig& c) { c.elements = 128; }),
            "elements=128 is not allowed; allowed: 64 or 256");
  EXPECT_EQ(text_of([](SwitchmlConfig& c) { c.world = 33; }),
            "world=33 is not allowed; allowed: 1 to 32");
  EXPECT_EQ(text_of([](SwitchmlConfig& c) { c.rank = 1; }),
            "rank=1 is not allowed; allowed: 0 to 0");
  EXPECT_EQ(text_of([](SwitchmlConfig& c) { c.pool = 0; }),
            "pool=0 is not allowed; allowed: 1 to 16384");
  EXPECT_EQ(text_of([](SwitchmlConfig& c) { c.timeout = Duration(); }),
            "timeout=0 is not allowed; allowed: more than 0");
}

}  // namespace
}  // namespace tributary::host
