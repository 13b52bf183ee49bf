// SPDX-License-Identifier: Apache-2.0
// Method: a small run of each program, whose counts are worked out by hand; then the texts of a
// node made by hand. tests/engine/model/accounting_test.cc has the texts of rows.
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

const microcode::AccessMeter::InstructionRow* find(const engine::Accounting& node,
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
  const engine::Accounting& node = observer.nodes()[0].measured;
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
  const auto& rows = observer.nodes().at(0).measured.unpriced;
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

TEST(Accounting, TextsAndJsonNameTheNode) {
  const NodeAccounting node{.node = "switch",
                            .measured = {.program = "p", .instructions = {}, .unpriced = {}}};
  EXPECT_EQ(accounting_text(node), "switch: " + engine::accounting_text(node.measured));
  EXPECT_EQ(unpriced_text(node), "switch, program p: No code runs without a price.\n");
  for (const std::string& text : {accounting_json({node, node}), unpriced_json({node, node})}) {
    const auto json = nlohmann::json::parse(text);
    ASSERT_EQ(json.size(), 2U);
    EXPECT_EQ(json[1]["node"], "switch");
    EXPECT_EQ(json[1]["program"], "p");
    EXPECT_TRUE(json[1]["unpriced"].empty());
  }
}

}  // namespace
}  // namespace tributary::lab
