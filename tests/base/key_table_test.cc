// SPDX-License-Identifier: Apache-2.0
// Method: hand-written rows first, then each refusal with its whole line, then random rows, written
// out from a map and read back.
#include "base/key_table.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <map>

#include "tests/support/seed.h"

namespace tributary {
namespace {

constexpr std::array<KeySpec, 6> kJobKeys{{
    {.name = "id", .type = KeyType::kUint, .help = "job", .max = 255, .required = true},
    {.name = "sources",
     .type = KeyType::kUint,
     .help = "workers",
     .default_text = "2",
     .min = 1,
     .max = 256},
    {.name = "mitigation", .type = KeyType::kBool, .help = "stragglers", .default_text = "off"},
    {.name = "timeout_ms",
     .type = KeyType::kDurationMs,
     .help = "straggler timeout",
     .default_text = "10",
     .min = 1,
     .max = 60'000},
    {.name = "group", .type = KeyType::kEndpoint, .help = "multicast group"},
    {.name = "label", .type = KeyType::kText, .help = "for reports"},
}};

const KeyTable& table() {
  static const KeyTable instance("job", kJobKeys);
  return instance;
}

std::string refusal(std::string_view text) {
  const auto row = table().parse(text);
  return row ? "accepted" : row.error().text;
}

TEST(KeyTable, ReturnsGivenValuesAndDefaults) {
  const auto row = table().parse("id=7,mitigation=on,timeout_ms=50,group=239.1.2.3:12000");
  ASSERT_TRUE(row.has_value()) << row.error().text;
  EXPECT_EQ(row->uint("id"), 7U);
  EXPECT_EQ(row->uint("sources"), 2U);
  EXPECT_TRUE(row->flag("mitigation"));
  EXPECT_EQ(row->duration("timeout_ms"), milliseconds(50));
  EXPECT_EQ(row->endpoint("group").to_string(), "239.1.2.3:12000");
  EXPECT_FALSE(row->has("label"));
  EXPECT_TRUE(row->is_written("id"));
  EXPECT_FALSE(row->is_written("sources"));
  EXPECT_EQ(row->where(), "--job");
}

TEST(KeyTable, AcceptsTheEndsOfARange) {
  EXPECT_EQ(table().parse("id=0,sources=1")->uint("sources"), 1U);
  EXPECT_EQ(table().parse("id=255,sources=256")->uint("sources"), 256U);
}

TEST(KeyTable, TextValuesMayContainEqualsSigns) {
  EXPECT_EQ(table().parse("id=1,label=a=b")->text("label"), "a=b");
}

TEST(KeyTable, RefusesUnknownKeysAndNamesTheNearest) {
  EXPECT_EQ(refusal("id=1,sorces=4"),
            "--job: unknown key 'sorces' (did you mean 'sources'?); "
            "allowed: id, sources, mitigation, timeout_ms, group, label");
  EXPECT_EQ(refusal("id=1,zzzz=4"),
            "--job: unknown key 'zzzz'; "
            "allowed: id, sources, mitigation, timeout_ms, group, label");
}

TEST(KeyTable, RefusesWrongTypes) {
  EXPECT_EQ(refusal("id=one"),
            "--job: id=one is not a whole number; allowed: a whole number from 0 to 255");
  EXPECT_EQ(refusal("id=1.5"),
            "--job: id=1.5 is not a whole number; allowed: a whole number from 0 to 255");
  EXPECT_EQ(refusal("id=-1"),
            "--job: id=-1 is not a whole number; allowed: a whole number from 0 to 255");
  EXPECT_EQ(refusal("id=1,mitigation=yes"),
            "--job: mitigation=yes is neither on nor off; allowed: on, off, true, false");
  EXPECT_EQ(refusal("id=1,group=nowhere"),
            "--job: group=nowhere is not an endpoint; "
            "allowed: address:port, as in 127.0.0.1:12000 or [::1]:12000");
}

TEST(KeyTable, RefusesValuesOutOfRange) {
  EXPECT_EQ(refusal("id=256"),
            "--job: id=256 is out of range; allowed: a whole number from 0 to 255");
  EXPECT_EQ(refusal("id=99999999999999999999999"),
            "--job: id=99999999999999999999999 is out of range; "
            "allowed: a whole number from 0 to 255");
  EXPECT_EQ(refusal("id=1,timeout_ms=0"),
            "--job: timeout_ms=0 is out of range; allowed: whole milliseconds from 1 to 60000");
}

TEST(KeyTable, RefusesIncompleteAndMalformedRows) {
  EXPECT_EQ(refusal("sources=2"),
            "--job: key 'id' is missing; allowed: a whole number from 0 to 255");
  EXPECT_EQ(refusal("id=1,id=2"), "--job: key 'id' is given twice; allowed: once");
  EXPECT_EQ(refusal("id="), "--job: id= is empty; allowed: a whole number from 0 to 255");
  EXPECT_EQ(refusal("id=1,label="), "--job: label= is empty; allowed: text that is not empty");
  const std::string keys = "id, sources, mitigation, timeout_ms, group, label";
  EXPECT_EQ(refusal("id"), "--job: 'id' is not key=value; allowed keys: " + keys);
  EXPECT_EQ(refusal(""), "--job: '' is not key=value; allowed keys: " + keys);
  EXPECT_EQ(refusal("id=1,"), "--job: '' is not key=value; allowed keys: " + keys);
  EXPECT_EQ(refusal("=1"), "--job: '=1' is not key=value; allowed keys: " + keys);
  EXPECT_EQ(KeyTable("none", {}).parse("id").error().text,
            "--none: 'id' is not key=value; allowed keys: none");
}

TEST(KeyTable, RefusesWrongTypesFromAFile) {
  const WrittenKey id{.name = "id", .text = "1", .type = WrittenType::kText, .where = "f.toml:2"};
  const auto row = table().read(std::array{id}, "f.toml:1");
  ASSERT_FALSE(row.has_value());
  EXPECT_EQ(row.error().text, "f.toml:2: id=1 is text; allowed: a whole number from 0 to 255");
  // On and off are words of a command line.
  const WrittenKey on{
      .name = "mitigation", .text = "on", .type = WrittenType::kText, .where = "f.toml:3"};
  EXPECT_EQ(table().read(std::array{on}, "f.toml:1").error().text,
            "f.toml:3: mitigation=on is text; allowed: true, false");
}

TEST(KeyTable, HelpNamesEachKeyWithItsRange) {
  const std::string help = table().help();
  EXPECT_NE(help.find("id: job (a whole number from 0 to 255; required)"), std::string::npos);
  EXPECT_NE(help.find("sources: workers (a whole number from 1 to 256; default 2)"),
            std::string::npos);
  EXPECT_NE(help.find("label: for reports (text that is not empty)"), std::string::npos);
}

TEST(KeyTable, TextMayHaveAllowedValues) {
  constexpr std::array<KeySpec, 1> kKeys{{{.name = "auth",
                                           .type = KeyType::kText,
                                           .help = "authentication",
                                           .default_text = "none",
                                           .allowed = "none, full"}}};
  const KeyTable table("job", kKeys);
  EXPECT_NE(table.help().find("auth: authentication (none, full; default none)"),
            std::string::npos);
  EXPECT_EQ(table.parse("auth=").error().text, "--job: auth= is empty; allowed: none, full");
}

TEST(KeyTableDeathTest, RejectsAWrongTable) {
  constexpr std::array<KeySpec, 2> kTwice{{{.name = "a"}, {.name = "a"}}};
  EXPECT_DEATH(KeyTable("t", kTwice), "");
  constexpr std::array<KeySpec, 1> kDefaultOutOfRange{
      {{.name = "a", .type = KeyType::kUint, .default_text = "9", .max = 8}}};
  EXPECT_DEATH(KeyTable("t", kDefaultOutOfRange), "");
}

TEST(KeyTableDeathTest, RejectsAGetterOfTheWrongType) {
  const auto row = table().parse("id=1");
  EXPECT_DEATH(static_cast<void>(row->flag("id")), "");
  EXPECT_DEATH(static_cast<void>(row->uint("absent")), "");
  EXPECT_DEATH(static_cast<void>(row->text("label")), "");  // Neither written nor defaulted.
}

TEST(UnknownName, SuggestsOnlySimilarNames) {
  const std::array<std::string, 2> allowed{"window", "world"};
  EXPECT_EQ(unknown_name("flag", "windw", allowed),
            "unknown flag 'windw' (did you mean 'window'?); allowed: window, world");
  EXPECT_EQ(unknown_name("flag", "x", allowed), "unknown flag 'x'; allowed: window, world");
  EXPECT_EQ(unknown_name("flag", "x", {}), "unknown flag 'x'; allowed: none");
}

TEST(UnknownName, AbbreviatesLongListsByTables) {
  std::vector<std::string> allowed{"seed", "link.loss", "host.cost", "link.rate"};
  EXPECT_EQ(unknown_name("key", "x", allowed),
            "unknown key 'x'; allowed: seed, link.loss, host.cost, link.rate");
  for (int i = 0; i < 20; i++) allowed.push_back("host." + std::to_string(i));
  EXPECT_EQ(unknown_name("key", "x", allowed), "unknown key 'x'; allowed: seed, link.*, host.*");
  for (const char* name : {"link", "link.x"}) {
    EXPECT_THAT(unknown_name("key", name, allowed),
                ::testing::EndsWith("; allowed: seed, link.loss, host.*, link.rate"));
  }
}

TEST(KeyTable, RandomRowsSurviveARoundTrip) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  testing::Prng prng(seed);
  for (uint32_t step = 0; step < 2'000; step++) {
    std::map<std::string, uint64_t> model{{"id", prng.below(300)}};
    if (prng.chance(0.5)) model["sources"] = prng.below(300);
    if (prng.chance(0.5)) model["timeout_ms"] = prng.below(70'000);
    std::string text;
    for (const auto& [name, value] : model) {
      text += (text.empty() ? "" : ",") + name + "=" + std::to_string(value);
    }
    const bool legal =
        model["id"] <= 255 &&
        (!model.contains("sources") || (model["sources"] >= 1 && model["sources"] <= 256)) &&
        (!model.contains("timeout_ms") ||
         (model["timeout_ms"] >= 1 && model["timeout_ms"] <= 60'000));
    const auto row = table().parse(text);
    ASSERT_EQ(row.has_value(), legal) << text;
    if (!legal) continue;
    EXPECT_EQ(row->uint("id"), model["id"]);
    EXPECT_EQ(row->uint("sources"), model.contains("sources") ? model["sources"] : 2);
    const uint64_t timeout_ms = model.contains("timeout_ms") ? model["timeout_ms"] : 10;
    EXPECT_EQ(row->duration("timeout_ms"), milliseconds(static_cast<int64_t>(timeout_ms)));
  }
}

TEST(KeyTable, RefusesNumbersOutsideTheirRange) {
  const KeySpec share{.name = "share", .type = KeyType::kNumber, .number_max = 1.0};
  const auto convert = [&share](std::string text, WrittenType type = WrittenType::kUntyped) {
    const auto value =
        convert_key(share, {.name = "share", .text = std::move(text), .type = type, .where = ""});
    return value ? fmt::format("{}", std::get<double>(*value)) : value.error().text;
  };
  const std::string allowed = "; allowed: a number from 0 to 1";
  EXPECT_EQ(convert("0.25"), "0.25");
  EXPECT_EQ(convert("1e-3"), "0.001");
  EXPECT_EQ(convert("1", WrittenType::kInteger), "1");
  EXPECT_EQ(convert("1.01"), "share=1.01 is out of range" + allowed);
  EXPECT_EQ(convert("-0.5"), "share=-0.5 is out of range" + allowed);
  EXPECT_EQ(convert("1e999"), "share=1e999 is out of range" + allowed);
  EXPECT_EQ(convert("nan"), "share=nan is not a number" + allowed);
  EXPECT_EQ(convert("0.5x"), "share=0.5x is not a number" + allowed);
  EXPECT_EQ(convert("true", WrittenType::kBool), "share=true is true or false" + allowed);
}

}  // namespace
}  // namespace tributary
