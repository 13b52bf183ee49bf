// SPDX-License-Identifier: Apache-2.0
#include "cli/serve/serve_status.h"

#include <gtest/gtest.h>

namespace tributary::cli {
namespace {

TEST(ServeStatus, CountsJobsMembersAndBlocks) {
  server::Snapshot snapshot;
  snapshot.jobs.resize(2);
  snapshot.jobs[0].sources.resize(3);
  snapshot.jobs[0].sources[1].state = server::SourceState::kMember;
  snapshot.jobs[0].sources[2].state = server::SourceState::kSilent;
  snapshot.jobs[0].blocks_total = 40;
  snapshot.jobs[1].sources.resize(1);
  snapshot.jobs[1].blocks_total = 2;
  EXPECT_EQ(status_line(snapshot), "2 jobs, 1 of 4 workers in sessions, 42 blocks");
}

}  // namespace
}  // namespace tributary::cli
