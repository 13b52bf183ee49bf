// SPDX-License-Identifier: Apache-2.0
// Method:  values worked by hand.
#include "bench/measure.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdlib>
#include <fstream>
#include <string>

namespace tributary::bench {
namespace {

TEST(Quantile, InterpolatesBetweenSortedValues) {
  EXPECT_DOUBLE_EQ(quantile({3, 1, 2}, 0.5), 2);
  EXPECT_DOUBLE_EQ(quantile({4, 1, 2, 3}, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(quantile({4, 1, 2, 3}, 0.25), 1.75);
  EXPECT_DOUBLE_EQ(quantile({7}, 0.75), 7);
  EXPECT_DOUBLE_EQ(quantile({1, 9}, 1.0), 9);
  EXPECT_DOUBLE_EQ(median({9, 1, 4}), 4);
}

TEST(TextOf, ReturnsEmptyTextIfReadingFails) {
  const ScratchFolder folder;
  std::ofstream(folder.path() / "two_lines") << "a\nb\n";
  EXPECT_EQ(text_of(folder.path() / "two_lines"), "a\nb\n");
  EXPECT_EQ(text_of(folder.path() / "absent"), "");
  // Opens, but nothing is mapped at 0, so read() fails, as for a file of a process that has just
  // ended.
  EXPECT_EQ(text_of("/proc/self/mem"), "");
}

TEST(ScratchFolder, DestructorRemovesTheFolderAndItsContent) {
  std::filesystem::path path;
  {
    const ScratchFolder one;
    const ScratchFolder other;
    path = one.path();
    EXPECT_NE(path, other.path());
    std::filesystem::create_directory(path / "inner");
    std::ofstream(path / "inner" / "file") << "content";
    EXPECT_TRUE(std::filesystem::exists(path / "inner" / "file"));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(ScratchFolder, PathIsEmptyIfTheFolderCannotBeMade) {
  const char* const before = std::getenv("TMPDIR");
  const std::string kept = before == nullptr ? "" : before;
  ::setenv("TMPDIR", "/nowhere", 1);
  EXPECT_TRUE(ScratchFolder().path().empty());
  if (before == nullptr) {
    ::unsetenv("TMPDIR");
  } else {
    ::setenv("TMPDIR", kept.c_str(), 1);
  }
}

}  // namespace
}  // namespace tributary::bench
