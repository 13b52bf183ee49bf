// SPDX-License-Identifier: Apache-2.0
// Method: dependencies and stages by hand, limits of a stage and a pipe up to the last block, the
// PHV.
#include "tofino/compile/placement.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tofino/small_program.h"
#include "tofino/limits.h"

namespace tributary::tofino {
namespace {

using ::testing::HasSubstr;
using testing::refusal;
using testing::SmallProgram;

/// Makes `count` tables; each reads the field that the previous one writes.
SmallProgram chain_of(uint32_t count) {
  SmallProgram p;
  FieldId before = p.b.metadata("m0", 8);
  for (uint32_t i = 0; i < count; i++) {
    const FieldId next = p.b.metadata(fmt::format("m{}", i + 1), 8);
    p.then(apply(p.always(fmt::format("t{}", i), {set(next, field(before))})));
    before = next;
  }
  return p;
}

TEST(Placement, RefusesAThirteenthStage) {
  const SmallProgram fits = chain_of(12);
  const auto placed = place(fits.b.program);
  ASSERT_TRUE(placed.has_value());
  EXPECT_EQ(placed->stages.size(), 12U);
  for (uint32_t i = 0; i < 12; i++) EXPECT_EQ(placed->stage_of[i], i);
  EXPECT_EQ(refusal(chain_of(13).b.program),
            "program 'small' needs 13 stages; a pipe has 12: table 't12' would be in stage 12 "
            "(counted from 0), because it depends (action, field 'm12') on table 't11' in "
            "stage 11");
}

TEST(Placement, ClassifiesDependencies) {
  SmallProgram p;
  const FieldId x = p.b.metadata("x", 8);
  const FieldId y = p.b.metadata("y", 8);
  const TableId writes = p.always("writes", {set(x, constant(1))});
  const TableId reads = p.always("reads", {set(y, field(x))});
  const TableId over = p.always("over", {set(x, constant(2))});
  const TableId under = p.always("under", {set(p.a(), constant(2))});
  p.then(apply(writes));
  p.then(apply(reads));
  p.then(when({{.field = y, .value = 1}}, {apply(under)}));
  p.then(apply(over));
  const auto placed = place(p.b.program);
  ASSERT_TRUE(placed.has_value());
  // writes: 0; reads (action): 1; the condition on y (match): 2; under (successor): 2; over (action
  // after writes, anti after reads): 1.
  EXPECT_EQ(placed->stage_of, (std::vector<uint32_t>{0, 1, 2, 2, 1}));
  std::vector<DependencyKind> kinds;
  for (const Dependency& d : dependencies_of(placed->units)) kinds.push_back(d.kind);
  EXPECT_EQ(kinds, (std::vector<DependencyKind>{DependencyKind::kAction, DependencyKind::kMatch,
                                                DependencyKind::kSuccessor, DependencyKind::kAction,
                                                DependencyKind::kAnti}));
}

TEST(Placement, ExclusiveBranchesShareAStage) {
  SmallProgram p;
  const FieldId x = p.b.metadata("x", 8);
  const TableId one = p.always("one", {set(x, constant(1))});
  const TableId two = p.always("two", {set(x, constant(2))});
  p.then(when({{.field = p.a(), .value = 1}}, {apply(one)}, {apply(two)}));
  const auto placed = place(p.b.program);
  ASSERT_TRUE(placed.has_value());
  EXPECT_EQ(placed->stages.size(), 1U);
}

Register plain_register(const std::string& name, uint32_t entries, uint32_t bits = 32) {
  return {.name = name, .bits = bits, .entries = entries, .actions = {{.name = "read"}}};
}

/// Makes one table per register, pinned to a stage if one is given.
SmallProgram with_registers(uint32_t count, uint32_t entries, std::optional<uint32_t> stage) {
  SmallProgram p;
  for (uint32_t i = 0; i < count; i++) {
    const std::string name = fmt::format("r{}", i);
    const RegisterId reg = p.b.add(plain_register(name, entries));
    const ActionId action =
        p.b.add(Action{.name = name, .register_calls = {{.reg = reg, .index = p.a()}}});
    p.then(apply(p.b.add(Table{.name = name, .default_action = action, .stage = stage})));
  }
  return p;
}

TEST(Placement, RefusesAFifthStatefulAluInAStage) {
  EXPECT_EQ(refusal(with_registers(4, 1024, 7).b.program), "");
  EXPECT_EQ(refusal(with_registers(5, 1024, 7).b.program),
            "program 'small': stage 7 needs 5 stateful ALUs with table 'r4'; a stage has 4");
  // Without a pin, the fifth goes to the next stage.
  const auto placed = place(with_registers(5, 1024, std::nullopt).b.program);
  ASSERT_TRUE(placed.has_value());
  EXPECT_EQ(placed->stages.size(), 2U);
  EXPECT_EQ(refusal(with_registers(48, 1024, std::nullopt).b.program), "");
  EXPECT_THAT(refusal(with_registers(49, 1024, std::nullopt).b.program),
              HasSubstr("needs 13 stages; a pipe has 12: table 'r48'"));
}

TEST(Placement, OneTableWithFiveStatefulAlusFitsNoStage) {
  SmallProgram p;
  Action action{.name = "five"};
  for (uint32_t i = 0; i < 5; i++) {
    action.register_calls.push_back(
        {.reg = p.b.add(plain_register(fmt::format("r{}", i), 8)), .index = p.a()});
  }
  const ActionId id = p.b.add(std::move(action));
  p.then(apply(p.b.add(Table{.name = "five", .default_action = id})));
  EXPECT_EQ(refusal(p.b.program),
            "program 'small': table 'five' needs 5 stateful ALUs; a stage has 4");
}

TEST(Placement, MapRamsLimitARegister) {
  // 48 map RAMs: 47 x 4096 words and a spare block.
  EXPECT_EQ(refusal(with_registers(1, 35 * 4096, 0).b.program), "");
  EXPECT_THAT(refusal(with_registers(1, 35 * 4096 + 1, 0).b.program),
              HasSubstr("register 'r0': takes 37 SRAM blocks; one ALU spans 36"));
  // Four registers of 11 + 1 blocks fill the map RAMs of a stage (SwitchML's largest pool).
  EXPECT_EQ(refusal(with_registers(4, 11 * 4096, 3).b.program), "");
  EXPECT_THAT(refusal(with_registers(4, 11 * 4096 + 1, 3).b.program),
              HasSubstr("stage 3 needs 52 map RAMs with table 'r3'; a stage has 48"));
}

TEST(Placement, LimitsTablesGatewaysAndCrossbarPerStage) {
  const auto tables = [](uint32_t count) {
    SmallProgram p;
    for (uint32_t i = 0; i < count; i++) {
      const FieldId x = p.b.metadata(fmt::format("x{}", i), 1);
      const TableId t = p.always(fmt::format("t{}", i), {set(x, constant(1))});
      p.b.program.tables[t].stage = 0;
      p.then(apply(t));
    }
    return refusal(p.b.program);
  };
  EXPECT_EQ(tables(16), "");
  EXPECT_THAT(tables(17), HasSubstr("stage 0 needs 17 logical tables with table 't16'"));
  const auto ternary = [](uint32_t count) {
    SmallProgram p;
    for (uint32_t i = 0; i < count; i++) {
      p.then(apply(p.b.add(Table{.name = fmt::format("t{}", i),
                                 .keys = {{p.a(), MatchKind::kTernary}},
                                 .size = 1,
                                 .stage = 2})));
    }
    return refusal(p.b.program);
  };
  EXPECT_EQ(ternary(8), "");
  EXPECT_THAT(ternary(9), HasSubstr("stage 2 needs 9 ternary tables with table 't8'"));
  const auto keys = [](uint32_t words, MatchKind kind) {
    SmallProgram p;
    Table table{.name = "wide", .size = 1};
    for (uint32_t i = 0; i < words; i++) {
      table.keys.push_back({p.b.metadata(fmt::format("k{}", i), 32), kind});
    }
    p.then(apply(p.b.add(std::move(table))));
    return refusal(p.b.program);
  };
  EXPECT_EQ(keys(32, MatchKind::kExact), "");  // 128 bytes.
  EXPECT_THAT(keys(33, MatchKind::kExact),
              HasSubstr("table 'wide' needs 132 exact crossbar bytes; a stage has 128"));
  EXPECT_EQ(keys(16, MatchKind::kTernary), "");  // 64 of 66 bytes.
  EXPECT_THAT(keys(17, MatchKind::kTernary),
              HasSubstr("needs 68 ternary crossbar bytes; a stage has 66"));
}

TEST(Placement, CountsTheMemoryOfTables) {
  SmallProgram p;
  const ActionId act = p.b.add(
      Action{.name = "act", .parameter_bits = {9}, .operations = {set(p.bb(), parameter(0))}});
  // Key 16 + version 4 + parameter 9 = 29 bits: 4 entries per row, 4096 per block.
  const auto memory = [&](std::vector<Key> keys, uint32_t size) {
    return memory_of(p.b.program,
                     Table{.name = "t", .keys = std::move(keys), .actions = {act}, .size = size});
  };
  EXPECT_EQ(memory({{p.a()}}, 8'192).sram_blocks, 2U);
  EXPECT_EQ(memory({{p.a()}}, 8'193).sram_blocks, 3U);
  EXPECT_EQ(memory({{p.a()}}, 8'193).hash_bits, 30U);
  // 16 + 4 bits of 44; 512 entries per block. Parameters of 9 bits, rounded to 16, 8 per row.
  EXPECT_EQ(memory({{p.a(), MatchKind::kTernary}}, 513).tcam_blocks, 2U);
  EXPECT_EQ(memory({{p.a(), MatchKind::kTernary}}, 513).sram_blocks, 1U);
}

TEST(Placement, FillsThePhvToTheLastByte) {
  // Ingress can have 48 containers of 32, 64 of 16 and 48 of 8 bits: 2944 bits. The header takes
  // two containers of 16 bits if tables use it.
  const auto with = [](uint32_t words, uint32_t halves, uint32_t bytes) {
    SmallProgram p;
    Table table{.name = "t"};
    std::vector<Operation> writes;
    const auto add = [&](uint32_t count, uint32_t bits) {
      for (uint32_t i = 0; i < count; i++) {
        writes.push_back(set(p.b.metadata(fmt::format("f{}_{}", bits, i), bits), constant(0)));
      }
    };
    add(words, 32);
    add(halves, 16);
    add(bytes, 8);
    p.then(apply(p.always("t", writes)));
    return refusal(p.b.program);
  };
  EXPECT_EQ(with(48, 64, 48), "");
  EXPECT_EQ(with(48, 64, 49),
            "program 'small': ingress PHV: field 'f8_48' (8 bits) finds no container; the fields "
            "before it take 2944 of the 2944 bits that ingress can have (of the chip's 4096)");
  EXPECT_EQ(with(64, 32, 48), "");  // 16 words, each in two halves.
  EXPECT_NE(with(64, 33, 48), "");
}

TEST(Placement, PinnedTableDelaysItsDependents) {
  SmallProgram p = chain_of(3);
  p.b.program.tables[1].stage = 5;
  const auto placed = place(p.b.program);
  ASSERT_TRUE(placed.has_value());
  EXPECT_EQ(placed->stage_of, (std::vector<uint32_t>{0, 5, 6}));
  p.b.program.tables[2].stage = 5;
  EXPECT_EQ(refusal(p.b.program),
            "program 'small': table 't2' is pinned to stage 5, but it depends (action, "
            "field 'm2') on table 't1' in stage 5");
  p.b.program.tables[2].stage = 12;
  EXPECT_THAT(refusal(p.b.program), HasSubstr("a pipe has 12 (0 to 11)"));
}

}  // namespace
}  // namespace tributary::tofino
