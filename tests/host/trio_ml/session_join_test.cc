// SPDX-License-Identifier: Apache-2.0
// Method: requests and terms worked by hand, then refusals and deadlines, then random welcomes
// against the rule that no term exceeds either side's limit. Virtual time only.
#include "host/trio_ml/session_join.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/seed.h"

namespace tributary::host {
namespace {

using wire::ControlBody;
using wire::Message;
using wire::MessageType;
using wire::Reason;
using Reply = SessionJoin::Reply;

/// Rank 1 of 4 at job 7, with a deadline of a second.
CommunicatorConfig small_config() {
  CommunicatorConfig config;
  config.server = Endpoint::ipv4(0x0a000001, 12000);
  config.job_id = 7;
  config.rank = 1;
  config.source = 1;
  config.world = 4;
  config.gradients = 352;
  config.window = 64;
  config.deadline = seconds(1);
  return config;
}

Instant at_ms(int64_t ms) { return Instant(milliseconds(ms)); }

Message reply(MessageType type, const ControlBody& body) {
  Message message;
  message.extension.type = type;
  message.body = body;
  return message;
}

Message pending(Reason reason) {
  ControlBody body;
  body.reason = reason;
  body.sources = 4;
  body.mask[0] = 0b0011;
  return reply(MessageType::kPending, body);
}

Message too_many_gradients(uint32_t allowed) {
  ControlBody body;
  body.reason = Reason::kTooManyGradients;
  body.value = allowed;
  return reply(MessageType::kRefusal, body);
}

TEST(SessionJoin, AsksAtOnceAndThenEveryFiftyMilliseconds) {
  const CommunicatorConfig config = small_config();
  SessionJoin join(config, at_ms(10));
  EXPECT_EQ(join.next_deadline(), at_ms(10));
  ASSERT_TRUE(join.request_due(at_ms(10)));
  (void)join.take_request(at_ms(10));
  EXPECT_FALSE(join.request_due(at_ms(59)));
  EXPECT_EQ(join.next_deadline(), at_ms(60));
  EXPECT_TRUE(join.request_due(at_ms(60)));
}

TEST(SessionJoin, ARequestNamesTheProcessAndItsWishes) {
  CommunicatorConfig config = small_config();
  SessionJoin one(config, at_ms(0));
  const ControlBody body = one.take_request(at_ms(0));
  EXPECT_EQ(body.key, 0U);  // It has no cookie yet.
  EXPECT_EQ(body.sources, 4);
  EXPECT_EQ(body.window, 64U);
  EXPECT_EQ(body.gradients_max, 352U);
  EXPECT_EQ(body.channels, 0);  // One thread needs no channels.
  config.threads = 3;
  SessionJoin three(config, at_ms(0));
  EXPECT_EQ(three.take_request(at_ms(0)).channels, 3);
}

TEST(SessionJoin, BeforeTheWelcomeTheTermsAreTheWishes) {
  const CommunicatorConfig config = small_config();
  const SessionJoin join(config, at_ms(0));
  EXPECT_FALSE(join.joined());
  EXPECT_EQ(join.terms().result_key, 0U);
  EXPECT_EQ(join.terms().gradients, 352U);
  EXPECT_EQ(join.terms().window, 1U);
}

TEST(SessionJoin, AWelcomeSetsTheTerms) {
  CommunicatorConfig config = small_config();
  config.threads = 4;
  SessionJoin join(config, at_ms(0));
  ControlBody body;
  body.key = 0x4b;
  body.result_key = 5;
  body.window = 32;          // Below the wish.
  body.gradients_max = 500;  // Above the wish.
  body.channels = 2;
  body.port_bits = 3;
  body.timeout_us = 16'000;
  body.value = 8;
  body.sources = 4;
  EXPECT_EQ(join.on_reply(reply(MessageType::kWelcome, body), at_ms(1)), Reply::kWelcomed);
  EXPECT_TRUE(join.joined());
  EXPECT_FALSE(join.request_due(at_ms(1000)));
  const SessionTerms& terms = join.terms();
  EXPECT_EQ(terms.result_key, 5U);
  EXPECT_EQ(terms.key, 0x4bU);
  EXPECT_EQ(terms.window, 32U);
  EXPECT_EQ(terms.gradients, 352U);
  EXPECT_EQ(terms.channels, 2U);
  EXPECT_EQ(terms.server_ports, 8U);  // 2^3.
  EXPECT_EQ(terms.straggler_timeout, milliseconds(16));
  EXPECT_EQ(terms.rank_base, 8U);
  EXPECT_EQ(terms.sources, 4U);
}

TEST(SessionJoin, RepeatsItsRequestAtOnceWithACookie) {
  const CommunicatorConfig config = small_config();
  SessionJoin join(config, at_ms(0));
  (void)join.take_request(at_ms(0));
  ControlBody body;
  body.key = 0xc00c1e;
  EXPECT_EQ(join.on_reply(reply(MessageType::kCookie, body), at_ms(1)), Reply::kWaits);
  ASSERT_TRUE(join.request_due(at_ms(1)));
  EXPECT_EQ(join.take_request(at_ms(1)).key, 0xc00c1eU);
  EXPECT_EQ(join.next_deadline(), at_ms(50));  // The period goes on.
}

TEST(SessionJoin, ConfirmsItsRequestAtOnce) {
  const CommunicatorConfig config = small_config();
  SessionJoin join(config, at_ms(0));
  (void)join.take_request(at_ms(0));
  EXPECT_EQ(join.on_reply(pending(Reason::kConfirm), at_ms(20)), Reply::kWaits);
  EXPECT_TRUE(join.request_due(at_ms(20)));
}

// An aggregator that answers every request with another cookie gets a bounded number of requests.
TEST(SessionJoin, SendsFewRequestsInAPeriod) {
  const CommunicatorConfig config = small_config();
  SessionJoin join(config, at_ms(0));
  uint32_t requests = 0;
  for (int64_t ms = 0; ms < 100; ms++) {
    if (!join.request_due(at_ms(ms))) continue;
    (void)join.take_request(at_ms(ms));
    requests++;
    ControlBody body;
    body.key = requests;
    (void)join.on_reply(reply(MessageType::kCookie, body), at_ms(ms));
  }
  EXPECT_EQ(requests, 2U * 5U);  // One periodic request and four others, in each of two periods.
}

TEST(SessionJoin, LowersFlexibleGradientsAndAsksAtOnce) {
  CommunicatorConfig config = small_config();
  config.gradients_flexible = true;
  SessionJoin join(config, at_ms(0));
  (void)join.take_request(at_ms(0));
  EXPECT_EQ(join.on_reply(too_many_gradients(64), at_ms(1)), Reply::kWaits);
  EXPECT_TRUE(join.request_due(at_ms(1)));
  EXPECT_EQ(join.take_request(at_ms(1)).gradients_max, 64U);
}

// Requests leave every 50 ms, so several are on the way before the first refusal arrives.
TEST(SessionJoin, IgnoresRefusalsOfEarlierRequests) {
  CommunicatorConfig config = small_config();
  config.gradients_flexible = true;
  SessionJoin join(config, at_ms(0));
  (void)join.take_request(at_ms(0));
  (void)join.take_request(at_ms(50));
  EXPECT_EQ(join.on_reply(too_many_gradients(64), at_ms(60)), Reply::kWaits);
  EXPECT_EQ(join.take_request(at_ms(60)).gradients_max, 64U);
  EXPECT_EQ(join.on_reply(too_many_gradients(64), at_ms(110)), Reply::kWaits);
  EXPECT_FALSE(join.is_refused());
  EXPECT_FALSE(join.request_due(at_ms(99)));
  // No aggregator allows none. Such an answer would repeat for ever.
  EXPECT_EQ(join.on_reply(too_many_gradients(0), at_ms(111)), Reply::kRefused);
}

// A rank's further channels begin later, and have the deadline of the first one.
TEST(SessionJoin, WaitsForASealASecondAfterItsFirstRequest) {
  const CommunicatorConfig config = small_config();
  SessionJoin join(config, at_ms(0));
  EXPECT_FALSE(join.believes_unsealed(at_ms(5000)));
  (void)join.take_request(at_ms(5000));
  EXPECT_FALSE(join.believes_unsealed(at_ms(5001)));
  (void)join.take_request(at_ms(5050));
  EXPECT_FALSE(join.believes_unsealed(at_ms(5999)));
  EXPECT_TRUE(join.believes_unsealed(at_ms(6000)));
  join.vouch();
  EXPECT_FALSE(join.believes_unsealed(at_ms(6000)));
}

/// Returns a directory's answer.
Message other_list(uint8_t entry, uint16_t count, uint64_t digest) {
  ControlBody body;
  body.reason = Reason::kOtherList;
  body.source = entry;
  body.sources = count;
  body.key = digest;
  body.value = 10U + entry;
  body.group = Endpoint::ipv4(0x0a000010U + entry, 12000);
  return reply(MessageType::kRefusal, body);
}

TEST(SessionJoin, AsksADirectoryForEachEntry) {
  const CommunicatorConfig config = small_config();
  SessionJoin join(config, at_ms(0));
  EXPECT_EQ(join.take_request(at_ms(0)).source, 0U);
  EXPECT_EQ(join.on_reply(other_list(0, 2, 99), at_ms(1)), Reply::kWaits);
  EXPECT_EQ(join.on_reply(other_list(0, 2, 99), at_ms(1)), Reply::kWaits);  // A copy.
  EXPECT_TRUE(join.request_due(at_ms(1)));
  EXPECT_EQ(join.take_request(at_ms(1)).source, 1U);
  EXPECT_EQ(join.on_reply(other_list(1, 2, 99), at_ms(2)), Reply::kRedirected);
  ASSERT_EQ(join.redirection().size(), 2U);
  EXPECT_EQ(join.redirection()[1].name, "10.0.0.17:12000");
  EXPECT_EQ(join.redirection()[1].weight, 11U);
}

TEST(SessionJoin, StartsOverIfTheDirectoryChangesItsList) {
  const CommunicatorConfig config = small_config();
  SessionJoin join(config, at_ms(0));
  EXPECT_EQ(join.on_reply(other_list(0, 3, 99), at_ms(1)), Reply::kWaits);
  EXPECT_EQ(join.on_reply(other_list(1, 2, 77), at_ms(2)), Reply::kWaits);
  EXPECT_EQ(join.take_request(at_ms(2)).source, 0U);
  EXPECT_EQ(join.on_reply(other_list(0, 1, 77), at_ms(3)), Reply::kRedirected);
}

TEST(SessionJoin, RefusesListsThatNoJobCanHave) {
  const CommunicatorConfig config = small_config();
  for (const uint16_t count : {uint16_t{0}, uint16_t{kAggregatorsMax + 1}}) {
    SessionJoin join(config, at_ms(0));
    EXPECT_EQ(join.on_reply(other_list(0, count, 99), at_ms(1)), Reply::kRefused);
  }
}

TEST(SessionJoin, RefusalsThatCannotBeMet) {
  CommunicatorConfig config = small_config();
  SessionJoin fixed(config, at_ms(0));
  EXPECT_EQ(fixed.on_reply(too_many_gradients(64), at_ms(1)), Reply::kRefused);
  config.gradients_flexible = true;
  SessionJoin flexible(config, at_ms(0));
  EXPECT_EQ(flexible.on_reply(too_many_gradients(0), at_ms(1)), Reply::kRefused);
  EXPECT_EQ(flexible.on_reply(too_many_gradients(352), at_ms(1)), Reply::kWaits);  // Not fewer.
  ControlBody body;
  body.reason = Reason::kUnknownJob;
  EXPECT_EQ(flexible.on_reply(reply(MessageType::kRefusal, body), at_ms(1)), Reply::kRefused);
}

TEST(SessionJoin, TheDeadlineCountsFromTheStart) {
  const CommunicatorConfig config = small_config();
  const SessionJoin join(config, at_ms(10));
  EXPECT_FALSE(join.check_deadline(at_ms(1009)).has_value());
  const auto reason = join.check_deadline(at_ms(1010));
  ASSERT_TRUE(reason.has_value());
  EXPECT_EQ(reason->status, Status::kAggregatorGone);
}

TEST(SessionJoin, TheLastPendingExplainsTheDeadline) {
  const CommunicatorConfig config = small_config();
  const auto reason_after = [&config](Reason last) {
    SessionJoin join(config, at_ms(0));
    EXPECT_EQ(join.on_reply(pending(last), at_ms(1)), Reply::kWaits);
    return join.check_deadline(at_ms(1000)).value_or(EndReason{});
  };
  EXPECT_EQ(reason_after(Reason::kRankTaken).status, Status::kRefused);
  EXPECT_EQ(reason_after(Reason::kSessionRunning).text, "job 7 is still in use by another session");
  const EndReason peers = reason_after(Reason::kWaitingForPeers);
  EXPECT_EQ(peers.status, Status::kPeerMissing);
  EXPECT_EQ(peers.text, "rank 2, 3 has not joined job 7 within 1.0 s");
}

// Rank 0 gives up waiting for ranks 2 and 3, and so do others after it.
TEST(SessionJoin, RanksThatCameAndWentAreNotToBlame) {
  const CommunicatorConfig config = small_config();
  SessionJoin join(config, at_ms(0));
  Message message = pending(Reason::kWaitingForPeers);
  EXPECT_EQ(join.on_reply(message, at_ms(1)), Reply::kWaits);
  message.body.mask[0] = 0b0010;
  EXPECT_EQ(join.on_reply(message, at_ms(900)), Reply::kWaits);
  EXPECT_EQ(join.check_deadline(at_ms(1000))->text, "rank 2, 3 has not joined job 7 within 1.0 s");
  // If all came at some time, those that are missing at the end are named.
  message.body.mask[0] = 0b1100;
  EXPECT_EQ(join.on_reply(message, at_ms(950)), Reply::kWaits);
  message.body.mask[0] = 0b1011;
  EXPECT_EQ(join.on_reply(message, at_ms(990)), Reply::kWaits);
  EXPECT_EQ(join.check_deadline(at_ms(1000))->text, "rank 2 has not joined job 7 within 1.0 s");
}

TEST(SessionJoin, TheLastPendingNamesTheLevelOfATree) {
  const CommunicatorConfig config = small_config();
  SessionJoin join(config, at_ms(0));
  ControlBody body{.reason = Reason::kWaitingForUpstream, .sources = 4, .mask = {0b1111}};
  static_cast<void>(join.on_reply(reply(MessageType::kPending, body), at_ms(10)));
  // An older aggregator does not name its upper one.
  EXPECT_EQ(join.check_deadline(at_ms(1000))->text,
            "a rank behind another aggregator has not joined job 7 within 1.0 s");
  body.group = Endpoint::ipv4(0x0a000009, 12000);
  static_cast<void>(join.on_reply(reply(MessageType::kPending, body), at_ms(20)));
  EXPECT_EQ(
      join.check_deadline(at_ms(1000))->text,
      "upper aggregator 10.0.0.9:12000 (above 10.0.0.1:12000) waits for its other aggregators "
      "to join job 7 (waited 1.0 s): run tributary who there");
  body.reason = Reason::kUpstreamSilent;
  body.timeout_us = 900'000;
  static_cast<void>(join.on_reply(reply(MessageType::kPending, body), at_ms(30)));
  const auto end = join.check_deadline(at_ms(1000));
  EXPECT_EQ(end->status, Status::kAggregatorGone);
  EXPECT_EQ(end->text,
            "upper aggregator 10.0.0.9:12000 (above 10.0.0.1:12000) has not answered for 0.9 s: "
            "start it, or check upstream= of job 7 and the network between them");
}

TEST(SessionJoin, SaysAfterASecondAndEveryTenWhatItWaitsFor) {
  CommunicatorConfig config = small_config();
  config.deadline = seconds(60);
  SessionJoin join(config, at_ms(0));
  EXPECT_EQ(join.take_notice(at_ms(1'199)), std::nullopt);
  EXPECT_EQ(join.take_notice(at_ms(1'200)),
            "aggregator 10.0.0.1:12000 does not answer (waited 1.2 s)");
  EXPECT_EQ(join.take_notice(at_ms(1'250)), std::nullopt);
  EXPECT_EQ(join.take_notice(at_ms(11'199)), std::nullopt);
  (void)join.on_reply(pending(Reason::kWaitingForPeers), at_ms(11'199));
  EXPECT_EQ(join.take_notice(at_ms(11'200)), "rank 2, 3 has not joined job 7 within 11.2 s");
}

/// A directory's answer makes a worker start over with another list, but not with its clock.
TEST(SessionJoin, ALaterListKeepsTheTimesOfTheNotices) {
  CommunicatorConfig config = small_config();
  config.deadline = seconds(60);
  SessionJoin join(config, at_ms(0));
  EXPECT_EQ(join.take_notice(at_ms(5000)), std::nullopt);
  EXPECT_NE(join.take_notice(at_ms(11'200)), std::nullopt);
}

TEST(SessionJoin, NoTermExceedsEitherLimit) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  testing::Prng prng(seed);
  for (uint32_t step = 0; step < 1000; step++) {
    CommunicatorConfig config = small_config();
    config.window = 1 + prng.below(300);
    config.gradients = 1 + prng.below(4095);
    config.threads = 1 + prng.below(16);
    SessionJoin join(config, at_ms(0));
    ControlBody body;
    body.window = prng.below(300);
    body.gradients_max = prng.below(4096);
    body.channels = static_cast<uint8_t>(prng.below(17));
    ASSERT_EQ(join.on_reply(reply(MessageType::kWelcome, body), at_ms(0)), Reply::kWelcomed);
    const auto agreed = [](uint32_t wish, uint32_t limit) {
      return std::min(wish, std::max(limit, 1U));  // A limit of 0 counts as 1.
    };
    ASSERT_EQ(join.terms().window, agreed(config.window, body.window)) << "step " << step;
    ASSERT_EQ(join.terms().gradients, agreed(config.gradients, body.gradients_max));
    ASSERT_EQ(join.terms().channels, agreed(config.threads, body.channels)) << "step " << step;
  }
}

}  // namespace
}  // namespace tributary::host
