// SPDX-License-Identifier: Apache-2.0
// Method:  sums worked by hand, then refusals, then a random walk against plain vectors, then a
//          concurrent writer and checker.
#include "cli/demo/sum_ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <thread>

#include "host/formats/number_format.h"
#include "tests/support/scratch_directory.h"
#include "tests/support/seed.h"

namespace tributary::demo {
namespace {

using host::DegradedRange;
using ::testing::HasSubstr;

constexpr float kScale = 1000.0F;

class SumLedgerTest : public ::testing::Test {
 protected:
  SumLedger make(const LedgerShape& shape) {
    auto ledger = SumLedger::create(path_, shape);
    EXPECT_TRUE(ledger) << ledger.error().text;
    return std::move(*ledger);
  }
  const testing::ScratchDirectory scratch_;
  const std::string path_ = scratch_.file("ledger");
};

host::SourceSet ranks(std::initializer_list<uint32_t> list) {
  host::SourceSet set{};
  for (const uint32_t rank : list) set[rank / 64] |= 1ULL << (rank % 64);
  return set;
}

TEST_F(SumLedgerTest, ChecksTheMeanOfTwoRanks) {
  SumLedger ledger = make({.world = 2, .depth = 4, .elements = 3});
  ledger.record(0, 0, std::vector<float>{1.0F, 0.5F, -2.0F}, kScale);
  ledger.record(1, 0, std::vector<float>{3.0F, 0.5F, 1.0F}, kScale);
  // Lanes 1000 + 3000, 500 + 500, -2000 + 1000, over 2 ranks and a scale of 1000.
  EXPECT_EQ(ledger.check(0, std::vector<float>{2.0F, 0.5F, -0.5F}, {}, kScale),
            (SumCheck{.checked = 3}));
}

TEST_F(SumLedgerTest, DetectsOneWrongBit) {
  SumLedger ledger = make({.world = 1, .depth = 4, .elements = 2});
  ledger.record(0, 0, std::vector<float>{1.0F, 0.0F}, kScale);
  const float almost = std::nextafter(1.0F, 2.0F);
  EXPECT_EQ(ledger.check(0, std::vector<float>{almost, 0.0F}, {}, kScale),
            (SumCheck{.checked = 2, .wrong = 1}));
  // Equal numbers, different bits.
  EXPECT_EQ(ledger.check(0, std::vector<float>{1.0F, -0.0F}, {}, kScale).wrong, 1);
}

TEST_F(SumLedgerTest, DegradedRangeHasItsOwnSourcesAndDivisor) {
  SumLedger ledger = make({.world = 3, .depth = 4, .elements = 4});
  for (uint32_t rank = 0; rank < 3; rank++) {
    ledger.record(rank, 7, std::vector<float>(4, static_cast<float>(rank + 1)), kScale);
  }
  // Ranks 0 and 2 would give elements 1 and 2 the others' value: (1 + 3) / 2 = (1 + 2 + 3) / 3 = 2.
  // So take ranks 0 and 1 for them: 1.5.
  const std::vector<DegradedRange> degraded{{1, 2, ranks({0, 1})}};
  EXPECT_EQ(ledger.check(7, std::vector<float>{2.0F, 1.5F, 1.5F, 2.0F}, degraded, kScale),
            (SumCheck{.checked = 4}));
  EXPECT_EQ(ledger.check(7, std::vector<float>{2.0F, 1.5F, 1.5F, 2.0F}, {}, kScale),
            (SumCheck{.checked = 4, .wrong = 2}));
}

TEST_F(SumLedgerTest, DegradedRangeIgnoresAMissingSource) {
  SumLedger ledger = make({.world = 2, .depth = 4, .elements = 2});
  ledger.record(0, 0, std::vector<float>{1.0F, 1.0F}, kScale);  // Rank 1 never records.
  const std::vector<DegradedRange> degraded{{0, 1, ranks({0})}};
  EXPECT_EQ(ledger.check(0, std::vector<float>{1.0F, 1.0F}, degraded, kScale),
            (SumCheck{.checked = 1, .unchecked = 1}));
}

TEST_F(SumLedgerTest, OverwrittenEntryIsUnchecked) {
  SumLedger ledger = make({.world = 1, .depth = 2, .elements = 1});
  for (uint32_t iteration = 0; iteration < 3; iteration++) {
    ledger.record(0, iteration, std::vector<float>{1.0F}, kScale);
  }
  const std::vector<float> result{1.0F};
  EXPECT_EQ(ledger.check(0, result, {}, kScale), (SumCheck{.unchecked = 1}));
  EXPECT_EQ(ledger.check(1, result, {}, kScale), (SumCheck{.checked = 1}));
  EXPECT_EQ(ledger.check(2, result, {}, kScale), (SumCheck{.checked = 1}));
  EXPECT_EQ(ledger.check(3, result, {}, kScale), (SumCheck{.unchecked = 1}));
}

TEST_F(SumLedgerTest, ContradictoryRangesAreWrong) {
  SumLedger ledger = make({.world = 1, .depth = 2, .elements = 4});
  ledger.record(0, 0, std::vector<float>(4, 1.0F), kScale);
  const std::vector<float> result(4, 1.0F);
  const auto wrong_with = [&](std::vector<DegradedRange> degraded) {
    return ledger.check(0, result, degraded, kScale).wrong;
  };
  EXPECT_EQ(wrong_with({{0, 4, ranks({0})}}), 0);
  EXPECT_EQ(wrong_with({{1, 4, ranks({0})}}), 4);                      // Past the end.
  EXPECT_EQ(wrong_with({{UINT64_MAX, 1, ranks({0})}}), 4);             // Far past the end.
  EXPECT_EQ(wrong_with({{0, 2, ranks({0})}, {1, 1, ranks({0})}}), 2);  // Overlap.
  EXPECT_EQ(wrong_with({{2, 1, ranks({})}}), 1);                       // Sum of no sources.
}

TEST_F(SumLedgerTest, OtherProcessesReadTheRecords) {
  const LedgerShape shape{.world = 2, .depth = 2, .elements = 1};
  SumLedger first = make(shape);
  auto second = SumLedger::open(path_, shape);
  ASSERT_TRUE(second) << second.error().text;
  first.record(0, 0, std::vector<float>{1.0F}, kScale);
  second->record(1, 0, std::vector<float>{2.0F}, kScale);
  EXPECT_EQ(first.check(0, std::vector<float>{1.5F}, {}, kScale), (SumCheck{.checked = 1}));
  EXPECT_EQ(second->check(0, std::vector<float>{1.5F}, {}, kScale), (SumCheck{.checked = 1}));
}

TEST_F(SumLedgerTest, RefusesFilesOfAnotherShape) {
  make({.world = 2, .depth = 2, .elements = 64});
  const auto smaller = SumLedger::open(path_, {.world = 1, .depth = 2, .elements = 64});
  ASSERT_FALSE(smaller);
  EXPECT_THAT(smaller.error().text, HasSubstr("another size"));
  // The same size, but another shape.
  const auto turned = SumLedger::open(path_, {.world = 4, .depth = 1, .elements = 64});
  ASSERT_FALSE(turned);
  EXPECT_THAT(turned.error().text, HasSubstr("another world"));
  EXPECT_FALSE(SumLedger::open("/nowhere", {.world = 1, .depth = 1, .elements = 1}));
}

TEST_F(SumLedgerTest, RandomSumsMatchPlainVectors) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  constexpr uint32_t kWorld = 4, kElements = 100, kIterations = 200;
  SumLedger ledger = make({.world = kWorld, .depth = 3, .elements = kElements});
  for (uint32_t iteration = 0; iteration < kIterations; iteration++) {
    std::vector<std::vector<float>> sent(kWorld, std::vector<float>(kElements));
    for (uint32_t rank = 0; rank < kWorld; rank++) {
      for (float& value : sent[rank]) value = static_cast<float>(2.0 * prng.unit() - 1.0);
      ledger.record(rank, iteration, sent[rank], kScale);
    }
    // One degraded range whose sources include rank 0.
    const uint32_t first = prng.below(kElements);
    const uint32_t count = prng.below(kElements - first + 1);
    const host::SourceSet some{1 | prng.below(1U << kWorld), 0, 0, 0};
    std::vector<float> result(kElements);
    for (uint32_t i = 0; i < kElements; i++) {
      const bool degraded = i >= first && i < first + count;
      int32_t sum = 0;
      uint32_t sources = 0;
      for (uint32_t rank = 0; rank < kWorld; rank++) {
        if (degraded && !host::contains(some, rank)) continue;
        sum += host::to_fixed(sent[rank][i], kScale);
        sources++;
      }
      result[i] = host::from_fixed(sum, kScale, sources);
    }
    const std::vector<DegradedRange> degraded{{first, count, some}};
    ASSERT_EQ(ledger.check(iteration, result, degraded, kScale), (SumCheck{.checked = kElements}));
    const uint32_t spoilt = prng.below(kElements);
    result[spoilt] = std::bit_cast<float>(std::bit_cast<uint32_t>(result[spoilt]) ^ 1U);
    ASSERT_EQ(ledger.check(iteration, result, degraded, kScale).wrong, 1);
  }
}

TEST_F(SumLedgerTest, OvertakingWriterCausesNoWrongVerdict) {
  // Every lane of iteration k is k, and each iteration overwrites the previous one. So a torn read
  // counted as whole would give a wrong sum.
  constexpr uint32_t kElements = 16'384, kIterations = 2'000;
  const LedgerShape shape{.world = 1, .depth = 1, .elements = kElements};
  SumLedger writer = make(shape);
  auto reader = SumLedger::open(path_, shape);
  ASSERT_TRUE(reader);
  std::atomic<uint32_t> recorded{0};
  std::thread thread([&] {
    for (uint32_t k = 1; k <= kIterations; k++) {
      writer.record(0, k, std::vector<float>(kElements, static_cast<float>(k)), 1.0F);
      recorded = k;
    }
  });
  SumCheck sums;
  uint32_t last = 0;
  do {
    last = recorded;
    sums += reader->check(last, std::vector<float>(kElements, static_cast<float>(last)), {}, 1.0F);
  } while (last != kIterations);
  thread.join();
  EXPECT_EQ(sums.wrong, 0);
  EXPECT_GE(sums.checked, kElements);  // At least the last one, which is never overwritten.
}

}  // namespace
}  // namespace tributary::demo
