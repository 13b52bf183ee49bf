// SPDX-License-Identifier: Apache-2.0
// Method: hand-counted accesses of single instructions, then each kind of excess, which must stop
// the process, then code without a price.
#include "microcode/access_meter.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>
#include <type_traits>

#include "microcode/local_memory.h"
#include "microcode/register.h"

namespace tributary::microcode {
namespace {

constexpr Instruction kRead{"read", {.lmem_reads = 2}};
constexpr Instruction kWrite{"write", {.lmem_writes = 2}};
constexpr Instruction kMove{"move", {.register_reads = 2, .register_writes = 1}};

AccessMeter::Place here(AccessMeter::Place place = AccessMeter::Place::current()) { return place; }

/// A machine with nothing but a meter, for registers.
struct Metered {
  AccessMeter& access_meter() { return meter; }
  AccessMeter meter;
};

TEST(AccessMeter, CountsTheAccessesThatCoverTheHeadsBytes) {
  AccessMeter meter;
  meter.begin(kRead, 1, here());
  meter.read_head(3, 4, here());   // Bytes 3 to 6.
  meter.read_head(6, 5, here());   // To 10: the access from byte 3 on covers them.
  meter.read_head(62, 4, here());  // Across a word of the meter's own.
  meter.pause();
  ASSERT_EQ(meter.instructions().size(), 1U);
  EXPECT_EQ(meter.instructions()[0].most, (AccessCount{.head_bytes = 12, .lmem_reads = 2}));
}

TEST(AccessMeter, KeepsTheMostOfAllExecutions) {
  AccessMeter meter;
  meter.begin(kRead, 1, here());
  meter.read_head(0, 16, here());
  meter.begin(kRead, 5, here());
  meter.read_head(0, 1, here());
  meter.issue_xtxn(here());
  meter.pause();
  ASSERT_EQ(meter.instructions().size(), 1U);
  EXPECT_EQ(meter.instructions()[0].executed, 6U);
  EXPECT_EQ(meter.instructions()[0].most,
            (AccessCount{.head_bytes = 16, .lmem_reads = 2, .xtxns = 1}));
}

TEST(AccessMeter, RegistersCountOnceForEachInstruction) {
  Metered m;
  auto first = make_register<uint32_t>(m);
  auto second = make_register<uint64_t>(m);
  m.meter.begin(kMove, 1, here());
  first = 5;
  first = 7;
  const uint64_t sum = uint64_t{first} + first + second;
  EXPECT_EQ(sum, 14U);
  m.meter.begin(kMove, 1, here());
  EXPECT_EQ(first, 7U);
  m.meter.pause();
  EXPECT_EQ(m.meter.instructions()[0].most,
            (AccessCount{.register_reads = 2, .register_writes = 1}));
}

TEST(AccessMeter, RegisterOfAnotherMachineIsAPlainVariable) {
  int machine = 0;
  auto value = make_register<uint32_t>(machine);
  static_assert(std::is_same_v<decltype(value), uint32_t>);
  EXPECT_EQ(value, 0U);
}

TEST(AccessMeter, LocalMemoryCountsOneWriteForEachEightBytesOfAVariable) {
  Metered m;
  uint32_t word = 0;
  std::array<uint8_t, 9> bytes{};
  m.meter.begin(kWrite, 1, here());
  store(m, word, 5);
  store(m, word, 7);               // The same variable.
  note_store(m, bytes.data(), 4);  // With the next line one access.
  note_store(m, bytes.data(), 8);
  EXPECT_EQ(word, 7U);
  m.meter.begin(kWrite, 1, here());
  note_store(m, bytes.data(), 9);  // Two accesses.
  m.meter.pause();
  EXPECT_EQ(m.meter.instructions()[0].most, (AccessCount{.lmem_writes = 2}));
  int other_machine = 0;
  store(other_machine, word, 9);
  EXPECT_EQ(word, 9U);
}

TEST(AccessMeter, LocalMemoryCountsOneReadForEachEightBytesOfAVariable) {
  Metered m;
  const uint32_t word = 7;
  std::array<uint8_t, 16> bytes{};
  m.meter.begin(kRead, 1, here());
  EXPECT_EQ(load(m, word), 7U);
  EXPECT_EQ(load(m, word), 7U);     // The same variable.
  m.meter.read_head(0, 8, here());  // The head's bytes lie elsewhere.
  m.meter.begin(kRead, 1, here());
  note_load(m, bytes.data(), 9);  // Two accesses.
  m.meter.pause();
  EXPECT_EQ(m.meter.instructions()[0].most, (AccessCount{.head_bytes = 8, .lmem_reads = 2}));
  int other_machine = 0;
  EXPECT_EQ(load(other_machine, word), 7U);
}

TEST(AccessMeterDeathTest, LocalMemoryReadsAboveTheBudgetStopTheProcess) {
  Metered m;
  std::array<uint8_t, 17> bytes{};
  m.meter.begin(kRead, 1, here());
  note_load(m, bytes.data(), 17);
  EXPECT_DEATH(m.meter.pause(), "'read' .* makes 3 local memory reads; its budget is 2");
}

TEST(AccessMeterDeathTest, LocalMemoryWritesAboveTheBudgetStopTheProcess) {
  Metered m;
  std::array<uint8_t, 17> bytes{};
  m.meter.begin(kWrite, 1, here());
  note_store(m, bytes.data(), 17);
  EXPECT_DEATH(m.meter.pause(), "'write' .* makes 3 local memory writes; its budget is 2");
}

TEST(AccessMeterDeathTest, InstructionAboveItsBudgetStopsTheProcessAndIsNamed) {
  AccessMeter meter;
  meter.set_program("planted");
  const AccessMeter::Place place = here();
  meter.begin(kRead, 1, place);
  meter.read_head(0, 17, here());
  const std::string text =
      "instruction 'read' of program 'planted' at tests/microcode/access_meter_test.cc:" +
      std::to_string(place.line()) + " makes 3 local memory reads; its budget is 2";
  EXPECT_DEATH(meter.pause(), text);
}

TEST(AccessMeterDeathTest, ReadsAboveTheBudgetStopTheProcess) {
  EXPECT_DEATH(
      {
        Metered m;
        auto a = make_register<uint32_t>(m);
        auto b = make_register<uint32_t>(m);
        auto c = make_register<uint32_t>(m);
        m.meter.begin(kMove, 1, here());
        EXPECT_EQ(a + b + c, 0U);
        m.meter.pause();
      },
      "'move' .* makes 3 register reads; its budget is 2");
}

TEST(AccessMeterDeathTest, WritesAboveTheBudgetStopTheProcess) {
  EXPECT_DEATH(
      {
        Metered m;
        auto a = make_register<uint32_t>(m);
        auto b = make_register<uint32_t>(m);
        m.meter.begin(kMove, 1, here());
        a = 1;
        b = 1;
        m.meter.pause();
      },
      "makes 2 register writes; its budget is 1");
}

TEST(AccessMeter, ReportsCodeBetweenAReplyAndTheNextMark) {
  AccessMeter meter;
  meter.resume({});
  meter.begin(kRead, 1, here());
  meter.read_head(0, 1, here());
  const AccessMeter::Position replied{.mark = kRead.name, .reply = "hash lookup"};
  for (uint32_t i = 0; i < 2; i++) {
    meter.await(replied);
    const AccessMeter::Place place = here();
    meter.issue_xtxn(place);
    meter.read_head(0, 10 * (i + 1), here());
    meter.pause();
    EXPECT_EQ(meter.unpriced().at(0).place.line(), place.line());
  }
  meter.await(replied);  // Touches nothing, so it is not reported.
  meter.begin(kRead, 1, here());
  meter.pause();
  ASSERT_EQ(meter.unpriced().size(), 1U);
  const AccessMeter::UnpricedRow& row = meter.unpriced()[0];
  EXPECT_STREQ(row.after.mark, "read");
  EXPECT_STREQ(row.after.reply, "hash lookup");
  EXPECT_EQ(row.executed, 2U);
  EXPECT_EQ(row.most, (AccessCount{.head_bytes = 20, .lmem_reads = 3, .xtxns = 1}));
}

constexpr Instruction kNarrowRead{"read", {.lmem_reads = 1}};

TEST(AccessMeterDeathTest, InstructionsOfOneNameKeepTheirBudgets) {
  AccessMeter meter;
  meter.begin(kRead, 1, here());
  meter.begin(kNarrowRead, 1, here());
  meter.read_head(0, 16, here());
  EXPECT_DEATH(meter.pause(), "makes 2 local memory reads; its budget is 1");
  EXPECT_EQ(meter.instructions().size(), 2U);
}

TEST(AccessMeterDeathTest, AThreadHasALimitOfSteps) {
  AccessMeter meter;
  meter.set_program("planted");
  uint64_t steps = kThreadStepsMax - 1;
  meter.begin(kRead, 1, here());
  meter.count_step(steps, here());
  EXPECT_DEATH(meter.count_step(steps, here()),
               "a thread of program 'planted' makes more than .* follows instruction 'read'");
}

TEST(AccessMeter, PlacesAreNamedFromTheTopOfTheTree) {
  const AccessMeter::Place place = here();
  EXPECT_EQ(place_text(place),
            "tests/microcode/access_meter_test.cc:" + std::to_string(place.line()));
}

}  // namespace
}  // namespace tributary::microcode
