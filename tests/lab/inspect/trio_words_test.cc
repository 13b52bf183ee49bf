// SPDX-License-Identifier: Apache-2.0
// Method: messages written here byte by byte, and records of a shard with one job.
#include "lab/inspect/trio_words.h"

#include <gtest/gtest.h>

#include <array>

#include "base/prng.h"
#include "tests/support/seed.h"

namespace tributary::lab {
namespace {

using wire::Message;
using wire::MessageType;

TraceValue value(const engine::TraceWord& word, const std::string& name) {
  for (const TraceField& field : word.fields) {
    if (field.name == name) return field.value;
  }
  return std::string("absent");
}

class TrioWordsTest : public ::testing::Test {
 protected:
  TrioWordsTest() {
    config_.sources = 2;
    config_.block_cnt_max = 16;
    EXPECT_TRUE(shard_.add_job(config_, session_, Instant()));
  }
  /// Returns the bytes of a message of job 1, without the values of its gradients.
  [[nodiscard]] engine::TraceWord word_of(const Message& message) const {
    std::array<std::byte, wire::kControlMessageBytes> bytes{};
    const uint32_t head = wire::encode_message(message, bytes.data());
    return words_.message(std::span(bytes).first(head), head + message.header.grad_cnt * 4U);
  }

  trio_ml::JobConfig config_;
  memory::SharedMemory memory_ = *memory::SharedMemory::create({});
  trio_ml::Session session_{config_, auth::key_of_seed(1)};
  trio_ml::Shard shard_{0, 1, 12000, memory_};
  const TrioWords words_{shard_};
};

TEST_F(TrioWordsTest, NamesMessagesAndTheirFields) {
  Message message;
  message.header = {.job_id = 1, .block_id = 35, .src_id = 1, .gen_id = 9, .grad_cnt = 64};
  const auto plain = word_of(message);
  EXPECT_EQ(plain.name, "contribution");
  EXPECT_EQ(value(plain, "job"), TraceValue(uint64_t{1}));
  EXPECT_EQ(value(plain, "block"), TraceValue(uint64_t{35}));
  EXPECT_EQ(value(plain, "source"), TraceValue(uint64_t{1}));
  EXPECT_EQ(value(plain, "slot"), TraceValue(uint64_t{3}));  // 35 modulo the window of 16.
  EXPECT_EQ(value(plain, "generation"), TraceValue(uint64_t{9}));
  EXPECT_EQ(value(plain, "repeated"), TraceValue(std::string("absent")));

  message.header.extended = true;
  message.header.degraded = true;
  message.header.src_cnt = 2;
  message.extension.type = MessageType::kResult;
  message.extension.flags = wire::kFlagRetransmission;
  const auto result = word_of(message);
  EXPECT_EQ(result.name, "result");
  EXPECT_EQ(value(result, "sources_added"), TraceValue(uint64_t{2}));
  EXPECT_EQ(value(result, "degraded"), TraceValue(true));
  EXPECT_EQ(value(result, "repeated"), TraceValue(true));

  message.header.grad_cnt = 0;
  message.extension.type = MessageType::kKeepAlive;
  const auto alive = word_of(message);
  EXPECT_EQ(alive.name, "keep-alive");
  EXPECT_EQ(value(alive, "job"), TraceValue(uint64_t{1}));
  // Block number 0 has no meaning here.
  EXPECT_EQ(value(alive, "block"), TraceValue(std::string("absent")));
}

TEST_F(TrioWordsTest, NamesAnyBytes) {
  Prng prng(testing::seed_from_env());
  for (uint32_t i = 0; i < 20'000; i++) {
    std::array<std::byte, 192> bytes{};
    const uint32_t size = prng.below(bytes.size() + 1);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(prng.below(256));
    EXPECT_FALSE(words_.message(std::span(bytes).first(size), size + prng.below(2)).name.empty());
  }
  EXPECT_EQ(words_.message({}, 0).name, "malformed");
}

TEST_F(TrioWordsTest, NamesRecordsAndCounters) {
  trio_ml::Job& job = *shard_.job(1);
  EXPECT_EQ(words_.target(&shard_).name, "job table");
  EXPECT_EQ(words_.target(&job.record).name, "block table of job 1");
  EXPECT_EQ(words_.target(&shard_.counters()[0]).name, "counter aggregated");
  EXPECT_EQ(words_.target(&shard_.counters()[trio_ml::kOutcomeCount - 1]).name,
            "counter no_buffer");
  EXPECT_EQ(words_.target(this).name, "");
  EXPECT_EQ(words_.target(nullptr).name, "");

  trio_ml::BlockRecord& free_record = job.window.at_place(2);
  EXPECT_EQ(words_.target(&free_record).name, "a free block record");
  trio_ml::BlockTerms terms;
  terms.expected = trio_ml::first_sources(2);
  const auto inserted = job.window.insert({.gen_id = 0, .block_id = 5, .extended = true}, terms,
                                          /*clear_lanes=*/true);
  ASSERT_EQ(inserted.status, trio_ml::BlockWindow::Insert::kCreated);
  trio_ml::include(inserted.block->rcvd_mask, 1);
  inserted.block->admitted = 1;
  const auto record = words_.target(inserted.block);
  EXPECT_EQ(record.name, "record of job 1 block 5");
  EXPECT_EQ(value(record, "state"), TraceValue(std::string("aggregating")));
  EXPECT_EQ(value(record, "admitted"), TraceValue(uint64_t{1}));
  EXPECT_EQ(value(record, "of"), TraceValue(uint64_t{2}));
  EXPECT_EQ(value(record, "sources"), TraceValue(TraceHex{2}));
  EXPECT_EQ(words_.target(job.window.lanes(inserted.block->aggr_buffer)).name,
            "buffer of job 1 block 5");
}

TEST(TrioWords, NamesTheBucketsOfPlacedTables) {
  auto memory = *memory::SharedMemory::create({});
  trio_ml::JobConfig config;
  config.block_cnt_max = 16;
  trio_ml::Session session(config, auth::key_of_seed(1));
  trio_ml::Shard shard(0, 1, 12000, memory);
  ASSERT_TRUE(shard.place_hash_tables());
  ASSERT_TRUE(shard.add_job(config, session, Instant()));
  const TrioWords words(shard);
  const auto job = words.target(shard.job_table()->look_up(config.id).target);
  EXPECT_EQ(job.name, "job table");
  EXPECT_NE(value(job, "bucket"), TraceValue(std::string("absent")));
  const trio_ml::BlockTable& table = *shard.jobs()[0]->table;
  const std::byte* const third = table.buckets().first() + 3 * memory::kHashBucketBytes;
  const auto block = words.target(third);
  EXPECT_EQ(block.name, "block table of job 1");
  EXPECT_EQ(value(block, "bucket"), TraceValue(uint64_t{3}));
  EXPECT_EQ(value(block, "blocks_in_progress"), TraceValue(uint64_t{0}));
  EXPECT_EQ(words.target(table.ref_flag_of(15)).name, "REF flags of job 1");
  EXPECT_NE(words.target(table.ref_flag_of(15) + 8).name, "REF flags of job 1");
}

TEST_F(TrioWordsTest, NamesDropReasons) {
  EXPECT_EQ(words_.drop_reason(static_cast<uint32_t>(trio_ml::Outcome::kDuplicate)), "duplicate");
  EXPECT_EQ(words_.drop_reason(trio_ml::kOutcomeCount), "unknown reason");
}

}  // namespace
}  // namespace tributary::lab
