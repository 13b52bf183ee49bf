// SPDX-License-Identifier: Apache-2.0
// Method: the texts and JSON of rows made by hand.
#include "engine/model/accounting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <source_location>

namespace tributary::engine {
namespace {

using ::testing::HasSubstr;

TEST(Accounting, TextsNameBudgetUseAndPlace) {
  const auto place = std::source_location::current();
  Accounting accounting{
      .program = "p",
      .program_instructions = 5,
      .instructions_per_packet = 2.5,
      .instructions_per_gradient = 1.1875,
      .instructions = {{.name = "parse",
                        .budget = {.register_reads = 1,
                                   .lmem_reads = 1,
                                   .register_writes = 1,
                                   .lmem_writes = 1},
                        .executed = 7,
                        .most = {.head_bytes = 3, .lmem_reads = 1, .register_writes = 1}}},
      .unpriced = {}};
  const std::string text = accounting_text(accounting);
  EXPECT_THAT(text, HasSubstr("program p, 5 different instructions, 2.5 executed per packet, "
                              "1.188 executed per gradient"));
  // LMEM reads and writes, register reads and writes. Nothing reported two of them.
  EXPECT_THAT(text,
              ::testing::ContainsRegex("parse +7 +1 of 1 +1 declared +1 declared +1 of 1 +3 +0\n"));
  EXPECT_THAT(text, HasSubstr("No code runs without a price."));

  accounting.unpriced = {{.after = {.mark = "parse", .reply = "read"},
                          .place = place,
                          .executed = 2,
                          .most = {.head_bytes = 6,
                                   .lmem_reads = 1,
                                   .lmem_writes = 2,
                                   .register_reads = 3,
                                   .register_writes = 4,
                                   .xtxns = 5}}};
  const std::string line = "tests/engine/model/accounting_test.cc:" + std::to_string(place.line());
  EXPECT_THAT(accounting_text(accounting), HasSubstr(line));
  EXPECT_THAT(unpriced_text(accounting),
              ::testing::ContainsRegex("parse +read +2 +1 +2 +3 +4 +6 +5\n"));

  const auto json = accounting_json(accounting);
  EXPECT_EQ(json["program"], "p");
  EXPECT_EQ(json["instructions_per_packet"], 2.5);
  EXPECT_EQ(json["instructions"][0]["budget"]["lmem_writes"], 1);
  EXPECT_EQ(json["instructions"][0]["measured"]["head_bytes"], 3);
  EXPECT_EQ(json["instructions"][0]["measured"]["lmem_writes"], 0);
  EXPECT_EQ(json["unpriced"][0]["place"], line);
  EXPECT_EQ(json["unpriced"][0]["after_instruction"], "parse");
  EXPECT_EQ(json["unpriced"][0]["after_reply"], "read");
  EXPECT_FALSE(unpriced_json(accounting).contains("instructions"));
  EXPECT_EQ(unpriced_json(accounting)["unpriced"], json["unpriced"]);
}

}  // namespace
}  // namespace tributary::engine
