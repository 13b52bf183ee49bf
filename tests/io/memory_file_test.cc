// SPDX-License-Identifier: Apache-2.0
#include "io/memory_file.h"

#include <gtest/gtest.h>

#include <fstream>

namespace tributary::io {
namespace {

TEST(MemoryFile, HoldsWhatOthersWriteToItsPath) {
  const auto first = MemoryFile::create();
  const auto second = MemoryFile::create();
  ASSERT_TRUE(first && second);
  EXPECT_NE(first->path(), second->path());
  std::ofstream(first->path(), std::ios::binary) << "first";
  EXPECT_EQ(first->read().value_or("nothing"), "first");
  EXPECT_EQ(second->read().value_or("nothing"), "");
}

}  // namespace
}  // namespace tributary::io
