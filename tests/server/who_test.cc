// SPDX-License-Identifier: Apache-2.0
// Method: snapshots made by hand, one for each reason to wait, and the rows that they give.
#include "server/who.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/trio_ml/records.h"
#include "io/local/client_address.h"

namespace tributary::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const Instant kNow{seconds(100)};

/// Returns a job with `count` members that were heard 200 ms ago.
JobSnapshot job_with_members(uint32_t count) {
  JobSnapshot job;
  job.config.id = 3;
  job.config.sources = count;
  job.session = 1;
  for (uint32_t i = 0; i < count; i++) {
    job.sources.push_back({.state = SourceState::kMember,
                           .address = Endpoint::ipv4(0x0a000001 + i, 4000),
                           .silent_for = milliseconds(200),
                           .ranks = {i}});
  }
  return job;
}

BlockSnapshot block_without(uint32_t source, uint32_t id, Duration age) {
  BlockSnapshot block{.block_id = id, .referenced_at = kNow - age};
  trio_ml::include(block.missing, source);
  return block;
}

std::vector<Wait> waits_of(const JobSnapshot& job) {
  Snapshot snapshot;
  snapshot.at = kNow;
  snapshot.jobs.push_back(job);
  return find_waits(snapshot);
}

TEST(Who, NamesTheOldestBlockOfEachMissingRank) {
  JobSnapshot job = job_with_members(4);
  job.blocks = {block_without(2, 40, milliseconds(900)), block_without(2, 41, milliseconds(800)),
                block_without(3, 42, milliseconds(700))};
  const std::vector<Wait> waits = waits_of(job);
  ASSERT_EQ(waits.size(), 2U);
  EXPECT_EQ(waits[0].job, 3U);
  EXPECT_EQ(waits[0].block, 40U);
  EXPECT_THAT(waits[0].missing, ElementsAre(2));
  EXPECT_EQ(waits[0].since, milliseconds(900));
  EXPECT_EQ(waits[0].last_heard, milliseconds(200));
  EXPECT_EQ(waits[0].address, "10.0.0.3:4000");
  EXPECT_THAT(waits[0].advice, HasSubstr("rank 2 was heard lately but has not contributed"));
  EXPECT_THAT(waits[1].missing, ElementsAre(3));
  EXPECT_EQ(waits[1].block, 42U);
}

TEST(Who, NamesTheProcessOfALocalWorkerAndNoNetwork) {
  JobSnapshot job = job_with_members(2);
  job.blocks = {block_without(1, 7, seconds(2))};
  job.sources[1].silent_for = seconds(2);
  job.sources[1].address = io::client_address(5, 0, 1234);
  EXPECT_EQ(waits_of(job)[0].address, "local pid 1234");
  EXPECT_EQ(waits_of(job)[0].advice,
            "rank 1 is silent: check that its process on this machine (pid 1234) runs and is not "
            "stopped");
  job.sources[1].address = io::client_address(5, 0);  // Of another PID namespace.
  EXPECT_EQ(waits_of(job)[0].address, "local/5");
  EXPECT_EQ(waits_of(job)[0].advice,
            "rank 1 is silent: check that its process on this machine runs and is not stopped");
}

TEST(Who, ShortWaitsAreUsual) {
  JobSnapshot job = job_with_members(2);
  EXPECT_THAT(waits_of(job), IsEmpty());
  job.blocks = {block_without(1, 7, kWaitShown - nanoseconds(1))};
  EXPECT_THAT(waits_of(job), IsEmpty());
  job.blocks = {block_without(1, 7, kWaitShown)};
  EXPECT_EQ(waits_of(job).size(), 1U);
}

TEST(Who, AdviceDependsOnTheStateOfTheSource) {
  JobSnapshot job = job_with_members(2);
  job.blocks = {block_without(1, 7, seconds(2))};
  const auto advice_for = [&job](SourceState state, Duration silent, bool joining) {
    job.sources[1].state = state;
    job.sources[1].silent_for = silent;
    job.sources[1].joining = joining;
    const std::vector<Wait> waits = waits_of(job);
    return waits.size() == 1 ? waits[0].advice : "not one row";
  };
  EXPECT_THAT(advice_for(SourceState::kMember, seconds(2), false),
              HasSubstr("rank 1 is silent: check that its process runs at 10.0.0.2:4000"));
  EXPECT_THAT(advice_for(SourceState::kLeft, seconds(2), false),
              HasSubstr("rank 1 has left the session: restart all ranks"));
  EXPECT_THAT(advice_for(SourceState::kSilent, seconds(9), true),
              HasSubstr("rank 1 was restarted"));
}

TEST(Who, RanksThatHaveNotJoinedAreNamedWhileOthersWait) {
  JobSnapshot job = job_with_members(3);
  job.session = 0;
  for (auto& source : job.sources) source = {.ranks = source.ranks};
  EXPECT_THAT(waits_of(job), IsEmpty());  // Nobody waits.
  job.sources[0].joining = true;
  const std::vector<Wait> waits = waits_of(job);
  ASSERT_EQ(waits.size(), 2U);
  EXPECT_THAT(waits[0].missing, ElementsAre(1));
  EXPECT_EQ(waits[0].block, std::nullopt);
  EXPECT_THAT(waits[0].advice, HasSubstr("rank 1 has sent nothing: start it"));
}

TEST(Who, ARankThatSentPlainPacketsBeforeMustJoinToo) {
  JobSnapshot job = job_with_members(2);
  job.session = 0;
  job.sources[0] = {.state = SourceState::kJoining, .joining = true, .ranks = {0}};
  job.sources[1].state = SourceState::kPlain;
  const std::vector<Wait> waits = waits_of(job);
  ASSERT_EQ(waits.size(), 1U);
  EXPECT_THAT(waits[0].advice, HasSubstr("rank 1 has not joined: start it"));
}

TEST(Who, ARefusedJoinIsNamedWithItsReasonItsTimeAndItsSender) {
  JobSnapshot job = job_with_members(2);
  job.session = 0;
  job.sources[0] = {.state = SourceState::kJoining, .joining = true, .ranks = {0}};
  job.sources[1] = {.refused_join = trio_ml::RefusedJoin{.reason = wire::Reason::kWrongWorld,
                                                         .at = kNow - milliseconds(3200),
                                                         .from = Endpoint::ipv4(0x0a000009, 4000)},
                    .ranks = {1}};
  EXPECT_EQ(waits_of(job).at(0).advice,
            "rank 1 has not joined: the join of its process at 10.0.0.9:4000 was refused 3.2 s ago "
            "(wrong_world): see the error of that process");
  job.config.sources_are_aggregators = true;
  EXPECT_THAT(waits_of(job).at(0).advice,
              HasSubstr("the lower aggregator of rank 1 has not joined: the join of its process"));
}

TEST(Who, AJoinThatAnybodyMayHaveSentBlamesNoProcess) {
  JobSnapshot job = job_with_members(2);
  job.session = 0;
  job.sources[0] = {.state = SourceState::kJoining, .joining = true, .ranks = {0}};
  job.sources[1] = {.refused_join = trio_ml::RefusedJoin{.reason = wire::Reason::kAuthentication,
                                                         .at = kNow - milliseconds(100),
                                                         .from = Endpoint::ipv4(0x06060606, 9)},
                    .ranks = {1}};
  EXPECT_EQ(waits_of(job).at(0).advice,
            "rank 1 has not joined: a process at 6.6.6.6:9 sent a join in its name, which was "
            "refused 0.1 s ago (authentication) and may be a stranger's: compare the auth and the "
            "secret of the rank's process with the job's");
}

TEST(Who, ARefusedJoinIsAddedToTheAdviceAboutAFormerMemberOnly) {
  JobSnapshot job = job_with_members(2);
  job.blocks = {block_without(1, 7, seconds(2))};
  job.sources[1].refused_join = {.reason = wire::Reason::kWrongWorld, .at = kNow - seconds(1)};
  EXPECT_THAT(waits_of(job).at(0).advice, ::testing::Not(HasSubstr("refused")));
  job.sources[1].state = SourceState::kLeft;
  EXPECT_EQ(waits_of(job).at(0).advice,
            "rank 1 has left the session: restart all ranks of the job; the join of its process "
            "was refused 1.0 s ago (wrong_world): see the error of that process");
}

TEST(Who, ASenderOfPlainPacketsIsNamedWhileJoinsWaitForIt) {
  JobSnapshot job = job_with_members(3);
  job.session = 0;
  const trio_ml::RefusedJoin held_off{.reason = wire::Reason::kPlainClients,
                                      .at = kNow - milliseconds(20),
                                      .from = Endpoint::ipv4(0x0a000001, 4000)};
  job.sources[0] = {.refused_join = held_off, .ranks = {0}};
  // A stranger sends in the name of rank 1. Its worker asks to join, too.
  job.sources[1] = {.state = SourceState::kPlain,
                    .address = Endpoint::ipv4(0x0a000042, 5000),
                    .refused_join = held_off,
                    .ranks = {1}};
  job.sources[2] = {.ranks = {2}};
  std::vector<Wait> waits = waits_of(job);
  ASSERT_EQ(waits.size(), 1U);
  EXPECT_THAT(waits[0].missing, ElementsAre(1));
  EXPECT_EQ(waits[0].address, "10.0.0.66:5000");
  EXPECT_EQ(
      waits[0].advice,
      "a process at 10.0.0.66:5000 sends plain packets as source 1, so joins wait: stop it if "
      "it does not belong to the job, or give the job clients=sessions");

  // Its block waits for the others. Rank 1 has one row nevertheless.
  job.blocks = {block_without(0, 7, seconds(1))};
  trio_ml::include(job.blocks[0].missing, 1);
  trio_ml::include(job.blocks[0].missing, 2);
  waits = waits_of(job);
  ASSERT_EQ(waits.size(), 3U);
  EXPECT_THAT(waits[0].missing, ElementsAre(1));
  EXPECT_EQ(waits[1].advice, "rank 0 waits to join until no plain packets use the job");
  EXPECT_THAT(waits[2].advice, HasSubstr("rank 2 has sent nothing"));

  // The workers have ended.
  job.blocks.clear();
  for (SourceSnapshot& source : job.sources) {
    if (source.refused_join)
      source.refused_join->at = kNow - trio_ml::kJoinFreshFor - nanoseconds(1);
  }
  EXPECT_THAT(waits_of(job), IsEmpty());
}

TEST(Who, RanksBelowALowerAggregatorAreNamedTogether) {
  JobSnapshot job = job_with_members(2);
  job.sources[1].ranks = {4, 5, 6};
  job.blocks = {block_without(1, 7, seconds(1))};
  const std::vector<Wait> waits = waits_of(job);
  ASSERT_EQ(waits.size(), 1U);
  EXPECT_THAT(waits[0].missing, ElementsAre(4, 5, 6));
  EXPECT_THAT(waits[0].advice, HasSubstr("ranks 4, 5, 6"));
}

TEST(Who, AStragglerThatTheJobLeavesBehindIsNamed) {
  JobSnapshot job = job_with_members(2);
  job.sources[1].waited_for = false;
  const std::vector<Wait> waits = waits_of(job);
  ASSERT_EQ(waits.size(), 1U);
  EXPECT_THAT(waits[0].advice, HasSubstr("the job continues without this rank"));
}

TEST(Who, AnAbsentUpperAggregatorIsNamed) {
  JobSnapshot job = job_with_members(1);
  job.config.upstream = Endpoint::ipv4(0x0a000009, 12000);
  job.upstream = {.state = UpstreamSnapshot::State::kSilent, .silent_for = seconds(4)};
  job.blocks = {{.block_id = 5, .referenced_at = kNow - seconds(1), .waits_upstream = true}};
  const std::vector<Wait> waits = waits_of(job);
  ASSERT_EQ(waits.size(), 1U);
  EXPECT_THAT(waits[0].missing, IsEmpty());
  EXPECT_EQ(waits[0].address, "10.0.0.9:12000");
  EXPECT_THAT(waits[0].advice,
              HasSubstr("upper aggregator 10.0.0.9:12000 has not answered for 4.0 s"));
}

TEST(Who, AnUpperAggregatorThatWaitsForOthersIsNotAtFault) {
  JobSnapshot job = job_with_members(1);
  job.config.upstream = Endpoint::ipv4(0x0a000009, 12000);
  job.upstream = {.state = UpstreamSnapshot::State::kJoined};
  job.blocks = {{.block_id = 5, .referenced_at = kNow - seconds(1), .waits_upstream = true}};
  const std::vector<Wait> waits = waits_of(job);
  ASSERT_EQ(waits.size(), 1U);
  EXPECT_THAT(waits[0].advice, HasSubstr("10.0.0.9:12000 waits for others: run tributary who"));
}

TEST(Who, AJoinThatWaitsForAnUpperAggregatorNamesIt) {
  using State = UpstreamSnapshot::State;
  JobSnapshot job = job_with_members(2);
  job.config.upstream = Endpoint::ipv4(0x0a000009, 12000);
  job.session = 0;
  for (auto& source : job.sources) source = {.state = SourceState::kJoining, .joining = true};
  const auto advice_for = [&job](const UpstreamSnapshot& upstream) {
    job.upstream = upstream;
    const std::vector<Wait> waits = waits_of(job);
    EXPECT_EQ(waits.size(), 1U);
    return waits.empty() ? std::string() : waits[0].address + ": " + waits[0].advice;
  };
  EXPECT_THAT(advice_for({.state = State::kSilent, .silent_for = milliseconds(2500)}),
              HasSubstr("10.0.0.9:12000: the upper aggregator 10.0.0.9:12000 has not answered for "
                        "2.5 s: check that it runs"));
  EXPECT_THAT(advice_for({.state = State::kRefused, .refusal = wire::Reason::kUnknownJob}),
              HasSubstr("the upper aggregator 10.0.0.9:12000 refuses this one: unknown_job"));
  EXPECT_THAT(advice_for({.state = State::kJoining, .waits_at = job.config.upstream}),
              HasSubstr("10.0.0.9:12000 waits for its other aggregators: run tributary who there"));
  EXPECT_THAT(advice_for({.state = State::kJoining,
                          .waits_at = Endpoint::ipv4(0x0a00000a, 12000),
                          .waits_for_silent = true}),
              HasSubstr("aggregator 10.0.0.10:12000, above 10.0.0.9:12000, does not answer"));
  job.sources[1].joining = false;  // A rank below has not come: no session is asked for.
  const std::vector<Wait> waits = waits_of(job);
  ASSERT_EQ(waits.size(), 1U);
  EXPECT_THAT(waits[0].advice, ::testing::Not(HasSubstr("upper")));
}

TEST(Who, ALowerAggregatorIsNamedAsOne) {
  JobSnapshot job = job_with_members(2);
  job.config.sources_are_aggregators = true;
  job.sources[1].ranks = {4, 5};
  job.blocks = {block_without(1, 7, seconds(2))};
  EXPECT_THAT(waits_of(job).at(0).advice,
              HasSubstr("the lower aggregator of ranks 4, 5 waits for one of its ranks: run "
                        "tributary who there (10.0.0.2:4000)"));
  job.sources[1].silent_for = seconds(2);
  EXPECT_THAT(waits_of(job).at(0).advice,
              HasSubstr("the lower aggregator of ranks 4, 5 is silent: check that it runs at "
                        "10.0.0.2:4000"));
  job.session = 0;
  job.sources[0].joining = true;
  job.sources[1] = {};
  EXPECT_THAT(waits_of(job).at(0).advice,
              HasSubstr("the lower aggregator with upstream_source=1 has not joined: start it"));
}

}  // namespace
}  // namespace tributary::server
