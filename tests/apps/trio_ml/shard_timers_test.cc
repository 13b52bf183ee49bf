// SPDX-License-Identifier: Apache-2.0
// Method: a live machine over an in-memory queue in virtual time. Tests how long a core may sleep,
// and that timers run when they are due although not every burst checks each of them.
#include <gtest/gtest.h>

#include "apps/trio_ml/app.h"
#include "engine/live/live_machine.h"
#include "io/memory/in_memory_port.h"

namespace tributary::trio_ml {
namespace {

class ShardTimers : public ::testing::TestWithParam<uint32_t> {
 protected:
  static constexpr uint32_t kShards = 2;

  ShardTimers()
      : session_(config_, auth::key_of_seed(1)),
        shard_(GetParam(), kShards, wire::kTrioMlPort, *memory_) {
    EXPECT_TRUE(shard_.add_job(config_, session_, Instant()).has_value());
  }

  const JobConfig config_{.sources = 2, .block_cnt_max = 128, .block_grad_max = 4};
  Result<memory::SharedMemory> memory_ =
      memory::SharedMemory::create({.sram_size_bytes = 0, .dram_size_bytes = 4 << 20});
  Session session_;
  Shard shard_;
  App app_{shard_};
  io::InMemoryPort port_{io::InMemoryPortConfig{}};
  engine::LiveMachine machine_{port_.queue(0)};
};

TEST_P(ShardTimers, IdleCoreMaySleep) {
  for (int64_t second = 1; second < 10; second++) {
    const Instant now = Instant() + milliseconds(1000 * second);
    app_.run_timers(machine_, now);
    EXPECT_GT(app_.next_due(), now) << "after " << second << " s";
  }
}

TEST_P(ShardTimers, TimerRunsExactlyWhenDue) {
  app_.run_timers(machine_, Instant());
  Job& job = *shard_.job(config_.id);
  const Instant due = job.straggling.next_due();
  job.sources[0].contributed = true;
  for (Instant now; now < due; now = now + milliseconds(7)) {
    app_.run_timers(machine_, now);
    ASSERT_TRUE(job.sources[0].contributed);  // The infrequent timer clears it.
  }
  app_.run_timers(machine_, due);
  EXPECT_FALSE(job.sources[0].contributed);
}

TEST_P(ShardTimers, JobAddedLaterHasItsTimers) {
  app_.run_timers(machine_, Instant());
  JobConfig later = config_;
  later.id = 2;
  later.permanent_after = milliseconds(10);
  Session session(later, auth::key_of_seed(2));
  ASSERT_TRUE(shard_.add_job(later, session, Instant()).has_value());
  Job& job = *shard_.job(later.id);
  job.sources[0].contributed = true;
  app_.run_timers(machine_, Instant() + milliseconds(10));
  EXPECT_FALSE(job.sources[0].contributed);
}

INSTANTIATE_TEST_SUITE_P(EachCore, ShardTimers, ::testing::Values(0U, 1U));

}  // namespace
}  // namespace tributary::trio_ml
