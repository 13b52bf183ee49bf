// SPDX-License-Identifier: Apache-2.0
// Method: leaves, deadlines and notices worked by hand, then cases that do not end a session.
// Virtual time only.
#include "host/trio_ml/session_end.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace tributary::host {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using wire::Message;
using wire::MessageType;
using wire::Reason;

Instant at_ms(int64_t ms) { return Instant(milliseconds(ms)); }

class SessionEndTest : public ::testing::Test {
 protected:
  /// Rank 1 of 4 at job 7, with a deadline of a second.
  static CommunicatorConfig small_config() {
    CommunicatorConfig config;
    config.server = Endpoint::ipv4(0x0a000001, 12000);
    config.job_id = 7;
    config.rank = 1;
    config.world = 4;
    config.deadline = seconds(1);
    return config;
  }
  static SessionTerms four_sources() {
    SessionTerms terms;
    terms.sources = 4;
    return terms;
  }
  static Message notice(Reason reason) {
    Message message;
    message.extension.type = MessageType::kNotice;
    message.body.reason = reason;
    message.body.source = 2;
    return message;
  }
  /// Returns a sum of ranks 0 and 2 over `tensor_elements` elements.
  static Message sum(uint32_t tensor_elements) {
    Message message;
    message.header.degraded = true;
    message.header.grad_cnt = 4;
    message.extension.type = MessageType::kResult;
    message.extension.tensor_elements = tensor_elements;
    message.mask[0] = 0b0101;
    return message;
  }
  /// Returns the times at which leaves are sent, in ms.
  std::vector<int64_t> leaves_ms() {
    std::vector<int64_t> times;
    for (int64_t ms = 0; ms < 100; ms++) {
      if (!end.leave_due(at_ms(ms))) continue;
      times.push_back(ms);
      end.on_leave_sent(at_ms(ms));
    }
    EXPECT_EQ(end.next_leave(), Instant::never());
    return times;
  }

  const CommunicatorConfig config = small_config();
  const SessionTerms terms = four_sources();
  SessionEnd end{config};
};

TEST_F(SessionEndTest, ARunningSessionSendsNoLeave) {
  EXPECT_FALSE(end.ended());
  EXPECT_EQ(end.status(), Status::kOk);
  EXPECT_THAT(leaves_ms(), IsEmpty());
}

TEST_F(SessionEndTest, FiveLeavesEachTwiceAsLate) {
  end.end(closed(), /*sends_leaves=*/true);
  EXPECT_TRUE(end.ended());
  EXPECT_EQ(end.status(), Status::kClosed);
  EXPECT_THAT(leaves_ms(), ElementsAre(0, 1, 3, 7, 15));
}

TEST_F(SessionEndTest, ARefusedJoinNeedsNoLeave) {
  end.end({Status::kRefused, "refused"}, /*sends_leaves=*/false);
  EXPECT_EQ(end.text(), "refused");
  EXPECT_THAT(leaves_ms(), IsEmpty());
}

TEST_F(SessionEndTest, AnAbandonedJoinSendsLeaves) {
  end.end({Status::kPeerMissing, "nobody came"}, /*sends_leaves=*/true);
  EXPECT_THAT(leaves_ms(), ElementsAre(0, 1, 3, 7, 15));
}

TEST_F(SessionEndTest, BeforeTheDeadlineNothingEnds) {
  EXPECT_FALSE(end.check_deadline({3, at_ms(10)}, at_ms(10), terms, at_ms(1009)).has_value());
  EXPECT_EQ(end.deadline_of(at_ms(10)), at_ms(1010));
}

TEST_F(SessionEndTest, ASilentAggregatorIsGoneAtTheDeadline) {
  // Silent for longer than half the deadline.
  const auto reason = end.check_deadline({3, at_ms(10)}, at_ms(100), terms, at_ms(1010));
  ASSERT_TRUE(reason.has_value());
  EXPECT_EQ(reason->status, Status::kAggregatorGone);
  EXPECT_THAT(reason->text, HasSubstr("has not answered for 0.9 s"));
}

TEST_F(SessionEndTest, MissingRanksAreNamedAtTheDeadline) {
  wire::SourceMask sources{};
  sources[0] = 0b0011;
  end.note_have(3, /*base=*/3, sources, /*upstream=*/false);
  const auto reason = end.check_deadline({3, at_ms(0)}, at_ms(900), terms, at_ms(1000));
  ASSERT_TRUE(reason.has_value());
  EXPECT_EQ(reason->status, Status::kPeerMissing);
  EXPECT_THAT(reason->text, HasSubstr("rank 2, 3 has not contributed to block 3 for 1.0 s"));
}

// Questions and keep-alives are short, so they may pass where contributions do not.
TEST_F(SessionEndTest, ARankWhosePacketsAreLostIsNotToldThatItIsMissing) {
  CommunicatorConfig own = small_config();
  own.source = 1;
  SessionEnd of_rank_1(own);
  wire::SourceMask sources{};
  sources[0] = 0b0101;
  of_rank_1.note_have(3, /*base=*/3, sources, /*upstream=*/false);
  SessionTerms wide = four_sources();
  wide.gradients = 352;
  const auto reason = of_rank_1.check_deadline({3, at_ms(0)}, at_ms(900), wide, at_ms(1000));
  ASSERT_TRUE(reason.has_value());
  EXPECT_EQ(reason->status, Status::kPeerMissing);
  EXPECT_EQ(reason->text,
            "aggregator 10.0.0.1:12000 answers rank 1, but has not received its contribution to "
            "block 3 for 1.0 s: the network may drop packets of 1472 bytes; check the MTU of the "
            "path");
}

// A rank that contributes nothing neither blames its path nor itself.
TEST_F(SessionEndTest, ARankThatOnlyReceivesIsNotMissing) {
  CommunicatorConfig own = small_config();
  own.source = 1;
  SessionEnd of_rank_1(own);
  wire::SourceMask sources{};
  sources[0] = 0b0101;
  of_rank_1.note_have(3, /*base=*/3, sources, /*upstream=*/false, /*receive_only=*/true);
  const auto reason = of_rank_1.check_deadline({3, at_ms(0)}, at_ms(900), terms, at_ms(1000));
  ASSERT_TRUE(reason.has_value());
  EXPECT_EQ(reason->status, Status::kPeerMissing);
  EXPECT_EQ(reason->text,
            "rank 3 has not contributed to block 3 for 1.0 s (aggregator 10.0.0.1:12000 answers)");
  EXPECT_EQ(of_rank_1.missing_at(3, terms)[0], 0b1000U);

  sources[0] = 0b1101;  // All others.
  of_rank_1.note_have(3, /*base=*/3, sources, /*upstream=*/false, /*receive_only=*/true);
  EXPECT_EQ(of_rank_1.check_deadline({3, at_ms(0)}, at_ms(900), terms, at_ms(1000))->text,
            "block 3 is not complete after 1.0 s: rank 1 receives it and contributes nothing, and "
            "without straggler mitigation job 7 waits for every rank");
}

TEST_F(SessionEndTest, TheLowestPositionInFlightIsKept) {
  wire::SourceMask sources{};
  sources[0] = 0b0111;
  end.note_have(1, /*base=*/0, sources, false);
  end.note_have(5, /*base=*/3, {}, false);       // Position 1 is behind the window.
  end.note_have(3, /*base=*/3, sources, false);  // Lower.
  end.note_have(4, /*base=*/3, {}, false);       // Higher: ignored.
  const auto reason = end.check_deadline({3, at_ms(0)}, at_ms(900), terms, at_ms(1000));
  ASSERT_TRUE(reason.has_value());
  EXPECT_THAT(reason->text, HasSubstr("rank 3 has not contributed"));
}

TEST_F(SessionEndTest, ASilentUpperAggregatorIsNamedAtTheDeadline) {
  Message silent = notice(Reason::kUpstreamSilent);
  silent.body.group = Endpoint::ipv4(0x0a000009, 12000);
  silent.body.timeout_us = 500'000;
  end.note_upper_silent(silent.body, at_ms(800));
  EXPECT_FALSE(end.check_deadline({3, at_ms(0)}, at_ms(900), terms, at_ms(999)).has_value());
  const auto reason = end.check_deadline({3, at_ms(0)}, at_ms(900), terms, at_ms(1000));
  ASSERT_TRUE(reason.has_value());
  EXPECT_EQ(reason->status, Status::kAggregatorGone);
  EXPECT_THAT(reason->text, HasSubstr("upper aggregator 10.0.0.9:12000 (above 10.0.0.1:12000) has "
                                      "not answered for 0.7 s"));
  // The notices have ended: it answers once more.
  const auto later = end.check_deadline({3, at_ms(0)}, at_ms(2900), terms, at_ms(2801));
  ASSERT_TRUE(later.has_value());
  EXPECT_EQ(later->status, Status::kPeerMissing);
}

TEST_F(SessionEndTest, WithoutAHaveNoRankIsNamed) {
  end.note_have(5, /*base=*/3, {}, false);  // Concerns another position.
  const auto reason = end.check_deadline({3, at_ms(0)}, at_ms(900), terms, at_ms(1000));
  ASSERT_TRUE(reason.has_value());
  EXPECT_EQ(reason->text, "block 3 is not complete after 1.0 s: some rank has not contributed");
  const auto silent = end.check_deadline({3, at_ms(0)}, at_ms(500), terms, at_ms(1000));
  ASSERT_TRUE(silent.has_value());
  EXPECT_EQ(silent->text,
            "block 3 is not complete after 1.0 s: aggregator 10.0.0.1:12000 was last heard 0.5 s "
            "ago");
}

TEST_F(SessionEndTest, ALostSessionEndsWithoutAPosition) {
  const auto reason = end.on_notice(notice(Reason::kSessionLost), {}, {}, terms);
  ASSERT_TRUE(reason.has_value());
  EXPECT_EQ(reason->status, Status::kSessionLost);
}

TEST_F(SessionEndTest, OtherNoticesNeedAPositionThatWaits) {
  for (const Reason reason : {Reason::kPastCache, Reason::kPeerLeft, Reason::kMismatch}) {
    EXPECT_FALSE(end.on_notice(notice(reason), {}, 3, terms).has_value());
  }
  EXPECT_EQ(end.on_notice(notice(Reason::kPastCache), 3, 3, terms)->status,
            Status::kDesynchronised);
  EXPECT_EQ(end.on_notice(notice(Reason::kPeerLeft), 3, 3, terms)->text,
            "rank 2 has left job 7 while block 3 waits for it");
  EXPECT_EQ(end.on_notice(notice(Reason::kMismatch), 3, 3, terms)->status, Status::kMismatch);
}

TEST_F(SessionEndTest, AnAggregatorThatAPeerHasLostEndsWithoutAPosition) {
  CommunicatorConfig two_aggregators = small_config();
  for (const char* name : {"a", "b"}) two_aggregators.aggregators.push_back({.name = name});
  const SessionEnd sharded(two_aggregators);
  Message told = notice(Reason::kPeerLeft);
  for (const uint32_t place : {0U, 3U}) {  // None, and none of the list.
    told.body.value = place;
    EXPECT_FALSE(sharded.on_notice(told, {}, {}, terms).has_value());
  }
  told.body.value = 2;
  const auto reason = sharded.on_notice(told, {}, {}, terms);
  ASSERT_TRUE(reason.has_value());
  EXPECT_EQ(reason->status, Status::kAggregatorGone);
  EXPECT_EQ(reason->lost_aggregator, 2U);
  EXPECT_EQ(reason->text, "rank 2 has lost aggregator b (2 of 2) and left job 7");
}

TEST_F(SessionEndTest, AStoppedAggregatorEndsWithoutAPosition) {
  const auto reason = end.on_notice(notice(Reason::kServerStopped), {}, {}, terms);
  ASSERT_TRUE(reason.has_value());
  EXPECT_EQ(reason->status, Status::kAggregatorGone);
}

TEST_F(SessionEndTest, ASilentPeerMattersIfAnyPositionWaits) {
  EXPECT_FALSE(end.on_notice(notice(Reason::kPeerSilent), {}, {}, terms).has_value());
  const auto reason = end.on_notice(notice(Reason::kPeerSilent), {}, 7, terms);
  ASSERT_TRUE(reason.has_value());
  EXPECT_EQ(reason->status, Status::kPeerMissing);
  EXPECT_THAT(reason->text, HasSubstr("rank 2 has sent nothing"));
  EXPECT_THAT(reason->text, HasSubstr("block 7 waits"));
}

TEST_F(SessionEndTest, PermanentStragglersDoNotEndASession) {
  EXPECT_FALSE(end.on_notice(notice(Reason::kSourcePermanent), 3, 3, terms).has_value());
  EXPECT_FALSE(end.on_notice(notice(Reason::kSourceReturned), 3, 3, terms).has_value());
}

TEST_F(SessionEndTest, ASumOfAnotherTensorCountsAfterASecondProbe) {
  const wire::TensorTerms ours{.tensor_elements = 8};
  EXPECT_FALSE(end.on_other_tensor(3, sum(16), ours, at_ms(0), at_ms(1)).has_value());
  // A repeat of the same answer: the worker has sent no packet since.
  EXPECT_FALSE(end.on_other_tensor(3, sum(16), ours, at_ms(0), at_ms(2)).has_value());
  const auto reason = end.on_other_tensor(3, sum(16), ours, at_ms(3), at_ms(4));
  ASSERT_TRUE(reason.has_value());
  EXPECT_EQ(reason->status, Status::kMismatch);
  EXPECT_THAT(reason->text, HasSubstr("rank 1 gives the sum of 8 int32 where rank 0, 2 gave"));
}

TEST_F(SessionEndTest, TwoDifferentSumsAreNoProof) {
  const wire::TensorTerms ours{.tensor_elements = 8};
  EXPECT_FALSE(end.on_other_tensor(3, sum(16), ours, at_ms(0), at_ms(1)).has_value());
  EXPECT_FALSE(end.on_other_tensor(3, sum(17), ours, at_ms(2), at_ms(3)).has_value());
  EXPECT_FALSE(end.on_other_tensor(4, sum(17), ours, at_ms(4), at_ms(5)).has_value());
}

}  // namespace
}  // namespace tributary::host
