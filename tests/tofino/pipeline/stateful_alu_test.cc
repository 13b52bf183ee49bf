// SPDX-License-Identifier: Apache-2.0
// Method: the stateful ALU by hand: every operation, comparison and output, widths and signs. Then
// the loop over many registers against one call at a time.
#include "tofino/pipeline/stateful_alu.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/seed.h"

namespace tributary::tofino {
namespace {

constexpr StatefulOperand kLow{StatefulSource::kLow};
constexpr StatefulOperand kHigh{StatefulSource::kHigh};
constexpr StatefulOperand kIn0{StatefulSource::kInput0};
constexpr StatefulOperand kIn1{StatefulSource::kInput1};

Register word(uint32_t bits, bool is_signed, bool pair = false) {
  return {.name = "r", .bits = bits, .pair = pair, .is_signed = is_signed, .entries = 1};
}

/// Runs low = low `op` input0 on one word.
uint32_t result(const Register& reg, StatefulOp op, uint32_t memory, uint32_t input) {
  const RegisterAction action{
      .name = "a", .low = {{.op = op, .a = kLow, .b = kIn0}}, .output = StatefulOutput::kLowAfter};
  uint32_t unused = 0;
  const uint32_t out = StatefulAlu(reg, action).execute(&memory, &unused, input, 0);
  EXPECT_EQ(out, memory);
  return memory;
}

TEST(StatefulAlu, OperationsComputeTheirResults) {
  const Register u32 = word(32, false);
  EXPECT_EQ(result(u32, StatefulOp::kSet, 5, 9), 5U);
  EXPECT_EQ(result(u32, StatefulOp::kAdd, 0xffffffff, 3), 2U);
  EXPECT_EQ(result(u32, StatefulOp::kSubtract, 1, 3), 0xfffffffeU);
  EXPECT_EQ(result(u32, StatefulOp::kAddSaturated, 0xfffffff0, 0x20), 0xffffffffU);
  EXPECT_EQ(result(u32, StatefulOp::kSubtractSaturated, 1, 3), 0U);
  EXPECT_EQ(result(u32, StatefulOp::kMin, 0x80000000, 1), 1U);
  EXPECT_EQ(result(u32, StatefulOp::kMax, 0x80000000, 1), 0x80000000U);
  EXPECT_EQ(result(u32, StatefulOp::kAnd, 0b1100, 0b1010), 0b1000U);
  EXPECT_EQ(result(u32, StatefulOp::kOr, 0b1100, 0b1010), 0b1110U);
  EXPECT_EQ(result(u32, StatefulOp::kXor, 0b1100, 0b1010), 0b0110U);
  EXPECT_EQ(result(u32, StatefulOp::kAndNot, 0b1100, 0b1010), 0b0100U);
  EXPECT_EQ(result(u32, StatefulOp::kNot, 0, 9), 0xffffffffU);
}

TEST(StatefulAlu, SignAndWidthSetTheSaturationLimits) {
  const Register s32 = word(32, true);
  EXPECT_EQ(result(s32, StatefulOp::kAddSaturated, 0x7fffffff, 1), 0x7fffffffU);
  EXPECT_EQ(result(s32, StatefulOp::kSubtractSaturated, 0x80000000, 1), 0x80000000U);
  EXPECT_EQ(result(s32, StatefulOp::kMin, 0x80000000, 1), 0x80000000U);
  EXPECT_EQ(result(s32, StatefulOp::kMax, 0x80000000, 1), 1U);
  const Register s8 = word(8, true);
  EXPECT_EQ(result(s8, StatefulOp::kAdd, 0x7f, 1), 0x80U);
  EXPECT_EQ(result(s8, StatefulOp::kAddSaturated, 0x7f, 1), 0x7fU);
  EXPECT_EQ(result(s8, StatefulOp::kMax, 0xff, 0x01), 1U);  // -1 and 1.
  const Register u8 = word(8, false);
  EXPECT_EQ(result(u8, StatefulOp::kMax, 0xff, 0x01), 0xffU);
  EXPECT_EQ(result(u8, StatefulOp::kNot, 0x0f, 0), 0xf0U);
  EXPECT_EQ(result(word(1, false), StatefulOp::kXor, 1, 1), 0U);
}

/// Returns true if (memory - input + constant) has the relation to 0.
bool compared(Relation relation, uint32_t memory, uint32_t input, int64_t constant,
              bool is_signed) {
  const RegisterAction action{.name = "a",
                              .comparisons = {{.memory = StatefulSource::kLow,
                                               .input = StatefulSource::kInput0,
                                               .subtract_input = true,
                                               .constant = constant,
                                               .relation = relation,
                                               .is_signed = is_signed}},
                              .output = StatefulOutput::kComparisons};
  uint32_t unused = 0;
  return StatefulAlu(word(32, false), action).execute(&memory, &unused, input, 0) == 1;
}

TEST(StatefulAlu, ComparisonsFollowTheirRelation) {
  EXPECT_TRUE(compared(Relation::kEqual, 7, 5, -2, false));
  EXPECT_FALSE(compared(Relation::kNotEqual, 7, 5, -2, false));
  EXPECT_TRUE(compared(Relation::kLess, 4, 5, 0, false));
  EXPECT_TRUE(compared(Relation::kLessEqual, 5, 5, 0, false));
  EXPECT_TRUE(compared(Relation::kGreater, 0x80000000, 5, 0, false));
  EXPECT_FALSE(compared(Relation::kGreater, 0x80000000, 5, 0, true));
  EXPECT_TRUE(compared(Relation::kGreaterEqual, 6, 5, -1, true));
}

TEST(StatefulAlu, PredicatesSelectUpdatesAndOutput) {
  // Counts to input0 and starts over, as SwitchML's count does.
  const RegisterAction action{.name = "count",
                              .comparisons = {{.memory = StatefulSource::kLow,
                                               .input = StatefulSource::kInput0,
                                               .subtract_input = true,
                                               .relation = Relation::kEqual}},
                              .low = {{.when = kIfFirst, .op = StatefulOp::kSet},
                                      {.when = kUnlessFirst,
                                       .op = StatefulOp::kAdd,
                                       .a = kLow,
                                       .b = {StatefulSource::kConstant, 1}}},
                              .output = StatefulOutput::kLowBefore,
                              .output_when = kUnlessFirst};
  const StatefulAlu alu(word(8, false), action);
  uint32_t memory = 0;
  uint32_t unused = 0;
  std::vector<uint32_t> seen;
  for (uint32_t i = 0; i < 5; i++) {
    seen.push_back(alu.execute(&memory, &unused, 2, 0));
    seen.push_back(memory);
  }
  EXPECT_EQ(seen, (std::vector<uint32_t>{0, 1, 1, 2, 0, 0, 0, 1, 1, 2}));
}

TEST(StatefulAlu, BothWordsReadTheOldValues) {
  // A swap; it would fail if the words were updated one after the other.
  const RegisterAction action{.name = "swap",
                              .low = {{.op = StatefulOp::kSet, .a = kHigh}},
                              .high = {{.op = StatefulOp::kSet, .a = kLow}},
                              .output = StatefulOutput::kHighAfter};
  uint32_t low = 1;
  uint32_t high = 2;
  EXPECT_EQ(StatefulAlu(word(32, false, true), action).execute(&low, &high, 0, 0), 1U);
  EXPECT_EQ(low, 2U);
  EXPECT_EQ(high, 1U);
}

TEST(StatefulAlu, BatchExecutionMatchesSingleExecution) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  testing::Prng prng(seed);
  const std::vector<std::vector<StatefulUpdate>> lows{
      {}, {{.op = StatefulOp::kSet, .a = kIn0}}, {{.op = StatefulOp::kAdd, .a = kLow, .b = kIn1}}};
  const std::vector<std::vector<StatefulUpdate>> highs{
      {}, {{.op = StatefulOp::kSet, .a = kIn1}}, {{.op = StatefulOp::kAdd, .a = kHigh, .b = kIn0}}};
  uint32_t plain = 0;
  for (uint32_t round = 0; round < 200; round++) {
    const RegisterAction action{.name = "a",
                                .low = lows[prng.below(3)],
                                .high = highs[prng.below(3)],
                                .output = static_cast<StatefulOutput>(prng.below(8))};
    const StatefulAlu alu(word(32, true, true), action);
    if (!alu.is_plain()) continue;
    plain++;
    const uint32_t count = 1 + prng.below(40);
    std::vector<uint32_t> low(count), high(count), in0(count), in1(count), out(count);
    for (auto* list : {&low, &high, &in0, &in1}) {
      for (uint32_t& value : *list) value = prng.any_u32();
    }
    std::vector<uint32_t> low_one = low, high_one = high, out_one(count);
    for (uint32_t i = 0; i < count; i++) {
      out_one[i] = alu.execute(&low_one[i], &high_one[i], in0[i], in1[i]);
    }
    alu.execute_many(low.data(), high.data(), in0.data(), in1.data(), out.data(), count);
    EXPECT_EQ(low, low_one);
    EXPECT_EQ(high, high_one);
    EXPECT_EQ(out, out_one);
  }
  EXPECT_GT(plain, 0U);
}

}  // namespace
}  // namespace tributary::tofino
