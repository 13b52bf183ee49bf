// SPDX-License-Identifier: Apache-2.0
#include "cli/version.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace tributary::cli {
namespace {

using ::testing::HasSubstr;

TEST(Version, NamesCommitCompilerFlagsAndFeatures) {
  const std::string text = version_text();
  EXPECT_THAT(text, ::testing::StartsWith("tributary " + std::string(program_version()) + "\n"));
  EXPECT_THAT(text, HasSubstr("\ncommit: " + std::string(program_commit()) + "\n"));
#ifdef __clang__
  EXPECT_THAT(text, HasSubstr("\ncompiler: Clang " + std::to_string(__clang_major__) + "."));
#else
  EXPECT_THAT(text, HasSubstr("\ncompiler: GNU " + std::to_string(__GNUC__) + "."));
#endif
  EXPECT_THAT(text, HasSubstr("\nflags: -"));
  for (const char* part : {"dpdk", "gmac", "grpc", "mpi"}) {
    EXPECT_THAT(text, ::testing::AnyOf(HasSubstr(std::string("+") + part),
                                       HasSubstr(std::string("-") + part)));
  }
}

}  // namespace
}  // namespace tributary::cli
