// SPDX-License-Identifier: Apache-2.0
#include "cli/lab/progress.h"

#include <gtest/gtest.h>

namespace tributary::cli {
namespace {

TEST(LabProgress, LineShowsPointsAndTime) {
  EXPECT_EQ(progress_line(0, 24, 0), "[                        ] 0 of 24 points, 0 s");
  EXPECT_EQ(progress_line(12, 24, 34),
            "[############            ] 12 of 24 points, 34 s, about 34 s left");
  EXPECT_EQ(progress_line(24, 24, 60), "[########################] 24 of 24 points, 60 s");
  EXPECT_EQ(progress_line(0, 0, 1), "[########################] 0 of 0 points, 1 s");
}

}  // namespace
}  // namespace tributary::cli
