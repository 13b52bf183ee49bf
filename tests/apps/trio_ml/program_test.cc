// SPDX-License-Identifier: Apache-2.0
// Method: sums by hand, byte for byte. Then the result cache, several jobs and many sources. Then
// workers on a network that loses, duplicates and reorders, against sums computed separately.
// refusal_test.cc tests refusals.
#include "apps/trio_ml/program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "tests/apps/trio_ml/bed.h"
#include "tests/support/seed.h"

namespace tributary::trio_ml {
namespace {

using engine::PacketLayer;

Bytes hex(std::initializer_list<int> bytes) {
  Bytes made;
  for (const int byte : bytes) made.push_back(static_cast<std::byte>(byte));
  return made;
}

class Program : public ::testing::TestWithParam<PacketLayer> {};

INSTANTIATE_TEST_SUITE_P(Layers, Program,
                         ::testing::Values(PacketLayer::kUdpPayload, PacketLayer::kFrame),
                         [](const auto& layer) {
                           return layer.param == PacketLayer::kFrame ? "Frame" : "UdpPayload";
                         });

// Trio paper Figure 8 by hand: job 1, block 0x01020304, gen 0x0506, two gradients.
TEST_P(Program, SumOfTwoSourcesMatchesHandWrittenBytes) {
  Bed bed({.id = 1, .sources = 2}, GetParam());
  // 1 + 2 = 3; 2^31 - 1 + 1 wraps to -2^31.
  bed.deliver(hex({1, 1, 2, 3, 4, 0, 0, 0, 5, 6, 0, 2, 0, 0, 0, 1, 0x7f, 0xff, 0xff, 0xff}),
              worker(0));
  EXPECT_TRUE(bed.take().empty());
  EXPECT_EQ(bed.job().record.block_curr_cnt, 1U);
  bed.deliver(hex({1, 1, 2, 3, 4, 0, 1, 0, 5, 6, 0, 2, 0, 0, 0, 2, 0, 0, 0, 1}), worker(1));

  const auto sent = bed.take();
  ASSERT_EQ(sent.size(), 2U);
  // src_id 0, src_cnt 2, age_op, final and degraded 0.
  const Bytes expected =
      hex({1, 1, 2, 3, 4, 0, 0, 2, 5, 6, 0, 2, 0, 0, 0, 3, 0x80, 0x00, 0x00, 0x00});
  for (uint32_t i = 0; i < 2; i++) {
    EXPECT_EQ(sent[i].bytes, expected);
    EXPECT_EQ(sent[i].to, worker(i));
  }
  EXPECT_EQ(bed.counts(), (Counts{{"aggregated", 2}, {"block_completed", 1}, {"result_sent", 2}}));
  EXPECT_EQ(bed.job().record.block_curr_cnt, 0U);
  EXPECT_EQ(bed.job().record.block_total_cnt, 1U);
}

TEST_P(Program, FinalBitOfAnySourceIsInTheResult) {
  Bed bed({.id = 1, .sources = 2}, GetParam());
  Message last = plain(0, 0, 0, {1});
  last.header.final = true;
  bed.deliver(encoded(last, {1}), worker(0));
  bed.contribute(1, 0, 0, {2});
  EXPECT_TRUE(bed.take_result(1).message.header.final);
}

TEST_P(Program, EverySizeUpToTheLimitIsSummed) {
  Bed bed({.id = 1, .sources = 3, .block_grad_max = kBlockGradLimit}, GetParam());
  Prng prng(5);
  uint32_t block_id = 0;
  for (const uint32_t grad_cnt :
       {1U, 2U, 7U, 8U, 33U, 45U, 46U, 63U, 64U, 65U, 255U, 256U, 1023U, 1024U, 2048U, 4095U}) {
    Values sum(grad_cnt);
    for (uint32_t source = 0; source < 3; source++) {
      Values mine(grad_cnt);
      for (uint32_t i = 0; i < grad_cnt; i++) {
        mine[i] = prng.any_i32() / 4;  // Three of them cannot overflow.
        sum[i] += mine[i];
      }
      bed.contribute(source, block_id, 0, mine);
    }
    EXPECT_EQ(bed.take_result(0).gradients, sum) << grad_cnt << " gradients";
    block_id++;
  }
}

TEST_P(Program, OneSourceGetsItsOwnValuesBack) {
  Bed bed({.id = 1, .sources = 1}, GetParam());
  bed.contribute(0, 9, 3, {5, -6});
  const Reply result = bed.take_result(0);
  EXPECT_EQ(result.gradients, (Values{5, -6}));
  EXPECT_EQ(result.message.header.src_cnt, 1);
}

TEST_P(Program, DuplicateIsCountedAndNotAdded) {
  Bed bed({.id = 1, .sources = 2}, GetParam());
  bed.contribute(0, 0, 0, {1});
  expect_refused(bed, plain_bytes(0, 0, 0, {1}), worker(0), Outcome::kDuplicate);
  // Not even with other values: a source is counted once.
  expect_refused(bed, plain_bytes(0, 0, 0, {100}), worker(0), Outcome::kDuplicate);
  bed.contribute(1, 0, 0, {2});
  EXPECT_EQ(bed.take_result(0).gradients, Values{3});
}

TEST_P(Program, LateContributionGetsTheResultAndChangesNothing) {
  Bed bed({.id = 1, .sources = 2}, GetParam());
  bed.contribute(0, 0, 0, {1});
  bed.contribute(1, 0, 0, {2});
  const Reply first = bed.take_result(0);
  const Counts before = bed.counts();
  bed.contribute(0, 0, 0, {77});
  const auto again = bed.take();
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(again[0].to, worker(0));
  EXPECT_EQ(again[0].bytes, first.bytes);
  EXPECT_EQ(bed.counted_since(before), (Counts{{"late", 1}, {"result_sent", 1}}));
}

// A small packet with a forged address must not bring a large result to somebody else.
TEST_P(Program, LateContributionOfAnotherSizeGetsNoAnswer) {
  Bed bed({.id = 1, .sources = 2}, GetParam());
  bed.contribute(0, 0, 0, {1, 1, 1});
  bed.contribute(1, 0, 0, {2, 2, 2});
  bed.take();
  const Counts before = bed.counts();
  bed.contribute(0, 0, 0, {1});
  bed.contribute(0, 0, 0, {1, 1, 1, 1});
  EXPECT_TRUE(bed.take().empty());
  EXPECT_EQ(bed.counted_since(before), (Counts{{"late", 2}}));
}

// With a window of four, b's result is kept until b + 4 completes. That takes every source, so
// every source has advanced by then.
TEST_P(Program, ResultIsKeptUntilEverySourceHasAdvanced) {
  Bed bed({.id = 1, .sources = 2, .block_cnt_max = 4}, GetParam());
  for (uint32_t block = 0; block < 4; block++) {
    bed.contribute(0, block, 0, {1});
    bed.contribute(1, block, 0, {static_cast<int32_t>(block)});
  }
  static_cast<void>(bed.take());
  // Source 1 lost block 0's result; source 0 is a window ahead.
  for (uint32_t block = 4; block < 8; block++) bed.contribute(0, block, 0, {1});
  for (uint32_t block = 0; block < 4; block++) {
    bed.contribute(1, block, 0, {50});
    EXPECT_EQ(bed.take_result(1).gradients, Values{1 + static_cast<int32_t>(block)});
  }
  // Source 1 moves on: its contribution to block 4 makes the aggregator drop block 0.
  bed.contribute(1, 4, 0, {2});
  EXPECT_EQ(bed.take_result(1).gradients, Values{3});
  expect_refused(bed, plain_bytes(1, 0, 0, {50}), worker(1), Outcome::kPastCache);
}

TEST_P(Program, LongerHistoryKeepsMoreResults) {
  Bed bed({.id = 1, .sources = 1, .block_cnt_max = 2, .history = 3}, GetParam());
  for (uint32_t block = 0; block < 10; block++) {
    bed.contribute(0, block, 0, {static_cast<int32_t>(block)});
  }
  static_cast<void>(bed.take());
  // Places 0 and 1 keep the last three each: blocks 4, 6, 8 and 5, 7, 9.
  for (uint32_t block = 4; block < 10; block++) {
    bed.contribute(0, block, 0, {1});
    EXPECT_EQ(bed.take_result(0).gradients, Values{static_cast<int32_t>(block)});
  }
  expect_refused(bed, plain_bytes(0, 3, 0, {1}), worker(0), Outcome::kPastCache);
}

// A plain client numbers the blocks of each generation from 0; gen_id runs past 65,535.
TEST_P(Program, BlockIdsRestartWithEachGeneration) {
  Bed bed({.id = 1, .sources = 2, .block_cnt_max = 8}, GetParam());
  for (uint32_t generation = 65'530; generation < 65'545; generation++) {
    const auto gen_id = static_cast<uint16_t>(generation);
    for (uint32_t block = 0; block < 5; block++) {
      const auto value = static_cast<int32_t>(generation * 10 + block);
      bed.contribute(0, block, gen_id, {value});
      bed.contribute(1, block, gen_id, {1});
      const Reply result = bed.take_result(1);
      EXPECT_EQ(result.gradients, Values{value + 1});
      EXPECT_EQ(result.message.header.gen_id, gen_id);
    }
    // A source that lost the last result of the generation before is still answered.
    if (generation > 65'530) {
      bed.contribute(0, 4, gen_id, {0});
      EXPECT_EQ(bed.take_result(0).gradients, Values{static_cast<int32_t>(generation * 10 + 5)});
    }
  }
}

TEST_P(Program, SourceThatMovesGetsResultsAtItsNewAddress) {
  Bed bed({.id = 1, .sources = 2}, GetParam());
  bed.contribute(0, 0, 0, {1});
  bed.deliver(plain_bytes(0, 0, 0, {1}), stranger());  // The same source, restarted elsewhere.
  bed.contribute(1, 0, 0, {2});
  const auto sent = bed.take();
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_EQ(sent[0].to, stranger());
  EXPECT_EQ(sent[0].gradients, Values{3});
}

// Restarted sources never ask for the results of their predecessors.
TEST_P(Program, NewerBlockReplacesAnAbandonedOne) {
  Bed bed({.id = 1, .sources = 2, .block_cnt_max = 4}, GetParam());
  bed.contribute(0, 1, 0, {1000});
  expect_refused(bed, plain_bytes(0, 5, 0, {1}), worker(0), Outcome::kWindowExceeded);
  bed.run_until(bed.now() + seconds(2));
  const Counts before = bed.counts();
  bed.contribute(0, 5, 0, {1});
  EXPECT_EQ(bed.counted_since(before), (Counts{{"aggregated", 1}, {"block_superseded", 1}}));
  EXPECT_EQ(bed.job().record.block_curr_cnt, 1U);
  bed.contribute(1, 5, 0, {2});
  EXPECT_EQ(bed.take_result(0).gradients, Values{3});
  EXPECT_EQ(bed.job().record.block_curr_cnt, 0U);
  expect_refused(bed, plain_bytes(1, 1, 0, {7}), worker(1), Outcome::kPastCache);
}

TEST_P(Program, SourceCount256IsEncodedAsZero) {
  Bed bed({.id = 1, .sources = 256, .block_cnt_max = 2, .block_grad_max = 4}, GetParam());
  for (uint32_t source = 0; source < 256; source++) bed.contribute(source, 0, 0, {1, -1});
  const auto sent = bed.take();
  ASSERT_EQ(sent.size(), 256U);
  for (uint32_t source = 0; source < 256; source++) {
    EXPECT_EQ(sent[source].to, worker(source));
    EXPECT_EQ(sent[source].gradients, (Values{256, -256}));
    EXPECT_EQ(sent[source].message.header.src_cnt, 0);
    EXPECT_FALSE(sent[source].message.header.degraded);
  }
}

TEST_P(Program, MulticastGroupGetsOneResult) {
  const Endpoint group = Endpoint::ipv4(0xefff0001, 13000);
  Bed bed({.id = 1, .sources = 3, .group = group}, GetParam());
  for (uint32_t source = 0; source < 3; source++) bed.contribute(source, 0, 0, {1});
  const auto sent = bed.take();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].to, group);
  EXPECT_EQ(sent[0].gradients, Values{3});
  EXPECT_EQ(bed.counted(Outcome::kResultSent), 1U);
  // A source that retransmits gets the only answer.
  bed.contribute(1, 0, 0, {1});
  EXPECT_EQ(bed.take_result(1).gradients, Values{3});
}

TEST_P(Program, JobsAreIndependent) {
  Bed bed({.jobs = {{.id = 1, .sources = 2, .block_cnt_max = 4},
                    {.id = 2, .sources = 3, .block_cnt_max = 4}},
           .layer = GetParam()});
  const auto of_job_2 = [](uint32_t source, uint32_t block, const Values& values) {
    Message message = plain(source, block, 0, values);
    message.header.job_id = 2;
    return encoded(message, values);
  };
  // Job 2 fills its window with the same block_ids, which no source completes.
  for (uint32_t block = 0; block < 8; block++) bed.deliver(of_job_2(2, block, {1000}), worker(9));
  EXPECT_EQ(bed.counted(Outcome::kWindowExceeded), 4U);
  const uint32_t free_before = bed.job(1).window.buffers_free();
  for (uint32_t block = 0; block < 20; block++) {
    bed.contribute(0, block, 0, {1});
    bed.contribute(1, block, 0, {2});
    EXPECT_EQ(bed.take_result(0).gradients, Values{3});
  }
  EXPECT_EQ(free_before, 8U);  // Four in progress and four results.
  bed.deliver(of_job_2(0, 3, {10}), worker(7));
  bed.deliver(of_job_2(1, 3, {10}), worker(8));
  const auto sent = bed.take();
  ASSERT_EQ(sent.size(), 3U);
  EXPECT_EQ(sent[0].gradients, Values{1020});
  EXPECT_EQ(sent[0].message.header.job_id, 2);
}

/// Workers that follow the paper's rules over a bad network, and the sums they should get.
class BadNetwork {
 public:
  static constexpr uint32_t kSources = 3;
  static constexpr uint32_t kWindow = 4;
  static constexpr uint32_t kBlocks = 60;  // In a generation.
  static constexpr uint32_t kGenerations = 6;

  BadNetwork(uint64_t seed, PacketLayer layer)
      : prng_(seed),
        bed_({.id = 1, .sources = kSources, .block_cnt_max = kWindow}, layer),
        sources_(kSources) {}

  void run() {
    for (uint64_t step = 0; !finished(); step++) {
      ASSERT_LT(step, 1'000'000U) << "no progress";
      bed_.advance(microseconds(5));  // A source has a budget of replies.
      act(prng_.below(kSources));
      take_results();
      if (::testing::Test::HasFailure()) return;
    }
    EXPECT_EQ(bed_.job().record.block_total_cnt, kBlocks * kGenerations);
    EXPECT_EQ(bed_.counted(Outcome::kAggregated), kBlocks * kGenerations * kSources);
    EXPECT_EQ(bed_.counted(Outcome::kBlockDegraded), 0U);
  }

 private:
  struct Source {
    uint32_t generation = 0;
    uint32_t base = 0;  ///< First block whose result is missing.
    std::vector<bool> done = std::vector<bool>(kBlocks + kWindow);
    std::deque<Bytes> on_their_way;
  };

  static int32_t value(uint32_t source, uint32_t generation, uint32_t block, uint32_t i) {
    return static_cast<int32_t>(Prng(generation << 20 | block << 8 | source << 4 | i).any_u32());
  }
  static uint32_t grad_cnt(uint32_t block) { return 1 + block % 7; }
  static uint16_t gen_id(uint32_t generation) { return static_cast<uint16_t>(65'533 + generation); }

  [[nodiscard]] bool finished() const {
    return std::all_of(sources_.begin(), sources_.end(),
                       [](const Source& source) { return source.generation == kGenerations; });
  }

  void act(uint32_t index) {
    Source& source = sources_[index];
    if (source.generation < kGenerations) {
      const uint32_t block = source.base + prng_.below(kWindow);
      if (block < kBlocks && !source.done[block]) {
        Values values(grad_cnt(block));
        for (uint32_t i = 0; i < values.size(); i++) {
          values[i] = value(index, source.generation, block, i);
        }
        source.on_their_way.push_back(plain_bytes(index, block, gen_id(source.generation), values));
      }
    }
    while (source.on_their_way.size() > prng_.below(4)) deliver_one(index);
  }

  /// Delivers, loses or duplicates a packet in flight.
  void deliver_one(uint32_t index) {
    auto& packets = sources_[index].on_their_way;
    const auto chosen = packets.begin() + prng_.below(static_cast<uint32_t>(packets.size()));
    const Bytes packet = *chosen;
    if (!prng_.chance(0.2)) packets.erase(chosen);
    if (!prng_.chance(0.2)) bed_.deliver(packet, worker(index));
  }

  void take_results() {
    for (const Reply& reply : bed_.take()) {
      if (prng_.chance(0.2)) continue;
      const uint32_t index = reply.to.port - worker(0).port;
      Source& source = sources_[index];
      const wire::TrioMlFields& header = reply.message.header;
      if (header.gen_id != gen_id(source.generation)) continue;  // Of the generation before.
      if (header.grad_cnt == 0) continue;  // A notice: the others are generations behind.
      check(reply, source.generation);
      source.done[header.block_id] = true;
      while (source.base < kBlocks && source.done[source.base]) source.base++;
      if (source.base == kBlocks) {
        source.generation++;
        source.base = 0;
        source.done.assign(kBlocks + kWindow, false);
      }
    }
  }

  static void check(const Reply& reply, uint32_t generation) {
    const uint32_t block = reply.message.header.block_id;
    ASSERT_EQ(reply.message.header.src_cnt, kSources);
    ASSERT_EQ(reply.gradients.size(), grad_cnt(block));
    for (uint32_t i = 0; i < reply.gradients.size(); i++) {
      uint32_t sum = 0;
      for (uint32_t source = 0; source < kSources; source++) {
        sum += static_cast<uint32_t>(value(source, generation, block, i));
      }
      ASSERT_EQ(static_cast<uint32_t>(reply.gradients[i]), sum)
          << "generation " << generation << " block " << block;
    }
  }

  Prng prng_;
  Bed bed_;
  std::vector<Source> sources_;
};

TEST_P(Program, BadNetworkNeverCausesAWrongSum) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  BadNetwork(seed, GetParam()).run();
}

}  // namespace
}  // namespace tributary::trio_ml
