// SPDX-License-Identifier: Apache-2.0
// Method: questions and answers worked by hand.
#include "apps/trio_ml/session/upstream_watch.h"

#include <gtest/gtest.h>

namespace tributary::trio_ml {
namespace {

using wire::ControlBody;
using wire::Reason;
using Change = UpstreamWatch::Change;

const Endpoint kUpper = Endpoint::ipv4(0x0a000001, 12000);
const Endpoint kTop = Endpoint::ipv4(0x0a000009, 12000);

Instant at_ms(int64_t ms) { return Instant(milliseconds(ms)); }

TEST(UpstreamWatch, TheFirstUnansweredQuestionStartsTheSilence) {
  UpstreamWatch watch;
  EXPECT_EQ(watch.silent_for(at_ms(9000)), Duration());
  watch.asked({.block_id = 7, .gen_id = 2, .grad_cnt = 352}, at_ms(1000));
  watch.asked({.block_id = 8, .gen_id = 2, .grad_cnt = 352}, at_ms(1400));
  EXPECT_EQ(watch.silent_for(at_ms(1500)), milliseconds(500));
  EXPECT_FALSE(watch.is_silent(at_ms(2499)));
  EXPECT_TRUE(watch.is_silent(at_ms(2500)));
  watch.heard();
  EXPECT_EQ(watch.silent_for(at_ms(2500)), Duration());
}

TEST(UpstreamWatch, AnOverdueQuestionIsRepeated) {
  UpstreamWatch watch;
  EXPECT_FALSE(watch.question_to_repeat(at_ms(9000)));
  watch.asked({.block_id = 0xfffffff0, .gen_id = 65535, .grad_cnt = 4095}, at_ms(1000));
  EXPECT_FALSE(watch.question_to_repeat(at_ms(1249)));
  const auto question = watch.question_to_repeat(at_ms(1250));
  ASSERT_TRUE(question);
  EXPECT_EQ(question->block_id, 0xfffffff0U);
  EXPECT_EQ(question->gen_id, 65535);
  EXPECT_EQ(question->grad_cnt, 4095);
  watch.heard();
  EXPECT_FALSE(watch.question_to_repeat(at_ms(9000)));
}

TEST(UpstreamWatch, ChangesAreNotedOnce) {
  UpstreamWatch watch;
  watch.asked({}, at_ms(0));
  EXPECT_EQ(watch.note_change(at_ms(1000)), Change::kNone);
  EXPECT_EQ(watch.note_change(at_ms(1500)), Change::kSilent);
  EXPECT_EQ(watch.note_change(at_ms(2000)), Change::kNone);
  watch.heard();
  EXPECT_EQ(watch.note_change(at_ms(2100)), Change::kHeard);
  EXPECT_EQ(watch.note_change(at_ms(2200)), Change::kNone);
}

TEST(UpstreamWatch, APendingNamesTheAggregatorAtFault) {
  UpstreamWatch watch;
  watch.asked({}, at_ms(0));
  ControlBody body;
  for (const int64_t ms : {100, 699}) {
    watch.describe(body, kUpper, at_ms(ms));
    EXPECT_EQ(body.reason, Reason::kWaitingForUpstream);
    EXPECT_EQ(body.group, kUpper);
  }
  watch.describe(body, kUpper, at_ms(700));
  EXPECT_EQ(body.reason, Reason::kUpstreamSilent);

  body = {};
  watch.describe(body, kUpper, at_ms(2000));
  EXPECT_EQ(body.reason, Reason::kUpstreamSilent);
  EXPECT_EQ(body.group, kUpper);
  EXPECT_EQ(body.timeout_us, 2'000'000U);

  // The upper aggregator answers that the one above it is silent.
  watch.heard();
  watch.take_pending({.reason = Reason::kUpstreamSilent, .timeout_us = 5, .group = kTop});
  body = {};
  watch.describe(body, kUpper, at_ms(2000));
  EXPECT_EQ(body.reason, Reason::kUpstreamSilent);
  EXPECT_EQ(body.group, kTop);
  EXPECT_EQ(body.timeout_us, 5U);

  // It waits for its own sources.
  watch.take_pending({.reason = Reason::kWaitingForPeers});
  body = {};
  watch.describe(body, kUpper, at_ms(2000));
  EXPECT_EQ(body.reason, Reason::kWaitingForUpstream);
  EXPECT_EQ(body.group, kUpper);
}

TEST(UpstreamWatch, AnOlderUpperAggregatorNamesNobody) {
  UpstreamWatch watch;
  watch.take_pending({.reason = Reason::kWaitingForUpstream});
  ControlBody body;
  watch.describe(body, kUpper, at_ms(100));
  EXPECT_EQ(body.group, kUpper);
}

TEST(UpstreamWatch, ATimeOfSilenceFitsItsField) {
  EXPECT_EQ(silence_us(milliseconds(3)), 3000U);
  EXPECT_EQ(silence_us(Duration() - milliseconds(3)), 0U);
  EXPECT_EQ(silence_us(seconds(5000)), UINT32_MAX);  // Above 2^32 us, which are 4,295 s.
}

}  // namespace
}  // namespace tributary::trio_ml
