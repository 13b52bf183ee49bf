// SPDX-License-Identifier: Apache-2.0
// Method: texts at and beyond each limit, strings and comments that look like keys, and all of them
//         through the parser.
#include "base/toml_limits.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/toml_file.h"
#include "tests/support/scratch_directory.h"

namespace tributary {
namespace {

std::string repeated(const std::string& part, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; i++) text += part;
  return text;
}

/// Returns a key of so many parts.
std::string key_of(size_t parts) { return repeated("a.", parts - 1) + "a"; }

/// Returns the error; empty: the text is within the limits.
std::string error_of(const std::string& text) {
  const auto checked = check_toml_limits(text, "x.toml");
  return checked ? "" : checked.error().text;
}

/// Returns whether the text is within the limits and TOML.
bool is_parsed(const std::string& text) {
  const testing::ScratchDirectory scratch;
  const std::string path = scratch.file("x.toml", text);
  return parse_toml_file(path, path).has_value();
}

TEST(TomlLimits, RefusesKeysOfManyParts) {
  const std::string refusal = "a key has more parts than allowed; allowed: 32";
  for (const std::string& text :
       {"[" + key_of(15'000) + "]\nb=1", "[[" + key_of(33) + "]]", key_of(33) + " = 1",
        "x = {" + key_of(33) + " = 1}", repeated("'a' . ", 32) + "\"a\" = 1"}) {
    EXPECT_EQ(error_of(text), "x.toml:1: " + refusal);
    EXPECT_FALSE(is_parsed(text));
  }
  EXPECT_EQ(error_of("a = '''\n\n'''\n# x\n" + key_of(33)), "x.toml:5: " + refusal);
}

TEST(TomlLimits, RefusesDeepValues) {
  const std::string refusal = "x.toml:2: more brackets are open than allowed; allowed: 32";
  EXPECT_EQ(error_of("\nx = " + repeated("[", 33)), refusal);
  EXPECT_EQ(error_of("\nx = " + repeated("{a=", 15'000)), refusal);
}

TEST(TomlLimits, DeepestTextIsParsed) {
  const std::string key = key_of(kTomlPartsMax);
  const std::string text = "[" + key + "]\n" + repeated(key + " = {", kTomlBracketsMax) + key +
                           " = 1" + repeated("}", kTomlBracketsMax);
  EXPECT_EQ(error_of(text), "");
  const testing::ScratchDirectory scratch;
  const std::string path = scratch.file("x.toml", text);
  const auto table = parse_toml_file(path, path);
  ASSERT_TRUE(table.has_value()) << table.error().text;
  EXPECT_EQ(keys_of(*table, path).size(), 1U);
}

TEST(TomlLimits, StringsAndCommentsHaveNoKeys) {
  const std::string many = key_of(100) + repeated("[", 100);
  for (const std::string& text :
       {"x = \"" + many + "\"", "x = '" + many + "'", "x = \"\\\"" + many + "\"",
        "x = '\\' # " + many, "x = \"\"\"\n\"" + many + "\\\"\"\"\n\"\"\"",
        "x = '''\n'" + many + "''\n'''", "x = \"\"\"a\"\"\"\"\"\n# " + many,
        "x = '''a'''''\n# '" + many, "x = \"\" # \"" + many, "\"" + many + "\" = 1",
        "# don't\nx = [" + repeated("1.5,", 1000) + "]"}) {
    EXPECT_EQ(error_of(text), "") << text;
    EXPECT_TRUE(is_parsed(text)) << text;
  }
}

TEST(TomlLimits, StringsEndWhereTheParserSaysSo) {
  for (const std::string before :
       {"x = \"a\\\\\"\n", "x = 'a\\'\n", "x = \"\"\"\"a\"\"\"\"\"\n", "x = ''''a'''''\n",
        "x = ''\n", "x = \"\"\n", "x = \"\"\"\"\"\"\n", "x = \"\"\"\\\n\"\"\"\n", "x = 1 # \"\n"}) {
    EXPECT_TRUE(is_parsed(before + "[b]\n")) << before;
    EXPECT_NE(error_of(before + "[" + key_of(33) + "]"), "") << before;
  }
  // No TOML, but the rest of the text counts.
  EXPECT_NE(error_of("x = \"open\n" + key_of(33)), "");
}

TEST(TomlLimits, FilesAreBoundedAndRegular) {
  const testing::ScratchDirectory scratch;
  const std::string path = scratch.file("x.toml", "#" + std::string(kTomlBytesMax - 1, 'x'));
  EXPECT_TRUE(parse_toml_file(path, path).has_value());
  std::ofstream(path, std::ios::app) << "x";
  EXPECT_EQ(parse_toml_file(path, "--config x").error().text,
            "--config x: is too large; allowed: a TOML file of 1048576 bytes");
  EXPECT_EQ(parse_toml_file("/dev/zero", "--config /dev/zero").error().text,
            "--config /dev/zero: is neither a file nor a pipe; allowed: a TOML file");
}

}  // namespace
}  // namespace tributary
