// SPDX-License-Identifier: Apache-2.0
// Method: environments as launchers set them. tests/system tests processes that mpirun starts.
#include "lab/sweep/ranks.h"

#include <gtest/gtest.h>
#include <stdlib.h>

namespace tributary::lab {
namespace {

TEST(Ranks, ReadsTheCountFromTheLauncher) {
  unsetenv("OMPI_COMM_WORLD_SIZE");
  unsetenv("PMI_SIZE");
  unsetenv("PMIX_SIZE");
  EXPECT_EQ(launched_count(), 1);
  setenv("PMI_SIZE", "3", 1);
  EXPECT_EQ(launched_count(), 3);
  setenv("PMI_SIZE", "what", 1);
  EXPECT_EQ(launched_count(), 1);
  unsetenv("PMI_SIZE");
}

TEST(Ranks, SingleProcessIsRankZeroOfOne) {
  auto ranks = Ranks::join();
  ASSERT_TRUE(ranks);
  EXPECT_EQ(ranks->rank(), 0);
  EXPECT_EQ(ranks->count(), 1);
  ranks->wait_for_all();
  ranks->abandon(1);  // No process waits, so this has no effect.
}

}  // namespace
}  // namespace tributary::lab
