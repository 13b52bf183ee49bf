// SPDX-License-Identifier: Apache-2.0
#include "base/text_table.h"

#include <gtest/gtest.h>

namespace tributary {
namespace {

TEST(TextTable, ColumnsAreAsWideAsTheirWidestCell) {
  TextTable table({0});
  table.add({"name", "n"});
  table.add({"a", "1000"});
  table.add({"longer", "1"});
  EXPECT_EQ(table.text(),
            "  name       n\n"
            "  a       1000\n"
            "  longer     1\n");
}

TEST(TextTable, WidthCountsLettersNotBytes) {
  TextTable table;
  table.add({"x"});
  table.add({"±µs"});
  EXPECT_EQ(table.text(), "    x\n  ±µs\n");
}

TEST(TextTable, AcceptsShortLinesAndNoLines) {
  TextTable table({0, 1});
  EXPECT_EQ(table.text(), "");
  table.add({"a", "b"});
  table.add({"c"});
  table.add({});
  EXPECT_EQ(table.text(), "  a  b\n  c\n\n");
}

}  // namespace
}  // namespace tributary
