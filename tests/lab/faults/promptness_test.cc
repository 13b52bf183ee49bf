// SPDX-License-Identifier: Apache-2.0
// Method: a session of two sources, and hand-made datagrams at hand-picked times.
#include "lab/faults/promptness.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <optional>

namespace tributary::lab {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using wire::Message;
using wire::MessageType;

trio_ml::JobConfig two_sources() {
  trio_ml::JobConfig config;
  config.sources = 2;
  config.block_cnt_max = 8;
  config.block_grad_max = 4;
  config.mitigation = true;
  config.timeout = milliseconds(10);
  return config;
}

Instant at_ms(int64_t ms) { return Instant() + milliseconds(ms); }

class Promptness : public ::testing::Test {
 protected:
  void SetUp() override {
    auto made = memory::SharedMemory::create({.sram_size_bytes = 0, .dram_size_bytes = 1 << 20});
    ASSERT_TRUE(made.has_value());
    memory.emplace(*std::move(made));
    auto window = trio_ml::BlockWindow::create(config, 1, *memory);
    ASSERT_TRUE(window.has_value());
    job.emplace(config, session, *std::move(window), /*job_parameters=*/nullptr, /*lane=*/0,
                Instant());
    for (const uint8_t source :
         std::array<uint8_t, 3>{0, 1, 0}) {  // The third join confirms the first.
      Message join;
      join.header = {.job_id = 1, .extended = true, .src_id = source};
      join.extension = {.type = MessageType::kJoin, .key = 100U + source};
      static_cast<void>(session.join(join, Endpoint::ipv4(1 + source, 1), Instant()));
    }
    ASSERT_NE(session.number(), 0U);
  }

  void arrive(uint8_t source, uint32_t block, Instant now) {
    Message message;
    message.header = {.job_id = 1, .block_id = block, .extended = true, .src_id = source};
    message.extension = {.key = session.key_of(source, session.number())};
    judge.on_arrival(&*job, bytes_of(message), now);
  }
  /// A degraded result of these sources.
  void give_up(uint32_t block, std::initializer_list<uint32_t> sources, Instant now) {
    Message message;
    message.header = {.job_id = 1, .block_id = block, .degraded = true, .extended = true};
    message.extension = {.type = MessageType::kResult,
                         .flags = wire::kFlagSourceMask,
                         .key = session.result_key(session.number())};
    for (const uint32_t source : sources) trio_ml::include(message.mask, source);
    judge.on_departure(&*job, bytes_of(message), now);
  }
  void call_permanent(uint8_t source, Instant now) {
    Message message;
    message.header = {.job_id = 1, .extended = true};
    message.extension = {.type = MessageType::kNotice, .key = session.result_key(session.number())};
    message.body.reason = wire::Reason::kSourcePermanent;
    message.body.source = source;
    judge.on_departure(&*job, bytes_of(message), now);
  }
  static std::vector<std::byte> bytes_of(const Message& message) {
    std::vector<std::byte> bytes(wire::kControlMessageBytes);
    bytes.resize(encode_message(message, bytes.data()));
    return bytes;
  }

  const trio_ml::JobConfig config = two_sources();
  std::optional<memory::SharedMemory> memory;
  trio_ml::Session session{config, auth::key_of_seed(1)};
  std::optional<trio_ml::Job> job;
  PromptnessJudge judge{config, /*steady=*/true};
};

TEST_F(Promptness, AcceptsFromOneTimeoutToTwo) {
  for (uint8_t source = 0; source < 2; source++) arrive(source, 0, at_ms(0));
  arrive(0, 1, at_ms(100));
  give_up(1, {0}, at_ms(110));
  arrive(0, 2, at_ms(200));
  give_up(2, {0}, at_ms(220));
  EXPECT_THAT(judge.verdicts(), IsEmpty());
}

TEST_F(Promptness, DetectsABlockThatExpiresTooSoon) {
  arrive(0, 1, at_ms(100));
  give_up(1, {0}, at_ms(109));
  EXPECT_THAT(judge.verdicts(), ElementsAre(HasSubstr("was closed 9.00 ms after")));
}

TEST_F(Promptness, DetectsABlockThatExpiresTooLate) {
  arrive(0, 1, at_ms(100));
  give_up(1, {0}, at_ms(200));  // Source 1 is unheard: it may wait for its welcome.
  EXPECT_THAT(judge.verdicts(), IsEmpty());
  arrive(1, 0, at_ms(300));
  arrive(0, 2, at_ms(400));
  give_up(2, {0}, at_ms(421));
  EXPECT_THAT(judge.verdicts(), ElementsAre(HasSubstr("only 21.00 ms after")));
  arrive(0, 3, at_ms(500));
  arrive(1, 3, at_ms(530));
  EXPECT_THAT(judge.verdicts(), ::testing::Contains(HasSubstr("block 3 has not ended 30.0 ms")));
}

TEST_F(Promptness, DetectsALossOfAnActiveSource) {
  arrive(0, 1, at_ms(100));
  arrive(1, 1, at_ms(1000));
  const size_t before = judge.verdicts().size();  // Block 1 was slow; this test ignores that.
  call_permanent(1, at_ms(1500));
  ASSERT_EQ(judge.verdicts().size(), before + 1);
  EXPECT_THAT(judge.verdicts().back(), HasSubstr("source 1 became permanent 500.00 ms after"));
  // Later blocks end as soon as the others have contributed.
  arrive(0, 2, at_ms(1600));
  give_up(2, {0}, at_ms(1600));
  EXPECT_EQ(judge.verdicts().size(), before + 1);
}

TEST_F(Promptness, SessionEndResetsTheCheckAndForeignPacketsAreIgnored) {
  arrive(0, 1, at_ms(100));
  session.end();
  give_up(1, {0}, at_ms(101));
  judge.on_arrival(nullptr, {}, at_ms(102));
  const std::vector<std::byte> nonsense(7);
  judge.on_arrival(&*job, nonsense, at_ms(103));
  EXPECT_THAT(judge.verdicts(), IsEmpty());
}

}  // namespace
}  // namespace tributary::lab
