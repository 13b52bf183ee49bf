// SPDX-License-Identifier: Apache-2.0
// Method: for every limit of the chip, a program that just fits, and one that is refused with name,
// number and place.
#include "tofino/compile/check.h"

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

constexpr StatefulOperand kLow{StatefulSource::kLow};

Register counting_register(const std::string& name, uint32_t entries = 1024) {
  return {.name = name,
          .entries = entries,
          .actions = {
              {.name = "inc",
               .low = {{.op = StatefulOp::kAdd, .a = kLow, .b = {StatefulSource::kConstant, 1}}}}}};
}

/// Adds a table that calls its registers.
TableId calling(SmallProgram& p, const std::string& name,
                const std::vector<RegisterId>& registers) {
  Action action{.name = name};
  for (const RegisterId id : registers) {
    action.register_calls.push_back({.reg = id, .index = p.a()});
  }
  const ActionId id = p.b.add(std::move(action));
  return p.b.add(Table{.name = name, .default_action = id});
}

TEST(Check, AllowsOneRegisterAccessPerPass) {
  SmallProgram p;
  const RegisterId r = p.b.add(counting_register("r"));
  const TableId one = calling(p, "one", {r});
  const TableId two = calling(p, "two", {r});
  // A packet reaches only one of the two tables.
  p.then(when({{.field = p.a(), .value = 1}}, {apply(one)}, {apply(two)}));
  EXPECT_EQ(refusal(p.b.program), "");
  p.b.program.ingress.control = {apply(one), apply(two)};
  EXPECT_EQ(refusal(p.b.program),
            "program 'small': register 'r' is accessed by table 'one' and table 'two' in one pass; "
            "a register allows 1 access per packet");
  p.b.program.ingress.control = {apply(calling(p, "twice", {r, r}))};
  EXPECT_THAT(refusal(p.b.program), HasSubstr("accessed twice in one pass"));
}

TEST(Check, RegisterBelongsToOneGress) {
  SmallProgram p;
  const RegisterId r = p.b.add(counting_register("r"));
  p.then(apply(calling(p, "one", {r})));
  p.b.program.egress.control = {apply(calling(p, "two", {r}))};
  EXPECT_NE(refusal(p.b.program), "");
}

TEST(Check, ChecksStatefulAluCapabilities) {
  const auto with = [](RegisterAction action, bool pair = false) {
    SmallProgram p;
    Register reg = counting_register("r");
    reg.pair = pair;
    reg.actions = {std::move(action)};
    p.b.add(std::move(reg));
    return refusal(p.b.program);
  };
  const StatefulComparison comparison{.memory = StatefulSource::kLow};
  EXPECT_EQ(with({.name = "x", .comparisons = {comparison, comparison}}), "");
  EXPECT_THAT(with({.name = "x", .comparisons = {comparison, comparison, comparison}}),
              HasSubstr("register 'r', action 'x': 3 comparisons; a stateful ALU has 2"));
  EXPECT_THAT(
      with({.name = "x",
            .comparisons = {{.memory = StatefulSource::kLow, .input = StatefulSource::kHigh}}}),
      HasSubstr("a comparison takes memory, one input and one constant"));
  const StatefulUpdate first{.when = kIfFirst};
  const StatefulUpdate other{.when = kUnlessFirst};
  EXPECT_EQ(with({.name = "x", .comparisons = {comparison}, .low = {first, other}}), "");
  EXPECT_THAT(with({.name = "x", .comparisons = {comparison}, .low = {first, first}}),
              HasSubstr("can both apply; a word is changed 1 time per packet"));
  EXPECT_THAT(with({.name = "x", .low = {{.when = 1}, {.when = 2}, {.when = 4}}}),
              HasSubstr("3 updates of the low word; a stateful ALU has 2"));
  EXPECT_EQ(with({.name = "x", .high = {first}}, true), "");
  EXPECT_THAT(with({.name = "x", .high = {first}}), HasSubstr("not a pair"));
}

TEST(Check, ChecksRegisterConstantsActionsAndWidths) {
  const auto with_constants = [](uint32_t count) {
    SmallProgram p;
    Register reg = counting_register("r");
    reg.actions.clear();
    for (uint32_t i = 0; i < count; i++) {
      RegisterAction action{.name = "x"};
      action.low = {{.when = 1, .a = {StatefulSource::kConstant, 100 + 2 * i}},
                    {.when = 2, .a = {StatefulSource::kConstant, 101 + 2 * i}}};
      reg.actions.push_back(action);
    }
    p.b.add(std::move(reg));
    return refusal(p.b.program);
  };
  EXPECT_EQ(with_constants(2), "");
  EXPECT_THAT(with_constants(3), HasSubstr("use 6 constants outside -8 to 7; a register allows 4"));
  const auto with_actions = [](uint32_t count) {
    SmallProgram p;
    Register reg = counting_register("r");
    reg.actions.assign(count, RegisterAction{.name = "x"});
    p.b.add(std::move(reg));
    return refusal(p.b.program);
  };
  EXPECT_EQ(with_actions(4), "");
  EXPECT_THAT(with_actions(5), HasSubstr("register 'r': 5 actions; a register allows 4"));
  SmallProgram p;
  Register reg = counting_register("r");
  reg.bits = 24;
  p.b.add(reg);
  EXPECT_THAT(refusal(p.b.program), HasSubstr("words of 24 bits; allowed: 1, 8, 16 or 32"));
}

TEST(Check, ActionsReadNoFieldTheyHaveWritten) {
  SmallProgram p;
  p.then(apply(p.always("good", {set(p.a(), field(p.bb())), set(p.bb(), constant(1))})));
  EXPECT_EQ(refusal(p.b.program), "");
  p.b.program.ingress.control = {
      apply(p.always("bad", {set(p.a(), constant(1)), set(p.bb(), field(p.a()))}))};
  EXPECT_THAT(refusal(p.b.program),
              HasSubstr("action 'bad': field 'h.a' is read after the same action has written it"));
  SmallProgram q;
  q.then(apply(q.always("twice", {set(q.a(), constant(1)), set(q.a(), constant(2))})));
  EXPECT_THAT(refusal(q.b.program), HasSubstr("is written twice"));
}

TEST(Check, EntriesMatchTheirTable) {
  SmallProgram p;
  const ActionId act = p.b.add(
      Action{.name = "act", .parameter_bits = {4}, .operations = {set(p.bb(), parameter(0))}});
  Table table{.name = "t", .keys = {{p.a()}}, .actions = {act}, .size = 1};
  table.entries = {{.keys = {{5}}, .action = act, .parameters = {15}}};
  const TableId id = p.b.add(table);
  p.then(apply(id));
  EXPECT_EQ(refusal(p.b.program), "");
  const auto with = [&](std::vector<Entry> entries) {
    p.b.program.tables[id].entries = std::move(entries);
    return refusal(p.b.program);
  };
  EXPECT_THAT(with({{.keys = {{0x10000}}, .action = act, .parameters = {1}}}),
              HasSubstr("65536 does not fit the 16 bits of key 'h.a'"));
  EXPECT_THAT(with({{.keys = {{5, 0xff}}, .action = act, .parameters = {1}}}),
              HasSubstr("key 'h.a' is exact and takes no mask"));
  EXPECT_THAT(with({{.keys = {{5}}, .action = act, .parameters = {16}}}),
              HasSubstr("16 does not fit the 4 bits of parameter 0"));
  EXPECT_THAT(with({{.keys = {{5}}, .action = act}}), HasSubstr("takes 1 parameters, not 0"));
  EXPECT_THAT(with({{.keys = {}, .action = act, .parameters = {1}}}),
              HasSubstr("an entry has 0 keys; the table has 1"));
  EXPECT_THAT(with(std::vector<Entry>(2, Entry{{{5}}, act, {1}})),
              HasSubstr("table 't' has 2 entries; its size is 1"));
}

TEST(Check, ChecksTheBitsThatAGatewayReads) {
  SmallProgram p;
  const FieldId wide = p.b.metadata("wide", 28);
  const FieldId one = p.b.metadata("one", 1);
  const TableId t = p.always("t", {set(p.bb(), constant(1))});
  p.then(when({{.field = p.a()}, {.field = wide}}, {apply(t)}));  // 16 + 28 = 44 bits.
  EXPECT_EQ(refusal(p.b.program), "");
  p.b.program.ingress.control[0].terms.push_back({.field = one, .value = 1});
  EXPECT_THAT(refusal(p.b.program), HasSubstr("reads 45 bits; a gateway reads 44"));
}

TEST(Check, ChecksParserRowsDepthAndOrder) {
  // 255 transitions and the default take 256 rows; extracting the header takes no further row.
  SmallProgram p;
  ParserState& start = p.b.program.ingress.parser[0];
  start.select = {p.a()};
  for (uint32_t i = 0; i < 255; i++) start.transitions.push_back({{exactly(i)}, kAccept});
  EXPECT_EQ(refusal(p.b.program), "");
  start.transitions.push_back({{exactly(255)}, kAccept});
  EXPECT_THAT(refusal(p.b.program), HasSubstr("ingress parser takes 257 rows; a parser has 256"));
  start.transitions = {Transition{.matches = {exactly(0)}, .next = 0}};
  EXPECT_THAT(refusal(p.b.program), HasSubstr("state 'start' can follow itself"));
  start.select = {p.a(), p.bb(), p.b.metadata("m", 1)};
  start.transitions.clear();
  EXPECT_THAT(refusal(p.b.program), HasSubstr("selects on 33 bits; a row matches 32"));
  start.select = {p.a()};
  start.transitions = {Transition{.matches = {exactly(0x1'0000)}, .next = kAccept}};
  EXPECT_THAT(refusal(p.b.program), HasSubstr("no value of field 'h.a' (16 bits) matches 0x10000"));
  start.transitions = {Transition{.matches = {{0x12, 0x10}}, .next = kAccept}};
  EXPECT_THAT(refusal(p.b.program), HasSubstr("matches 0x12 with the mask 0x10"));
}

TEST(Check, EgressParserDepthIsLimited) {
  const auto with = [](uint32_t words) {
    SmallProgram p;
    std::vector<ProgramBuilder::FieldShape> fields;
    for (uint32_t i = 0; i < words; i++) fields.push_back({fmt::format("{}", i), 32});
    const HeaderId big = p.b.header("big", fields);
    p.b.program.egress.parser[0].extracts.push_back(big);
    return refusal(p.b.program);
  };
  EXPECT_EQ(with(39), "");  // 4 + 156 = 160 bytes.
  EXPECT_THAT(with(40), HasSubstr("egress parser reads up to 164 bytes; at most 160 are allowed"));
}

TEST(Check, RefusesReferencesToMissingParts) {
  SmallProgram p;
  p.then(apply(7));
  EXPECT_THAT(refusal(p.b.program), HasSubstr("table 7 does not exist; there are 0"));
  SmallProgram q;
  q.then(apply(q.always("t", {set(500, constant(1))})));
  EXPECT_THAT(refusal(q.b.program), HasSubstr("action 't': field 500 does not exist"));
}

TEST(Check, RefusesATableAppliedTwice) {
  SmallProgram p;
  const TableId t = p.always("t", {set(p.bb(), constant(1))});
  p.b.program.ingress.control = {apply(t), apply(t)};
  EXPECT_THAT(refusal(p.b.program), HasSubstr("table 't' is applied twice"));
}

}  // namespace
}  // namespace tributary::tofino
