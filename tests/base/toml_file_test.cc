// SPDX-License-Identifier: Apache-2.0
#include "base/toml_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/scratch_directory.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

TEST(TomlFile, KeepsTheOrderAndPlaceOfKeys) {
  const testing::ScratchDirectory scratch;
  const std::string path = scratch.file("a.toml", R"(zebra = 1
[link]
rate = 2.5
names = ["b", "a"]
[link.inner]
on = true
[other]
nested = [[1], [2]]
day = 2020-01-01
)");
  const auto file = parse_toml_file(path, path);
  ASSERT_TRUE(file) << file.error().text;
  const std::vector<WrittenKey> keys = keys_of(*file, "a.toml");
  ASSERT_EQ(keys.size(), 6);
  EXPECT_EQ(keys[0].name, "zebra");
  EXPECT_EQ(keys[0].type, WrittenType::kInteger);
  EXPECT_EQ(keys[0].where, "a.toml:1");
  EXPECT_EQ(keys[1].name, "link.rate");
  EXPECT_EQ(keys[1].text, "2.5");
  EXPECT_EQ(keys[1].type, WrittenType::kNumber);
  EXPECT_EQ(keys[2].text, "b,a");
  EXPECT_EQ(keys[2].type, WrittenType::kUntyped);
  EXPECT_EQ(keys[3].name, "link.inner.on");
  EXPECT_EQ(keys[3].type, WrittenType::kBool);
  EXPECT_EQ(keys[4].text, "[…]");
  EXPECT_EQ(keys[4].type, WrittenType::kOther);
  EXPECT_EQ(keys[5].text, "(a date or time)");
  EXPECT_EQ(keys[5].where, "a.toml:9");
}

TEST(TomlFile, RefusalsNameTheFile) {
  const testing::ScratchDirectory scratch;
  EXPECT_THAT(parse_toml_file("/none/x.toml", "--config /none/x.toml").error().text,
              HasSubstr("--config /none/x.toml: cannot be read: "));
  const std::string path = scratch.file("bad.toml", "a = 1\n\nb = \n");
  EXPECT_THAT(parse_toml_file(path, path).error().text, HasSubstr("bad.toml:3: is not TOML: "));
  const std::string address = scratch.file("address.toml", "listen = 127.0.0.1:12000\n");
  EXPECT_THAT(parse_toml_file(address, address).error().text,
              HasSubstr("texts and addresses need quotes"));
  EXPECT_EQ(parse_toml_file(scratch.path(), "--config folder").error().text,
            "--config folder: is a folder; allowed: a TOML file");
}

}  // namespace
}  // namespace tributary
