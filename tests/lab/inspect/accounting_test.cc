// SPDX-License-Identifier: Apache-2.0
// Method: a small run of each program, whose counts are worked out by hand; then the texts of rows
// made by hand.
#include "lab/inspect/accounting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "lab/run.h"

namespace tributary::lab {
namespace {

using ::testing::HasSubstr;

/// Two workers add two blocks in one iteration.
Scenario small(Backend backend) {
  Scenario scenario;
  scenario.backend = backend;
  scenario.workers = 2;
  scenario.iterations = 1;
  scenario.window = 64;
  scenario.mitigation.history = 8;
  scenario.model = {.kind = Model::kCustom, .bucket_bytes = {8192}, .forward = {}, .backward = {}};
  return scenario;
}

const microcode::AccessMeter::InstructionRow* find(const NodeAccounting& node,
                                                   std::string_view name) {
  const auto found =
      std::find_if(node.instructions.begin(), node.instructions.end(),
                   [&](const auto& row) { return std::string_view(row.name) == name; });
  return found == node.instructions.end() ? nullptr : &*found;
}

TEST(Accounting, TrioMlReadsItsHeadersInTwoInstructions) {
  AccountingObserver observer("");
  const auto result = run_scenario(small(Backend::kTrioMl), nullptr, &observer);
  ASSERT_TRUE(result) << result.error().text;
  ASSERT_EQ(observer.nodes().size(), 1U);
  const NodeAccounting& node = observer.nodes()[0];
  EXPECT_EQ(node.program, "trio-ml");
  EXPECT_NEAR(node.program_instructions, 60, 6);           // Trio paper §6.3.
  EXPECT_NEAR(node.instructions_per_gradient, 1.2, 0.05);  // Likewise.
  // The header has 12 bytes, the extension 20: each instruction reads 16 of them.
  for (const char* const name : {"parse_header", "check_header"}) {
    const auto* const row = find(node, name);
    ASSERT_NE(row, nullptr) << name;
    EXPECT_EQ(row->most.head_bytes, 16U) << name;
    EXPECT_EQ(row->most.lmem_reads, 2U) << name;
    EXPECT_GE(row->executed, 4U) << name;
  }
  EXPECT_EQ(find(node, "count")->most.xtxns, 2U);  // The counter, then the block's record.
  EXPECT_EQ(find(node, "parse_ip"), nullptr);      // The port has removed the headers.
}

TEST(Accounting, ReportsTheLookUpThatNoInstructionIssues) {
  AccountingObserver observer("");
  ASSERT_TRUE(run_scenario(small(Backend::kTrioMl), nullptr, &observer));
  // After the reply with the job, the thread asks for the block.
  const auto& rows = observer.nodes().at(0).unpriced;
  const bool any = std::any_of(rows.begin(), rows.end(), [](const auto& row) {
    return std::string_view(row.place.file_name()).ends_with("apps/trio_ml/contribution.h") &&
           row.after.mark == std::string_view("check_header") &&
           row.after.reply == std::string_view("hash lookup") && row.most.xtxns == 1;
  });
  EXPECT_TRUE(any) << accounting_text(observer.nodes()[0]);
}

TEST(Accounting, MeasuringKeepsTheDigest) {
  AccountingObserver observer("");
  const auto plain = run_scenario(small(Backend::kTrioMl));
  const auto measured = run_scenario(small(Backend::kTrioMl), nullptr, &observer);
  ASSERT_TRUE(plain && measured);
  EXPECT_EQ(measured->digest, plain->digest);
}

TEST(Accounting, UnknownNodesAndRunsWithoutAProgramAreRefused) {
  AccountingObserver unknown("nowhere");
  const auto refused = run_scenario(small(Backend::kTrioMl), nullptr, &unknown);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().text, HasSubstr("nowhere"));
  AccountingObserver nothing("");
  const auto without = run_scenario(small(Backend::kIdeal), nullptr, &nothing);
  ASSERT_FALSE(without);
  EXPECT_THAT(without.error().text, HasSubstr("no packet program runs on a modelled Trio"));
}

TEST(Accounting, TextsNameBudgetUseAndPlace) {
  const auto place = std::source_location::current();
  NodeAccounting node{.node = "switch",
                      .program = "p",
                      .program_instructions = 5,
                      .instructions_per_gradient = 1.1875,
                      .instructions = {{.name = "parse",
                                        .budget = {.register_reads = 1, .lmem_reads = 1},
                                        .executed = 7,
                                        .most = {.head_bytes = 3, .lmem_reads = 1}}},
                      .unpriced = {}};
  EXPECT_THAT(
      accounting_text(node),
      HasSubstr("switch: program p, 5 different instructions, 1.188 executed per gradient"));
  EXPECT_THAT(accounting_text(node), HasSubstr("1 of 1"));
  EXPECT_THAT(accounting_text(node), HasSubstr("1 declared"));
  EXPECT_THAT(accounting_text(node), HasSubstr("0 of 0"));
  EXPECT_THAT(accounting_text(node), HasSubstr("No code runs without a price."));

  node.unpriced = {{.after = {.mark = "parse", .reply = "read"},
                    .place = place,
                    .executed = 2,
                    .most = {.xtxns = 1}}};
  const std::string line = "tests/lab/inspect/accounting_test.cc:" + std::to_string(place.line());
  EXPECT_THAT(accounting_text(node), HasSubstr(line));

  const auto json = nlohmann::json::parse(accounting_json({node}));
  ASSERT_EQ(json.size(), 1U);
  EXPECT_EQ(json[0]["instructions"][0]["budget"]["lmem_reads"], 1);
  EXPECT_EQ(json[0]["instructions"][0]["measured"]["head_bytes"], 3);
  EXPECT_EQ(json[0]["unpriced"][0]["place"], line);
  EXPECT_EQ(json[0]["unpriced"][0]["after_instruction"], "parse");
  EXPECT_EQ(json[0]["unpriced"][0]["after_reply"], "read");
}

}  // namespace
}  // namespace tributary::lab
