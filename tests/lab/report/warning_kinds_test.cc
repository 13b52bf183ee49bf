// SPDX-License-Identifier: Apache-2.0
// Method: warnings written by hand.
#include "lab/report/warning_kinds.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tributary::lab {
namespace {

TEST(WarningKinds, WarningsThatDifferInNumbersAreOneKind) {
  WarningKinds kinds;
  kinds.add_run("seed 1", {});
  kinds.add_run("seed 2", std::vector<std::string>{"1 of 6 workers dropped out",
                                                   "lasts 0.5 ms: set train=1"});
  kinds.add_run("seed 3", std::vector<std::string>{"2 of 6 workers dropped out"});
  kinds.add_run("seed 4", std::vector<std::string>{"lasts 12 ms: set train=1"});
  kinds.add_run("seed 5", std::vector<std::string>{"lasts 12. Set train=1"});
  EXPECT_EQ(kinds.runs(), 4U);
  ASSERT_EQ(kinds.kinds().size(), 3U);
  EXPECT_EQ(kinds.kinds()[0].first, "seed 2: 1 of 6 workers dropped out");
  EXPECT_EQ(kinds.kinds()[0].count, 2U);
  EXPECT_EQ(kinds.kinds()[1].first, "seed 2: lasts 0.5 ms: set train=1");
  EXPECT_EQ(kinds.kinds()[1].count, 2U);
  EXPECT_EQ(kinds.kinds()[2].count, 1U);
}

TEST(WarningKinds, NoRunHasNone) {
  const WarningKinds kinds;
  EXPECT_EQ(kinds.runs(), 0U);
  EXPECT_TRUE(kinds.kinds().empty());
}

}  // namespace
}  // namespace tributary::lab
