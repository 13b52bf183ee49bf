// SPDX-License-Identifier: Apache-2.0
// Method: captures standard error and compares it with the expected text.
#include "base/signal_safe_text.h"

#include <gtest/gtest.h>

#include <string>

namespace tributary {
namespace {

std::string text_of(int64_t number) {
  ::testing::internal::CaptureStderr();
  write_error_number(number);
  return ::testing::internal::GetCapturedStderr();
}

TEST(SignalSafeText, WritesATextAsItIs) {
  ::testing::internal::CaptureStderr();
  write_error_text("core ");
  write_error_text("");
  write_error_text("7\n");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "core 7\n");
}

TEST(SignalSafeText, WritesAllDigitsOfANumber) {
  EXPECT_EQ(text_of(0), "0");
  EXPECT_EQ(text_of(11), "11");
  EXPECT_EQ(text_of(UINT32_MAX), "4294967295");
  EXPECT_EQ(text_of(INT64_MAX), "9223372036854775807");
  EXPECT_EQ(text_of(INT64_MIN), "-9223372036854775808");
}

}  // namespace
}  // namespace tributary
