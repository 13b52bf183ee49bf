// SPDX-License-Identifier: Apache-2.0
// Method: the bounds of every key from both sides, the texts of refusals, and memory by hand.
#include "apps/trio_ml/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "apps/trio_ml/shard.h"

namespace tributary::trio_ml {
namespace {

using ::testing::HasSubstr;

/// A good job with one change.
Result<void> checked(const std::function<void(JobConfig&)>& change) {
  JobConfig config{.id = 7, .sources = 4};
  change(config);
  return check(config);
}

std::string error_of(const std::function<void(JobConfig&)>& change) {
  const auto result = checked(change);
  return result ? "accepted" : result.error().text;
}

TEST(JobConfig, DefaultsAreAllowed) {
  EXPECT_TRUE(check(JobConfig{}).has_value());
  EXPECT_EQ(JobConfig{}.ranks(), 1U);
}

TEST(JobConfig, AsynchronousJobsExcludeOtherKeys) {
  const auto error = [](const std::function<void(JobConfig&)>& change) {
    return error_of([&](JobConfig& job) {
      job.asynchronous = true;
      job.parameters = 1000;
      change(job);
    });
  };
  EXPECT_EQ(error([](JobConfig&) {}), "accepted");
  EXPECT_EQ(error([](JobConfig& job) { job.parameters = 0; }),
            "job 7: parameters=0 is not allowed; allowed: 1 to 4294967295");
  EXPECT_EQ(error([](JobConfig& job) { job.parameters = uint64_t{1} << 32; }),
            "job 7: parameters=4294967296 is not allowed; allowed: 1 to 4294967295");
  EXPECT_THAT(error([](JobConfig& job) { job.mitigation = true; }), HasSubstr("mitigation=on"));
  EXPECT_THAT(error([](JobConfig& job) { job.clients = Clients::kPlain; }),
              HasSubstr("clients=plain"));
  EXPECT_THAT(error([](JobConfig& job) { job.group = Endpoint::ipv4(0xef000001, 5000); }),
              HasSubstr("no group"));
  EXPECT_THAT(error([](JobConfig& job) { job.upstream = Endpoint::ipv4(0x0a000001, 12000); }),
              HasSubstr("asynchronous=on is not allowed"));
  EXPECT_THAT(error([](JobConfig& job) { job.channels = 2; }), HasSubstr("channels=2"));
  EXPECT_THAT(error_of([](JobConfig& job) { job.parameters = 5; }),
              HasSubstr("parameters only with asynchronous=on"));
}

TEST(JobConfig, EachKeyHasItsBounds) {
  struct Bound {
    const char* key;
    std::function<void(JobConfig&, uint32_t)> set;
    uint32_t low;
    uint32_t high;
  };
  const std::vector<Bound> bounds{
      {"sources", [](JobConfig& job, uint32_t value) { job.sources = value; }, 1, 256},
      {"block_cnt_max", [](JobConfig& job, uint32_t value) { job.block_cnt_max = value; }, 1,
       65536},
      {"block_grad_max", [](JobConfig& job, uint32_t value) { job.block_grad_max = value; }, 1,
       4095},
      {"history", [](JobConfig& job, uint32_t value) { job.history = value; }, 1, 64},
      {"channels", [](JobConfig& job, uint32_t value) { job.channels = value; }, 1, 16},
      {"timeout_ms", [](JobConfig& job, uint32_t value) { job.timeout = milliseconds(value); }, 1,
       60'000},
      {"permanent_ms",
       [](JobConfig& job, uint32_t value) { job.permanent_after = milliseconds(value); }, 10,
       3'600'000},
      {"timer_threads", [](JobConfig& job, uint32_t value) { job.timer_threads = value; }, 1,
       1000}};
  for (const Bound& bound : bounds) {
    for (const uint32_t value : {bound.low, bound.high}) {
      EXPECT_EQ(error_of([&](JobConfig& job) { bound.set(job, value); }), "accepted") << bound.key;
    }
    for (const uint32_t value : {bound.low - 1, bound.high + 1}) {
      const std::string text = error_of([&](JobConfig& job) { bound.set(job, value); });
      EXPECT_THAT(text, HasSubstr(std::string("job 7: ") + bound.key + "=" + std::to_string(value) +
                                  " is not allowed"));
      EXPECT_THAT(text, HasSubstr(std::to_string(bound.low) + " to " + std::to_string(bound.high)));
    }
  }
}

TEST(JobConfig, WindowMustBeAPowerOfTwo) {
  for (const uint32_t window : {3U, 4095U, 65535U}) {
    EXPECT_THAT(error_of([&](JobConfig& job) { job.block_cnt_max = window; }),
                HasSubstr("a power of two"));
  }
}

TEST(JobConfig, GroupMustBeMulticastAtTheTopOfTheTree) {
  const Endpoint group = Endpoint::ipv4(0xefff0001, 13000);
  EXPECT_EQ(error_of([&](JobConfig& job) { job.group = group; }), "accepted");
  EXPECT_EQ(error_of([](JobConfig& job) { job.group = Endpoint::ipv4(0x0a000001, 13000); }),
            "job 7: group=10.0.0.1:13000 is not allowed; allowed: a multicast address with its "
            "port");
  EXPECT_THAT(error_of([&](JobConfig& job) {
                job.group = group;
                job.upstream = Endpoint::ipv4(0x0a000001, 12000);
              }),
              HasSubstr("a group only where there is no upstream"));
}

TEST(JobConfig, ChannelsTakeConsecutiveJobIds) {
  const JobConfig job{.id = 7,
                      .sources = 4,
                      .room_bytes = 3000,
                      .channels = 3,
                      .group = Endpoint::ipv4(0xefff0001, 13000)};
  for (uint32_t channel = 0; channel < 3; channel++) {
    const JobConfig one = channel_of(job, channel);
    EXPECT_EQ(one.id, 7 + channel);
    EXPECT_EQ(one.sources, 4U);
    EXPECT_EQ(one.room_bytes, 1000U);
    EXPECT_EQ(one.group.port, 13000 + channel);
    EXPECT_EQ(one.channels, channel == 0 ? 3U : 1U);  // Channel 0 states the count for all.
    EXPECT_TRUE(check(one).has_value());
  }
  // Ids and ports must stay within their ranges.
  EXPECT_EQ(error_of([](JobConfig& last) {
              last.id = 253;
              last.channels = 3;
            }),
            "accepted");
  EXPECT_EQ(error_of([](JobConfig& last) {
              last.id = 254;
              last.channels = 3;
            }),
            "job 254: channels=3 is not allowed; allowed: 1 to 2");
  EXPECT_THAT(error_of([](JobConfig& last) {
                last.channels = 3;
                last.group = Endpoint::ipv4(0xefff0001, 65534);
              }),
              HasSubstr("a port up to 65533"));
}

TEST(JobConfig, TreeRanksMustFitTheWorld) {
  const Endpoint upstream = Endpoint::ipv4(0x0a000001, 12000);
  // Sources 0-3 of this aggregator are ranks 4-7 of 8.
  EXPECT_EQ(error_of([&](JobConfig& job) {
              job.upstream = upstream;
              job.upstream_source = 255;
              job.rank_base = 4;
              job.world = 8;
            }),
            "accepted");
  EXPECT_THAT(error_of([&](JobConfig& job) {
                job.upstream = upstream;
                job.upstream_source = 256;
              }),
              HasSubstr("upstream_source=256"));
  EXPECT_THAT(error_of([](JobConfig& job) {
                job.rank_base = 5;
                job.world = 8;
              }),
              HasSubstr("rank_base=5"));
  EXPECT_THAT(error_of([](JobConfig& job) { job.world = 3; }), HasSubstr("world=3"));
  EXPECT_THAT(error_of([](JobConfig& job) { job.world = 257; }), HasSubstr("world=257"));
  // Aggregators as sources may represent any number of ranks.
  EXPECT_EQ(error_of([](JobConfig& job) {
              job.sources_are_aggregators = true;
              job.world = 3;
            }),
            "accepted");
}

// 4,096 blocks in progress and 4,096 results of 4,096 bytes each: at most twice the window.
TEST(JobConfig, MemoryIsAtMostTwiceTheWindow) {
  const JobConfig config{.block_cnt_max = 4096, .block_grad_max = 1024};
  const uint64_t window_bytes = uint64_t{4096} * 4096;
  EXPECT_LE(memory_bytes(config, 1), 2 * window_bytes);
  EXPECT_GT(memory_bytes(config, 1), 2 * window_bytes - window_bytes / 100);
  EXPECT_LT(buffer_count(config, 1), 8192U);
  EXPECT_GE(buffer_count(config, 1), 7168U);  // At least seven eighths.

  const JobConfig largest{.block_cnt_max = 65536, .block_grad_max = 4095};
  EXPECT_LE(memory_bytes(largest, 1), uint64_t{2} * 65536 * 4095 * 4);
}

TEST(JobConfig, EveryBlockAndResultHasABufferIfUnshared) {
  const JobConfig config{.block_cnt_max = 4096, .history = 2, .shared_buffers = false};
  EXPECT_EQ(buffer_count(config, 1), 4096U * 3);
  EXPECT_EQ(buffer_count(config, 4), 1024U * 3);
}

TEST(JobConfig, EachCachedResultTakesABuffer) {
  const JobConfig one{.block_cnt_max = 64, .block_grad_max = 1024, .history = 1};
  JobConfig four = one;
  four.history = 4;
  const uint64_t three_results = uint64_t{3} * 64 * 4096;
  EXPECT_GE(memory_bytes(four, 1) - memory_bytes(one, 1), three_results);
}

TEST(JobConfig, ShardsShareTheWindow) {
  const JobConfig config{.block_cnt_max = 4096, .block_grad_max = 1024};
  EXPECT_EQ(buffer_count(config, 4), buffer_count(config, 1) / 4);
  // A window smaller than one run of blocks may lie on one shard whole.
  const JobConfig small{.block_cnt_max = 32};
  EXPECT_EQ(buffer_count(small, 4), buffer_count(small, 1));
}

/// Adds jobs to a shard with `memory_bytes` of DRAM. @return the first error, or empty.
std::string add_jobs(const std::vector<JobConfig>& jobs, uint64_t dram_bytes) {
  auto memory =
      memory::SharedMemory::create({.sram_size_bytes = 4096, .dram_size_bytes = dram_bytes});
  Shard shard(0, 1, wire::kTrioMlPort, *memory);
  std::vector<std::unique_ptr<Session>> sessions;
  for (const JobConfig& job : jobs) {
    sessions.push_back(std::make_unique<Session>(job, auth::key_of_seed(1)));
    const auto added = shard.add_job(job, *sessions.back(), Instant());
    if (!added) return added.error().text;
  }
  return "";
}

TEST(JobConfig, RefusalOfALargeJobNamesItsKeys) {
  const JobConfig job{.id = 3, .sources = 1, .block_cnt_max = 1024, .block_grad_max = 1024};
  EXPECT_EQ(add_jobs({job}, 8U << 20), "");
  const std::string text = add_jobs({job}, 7U << 20);
  EXPECT_THAT(text, HasSubstr("job 3: block_cnt_max=1024, block_grad_max=1024, history=1 need"));
  EXPECT_THAT(text, HasSubstr(std::to_string(memory_bytes(job, 1))));
}

TEST(JobConfig, SecondJobIsRefusedWithoutFreeMemory) {
  JobConfig job{.id = 1, .sources = 1, .block_cnt_max = 1024, .block_grad_max = 1024};
  JobConfig other = job;
  other.id = 2;
  EXPECT_EQ(add_jobs({job, other}, 18U << 20), "");
  EXPECT_THAT(add_jobs({job, other}, 12U << 20), HasSubstr("job 2"));
}

TEST(JobConfig, RefusesADuplicateId) {
  EXPECT_EQ(add_jobs({{.id = 4}, {.id = 4}}, uint64_t{1} << 30), "job 4: id=4 is configured twice");
}

}  // namespace
}  // namespace tributary::trio_ml
