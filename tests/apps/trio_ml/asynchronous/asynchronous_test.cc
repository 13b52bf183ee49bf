// SPDX-License-Identifier: Apache-2.0
// Method: an asynchronous job by hand: pushes, their answers and their repeats; then refusals.
#include "apps/trio_ml/asynchronous/asynchronous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/apps/trio_ml/bed.h"

namespace tributary::trio_ml {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// Blocks of 4, 4 and 2 parameters.
constexpr JobConfig kJob{.id = 1,
                         .sources = 3,
                         .block_cnt_max = 64,
                         .block_grad_max = 4,
                         .asynchronous = true,
                         .parameters = 10};

class Asynchronous : public ::testing::Test {
 protected:
  [[nodiscard]] Message push(uint32_t source, uint32_t block_id, const Values& changes) const {
    Message message = members_[source].contribution(block_id, changes);
    message.extension.tensor_elements = 10;
    return message;
  }
  void deliver(uint32_t source, uint32_t block_id, const Values& changes) {
    bed_.deliver(encoded(push(source, block_id, changes), changes), worker(source));
  }
  /// Pushes and returns the source's answer. Expects no other packet.
  Reply answered(uint32_t source, uint32_t block_id, const Values& changes) {
    deliver(source, block_id, changes);
    return only(source);
  }
  Reply probed(uint32_t source, uint32_t block_id, uint8_t flags = 0) {
    Message probe = members_[source].message(MessageType::kProbe, block_id);
    probe.extension.flags = flags;
    bed_.deliver(encoded(probe), worker(source));
    return only(source);
  }
  Reply only(uint32_t source) {
    auto replies = bed_.take();
    EXPECT_THAT(replies, SizeIs(1));
    if (replies.empty()) return {};
    EXPECT_EQ(replies[0].to, worker(source));
    return replies[0];
  }
  void initialise() {
    const std::vector<Values> initial{{1, 2, 3, 4}, {5, 6, 7, 8}, {9, 10}};
    for (uint32_t block = 0; block < 3; block++) {
      for (uint32_t source = 0; source < 3; source++) {
        deliver(source, block, source == 0 ? initial[block] : Values(initial[block].size()));
      }
    }
    EXPECT_THAT(bed_.take(), SizeIs(9));
  }
  /// Expects that the push is refused, and returns the replies.
  std::vector<Reply> refused(const Message& message, const Values& changes, Outcome why) {
    const uint64_t before = bed_.counted(why);
    const uint64_t added = bed_.counted(Outcome::kAggregated);
    bed_.deliver(encoded(message, changes), worker(message.header.src_id));
    EXPECT_EQ(bed_.counted(why), before + 1);
    EXPECT_EQ(bed_.counted(Outcome::kAggregated), added);
    return bed_.take();
  }

  Bed bed_{kJob};
  const std::vector<Member> members_ = join_all(bed_);
};

TEST_F(Asynchronous, InitialValuesAreThoseOfSource0) {
  deliver(1, 0, {0, 0, 0, 0});
  deliver(2, 0, {0, 0, 0, 1});
  EXPECT_THAT(bed_.take(), IsEmpty());
  deliver(0, 0, {1, 2, 3, 4});
  const auto replies = bed_.take();
  ASSERT_THAT(replies, SizeIs(3));
  for (uint32_t source = 0; source < 3; source++) {
    EXPECT_EQ(replies[source].to, worker(source));
    EXPECT_EQ(replies[source].message.extension.type, MessageType::kResult);
    EXPECT_EQ(replies[source].message.header.src_id, source);  // It is for this source alone.
    EXPECT_EQ(replies[source].message.extension.key, members_[source].result_key);
    EXPECT_EQ(replies[source].message.extension.tensor_elements, 10U);
    EXPECT_THAT(replies[source].gradients, ElementsAre(1, 2, 3, 5));
  }
}

TEST_F(Asynchronous, ProbeOfAHeldPushNamesSource0) {
  deliver(1, 0, {0, 0, 0, 0});
  const Reply have = probed(1, 0);
  EXPECT_EQ(have.message.extension.type, MessageType::kHave);
  EXPECT_EQ(have.message.body.mask[0], 0b110U);
  EXPECT_EQ(probed(2, 0).message.body.mask[0], 0U);  // Asks for the push.
}

TEST_F(Asynchronous, PushIsAnsweredAtOnceAndAlone) {
  initialise();
  EXPECT_THAT(answered(1, 3, {10, 0, 0, 0}).gradients, ElementsAre(11, 2, 3, 4));
  EXPECT_THAT(answered(2, 3, {0, 10, 0, 0}).gradients, ElementsAre(11, 12, 3, 4));
  EXPECT_THAT(answered(2, 5, {1, 1}).gradients, ElementsAre(10, 11));
  const Reply answer = answered(2, 6, {0, 0, 0, 1});  // A push ahead of source 1.
  EXPECT_EQ(answer.message.header.block_id, 6U);
  EXPECT_THAT(answer.gradients, ElementsAre(11, 12, 3, 5));
}

TEST_F(Asynchronous, AnswerCountsThePushesOfOthers) {
  initialise();
  answered(1, 3, {0, 0, 0, 0});
  answered(1, 6, {0, 0, 0, 0});
  answered(2, 3, {0, 0, 0, 0});
  EXPECT_EQ(wire::pushes_of(answered(0, 3, {0, 0, 0, 0}).message), 4U + 2U);
  EXPECT_EQ(wire::pushes_of(answered(0, 6, {0, 0, 0, 0}).message), 1U);
}

TEST_F(Asynchronous, RepeatsAreAnsweredWithoutAdding) {
  initialise();
  answered(1, 3, {10, 0, 0, 0});
  EXPECT_THAT(answered(1, 3, {10, 0, 0, 0}).gradients, ElementsAre(11, 2, 3, 4));
  EXPECT_EQ(bed_.counted(Outcome::kDuplicate), 1U);
  answered(2, 3, {1, 0, 0, 0});
  const Reply value = probed(1, 3, wire::kFlagRun);  // The value of the present.
  EXPECT_EQ(value.message.extension.type, MessageType::kResult);
  EXPECT_EQ(value.message.header.block_id, 3U);
  EXPECT_THAT(value.gradients, ElementsAre(12, 2, 3, 4));
  answered(1, 6, {0, 0, 0, 0});
  deliver(1, 3, {10, 0, 0, 0});  // The source has the answer: it went on.
  EXPECT_THAT(bed_.take(), IsEmpty());
  EXPECT_EQ(bed_.counted(Outcome::kLate), 1U);
}

TEST_F(Asynchronous, ProbeOfARunTellsWhatIsMissing) {
  initialise();
  answered(1, 4, {0, 0, 0, 0});  // Position 3 is missing, 4 is here, 5 is missing.
  const Reply have = probed(1, 3, wire::kFlagRun);
  EXPECT_EQ(have.message.extension.type, MessageType::kHave);
  EXPECT_EQ(have.message.body.mask[0], 0U);
  EXPECT_EQ(have.message.body.present[0], 0b010U);
  EXPECT_EQ(have.message.body.complete[0], 0b010U);
}

TEST_F(Asynchronous, DeadSourceStopsNobody) {
  initialise();
  for (uint32_t i = 0; i < 20; i++) {  // Ten seconds; source 2 is silent.
    bed_.run_until(bed_.now() + milliseconds(500));
    EXPECT_THAT(bed_.take(), IsEmpty());
    answered(0, 3 + 3 * i, {0, 0, 0, 0});
    answered(1, 3 + 3 * i, {1, 0, 0, 0});
  }
  EXPECT_EQ(bed_.job().adopted(), bed_.session().number());
}

TEST_F(Asynchronous, OverflowIsCountedAndTold) {
  initialise();
  const Reply answer = answered(1, 3, {INT32_MAX, 0, 0, 0});
  EXPECT_EQ(answer.message.extension.flags, wire::kFlagOverflow);
  EXPECT_EQ(bed_.counted(Outcome::kParameterOverflow), 1U);
  EXPECT_EQ(answered(2, 3, {0, 0, 0, 0}).message.extension.flags, wire::kFlagOverflow);
}

TEST_F(Asynchronous, ManyAnswersOfOneBurstAreAllRight) {
  initialise();
  for (uint32_t i = 0; i < 100; i++) {
    const Values changes{1, 0, 0, 0};
    bed_.inject(encoded(push(1, 3 + 3 * i, changes), changes), worker(1));
  }
  bed_.run();
  const auto replies = bed_.take();
  ASSERT_THAT(replies, SizeIs(100));
  for (uint32_t i = 0; i < 100; i++) {
    EXPECT_EQ(replies[i].gradients[0], static_cast<int32_t>(2 + i)) << i;
  }
}

// --- Refusals ---

TEST_F(Asynchronous, OtherTensorsAreRefusedByName) {
  Message message = push(1, 0, {0, 0, 0, 0});
  message.extension.format = wire::ElementFormat::kBlockExponent;
  auto replies = refused(message, {0, 0, 0, 0}, Outcome::kNotParameters);
  ASSERT_THAT(replies, SizeIs(1));
  EXPECT_EQ(replies[0].message.body.reason, Reason::kNotParameters);
  EXPECT_EQ(replies[0].message.body.value, 10U);

  message = push(1, 0, {0, 0, 0, 0});
  message.extension.scale_bits = wire::kScaleBitMean;
  EXPECT_THAT(refused(message, {0, 0, 0, 0}, Outcome::kNotParameters), SizeIs(1));

  message = push(1, 0, {0, 0, 0, 0});
  message.extension.tensor_elements = 11;
  EXPECT_THAT(refused(message, {0, 0, 0, 0}, Outcome::kNotParameters), SizeIs(1));
}

TEST_F(Asynchronous, OtherScaleIsToldToAll) {
  initialise();
  Message message = push(1, 3, {0, 0, 0, 0});
  message.extension.format = wire::ElementFormat::kFixedScale;
  const auto replies = refused(message, {0, 0, 0, 0}, Outcome::kTensorDiffers);
  ASSERT_THAT(replies, SizeIs(3));
  for (const Reply& reply : replies) {
    EXPECT_EQ(reply.message.body.reason, Reason::kMismatch);
    EXPECT_EQ(reply.message.body.mask[0], 0b010U);
  }
  // The next one is answered to its source alone.
  EXPECT_THAT(refused(message, {0, 0, 0, 0}, Outcome::kTensorDiffers), SizeIs(1));
}

TEST_F(Asynchronous, OtherPositionsAndLengthsAreRefused) {
  EXPECT_THAT(refused(push(1, 0, {0, 0, 0}), {0, 0, 0}, Outcome::kGradCntDiffers), IsEmpty());
  EXPECT_THAT(refused(push(1, 4, {0, 0, 0, 0}), {0, 0, 0, 0}, Outcome::kWindowExceeded),
              IsEmpty());  // The window is three blocks.
  EXPECT_THAT(refused(push(1, UINT32_MAX, {0, 0}), {0, 0}, Outcome::kLate), IsEmpty());
  Message message = push(1, 0, {0, 0, 0, 0});
  message.extension.key++;
  refused(message, {0, 0, 0, 0}, Outcome::kWrongKey);
  EXPECT_THAT(refused(plain(1, 0, 1, {1, 2}), {1, 2}, Outcome::kSessionRequired), IsEmpty());
}

TEST(AsynchronousJoin, WorkersOfOtherTrainingAreRefused) {
  for (const bool asynchronous : {false, true}) {
    JobConfig job = kJob;
    job.asynchronous = asynchronous;
    job.parameters = asynchronous ? 10 : 0;
    Bed bed(job);
    Message join = join_message(0, 77, 3);
    join.body.asynchronous = !asynchronous;
    const auto replies = deliver_join(bed, join, worker(0));
    ASSERT_THAT(replies, SizeIs(1));
    EXPECT_EQ(replies[0].message.extension.type, MessageType::kRefusal);
    EXPECT_EQ(replies[0].message.body.reason, Reason::kOtherTraining);
    EXPECT_EQ(replies[0].message.body.value, asynchronous ? 1U : 0U);
  }
}

TEST(AsynchronousJoin, TooSmallBlocksAreRefused) {
  Bed bed(kJob);
  Message join = join_message(0, 77, 3);
  join.body.asynchronous = true;
  join.body.gradients_max = 3;
  const auto replies = deliver_join(bed, join, worker(0));
  ASSERT_THAT(replies, SizeIs(1));
  EXPECT_EQ(replies[0].message.body.reason, Reason::kTooFewGradients);
  EXPECT_EQ(replies[0].message.body.value, 4U);
}

TEST(AsynchronousJoin, WindowIsAtMostTheBlocks) {
  Bed bed(kJob);
  join_all(bed);
  EXPECT_EQ(bed.session().welcome_body(0).window, 3U);
}

TEST(AsynchronousJoin, WindowIsAtMostTheBlocksOfTheShare) {
  Bed bed(kJob);
  for (uint32_t round = 0; round < 2; round++) {  // The second join confirms.
    for (uint32_t source = 0; source < 3; source++) {
      Message join = join_message(source, 70 + source, 3);
      join.body.asynchronous = true;
      join.body.share = {.before = 1, .own = 1, .all = 2};
      deliver_join(bed, join, worker(source));
    }
  }
  EXPECT_NE(bed.session().number(), 0U);
  EXPECT_EQ(bed.session().welcome_body(0).window, 2U);
}

}  // namespace
}  // namespace tributary::trio_ml
