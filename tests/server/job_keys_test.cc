// SPDX-License-Identifier: Apache-2.0
// Method:  rows as a person writes them, against the resulting jobs. Then rows that the table
//          accepts but the job's check refuses.
#include "server/job_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tributary::server {
namespace {

using ::testing::HasSubstr;

Result<trio_ml::JobConfig> job_of(const char* text) {
  const auto row = job_keys().parse(text);
  if (!row) return tl::unexpected(row.error());
  return to_job(*row);
}

std::string error_of(const char* text) {
  const auto job = job_of(text);
  return job ? "accepted" : job.error().text;
}

TEST(JobKeys, DefaultsMatchJobConfig) {
  const auto job = job_of("id=1,sources=1");
  ASSERT_TRUE(job.has_value());
  const trio_ml::JobConfig expected;
  EXPECT_EQ(job->id, expected.id);
  EXPECT_EQ(job->sources, expected.sources);
  EXPECT_EQ(job->block_cnt_max, expected.block_cnt_max);
  EXPECT_EQ(job->block_grad_max, expected.block_grad_max);
  EXPECT_EQ(job->history, expected.history);
  EXPECT_EQ(job->shared_buffers, expected.shared_buffers);
  EXPECT_EQ(job->mitigation, expected.mitigation);
  EXPECT_EQ(job->timeout, expected.timeout);
  EXPECT_EQ(job->timer_threads, expected.timer_threads);
  EXPECT_EQ(job->permanent_after, expected.permanent_after);
  EXPECT_EQ(job->clients, expected.clients);
  EXPECT_EQ(job->pin, expected.pin);
  EXPECT_EQ(job->group, expected.group);
  EXPECT_EQ(job->upstream, expected.upstream);
  EXPECT_EQ(job->upstream_source, expected.upstream_source);
  EXPECT_EQ(job->sources_are_aggregators, expected.sources_are_aggregators);
  EXPECT_EQ(job->rank_base, expected.rank_base);
  EXPECT_EQ(job->world, expected.world);
}

TEST(JobKeys, EveryKeyReachesItsSetting) {
  const auto job = job_of(
      "id=255,sources=3,block_cnt_max=512,block_grad_max=1024,history=2,shared_buffers=off,"
      "mitigation=on,"
      "timeout_ms=50,timer_threads=100,permanent_ms=2000,pin=on,upstream=10.0.0.1:12000,"
      "upstream_source=5,rank_base=6,world=9");
  ASSERT_TRUE(job.has_value()) << job.error().text;
  EXPECT_EQ(job->id, 255);
  EXPECT_EQ(job->sources, 3U);
  EXPECT_EQ(job->block_cnt_max, 512U);
  EXPECT_EQ(job->block_grad_max, 1024U);
  EXPECT_EQ(job->history, 2U);
  EXPECT_FALSE(job->shared_buffers);
  EXPECT_TRUE(job->mitigation);
  EXPECT_EQ(job->timeout, milliseconds(50));
  EXPECT_EQ(job->timer_threads, 100U);
  EXPECT_EQ(job->permanent_after, seconds(2));
  EXPECT_TRUE(job->pin);
  EXPECT_EQ(job->upstream, Endpoint::ipv4(0x0a000001, 12000));
  EXPECT_EQ(job->upstream_source, 5U);
  EXPECT_EQ(job->rank_base, 6U);
  EXPECT_EQ(job->world, 9U);

  const auto top = job_of("id=1,sources=2,sources_are_aggregators=on,world=9,group=239.1.2.3:9");
  ASSERT_TRUE(top.has_value()) << top.error().text;
  EXPECT_TRUE(top->sources_are_aggregators);
  EXPECT_EQ(top->group, Endpoint::ipv4(0xef010203, 9));
}

TEST(JobKeys, WindowIsAnAliasOfBlockCntMax) {
  EXPECT_EQ(job_of("id=1,sources=1,window=64")->block_cnt_max, 64U);
}

TEST(JobKeys, ClientsHasThreeValues) {
  EXPECT_EQ(job_of("id=1,sources=1,clients=any")->clients, trio_ml::Clients::kAny);
  EXPECT_EQ(job_of("id=1,sources=1,clients=plain")->clients, trio_ml::Clients::kPlain);
  EXPECT_EQ(job_of("id=1,sources=1,clients=sessions")->clients, trio_ml::Clients::kSessions);
  EXPECT_EQ(error_of("id=1,sources=1,clients=both"),
            "--job: clients=both is not allowed; allowed: any, plain, sessions");
}

TEST(JobKeys, IdAndSourcesAreRequired) {
  EXPECT_THAT(error_of("sources=4"), HasSubstr("id"));
  EXPECT_THAT(error_of("id=4"), HasSubstr("sources"));
}

TEST(JobKeys, OutOfRangeNamesTheRange) {
  EXPECT_THAT(error_of("id=256,sources=1"), HasSubstr("id=256"));
  EXPECT_THAT(error_of("id=1,sources=0"), HasSubstr("a whole number from 1 to 256"));
  EXPECT_THAT(error_of("id=1,sources=1,block_grad_max=4096"), HasSubstr("1 to 4095"));
  EXPECT_THAT(error_of("id=1,sources=1,timeout_ms=0"), HasSubstr("timeout_ms=0"));
}

TEST(JobKeys, KeysWithoutEffectAreRefused) {
  EXPECT_EQ(error_of("id=1,sources=1,timeout_ms=50"),
            "--job: timeout_ms needs mitigation=on; without it blocks wait for every source");
  EXPECT_TRUE(job_of("id=1,sources=1,timeout_ms=50,mitigation=on").has_value());
  EXPECT_EQ(
      error_of("id=1,sources=1,window=128,block_cnt_max=64"),
      "--job: window=128 and block_cnt_max=64 are two names of one setting; give one of them");
  EXPECT_EQ(job_of("id=1,sources=1,window=64,block_cnt_max=64")->block_cnt_max, 64U);
}

TEST(JobKeys, RefusalsOfTheJobNameTheirPlace) {
  EXPECT_EQ(error_of("id=7,sources=1,window=100"),
            "--job: job 7: block_cnt_max=100 is not allowed; allowed: a power of two up to "
            "65536");
  EXPECT_THAT(error_of("id=7,sources=1,group=10.0.0.1:5"), HasSubstr("--job: job 7: group="));
}

}  // namespace
}  // namespace tributary::server
