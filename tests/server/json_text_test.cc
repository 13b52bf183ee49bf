// SPDX-License-Identifier: Apache-2.0
#include "server/json_text.h"

#include <gtest/gtest.h>

namespace tributary::server {
namespace {

TEST(JsonText, ReplacesBytesThatAreNotUtf8) {
  EXPECT_EQ(json_text(nlohmann::json{{"name", "a\xff"}}), "{\"name\":\"a\xef\xbf\xbd\"}");
  EXPECT_EQ(json_text(nlohmann::json("\xc3\xa9")), "\"\xc3\xa9\"");
}

TEST(JsonText, KeepsTheOrderOfOrderedJson) {
  EXPECT_EQ(json_text(nlohmann::ordered_json{{"b", 1}, {"a", 2}}), R"({"b":1,"a":2})");
  EXPECT_EQ(json_text(nlohmann::json{{"b", 1}, {"a", 2}}), R"({"a":2,"b":1})");
}

TEST(JsonText, IndentsOnRequest) {
  EXPECT_EQ(json_text(nlohmann::json{{"a", {1}}}, 2), "{\n  \"a\": [\n    1\n  ]\n}");
}

}  // namespace
}  // namespace tributary::server
