// SPDX-License-Identifier: Apache-2.0
/// @file
/// A folder for the control sockets of one test, so that its commands see no other server of the
/// machine.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <string>

#include "tests/system/process.h"

namespace tributary::system_test {

/// Runs a command to its end. @return its standard output, or its errors if it fails.
inline std::string run(const std::vector<std::string>& words, int status = 0) {
  Process process(words);
  EXPECT_EQ(process.wait_for_end(), status) << process.errors();
  return status == 0 ? process.output() : process.errors();
}

class ControlFolder : public ::testing::Test {
 protected:
  ControlFolder() {
    const auto* const test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = scratch(std::string(test->name()) + "_run");
    setenv("RUNTIME_DIRECTORY", folder_.c_str(), /*overwrite=*/1);
  }
  ~ControlFolder() override { unsetenv("RUNTIME_DIRECTORY"); }

  std::string folder_;
};

}  // namespace tributary::system_test
