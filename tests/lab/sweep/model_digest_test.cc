// SPDX-License-Identifier: Apache-2.0
#include "lab/sweep/model_digest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tributary::lab {
namespace {

TEST(ModelDigest, IsSixteenHexadecimalDigits) {
  EXPECT_THAT(model_digest(), ::testing::MatchesRegex("[0-9a-f]{16}"));
  EXPECT_EQ(model_digest(), model_digest());
}

}  // namespace
}  // namespace tributary::lab
