// SPDX-License-Identifier: Apache-2.0
// Method: jobs on a bench in virtual time. Blocks with known gaps, then the snapshot of each job.
#include "server/job_snapshot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/trio_ml/records.h"
#include "server/who.h"
#include "tests/apps/trio_ml/bed.h"

namespace tributary::server {
namespace {

using ::testing::ElementsAre;

trio_ml::JobConfig job_of(uint32_t sources, uint32_t window) {
  return {.id = 1, .sources = sources, .block_cnt_max = window, .block_grad_max = 8};
}

/// Returns the job's state at the bed's present time.
JobSnapshot snapshot_of(trio_ml::Bed& bed) {
  trio_ml::Job& job = bed.job(1);
  std::vector<JobView> views;
  views.emplace_back(job.config);
  views[0].read(job, /*core=*/0, bed.now());
  while (views[0].read_blocks(job)) {
  }
  return merge(job.session, views, bed.now());
}

TEST(JobSnapshot, NamesTheSourcesThatABlockLacks) {
  trio_ml::Bed bed(job_of(3, 64));
  bed.contribute(0, 7, 1, {1});
  bed.contribute(2, 7, 1, {1});
  bed.advance(milliseconds(30));
  bed.contribute(0, 8, 1, {1});
  bed.advance(milliseconds(20));

  const JobSnapshot job = snapshot_of(bed);
  EXPECT_EQ(job.blocks_in_progress, 2U);
  ASSERT_EQ(job.blocks.size(), 2U);
  EXPECT_EQ(job.blocks[0].block_id, 7U);
  EXPECT_THAT(numbers_in(job.blocks[0].missing), ElementsAre(1));
  EXPECT_EQ(bed.now() - job.blocks[0].referenced_at, milliseconds(50));
  EXPECT_EQ(job.blocks[1].block_id, 8U);
  EXPECT_THAT(numbers_in(job.blocks[1].missing), ElementsAre(1, 2));
  EXPECT_EQ(bed.now() - job.blocks[1].referenced_at, milliseconds(20));

  EXPECT_EQ(job.sources[0].state, SourceState::kPlain);
  EXPECT_EQ(job.sources[0].address, trio_ml::worker(0));
  EXPECT_EQ(job.sources[1].state, SourceState::kAbsent);
  EXPECT_FALSE(job.sources[1].address.is_set());
  EXPECT_FALSE(job.sources[0].silent_for.has_value());  // Plain packets keep no time.
}

TEST(JobSnapshot, CompleteBlocksAreNotInProgress) {
  trio_ml::Bed bed(job_of(2, 64));
  for (uint32_t source = 0; source < 2; source++) bed.contribute(source, 7, 1, {1});
  const JobSnapshot job = snapshot_of(bed);
  EXPECT_EQ(job.blocks_in_progress, 0U);
  EXPECT_EQ(job.blocks_total, 1U);
  EXPECT_TRUE(job.blocks.empty());
}

TEST(JobSnapshot, CountsTheDegradedBlocksOfEachJob) {
  trio_ml::JobConfig config = job_of(2, 64);
  config.mitigation = true;
  config.timeout = milliseconds(10);
  trio_ml::Bed bed(config);
  for (uint32_t source = 0; source < 2; source++) bed.contribute(source, 7, 1, {1});
  bed.contribute(0, 8, 1, {1});
  bed.run_until(bed.now() + milliseconds(50));
  const JobSnapshot job = snapshot_of(bed);
  EXPECT_EQ(job.blocks_total, 2U);
  EXPECT_EQ(job.blocks_degraded, 1U);
}

// 4,096 places take four visits. The newest block is made first, so the heap must reorder.
TEST(JobSnapshot, ReportsTheOldestBlocksOfALargeWindow) {
  constexpr uint32_t kBlocks = 2000;
  trio_ml::Bed bed(job_of(2, 4096));
  for (uint32_t i = 0; i < kBlocks; i++) {
    bed.contribute(0, kBlocks - 1 - i, 1, {1});
    bed.advance(microseconds(1));
  }
  const JobSnapshot job = snapshot_of(bed);
  EXPECT_EQ(job.blocks_in_progress, kBlocks);
  ASSERT_EQ(job.blocks.size(), kOldestBlocks);
  for (uint32_t i = 0; i < kOldestBlocks; i++) {
    EXPECT_EQ(job.blocks[i].block_id, kBlocks - 1 - i);
  }
}

// All 300 blocks lack rank 2, and only the last 100 lack rank 1, too.
TEST(JobSnapshot, KeepsABlockForEachMissingRankBehindOlderBlocks) {
  trio_ml::Bed bed(job_of(4, 512));
  for (uint32_t id = 0; id < 300; id++) {
    for (const uint32_t source : {0U, 1U, 3U}) {
      if (source != 1 || id < 200) bed.contribute(source, id, 1, {1});
    }
    bed.advance(milliseconds(1));
  }
  bed.advance(seconds(1));
  Snapshot snapshot;
  snapshot.at = bed.now();
  snapshot.jobs = {snapshot_of(bed)};
  EXPECT_EQ(snapshot.jobs[0].blocks.size(), kOldestBlocks + 1);
  const std::vector<Wait> waits = find_waits(snapshot);
  ASSERT_EQ(waits.size(), 2U);
  EXPECT_THAT(waits[0].missing, ElementsAre(1));
  EXPECT_EQ(waits[0].block, 200U);
  EXPECT_EQ(waits[0].since, milliseconds(1100));  // The last 100 blocks took 100 ms.
  EXPECT_THAT(waits[1].missing, ElementsAre(2));
  EXPECT_EQ(waits[1].block, 0U);
  EXPECT_EQ(waits[1].since, milliseconds(1300));
}

TEST(JobSnapshot, KeepsTheOldestBlockThatWaitsUpstreamBehindOlderBlocks) {
  const trio_ml::JobConfig config = job_of(2, 64);
  const trio_ml::Session session(config, auth::key_of_seed(1));
  std::vector<JobView> views;
  for (uint32_t core = 0; core < 2; core++) views.emplace_back(config);
  for (uint32_t id = 0; id < kOldestBlocks; id++) {
    views[0].oldest.push_back({.block_id = id, .referenced_at = Instant(seconds(1))});
  }
  const auto upstream_at = [](uint32_t id, Duration at) {
    return BlockSnapshot{
        .block_id = id, .referenced_at = Instant(at), .missing = {}, .waits_upstream = true};
  };
  views[0].oldest_without.back() = upstream_at(900, seconds(9));
  views[1].oldest_without.back() = upstream_at(901, seconds(8));
  views[1].oldest_without[0] = views[0].oldest[7];  // Is in the list already.
  const JobSnapshot job = merge(session, views, Instant(seconds(10)));
  ASSERT_EQ(job.blocks.size(), kOldestBlocks + 1);
  EXPECT_EQ(job.blocks.back().block_id, 901U);
  EXPECT_TRUE(job.blocks.back().waits_upstream);
}

// Neighbouring blocks lack different sources, so a block takes 1 + 255 comparisons. 64 places take
// 64 * 256 = kComparisonsPerVisit.
TEST(JobSnapshot, AVisitMakesABoundedNumberOfComparisons) {
  static_assert(kComparisonsPerVisit == 64 * 256);
  trio_ml::Bed bed(job_of(256, 1024));
  for (uint32_t id = 0; id < 1024; id++) {
    bed.contribute(id % 2, id, 1, {1});
    bed.advance(microseconds(1));
  }
  trio_ml::Job& job = bed.job(1);
  JobView view(job.config);
  uint32_t visits = 1;
  while (view.read_blocks(job)) visits++;
  EXPECT_EQ(visits, 1024U / 64);
  for (uint32_t source = 0; source < 256; source++) {
    ASSERT_TRUE(view.oldest_without[source].has_value());
    EXPECT_EQ(view.oldest_without[source]->block_id, source == 0 ? 1U : 0U);
  }
  EXPECT_FALSE(view.oldest_without.back().has_value());
}

TEST(JobSnapshot, AVisitReadsABoundedNumberOfPlaces) {
  trio_ml::Bed bed(job_of(2, 4096));
  bed.contribute(0, 4095, 1, {1});
  trio_ml::Job& job = bed.job(1);
  JobView view(job.config);
  for (uint32_t visit = 1; visit < 4096 / kPlacesPerVisit; visit++) {
    EXPECT_TRUE(view.read_blocks(job));
    EXPECT_TRUE(view.oldest.empty());
  }
  EXPECT_FALSE(view.read_blocks(job));
  ASSERT_EQ(view.oldest.size(), 1U);
  EXPECT_EQ(view.oldest[0].block_id, 4095U);
}

TEST(JobSnapshot, SourceLeftBehindIsNotWaitedFor) {
  const trio_ml::JobConfig config = job_of(2, 64);
  const trio_ml::Session session(config, auth::key_of_seed(1));
  std::vector<JobView> views;
  for (uint32_t core = 0; core < 2; core++) views.emplace_back(config);
  views[0].active = trio_ml::first_sources(2);
  views[1].active = trio_ml::first_sources(1);  // The second core does not wait for source 1.
  trio_ml::include(views[0].joining, 1);
  const JobSnapshot job = merge(session, views, Instant(seconds(5)));
  EXPECT_TRUE(job.sources[0].waited_for);
  EXPECT_FALSE(job.sources[1].waited_for);
  EXPECT_EQ(job.sources[1].state, SourceState::kJoining);
  EXPECT_THAT(job.sources[1].ranks, ElementsAre(1));
}

TEST(JobSnapshot, KeepsTheLastRefusedJoinOfASourceUntilOneIsAccepted) {
  trio_ml::Bed bed(job_of(2, 64));
  bed.advance(seconds(1));
  EXPECT_FALSE(snapshot_of(bed).sources[1].refused_join.has_value());

  const Instant refused_at = bed.now();
  trio_ml::deliver_join(bed, trio_ml::join_message(1, /*nonce=*/7, /*world=*/5),
                        trio_ml::worker(1));
  // Nobody can make the record grow: a source outside the job has no place in it.
  trio_ml::deliver_join(bed, trio_ml::join_message(2, /*nonce=*/8, /*world=*/5),
                        trio_ml::worker(2));
  bed.advance(seconds(3));
  JobSnapshot job = snapshot_of(bed);
  EXPECT_FALSE(job.sources[0].refused_join.has_value());
  ASSERT_TRUE(job.sources[1].refused_join.has_value());
  EXPECT_EQ(job.sources[1].refused_join->reason, wire::Reason::kWrongWorld);
  EXPECT_EQ(job.sources[1].refused_join->at, refused_at);
  EXPECT_EQ(job.sources[1].refused_join->from, trio_ml::worker(1));
  EXPECT_EQ(job.sources[1].state, SourceState::kAbsent);

  trio_ml::deliver_join(bed, trio_ml::join_message(1, /*nonce=*/9, /*world=*/2),
                        trio_ml::worker(1));
  job = snapshot_of(bed);
  EXPECT_FALSE(job.sources[1].refused_join.has_value());
  EXPECT_EQ(job.sources[1].state, SourceState::kJoining);
}

// A stranger's contribution begins a block, so the job belongs to plain clients for a while.
TEST(JobSnapshot, KeepsTheJoinThatWaitsForPlainPackets) {
  trio_ml::Bed bed(job_of(2, 64));
  bed.deliver(trio_ml::plain_bytes(1, 7, 1, {1}), trio_ml::stranger());
  bed.run_until(bed.now() + seconds(1));  // The timer notices the packet.
  trio_ml::deliver_join(bed, trio_ml::join_message(0, /*nonce=*/7, /*world=*/2),
                        trio_ml::worker(0));
  const JobSnapshot job = snapshot_of(bed);
  ASSERT_TRUE(job.sources[0].refused_join.has_value());
  EXPECT_EQ(job.sources[0].refused_join->reason, wire::Reason::kPlainClients);
  EXPECT_EQ(job.sources[0].state, SourceState::kAbsent);
  EXPECT_EQ(job.sources[1].state, SourceState::kPlain);
  EXPECT_EQ(job.sources[1].address, trio_ml::stranger());
}

}  // namespace
}  // namespace tributary::server
