// SPDX-License-Identifier: Apache-2.0
// Method: every name, there and back.
#include "auth/mode.h"

#include <gtest/gtest.h>

#include <string>

namespace tributary::auth {
namespace {

TEST(Mode, NamesAreReadBack) {
  for (const Mode mode : {Mode::kNone, Mode::kHeader, Mode::kFull}) {
    EXPECT_EQ(parse_mode(to_string(mode)), mode);
  }
  EXPECT_EQ(to_string(Mode::kFull), std::string("full"));
  EXPECT_FALSE(parse_mode("Full").has_value());
  EXPECT_FALSE(parse_mode("").has_value());
}

TEST(Mode, SealsHaveTheSizesOfTheWireFormat) {
  EXPECT_EQ(seal_bytes(Mode::kNone), 0U);
  EXPECT_EQ(seal_bytes(Mode::kHeader), 16U);
  EXPECT_EQ(seal_bytes(Mode::kFull), 24U);
}

}  // namespace
}  // namespace tributary::auth
