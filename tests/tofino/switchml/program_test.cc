// SPDX-License-Identifier: Apache-2.0
// Method: the resources of SwitchML and related programs against published counts; then the report.
#include "tofino/switchml/program.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tofino/small_program.h"
#include "tofino/compile/resource_report.h"
#include "tofino/limits.h"

namespace tributary::tofino {
namespace {

using ::testing::HasSubstr;
using testing::refusal;
using testing::SmallProgram;

TEST(SwitchmlProgram, FitsTwelveStagesWithTheCountedRegisters) {
  for (const uint32_t elements : {64U, 256U}) {
    const auto placed = place(switchml_program({.elements = elements}));
    ASSERT_TRUE(placed.has_value()) << placed.error().text;
    EXPECT_EQ(placed->stages.size(), 12U);
    // 32 for values, and one each for bitmap, count and exponents. The published program has two
    // more for RDMA: receiver and packet sequence numbers.
    EXPECT_EQ(placed->total(Resource::kStatefulAlus), 35U);
    // The operands alone take 2048 of 4096 bits.
    EXPECT_GE(placed->phv.ingress.bits(), 2048U);
  }
}

TEST(SwitchmlProgram, TimeoutsTakeTwoMoreAlusAndNoMoreStages) {
  const auto placed = place(switchml_program({.timeout = true}));
  ASSERT_TRUE(placed.has_value()) << placed.error().text;
  EXPECT_EQ(placed->stages.size(), 12U);
  EXPECT_EQ(placed->total(Resource::kStatefulAlus), 37U);  // Phase and age.
  // Each table that tests a worker's mark has one entry per worker: 36 of a block's 512 rows.
  EXPECT_EQ(placed->total(Resource::kTcamBlocks), 76U);
  EXPECT_EQ(place(switchml_program({}))->total(Resource::kTcamBlocks), 74U);
}

TEST(SwitchmlProgram, RegistersTakeTheirCountedSram) {
  // 16,384 pairs of 32 bits take 8 blocks and a spare one.
  EXPECT_EQ(alu_sram_blocks(16'384, 64), 9U);
  // The largest size that is not a power of two: 22,528 pairs, 4 x (11 + 1) = 48 map RAMs per
  // stage.
  EXPECT_EQ(alu_sram_blocks(22'528, 64), 12U);
  EXPECT_EQ(alu_sram_blocks(22'529, 64), 13U);
}

TEST(SwitchmlProgram, RefusesOneMoreOperandPerStage) {
  EXPECT_EQ(refusal(switchml_program({.processors_per_stage = 5})),
            "program 'switchml-64': stage 3 needs 5 stateful ALUs with table 'processor2'; a stage "
            "has 4");
  EXPECT_THAT(refusal(switchml_program({.processors = 36})),
              HasSubstr("program 'switchml-64' needs 13 stages; a pipe has 12"));
  // Three processors per stage need eleven stages after the first three.
  EXPECT_THAT(refusal(switchml_program({.processors_per_stage = 3})), HasSubstr("a pipe has 12"));
}

/// Makes only a program's registers, each in its own table. Their counts must agree exactly.
Placement registers_alone(uint32_t of_words, uint32_t entries) {
  SmallProgram p;
  for (uint32_t i = 0; i <= of_words; i++) {
    const std::string name = fmt::format("r{}", i);
    // The last register is a small one.
    const RegisterId reg = p.b.add(
        Register{.name = name, .entries = i < of_words ? entries : 1, .actions = {{.name = "x"}}});
    const ActionId action =
        p.b.add(Action{.name = name, .register_calls = {{.reg = reg, .index = p.a()}}});
    p.then(apply(p.b.add(Table{.name = name, .default_action = action})));
  }
  auto placed = place(p.b.program);
  EXPECT_TRUE(placed.has_value());
  return *placed;
}

TEST(SwitchmlProgram, AtpAndA2tpRegistersMatchThePaper) {
  // A2TP paper, Table 1: 75.00 % and 77.08 % of 48 ALUs. ATP has 35 registers of 40,000 words and a
  // small one: 35 x (10 + 1) + 2 = 387 blocks. A2TP has one more: the table's 11 blocks.
  const Placement atp = registers_alone(35, 40'000);
  EXPECT_EQ(atp.total(Resource::kStatefulAlus), 36U);
  EXPECT_EQ(atp.total(Resource::kSramBlocks), 387U);
  const Placement a2tp = registers_alone(36, 40'000);
  EXPECT_EQ(a2tp.total(Resource::kStatefulAlus), 37U);
  EXPECT_EQ(a2tp.total(Resource::kSramBlocks) - atp.total(Resource::kSramBlocks), 11U);
}

TEST(SwitchmlProgram, ResourceLimitsMatchThePublishedTable) {
  EXPECT_EQ(info_of(Resource::kCrossbarBytes).limit * kStages, 1'536U);
  EXPECT_EQ(info_of(Resource::kHashBits).limit * kStages, 4'992U);
  EXPECT_EQ(info_of(Resource::kGateways).limit * kStages, 192U);
  EXPECT_EQ(info_of(Resource::kSramBlocks).limit * kStages, 960U);
  EXPECT_EQ(info_of(Resource::kVliwRows).limit * kStages, 384U);
  EXPECT_EQ(info_of(Resource::kStatefulAlus).limit * kStages, 48U);
}

TEST(ResourceReport, JsonTotalsAddUp) {
  const auto program = make_named_program("switchml-64");
  ASSERT_TRUE(program.has_value());
  const auto placed = place(*program);
  ASSERT_TRUE(placed.has_value());
  const auto json = resources_json(*program, *placed);
  EXPECT_EQ(json["program"], "switchml-64");
  EXPECT_EQ(json["stages"], 12);
  EXPECT_EQ(json["stateful_alus"], 35);
  EXPECT_EQ(json["per_stage"].size(), 12U);
  for (uint32_t i = 0; i < kResourceCount; i++) {
    const char* key = info_of(static_cast<Resource>(i)).key;
    uint32_t sum = 0;
    for (const auto& stage : json["per_stage"]) sum += stage[key].get<uint32_t>();
    EXPECT_EQ(json[key], sum) << key;
    EXPECT_LE(json[key], json["limits"][key]) << key;
  }
  EXPECT_EQ(json["per_stage"][0]["table_names"][0], "receive");
}

TEST(ResourceReport, TextAndPictureNameEveryResource) {
  const auto program = make_named_program("switchml-256");
  ASSERT_TRUE(program.has_value());
  const auto placed = place(*program);
  ASSERT_TRUE(placed.has_value());
  const std::string text = resources_text(*program, *placed);
  const std::string svg = resources_svg(*program, *placed);
  for (uint32_t i = 0; i < kResourceCount; i++) {
    EXPECT_THAT(text, HasSubstr(info_of(static_cast<Resource>(i)).name));
    EXPECT_THAT(svg, HasSubstr(info_of(static_cast<Resource>(i)).name));
  }
  EXPECT_EQ(svg.substr(0, 4), "<svg");
  EXPECT_EQ(svg, resources_svg(*program, *placed));
}

TEST(ResourceReport, RefusalsNameTheProgramAsTheUserDoes) {
  EXPECT_EQ(refusal(*make_named_program("switchml-64-fifth-operand")),
            "program 'switchml-64-fifth-operand': stage 3 needs 5 stateful ALUs with table "
            "'processor2'; a stage has 4");
  EXPECT_THAT(refusal(*make_named_program("switchml-72")),
              HasSubstr("program 'switchml-72' needs 13 stages; a pipe has 12"));
}

TEST(ResourceReport, RefusesAnUnknownProgramAndListsTheNames) {
  const auto program = make_named_program("switchml-46");
  ASSERT_FALSE(program.has_value());
  EXPECT_THAT(program.error().text, HasSubstr("switchml-64"));
  for (const NamedProgram& named : named_programs()) {
    EXPECT_TRUE(make_named_program(named.name).has_value()) << named.name;
  }
}

}  // namespace
}  // namespace tributary::tofino
