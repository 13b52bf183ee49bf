// SPDX-License-Identifier: Apache-2.0
// Method: Hand-worked answers to probes about a run, with blocks in each state. hierarchy_test.cc
// has the questions of a lower aggregator to the upper one.
#include "apps/trio_ml/block_run.h"

#include <gtest/gtest.h>

#include "tests/apps/trio_ml/bed.h"

namespace tributary::trio_ml {
namespace {

using wire::RunMask;

constexpr JobConfig kJob{.id = 1, .sources = 2, .block_cnt_max = 256, .block_grad_max = 8};
constexpr uint32_t kNumber = 0x01020304;

class BlockRun : public ::testing::Test {
 protected:
  void start(const JobConfig& job = kJob) {
    bed_ = std::make_unique<Bed>(job);
    members_ = join_all(*bed_);
  }
  void contribute(uint32_t source, uint32_t block_id) {
    bed_->deliver(members_[source].contribution_bytes(block_id, {1}), worker(source));
  }
  void complete(uint32_t block_id) {
    contribute(0, block_id);
    contribute(1, block_id);
  }
  /// Returns the answer to a probe of source 0 about a block and the rest of its run.
  Message probe_run(uint32_t block_id) {
    static_cast<void>(bed_->take());
    Message probe = members_[0].message(MessageType::kProbe, block_id);
    probe.extension.flags = wire::kFlagRun;
    probe.extension.tensor_elements = kNumber;
    bed_->deliver(encoded(probe, {}), worker(0));
    return bed_->take_result(0).message;
  }

  std::unique_ptr<Bed> bed_;
  std::vector<Member> members_;
};

TEST_F(BlockRun, TellsWhichContributionsArrived) {
  start();
  contribute(1, 0);  // Lacks source 0.
  contribute(0, 2);
  complete(5);
  contribute(0, 127);
  contribute(0, 128);  // In the next run.
  const Message have = probe_run(0);
  EXPECT_EQ(have.extension.type, MessageType::kHave);
  EXPECT_EQ(have.extension.flags, wire::kFlagRun);
  EXPECT_EQ(have.extension.tensor_elements, kNumber);
  EXPECT_EQ(have.body.present, (RunMask{1U << 2 | 1U << 5, uint64_t{1} << 63}));
  EXPECT_EQ(have.body.complete, (RunMask{1U << 5, 0}));
}

TEST_F(BlockRun, CountsFromTheBlockOfTheProbe) {
  start();
  contribute(0, 3);
  contribute(0, 127);
  const Message have = probe_run(3);
  EXPECT_EQ(have.body.present, (RunMask{1, uint64_t{1} << (127 - 3 - 64)}));
  EXPECT_TRUE(contains(have.body.mask, 0));
}

TEST_F(BlockRun, AsksForABlockThatIsNotHere) {
  start();
  contribute(0, 9);
  const Message have = probe_run(8);
  EXPECT_EQ(have.body.mask, SourceMask{});
  EXPECT_EQ(have.body.present, (RunMask{1U << 1, 0}));
}

TEST_F(BlockRun, CompleteBlockIsAnsweredWithItsResultAlone) {
  start();
  complete(0);
  EXPECT_EQ(probe_run(0).extension.type, MessageType::kResult);
}

TEST_F(BlockRun, AsksAboutOneWindowAtMost) {
  JobConfig job = kJob;
  job.block_cnt_max = 4;
  start(job);
  complete(4);  // At the place of block 8.
  complete(5);
  complete(6);
  contribute(0, 7);
  const Message have = probe_run(7);
  EXPECT_EQ(have.body.present, (RunMask{1, 0}));  // Blocks 8 to 10 are new.
}

TEST_F(BlockRun, WithoutTheFlagTheAnswerIsAboutOneBlock) {
  start();
  contribute(0, 1);
  static_cast<void>(bed_->take());
  bed_->deliver(encoded(members_[0].message(MessageType::kProbe, 0), {}), worker(0));
  const Message have = bed_->take_result(0).message;
  EXPECT_EQ(have.extension.type, MessageType::kHave);
  EXPECT_EQ(have.extension.flags, 0);
  EXPECT_EQ(have.body.present, RunMask{});
}

// --- A lower aggregator; the test plays the upper one --------------------------------------------

constexpr uint64_t kUpperKey = 0x77;
Endpoint upper_address() { return Endpoint::ipv4(0x0a0000c8, wire::kTrioMlPort); }

class BlockRunOfATree : public ::testing::Test {
 protected:
  BlockRunOfATree()
      : bed_(JobConfig{.id = 1,
                       .sources = 1,
                       .block_cnt_max = 256,
                       .block_grad_max = 8,
                       .upstream = upper_address(),
                       .world = 2}) {
    Message welcome = upper(MessageType::kWelcome, 0);
    for (const Reply& reply : deliver_join(bed_, join_message(0, 100, 2), worker(0))) {
      if (reply.to == upper_address()) welcome.extension.key = reply.message.extension.key;
    }
    welcome.body.window = 256;
    welcome.body.gradients_max = 8;
    welcome.body.key = 0x4b;
    welcome.body.result_key = kUpperKey;
    bed_.deliver(encoded(welcome), upper_address());
    const Reply reply = bed_.take_result(0);
    member_ = {
        .source = 0, .key = reply.message.body.key, .result_key = reply.message.body.result_key};
  }
  static Message upper(MessageType type, uint32_t block_id) {
    Message message;
    message.header = {.job_id = 1, .block_id = block_id, .extended = true};
    message.extension = {.type = type, .key = kUpperKey};
    return message;
  }
  void contribute(uint32_t block_id) {
    bed_.deliver(member_.contribution_bytes(block_id, {1}), worker(0));
  }
  /// Returns the messages to the upper aggregator since the last call; drops the others.
  std::vector<Message> sent_up() {
    std::vector<Message> messages;
    for (const Reply& packet : bed_.take()) {
      if (packet.to == upper_address()) messages.push_back(packet.message);
    }
    return messages;
  }
  /// Probes block 0 and its run, and returns the question to the upper aggregator.
  Message ask() {
    Message probe = member_.message(MessageType::kProbe, 0);
    probe.extension.flags = wire::kFlagRun;
    bed_.deliver(encoded(probe), worker(0));
    const auto up = sent_up();
    EXPECT_EQ(up.size(), 1U);
    return up.empty() ? Message{} : up.front();
  }
  /// Answers a question, and returns the blocks whose partial sums were sent up for it.
  std::vector<uint32_t> answer(const Message& question, const RunMask& present) {
    Message have = upper(MessageType::kHave, question.header.block_id);
    have.extension.flags = wire::kFlagRun;
    have.extension.tensor_elements = question.extension.tensor_elements;
    have.body.present = present;
    bed_.deliver(encoded(have), upper_address());
    std::vector<uint32_t> blocks;
    for (const Message& message : sent_up()) {
      EXPECT_EQ(message.extension.type, MessageType::kContribution);
      EXPECT_NE(message.extension.flags & wire::kFlagRetransmission, 0);
      blocks.push_back(message.header.block_id);
    }
    return blocks;
  }

  Bed bed_;
  Member member_;
};

TEST_F(BlockRunOfATree, ProbeIsPassedUpForTheFirstBlockThatWaitsThere) {
  contribute(3);
  contribute(5);
  EXPECT_EQ(sent_up().size(), 2U);
  const Message question = ask();
  EXPECT_EQ(question.extension.type, MessageType::kProbe);
  EXPECT_EQ(question.extension.flags & wire::kFlagRun, wire::kFlagRun);
  EXPECT_EQ(question.header.block_id, 3U);
}

TEST_F(BlockRunOfATree, LostPartialSumsAreRepeatedOnce) {
  for (const uint32_t block : {0U, 1U, 2U}) contribute(block);
  static_cast<void>(sent_up());
  bed_.advance(milliseconds(1));
  const Message first = ask();
  const Message second = ask();
  bed_.advance(milliseconds(1));
  contribute(3);  // After the questions, so it may be on its way.
  static_cast<void>(sent_up());
  EXPECT_EQ(answer(first, {1U << 1, 0}), (std::vector<uint32_t>{0, 2}));
  EXPECT_EQ(answer(second, {1U << 1, 0}), (std::vector<uint32_t>{}));
  bed_.advance(milliseconds(1));
  EXPECT_EQ(answer(ask(), {1U << 1, 0}), (std::vector<uint32_t>{0, 2, 3}));
}

TEST_F(BlockRunOfATree, AnAnswerWithoutTheFlagRepeatsNothing) {
  contribute(0);
  static_cast<void>(sent_up());
  bed_.advance(milliseconds(1));
  bed_.deliver(encoded(upper(MessageType::kHave, 0)), upper_address());
  EXPECT_TRUE(sent_up().empty());
}

}  // namespace
}  // namespace tributary::trio_ml
