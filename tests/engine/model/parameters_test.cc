// SPDX-License-Identifier: Apache-2.0
// Method: the numbers that the paper states, then refusals.
#include "engine/model/parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace tributary::engine {
namespace {

using ::testing::HasSubstr;

TEST(Parameters, DefaultsMatchTheTestbedsGeneration) {
  const auto fifth = preset(5);
  ASSERT_TRUE(fifth.has_value());
  EXPECT_EQ(parameter_rows(*fifth).size(), parameter_rows(Parameters()).size());
  for (size_t i = 0; i < parameter_rows(*fifth).size(); i++) {
    EXPECT_EQ(parameter_rows(*fifth)[i].value, parameter_rows(Parameters())[i].value);
  }
  EXPECT_TRUE(check(Parameters()).has_value());
}

TEST(Parameters, PresetsMatchThePaper) {
  EXPECT_EQ(preset(1)->ppe_count, 16U);                 // §8.
  EXPECT_EQ(preset(6)->ppe_count, 160U);                // §8.
  EXPECT_EQ(preset(5)->rmw_engine_count, 12U);          // §6.3.
  EXPECT_EQ(preset(5)->sram_latency, nanoseconds(70));  // §2.3.
  for (uint32_t generation = 1; generation <= 6; generation++) {
    ASSERT_TRUE(preset(generation).has_value());
    EXPECT_TRUE(check(*preset(generation)).has_value()) << generation;
    if (generation == 1) continue;
    // "Increased the number of read-modify-write engines in each generation" (§2.3).
    EXPECT_GT(preset(generation)->rmw_engine_count, preset(generation - 1)->rmw_engine_count);
  }
}

TEST(Parameters, LoopTakesThePapersInstructionsPerGradient) {
  const Parameters p;
  const double turn = 16.0 * p.instructions_per_gradient + p.instructions_per_chunk;
  EXPECT_NEAR(turn / 16, 1.2, 0.02);  // §6.3: 19 / 16 = 1.19.
}

TEST(Parameters, UnknownGenerationIsRefused) {
  EXPECT_THAT(preset(0).error().text, HasSubstr("generation=0 is not allowed; allowed: 1 to 6"));
  EXPECT_FALSE(preset(7).has_value());
}

TEST(Parameters, SetsParametersByName) {
  Parameters p;
  ASSERT_TRUE(set_parameter(p, "ppe_count", 8).has_value());
  ASSERT_TRUE(set_parameter(p, "tail_read_latency_ns", 12.5).has_value());
  EXPECT_EQ(p.ppe_count, 8U);
  EXPECT_EQ(p.tail_read_latency, Duration::from_ticks(1250));
  for (const ParameterRow& row : parameter_rows(Parameters())) {
    EXPECT_TRUE(set_parameter(p, row.name, row.value).has_value()) << row.name;
    EXPECT_FALSE(row.source.empty()) << row.name;
  }
}

TEST(Parameters, RefusalsNameKeyValueAndAllowedValues) {
  Parameters p;
  EXPECT_THAT(set_parameter(p, "ppes", 1).error().text, HasSubstr("ppes is not a parameter"));
  EXPECT_THAT(set_parameter(p, "ppe_count", 0).error().text,
              HasSubstr("ppe_count=0 is not allowed; allowed: 1 to 4096"));
  EXPECT_THAT(set_parameter(p, "threads_each", 2.5).error().text, HasSubstr("whole numbers"));
  EXPECT_FALSE(
      set_parameter(p, "sram_latency_ns", std::numeric_limits<double>::quiet_NaN()).has_value());
  EXPECT_FALSE(set_parameter(p, "sram_latency_ns", -1).has_value());
  EXPECT_EQ(p.ppe_count, Parameters().ppe_count);
}

TEST(Parameters, CheckRefusesInconsistentNumbers) {
  Parameters p;
  p.dram_cache_bytes = 3 << 20;
  EXPECT_THAT(check(p).error().text, HasSubstr("powers of two"));
  p = Parameters();
  p.crossbar_latency = nanoseconds(71);
  EXPECT_THAT(check(p).error().text, HasSubstr("crossbar_latency_ns=71"));
  p = Parameters();
  p.threads_each = 65;
  EXPECT_FALSE(check(p).has_value());
}

}  // namespace
}  // namespace tributary::engine
